//! The backlog: every job of the held shards that needs attention and is not in flight.

use crate::chooser::Chooser;
use crate::kin::{Blocker, Kins};
use crate::line::Others;
use crate::lines::{Fare, Lines};
use crate::rank::{Rank, Ticket};
use ohm_model::{Index, JobId, ResourceId, Shard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Where a job of the backlog stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// To be looked at.
    Ready,
    /// Handed out by `take`.
    Taken,
    /// Until the own copy has applied this entry.
    Behind(Index),
    /// Until this moment of the own clock.
    Until(u64),
    /// Until the job itself changes, or this moment at the latest.
    Changed(u64),
    /// Until something changes.
    Parked,
}

#[derive(Clone, Debug)]
struct Entry<N> {
    rank: Rank,
    line: u32,
    part: u32,
    shard: Shard,
    kin: u32,
    starts: bool,
    mark: u64,
    state: State,
    /// While it is taken: what its line pledged for it, and whether others follow it.
    pledge: Option<(u128, bool)>,
    /// Why this one alone waits.
    note: Option<N>,
}

/// Jobs to be placed, in order. `N` is what is remembered about jobs that could not be.
#[derive(Clone, Debug)]
pub struct Backlog<N> {
    entries: BTreeMap<JobId, Entry<N>>,
    urgent: BTreeSet<Rank>,
    lines: Lines,
    kins: Kins<N>,
    behind: BTreeSet<(Index, JobId)>,
    until: BTreeSet<(u64, JobId)>,
    shards: BTreeMap<Shard, BTreeSet<JobId>>,
    /// The bunch the sweep looked at last; nothing when no sweep is on.
    swept: Option<u32>,
}

impl<N> Default for Backlog<N> {
    fn default() -> Self {
        Backlog {
            entries: BTreeMap::new(),
            urgent: BTreeSet::new(),
            lines: Lines::default(),
            kins: Kins::default(),
            behind: BTreeSet::new(),
            until: BTreeSet::new(),
            shards: BTreeMap::new(),
            swept: None,
        }
    }
}

impl<N> Backlog<N> {
    /// Adds a job, or takes note of how it is now. A job that is parked or waits for its own change is ready again when
    /// its mark moved; one that waits for an entry or a moment goes on waiting.
    pub fn put(&mut self, ticket: Ticket) {
        let job = ticket.rank.job;
        if let Some(entry) = self.entries.get_mut(&job) {
            let same = entry.rank == ticket.rank
                && entry.shard == ticket.shard
                && self.kins.key(entry.kin) == Some(&ticket.kin)
                && entry.line == self.lines.number(&ticket.line)
                && entry.part == self.lines.part(entry.line, &ticket.part);
            if same {
                let moved = entry.mark != ticket.mark;
                let starts_changed = entry.starts != ticket.starts && entry.state == State::Ready;
                (entry.mark, entry.starts) = (ticket.mark, ticket.starts);
                if starts_changed || moved && matches!(entry.state, State::Changed(_)) {
                    self.make_ready(job);
                } else if moved && entry.state == State::Parked {
                    // What is known of its kin was found out before the change.
                    let kin = entry.kin;
                    self.make_ready(job);
                    self.open(kin);
                }
                return;
            }
        }
        let state = self.entries.get(&job).map(|entry| entry.state);
        // A line is not without work for the moment in between.
        let line = self.lines.number(&ticket.line);
        self.lines.join(line);
        self.remove(job);
        self.insert(ticket, state);
        self.lines.leave(line);
    }

    fn insert(&mut self, ticket: Ticket, former: Option<State>) {
        let job = ticket.rank.job;
        let (line, kin) = (self.lines.number(&ticket.line), self.kins.join(&ticket.kin));
        let part = self.lines.part(line, &ticket.part);
        self.shards.entry(ticket.shard).or_default().insert(job);
        let entry = Entry {
            rank: ticket.rank,
            line,
            part,
            shard: ticket.shard,
            kin,
            starts: ticket.starts,
            mark: ticket.mark,
            state: State::Taken,
            pledge: None,
            note: None,
        };
        self.entries.insert(job, entry);
        self.lines.join(line);
        match former {
            Some(State::Taken) => {}
            Some(State::Behind(index)) => self.wait_for(job, index),
            Some(State::Until(due)) => self.set_state(job, State::Until(due)),
            _ => self.make_ready(job),
        }
    }

