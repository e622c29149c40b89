//! What a run found.

use ohm_oracle::Broken;
use std::collections::BTreeMap;

/// The outcome of one run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// A hash over everything that happened: equal for equal seeds.
    pub digest: u64,
    /// Promises that did not hold; empty when all is well.
    pub broken: Vec<Broken>,
    /// How often each kind of fault struck.
    pub faults: BTreeMap<&'static str, u64>,
    /// How many rows were refused for each reason.
    pub conflicts: BTreeMap<&'static str, u64>,
    /// Entries applied by the server, restarts included.
    pub entries: u64,
    /// Jobs acknowledged to clients.
    pub acknowledged: u64,
    /// Tasks that really began.
    pub began: u64,
    /// Virtual time at the end.
    pub virtual_ms: u64,
    /// The last things that happened, for people; filled when something broke or a trace was asked for.
    pub trace: Vec<String>,
}
