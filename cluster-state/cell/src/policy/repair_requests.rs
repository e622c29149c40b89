//! Nodes that a repair asks for while it waits (`repair: {provision: true}`).
//!
//! ```text
//!                                                             its nodes join and are the job's
//!   room is claimed, and there is less ─▶ Pending ─▶ Ready ─────────────────────────────────▶ placed
//!   than was lost                          ▲  └──┐     │ not used within bookingSeconds
//!                                          └─ Failed ◀─┘
//! ```
//! Asked are the classes that were asked when the job was admitted, once for each lost task of a group without room
//! that none is earmarked for. What they bring carries the label of the admission's request, so that all that holds of
//! the job's other nodes holds of it: for whom it is kept, what the job tolerates, when it goes back. A request that
//! fails is made again as a failed check is; it never ends the job's admission, which the tasks that stayed run under.
//!
//! Requests end when nothing lost waits any more, and with their repair.

use crate::apply::Tx;
use crate::cell::Cell;
use crate::judge::slices::homes;
use crate::policy::claims::lacking_of;
use crate::state::jobs::{Job, JobState};
use crate::state::repairs::{RepairRequest, RequestState};
use crate::state::timers::Timer;
use crate::state::topologies::Topology;
use ohm_model::selector::Labels;
use ohm_model::{DomainId, EventKind, GroupIndex, JobId, RequestChange};
use ohm_stdx::RangeSet;
use ohm_stdx::bug::{self, Bug};
use std::collections::{BTreeMap, BTreeSet};

/// Lost tasks, by group.
type Tasks = BTreeMap<GroupIndex, RangeSet>;

/// Asks for what repairs lack, and ends what is asked for nobody. Called after every command, over the jobs that it
/// named, when all room that is owed has been given. Where nobody brings nodes it costs one look.
pub(crate) fn settle_repair_requests(tx: &mut Tx<'_>) {
    if tx.provisioning_classes.iter().len() == 0 {
        return;
    }
    let has_asked = |job: &Job| job.repairs.open.as_ref().is_some_and(|open| !open.requests.is_empty());
    let concerned = |id: &JobId| tx.jobs.get(*id).is_some_and(|job| may_ask(job) || has_asked(job));
    let jobs: BTreeSet<JobId> = tx.touched_jobs().iter().copied().filter(concerned).collect();
    for id in jobs {
        if may_ask(tx.job(id)) {
            end_served(tx, id);
            ask_for_what_lacks(tx, id);
        } else {
            tx.job_mut(id).repairs.open.iter_mut().for_each(|open| open.requests.clear());
            tx.touch_job(id);
        }
    }
}

/// Whether nodes may be asked for: something lost of an admitted job waits.
pub(crate) fn may_ask(job: &Job) -> bool {
    let is_admitted = || job.admission.round.as_ref().is_some_and(|round| round.admitted);
    let waits = || job.groups.iter().any(|group| !group.lost.is_empty());
    job.spec.repair.provision && job.state == JobState::Active && is_admitted() && waits()
}

/// Requests whose nodes are there have served the tasks that have places by now: who loses them asks anew.
fn end_served(tx: &mut Tx<'_>, id: JobId) {
    let job = tx.job(id).clone();
    let ready = job.repairs.open.iter().flat_map(|open| &open.requests);
    let ready = ready.filter(|request| request.state == RequestState::Ready);
    for (group, tasks) in ready.flat_map(|request| &request.tasks) {
        let (mut served, owed) = (tasks.clone(), job.owed(*group));
        served.remove_all(&owed);
        if !served.is_empty() {
            tx.job_mut(id).repairs.open.iter_mut().for_each(|open| open.end_served(*group, &served));
            tx.touch_job(id);
        }
    }
}

fn ask_for_what_lacks(tx: &mut Tx<'_>, id: JobId) {
    let job = tx.job(id);
    let checks = job.admission.round.iter().flat_map(|round| &round.checks);
    let classes: Vec<String> = checks.map(|check| check.class.clone()).collect();
    for class in classes {
        // The next attempt asks for all that lacks by then.
        if !has_failed(tx.job(id), &class) {
            ask(tx, id, class, 1);
        }
    }
}

fn has_failed(job: &Job, class: &str) -> bool {
    let mut requests = job.repairs.open.iter().flat_map(|open| &open.requests);
    requests.any(|request| request.class == class && request.state == RequestState::Failed)
}

