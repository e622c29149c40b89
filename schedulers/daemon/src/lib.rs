//! ohm-daemon: filled in below.
