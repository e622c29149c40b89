//! P7: what a job lost with nodes, and what has to leave them.

use crate::cell::Cell;
use crate::policy::repair_requests::may_ask;
use crate::state::jobs::{Job, JobState, TaskState};
use crate::state::repairs::{RepairState, UnhealthyCause};
use ohm_model::{NodeHealth, NodeId};
use ohm_stdx::RangeSet;
use std::collections::BTreeSet;
/// What is lost waits to be placed, what was placed again is not ready, and a repair is under way exactly then.
pub(crate) fn check_repair(cell: &Cell, job: &Job, broken: &mut Vec<String>) {
    let name = &job.spec.name;
    for group in &job.groups {
        let waiting = |task: u32| {
            let state = group.tasks.get(task as usize).map(|task| task.state);
            matches!(state, Some(TaskState::Pending | TaskState::BackingOff))
        };
        let lost = group.lost.values();
        for task in lost.filter(|task| !waiting(*task)) {
            broken.push(format!("P7: job {name}: task {task} counts as lost and does not wait"));
        }
        let waits = |task: u32| {
            let run = group.tasks.get(task as usize).and_then(|task| cell.runs.get(task.run));
            run.is_some_and(|run| !run.is_ready())
        };
        let replaced = group.replaced.values();
        for task in replaced.filter(|task| !waits(*task)) {
            broken.push(format!("P7: job {name}: task {task} counts as placed again and is ready, or does not stand"));
        }
    }
    if job.repairs.open.is_some() != (job.repair_state() != RepairState::Whole) {
        broken.push(format!("P7: job {name}: repair {:?} while {:?}", job.repairs.open, job.repair_state()));
    }
    if job.repairs.open.as_ref().is_some_and(|open| !open.requests.is_empty()) && !may_ask(job) {
        broken.push(format!("P8: job {name} asks for nodes, and nothing of it that was lost waits for any"));
    }
    let closed = job.state != JobState::Active || job.live() == 0;
    if closed && !(job.repairs.unhealthy.is_empty() && job.repairs.open.is_none()) {
        broken.push(format!("P6: job {name} is {} and still to be repaired", job.phase()));
    }
    for entry in &job.repairs.unhealthy {
        let Some(node) = entry.node else { continue };
        let listed = cell.jobs.with_unhealthy(node).any(|other| other == job.id);
        let health = cell.nodes.get(node).map(|record| record.health);
        if !listed || (entry.cause == UnhealthyCause::Lost && health != Some(NodeHealth::Lost)) {
            broken.push(format!("P7: job {name}: node {} is unhealthy for it and {health:?}", entry.name));
        }
    }
    check_moves(cell, job, broken);
}

/// Nodes that have to be left are unhealthy for exactly the jobs that something of runs there, and each task on
/// the move has room for one.
fn check_moves(cell: &Cell, job: &Job, broken: &mut Vec<String>) {
    let name = &job.spec.name;
    let mut to_leave: BTreeSet<NodeId> = BTreeSet::new();
    for (at, group) in job.groups.iter().enumerate() {
        let live = group.tasks.iter().filter_map(|task| cell.runs.get(task.run));
        let staying = live.filter(|run| run.stop.is_none()).map(|run| (run.shape, run.node));
        let leaving = staying.filter(|(shape, node)| cell.leave_cause(*shape, *node).is_some());
        to_leave.extend(leaving.map(|(_, node)| node));
        let rooms = cell.nominations.of_job(job.id).filter(|(_, held)| held.moves(job.id, at as u16));
        let (mut tasks, mut held) = (RangeSet::default(), 0);
        for (_, room) in rooms {
            held += room.count;
            room.tasks.iter().for_each(|(first, count)| tasks.insert(first, count));
        }
        if held != tasks.len() || tasks != group.moving {
            let moving = &group.moving;
            broken.push(format!("P7: job {name}: {moving:?} are on the move, with {held} rooms, for {tasks:?}"));
        }
        for task in group.moving.values() {
            let found = group.tasks.get(task as usize);
            let stops = found.and_then(|task| cell.runs.get(task.run)).is_some_and(|run| run.stop.is_some());
            if !stops && found.is_none_or(|task| task.state != TaskState::Pending) {
                broken.push(format!("P7: job {name}: task {task} is on the move, and neither stops nor waits"));
            }
        }
    }
    let listed = job.repairs.unhealthy.iter().filter(|entry| entry.cause != UnhealthyCause::Lost);
    let listed: BTreeSet<NodeId> = listed.filter_map(|entry| entry.node).collect();
    if listed != to_leave {
        broken.push(format!("P7: job {name} has to leave {to_leave:?}, and {listed:?} are on its list"));
    }
}
