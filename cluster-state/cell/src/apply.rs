//! Applying entries: one closed match over the commands, one file per kind of change. Nothing here fails half-way: a
//! command is judged whole, then applied whole, and its outcome and events say what happened.

mod admission;
mod as_if;
mod commit;
mod conditions;
mod drain;
mod freed;
mod jobs;
mod kept;
mod moves;
mod nodes;
mod nominations;
mod priorities;
mod provisioning;
mod quota;
mod registration;
mod repair;
#[cfg(test)]
mod revisions;
mod room;
mod runs;
mod spares;
mod survivors;
mod time;
mod update;

pub use freed::Freed;
pub(crate) use time::Timer;

use crate::cell::{Cell, STAMP_MAX_MS};
use crate::state::sessions::Admission;
use ohm_model::lease::SHARDS_PER_CLASS;
use ohm_model::{
    Class, Command, Entry, Envelope, Epoch, Event, EventKind, Index, JobId, Lease, NodeId, Outcome, Refusal, Role,
    SessionId,
};

/// What an entry caused. Keep one and hand it in again; `Cell::apply` clears it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// One outcome per command, in order.
    pub outcomes: Vec<Outcome>,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// Nodes whose columns, record or runs changed; may repeat.
    pub nodes: Vec<NodeId>,
    /// Jobs that changed in any way; may repeat.
    pub jobs: Vec<JobId>,
    /// What was given back.
    pub freed: Freed,
}

impl Cell {
    /// Applies the entry at `index`. The same entries give the same state, outcomes and events on every copy (P9).
    ///
    /// # Panics
    /// When `index` is not above every index applied before: the caller broke the log's order.
    pub fn apply(&mut self, index: Index, entry: &Entry, applied: &mut Applied) {
        assert!(index > self.applied, "entry {index} after {}: the log's order is broken", self.applied);
        applied.outcomes.clear();
        applied.events.clear();
        applied.nodes.clear();
        applied.jobs.clear();
        applied.freed.clear();
        std::mem::swap(&mut self.freed, &mut applied.freed);
        self.applied = index;
        self.now_ms = self.now_ms.max(entry.stamp_ms.min(STAMP_MAX_MS));
        for envelope in &entry.commands {
            let before = spares::Before::of(applied);
            let outcome = self.apply_once(envelope, applied);
            if !self.kept.back().is_empty() {
                self.settle_kept(applied);
            }
            self.settle_spares(before, applied);
            applied.outcomes.push(outcome);
        }
        std::mem::swap(&mut self.freed, &mut applied.freed);
        self.lengthen_chain(applied);
    }

    /// Takes note of an index that holds nothing for the cell (the engine's own entry), so that readers can wait for
    /// it.
    pub fn skip_to(&mut self, index: Index) {
        self.applied = self.applied.max(index);
    }

    fn apply_once(&mut self, envelope: &Envelope, applied: &mut Applied) -> Outcome {
        match &envelope.command {
            Command::OpenSession { nonce, role, name } => {
                let session = self.sessions.open(self.applied, self.now_ms, *nonce, *role, name.clone());
                return Outcome::Session(session);
            }
            Command::Tick => {
                self.tick(applied);
                return Outcome::Done;
            }
            _ => {}
        }
        match self.sessions.admit(envelope, self.now_ms) {
            Err(refusal) => Outcome::Refused(refusal),
            Ok(Admission::Known(outcome)) => outcome,
            Ok(Admission::Fresh) => {
                let outcome = self.apply_fresh(envelope.session, &envelope.command, applied);
                self.sessions.remember(envelope.session, envelope.sequence, outcome.clone());
                outcome
            }
        }
    }

