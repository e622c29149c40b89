//! ohm-log-raft: filled in below.
