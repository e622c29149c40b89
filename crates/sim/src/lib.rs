//! ohm-sim: filled in below.
