//! ohm-node: filled in below.
