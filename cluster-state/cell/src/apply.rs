//! Applying entries: one closed match over the commands, one file per command; what several of them do is in `steps/`.
//! Nothing here fails half-way: a command is judged whole, then applied whole, and its outcome and events say what
//! happened.

mod applied;
mod bound_node_lease;
mod cancel_job;
pub(crate) mod commit;
mod conclude_nodes;
pub(crate) mod cordon_node;
mod drain_node;
pub(crate) mod forget_job;
mod freed;
mod put_budget;
mod put_namespace;
mod put_priority_class;
mod put_provisioning_class;
mod put_queue;
mod put_resource_flavor;
mod put_scheduling;
pub(crate) mod put_scheduling_profile;
mod put_subqueue;
mod put_topology;
mod register_node;
mod release_node;
mod remove_node;
mod report;
pub(crate) mod report_check;
mod report_conditions;
mod report_released;
#[cfg(test)]
mod revisions;
mod rollout;
pub(crate) mod steps;
mod submit_jobs;
mod suspend_job;
mod taint_node;
mod take_lease;
mod tick;
mod tx;
pub(crate) mod update_job;
pub use applied::Applied;
pub use freed::Freed;
pub(crate) use tx::Tx;
pub use update_job::changed_fields;

use crate::apply::report_released::report_released;
use crate::apply::steps::budgets::settle_budgets;
use crate::apply::steps::names::{check_actor, check_session};
use crate::apply::steps::task_counts::settle_task_counts;
use crate::cell::{Cell, STAMP_MAX_MS};
use crate::planted::{self, Planted};
use crate::policy::admission::CheckName;
use crate::policy::brought::{settle_brought, settle_idle};
use crate::policy::claims::{give_owed_room, settle_claims};
use crate::policy::heads::settle_heads;
use crate::policy::kept::settle_kept;
use crate::policy::preemptions::settle_preemptions;
use crate::policy::ready::settle_readiness;
use crate::policy::repair_requests::settle_repair_requests;
use crate::policy::rollout::settle_rollouts;
use crate::policy::spares::settle_spares;
use crate::policy::start_deadlines::settle_start_deadlines;
use crate::policy::subqueues::settle_usage;
use crate::policy::turns::settle_turns;
use crate::policy::waiting::settle_waiting;
use crate::rooms::reads::session_name;
use crate::state::digest::lengthen_chain;
use crate::state::sessions::Admission;
use ohm_model::{Command, Entry, Envelope, Epoch, Index, Lease, Outcome, Refusal, SessionId};

/// Applies the entry at `index`; see [`Cell::apply`].
pub(crate) fn apply_entry(cell: &mut Cell, index: Index, entry: &Entry, applied: &mut Applied) {
    assert!(index > cell.applied, "entry {index} after {}: the log's order is broken", cell.applied);
    applied.outcomes.clear();
    applied.events.clear();
    applied.nodes.clear();
    applied.jobs.clear();
    applied.freed.clear();
    applied.judged.clear();
    cell.applied = index;
    cell.now_ms = cell.now_ms.max(entry.stamp_ms.min(STAMP_MAX_MS));
    for envelope in &entry.commands {
        let planted = Planted::before(cell, envelope, applied.events.len());
        let envelope = planted.envelope(envelope);
        let mut tx = Tx::new(cell, applied, &envelope.command);
        let outcome = apply_once(&mut tx, envelope);
        settle_kept(&mut tx);
        settle_rollouts(&mut tx);
        settle_brought(&mut tx);
        settle_claims(&mut tx);
        settle_heads(&mut tx);
        settle_preemptions(&mut tx);
        planted::settle_with(&mut tx, settle_spares);
        give_owed_room(&mut tx);
        settle_repair_requests(&mut tx);
        settle_idle(&mut tx);
        settle_turns(&mut tx);
        settle_usage(&mut tx);
        settle_readiness(&mut tx);
        settle_start_deadlines(&mut tx);
        settle_waiting(&mut tx);
        settle_task_counts(&mut tx);
        settle_budgets(&mut tx);
        tx.applied.outcomes.push(outcome);
        planted.after(cell, applied);
    }
    lengthen_chain(cell, applied);
}

