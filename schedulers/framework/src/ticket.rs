//! What the backlog must know about a job, read from the cell.

use crate::explain::{Explanation, Miss, Obstacle};
use crate::planner::Need;
use ohm_cell::{Cell, Job, PODS, has_neighbour_rules, is_ordered_by_usage, is_served_first, preemptions};
use ohm_model::{ClassKind, ResourceId, split_job_name};
use ohm_queueing::{Blocker, Rank, Ticket};
use ohm_stdx::{codec, hash};
use std::cmp::Reverse;
use std::sync::Arc;

/// The place in the order of a job that needs attention.
pub fn rank_of(job: &Job, need: Need) -> Rank {
    Rank {
        // What is reserved is placed before new work, as repairs are.
        urgency: match need {
            Need::Repair => 0,
            Need::Spare => 3,
            _ if job.admission.ready().is_some() => 0,
            Need::Move => 1,
            Need::Start | Need::Grow => 2,
        },
        priority: Reverse(job.spec.priority),
        submitted: job.queued,
        job: job.id,
    }
}

/// The ticket of a job that needs attention.
pub(crate) fn ticket_of(cell: &Cell, job: &Job, need: Need) -> Ticket {
    let rank = rank_of(job, need);
    let nominated = cell.nominations().nominates(job.id);
    let backs_off = preemptions(cell).backs_off(job.id, cell.now_ms());
    let flags = u64::from(nominated) | u64::from(job.reserved.is_empty()) << 1 | u64::from(need == Need::Move) << 2;
    let flags = flags | u64::from(need == Need::Spare) << 3 | u64::from(backs_off) << 4;
    let flags = flags | u64::from(is_served_first(cell, job)) << 5;
    let spares: u64 = job.groups.iter().map(|group| u64::from(group.spares)).sum();
    let counts = u64::from(job.pending()) << 32 | u64::from(job.live());
    // A service moves on when its new tasks are ready; nobody else waits for that.
    let runs =
        if job.kind == ClassKind::Service { job.groups.iter().map(|group| u64::from(group.ready())).sum() } else { 0 };
    let mark = hash::chain(hash::chain(hash::chain(hash::chain(job.version.0, counts), flags), runs), spares);
    let line = Arc::from(job.spec.queue.as_str());
    let is_ordered = is_ordered_by_usage(cell, &job.spec.queue);
    // Where usage orders, who was promised something goes before whoever is first in the line: none keeps it back
    // there, and each is asked whether it is its turn.
    let starts = need == Need::Start && job.live() == 0 && !is_ordered;
    let part = if is_ordered { job.spec.subqueue.as_str() } else { "" };
    let kin = kin_of(cell, job, (part, need), nominated || backs_off);
    Ticket { rank, line, part: part.into(), shard: job.shard, kin, starts, mark }
}

/// Jobs that never ran, ask for the same, for as long, and wait in one part of a queue are kin; every other job is
/// unlike all others.
fn kin_of(cell: &Cell, job: &Job, (part, need): (&str, Need), is_unlike: bool) -> Arc<[u8]> {
    let untouched = job.groups.iter().zip(&job.spec.groups).all(|(group, spec)| group.pending.len() == spec.count);
    if need != Need::Start || is_unlike || !untouched || !job.reserved.is_empty() {
        return codec::encode(&(0u8, job.id)).into();
    }
    let groups: Vec<_> = job
        .groups
        .iter()
        .zip(&job.spec.groups)
        .map(|(group, spec)| {
            (group.offers(), spec.count, spec.min_count, spec.elastic, &spec.topology, &spec.place_with)
        })
        .collect();
    // What one may stop for, and where it ends in time, is not what the other may.
    let grace_ms = job.spec.groups.iter().map(|group| group.task.grace_ms).max();
    let deadline_seconds = job.spec.active_deadline_seconds;
    let ends = (deadline_seconds > 0).then_some((deadline_seconds, grace_ms, job.started_ms));
    // By what the rules of others mean its tasks, as long as there are any.
    let meant = has_neighbour_rules(cell).then(|| {
        let labels: Vec<_> = job.spec.groups.iter().map(|group| &group.labels).collect();
        (split_job_name(&job.spec.name).0, labels)
    });
    codec::encode(&(1u8, (&job.spec.queue, part), (job.spec.preempts, ends), (groups, meant))).into()
}

/// Which change could help a job with this explanation.
pub(crate) fn blocker_of(cell: &Cell, explanation: &Explanation) -> Blocker {
    let Some(job) = cell.jobs().get(explanation.job) else { return Blocker::Job };
    match &explanation.obstacle {
        Obstacle::Quota { queue, .. } | Obstacle::Turn { queue, .. } => {
            Blocker::Quota { root: cell.quota().root(queue).into() }
        }
        Obstacle::Waiting { .. }
        | Obstacle::Held { .. }
        | Obstacle::NoFlavor { .. }
        | Obstacle::Contradiction { .. }
        | Obstacle::TooLarge { .. }
        | Obstacle::EmptyPlan => Blocker::Job,
        Obstacle::Room | Obstacle::Domain { .. } | Obstacle::Stopping { .. } | Obstacle::Conflicts { .. } => {
            if explanation.misses.keys().any(|miss| miss.is_of_neighbours()) {
                return Blocker::Neighbours;
            }
            let resource = scarcest(explanation).or_else(|| first_requested(cell, job, explanation)).unwrap_or(PODS);
            Blocker::Room { resource, asked: smallest_request(cell, job, resource) }
        }
    }
}

/// The resource that most nodes are short of.
fn scarcest(explanation: &Explanation) -> Option<ResourceId> {
    let short = explanation.misses.iter().filter_map(|(miss, nodes)| match miss {
        Miss::Resource(resource) | Miss::Devices(resource) => Some((*nodes, *resource)),
        _ => None,
    });
    short.max().map(|(_, resource)| resource)
}

/// A resource that the group in question asks for, where no nodes were counted.
fn first_requested(cell: &Cell, job: &Job, explanation: &Explanation) -> Option<ResourceId> {
    let requests = &cell.shape_of(job, usize::from(explanation.group.0))?.requests;
    requests.iter().map(|(resource, _)| *resource).find(|resource| *resource != PODS)
}

/// A node with less of `resource` free than this takes no task of the job.
fn smallest_request(cell: &Cell, job: &Job, resource: ResourceId) -> i64 {
    let waits = |group: &usize| !job.groups[*group].pending.is_empty();
    let any = (0..job.groups.len()).any(|group| waits(&group));
    let waiting = (0..job.groups.len()).filter(|group| if any { waits(group) } else { job.spares_missing(*group) > 0 });
    let request_of = |group: usize| {
        let shape = cell.shape_of(job, group)?;
        Some(shape.requests.iter().find(|(column, _)| *column == resource).map_or(0, |(_, amount)| *amount))
    };
    waiting.filter_map(request_of).min().unwrap_or(0)
}
