//! P6 of two-phase admission: a round asks the checks that are for the flavors of its job and no others, nothing is
//! placed before every check of the open round is ready, nor without a round where a check is for its flavors, a report
//! counts for its own round only, and no round has the name of another one. From the log alone; where it does not say
//! whether a round still is open, it is taken to be.

use crate::books::Books;
use crate::facts::{Fact, Rules, Taken, is_granted};
use crate::flavors::Flavors;
use crate::history::Broken;
use ohm_model::selector::Labels;
use ohm_model::transaction::Row;
use ohm_model::{
    AdmissionCheck, CheckReport, Command, EventKind, GroupSpec, Index, JobId, JobSpec, Outcome, PreemptionChange,
    PreemptionEvent, StopCause, Toleration, Transaction, Verdict,
};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of the admission of one job.
#[derive(Default)]
struct AdmissionBook {
    round: u32,
    /// The round is over, for sure.
    is_over: bool,
    /// Nothing of the job stood at some time, and its queue has had other checks then, or all of it was lost: whether
    /// the round goes on is not known.
    may_be_over: bool,
    checks: Vec<String>,
    ready: BTreeMap<String, (Labels, Vec<Toleration>)>,
    /// What the job was when its quota was reserved.
    asked: Option<JobSpec>,
}

impl AdmissionBook {
    fn is_ready(&self) -> bool {
        !self.is_over && self.checks.iter().all(|check| self.ready.contains_key(check))
    }

    /// The job is `spec` from here on. Its quota was reserved in one queue and for certain groups: when either is
    /// another one, the reservation ends, and with it the round and what its checks brought.
    fn updated(&mut self, spec: &JobSpec) {
        let Some(asked) = &self.asked else { return };
        self.is_over |= is_other(asked, spec);
        // A name that is left out may mean the same topology.
        self.may_be_over |= asked.groups != spec.groups;
    }
}

/// Rounds, and the queues that ask for them.
#[derive(Default)]
pub(crate) struct Admissions {
    jobs: BTreeMap<JobId, AdmissionBook>,
    /// Queues with checks.
    queues: BTreeMap<String, Vec<AdmissionCheck>>,
    /// Jobs whose quota is reserved as a whole, with a round of checks or without one, as they were when it was. Where
    /// a round may be over, so may its reservation.
    reserved: BTreeMap<JobId, JobSpec>,
    /// Jobs of which a task left its node in this entry: what is lost is settled once all of the entry has ended.
    left: BTreeSet<JobId>,
    /// What jobs were told of flavors: they filter nodes as checks do.
    pub(crate) flavors: Flavors,
}