    /// Takes a job out: it needs nothing, is gone, or is in flight.
    pub fn remove(&mut self, job: JobId) {
        self.detach(job);
        let Some(entry) = self.entries.remove(&job) else { return };
        if let Some(jobs) = self.shards.get_mut(&entry.shard) {
            jobs.remove(&job);
            if jobs.is_empty() {
                self.shards.remove(&entry.shard);
            }
        }
        self.lines.release(entry.line, entry.rank);
        let woken = self.kins.leave(entry.kin, entry.rank);
        self.ready_all(&woken);
        self.lines.leave(entry.line);
    }

    /// Takes a job out because a plan for it is under way, which costs so much of [`crate::WHOLE`]. Hand what comes
    /// back to [`Backlog::settle`]; what goes before all lines costs nothing.
    pub fn depart(&mut self, job: JobId, cost: u64) -> Option<Fare> {
        let entry = self.entries.get(&job)?;
        let fare = (!entry.rank.is_urgent()).then_some(entry.line).map(|line| self.lines.charge(line, cost));
        self.remove(job);
        fare
    }

    /// It is known what became of a plan: so much of `of` was refused. Its job is in the backlog again by then, if it
    /// needs more, so that its line has work all the time.
    pub fn settle(&mut self, fare: Option<Fare>, refused: u64, of: u64) {
        if let Some(fare) = fare {
            self.lines.settle(fare, refused, of);
        }
    }

    /// Takes all jobs of a shard out.
    pub fn drop_shard(&mut self, shard: Shard) {
        let jobs = self.shards.remove(&shard).unwrap_or_default();
        jobs.into_iter().for_each(|job| self.remove(job));
    }

    /// Takes everything out; weights stay.
    pub fn clear(&mut self) {
        let jobs: Vec<JobId> = self.entries.keys().copied().collect();
        jobs.into_iter().for_each(|job| self.remove(job));
        self.swept = None;
    }

    /// Sets the share of a line in thousandths, the root of its cohort tree, and whether it is strict: a head that
    /// finds no place then keeps back everybody behind it in this line who would start, and in no other.
    pub fn set_line(&mut self, line: &Arc<str>, weight_milli: u64, strict: bool, root: &Arc<str>) {
        self.lines.set(line, weight_milli, strict, root);
    }

    /// What is known of the lines.
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// A part of the line has this key from now on: those of smaller keys are served first.
    pub fn set_key(&mut self, line: &Arc<str>, part: &str, key: u128) {
        let line = self.lines.number(line);
        self.lines.set_key(line, part, key);
    }

    /// What other schedulers do in the line from now on. While it is the turn of a line that they are to serve first,
    /// [`Backlog::take`] finds nobody in its tree.
    pub fn set_others(&mut self, line: &Arc<str>, others: Others) {
        self.lines.set_others(line, others);
    }

    /// The job of the line that is looked at next.
    pub fn first_of(&self, line: &str) -> Option<JobId> {
        self.lines.first_of(line).map(|rank| rank.job)
    }

    /// Another scheduler has placed what costs so much of the line, in parts of [`crate::WHOLE`].
    pub fn charge_abroad(&mut self, line: &Arc<str>, cost: u64) {
        self.lines.charge_abroad(line, cost);
    }

    /// The next job to look at, if there is one within `steps` jobs; jobs of which it is known that they find no place
    /// are parked on the way and count. Hand it back with `give_back`, `park`, `wait_until`, `depart` or `remove`.
    /// There is none, either, while who is next depends on what comes of those that were taken.
    pub fn take(&mut self, steps: &mut usize, chooser: &mut impl Chooser) -> Option<JobId> {
        while *steps > 0 {
            *steps -= 1;
            if let Some(rank) = self.urgent.first().copied() {
                if self.send_away(rank) {
                    continue;
                }
                self.set_state(rank.job, State::Taken);
                return Some(rank.job);
            }
            let (line, rank) = self.lines.next(chooser)?;
            if self.send_away(rank) {
                continue;
            }
            self.set_state(rank.job, State::Taken);
            self.pledge(rank.job, line, chooser.cost_of(rank.job));
            chooser.note_taken(rank.job);
            if let Some((part, key)) = chooser.key_after(rank.job) {
                self.lines.set_key(line, part, key);
            }
            return Some(rank.job);
        }
        None
    }

