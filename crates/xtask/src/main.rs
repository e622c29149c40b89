//! `cargo xtask check`: format, lints, layers, purity, docs, tests, licences.
#![forbid(unsafe_code)]

fn main() {}
