//! ohm-service: filled in below.
