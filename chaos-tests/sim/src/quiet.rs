//! What must be true of the cell when everything is quiet again.

use crate::roles::SpoiltPlanner;
use ohm_cell::{Cell, Job, JobState, NodeRecord, Standing};
use ohm_framework::{Answer, Explanation, Miss, Need, Obstacle, explain_job, need_of};
use ohm_model::{GroupIndex, NodeHealth, NodeId, RepairPolicy};
use ohm_oracle::{Broken, KeptBack, Oracle, Reason, ShortQuota, Why};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Once nothing goes wrong any more, a check is ready and a wait is over within this time.
const SETTLED_MS: u64 = 25_000;

/// Reasons that are missing or not true: what a person would be told about each job that waits, asked as the server
/// asks it, and judged by the oracle.
pub(crate) fn wrong_reasons(cell: &Cell, oracle: &Oracle) -> Vec<Broken> {
    let waiting = cell.jobs().iter().filter(|job| job.state == JobState::Active && job.pending() > 0);
    waiting.filter_map(|job| wrong_reason(cell, job, oracle)).collect()
}

/// Jobs that nobody moves on although nothing goes wrong any more.
pub(crate) fn stuck_admissions(cell: &Cell) -> Vec<Broken> {
    let active = cell.jobs().iter().filter(|job| job.state == JobState::Active);
    let stuck = active.filter_map(|job| {
        let late = |since_ms: u64| since_ms + SETTLED_MS < cell.now_ms();
        let round = job.admission.round.as_ref();
        let what = match cell.standing(job) {
            Standing::Checking if round.is_some_and(|round| late(round.since_ms)) => "its checks",
            Standing::BackOff(due_ms) if late(due_ms) => "another attempt",
            Standing::TimedOut(until_ms) if late(until_ms) => "the end of its back-off",
            _ => return None,
        };
        Some(quiet(format!("job {} waits for {what} for ever", job.spec.name)))
    });
    stuck.collect()
}

/// Repairs that wait for room, and to which nobody says that room is owed. What waits for quota, or is given up at
/// once, claims none.
pub(crate) fn unclaimed_repairs(cell: &Cell) -> Vec<Broken> {
    let active = cell.jobs().iter().filter(|job| job.state == JobState::Active);
    let has_quota = |job: &&Arc<Job>| job.spec.queue.is_empty() || !job.reserved.is_empty();
    let active = active.filter(has_quota);
    let repairs = active.filter(|job| need_of(cell, job) == Some(Need::Repair));
    let waits = |job: &&Arc<Job>| {
        let since_ms = job.repairs.open.as_ref().map_or(cell.now_ms(), |open| open.since_ms);
        let at_once = job.spec.repair.policy == RepairPolicy::FailFast && job.is_below_minimum();
        since_ms + SETTLED_MS < cell.now_ms() && !at_once
    };
    let broken = repairs.filter(waits).filter_map(|job| {
        let unclaimed = |group: &GroupIndex| {
            let waits = !job.groups[usize::from(group.0)].pending.is_empty();
            waits && job.may_claim(*group, cell.now_ms()) && cell.nominations().claim(job.id, *group).is_none()
        };
        (0..job.groups.len() as u16).map(GroupIndex).find(unclaimed)?;
        let what = format!("job {} waits to be repaired, and claims no room", job.spec.name);
        Some(Broken { promise: "P7", what })
    });
    broken.collect()
}

