//! A hash that runs along with every entry, equal on equal copies (P9).

use crate::apply::Applied;
use crate::cell::Cell;
use ohm_model::{EventKind, Outcome};
use ohm_stdx::{codec, hash};

/// Folds what the last entry caused into the chain.
pub(crate) fn lengthen_chain(cell: &mut Cell, applied: &Applied) {
    let mut chain = hash::chain(cell.chain, cell.applied.0);
    for outcome in &applied.outcomes {
        chain = match outcome {
            Outcome::Done => hash::chain(chain, 1),
            outcome => hash::chain(chain, hash::bytes(&codec::encode(outcome))),
        };
    }
    cell.chain = applied.events.iter().fold(chain, |chain, event| fold_event(chain, &event.kind));
}

/// The kinds of which there are many are folded number by number; encoding them would cost more than causing them.
fn fold_event(chain: u64, kind: &EventKind) -> u64 {
    let place = |tag: u64, job: u64, group: u16, task: u32, last: u64| {
        let chain = hash::chain(chain, tag << 48 | u64::from(group) << 32 | u64::from(task));
        hash::chain(hash::chain(chain, job), last)
    };
    match kind {
        EventKind::Placed { job, group, first, count, node } => {
            place(1, job.0, *group, *first, u64::from(*count) << 32 | u64::from(node.0))
        }
        EventKind::Started { job, group, task, incarnation, node } => {
            place(2, job.0, *group, *task, u64::from(incarnation.0) << 32 | u64::from(node.0))
        }
        EventKind::Ended { job, group, task, incarnation, node, exit, cause } => {
            let chain = place(3, job.0, *group, *task, u64::from(incarnation.0) << 32 | u64::from(node.0));
            match (exit, cause) {
                (ohm_model::Exit::Code(code), None) => hash::chain(chain, u64::from(*code as u32)),
                _ => hash::chain(chain, hash::bytes(&codec::encode(&(exit, cause)))),
            }
        }
        EventKind::JobState { job, name: _, state, reason } => {
            let words = hash::chain(hash::bytes(state.as_bytes()), hash::bytes(reason.as_bytes()));
            place(4, job.0, 0, 0, words)
        }
        kind => hash::chain(chain, hash::bytes(&codec::encode(kind))),
    }
}