    fn pledge(&mut self, job: JobId, line: u32, cost: u64) {
        let Some(entry) = self.entries.get_mut(&job) else { return };
        let followed = self.kins.has_followers(entry.kin);
        entry.pledge = Some((self.lines.pledge(line, (job, cost), followed), followed));
    }

    /// Parks a job that is behind one of its kin which found no place.
    fn send_away(&mut self, rank: Rank) -> bool {
        let Some(entry) = self.entries.get(&rank.job) else {
            // Cannot be: what is ready has an entry. Leaving it there would stop everything behind it.
            self.urgent.remove(&rank);
            return true;
        };
        let (kin, hopeless) = (entry.kin, self.kins.is_hopeless(entry.kin, &rank));
        if hopeless {
            self.set_state(rank.job, State::Parked);
            self.kins.add_parked(kin, rank);
        }
        hopeless
    }

    /// A job that was taken is to be looked at after all.
    pub fn give_back(&mut self, job: JobId) {
        self.make_ready(job);
    }

    /// The job waits until the own copy has applied `index`.
    pub fn wait_for(&mut self, job: JobId, index: Index) {
        self.set_state(job, State::Behind(index));
    }

    /// The job waits until `due_ms` of the own clock. Its kin don't.
    pub fn wait_until(&mut self, job: JobId, due_ms: u64, note: N) {
        self.set_state(job, State::Until(due_ms));
        if let Some(entry) = self.entries.get_mut(&job) {
            entry.note = Some(note);
        }
    }

    /// The job waits until it changes, and not beyond `due_ms` of the own clock. Its kin don't.
    pub fn wait_for_change(&mut self, job: JobId, due_ms: u64, note: N) {
        self.set_state(job, State::Changed(due_ms));
        if let Some(entry) = self.entries.get_mut(&job) {
            entry.note = Some(note);
        }
    }

    /// The job is looked at again now, if it waits for its own change or is parked.
    pub fn wake(&mut self, job: JobId) {
        let Some(entry) = self.entries.get(&job) else { return };
        match entry.state {
            State::Changed(_) => self.make_ready(job),
            State::Parked => {
                let kin = entry.kin;
                self.make_ready(job);
                self.open(kin);
            }
            State::Ready | State::Taken | State::Behind(_) | State::Until(_) => {}
        }
    }

    /// The job found no place, and neither would any of its kin behind it, until `blocker` is out of the way.
    pub fn park(&mut self, job: JobId, blocker: Blocker, note: N) {
        self.set_state(job, State::Parked);
        let Some(entry) = self.entries.get_mut(&job) else { return };
        entry.note = None;
        let (kin, line, rank) = (entry.kin, entry.line, entry.rank);
        if entry.starts && !rank.is_urgent() {
            self.lines.hold(line, entry.part, rank);
        }
        self.kins.close(kin, rank, blocker, note);
    }

    /// The own copy has applied `index`. What choosers know has changed: who was waited for may not be any more.
    pub fn reached(&mut self, index: Index) {
        self.lines.choose_anew();
        while let Some(&(needed, job)) = self.behind.first()
            && needed <= index
        {
            self.make_ready(job);
        }
    }

    /// It is `now_ms` on the own clock.
    pub fn due(&mut self, now_ms: u64) {
        while let Some(&(due_ms, job)) = self.until.first()
            && due_ms <= now_ms
        {
            self.make_ready(job);
        }
    }

    /// When the next waiting job is due.
    pub fn next_due_ms(&self) -> Option<u64> {
        self.until.first().map(|(due_ms, _)| *due_ms)
    }

