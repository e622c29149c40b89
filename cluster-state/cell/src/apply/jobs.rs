//! The life of jobs, from submit to being forgotten.

use super::{Applied, Timer};
use crate::cell::Cell;
use crate::rooms::nominations::Held;
use crate::state::jobs::{Finish, Group, Job, JobState, TaskState, required_level};
use crate::state::shapes::Shape;
use ohm_model::job::{GROUPS_MAX, NAMESPACE_DEFAULT, TASKS_MAX};
use ohm_model::resources::{DEVICE_MILLI, is_extended};
use ohm_model::topology::TopologyRequest;
use ohm_model::{
    Amounts, Class, ClassKind, EventKind, GroupSpec, Incarnation, JobId, JobOutcome, JobSpec, NodeId, Outcome, Refusal,
    RepairPolicy, SessionId, StopCause,
};
use ohm_stdx::canary::{self, Canary};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A finished job is known at least so long, whatever its time to live: who waits for it must get to see its end, and a
/// submit that is sent again must find it.
pub(super) const FORGET_MS_MIN: u64 = 10_000;
/// Most different resources that one job may name; each one is a column over all nodes.
const JOB_RESOURCES_MAX: usize = 16;

impl Cell {
    pub(super) fn submit_jobs(&mut self, owner: &str, jobs: &[JobSpec], applied: &mut Applied) -> Outcome {
        let owner: Arc<str> = owner.into();
        let outcomes = jobs.iter().map(|spec| match self.submit_job(&owner, spec, applied) {
            Ok(outcome) => outcome,
            Err(refusal) => JobOutcome::Refused(refusal),
        });
        Outcome::Jobs(outcomes.collect())
    }

    fn submit_job(&mut self, owner: &Arc<str>, spec: &JobSpec, applied: &mut Applied) -> Result<JobOutcome, Refusal> {
        let known = self.jobs.find(&spec.name);
        let spec = self.completed(spec, known.map(|known| &*known.spec))?;
        if let Some(known) = known {
            if *known.spec == *spec {
                return Ok(JobOutcome::Unchanged(known.id));
            }
            let hint = match known.state {
                JobState::Finished(_) => "it is finished: `ohm submit --replace` puts this one in its place",
                _ => "choose another name, or cancel that job first",
            };
            return Err(Refusal::NameTaken { kind: "job".into(), name: spec.name.clone(), hint: hint.to_string() });
        }
        let kind = self.check_job(&spec)?;
        let spec = Arc::new(spec.into_owned());
        let mut groups = Vec::with_capacity(spec.groups.len());
        for group in &spec.groups {
            let shape = Shape::of(group, &mut self.resources).ok_or_else(|| too_many_resources("what it asks for"))?;
            groups.push(Group::new(self.shapes.join(shape), 1, group.count, Incarnation(0)));
        }
        let state = if spec.suspended { JobState::Suspended } else { JobState::Active };
        let job = Job {
            id: JobId(0),
            spec: Arc::clone(&spec),
            owner: Arc::clone(owner),
            kind,
            shard: self.shard_of(&spec),
            state,
            reason: String::new(),
            version: self.applied,
            submitted: self.applied,
            submitted_ms: self.now_ms,
            started_ms: 0,
            finished_ms: 0,
            floor: Incarnation(0),
            reserved: Default::default(),
            groups,
            past: Vec::new(),
            repairs: Default::default(),
            admission: Default::default(),
        };
        let (slot, generation) = self.jobs.slab.insert(Arc::new(job));
        let id = JobId::new(slot, generation);
        if let Some(job) = self.jobs.get_mut(id) {
            job.id = id;
        }
        self.jobs.by_name.insert(&spec.name, id);
        applied.jobs.push(id);
        self.tell(applied, EventKind::JobSubmitted { job: id, name: spec.name.clone() });
        Ok(JobOutcome::Accepted(id))
    }

