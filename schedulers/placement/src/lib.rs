//! ohm-placement: filled in below.