    /// Resources that parked jobs wait for.
    pub fn awaited(&self) -> Vec<ResourceId> {
        self.kins.awaited()
    }

    /// Some node that got better has this much of `resource` free.
    pub fn wake_room(&mut self, resource: ResourceId, free: i64) {
        for bunch in self.kins.waiting_for_room(resource, free) {
            self.open(bunch);
        }
    }

    /// What they wait for may be out of the way: quota was given back in a tree, or tasks stand elsewhere.
    pub fn wake_blocked(&mut self, blocker: &Blocker) {
        for bunch in self.kins.waiting_for(blocker) {
            self.open(bunch);
        }
    }

    /// Looks again at everything parked, `limit` bunches per call, whatever it waits for: the net under the wake-up
    /// rules. Returns whether the sweep is through.
    pub fn sweep(&mut self, limit: usize) -> bool {
        let bunches = self.kins.closed_after(self.swept.unwrap_or(0), limit);
        self.swept = bunches.last().copied();
        bunches.iter().for_each(|bunch| self.open(*bunch));
        self.swept.is_none()
    }

    /// Whether `take` would find something to do.
    pub fn has_ready(&self) -> bool {
        !self.urgent.is_empty() || self.lines.has_ready()
    }

    /// Whether the job is in the backlog.
    pub fn contains(&self, job: JobId) -> bool {
        self.entries.contains_key(&job)
    }

    /// What is remembered about a job that could not be placed, or about its kin.
    pub fn note(&self, job: JobId) -> Option<&N> {
        let entry = self.entries.get(&job)?;
        entry.note.as_ref().or_else(|| self.kins.note(entry.kin))
    }

    /// How many jobs of its line go before it, whatever they wait for. Costs a pass over the backlog: for people who
    /// ask.
    pub fn ahead(&self, job: JobId) -> Option<usize> {
        let own = self.entries.get(&job)?;
        let order = |entry: &Entry<N>| self.lines.order(entry.line, entry.part, entry.rank);
        Some(self.entries.values().filter(|entry| entry.line == own.line && order(entry) < order(own)).count())
    }

    /// How many jobs there are, wherever they stand.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no job.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn open(&mut self, bunch: u32) {
        let woken = self.kins.open(bunch);
        self.ready_all(&woken);
    }

    fn ready_all(&mut self, woken: &[Rank]) {
        woken.iter().for_each(|rank| self.make_ready(rank.job));
    }

    fn make_ready(&mut self, job: JobId) {
        self.set_state(job, State::Ready);
        let Some(entry) = self.entries.get(&job) else { return };
        let (line, part, rank, starts) = (entry.line, entry.part, entry.rank, entry.starts);
        self.lines.release(line, rank);
        if rank.is_urgent() {
            self.urgent.insert(rank);
        } else {
            self.lines.add(line, part, rank, starts);
        }
    }

    /// Takes the job out of whatever list it stands in.
    fn detach(&mut self, job: JobId) {
        let Some(entry) = self.entries.get_mut(&job) else { return };
        let (rank, line, part, kin) = (entry.rank, entry.line, entry.part, entry.kin);
        if let Some((step, followed)) = entry.pledge.take() {
            self.lines.redeem(line, step, followed);
        }
        match entry.state {
            State::Ready if rank.is_urgent() => {
                self.urgent.remove(&rank);
            }
            State::Ready => self.lines.remove(line, part, rank),
            State::Behind(index) => {
                self.behind.remove(&(index, job));
            }
            State::Until(due_ms) | State::Changed(due_ms) => {
                self.until.remove(&(due_ms, job));
            }
            State::Parked => self.kins.remove_parked(kin, rank),
            State::Taken => {}
        }
    }

    fn set_state(&mut self, job: JobId, state: State) {
        self.detach(job);
        let Some(entry) = self.entries.get_mut(&job) else { return };
        entry.state = state;
        match state {
            State::Behind(index) => {
                self.behind.insert((index, job));
            }
            State::Until(due_ms) | State::Changed(due_ms) => {
                self.until.insert((due_ms, job));
            }
            State::Ready | State::Taken | State::Parked => {}
        }
    }
}
