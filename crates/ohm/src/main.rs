//! The `ohm` binary: arguments in, roles out, no logic.
#![forbid(unsafe_code)]

fn main() {}
