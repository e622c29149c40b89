//! ohm-framework: filled in below.
