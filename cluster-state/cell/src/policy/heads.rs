//! Room for the head of a line: kept from the moment it is asked for until the job stands, or its time is over.
//!
//! ```text
//! waits for room ──patience──▶ planner finds where it fits once enough has ended ──▶ rooms are kept there
//!                                                                                     │
//!   what ends there stays free; repairs, moves and more important work pass ◀─────────┤
//!   what surely ends before the planned start runs there meanwhile                    │
//!                                                                                     ▼
//!                       over: it stands · its time is over · a node takes no work · it changed · a more important head
//!                             · what runs in its rooms meanwhile may run for longer now
//! ```
//! Where it could start earlier than planned, other rooms take their place.
//!
//! The rooms are a promise, as a preemptor's are: nobody asks whether there is room yet, and a planner may place the
//! job elsewhere.
//!
//! Invariants, swept: a head is active and waits for at least what is kept for it, on nodes that take its tasks; a line
//! has one head; none is kept beyond its time.

use crate::apply::Tx;
use crate::apply::steps::holds::hold;
use crate::apply::steps::jobs::clear_held;
use crate::cell::Cell;
use crate::rooms::heads::{others_at_head, waits_for_room};
use crate::rooms::nominations::Held;
use crate::rooms::reads::live_runs;
use crate::state::jobs::Job;
use crate::state::nodes::NOMINATED;
use crate::state::timers::Timer;
use ohm_model::{EventKind, HeadStart, JobId, NodeId, Nomination, Purpose};
use ohm_stdx::bug::{self, Bug};
use std::collections::{BTreeMap, BTreeSet};

/// Keeps these rooms, all of one job, which is the head of its line from now on, in place of those it has as such.
pub(crate) fn make_head(tx: &mut Tx<'_>, rooms: &[Nomination]) {
    let Some(&Nomination { job: id, purpose: Purpose::Head { start_ms, is_guess, until_ms }, .. }) = rooms.first()
    else {
        return;
    };
    let former: Vec<JobId> = others_at_head(tx, tx.job(id)).map(|other| other.id).collect();
    former.into_iter().for_each(|other| end_head(tx, other, "a more important job is the head of its line"));
    clear_held(tx, id, Held::is_head);
    let since = tx.index();
    for room in rooms {
        let held = Held::head(tx.job(id), room, since);
        hold(tx, room.node, held);
        tx.arm(until_ms, Timer::Nomination(room.node));
    }
    let nodes = rooms.iter().map(|room| room.node).collect::<BTreeSet<_>>().len() as u32;
    let tasks = rooms.iter().map(|room| room.count).sum();
    let name = tx.job(id).spec.name.clone();
    tx.touch_job(id);
    tx.tell(EventKind::HeadWaits(HeadStart { job: id, name, tasks, nodes, start_ms, is_guess, until_ms }));
}

/// Nothing is kept for `id` as for the head of its line any more.
pub(crate) fn end_head(tx: &mut Tx<'_>, id: JobId, reason: &str) {
    clear_held(tx, id, Held::is_head);
    let name = tx.jobs.get(id).map_or_else(String::new, |job| job.spec.name.clone());
    tx.touch_job(id);
    tx.tell(EventKind::HeadOver { job: id, name, reason: reason.to_string() });
}

/// Ends the heads with rooms on `node` that are as `which` says.
pub(crate) fn end_heads_on(tx: &mut Tx<'_>, node: NodeId, reason: &str, which: impl Fn(&Cell, &Held) -> bool) {
    let on_node = tx.nominations.on_node(node).iter().filter(|held| held.is_head() && which(tx, held));
    let heads: BTreeSet<JobId> = on_node.map(|held| held.job).collect();
    heads.into_iter().for_each(|head| end_head(tx, head, reason));
}

/// Ends heads in whose rooms a job stands that was gone for sure when they start, as it was `known`, and is not now.
pub(crate) fn end_heads_outstayed(tx: &mut Tx<'_>, known: &Job) {
    let job = tx.job(known.id);
    let Some(former_ms) = known.ends_by_ms(tx.now_ms).filter(|_| tx.nominations.has_heads()) else { return };
    let ends_ms = job.ends_by_ms(tx.now_ms).unwrap_or(u64::MAX);
    if ends_ms <= former_ms {
        return;
    }
    let nodes: BTreeSet<NodeId> = live_runs(tx, job).filter(|run| run.stop.is_none()).map(|run| run.node).collect();
    let relies = |held: &Held| held.job != known.id && held.starts_after(former_ms);
    let outstayed = |_: &Cell, held: &Held| relies(held) && !held.starts_after(ends_ms);
    for node in nodes {
        end_heads_on(tx, node, "what runs in its room may run for longer now", outstayed);
    }
}

/// Ends heads that can't use their rooms any more. Called after every command, over the nodes and jobs that it named;
/// where no line has a head it costs one look.
pub(crate) fn settle_heads(tx: &mut Tx<'_>) {
    if !tx.nominations.has_heads() || bug::is_planted(Bug::KeepHeads) {
        return;
    }
    let jobs: BTreeSet<JobId> = tx.touched_jobs().iter().copied().filter(|job| tx.nominations.is_head(*job)).collect();
    // What checks found changes where a job may stand.
    let of_jobs = jobs.iter().flat_map(|job| tx.nominations.of_job(*job).filter(|(_, held)| held.is_head()));
    let mut nodes: BTreeSet<NodeId> = of_jobs.map(|(node, _)| node).collect();
    for id in jobs {
        if !tx.jobs.get(id).is_some_and(|job| waits_for_its_rooms(tx, job)) {
            end_head(tx, id, "it waits no more");
        }
    }
    let nominated = |node: &NodeId| tx.nodes.flags(*node) & NOMINATED != 0;
    nodes.extend(tx.touched_nodes().iter().copied().filter(nominated));
    for node in nodes {
        end_heads_on(tx, node, "a node of it takes no such work any more", |cell, held| !may_stand(cell, held, node));
    }
}

/// Whether the job waits, with as many tasks of each group as room is kept for.
pub(crate) fn waits_for_its_rooms(cell: &Cell, job: &Job) -> bool {
    let mut kept: BTreeMap<u16, u32> = BTreeMap::new();
    for (_, held) in cell.nominations.of_job(job.id).filter(|(_, held)| held.is_head()) {
        *kept.entry(held.group).or_default() += held.count;
    }
    let waits = |(group, count): (&u16, &u32)| {
        job.groups.get(usize::from(*group)).is_some_and(|group| group.pending.len() >= *count)
    };
    waits_for_room(cell, job) && kept.iter().all(waits)
}

/// Whether tasks of the room's group may stand on the node, whatever room there is.
pub(crate) fn may_stand(cell: &Cell, held: &Held, node: NodeId) -> bool {
    let group = cell.jobs.get(held.job).and_then(|job| job.groups.get(usize::from(held.group)));
    cell.nodes.is_schedulable(node) && group.is_some_and(|group| cell.admits(group.shape, node))
}
