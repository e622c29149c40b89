//! P2: a task has at most one live run in real time, unless its job keeps runs over a disconnect.

use crate::history::{Broken, Record};
use ohm_model::{RunRef, TaskRef};
use std::collections::BTreeMap;

/// What really lives.
#[derive(Default)]
pub(crate) struct SingleRun {
    live: BTreeMap<TaskRef, Vec<(RunRef, String, bool)>>,
}

impl SingleRun {
    pub(crate) fn watch(&mut self, record: &Record, broken: &mut Vec<Broken>) {
        match record {
            Record::Began { at_ms, node, run, keeps, .. } => {
                let live = self.live.entry(run.task).or_default();
                if let Some((other, where_, _)) = live.iter().find(|(_, _, keeps)| !keeps) {
                    let what = format!("at {at_ms} ms run {run} began on {node} while {other} lived on {where_}");
                    broken.push(Broken::new("P2", what));
                }
                live.push((*run, node.clone(), *keeps));
            }
            Record::Over { node, run, .. } => {
                if let Some(live) = self.live.get_mut(&run.task) {
                    live.retain(|(other, where_, _)| (other, where_) != (run, node));
                    if live.is_empty() {
                        self.live.remove(&run.task);
                    }
                }
            }
            Record::Applied { .. }
            | Record::Copied { .. }
            | Record::Acknowledged { .. }
            | Record::Stamped { .. }
            | Record::ClocksMoved { .. } => {}
        }
    }
}