/// Asks `class` for what lacks room and was not asked of it, if there is something.
fn ask(tx: &mut Tx<'_>, id: JobId, class: String, attempt: u32) {
    let tasks = not_asked(tx, id, &class);
    if tasks.is_empty() || bug::is_planted(Bug::ForgetRepairRequest) {
        return;
    }
    let (since_ms, timeout_seconds) =
        (tx.now_ms, tx.provisioning_classes.get(&class).map_or(0, |class| class.timeout_seconds));
    let job = tx.job_mut(id);
    job.repairs.requested += 1;
    let (number, message) = (job.repairs.requested, String::new());
    let request = RepairRequest { number, class, attempt, state: RequestState::Pending, since_ms, message, tasks };
    tell(tx, id, &request, "asked", 0);
    arm(tx, id, timeout_seconds);
    tx.job_mut(id).repairs.open.iter_mut().for_each(|open| open.requests.push(request.clone()));
    tx.touch_job(id);
}

/// The lost tasks of groups without room that none is earmarked for, and no request of `class` that stands asks for.
fn not_asked(cell: &Cell, id: JobId, class: &str) -> Tasks {
    let mut tasks = Tasks::new();
    let Some((job, open)) = cell.jobs.get(id).and_then(|job| Some((job, job.repairs.open.as_ref()?))) else {
        return tasks;
    };
    for group in open.without_room.iter().copied().filter(|group| usize::from(group.0) < job.groups.len()) {
        let mut lacking = lacking_of(cell, (id, group.0));
        let requests = open.requests.iter();
        let stands = |request: &&RepairRequest| request.class == class && request.state != RequestState::Failed;
        let asked = requests.filter(stands).filter_map(|request| request.tasks.get(&group));
        if !bug::is_planted(Bug::RepeatRepairRequest) {
            asked.flat_map(RangeSet::iter).for_each(|(first, count)| lacking.remove(first, count));
        }
        if !lacking.is_empty() {
            tasks.insert(group, lacking);
        }
    }
    tasks
}

/// What the outside says of a request that is pending.
pub(crate) fn note_request(tx: &mut Tx<'_>, id: JobId, number: u32, message: String) {
    if let Some(request) = find(tx, id, number).filter(|request| request.message != message) {
        request.message = message;
        tx.touch_job(id);
    }
}

/// The nodes are there, or about to join.
pub(crate) fn ready_request(tx: &mut Tx<'_>, id: JobId, number: u32, message: String) {
    let Some(request) = change(tx, id, number, RequestState::Ready, message) else { return };
    let booking_seconds = tx.provisioning_classes.get(&request.class).map_or(0, |class| class.booking_seconds);
    arm(tx, id, booking_seconds);
    tell(tx, id, &request, "ready", 0);
}

/// There are no nodes for now: it is asked again after a while, unless it has failed too often.
pub(crate) fn fail_request(tx: &mut Tx<'_>, id: JobId, number: u32, message: String) {
    let Some(request) = change(tx, id, number, RequestState::Failed, message) else { return };
    let wait_ms = retry_ms(tx, &request);
    if let Some(wait_ms) = wait_ms {
        tx.arm(tx.now_ms.saturating_add(wait_ms), Timer::RepairRequest(id));
    }
    let state = if wait_ms.is_some() { "retry" } else { "failed" };
    tell(tx, id, &request, state, wait_ms.unwrap_or(0));
}

/// How long a request that has failed waits before it is made again; nothing when it is not.
fn retry_ms(cell: &Cell, request: &RepairRequest) -> Option<u64> {
    let retry = cell.provisioning_classes.get(&request.class)?.retry;
    (request.attempt <= retry.limit).then(|| retry.wait_ms(request.attempt).max(1))
}

/// The time of requests that a repair of `id` has made may be over.
pub(crate) fn requests_due(tx: &mut Tx<'_>, id: JobId) {
    let Some(job) = tx.jobs.get(id).filter(|job| may_ask(job)) else { return };
    let requests: Vec<RepairRequest> = job.repairs.open.iter().flat_map(|open| &open.requests).cloned().collect();
    for request in requests {
        let Some(class) = tx.provisioning_classes.get(&request.class) else { continue };
        let waited_ms = tx.now_ms.saturating_sub(request.since_ms);
        let is_over = |seconds: u64| seconds > 0 && waited_ms >= seconds.saturating_mul(1000);
        match request.state {
            RequestState::Pending if is_over(class.timeout_seconds) => {
                let message = format!("no answer within timeoutSeconds ({})", class.timeout_seconds);
                fail_request(tx, id, request.number, message);
            }
            RequestState::Ready if is_over(class.booking_seconds) => {
                let booking_seconds = class.booking_seconds;
                if lacks_any(tx, id, &request) {
                    let message = format!("no room within bookingSeconds ({booking_seconds})");
                    fail_request(tx, id, request.number, message);
                } else {
                    // Room that is earmarked may be lost again.
                    arm(tx, id, booking_seconds);
                }
            }
            RequestState::Failed if retry_ms(tx, &request).is_some_and(|wait_ms| waited_ms >= wait_ms) => {
                let open = tx.job_mut(id).repairs.open.iter_mut();
                open.for_each(|open| open.requests.retain(|known| known.number != request.number));
                tx.touch_job(id);
                ask(tx, id, request.class, request.attempt.saturating_add(1));
            }
            _ => {}
        }
    }
}

