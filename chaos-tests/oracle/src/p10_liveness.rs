//! P10: once everything is quiet, no pending job fits. The oracle counts room, quota and claims in its own books, and
//! asks nobody else.

use crate::amounts::{add, asks};
use crate::history::Broken;
use crate::p7_moves::must_leave;
use crate::p10_ledger::{Ledger, Missing};
use crate::p10_witness::witness;
use crate::rooms::Room;
use crate::waiting::Wait;
use ohm_model::{Amounts, JobId, JobSpec, NodeId, RepairPolicy, StopPolicy, TopologyMode};
use std::collections::{BTreeMap, BTreeSet};

/// A job that waits although it fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The job.
    pub job: JobId,
    /// What it waits for, and after how many attempts: unchanged from look to look, it has waited all the while.
    pub attempts: u64,
    /// In words.
    pub broken: Broken,
}

/// Every job that waits although it fits by itself and its queue has room for it. Whether a job of several groups or
/// with slices fits is not a question about single nodes: for those a witness is looked for.
pub(crate) fn stuck_jobs(ledger: &Ledger<'_>) -> Vec<Stuck> {
    let found = |(job, wait): (JobId, &Wait)| {
        let what = why_stuck(ledger, job, wait)?;
        Some(Stuck { job, attempts: wait.changes, broken: Broken::new("P10", what) })
    };
    ledger.waiting.active().filter_map(found).collect()
}

fn why_stuck(ledger: &Ledger<'_>, job: JobId, wait: &Wait) -> Option<String> {
    let spec = ledger.books.jobs.get(&job)?;
    let (kind, name, queue) = (spec.class.name(), &spec.name, &spec.queue);
    // What stops as a whole starts anew when all of it has ended.
    let stands = ledger.books.live_of(job).next().is_some();
    if stands && ledger.books.live_of(job).all(|standing| standing.stopping) {
        return None;
    }
    if ledger.waiting.is_timed_out(job) {
        return None;
    }
    let may_start = match ledger.stop_policy(spec) {
        Some(StopPolicy::HoldAndDrain) => false,
        Some(_) => stands,
        None => !ledger.may_be_kept_back(job, spec),
    };
    if !may_start {
        return None;
    }
    if ledger.is_unasked(job, spec, wait) {
        let mut asked = Amounts::new();
        spec.groups.iter().for_each(|group| add(&mut asked, &asks(group, group.count)));
        let fits = ledger.queue_takes(job, spec, &asked);
        return fits.then(|| format!("job {name} (queue \"{queue}\") waits for quota that is there"));
    }
    if !ledger.may_place(job, spec) {
        return None;
    }
    if spec.groups.len() > 1 || !spec.groups[0].slices().is_empty() {
        let witness = witness(ledger, job, spec, wait)?;
        return Some(format!("{kind} job {name} waits; all its groups fit: {witness}"));
    }
    let Missing { pending, needed } = ledger.missing((job, 0), spec, wait);
    if pending == 0 {
        return unmoved(ledger, job, spec);
    }
    let asked = asks(&spec.groups[0], needed);
    let fits =
        needed <= pending && ledger.queue_takes(job, spec, &asked) && best_room(ledger, (job, spec), needed) >= needed;
    fits.then(|| {
        let requests = &spec.groups[0].requests;
        format!(
            "{kind} job {name} (queue \"{queue}\") waits with {pending} pending tasks; {needed} are needed together \
             and fit: {requests:?}"
        )
    })
}

/// A job of one group that has to leave nodes, that nothing else keeps busy, and for which there is room elsewhere.
fn unmoved(ledger: &Ledger<'_>, job: JobId, spec: &JobSpec) -> Option<String> {
    let wish = ledger.admissions.filtered(job, &spec.groups[0]);
    let book = |node: NodeId| ledger.books.nodes.get(&node);
    let leaves = |node: &NodeId| book(*node).is_some_and(|book| must_leave(book, Some(&wish), ledger.waiting.now_ms));
    let leaving = ledger.books.live(job, 0).filter(|(_, standing)| leaves(&standing.node));
    let (free, held): (Vec<_>, Vec<_>) =
        leaving.partition(|(task, _)| ledger.budgets.objection(ledger.books, (job, 0, *task)).is_none());
    // What budgets keep waits for others to be healthy. What moves at once is let go at once, or not at all.
    if !ledger.books.is_endless(job) && (!held.is_empty() || ledger.budgets.are_about((job, 0, 0), spec)) {
        return None;
    }
    let left: Vec<NodeId> = free.into_iter().map(|(_, standing)| standing.node).collect();
    // Of a service a few at once, of all others everything that has to.
    let pace =
        |node: NodeId| book(node).filter(|book| book.draining).map_or(1, |book| ledger.waiting.pace(&book.spec.name));
    let leaving = match ledger.books.is_endless(job) {
        true => left.iter().map(|node| pace(*node)).max().unwrap_or(0).min(left.len() as u32),
        false => left.len() as u32,
    };
    let is_settled = !ledger.books.live_of(job).any(|standing| standing.stopping);
    // What moves is charged again when it is placed: a queue whose quota was cut below what runs takes it no more.
    let takes = ledger.queue_takes(job, spec, &asks(&spec.groups[0], 0));
    let fits = is_settled && takes && leaving > 0 && best_room(ledger, (job, spec), leaving) >= leaving;
    let (kind, name) = (spec.class.name(), &spec.name);
    fits.then(|| format!("{kind} job {name} has {leaving} tasks to move, and there is room for them"))
}

