//! ohm-batch: filled in below.
