//! ohm-model: filled in below.
