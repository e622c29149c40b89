//! Comparing a cell with its model, thing by thing.

use crate::admission::{PlainAdmission, PlainCheck};
use crate::brought::PlainRelease;
use crate::ready::PlainReady;
use crate::repair_requests::PlainRequest;
use crate::state::{GPU, Phase, PlainJob, State};
use crate::world::World;
use ohm_cell::{CORDONED, CheckState, Finish, Job, JobState, NO_FLAVOR, Release, SHRUNK, TaskState, UnhealthyCause};
use ohm_model::{NodeId, RunRef};
use ohm_stdx::RangeSet;
use std::collections::{BTreeMap, BTreeSet};

impl World {
    /// The first difference, in words.
    pub(crate) fn compare(&self) -> Result<(), String> {
        let (cell, plain) = (&self.cell, &self.plain);
        let jobs = plain.jobs.len();
        same("jobs", cell.jobs().len(), jobs)?;
        same("runs", cell.runs().len(), plain.runs.len())?;
        same("nodes", cell.nodes().len(), plain.nodes.len())?;
        let classes = cell.priority_classes().iter().map(|class| (class.name.clone(), class.value));
        same("priority classes", classes.collect(), plain.priority_classes.clone())?;
        for (id, job) in &plain.jobs {
            let found = cell.jobs().get(*id).ok_or(format!("job {} is missing", job.spec.name))?;
            compare_job(found, job).map_err(|problem| format!("job {}: {problem}", job.spec.name))?;
        }
        for run in &plain.runs {
            let job = cell.jobs().get(run.job).ok_or("a run of a job that is missing")?;
            let slot = job.groups[usize::from(run.group)].tasks[run.task as usize].run;
            let found = cell.runs().get(slot).ok_or(format!("{run:?} is missing"))?;
            let masks = found.devices.as_deref().unwrap_or(&[]).to_vec();
            let name = format!("run {}", found.run);
            same(&name, (found.node, found.stop, masks), (run.node, run.stop, run.masks.clone()))?;
            same(&format!("restart of {name}"), found.restart, run.restart)?;
        }
        for &node in plain.nodes.keys() {
            self.compare_node(node)?;
        }
        for queue in plain.queues.keys() {
            for resource in ["cpu", "memory", "pods", GPU] {
                let name = format!("{resource} of queue {queue}");
                let column = cell.resources().find(resource);
                let column = column.and_then(|resource| cell.quota().columns().find(NO_FLAVOR, resource));
                let available = column.and_then(|column| cell.quota().available(queue, column));
                same(&name, available, plain.available(queue, resource))?;
                let used = cell.quota().get(queue).zip(column).map_or(0, |(found, column)| found.used(column));
                same(&name, used, plain.usage(queue, resource))?;
            }
        }
        let held = cell.nominations().iter();
        let held = held.map(|(node, held)| {
            let tasks: Vec<u32> = held.tasks.values().collect();
            (node, held.job, held.group, held.count, tasks, held.purpose)
        });
        let expected = plain.holds.iter().map(|hold| {
            let tasks: Vec<u32> = hold.tasks.iter().copied().collect();
            (hold.node, hold.job, hold.group, hold.count, tasks, hold.purpose)
        });
        let (mut held, mut expected): (Vec<_>, Vec<_>) = (held.collect(), expected.collect());
        held.sort();
        expected.sort();
        same("nominations", held, expected)?;
        let claims = cell.nominations().claims().map(|(of, claim)| (of, claim.sought_for as usize)).collect();
        same("claims", claims, plain.claims.clone())?;
        let kept =
            cell.kept().iter().map(|(run, kept)| (*run, kept.node, kept.back.map(|after| after.map(|one| one.0))));
        let expected = plain.kept.iter().map(|kept| {
            let run = &kept.run;
            (RunRef::new(run.job, run.group, run.task, run.incarnation), run.node, kept.back)
        });
        same::<Vec<_>>("kept runs", kept.collect(), expected.collect())
    }

