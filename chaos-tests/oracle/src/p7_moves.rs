//! P7 for moves: only nodes that have to be left are left (they are being drained, or have a condition that drives away
//! what does not tolerate it), nothing is told to leave before room for it is reserved, and that room is in the domain
//! the group stands in. At the deadline of a drain what is left stops without room.

use crate::books::{Books, NodeBook};
use crate::facts::{Fact, Taken};
use crate::history::Broken;
use crate::p6_admission::Admissions;
use crate::p8_hard_constraints::covers;
use ohm_model::{
    Command, EventKind, GroupSpec, Index, JobId, JobSpec, NodeId, Outcome, RepairPolicy, StopCause, Taint, TaintEffect,
    TopologyMode, Transaction,
};
use std::collections::{BTreeMap, BTreeSet};

/// What the entry at hand says of moves.
#[derive(Default)]
pub(crate) struct Moves {
    /// How much room was reserved, by group.
    reserved: BTreeMap<(JobId, u16), i64>,
    /// Nodes whose deadline has passed.
    overdue: BTreeSet<NodeId>,
}

impl Moves {
    /// Takes note of the transactions of an entry, before its facts.
    pub(crate) fn entry_begins(&mut self, index: Index, taken: &[Taken<'_>], books: &Books, broken: &mut Vec<Broken>) {
        *self = Moves::default();
        // Who joins anew in the same entry may stand elsewhere by then.
        let relabels = taken.iter().any(|(command, _)| matches!(command, Command::RegisterNode { .. }));
        for (command, outcome) in taken {
            let (Command::Commit(transaction), Outcome::Verdict(verdict)) = (command, outcome) else { continue };
            let drains = transaction.evict.iter().any(|(_, cause)| *cause == StopCause::Drained);
            if !drains || !verdict.conflicts.is_empty() {
                continue;
            }
            for row in &transaction.nominate {
                *self.reserved.entry((row.job, row.group.0)).or_insert(0) += i64::from(row.count);
            }
            if !relabels {
                judge_domains(index, transaction, books, broken);
            }
        }
    }

    /// Judges one fact; `books` knows of it already.
    pub(crate) fn watch(
        &mut self,
        index: Index,
        fact: &Fact<'_>,
        (books, admissions): (&Books, &Admissions),
        broken: &mut Vec<Broken>,
    ) {
        let Fact::Happened { at_ms, kind } = *fact else { return };
        match kind {
            EventKind::DrainDeadline { node, .. } => drop(self.overdue.insert(*node)),
            EventKind::Stopping { job, group, task, node, cause: StopCause::Drained, .. } => {
                let name = books.jobs.get(job).map_or("?", |spec| spec.name.as_str());
                let spec = books.jobs.get(job).and_then(|spec| spec.groups.get(usize::from(*group)));
                let wish = spec.map(|spec| admissions.filtered(*job, spec));
                if !books.nodes.get(node).is_some_and(|book| may_have_to_leave(book, wish.as_ref(), at_ms)) {
                    let what =
                        format!("entry {index}: task {group}/{task} of {name} leaves node {node}, which may stay");
                    broken.push(Broken::new("P7", what));
                }
                if self.overdue.contains(node) {
                    return;
                }
                let left = self.reserved.entry((*job, *group)).or_insert(0);
                *left -= 1;
                if *left < 0 {
                    let what = format!("entry {index}: task {group}/{task} of {name} is to leave without room for it");
                    broken.push(Broken::new("P7", what));
                }
            }
            _ => {}
        }
    }
}

/// The same for tasks that tolerate its conditions for a while: the time may be over.
fn may_have_to_leave(node: &NodeBook, wish: Option<&GroupSpec>, at_ms: u64) -> bool {
    let for_ever = wish.map(|wish| {
        let mut wish = wish.clone();
        wish.tolerations.retain(|toleration| toleration.toleration_seconds.is_none());
        wish
    });
    must_leave(node, for_ever.as_ref(), at_ms)
}

/// Whether a node drives away the tasks of a group: it is being drained, or has a condition that they don't tolerate.
pub(crate) fn must_leave(node: &NodeBook, wish: Option<&GroupSpec>, at_ms: u64) -> bool {
    let covered = |taint: &Taint| wish.is_some_and(|wish| wish.tolerations.iter().any(|one| covers(one, taint)));
    let drives = |taint: &Taint| taint.effect == TaintEffect::NoExecute && !covered(taint);
    node.draining || node.ailments.taints(at_ms).iter().any(drives)
}

/// Room is reserved where what stays of the group, and of those placed with it, stands; if nothing stays, in one
/// domain.
fn judge_domains(index: Index, transaction: &Transaction, books: &Books, broken: &mut Vec<Broken>) {
    let leaving: BTreeSet<(JobId, u16, u32)> =
        transaction.evict.iter().map(|(run, _)| (run.task.job, run.task.group.0, run.task.task.0)).collect();
    let mut chosen: BTreeMap<(JobId, u16), Vec<String>> = BTreeMap::new();
    for row in &transaction.nominate {
        let Some(spec) = books.jobs.get(&row.job) else { continue };
        let Some(wish) = spec.groups.get(usize::from(row.group.0)) else { continue };
        // How far a repair has gone is judged elsewhere.
        if wish.topology.mode != TopologyMode::Required || spec.repair.policy == RepairPolicy::Widen {
            continue;
        }
        let domain = |node: NodeId| books.domain(&wish.topology.topology, &wish.topology.level, node);
        let partners = partners(spec, row.group.0);
        let stays = partners.iter().find_map(|group| {
            let mut live = books.live(row.job, *group);
            let (_, standing) = live.find(|(task, at)| !at.stopping && !leaving.contains(&(row.job, *group, *task)))?;
            domain(standing.node)
        });
        let (Some(fixed), Some(room)) = (
            stays.or_else(|| Some(chosen.entry((row.job, partners[0])).or_insert(domain(row.node)?).clone())),
            domain(row.node),
        ) else {
            continue;
        };
        if fixed != room {
            let what = format!(
                "entry {index}: room for {}/{} is reserved in {room:?}, it stands in {fixed:?}",
                spec.name, wish.name
            );
            broken.push(Broken::new("P7", what));
        }
    }
}

/// The groups that share one domain with `group`, itself among them.
fn partners(spec: &JobSpec, group: u16) -> Vec<u16> {
    let label = |at: u16| spec.groups[usize::from(at)].place_with.as_str();
    let together = |other: &u16| *other == group || (!label(group).is_empty() && label(*other) == label(group));
    (0..spec.groups.len() as u16).filter(together).collect()
}