/// Whether a job of one group, of which nothing stands, finds room once everything has ended that ever does.
pub(crate) fn fits_in_time(ledger: &Ledger<'_>, job: JobId, spec: &JobSpec, wait: &Wait) -> bool {
    let Missing { pending, needed } = ledger.missing((job, 0), spec, wait);
    let room = |node| ledger.room_in_time(job, node);
    needed <= pending && ledger.may_place(job, spec) && best_of(ledger, (job, spec), needed, room) >= needed
}

/// How many tasks of the job's one group fit now, counted up to `enough`; for a required topology, in the best domain.
fn best_room(ledger: &Ledger<'_>, job: (JobId, &JobSpec), enough: u32) -> u32 {
    best_of(ledger, job, enough, |node| ledger.room(job.0, node))
}

/// The same with any `room` on nodes.
fn best_of(ledger: &Ledger<'_>, (job, spec): (JobId, &JobSpec), enough: u32, room: impl Fn(NodeId) -> Room) -> u32 {
    let wish = ledger.admissions.filtered(job, &spec.groups[0]);
    let Some(reach) = Reach::of(ledger, job, spec) else { return 0 };
    let mut by_domain: BTreeMap<Vec<String>, u32> = BTreeMap::new();
    for node in ledger.open_nodes(&wish) {
        let Some(domain) = reach.domain(ledger, spec, node) else { continue };
        if !ledger.may_stand(job, 0, &wish, (node, enough)) {
            continue;
        }
        let taken = by_domain.entry(domain).or_insert(0);
        let mut room = room(node);
        while *taken < enough && room.take(job, 0, &wish) {
            *taken += 1;
        }
    }
    by_domain.into_values().max().unwrap_or(0)
}

/// Where tasks of a job's one group may be placed.
pub(crate) enum Reach {
    /// Anywhere.
    All,
    /// Anywhere inside the topology.
    Inside,
    /// All of them in one domain of this level.
    Together(String),
    /// In the domain of this level that the group stands in.
    Bound(String, Vec<String>),
}

impl Reach {
    /// Nothing when it is not known.
    pub(crate) fn of(ledger: &Ledger<'_>, job: JobId, spec: &JobSpec) -> Option<Reach> {
        let request = &spec.groups[0].topology;
        let level = match request.mode {
            TopologyMode::None => return Some(Reach::All),
            TopologyMode::Required => &request.level,
            _ => return Some(Reach::Inside),
        };
        if ledger.books.live(job, 0).next().is_none() {
            return Some(Reach::Together(level.clone()));
        }
        // A repair may leave the domain, up to the level that the job names.
        let may_widen = spec.repair.policy == RepairPolicy::Widen
            && (ledger.required_topology.is_widened(spec, job, 0) || ledger.repairs.is_waiting(job));
        let level = if may_widen { &spec.repair.widen_to } else { level };
        let live = ledger.books.live(job, 0);
        let domains: BTreeSet<_> =
            live.map(|(_, standing)| ledger.books.domain(&request.topology, level, standing.node)).collect();
        // A group that leaves with everything may go anywhere, but that is not looked for.
        let mut domains = domains.into_iter();
        let bound = domains.next().flatten().filter(|_| domains.next().is_none())?;
        Some(Reach::Bound(level.clone(), bound))
    }

    /// What the node counts for, if the group may stand there.
    pub(crate) fn domain(&self, ledger: &Ledger<'_>, spec: &JobSpec, node: NodeId) -> Option<Vec<String>> {
        let topology = &spec.groups[0].topology.topology;
        match self {
            Reach::All => Some(Vec::new()),
            Reach::Inside => ledger.books.lowest_domain(topology, node).map(|_| Vec::new()),
            Reach::Together(level) => ledger.domain(topology, level, node),
            Reach::Bound(level, bound) => ledger.domain(topology, level, node).filter(|domain| domain == bound),
        }
    }
}