impl Admissions {
    /// Takes note of the rules of an entry, before its facts.
    pub(crate) fn entry_begins(&mut self, taken: &[Taken<'_>], rules: &Rules<'_>, books: &Books) {
        self.left.clear();
        self.flavors.entry_begins(taken, rules);
        for queue in &rules.queues {
            for (job, book) in &mut self.jobs {
                let Some(spec) = books.jobs.get(job).filter(|spec| spec.queue == queue.name) else { continue };
                let stands = (0..spec.groups.len() as u16).any(|group| books.live(*job, group).next().is_some());
                let asked = self.flavors.checks_of(*job, &queue.admission_checks);
                book.may_be_over |= !stands && !asked.eq(&book.checks);
            }
        }
    }

    /// Takes note of the reports of an entry, before its facts.
    pub(crate) fn reports(&mut self, index: Index, taken: &[Taken<'_>], facts: &[Fact<'_>], broken: &mut Vec<Broken>) {
        let opened: BTreeSet<(JobId, u32)> = facts
            .iter()
            .filter_map(|fact| match fact {
                Fact::Happened { kind: EventKind::QuotaReserved { job, round, .. }, .. } => Some((*job, *round)),
                _ => None,
            })
            .collect();
        for (command, outcome) in taken {
            // What is said of nodes that a repair asks for changes nothing about the job's checks.
            let (Command::ReportCheck { job, round, class, repair: 0, report, .. }, Outcome::Done) = (command, outcome)
            else {
                continue;
            };
            let book = self.jobs.entry(*job).or_default();
            if book.round != *round && !opened.contains(&(*job, *round)) {
                let what =
                    format!("entry {index} takes a report about round {round} of job {job} in round {}", book.round);
                broken.push(Broken::new("P6", what));
            }
            if let CheckReport::Ready { node_selector, tolerations, .. } = report {
                book.ready.entry(class.clone()).or_insert_with(|| (node_selector.clone(), tolerations.clone()));
            }
        }
    }

    pub(crate) fn watch(
        &mut self,
        index: Index,
        fact: &Fact<'_>,
        books: &Books,
        rules: &Rules<'_>,
        broken: &mut Vec<Broken>,
    ) {
        self.flavors.note(fact);
        let kind = match *fact {
            Fact::Happened { kind, .. } => kind,
            Fact::Updated { job, spec, .. } => return self.updated(job, spec),
            Fact::Registered { .. } | Fact::Submitted { .. } => return,
        };
        match kind {
            EventKind::QuotaReserved { job, round, checks, .. } => {
                let book = self.jobs.entry(*job).or_default();
                if *round <= book.round {
                    let what = format!("entry {index} opens round {round} of job {job} after round {}", book.round);
                    broken.push(Broken::new("P6", what));
                }
                let (checks, asked) = (checks.clone(), books.jobs.get(job).cloned());
                // What an entry changes about queues has no place among its facts.
                let queues_stay = rules.queues.is_empty() && rules.removed_queues.is_empty();
                let spec = asked.as_ref().filter(|_| queues_stay);
                broken.extend(spec.and_then(|spec| self.judge_asked(index, (*job, spec), &checks)));
                let book = self.jobs.entry(*job).or_default();
                *book = AdmissionBook { round: *round, checks, asked, ..AdmissionBook::default() };
            }
            EventKind::CheckChanged { job, state, .. } if state != "ready" => self.end(*job),
            // What is reserved for it is given back at once.
            EventKind::RepairFailed { job, .. } => self.end(*job),
            EventKind::QueueStop(stop) => self.end(stop.job),
            EventKind::ReadyTimeout(late) => self.end(late.job),
            EventKind::Preemption(PreemptionEvent {
                job,
                change: PreemptionChange::Stopped { runs: None, .. },
                ..
            }) => {
                self.end(*job);
            }
            EventKind::TasksLost { job, standing: 0, .. } => self.may_end(*job),
            // What was to leave its node is not told as lost.
            EventKind::Ended { job, cause, .. } if *cause != Some(StopCause::Restarted) => {
                if cause.is_some() {
                    self.left.insert(*job);
                }
                if self.left.contains(job) && books.live_of(*job).next().is_none() {
                    self.may_end(*job);
                }
            }
            // Everything of it is to stop: perhaps for more important work.
            EventKind::Stopping { job, .. } if books.live_of(*job).all(|standing| standing.stopping) => {
                self.may_end(*job)
            }
            EventKind::JobState { job, state, .. } if !["pending", "running"].contains(&state.as_str()) => {
                self.end(*job);
            }
            // What an entry changes about queues has no place among its facts; what returned was not placed.
            EventKind::Placed { job, group, first, count, .. }
                if rules.queues.is_empty()
                    && rules.removed_queues.is_empty()
                    && !books.has_returned(*job, *group, *first) =>
            {
                self.judge(index, (*job, *group, *count), books, broken);
            }
            _ => {}
        }
    }

    /// Takes note of the quota that a transaction reserves, before its entry's facts.
    pub(crate) fn commit(&mut self, transaction: &Transaction, verdict: &Verdict, books: &Books) {
        let granted = |at: usize| is_granted(transaction, verdict, Row::Reserve(at as u32));
        let reserving = transaction.reserve.iter().enumerate().filter(|(at, _)| granted(*at));
        for (_, job) in reserving {
            if let Some(spec) = books.jobs.get(job) {
                self.reserved.entry(*job).or_insert_with(|| spec.clone());
            }
        }
    }

    /// Whether the checks of a round that opens are those of the job's flavors.
    fn judge_asked(&self, index: Index, (job, spec): (JobId, &JobSpec), asked: &[String]) -> Option<Broken> {
        let meant: Vec<&String> = self.flavors.checks_of(job, self.checks_in(&spec.queue)).collect();
        let what =
            || format!("entry {index} asks {asked:?} for {}; the checks of its flavors are {meant:?}", spec.name);
        (!meant.iter().copied().eq(asked)).then(|| Broken::new("P6", what()))
    }

    fn checks_in(&self, queue: &str) -> &[AdmissionCheck] {
        self.queues.get(queue).map_or(&[], Vec::as_slice)
    }

    fn updated(&mut self, job: JobId, spec: &JobSpec) {
        if self.reserved.get(&job).is_some_and(|asked| is_other(asked, spec)) {
            self.reserved.remove(&job);
        }
        self.jobs.get_mut(&job).into_iter().for_each(|book| book.updated(spec));
    }

    fn end(&mut self, job: JobId) {
        self.reserved.remove(&job);
        if let Some(book) = self.jobs.get_mut(&job) {
            book.is_over = true;
        }
    }

    fn may_end(&mut self, job: JobId) {
        self.jobs.get_mut(&job).into_iter().for_each(|book| book.may_be_over = true);
    }

    fn judge(&self, index: Index, row: (JobId, u16, u32), books: &Books, broken: &mut Vec<Broken>) {
        let (job, _, count) = row;
        let Some(spec) = books.jobs.get(&job) else { return };
        let staying = books.live_of(job).filter(|standing| !standing.stopping);
        // What stands is not asked again when its queue gets checks.
        let first = staying.count() <= count as usize;
        let book = self.jobs.get(&job);
        let is_ready = book.is_some_and(AdmissionBook::is_ready);
        let is_asked = || self.flavors.checks_of(job, self.checks_in(&spec.queue)).next().is_some();
        if first && !is_ready && is_asked() {
            let name = &spec.name;
            broken.push(Broken::new("P6", format!("entry {index} places {name} before its checks are ready")));
        }
    }

    /// Takes note of the rules of an entry, after its facts.
    pub(crate) fn entry_over(&mut self, rules: &Rules<'_>) {
        for name in &rules.removed_queues {
            self.queues.remove(*name);
        }
        for spec in &rules.queues {
            match spec.admission_checks.is_empty() {
                true => drop(self.queues.remove(&spec.name)),
                false => drop(self.queues.insert(spec.name.clone(), spec.admission_checks.clone())),
            }
        }
    }

    /// Whether the job's round is open and every check of it ready, without doubt.
    pub(crate) fn is_ready_for_sure(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|book| book.round > 0 && book.is_ready() && !book.may_be_over)
    }

