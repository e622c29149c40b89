//! ohm-health: filled in below.