    fn apply_fresh(&mut self, session: SessionId, command: &Command, applied: &mut Applied) -> Outcome {
        let result = match command {
            Command::OpenSession { .. } | Command::Tick => Ok(Outcome::Done),
            Command::CloseSession => {
                self.sessions.close(session);
                Ok(Outcome::Done)
            }
            Command::KeepAlive => {
                self.sessions.renew(session, self.applied);
                Ok(Outcome::Done)
            }
            Command::TakeLease { lease, epoch, renewed } => self.take_lease(session, *lease, *epoch, *renewed, applied),
            Command::ReleaseLease { lease, epoch } => {
                self.sessions.release(*lease, session, *epoch);
                Ok(Outcome::Done)
            }
            Command::RegisterNode { spec, key, instance, boot, alive } => {
                self.register_node(spec, *key, *instance, *boot, alive, applied)
            }
            Command::ConcludeNodes { epoch, conclusions } => self.conclude_nodes(session, *epoch, conclusions, applied),
            Command::BoundNodeLease { epoch, seen_ms, lease_ms } => {
                self.bound_node_lease(session, *epoch, (*seen_ms, *lease_ms), applied)
            }
            Command::HoldConclusions { epoch, silent, brake_ms } => {
                self.hold_conclusions(session, *epoch, *silent, *brake_ms, applied)
            }
            Command::CordonNode { name, cordoned } => self.cordon_node(name, *cordoned, applied),
            Command::RemoveNode { name } => self.remove_node(name, applied),
            Command::Report { node, reports } => {
                self.report(*node, reports, applied);
                Ok(Outcome::Done)
            }
            Command::SubmitJobs { owner, jobs } => Ok(self.submit_jobs(owner, jobs, applied)),
            Command::UpdateJob { owner, spec, version } => Ok(self.update_job(owner, spec, *version, applied)),
            Command::CancelJob { name } => self.cancel_job(name, applied),
            Command::SuspendJob { name } => self.suspend_job(name, applied),
            Command::ResumeJob { name } => self.resume_job(name, applied),
            Command::ForgetJob { name } => self.forget_named_job(name, applied),
            Command::Commit(transaction) => Ok(self.commit(session, transaction, applied)),
            Command::PutQueue(spec) => self.put_queue(spec, applied),
            Command::RemoveQueue { name } => self.remove_queue(name),
            Command::PutTopology(spec) => self.put_topology(spec),
            Command::RemoveTopology { name } => self.remove_topology(name),
            Command::PutPriorityClass(class) => self.put_priority_class(class),
            Command::RemovePriorityClass { name } => self.remove_priority_class(name),
            Command::ReportConditions { node, incarnation, number, conditions } => {
                self.report_conditions(*node, (*incarnation, *number), conditions, applied)
            }
            Command::ReleaseNode { name } => self.release_node(name, applied),
            Command::PutProvisioningClass(class) => self.put_provisioning_class(class),
            Command::RemoveProvisioningClass { name } => self.remove_provisioning_class(name),
            Command::ReportCheck { epoch, job, round, class, report } => {
                let check = admission::CheckName { job: *job, round: *round, class };
                self.report_check((session, *epoch), check, report, applied)
            }
            Command::RaiseVersion { version } => self.raise_version(*version),
            Command::DrainNode { name, deadline_ms, at_once } => self.drain_node(name, *deadline_ms, *at_once, applied),
            Command::UndrainNode { name } => self.undrain_node(name, applied),
        };
        result.unwrap_or_else(Outcome::Refused)
    }

    fn take_lease(
        &mut self,
        session: SessionId,
        lease: Lease,
        epoch: Epoch,
        renewed: Index,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        if let Lease::Shard(shard) = lease
            && shard.number >= SHARDS_PER_CLASS
        {
            let problem = format!("there is no shard {}; a class has {SHARDS_PER_CLASS}", shard.number);
            return Err(Refusal::Invalid { field: "lease".into(), problem });
        }
        let before = self.sessions.lease(lease).epoch;
        let taken = self.sessions.take(lease, session, epoch, renewed, self.applied)?;
        if taken != before {
            let holder = self.sessions.get(session).map_or_else(String::new, |session| session.name.clone());
            let lease = match lease {
                Lease::Health => "health".to_string(),
                Lease::Provisioning => "provisioning".to_string(),
                Lease::Shard(shard) => format!("{}/{}", shard.class.name(), shard.number),
            };
            self.tell(applied, EventKind::LeaseTaken { lease, holder });
        }
        Ok(Outcome::Lease(taken))
    }

    fn raise_version(&mut self, version: u32) -> Result<Outcome, Refusal> {
        if version > crate::cell::VERSION {
            return Err(Refusal::Version { needed: version, known: crate::cell::VERSION });
        }
        self.version = self.version.max(version);
        Ok(Outcome::Done)
    }

    pub(crate) fn tell(&self, applied: &mut Applied, kind: EventKind) {
        applied.events.push(Event { index: self.applied, at_ms: self.now_ms, kind });
    }

    /// What people call `session`; for counting conflicts by their cause.
    pub(crate) fn session_name(&self, session: SessionId) -> String {
        self.sessions.get(session).map_or_else(|| session.to_string(), |session| session.name.clone())
    }

    /// The sessions that schedule jobs of `class`, for sharing out its shards; of replicas that started anew, the last.
    pub fn replicas(&self, class: Class) -> impl Iterator<Item = (SessionId, Index)> {
        let of_class = move |role: Role| role == Role::Scheduler(class);
        self.sessions
            .iter()
            .filter(move |(id, session)| of_class(session.role) && !self.sessions.is_superseded(*id))
            .map(|(id, session)| (id, session.renewed))
    }
}
