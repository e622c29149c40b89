//! ohm-runtime: filled in below.