    fn compare_node(&self, node: NodeId) -> Result<(), String> {
        let (nodes, expected) = (self.cell.nodes(), &self.plain.nodes[&node]);
        let name = &expected.spec.name;
        let record = nodes.get(node).ok_or(format!("node {name} is missing"))?;
        same(&format!("health of {name}"), record.health, expected.health)?;
        same(&format!("incarnation of {name}"), record.incarnation.0, expected.incarnation)?;
        same(&format!("cordon of {name}"), nodes.flags(node) & CORDONED != 0, expected.cordoned)?;
        let drain = record.drain.map(|drain| ((drain.deadline_ms > 0).then_some(drain.deadline_ms), drain.at_once));
        same(&format!("drain of {name}"), drain, expected.drain)?;
        same(&format!("shrunk mark of {name}"), nodes.flags(node) & SHRUNK != 0, self.plain.is_shrunk(node))?;
        let mut taints = record.taints.clone();
        taints.sort();
        let release = match record.release {
            Release::InUse => PlainRelease::InUse,
            Release::Idle { since_ms } => PlainRelease::Idle(since_ms),
            Release::Releasing { since } => PlainRelease::Releasing(since),
            Release::Released => PlainRelease::Released,
        };
        same(&format!("release of {name}"), release, expected.release)?;
        same(&format!("taints of {name}"), taints, expected.taints())?;
        let conditions = record.conditions.iter().map(|one| (one.kind, one.action, one.message.clone())).collect();
        let reported = expected.conditions.values().map(|one| (one.kind, one.action, one.message.clone()));
        same::<Vec<_>>(&format!("conditions of {name}"), conditions, reported.collect())?;
        same(&format!("hold-down of {name}"), record.flaps.is_held, expected.held)?;
        for resource in ["cpu", "memory", "pods", GPU] {
            let free = self.cell.resources().find(resource).map_or(0, |column| nodes.free(node, column));
            same(&format!("free {resource} of {name}"), free, self.plain.free(node, resource))?;
        }
        Ok(())
    }
}

fn compare_admission(found: &Job, expected: &PlainAdmission) -> Result<(), String> {
    let admission = &found.admission;
    let round = admission.round.as_ref().map(|round| {
        let check = |check: &ohm_cell::Check| PlainCheck {
            class: check.class.clone(),
            request: check.request.clone(),
            ready: check.state == CheckState::Ready,
            attempt: check.attempt,
            since_ms: check.since_ms,
            labels: check.node_selector.clone(),
            tolerations: check.tolerations.clone(),
        };
        (round.admitted, round.checks.iter().map(check).collect())
    });
    same("rounds", admission.rounds, expected.rounds)?;
    same("round", round, expected.round.clone())?;
    same("back-off", admission.back_off_ms, expected.back_off_ms)?;
    same("failures", &admission.failures, &expected.failures)
}

fn compare_ready(found: &Job, expected: &PlainJob) -> Result<(), String> {
    let known = found.readiness;
    let some = |ms: u64| (ms > 0).then_some(ms);
    let ready = PlainReady {
        since_ms: some(known.unready_since_ms),
        was_ready: known.was_ready,
        due_ms: some(known.due_ms),
        timeouts: known.timeouts,
        until_ms: some(known.until_ms),
    };
    same("readiness", ready, expected.ready)?;
    same("place in the queue", found.queued, expected.queued)
}

fn compare_requests(found: &Job, expected: &PlainJob) -> Result<(), String> {
    let request = |request: &ohm_cell::RepairRequest| PlainRequest {
        number: request.number,
        class: request.class.clone(),
        attempt: request.attempt,
        state: request.state,
        since_ms: request.since_ms,
        tasks: request.tasks.iter().flat_map(|(group, tasks)| tasks.values().map(|task| (group.0, task))).collect(),
    };
    let requests: Vec<_> = found.repairs.open.iter().flat_map(|open| &open.requests).map(request).collect();
    same("nodes asked for", &requests, &expected.repair.requests)?;
    same("requests so far", found.repairs.requested, expected.repair.requested)
}

