//! ohm-replica: filled in below.
