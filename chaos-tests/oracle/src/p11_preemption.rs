//! P11: nobody is stopped for others without a right and a need that the log saw (`p11_rights.rs`); not twice for one
//! need; what is given back for a job is left to it while others stop for it; and no two jobs stop each other for ever.
//!
//! That a job fails for being stopped is judged with P7, which counts failures.

use crate::facts::{Fact, Rules, Taken, is_granted};
use crate::history::Broken;
use crate::kept::Kept;
use crate::p11_rights::Case;
use crate::p11_room::RoomCase;
use crate::p11_tree::{Count, Known, Promise, Promises};
use ohm_model::transaction::Row;
use ohm_model::{
    Command, EventKind, Exit, Index, JobId, Nomination, Outcome, PreemptionChange, PreemptionEvent, PreemptionNeed,
    RunRef, StopCause, Victim,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Two jobs may stop each other so often in turns while each has until then what it got by that, and both stay as they
/// are: one of them takes back what it has lost, the other one what is its own.
const TURNS_MAX: u32 = 3;

/// A job may be stopped so often for one that never gets what it needs, and once more for each time that passes.
const AGAIN_MAX: u64 = 4;
/// The time.
const AGAIN_MS: u64 = 15_000;

/// Who is to be stopped for a job, and the room that it gets then.
type Asked = (Vec<Victim>, Vec<Nomination>);

/// The books.
#[derive(Default)]
pub(crate) struct Preemptions {
    promises: Promises,
    is_fair: bool,
    /// Whether the entry at hand changes queues or sharing: no event says when.
    is_changing: bool,
    /// Who is to be stopped in the entry at hand, by the job that they are stopped for.
    asked: BTreeMap<JobId, VecDeque<Asked>>,
    /// Since when jobs stand.
    placed_ms: BTreeMap<JobId, u64>,
    /// How often, and since when, one job was stopped for another one that has not stood since, and while no node came
    /// or went.
    again: BTreeMap<(JobId, JobId), (u64, u64)>,
    /// How often in a row others stopped in vain for a job, and when they last did.
    in_vain: BTreeMap<JobId, (u32, u64)>,
    /// Jobs that may have lost tasks, or whose tasks move: that is repaired, which goes before new work. One that
    /// stands whole, or begins anew, is repaired no more.
    hurt: BTreeSet<JobId>,
    /// Jobs of which the entry at hand placed something.
    placed: BTreeSet<JobId>,
    /// Who took what is promised to others in the entry at hand, in words: none of its spares is given back yet.
    took: BTreeMap<JobId, String>,
    /// By two jobs: who was stopped last, and how often they have taken turns.
    turns: BTreeMap<(JobId, JobId), (JobId, u32)>,
}

impl Preemptions {
    /// Takes note of the commands of an entry, before its facts.
    pub(crate) fn entry_begins(&mut self, taken: &[Taken<'_>], rules: &Rules<'_>) {
        self.asked.clear();
        self.is_changing = !rules.queues.is_empty() || !rules.removed_queues.is_empty();
        for (command, outcome) in taken {
            match (command, outcome) {
                (Command::PutScheduling(scheduling), Outcome::Done) => {
                    self.is_fair = scheduling.fair_sharing.is_some();
                    self.is_changing = true;
                }
                (Command::Commit(transaction), Outcome::Verdict(verdict)) => {
                    let granted = is_granted(transaction, verdict, Row::Preempt(0));
                    if let Some(guard) = transaction.jobs.first().filter(|_| granted && !transaction.preempt.is_empty())
                    {
                        self.asked
                            .entry(guard.job)
                            .or_default()
                            .push_back((transaction.preempt.clone(), transaction.nominate.clone()));
                    }
                }
                _ => {}
            }
        }
        if self.is_changing {
            self.turns.clear();
        }
    }

    /// Judges one fact; all that is `known` knows of it already.
    pub(crate) fn watch(
        &mut self,
        index: Index,
        fact: &Fact<'_>,
        (known, kept): (Known<'_>, Kept<'_>),
        broken: &mut Vec<Broken>,
    ) {
        let (at_ms, kind) = match *fact {
            Fact::Updated { job, .. } => {
                self.in_vain.remove(&job);
                self.again.retain(|(one, other), _| *one != job && *other != job);
                return self.turns.retain(|(one, other), _| *one != job && *other != job);
            }
            Fact::Registered { .. } => return self.again.clear(),
            Fact::Submitted { .. } => return,
            Fact::Happened { at_ms, kind } => (at_ms, kind),
        };
        let mut tell = |what: String| broken.push(Broken::new("P11", format!("entry {index}: {what}")));
        match kind {
            EventKind::Preemption(PreemptionEvent { job, change: PreemptionChange::Waits { .. }, .. }) => {
                let asked = self.asked.get_mut(job).and_then(VecDeque::pop_front).unwrap_or_default();
                self.preempting((index, at_ms), *job, &asked, (known, kept), &mut tell);
            }
            EventKind::Preemption(PreemptionEvent { job, change: PreemptionChange::Over { reason }, .. }) => {
                self.over((*job, at_ms), reason);
                self.settle_turns(*job, known);
            }
            EventKind::CheckChanged { job, .. }
            | EventKind::RepairFailed { job, .. }
            | EventKind::JobState { job, .. } => {
                self.in_vain.remove(job);
                self.settle_turns(*job, known);
            }
            EventKind::ReadyTimeout(late) => {
                self.in_vain.remove(&late.job);
                self.settle_turns(late.job, known);
            }
            EventKind::Ended { job, exit, cause, .. } => {
                let by_itself = exit.is_charged() || *exit == Exit::NeverStarted;
                if !known.stands(*job) && cause.is_some_and(begins_anew) {
                    self.hurt.remove(job);
                } else if !matches!((cause, by_itself), (Some(StopCause::Preempted), _) | (None, true)) {
                    self.hurt.insert(*job);
                }
                self.settle_turns(*job, known);
                if !known.stands(*job) {
                    self.placed_ms.remove(job);
                    self.promises.values_mut().for_each(|promise| _ = promise.stopping.remove(job));
                }
            }
            EventKind::MoveReserved { job, .. } => _ = self.hurt.insert(*job),
            EventKind::NodeHealth { .. } | EventKind::NodeCordoned { .. } | EventKind::NodeDraining { .. } => {
                self.again.clear();
            }
            EventKind::Placed { job, group, first, .. } => {
                self.in_vain.remove(job);
                self.placed.insert(*job);
                self.promises.get_mut(job).into_iter().for_each(|promise| promise.got_some = true);
                if known.books.has_returned(*job, *group, *first) {
                    return;
                }
                self.placed_ms.entry(*job).or_insert(at_ms);
                self.again.retain(|(taker, _), _| taker != job);
                self.note_taking(*job, known);
            }
            // Of tasks and spares that are too many together, spares are given back by the end of the entry.
            EventKind::SpareGone { job, .. } if self.took.remove(job).is_some() => self.note_taking(*job, known),
            _ => {}
        }
    }

    /// The entry is over: what was taken in it is, and who stands whole by now is hurt no more.
    pub(crate) fn entry_over(&mut self, index: Index, known: Known<'_>, broken: &mut Vec<Broken>) {
        for job in std::mem::take(&mut self.placed) {
            if self.hurt.contains(&job) && is_whole(job, known) {
                self.hurt.remove(&job);
            }
        }
        let taken = std::mem::take(&mut self.took).into_values();
        broken.extend(taken.map(|what| Broken::new("P11", format!("entry {index}: {what}"))));
    }

    /// For whom others stop, or have stopped, and what they gave back is kept.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = JobId> + '_ {
        self.promises.keys().copied()
    }

    fn preempting(
        &mut self,
        (index, now_ms): (Index, u64),
        job: JobId,
        (victims, rooms): &Asked,
        (known, kept): (Known<'_>, Kept<'_>),
        tell: &mut impl FnMut(String),
    ) {
        let name = known.name(job);
        if victims.is_empty() {
            tell(format!("others are stopped for {name}, and nobody has asked for it"));
        }
        if let Some(&(times, ended_ms)) = self.in_vain.get(&job) {
            let waits_ms = (1_000 << (times - 1).min(6)).min(60_000);
            if now_ms < ended_ms + waits_ms {
                let since_ms = now_ms - ended_ms;
                tell(format!(
                    "others are stopped for {name} {since_ms} ms after they were in vain, {times} times in a row"
                ));
            }
        }
        if let Some(promise) = self.promises.get(&job) {
            tell(format!("others are stopped for {name}, for which others stop since entry {}", promise.since));
        }
        let mut named = BTreeMap::new();
        for victim in victims {
            if named.insert(victim.job, victim.runs.clone()).is_some() || self.stops_already(victim, known) {
                tell(format!("{} is stopped for {name} although it stops for others", known.name(victim.job)));
            }
            self.take_turns(job, victim.job, known, tell);
            self.count_again((job, now_ms), victim, known, tell);
        }
        for victim in victims.iter().filter(|victim| victim.is_whole()) {
            self.end_turns(victim.job, |other| other != job);
        }
        let wanted = wanted_of(known, job, rooms);
        let (promises, is_fair) = (&self.promises, self.is_fair);
        let case = Case { known, promises, is_fair, job, victims, wanted: wanted.as_deref() };
        let problem = match victims.first().map(|victim| victim.need) {
            Some(PreemptionNeed::Room) => {
                let (hurt, placed_ms) = (&self.hurt, &self.placed_ms);
                RoomCase { case, rooms, kept, hurt, placed_ms, now_ms }.problem()
            }
            _ => case.problem(),
        };
        if let Some(problem) = problem.filter(|_| !self.is_changing) {
            let victims: Vec<&str> = victims.iter().map(|victim| known.name(victim.job)).collect();
            tell(format!("{} must stop for {name}: {problem}", victims.join(", ")));
        }
        let whole = victims.iter().filter(|victim| victim.is_whole()).map(|victim| victim.job);
        let stopping = whole.filter(|victim| known.stands(*victim)).collect();
        let for_room = victims.first().is_some_and(|victim| victim.need == PreemptionNeed::Room);
        let wanted = wanted.filter(|_| !for_room);
        let promise = Promise { victims: named, stopping, since: index, for_room, wanted, got_some: false };
        self.promises.insert(job, promise);
    }

    /// What was promised to a job is over: in vain, if it got nothing of it.
    fn over(&mut self, (job, at_ms): (JobId, u64), reason: &str) {
        let got_some = self.promises.remove(&job).is_some_and(|promise| promise.got_some);
        let may_be_vain = ["a room of it is lost", "its time is over", "its rooms are used, or lost"];
        if got_some || !may_be_vain.contains(&reason) {
            self.in_vain.remove(&job);
            return;
        }
        let times = self.in_vain.get(&job).map_or(0, |(times, _)| *times);
        self.in_vain.insert(job, (times + 1, at_ms));
    }

    /// Whether so much of a job stops already: all of it for others, or one of the tasks that are named.
    fn stops_already(&self, victim: &Victim, known: Known<'_>) -> bool {
        let stops = |run: &RunRef| {
            let found = known.books.live(victim.job, run.task.group.0).find(|(task, _)| *task == run.task.task.0);
            found.is_none_or(|(_, standing)| standing.stopping)
        };
        match victim.is_whole() {
            true => self.promises.values().any(|promise| promise.stopping.contains(&victim.job)),
            false => victim.runs.iter().any(stops),
        }
    }

    /// One need is met by stopping somebody once; that it is stopped anew means that the job did not get what it was
    /// stopped for, which may happen for once,
    /// and ever less often.
    fn count_again(
        &mut self,
        (job, now_ms): (JobId, u64),
        victim: &Victim,
        known: Known<'_>,
        tell: &mut impl FnMut(String),
    ) {
        if !victim.is_whole() {
            return;
        }
        let (times, since_ms) = self.again.entry((job, victim.job)).or_insert((0, now_ms));
        *times += 1;
        if *times > AGAIN_MAX + now_ms.saturating_sub(*since_ms) / AGAIN_MS {
            tell(format!("{} is stopped for {} again and again", known.name(victim.job), known.name(job)));
        }
    }

    fn take_turns(&mut self, job: JobId, victim: JobId, known: Known<'_>, tell: &mut impl FnMut(String)) {
        let turns = self.turns.entry((job.min(victim), job.max(victim))).or_insert((victim, 1));
        if turns.0 == victim {
            return;
        }
        *turns = (victim, turns.1 + 1);
        if turns.1 > TURNS_MAX {
            tell(format!("{} and {} stop each other again and again", known.name(job), known.name(victim)));
        }
    }

    /// Who has nothing any more, and waits for nobody, has lost what it got from others for another reason.
    fn settle_turns(&mut self, job: JobId, known: Known<'_>) {
        let has = known.stands(job) || known.admissions.reservation(job).is_some();
        if !has && !self.promises.contains_key(&job) {
            self.end_turns(job, |_| true);
        }
    }

    /// What a job has got from these it has no more.
    fn end_turns(&mut self, job: JobId, from: impl Fn(JobId) -> bool) {
        self.turns.retain(|(one, other), (last, _)| {
            let is_its = (*one == job || *other == job) && *last != job;
            !is_its || !from(*last)
        });
    }

    fn note_taking(&mut self, job: JobId, known: Known<'_>) {
        let taken = self.judge_taking(job, known);
        self.took.extend(taken.map(|taken| (job, taken)));
    }

    /// What a job that starts takes of that which is promised to others.
    fn judge_taking(&self, job: JobId, known: Known<'_>) -> Option<String> {
        let spec = known.spec(job).filter(|spec| !spec.queue.is_empty())?;
        let is_new = !self.hurt.contains(&job) && known.admissions.reservation(job).is_none();
        if self.promises.is_empty() || self.is_changing || !is_new || self.promises.contains_key(&job) {
            return None;
        }
        let tree = known.tree(job, &self.promises, Count::Fewest);
        let held = known.charged(job, &self.promises, Count::Fewest);
        // Whoever is over its quota by itself takes nothing of others: its spares may go in the same entry.
        let unpromised = known.tree(job, &Promises::default(), Count::Fewest);
        let limited = held.iter().filter(|(name, held)| **held > 0 && tree.limits(&spec.queue, name));
        let mut limited = limited.filter(|(name, _)| unpromised.left(&spec.queue, name) >= 0);
        let (name, left) = limited.find_map(|(name, _)| {
            let left = tree.left(&spec.queue, name);
            (left < 0).then_some((name, left))
        })?;
        let waiting: Vec<&str> = self.promises.keys().map(|job| known.name(*job)).collect();
        let (waiting, over, job) = (waiting.join(", "), -left, &spec.name);
        Some(format!("{job} takes {over} of {name} that others have given back for {waiting}"))
    }
}

/// For how many tasks of each group these rooms are; nothing where there are none.
fn wanted_of(known: Known<'_>, job: JobId, rooms: &[Nomination]) -> Option<Vec<u32>> {
    let groups = known.spec(job).filter(|_| !rooms.is_empty())?.groups.len();
    let count = |at: usize| rooms.iter().filter(|room| usize::from(room.group.0) == at).map(|room| room.count).sum();
    Some((0..groups).map(count).collect())
}

/// Whether a job of which all is stopped for this starts as new work does: nothing of it is kept, its repair is over.
fn begins_anew(cause: StopCause) -> bool {
    use StopCause::{Preempted, QueueHeld, ReadyTimeout, RepairFailed, Suspended};
    matches!(cause, Preempted | QueueHeld | ReadyTimeout | RepairFailed | Suspended)
}

/// Whether every task of a job stands, and is not to stop, or has succeeded.
fn is_whole(job: JobId, known: Known<'_>) -> bool {
    let Some(spec) = known.spec(job) else { return false };
    (0u16..).zip(&spec.groups).all(|(at, group)| {
        let stays = known.books.live(job, at).filter(|(task, standing)| *task < group.count && !standing.stopping);
        stays.count() as u32 + known.books.done(job, at) >= group.count
    })
}
