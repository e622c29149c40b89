//! Updates in the plain model: what may change, and what becomes of each task.

use crate::state::{Alarm, Phase, Plain, PlainHold, PlainJob, PlainTask, State};
use ohm_model::{GroupSpec, JobId, JobSpec, RepairPolicy, StopCause};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    Done,
    Unchanged,
    Refused,
}

/// Whether the group can become the other one task by task.
fn is_resize(endless: bool, old: &GroupSpec, new: &GroupSpec) -> bool {
    let mut same = old.clone();
    (same.count, same.min_count, same.spares) = (new.count, new.min_count, new.spares);
    (same.labels, same.disruption_budget) = (new.labels.clone(), new.disruption_budget.clone());
    same == *new && (old.elastic || endless)
}

/// Rules that hold of every job and that random ones may break.
fn is_sound(spec: &JobSpec, endless: bool) -> bool {
    let unlike = |one: &GroupSpec, other: &GroupSpec| {
        let level = |group: &GroupSpec| {
            (group.topology.mode == ohm_model::TopologyMode::Required).then(|| group.topology.level.clone())
        };
        let both = level(one).zip(level(other));
        !one.place_with.is_empty() && one.place_with == other.place_with && both.is_some_and(|(a, b)| a != b)
    };
    let groups = &spec.groups;
    let names_clash = groups.len() == 2 && groups[0].name == groups[1].name;
    let levels_clash = groups.len() == 2 && unlike(&groups[0], &groups[1]);
    let arrays = |group: &GroupSpec| !endless && group.elastic && group.min_count == 1;
    let wasted = groups.iter().any(|group| group.spares > 0 && arrays(group));
    let ruled_out = (0..groups.len()).any(|at| spec.neighbours_problem(at).is_some());
    !ruled_out
        && !names_clash
        && !levels_clash
        && !wasted
        && groups.iter().all(|group| (1..=group.count).contains(&group.min_count))
}

impl PlainJob {
    fn stays(&self, spec: &JobSpec, at: usize) -> bool {
        let (Some(old), Some(new)) = (self.spec.groups.get(at), spec.groups.get(at)) else { return false };
        let (labels, disruption_budget) = (old.labels.clone(), old.disruption_budget.clone());
        *old == GroupSpec { spares: old.spares, labels, disruption_budget, ..new.clone() }
            || is_resize(self.endless, old, new)
    }

    /// Where the group has the name now that the one at `at` had.
    fn heir(&self, spec: &JobSpec, at: usize) -> Option<usize> {
        spec.groups.iter().position(|heir| heir.name == self.spec.groups[at].name)
    }

    fn allows(&self, spec: &JobSpec, stands: impl Fn(u16) -> u32) -> bool {
        let old = &self.spec;
        let moves = |at: usize| {
            let is_moved = |heir: usize| {
                let (was, heir_spec) = (&old.groups[at], &spec.groups[heir]);
                heir != at || (&heir_spec.topology, &heir_spec.place_with) != (&was.topology, &was.place_with)
            };
            self.count(at as u16, Phase::Succeeded) > 0 && self.heir(spec, at).is_some_and(is_moved)
        };
        if (0..old.groups.len()).any(moves) {
            return false;
        }
        if self.live() == 0 {
            return spec.class == old.class;
        }
        let groups = 0..spec.groups.len().max(old.groups.len());
        spec.class == old.class
            && spec.queue == old.queue
            && spec.on_disconnect == old.on_disconnect
            && (spec.groups == old.groups || self.admission.round.is_none())
            && (spec.suspended == old.suspended || spec.suspended == (self.state == State::Suspended))
            && groups.into_iter().all(|at| self.stays(spec, at))
            && (0..spec.groups.len()).all(|at| {
                let over = self.count(at as u16, Phase::Succeeded) + self.count(at as u16, Phase::Failed);
                let (was, wanted) = (&old.groups[at], &spec.groups[at]);
                let grows = wanted.count >= was.count && wanted.min_count <= stands(at as u16) + over;
                !self.whole() || !self.started[at] || wanted.min_count <= was.min_count || grows
            })
    }

    /// The tasks as they are under `spec`, and the highest attempt at one that is gone.
    fn tasks_under(&self, spec: &JobSpec) -> (BTreeMap<(u16, u32), PlainTask>, u32) {
        let count = |group: u16| spec.groups.get(usize::from(group)).map_or(0, |group| group.count);
        let keeps = |group: u16, number: u32, task: &PlainTask| {
            let heir = self.heir(spec, usize::from(group)).map_or(0, |heir| spec.groups[heir].count);
            (self.stays(spec, usize::from(group)) && number < count(group))
                || (task.phase == Phase::Succeeded && number < heir)
        };
        let gone = self.tasks.iter().filter(|((group, number), task)| !keeps(*group, *number, task));
        let floor = gone.map(|(_, task)| task.attempts).max().unwrap_or(0).max(self.floor);
        let new = PlainTask {
            phase: Phase::Pending,
            incarnation: floor,
            attempts: floor,
            failures: 0,
            refusals: 0,
            stood: false,
        };
        let mut tasks = BTreeMap::new();
        for (at, wanted) in spec.groups.iter().enumerate() {
            let group = at as u16;
            let resized = self.stays(spec, at) && self.spec.groups[at].count != wanted.count;
            let former = self.spec.groups.iter().position(|former| former.name == wanted.name);
            for task in 0..wanted.count {
                let mut made = new.clone();
                if self.stays(spec, at) {
                    if let Some(known) = self.tasks.get(&(group, task)) {
                        made = known.clone();
                        if resized && made.phase == Phase::Skipped {
                            made.phase = Phase::Pending;
                        }
                    }
                } else if let Some(known) = former.and_then(|former| self.tasks.get(&(former as u16, task))) {
                    match known.phase {
                        Phase::Succeeded => made = known.clone(),
                        _ => made.failures = known.failures,
                    }
                }
                tasks.insert((group, task), made);
            }
        }
        let leaving = self.tasks.iter().filter(|(place, task)| task.phase == Phase::Live && place.1 >= count(place.0));
        tasks.extend(leaving.map(|(place, task)| (*place, task.clone())));
        (tasks, floor)
    }
}

