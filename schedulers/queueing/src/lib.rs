//! ohm-queueing: filled in below.