/// Whether some task that a request is for has no room still.
fn lacks_any(cell: &Cell, id: JobId, request: &RepairRequest) -> bool {
    let open = cell.jobs.get(id).and_then(|job| job.repairs.open.as_ref());
    let is_without_room = |group: &GroupIndex| open.is_some_and(|open| open.without_room.contains(group));
    request.tasks.iter().filter(|(group, _)| is_without_room(group)).any(|(group, asked)| {
        let lacking = lacking_of(cell, (id, group.0));
        asked.iter().any(|(first, count)| lacking.overlap(first, count) > 0)
    })
}

fn find<'a>(tx: &'a mut Tx<'_>, id: JobId, number: u32) -> Option<&'a mut RepairRequest> {
    let open = tx.job_mut(id).repairs.open.as_mut()?;
    open.requests.iter_mut().find(|request| request.number == number)
}

/// Takes a request to another state; nothing when it is in it already.
fn change(tx: &mut Tx<'_>, id: JobId, number: u32, state: RequestState, message: String) -> Option<RepairRequest> {
    let since_ms = tx.now_ms;
    let request = find(tx, id, number).filter(|request| request.state != state)?;
    (request.state, request.since_ms, request.message) = (state, since_ms, message);
    let request = request.clone();
    tx.touch_job(id);
    Some(request)
}

fn arm(tx: &mut Tx<'_>, id: JobId, seconds: u64) {
    if seconds > 0 {
        tx.arm(tx.now_ms.saturating_add(seconds.saturating_mul(1000)), Timer::RepairRequest(id));
    }
}

fn tell(tx: &mut Tx<'_>, job: JobId, request: &RepairRequest, state: &str, wait_ms: u64) {
    let name = tx.job(job).spec.name.clone();
    let change = RequestChange {
        class: request.class.clone(),
        number: request.number,
        attempt: request.attempt,
        state: state.to_string(),
        tasks: request.count(),
        message: request.message.clone(),
        wait_ms,
    };
    tx.tell(EventKind::RepairRequest { job, name, change });
}

/// The labels that a node must have for a lost task to come there, as far as its topology goes: those of the domain its
/// group stands in, or may widen to, and of the domains of its slices. Hosts are nobody's to bring: their level is left
/// out.
pub fn domain_labels(cell: &Cell, job: &Job, group: GroupIndex, rank: u32) -> Labels {
    let at = usize::from(group.0);
    let Some(spec) = job.spec.groups.get(at) else { return Labels::new() };
    let Some(topology) = cell.topologies.get(&spec.topology.topology) else { return Labels::new() };
    let bound = job.binding_level(at).and_then(|(_, level)| Some((topology.level(level)?, job.shared_domain(at)?)));
    let bound = bound.and_then(|(level, key)| {
        let Some(wide) = job.widening_level(at).and_then(|wide| topology.level(wide)) else {
            return Some((level, key));
        };
        Some((wide, topology.key_above(level, key, wide)?))
    });
    let of_slices = spec.slices().iter().filter_map(|slice| {
        let level = topology.level(&slice.level)?;
        Some((level, *homes(cell, (job, at), rank, (topology, level, slice.size)).first()?))
    });
    let labels = bound.into_iter().chain(of_slices).flat_map(|(level, key)| labels_of(topology, level, key));
    labels.collect()
}

/// The labels of a domain and of those above it.
fn labels_of(topology: &Topology, level: usize, key: u32) -> Vec<(String, String)> {
    let Some(stored) = topology.stored_levels().checked_sub(1).map(|last| last.min(level)) else { return Vec::new() };
    let Some(key) = topology.key_above(level, key, stored) else { return Vec::new() };
    let values = topology.path(DomainId(key)).into_iter().map(String::from);
    topology.spec.levels.iter().cloned().zip(values).collect()
}
