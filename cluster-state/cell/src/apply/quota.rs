//! Queues, cohorts and topologies.

use crate::apply::Applied;
use crate::cell::Cell;
use crate::state::jobs::Job;
use crate::state::quota::DEPTH_MAX;
use crate::state::resources::RESOURCES_MAX;
use crate::state::topologies::Topology;
use ohm_model::provisioning::ADMISSION_CHECKS_MAX;
use ohm_model::topology::LEVELS_MAX;
use ohm_model::{Amounts, JobId, NodeId, Outcome, QueueSpec, Refusal, TopologySpec};
use std::collections::{BTreeMap, BTreeSet};

impl Cell {
    pub(super) fn put_queue(&mut self, spec: &QueueSpec, applied: &mut Applied) -> Result<Outcome, Refusal> {
        self.check_queue(spec)?;
        let amounts = [&spec.nominal, &spec.borrowing_limit, &spec.lending_limit];
        for name in amounts.into_iter().flat_map(Amounts::keys) {
            self.resources.intern(name).expect("check_queue found room for it");
        }
        self.quota.put(spec.clone());
        let direct = self.direct_usage();
        self.quota.rebuild(&self.resources, &direct);
        self.reshard(applied);
        self.recheck(&spec.name, applied);
        // A smaller quota takes spares first.
        let spares = |job: &&std::sync::Arc<crate::state::jobs::Job>| job.groups.iter().any(|group| group.spares > 0);
        applied.jobs.extend(self.jobs.iter().filter(spares).map(|job| job.id));
        Ok(Outcome::Done)
    }

    fn check_queue(&self, spec: &QueueSpec) -> Result<(), Refusal> {
        let invalid = |field: &str, problem: String| Err(Refusal::Invalid { field: field.into(), problem });
        if spec.name.is_empty() {
            return invalid("metadata.name", "must not be empty".into());
        }
        let negative = [&spec.nominal, &spec.borrowing_limit, &spec.lending_limit];
        if negative.iter().any(|amounts| amounts.values().any(|amount| *amount < 0)) {
            return invalid("spec", "amounts are never negative".into());
        }
        if negative.iter().any(|amounts| amounts.len() > RESOURCES_MAX) {
            return invalid("spec", format!("at most {RESOURCES_MAX} resources are possible"));
        }
        let named: BTreeSet<&String> = negative.iter().flat_map(|amounts| amounts.keys()).collect();
        if !self.resources.has_room_for_jobs(named.into_iter()) {
            return invalid("spec", "the cell has no column left for resources that no node has".into());
        }
        let distinct: BTreeSet<&String> = spec.admission_checks.iter().collect();
        if distinct.len() != spec.admission_checks.len() || distinct.len() > ADMISSION_CHECKS_MAX {
            return invalid(
                "spec.admissionChecks",
                format!("up to {ADMISSION_CHECKS_MAX} different ones are possible"),
            );
        }
        if spec.is_cohort && !distinct.is_empty() {
            return invalid("spec.admissionChecks", "a cohort has none; name them in its queues".into());
        }
        if self.quota.get(&spec.name).is_some_and(|known| known.spec.is_cohort != spec.is_cohort) {
            let hint = "queues and cohorts share their names; choose another".to_string();
            return Err(Refusal::NameTaken { kind: "queue".into(), name: spec.name.clone(), hint });
        }
        if spec.parent.is_empty() {
            return Ok(());
        }
        match self.quota.get(&spec.parent) {
            Some(parent) if parent.spec.is_cohort => {}
            _ => return Err(Refusal::NotFound { kind: "cohort".into(), name: spec.parent.clone() }),
        }
        let mut at = spec.parent.as_str();
        while let Some(node) = self.quota.get(at) {
            if at == spec.name {
                return invalid("spec.cohort", "a cohort can't be below itself".into());
            }
            at = &node.spec.parent;
        }
        if self.quota.depth_under(&spec.name, &spec.parent) > DEPTH_MAX {
            return invalid(
                "spec.cohort",
                format!("more than {DEPTH_MAX} levels of cohorts would stand above a queue"),
            );
        }
        Ok(())
    }

    /// What each queue's own jobs are charged, from the jobs themselves.
    pub(crate) fn direct_usage(&self) -> BTreeMap<String, Amounts> {
        let mut usage: BTreeMap<String, Amounts> = BTreeMap::new();
        for job in self.jobs.iter().filter(|job| !job.spec.queue.is_empty()) {
            let sums = usage.entry(job.spec.queue.clone()).or_default();
            for (resource, amount) in self.charged(job) {
                *sums.entry(resource).or_insert(0) += amount;
            }
        }
        usage
    }

