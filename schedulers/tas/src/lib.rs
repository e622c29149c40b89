//! ohm-tas: filled in below.
