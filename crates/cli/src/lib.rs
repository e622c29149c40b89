//! ohm-cli: filled in below.
