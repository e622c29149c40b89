//! Room that is kept for waiting repairs, and that it is no lock (P10): never more than the group lacks, for nobody
//! whose job is over, suspended or gone, and not for longer than the job says. Books: what is kept where, from
//! `RoomEarmarked` and `EarmarkGone` alone. (That new work keeps off it: `p7_owed_room`, from books of its own.)

use crate::books::Books;
use crate::facts::Fact;
use crate::history::Broken;
use crate::p7_repairs::Repairs;
use ohm_model::{EventKind, Index, JobId, JobSpec, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// How long room is owed to a repair whose job does not say.
const OWED_MS: u64 = 600_000;
/// Time-outs are looked at once in a while, and nobody looks while no server leads.
const SLACK_MS: u64 = 5_000;
/// Alarms that are further away than this ring up to so much later.
const FAR_MS: u64 = 600_000;
const FAR_SLACK_MS: u64 = 70_000;

/// How long room is owed after a loss.
pub(crate) fn owed_ms(spec: &JobSpec) -> u64 {
    if spec.repair.timeout_seconds == 0 { OWED_MS } else { spec.repair.timeout_seconds * 1000 }
}

/// What is kept for repairs.
#[derive(Default)]
pub(crate) struct Earmarks {
    kept: BTreeMap<(JobId, u16), BTreeMap<NodeId, u32>>,
    closed: BTreeSet<JobId>,
    /// When it was first seen that the time of a claim is over.
    overdue_ms: BTreeMap<(JobId, u16), u64>,
}

impl Earmarks {
    /// What is kept on `node`: for whom, and for how many tasks.
    pub(crate) fn on_node(&self, node: NodeId) -> impl Iterator<Item = (JobId, u16, u32)> + '_ {
        let here = move |on_nodes: &BTreeMap<NodeId, u32>| on_nodes.get(&node).copied();
        self.kept.iter().filter_map(move |((job, group), on_nodes)| Some((*job, *group, here(on_nodes)?)))
    }

    /// What is kept for a group, by node.
    pub(crate) fn kept_for(&self, job: JobId, group: u16) -> impl Iterator<Item = (NodeId, u32)> + '_ {
        self.kept.get(&(job, group)).into_iter().flatten().map(|(node, count)| (*node, *count))
    }

    /// Takes note of one fact.
    pub(crate) fn note(&mut self, index: Index, fact: &Fact<'_>, broken: &mut Vec<Broken>) {
        let Fact::Happened { kind, .. } = *fact else { return };
        match kind {
            EventKind::RoomEarmarked { job, group, node, count, .. } => {
                *self.kept.entry((*job, *group)).or_default().entry(*node).or_insert(0) += count;
            }
            EventKind::EarmarkGone { job, name, group, node, count, .. } => {
                let on_nodes = self.kept.entry((*job, *group)).or_default();
                let left = on_nodes.get(node).copied().unwrap_or(0);
                if left < *count {
                    let what = format!("entry {index}: {count} rooms to repair {name} on {node} are gone, of {left}");
                    broken.push(Broken::new("P10", what));
                }
                on_nodes.insert(*node, left.saturating_sub(*count));
                on_nodes.retain(|_, count| *count > 0);
                self.kept.retain(|_, on_nodes| !on_nodes.is_empty());
            }
            EventKind::JobState { job, state, .. } => match state.as_str() {
                "pending" | "running" => drop(self.closed.remove(job)),
                _ => drop(self.closed.insert(*job)),
            },
            _ => {}
        }
    }

    /// Judges what is kept when an entry with this stamp is over.
    pub(crate) fn entry_over(
        &mut self,
        (index, now_ms): (Index, u64),
        (books, repairs): (&Books, &Repairs),
        broken: &mut Vec<Broken>,
    ) {
        self.overdue_ms.retain(|of, _| self.kept.contains_key(of));
        for (&(job, group), on_nodes) in &self.kept {
            let (kept, lost) = (on_nodes.values().sum::<u32>(), repairs.lost_of(job, group));
            let name = || books.jobs.get(&job).map_or("?", |spec| spec.name.as_str());
            if kept > lost {
                let what =
                    format!("entry {index}: room for {kept} tasks is kept to repair {}, which lacks {lost}", name());
                broken.push(Broken::new("P10", what));
            }
            if self.closed.contains(&job) {
                let what = format!("entry {index}: room is kept to repair {}, which is not to be placed", name());
                broken.push(Broken::new("P10", what));
            }
            let owed_ms = books.jobs.get(&job).map_or(0, owed_ms);
            let until_ms = repairs.last_loss_ms(job).saturating_add(owed_ms);
            if now_ms <= until_ms {
                self.overdue_ms.remove(&(job, group));
                continue;
            }
            let seen_ms = *self.overdue_ms.entry((job, group)).or_insert(now_ms);
            let slack_ms = if owed_ms > FAR_MS { FAR_SLACK_MS } else { SLACK_MS };
            if now_ms.saturating_sub(seen_ms) > slack_ms {
                self.overdue_ms.insert((job, group), u64::MAX);
                let what = format!("entry {index}: room is kept to repair {} although its time is over", name());
                broken.push(Broken::new("P10", what));
            }
        }
    }
}