fn apply_once(tx: &mut Tx<'_>, envelope: &Envelope) -> Outcome {
    match &envelope.command {
        Command::OpenSession { nonce, role, name } => {
            if let Err(refusal) = check_session(name) {
                return Outcome::Refused(refusal);
            }
            let session = tx.cell.sessions.open(tx.cell.applied, tx.cell.now_ms, *nonce, *role, name.clone());
            return Outcome::Session(session);
        }
        Command::Tick => {
            tick::tick(tx);
            return Outcome::Done;
        }
        _ => {}
    }
    match tx.cell.sessions.admit(envelope, tx.cell.now_ms) {
        Err(refusal) => Outcome::Refused(refusal),
        Ok(Admission::Known(outcome)) => outcome,
        Ok(Admission::Fresh) => {
            let refused = check_actor(&envelope.actor).err().map(Outcome::Refused);
            let outcome = refused.unwrap_or_else(|| apply_fresh(tx, envelope));
            tx.sessions.remember(envelope.session, envelope.sequence, outcome.clone());
            outcome
        }
    }
}

fn apply_fresh(tx: &mut Tx<'_>, envelope: &Envelope) -> Outcome {
    let session = envelope.session;
    let result = match &envelope.command {
        Command::OpenSession { .. } | Command::Tick => Ok(Outcome::Done),
        Command::CloseSession => close_session(tx, session),
        Command::KeepAlive => keep_alive(tx, session),
        Command::TakeLease { lease, epoch, renewed } => take_lease::take_lease(tx, session, *lease, *epoch, *renewed),
        Command::ReleaseLease { lease, epoch } => release_lease(tx, session, (*lease, *epoch)),
        Command::RegisterNode { spec, key, instance, boot, alive } => {
            register_node::register_node(tx, spec, *key, *instance, *boot, alive)
        }
        Command::ConcludeNodes { epoch, conclusions } => {
            conclude_nodes::conclude_nodes(tx, session, *epoch, conclusions)
        }
        Command::BoundNodeLease { epoch, seen_ms, lease_ms, take_over } => {
            bound_node_lease::bound_node_lease(tx, session, *epoch, (*seen_ms, *lease_ms), take_over)
        }
        Command::HoldConclusions { epoch, silent, brake_ms } => {
            bound_node_lease::hold_conclusions(tx, session, *epoch, *silent, *brake_ms)
        }
        Command::CordonNode { name, cordoned } => cordon_node::cordon_node(tx, name, *cordoned),
        Command::TaintNode { name, taint } => taint_node::taint_node(tx, name, taint),
        Command::UntaintNode { name, pattern } => taint_node::untaint_node(tx, name, pattern),
        Command::RemoveNode { name } => remove_node::remove_node(tx, name),
        Command::Report { node, reports } => Ok(report::report(tx, *node, reports)),
        Command::SubmitJobs { jobs } => Ok(submit_jobs::submit_jobs(tx, &actor_name(tx, envelope), jobs)),
        Command::UpdateJob { spec, version } => {
            Ok(update_job::update_job(tx, &actor_name(tx, envelope), spec, *version))
        }
        Command::CancelJob { name, grace_ms } => cancel_job::cancel_job(tx, name, *grace_ms),
        Command::SuspendJob { name } => suspend_job::suspend_job(tx, name),
        Command::ResumeJob { name } => suspend_job::resume_job(tx, name),
        Command::Rollout { name, action } => rollout::rollout(tx, &actor_name(tx, envelope), name, *action),
        Command::ForgetJob { name } => forget_job::forget_named_job(tx, name),
        Command::Commit(transaction) => Ok(commit::commit(tx, session, transaction)),
        Command::PutQueue(spec) => put_queue::put_queue(tx, spec),
        Command::RemoveQueue { name } => put_queue::remove_queue(tx, name),
        Command::PutSubqueue(subqueue) => put_subqueue::put_subqueue(tx, subqueue),
        Command::RemoveSubqueue { name } => put_subqueue::remove_subqueue(tx, name),
        Command::PutTopology(spec) => put_topology::put_topology(tx, spec),
        Command::RemoveTopology { name } => put_topology::remove_topology(tx, name),
        Command::PutNamespace(namespace) => put_namespace::put_namespace(tx, namespace),
        Command::RemoveNamespace { name } => put_namespace::remove_namespace(tx, name),
        Command::PutBudget(budget) => put_budget::put_budget(tx, budget),
        Command::RemoveBudget { name } => put_budget::remove_budget(tx, name),
        Command::PutPriorityClass(class) => put_priority_class::put_priority_class(tx, class),
        Command::RemovePriorityClass { name } => put_priority_class::remove_priority_class(tx, name),
        Command::PutResourceFlavor(flavor) => put_resource_flavor::put_resource_flavor(tx, flavor),
        Command::RemoveResourceFlavor { name } => put_resource_flavor::remove_resource_flavor(tx, name),
        Command::PutScheduling(scheduling) => put_scheduling::put_scheduling(tx, scheduling),
        Command::ReportConditions { node, incarnation, number, conditions } => {
            report_conditions::report_conditions(tx, *node, (*incarnation, *number), conditions)
        }
        Command::ReleaseNode { name } => release_node::release_node(tx, name),
        Command::PutProvisioningClass(class) => put_provisioning_class::put_provisioning_class(tx, class),
        Command::RemoveProvisioningClass { name } => put_provisioning_class::remove_provisioning_class(tx, name),
        Command::PutSchedulingProfile(profile) => put_scheduling_profile::put_scheduling_profile(tx, profile),
        Command::RemoveSchedulingProfile { name } => put_scheduling_profile::remove_scheduling_profile(tx, name),
        Command::ReportCheck { epoch, job, round, class, repair, report } => {
            let check = CheckName { job: *job, round: *round, class };
            report_check::report_check(tx, (session, *epoch), (check, *repair), report)
        }
        Command::ReportReleased { epoch, nodes } => report_released(tx, (session, *epoch), nodes),
        Command::RaiseVersion { version } => raise_version(tx, *version),
        Command::DrainNode { name, deadline_ms, at_once } => drain_node::drain_node(tx, name, *deadline_ms, *at_once),
        Command::UndrainNode { name } => drain_node::undrain_node(tx, name),
    };
    result.unwrap_or_else(Outcome::Refused)
}

fn keep_alive(tx: &mut Tx<'_>, session: SessionId) -> Result<Outcome, Refusal> {
    tx.cell.sessions.renew(session, tx.cell.applied);
    Ok(Outcome::Done)
}

fn release_lease(tx: &mut Tx<'_>, session: SessionId, (lease, epoch): (Lease, Epoch)) -> Result<Outcome, Refusal> {
    tx.sessions.release(lease, session, epoch);
    Ok(Outcome::Done)
}

fn close_session(tx: &mut Tx<'_>, session: SessionId) -> Result<Outcome, Refusal> {
    tx.sessions.close(session);
    Ok(Outcome::Done)
}

fn raise_version(tx: &mut Tx<'_>, version: u32) -> Result<Outcome, Refusal> {
    if version > crate::cell::VERSION {
        return Err(Refusal::Version { needed: version, known: crate::cell::VERSION });
    }
    tx.version = tx.version.max(version);
    Ok(Outcome::Done)
}

/// Who wants this done: the person a server speaks for, else the holder of the session.
fn actor_name(cell: &Cell, envelope: &Envelope) -> String {
    match envelope.actor.0.as_str() {
        "" => session_name(cell, envelope.session),
        actor => actor.to_string(),
    }
}
