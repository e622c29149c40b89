//! P9: the same log gives the same state on every copy.

use crate::history::Broken;
use ohm_model::Index;
use std::collections::BTreeMap;

/// The running hash at each index, by the first copy that got there.
#[derive(Default)]
pub(crate) struct EqualCopies {
    chains: BTreeMap<Index, (u64, String)>,
}

impl EqualCopies {
    /// Compares; returns whether this copy is the first one at `index`.
    pub(crate) fn watch(&mut self, copy: &str, index: Index, chain: u64, broken: &mut Vec<Broken>) -> bool {
        match self.chains.get(&index) {
            Some((known, first)) => {
                if *known != chain {
                    let what = format!("at entry {index} copy {copy} has {chain:016x}, copy {first} has {known:016x}");
                    broken.push(Broken::new("P9", what));
                }
                false
            }
            None => {
                self.chains.insert(index, (chain, copy.to_string()));
                true
            }
        }
    }
}
