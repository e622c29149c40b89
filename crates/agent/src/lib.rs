//! ohm-agent: filled in below.
