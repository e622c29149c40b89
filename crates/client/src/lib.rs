//! ohm-client: filled in below.
