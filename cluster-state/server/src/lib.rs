//! ohm-server: filled in below.