impl Plain {
    /// Changes a job, if it may be changed so.
    pub(crate) fn update(&mut self, spec: &JobSpec) -> Update {
        let Some(id) = self.find_job(&spec.name) else { return Update::Refused };
        let Some(spec) = self.with_priority(spec, Some(id)) else { return Update::Refused };
        let old = self.jobs[&id].clone();
        if old.spec == spec {
            return Update::Unchanged;
        }
        let is_open = matches!(old.state, State::Active | State::Suspended);
        if !is_open || !is_sound(&spec, old.endless) || !old.allows(&spec, |group| self.staying(id, group)) {
            return Update::Refused;
        }
        self.change(id, &old, spec);
        Update::Done
    }

    fn change(&mut self, id: JobId, old: &PlainJob, spec: JobSpec) {
        self.forget_timeouts(id);
        let regrouped = spec.groups != old.spec.groups;
        if regrouped || spec.priority != old.spec.priority {
            self.clear_holds_of(id, PlainHold::is_preemptor);
        }
        if self.is_head(id) && (regrouped || spec.priority != old.spec.priority || spec.queue != old.spec.queue) {
            self.end_head(id);
        }
        let others = spec.groups.len() != old.spec.groups.len() || spec.queue != old.spec.queue;
        let anew = (0..spec.groups.len()).any(|at| !old.stays(&spec, at));
        if others || anew || spec.priority != old.spec.priority {
            self.clear_holds_of(id, PlainHold::is_spare);
        }
        if others || anew || spec.priority != old.spec.priority || spec.repair != old.spec.repair {
            self.clear_claims(id);
        }
        let index = self.index;
        let job = self.jobs.get_mut(&id).expect("a job");
        (job.tasks, job.floor) = old.tasks_under(&spec);
        if regrouped || spec.queue != old.spec.queue {
            job.release();
        }
        let stays: Vec<bool> = (0..spec.groups.len()).map(|at| old.stays(&spec, at)).collect();
        job.started = stays.iter().enumerate().map(|(at, stays)| *stays && old.started[at]).collect();
        job.domain = stays
            .iter()
            .enumerate()
            .map(|(at, stays)| old.domain.get(at).cloned().flatten().filter(|_| *stays))
            .collect();
        let within = |place: &(u16, u32)| spec.groups.get(usize::from(place.0)).is_some_and(|one| place.1 < one.count);
        job.repair.lost.retain(within);
        job.repair.replaced.retain(within);
        job.moving.retain(|place| within(place) && stays[usize::from(place.0)]);
        job.version = index;
        job.spec = spec.clone();
        self.settle_rooms(id);
        for at in 0..self.runs.len() {
            let run = &mut self.runs[at];
            if run.job == id && run.stop.is_none() && run.task >= spec.groups[usize::from(run.group)].count {
                run.stop = Some(StopCause::ScaledDown);
                let node = run.node;
                self.touch(node, crate::life::NOBODY);
            }
        }
        self.forget_changed(id, &stays, &spec);
        self.change_state(id, old, &spec);
        self.settle_repair(id, &old.spec);
        self.jobs.get_mut(&id).expect("a job").restart_if_down(true);
        self.finish_if_over(id);
    }

    fn change_state(&mut self, id: JobId, old: &PlainJob, spec: &JobSpec) {
        if spec.suspended != old.spec.suspended {
            self.suspend(id, spec.suspended);
        }
        let due_ms = |first: u64| first + spec.active_deadline_seconds * 1000;
        if let Some(first) = old.first_placed_ms
            && spec.active_deadline_seconds != old.spec.active_deadline_seconds
            && spec.active_deadline_seconds > 0
        {
            let first = self.jobs[&id].first_placed_ms.unwrap_or(first);
            self.alarm(due_ms(first), Alarm::Deadline(id));
        }
        self.end_heads_outstayed(id, &old.spec);
    }

    fn settle_repair(&mut self, id: JobId, old: &JobSpec) {
        let (below, driven) = (self.is_below_minimum(id), self.is_driven(id));
        let (index, now_ms) = (self.index, self.now_ms);
        let job = self.jobs.get_mut(&id).expect("a job");
        let Some((since, due_ms)) = job.repair.open else { return };
        if job.nothing_lost() && !driven {
            return job.drop_repair();
        }
        if job.repair.lost.is_empty() && job.repair.forget_nodes() {
            job.version = index;
        }
        let timeout_ms = job.spec.repair.timeout_seconds * 1000;
        let (mut due_ms, mut waited_ms) = (due_ms, 0);
        if job.spec.repair != old.repair {
            let began_ms = due_ms.map(|due_ms| due_ms.saturating_sub(old.repair.timeout_seconds * 1000));
            waited_ms = began_ms.map_or(0, |began_ms| now_ms.saturating_sub(began_ms));
            due_ms = None;
        }
        job.repair.open = Some((since, due_ms));
        if below && due_ms.is_none() && job.spec.repair.policy == RepairPolicy::Wait && timeout_ms > 0 {
            let due_ms = now_ms + timeout_ms.saturating_sub(waited_ms);
            job.repair.open = Some((since, Some(due_ms)));
            self.alarm(due_ms, Alarm::Repair(id, since));
        }
    }
}
