//! ohm-wire: filled in below.