/// Nodes that are not in use although all is well with them. `names` are all there are.
pub(crate) fn lost_nodes(cell: &Cell, names: &BTreeSet<&str>) -> Vec<Broken> {
    // What goes back may be gone already. One that booted again as it was taken back stays lost while runs that may
    // live behind it are waited for, and for as long as it may be idle after that.
    let is_gone = |node: NodeId, record: &NodeRecord| {
        let is_waited_for = cell.kept().on_node(node).next().is_some();
        let is_idle = ohm_cell::idle_until_ms(cell, record).is_some_and(|until_ms| until_ms > cell.now_ms());
        !names.contains(record.spec.name.as_str()) && (is_waited_for || is_idle)
    };
    let staying = |node: NodeId, record: &NodeRecord| !record.release.is_on_its_way() && !is_gone(node, record);
    let unready =
        cell.nodes().iter().filter(|(node, record)| record.health != NodeHealth::Ready && staying(*node, record));
    let unready =
        unready.map(|(node, record)| quiet(format!("node {} ({node}) is still {:?}", record.spec.name, record.health)));
    let ailing = cell.nodes().iter().flat_map(|(_, record)| {
        let name = &record.spec.name;
        let said = record.conditions.iter().map(|condition| condition.kind.name());
        said.map(move |kind| quiet(format!("node {name} is said to have {kind}, and is well")))
    });
    let lost = names.iter().filter(|name| cell.nodes().find(name).is_none());
    let lost = lost.map(|name| quiet(format!("node {name} has not joined")));
    unready.chain(ailing).chain(lost).collect()
}

fn quiet(what: String) -> Broken {
    Broken { promise: "P10", what }
}

fn wrong_reason(cell: &Cell, job: &Job, oracle: &Oracle) -> Option<Broken> {
    let mut planner = SpoiltPlanner::new(job.spec.class, Default::default());
    let broken = |what: String| Some(Broken { promise: "P10", what });
    match explain_job(cell, &mut planner, job.id) {
        Answer::Waits(why) => oracle.judge_reason(job.id, &reason(cell, &why)),
        // Whether it has fitted for long is judged apart.
        Answer::Fits { .. } | Answer::Moves { .. } | Answer::LacksSpares { .. } => None,
        // What runs, or backs off, goes first.
        Answer::NeedsNothing { .. } if job.live() > 0 || job.groups.iter().any(|group| group.backing_off > 0) => None,
        answer => broken(format!("job {} waits, and all that is said of it is {answer:?}", job.spec.name)),
    }
}

fn reason(cell: &Cell, why: &Explanation) -> Reason {
    let (mut short, mut quota, mut kept_back) = (None, None, None);
    match &why.obstacle {
        Obstacle::Room | Obstacle::Domain { .. } => short = Some((why.fit, why.of)),
        &Obstacle::Quota { column, asked, available, ceded, .. } => {
            let resource = cell.resources().name(cell.quota().columns().resource(column));
            let resource = match cell.quota().columns().flavor(column) {
                "" => resource.to_string(),
                flavor => format!("{flavor}:{resource}"),
            };
            quota = Some(ShortQuota { resource, asked, available, ceded });
        }
        Obstacle::Held { policy, .. } => kept_back = Some(KeptBack::Held(*policy)),
        Obstacle::Turn { first, .. } => kept_back = Some(KeptBack::Behind(*first)),
        _ => {}
    }
    Reason {
        group: why.group,
        beside: why.beside.clone(),
        text: why.to_text(cell),
        short,
        total_nodes: why.total_nodes,
        open_nodes: why.open_nodes,
        misses: why.misses.iter().map(|(miss, nodes)| (kind(cell, miss), *nodes)).collect(),
        quota,
        kept_back,
    }
}

fn kind(cell: &Cell, miss: &Miss) -> Why {
    match miss {
        Miss::NotReady | Miss::Cordoned | Miss::Draining => Why::Closed,
        Miss::Taint(_) | Miss::NodeSelector | Miss::Affinity => Why::Class,
        Miss::Capacity(resource) => Why::Capacity(cell.resources().name(*resource).to_string()),
        Miss::Resource(resource) => Why::Resource(cell.resources().name(*resource).to_string()),
        Miss::Port(port) => Why::Port(*port),
        Miss::OutsideTopology | Miss::TopologyDomain | Miss::Devices(_) | Miss::LimitPerNode | Miss::Held => Why::Other,
        Miss::PodAffinity(_) | Miss::PodAntiAffinity(_) => Why::Other,
        Miss::PodTopologySpread(_) | Miss::SpreadLabel(_) => Why::Other,
    }
}
