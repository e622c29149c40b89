//! ohm-oracle: filled in below.