fn compare_job(found: &Job, expected: &PlainJob) -> Result<(), String> {
    let state = match expected.state {
        State::Active => JobState::Active,
        State::Suspended => JobState::Suspended,
        State::Succeeded => JobState::Finished(Finish::Succeeded),
        State::Failed => JobState::Finished(Finish::Failed),
        State::Cancelled => JobState::Finished(Finish::Cancelled),
    };
    same("state", found.state, state)?;
    same("priority", found.spec.priority, expected.spec.priority)?;
    same("version", found.version, expected.version)?;
    same("shard", found.shard, expected.shard)?;
    same("reservation", !found.reserved.is_empty(), expected.reserved)?;
    compare_admission(found, &expected.admission)?;
    compare_ready(found, expected)?;
    let (mut lost, mut leaving) = (BTreeSet::new(), BTreeMap::new());
    for entry in &found.repairs.unhealthy {
        let Some(node) = entry.node else { continue };
        match entry.cause {
            UnhealthyCause::Lost => drop(lost.insert(node)),
            UnhealthyCause::Draining => drop(leaving.insert(node, None)),
            UnhealthyCause::Condition(kind) => drop(leaving.insert(node, Some(kind))),
        }
    }
    same("unhealthy nodes", &lost, &expected.repair.unhealthy)?;
    same("nodes to leave", &leaving, &expected.leaving)?;
    let give_up_ms = found.repairs.open.as_ref().map(|open| (open.since, open.give_up_ms));
    same("repair", give_up_ms, expected.repair.open.map(|(since, due_ms)| (since, due_ms.unwrap_or(0))))?;
    compare_requests(found, expected)?;
    for (at, group) in found.groups.iter().enumerate() {
        let places = |set: &RangeSet| -> BTreeSet<(u16, u32)> { set.values().map(|task| (at as u16, task)).collect() };
        let of_group = |set: &BTreeSet<(u16, u32)>| -> BTreeSet<(u16, u32)> {
            set.iter().filter(|(group, _)| usize::from(*group) == at).copied().collect()
        };
        same("lost", places(&group.lost), of_group(&expected.repair.lost))?;
        same("on the move", places(&group.moving), of_group(&expected.moving))?;
        same("placed again", places(&group.replaced), of_group(&expected.repair.replaced))?;
        same(&format!("started {at}"), group.started, expected.started[at])?;
        same(&format!("domain {at}"), group.domain.is_some(), expected.domain[at].is_some())?;
    }
    same("groups", found.groups.len(), expected.spec.groups.len())?;
    same("spec", &*found.spec, &expected.spec)?;
    let kept = |group: &ohm_cell::Group| group.tasks.iter().filter(|task| task.state != TaskState::Removed).count();
    same("tasks", found.groups.iter().map(kept).sum::<usize>(), expected.tasks.len())?;
    for ((group, task), wanted) in &expected.tasks {
        let task_found = &found.groups[usize::from(*group)].tasks[*task as usize];
        let phase = match task_found.state {
            TaskState::Pending => Phase::Pending,
            TaskState::BackingOff => Phase::BackingOff,
            TaskState::Held => return Err("a task is held, and nothing is rolled out here".into()),
            TaskState::Live => Phase::Live,
            TaskState::Succeeded => Phase::Succeeded,
            TaskState::Failed => Phase::Failed,
            TaskState::Skipped => Phase::Skipped,
            TaskState::Stopped => Phase::Stopped,
            TaskState::Removed => Phase::Removed,
        };
        let name = format!("task {group}/{task}");
        let said = (phase, task_found.incarnation.0, task_found.attempts.0, task_found.failures);
        same(&name, said, (wanted.phase, wanted.incarnation, wanted.attempts, wanted.failures))?;
    }
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: the cell has {found:?}, the model {expected:?}")) }
}
