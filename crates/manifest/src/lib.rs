//! ohm-manifest: filled in below.