    /// The spec with everything that the cell fills in: names of topologies, and the priority of a priority class.
    pub(super) fn completed<'a>(
        &self,
        spec: &'a JobSpec,
        known: Option<&JobSpec>,
    ) -> Result<Cow<'a, JobSpec>, Refusal> {
        let mut spec = self.with_named_topologies(spec, known);
        if !spec.priority_class.is_empty() {
            let priority = self.priority_of(&spec, known)?;
            if priority != spec.priority {
                spec.to_mut().priority = priority;
            }
        }
        Ok(spec)
    }

    /// The spec with the only topology's name filled in where a group leaves it out, so that a second topology put
    /// later changes nothing for it. A job that is known already keeps the name it got.
    fn with_named_topologies<'a>(&self, spec: &'a JobSpec, known: Option<&JobSpec>) -> Cow<'a, JobSpec> {
        let unnamed = |request: &TopologyRequest| request.is_asked() && request.topology.is_empty();
        let mut spec = Cow::Borrowed(spec);
        for at in 0..spec.groups.len() {
            if !unnamed(&spec.groups[at].topology) {
                continue;
            }
            let is_it = |group: &&ohm_model::GroupSpec| group.name == spec.groups[at].name;
            let known = known.and_then(|known| Some(known.groups.iter().find(is_it)?.topology.topology.clone()));
            let only = || self.topologies.get("").map(|topology| topology.spec.name.clone());
            let name = known.filter(|name| !name.is_empty()).or_else(only);
            spec.to_mut().groups[at].topology.topology = name.unwrap_or_default();
        }
        spec
    }

    /// The rules a job must keep whatever client sent it; manifests are checked more kindly before they come here.
    /// Returns what its class is like.
    pub(super) fn check_job(&self, spec: &JobSpec) -> Result<ClassKind, Refusal> {
        let invalid = |field: &str, problem: String| Err(Refusal::Invalid { field: field.into(), problem });
        if spec.name.is_empty() || spec.name.len() > 253 {
            return invalid("metadata.name", "must have 1 to 253 characters".into());
        }
        if spec.namespace != NAMESPACE_DEFAULT {
            let problem = format!("there is no namespace \"{}\"; a cell has {NAMESPACE_DEFAULT} only", spec.namespace);
            return invalid("metadata.namespace", problem);
        }
        let Some(kind) = self.class_kind(spec.class) else {
            let known = Class::BUILT_IN.map(|class| class.to_string()).join(", ");
            return invalid("spec.class", format!("there is no class \"{}\"; known: {known}", spec.class));
        };
        if spec.groups.is_empty() || spec.groups.len() > GROUPS_MAX {
            return invalid("spec.groups", format!("{} groups; 1 to {GROUPS_MAX} are possible", spec.groups.len()));
        }
        if !spec.queue.is_empty() && self.quota.get(&spec.queue).is_none_or(|queue| queue.spec.is_cohort) {
            return Err(Refusal::NotFound { kind: "queue".into(), name: spec.queue.clone() });
        }
        let names = spec.groups.iter().map(|group| &group.name).collect::<BTreeSet<_>>();
        if names.len() != spec.groups.len() {
            return invalid("spec.groups", "two groups have the same name".into());
        }
        let tasks: u64 = spec.groups.iter().map(|group| u64::from(group.count)).sum();
        if tasks > u64::from(TASKS_MAX) {
            return invalid("spec.groups", format!("{tasks} tasks in all; at most {TASKS_MAX} are possible"));
        }
        let named: BTreeSet<&String> = spec.groups.iter().flat_map(|group| group.requests.keys()).collect();
        if named.len() > JOB_RESOURCES_MAX {
            let problem = format!("{} different resources; at most {JOB_RESOURCES_MAX} are possible", named.len());
            return invalid("requests", problem);
        }
        if !self.resources.has_room_for_jobs(named.iter().copied()) {
            let unknown = named.into_iter().filter(|name| self.resources.find(name).is_none());
            return Err(too_many_resources(&unknown.map(String::as_str).collect::<Vec<_>>().join(", ")));
        }
        for group in &spec.groups {
            let together = |other: &&GroupSpec| !group.place_with.is_empty() && other.place_with == group.place_with;
            let levels: BTreeSet<_> = spec.groups.iter().filter(together).filter_map(required_level).collect();
            if levels.len() > 1 {
                let problem = format!("groups placed with \"{}\" require different domains", group.place_with);
                return invalid("spec.groups", problem);
            }
        }
        self.check_widening(spec)?;
        spec.groups.iter().enumerate().try_for_each(|(at, group)| self.check_group(kind, at, group))?;
        Ok(kind)
    }

    /// `widenTo` is a level above what every group with a required level asks for.
    fn check_widening(&self, spec: &JobSpec) -> Result<(), Refusal> {
        let (widens, wide) = (spec.repair.policy == RepairPolicy::Widen, &spec.repair.widen_to);
        let invalid = |problem: String| Err(Refusal::Invalid { field: "spec.repair.widenTo".into(), problem });
        if widens == wide.is_empty() {
            return invalid("is given with the policy widen, and only with it".into());
        }
        for (topology, level) in spec.groups.iter().filter_map(required_level).filter(|_| widens) {
            let Some(topology) = self.topologies.get(topology) else { continue };
            let levels = topology.level(wide).zip(topology.level(level));
            if levels.is_none_or(|(wide, level)| wide >= level) {
                let name = &topology.spec.name;
                return invalid(format!("\"{wide}\" is no level of topology {name} above \"{level}\""));
            }
        }
        Ok(())
    }

    fn check_group(&self, kind: ClassKind, at: usize, group: &GroupSpec) -> Result<(), Refusal> {
        let field = |name: &str| format!("spec.groups[{at}].{name}");
        let invalid = |name: &str, problem: String| Err(Refusal::Invalid { field: field(name), problem });
        if group.count == 0 || group.count > TASKS_MAX {
            return invalid("count", format!("{}; 1 to {TASKS_MAX} are possible", group.count));
        }
        if group.min_count == 0 || group.min_count > group.count {
            return invalid("minCount", format!("{}; 1 to count ({}) are possible", group.min_count, group.count));
        }
        if let Some(problem) = group.spares_problem(kind) {
            return invalid("spares", problem);
        }
        if let Some((name, amount)) = group.requests.iter().find(|(_, amount)| **amount < 0) {
            return invalid("requests", format!("{name} is {amount}; amounts are never negative"));
        }
        if let Some(problem) = group.limits_problem() {
            return invalid("limits", problem);
        }
        let too_much = |amount: &i64| amount.checked_mul(i64::from(group.count)).is_none();
        if let Some((name, _)) = group.requests.iter().find(|(_, amount)| too_much(amount)) {
            return invalid("requests", format!("{name} times count is more than any cell can hold"));
        }
        let split = |name: &str, amount: i64| is_extended(name) && amount > DEVICE_MILLI && amount % DEVICE_MILLI != 0;
        if let Some((name, amount)) = group.requests.iter().find(|(name, amount)| split(name, **amount)) {
            return invalid("requests", format!("{name} is {amount}m; ask for whole devices, or for less than one"));
        }
        let ports: BTreeSet<u16> = group.ports.iter().copied().collect();
        if ports.len() != group.ports.len() || ports.contains(&0) {
            return invalid("ports", "each must be 1 to 65535 and named once".into());
        }
        let request = &group.topology;
        if request.is_asked() {
            if request.topology.is_empty() {
                let known = self.topologies.iter().count();
                return invalid("topology", format!("the cell has {known} topologies; name one of them"));
            }
            let Some(topology) = self.topologies.get(&request.topology) else {
                return Err(Refusal::NotFound { kind: "topology".into(), name: request.topology.clone() });
            };
            if let Err(contradiction) = topology.spec.check(group) {
                return invalid("topology", contradiction.to_string());
            }
        }
        Ok(())
    }

    pub(super) fn cancel_job(&mut self, name: &str, applied: &mut Applied) -> Result<Outcome, Refusal> {
        let job = self.named_job(name)?;
        match job.1 {
            JobState::Finished(Finish::Cancelled) => Ok(Outcome::Done),
            JobState::Finished(_) => Err(Refusal::WrongState {
                kind: "job".into(),
                name: name.into(),
                state: "finished".into(),
                hint: "a finished job can't be cancelled".into(),
            }),
            _ => {
                self.finish_job(job.0, Finish::Cancelled, "cancelled".into(), StopCause::Cancelled, applied);
                Ok(Outcome::Done)
            }
        }
    }

    pub(super) fn suspend_job(&mut self, name: &str, applied: &mut Applied) -> Result<Outcome, Refusal> {
        let (job, state) = self.named_job(name)?;
        self.refuse_finished(name, state)?;
        if state == JobState::Active {
            self.release_reservation(job);
            if !canary::sings(Canary::LateRepair) {
                self.drop_repair(job);
            }
            self.set_state(job, JobState::Suspended, String::new(), applied);
            self.forget_kept_of(job, applied);
            self.stop_runs(job, StopCause::Suspended, applied);
            self.clear_nominations(job, applied);
            self.tell_state(job, "", applied);
        }
        Ok(Outcome::Done)
    }

    pub(super) fn resume_job(&mut self, name: &str, applied: &mut Applied) -> Result<Outcome, Refusal> {
        let (job, state) = self.named_job(name)?;
        self.refuse_finished(name, state)?;
        if state == JobState::Suspended {
            self.set_state(job, JobState::Active, String::new(), applied);
            self.restart_deadline(job);
            self.tell_state(job, "", applied);
            self.finish_if_done(job, applied);
        }
        Ok(Outcome::Done)
    }

    /// Ends an active job of which nothing is left to do, as after its last open tasks were taken away.
    pub(super) fn finish_if_done(&mut self, job: JobId, applied: &mut Applied) {
        if self.jobs.get(job).is_some_and(|job| job.state == JobState::Active && job.is_done()) {
            self.finish_job(job, Finish::Succeeded, String::new(), StopCause::JobFailed, applied);
        }
    }

    pub(super) fn forget_named_job(&mut self, name: &str, applied: &mut Applied) -> Result<Outcome, Refusal> {
        let (job, state) = self.named_job(name)?;
        let wrong = |state: &str, hint: &str| {
            let (kind, name) = ("job".to_string(), name.to_string());
            Err(Refusal::WrongState { kind, name, state: state.to_string(), hint: hint.to_string() })
        };
        match state {
            JobState::Finished(_) if self.forget_job(job, applied) => Ok(Outcome::Done),
            JobState::Finished(_) => wrong("still stopping", "its last runs have not ended yet; try again in a moment"),
            _ => wrong("not finished", "`ohm cancel` ends it"),
        }
    }

    fn named_job(&self, name: &str) -> Result<(JobId, JobState), Refusal> {
        let job = self.jobs.find(name).ok_or_else(|| Refusal::NotFound { kind: "job".into(), name: name.into() })?;
        Ok((job.id, job.state))
    }

    pub(super) fn refuse_finished(&self, name: &str, state: JobState) -> Result<(), Refusal> {
        match state {
            JobState::Finished(_) => Err(Refusal::WrongState {
                kind: "job".into(),
                name: name.into(),
                state: "finished".into(),
                hint: "it stays as it is; `ohm submit --replace` with its file runs it again".into(),
            }),
            _ => Ok(()),
        }
    }

    pub(super) fn set_state(&mut self, job: JobId, state: JobState, reason: String, applied: &mut Applied) {
        applied.jobs.push(job);
        let version = self.applied;
        if let Some(job) = self.jobs.get_mut(job) {
            (job.state, job.reason, job.version) = (state, reason, version);
        }
    }

    /// Ends a job for good: nothing of it is placed any more, and what still runs is stopped.
    pub(super) fn finish_job(
        &mut self,
        job: JobId,
        finish: Finish,
        reason: String,
        cause: StopCause,
        applied: &mut Applied,
    ) {
        self.release_reservation(job);
        if !canary::sings(Canary::LateRepair) {
            self.drop_repair(job);
        }
        self.set_state(job, JobState::Finished(finish), reason.clone(), applied);
        self.forget_kept_of(job, applied);
        let now_ms = self.now_ms;
        let Some(found) = self.jobs.get_mut(job) else { return };
        found.finished_ms = now_ms.max(1);
        for group in &mut found.groups {
            for index in 0..group.tasks.len() {
                if matches!(group.tasks[index].state, TaskState::Pending | TaskState::BackingOff) {
                    group.tasks[index].state = TaskState::Stopped;
                }
            }
            group.pending = Default::default();
            group.backing_off = 0;
        }
        let ttl_ms = found.spec.ttl_seconds_after_finished.saturating_mul(1000).max(FORGET_MS_MIN);
        let forget_ms = now_ms.saturating_add(ttl_ms);
        self.stop_runs(job, cause, applied);
        self.clear_nominations(job, applied);
        self.arm(forget_ms, Timer::Forget(job));
        self.tell_state(job, &reason, applied);
    }

    pub(super) fn tell_state(&self, job: JobId, reason: &str, applied: &mut Applied) {
        let Some(found) = self.jobs.get(job) else { return };
        let (name, state) = (found.spec.name.clone(), found.phase().to_string());
        self.tell(applied, EventKind::JobState { job, name, state, reason: reason.to_string() });
    }

    /// Nothing is reserved for `job` any more, and its admission begins anew.
    pub(super) fn release_reservation(&mut self, job: JobId) {
        self.end_round(job);
        let waits = |job: &Arc<Job>| job.admission.back_off_ms > 0 || !job.admission.failures.is_empty();
        if self.jobs.get(job).is_some_and(waits)
            && let Some(found) = self.jobs.get_mut(job)
        {
            found.admission.back_off_ms = 0;
            found.admission.failures.clear();
        }
        if !canary::sings(Canary::KeepReservation) {
            self.give_back_reservation(job);
        }
    }

    /// What the reservation holds beyond the live runs goes back to the queue.
    pub(super) fn give_back_reservation(&mut self, job: JobId) {
        let Some(found) = self.jobs.get(job) else { return };
        if found.reserved.is_empty() {
            return;
        }
        let (queue, reserved, live) = (found.spec.queue.clone(), found.reserved.clone(), self.live_request(found));
        let given = difference(&live, &reserved);
        let amounts: Vec<_> = self.resources.columns(&given).collect();
        self.charge_queue(&queue, amounts.into_iter());
        if let Some(found) = self.jobs.get_mut(job) {
            found.reserved.clear();
        }
    }

    /// Nothing is kept for `job` any more but spares, which are given back when their group stands no more, and nothing
    /// of it is on the move.
    pub(super) fn clear_nominations(&mut self, job: JobId, applied: &mut Applied) {
        self.drop_moves(job);
        self.clear_held(job, applied, |held| !held.is_spare());
    }

    /// Gives back what of the room kept for `job` is as `which` says.
    pub(super) fn clear_held(&mut self, job: JobId, applied: &mut Applied, which: impl Fn(&Held) -> bool) {
        let mut nodes: Vec<NodeId> =
            self.nominations.of_job(job).filter(|(_, held)| which(held)).map(|(node, _)| node).collect();
        nodes.dedup();
        for node in nodes {
            self.sweep_nominations(node, |held| held.job != job || !which(held));
            self.nodes.touch(node, self.applied, SessionId(0));
            applied.nodes.push(node);
        }
    }

    /// Forgets a finished job that holds nothing; returns whether it is gone.
    pub(super) fn forget_job(&mut self, job: JobId, applied: &mut Applied) -> bool {
        let Some(found) = self.jobs.get(job) else { return true };
        if !matches!(found.state, JobState::Finished(_)) || found.live() > 0 {
            return false;
        }
        let (name, shapes): (String, Vec<_>) =
            (found.spec.name.clone(), found.groups.iter().map(|group| group.shape).collect());
        shapes.into_iter().for_each(|shape| drop(self.shapes.leave(shape)));
        self.jobs.by_name.remove(&name);
        self.jobs.slab.remove(job.slot());
        applied.jobs.push(job);
        self.tell(applied, EventKind::JobForgotten { name });
        true
    }
}

