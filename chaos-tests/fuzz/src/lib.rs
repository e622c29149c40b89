//! What a stranger, a damaged disk or another version can hand to Ohm, as functions of bytes: one target for each edge.
//!
//! ```text
//! cargo xtask fuzz ──▶ driver/ (libFuzzer, coverage) ──input──▶ Target::run ──▶ the product's own parsers and cores
//! cargo test       ──▶ tests/kept.rs ─ seeds, corpus/, found/ ──▶ Target::run
//! ```
//! A target panics when something is wrong: a parser panicked, what was read is not what was written, a refused command
//! changed something, an invariant is broken. The driver bounds time and memory of each input. See `README.md`.

mod cell;
mod pieces;
mod targets;

/// One edge.
pub struct Target {
    /// Its name, and that of its folders in `corpus/` and `found/`.
    pub name: &'static str,
    /// Takes one input; panics when it finds something wrong.
    pub run: fn(&[u8]),
    /// Inputs to start from, made by the code that writes such bytes, so that they never are of an older format.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every edge.
pub const TARGETS: &[Target] = &[
    Target { name: "manifest", run: targets::manifest::run, seeds: targets::manifest::seeds },
    Target { name: "plan", run: targets::plan::run, seeds: targets::plan::seeds },
    Target { name: "http", run: targets::http::run, seeds: targets::http::seeds },
    Target { name: "rpc", run: targets::rpc::run, seeds: targets::rpc::seeds },
    Target { name: "wire", run: targets::wire::run, seeds: targets::wire::seeds },
    Target { name: "commands", run: targets::commands::run, seeds: targets::commands::seeds },
    Target { name: "snapshot", run: targets::snapshot::run, seeds: targets::snapshot::seeds },
    Target { name: "wal", run: targets::wal::run, seeds: targets::wal::seeds },
    Target { name: "words", run: targets::words::run, seeds: targets::words::seeds },
    Target { name: "etcd", run: targets::etcd::run, seeds: targets::etcd::seeds },
    Target { name: "journal", run: targets::journal::run, seeds: targets::journal::seeds },
];

/// The target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