    /// What `job` holds of its queue: its reservation, or else what its live runs ask for; and its spares.
    pub(crate) fn charged(&self, job: &Job) -> Amounts {
        let mut charged = match (job.reserved.is_empty(), job.live()) {
            (false, _) => job.reserved.clone(),
            (true, 0) => Amounts::new(),
            (true, _) => self.live_request(job),
        };
        if job.groups.iter().any(|group| group.spares > 0) {
            for (resource, amount) in self.spares_charged(job) {
                *charged.entry(resource).or_insert(0) += amount;
            }
        }
        charged
    }

    /// A queue that moved to another cohort takes its jobs to another shard; plans for them are void.
    fn reshard(&mut self, applied: &mut Applied) {
        let moved: Vec<JobId> =
            self.jobs.iter().filter(|job| self.shard_of(&job.spec) != job.shard).map(|job| job.id).collect();
        for id in moved {
            let shard = self.jobs.get(id).map(|job| self.shard_of(&job.spec));
            let version = self.applied;
            if let (Some(job), Some(shard)) = (self.jobs.get_mut(id), shard) {
                (job.shard, job.version) = (shard, version);
                applied.jobs.push(id);
            }
        }
    }

    pub(super) fn remove_queue(&mut self, name: &str) -> Result<Outcome, Refusal> {
        if self.quota.get(name).is_none() {
            return Err(Refusal::NotFound { kind: "queue".into(), name: name.into() });
        }
        let in_use = |what: String| {
            let hint = "remove what uses it first".to_string();
            Err(Refusal::WrongState { kind: "queue".into(), name: name.into(), state: what, hint })
        };
        if let Some(child) = self.quota.iter().find(|node| node.spec.parent == name) {
            return in_use(format!("the parent of {}", child.spec.name));
        }
        if let Some(job) = self.jobs.iter().find(|job| job.spec.queue == name) {
            return in_use(format!("named by job {}", job.spec.name));
        }
        self.quota.remove(name);
        let direct = self.direct_usage();
        self.quota.rebuild(&self.resources, &direct);
        Ok(Outcome::Done)
    }

    pub(super) fn put_topology(&mut self, spec: &TopologySpec) -> Result<Outcome, Refusal> {
        let invalid = |field: &str, problem: String| Err(Refusal::Invalid { field: field.into(), problem });
        if spec.name.is_empty() {
            return invalid("metadata.name", "must not be empty".into());
        }
        let distinct: BTreeSet<&String> = spec.levels.iter().collect();
        if spec.levels.is_empty() || spec.levels.len() > LEVELS_MAX || distinct.len() != spec.levels.len() {
            return invalid("spec.levels", format!("1 to {LEVELS_MAX} distinct labels are possible"));
        }
        let host = spec.levels.iter().position(|level| level == ohm_model::node::HOSTNAME_LABEL);
        if host.is_some_and(|host| host + 1 != spec.levels.len()) {
            return invalid("spec.levels", "the host name can only be the last level".into());
        }
        if let Some(known) = self.topologies.iter().find(|known| known.spec.name == spec.name) {
            if known.spec == *spec {
                return Ok(Outcome::Done);
            }
            let hint = "remove it first, or choose another name".to_string();
            return Err(Refusal::NameTaken { kind: "topology".into(), name: spec.name.clone(), hint });
        }
        let mut topology = Topology::new(spec.clone());
        let nodes: Vec<NodeId> = self.nodes.iter().map(|(node, _)| node).collect();
        for node in nodes {
            if let Some(record) = self.nodes.get(node) {
                topology.join(node, &record.spec.labels);
            }
        }
        self.topologies.put(topology);
        Ok(Outcome::Done)
    }

    pub(super) fn remove_topology(&mut self, name: &str) -> Result<Outcome, Refusal> {
        if !self.topologies.iter().any(|known| known.spec.name == name) {
            return Err(Refusal::NotFound { kind: "topology".into(), name: name.into() });
        }
        let uses = |group: &ohm_model::GroupSpec| {
            let request = &group.topology;
            request.is_asked() && (request.topology == name || request.topology.is_empty())
        };
        let open = |job: &&std::sync::Arc<crate::state::jobs::Job>| {
            !matches!(job.state, crate::state::jobs::JobState::Finished(_))
        };
        if let Some(job) = self.jobs.iter().filter(open).find(|job| job.spec.groups.iter().any(uses)) {
            return Err(Refusal::WrongState {
                kind: "topology".into(),
                name: name.into(),
                state: format!("used by job {}", job.spec.name),
                hint: "cancel the job or wait for its end".into(),
            });
        }
        self.topologies.remove(name);
        Ok(Outcome::Done)
    }
}