    /// Whether this round of the job is open, without doubt.
    pub(crate) fn is_open_for_sure(&self, job: JobId, round: u32) -> bool {
        self.jobs.get(&job).is_some_and(|book| book.round == round && !book.is_over && !book.may_be_over)
    }

    /// Whether no round of the job is open, without doubt.
    pub(crate) fn is_over_for_sure(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_none_or(|book| book.round == 0 || book.is_over)
    }

    /// Jobs whose quota may be reserved as a whole, as they were when it was.
    pub(crate) fn reservations(&self) -> impl Iterator<Item = (JobId, &JobSpec)> {
        self.reserved.iter().map(|(job, asked)| (*job, asked))
    }

    /// The job as it was when its quota was reserved as a whole, if it may still be.
    pub(crate) fn reservation(&self, job: JobId) -> Option<&JobSpec> {
        self.reserved.get(&job)
    }

    /// Whether the quota of the job may be reserved as a whole.
    pub(crate) fn may_hold(&self, job: JobId) -> bool {
        self.reserved.contains_key(&job)
    }

    /// Whether the quota of the job is reserved as a whole, without doubt, and no check keeps it waiting.
    pub(crate) fn holds_for_sure(&self, job: JobId) -> bool {
        let book = self.jobs.get(&job).filter(|book| book.round > 0);
        self.may_hold(job) && book.is_none_or(|book| book.is_over || (book.is_ready() && !book.may_be_over))
    }

    /// Whether a round of the job may be open or over.
    pub(crate) fn is_unsure(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|book| book.may_be_over)
    }

    /// A group of the job with what its flavors and the ready checks of its open round add to its filters.
    pub(crate) fn filtered(&self, job: JobId, group: &GroupSpec) -> GroupSpec {
        let mut wish = group.clone();
        self.flavors.filter(job, &mut wish);
        let Some(book) = self.jobs.get(&job).filter(|book| book.is_ready()) else { return wish };
        for (labels, tolerations) in book.ready.values() {
            // Whoever may be free of both is held to neither.
            if !book.may_be_over {
                // Where a label is given twice, its own counts.
                for (label, value) in labels {
                    wish.node_selector.entry(label.clone()).or_insert_with(|| value.clone());
                }
            }
            wish.tolerations.extend(tolerations.iter().cloned());
        }
        wish
    }
}

/// Whether what was reserved for a job is not what it would ask for now.
fn is_other(asked: &JobSpec, spec: &JobSpec) -> bool {
    let groups = |spec: &JobSpec| -> Vec<GroupSpec> { spec.groups.iter().map(without_topology_name).collect() };
    asked.queue != spec.queue || groups(asked) != groups(spec)
}

fn without_topology_name(group: &GroupSpec) -> GroupSpec {
    let mut group = group.clone();
    group.topology.topology.clear();
    group
}