/// What `amounts` holds less `less`, by the resources of either.
pub(super) fn difference(amounts: &Amounts, less: &Amounts) -> Amounts {
    let mut left = amounts.clone();
    less.iter().for_each(|(resource, amount)| *left.entry(resource.clone()).or_insert(0) -= amount);
    left
}

pub(super) fn too_many_resources(names: &str) -> Refusal {
    let problem = format!(
        "no node has {names}, and jobs have named as many resources without a node as they may; is the name right? A \
         node that has it can still register, and jobs may name it from then on"
    );
    Refusal::Invalid { field: "requests".into(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(change: impl FnOnce(&mut JobSpec)) -> Option<String> {
        let mut group = GroupSpec::gang("main", 1);
        group.requests = [("cpu".to_string(), 1_000)].into();
        let mut spec = JobSpec::of("case", Class::BATCH, vec![group]);
        change(&mut spec);
        Cell::new().check_job(&spec).err().map(|refusal| refusal.to_string())
    }

    #[test]
    fn room_for_what_comes_is_refused_until_it_means_something() {
        let limits = |amount: i64| [("cpu".to_string(), amount)].into();
        assert_eq!(problem(|spec| spec.groups[0].limits = limits(1_000)), None);
        assert_eq!(
            problem(|spec| spec.groups[0].limits = limits(2_000)).as_deref(),
            Some(
                "spec.groups[0].limits: cpu differs from its request; nodes enforce requests as limits, so give the \
                 same or leave it out"
            )
        );
        assert_eq!(
            problem(|spec| spec.namespace = "team".into()).as_deref(),
            Some("metadata.namespace: there is no namespace \"team\"; a cell has default only")
        );
    }
}
