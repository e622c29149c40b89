//! ohm-log: filled in below.
