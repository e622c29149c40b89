//! ohm-cell: filled in below.
