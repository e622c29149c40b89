//! One line per queue, served by weight: start-time fair queueing (Goyal, Vin and Cheng 1996) over what is placed.
//!
//! A line has a *tag*: what was placed of it so far, in shares of the whole cell, divided by its weight. The line with
//! the smallest tag is served. What is only looked at is *pledged* until it is known what comes of it, so that the jobs
//! of one pass are taken in the right order and those that find no place cost nothing.
//!
//! The virtual time is the tag at which a line was served last. A line that had no work joins there: it gets no credit
//! for having had nothing to do. A line that has work but nothing ready (its jobs are parked, under way, or wait for an
//! entry) keeps its tag, up to the worth of the whole cell, so that what kept it back for ever is not made up for.
//!
//! Several schedulers may serve one line, each its own jobs of it. What others place of a line is charged here, too,
//! and a line of which only others have work is waited for when its turn comes: otherwise who has run out of one line
//! would serve the rest alone. So is a line in which jobs of others come first: otherwise the fastest would serve its
//! own first, however old those of others. Only lines of one cohort tree wait like this: the chooser is asked about all
//! of them, also those that others are to serve first, and where it chooses one of those the tree is passed over. Were
//! they left out, room would go to the best of the rest, which fair sharing would have served last. For the same reason
//! it is asked about lines of which the next job is not known yet: where it chooses one, the pass ends.
//!
//! A line may have parts, of which one goes before the other whatever the ranks of their jobs: by keys that whoever
//! knows what the parts have used sets.

use crate::chooser::Chooser;
use crate::line::{Line, Others, Part, WEIGHT_MILLI};
use crate::rank::Rank;
use ohm_model::JobId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What everything that a cell has costs.
pub const WHOLE: u64 = 1 << 40;

/// What a plan was charged to its line, to be given back as far as it is refused.
#[derive(Clone, Copy, Debug)]
pub struct Fare {
    line: u32,
    step: u128,
}

/// All lines.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    by_name: BTreeMap<Arc<str>, u32>,
    lines: Vec<Line>,
    /// Lines with somebody to serve, by their tags; those that have no work left come last, equals by their heads.
    active: BTreeSet<(bool, u128, Rank, u32)>,
    /// Lines with nobody to serve yet: who will be is known once the jobs that were taken are planned.
    awaiting: BTreeSet<(u128, u32)>,
    /// Lines with nobody to serve here, and with work that others are waited for to serve.
    elsewhere: BTreeSet<(u128, u32)>,
    /// Of how many lines others have work.
    abroad: u32,
    /// By the root of a tree: the line that is waited for there, as the chooser said last, while nothing has changed.
    waits: BTreeMap<Arc<str>, u32>,
    virtual_time: u128,
}

/// Who is to be served of a tree.
enum Turn {
    /// This one, who is due then.
    Serve(u128, u32, Rank),
    /// Others are to serve this line first.
    Wait(u32),
    /// That is known once the jobs that were taken are planned.
    Unsure,
}

/// A line of a tree that the chooser is asked about.
struct Candidate {
    due: u128,
    line: u32,
    /// Who is first of it here.
    head: Option<Rank>,
    /// The first job of it, here or elsewhere.
    job: JobId,
    /// What it means that the line is chosen, unless its head is served.
    instead: Option<Turn>,
}

impl Lines {
    /// The number of the line called `name`.
    pub(crate) fn number(&mut self, name: &Arc<str>) -> u32 {
        if let Some(&line) = self.by_name.get(name) {
            return line;
        }
        let line = self.lines.len() as u32;
        self.lines.push(Line { weight_milli: WEIGHT_MILLI, ..Line::default() });
        self.by_name.insert(Arc::clone(name), line);
        line
    }

    /// Sets the share of a line, whether a head that finds no place keeps back everybody behind it, and the root of its
    /// cohort tree.
    pub(crate) fn set(&mut self, name: &Arc<str>, weight_milli: u64, strict: bool, root: &Arc<str>) {
        let line = self.number(name);
        self.change(line, |line| {
            (line.weight_milli, line.strict) = (weight_milli.max(1), strict);
            line.root = Some(Arc::clone(root));
            if !strict {
                line.held_at = None;
            }
        });
    }

    /// One more job or plan of the line is there, whatever it waits for.
    pub(crate) fn join(&mut self, line: u32) {
        let virtual_time = self.virtual_time;
        self.change(line, |line| {
            if line.members == 0 {
                line.tag = line.tag.max(virtual_time);
            }
            line.members += 1;
        });
    }

    /// One less is there.
    pub(crate) fn leave(&mut self, line: u32) {
        self.change(line, |line| line.members = line.members.saturating_sub(1));
    }

    /// The number of a part of a line.
    pub(crate) fn part(&mut self, line: u32, name: &Arc<str>) -> u32 {
        let parts = &mut self.lines[line as usize].parts;
        let known = parts.iter().position(|part| part.name == *name);
        known.unwrap_or_else(|| {
            parts.push(Part { name: Arc::clone(name), ..Part::default() });
            parts.len() - 1
        }) as u32
    }

    /// The parts of the line that have had members, in their order.
    pub fn parts(&self, line: &str) -> Vec<Arc<str>> {
        let Some(line) = self.by_name.get(line).map(|line| &self.lines[*line as usize]) else { return Vec::new() };
        let mut parts: Vec<&Part> = line.parts.iter().collect();
        parts.sort_by(|one, other| (one.key, &one.name).cmp(&(other.key, &other.name)));
        parts.into_iter().map(|part| Arc::clone(&part.name)).collect()
    }

    /// A part of the line has this key from now on.
    pub(crate) fn set_key(&mut self, line: u32, part: &str, key: u128) {
        self.change(line, |line| {
            let found = line.parts.iter_mut().find(|known| *known.name == *part);
            found.into_iter().for_each(|part| part.key = key);
        });
    }

    /// Where somebody stands in the line.
    pub(crate) fn order(&self, line: u32, part: u32, rank: Rank) -> (u8, u128, Rank) {
        self.lines[line as usize].order(part, rank)
    }

    /// Somebody is ready, who `starts` or stands already.
    pub(crate) fn add(&mut self, line: u32, part: u32, rank: Rank, starts: bool) {
        self.change(line, |line| {
            let part = &mut line.parts[part as usize];
            part.ready.insert(rank);
            if starts {
                part.standing.remove(&rank);
            } else {
                part.standing.insert(rank);
            }
        });
    }

    pub(crate) fn remove(&mut self, line: u32, part: u32, rank: Rank) {
        self.change(line, |line| {
            let part = &mut line.parts[part as usize];
            part.ready.remove(&rank);
            part.standing.remove(&rank);
        });
    }

    /// The line that is served next, and who is first in it. Of the lines of one cohort tree that is the one that
    /// `chooser` says; trees take turns by the lines that are served in them. Nothing while that depends on what was
    /// taken. A tree in which it is the turn of a line that others are to serve first is passed over.
    pub(crate) fn next(&mut self, chooser: &mut dyn Chooser) -> Option<(u32, Rank)> {
        let mut waits = std::mem::take(&mut self.waits);
        let next = self.next_of_all(chooser, &mut waits);
        self.waits = waits;
        next
    }

    fn next_of_all(&self, chooser: &mut dyn Chooser, waits: &mut BTreeMap<Arc<str>, u32>) -> Option<(u32, Rank)> {
        let mut best: Option<(u128, u32, Rank)> = None;
        let mut seen: Vec<&Arc<str>> = Vec::new();
        for &(is_idle, due, head, line) in &self.active {
            if best.is_some_and(|(known, ..)| is_idle || known <= due) {
                break;
            }
            if self.is_unsure(is_idle, due) {
                return None;
            }
            let found = match self.tree_of(line).filter(|_| !is_idle) {
                None if self.is_passed_over(due, line) => continue,
                None => (due, line, head),
                Some(root) if seen.contains(&root) => continue,
                Some(root) => {
                    seen.push(root);
                    if waits.contains_key(root) {
                        continue;
                    }
                    match self.first_of_tree(root, chooser) {
                        Some(Turn::Serve(due, line, head)) => (due, line, head),
                        Some(Turn::Wait(line)) => {
                            waits.insert(Arc::clone(root), line);
                            continue;
                        }
                        Some(Turn::Unsure) | None => continue,
                    }
                }
            };
            if best.is_none_or(|(known, ..)| found.0 < known) {
                best = Some(found);
            }
        }
        best.filter(|(due, ..)| !self.is_unsure(false, *due)).map(|(_, line, head)| (line, head))
    }

    /// Whether a line comes before one that is due then of which nobody knows yet who is first in it.
    fn is_unsure(&self, is_idle: bool, due: u128) -> bool {
        self.awaiting.first().is_some_and(|&(awaited, _)| is_idle || awaited < due)
    }

    /// Whether others are to serve this line, which is due then and in no tree, before it is served here.
    fn is_passed_over(&self, due: u128, line: u32) -> bool {
        let root = self.lines[line as usize].root.as_ref().filter(|_| self.abroad > 0);
        root.is_some_and(|root| self.served_first(due, line, root).is_some())
    }

    /// The root of the cohort tree that the line is below.
    fn tree_of(&self, line: u32) -> Option<&Arc<str>> {
        self.lines[line as usize].root.as_ref().filter(|root| self.by_name.get(*root) != Some(&line))
    }

    /// Whose turn it is in the tree with this root, be it that others are to serve it.
    fn first_of_tree(&self, root: &Arc<str>, chooser: &mut dyn Chooser) -> Option<Turn> {
        let of_tree = |line: u32| self.tree_of(line) == Some(root);
        let own = self.active.iter().filter(|(is_idle, _, _, line)| !is_idle && of_tree(*line));
        let own = own.map(|&(_, due, head, line)| {
            let others = self.lines[line as usize].others;
            let waits = others.come_first && others.are_waited_for();
            let job = others.first.filter(|_| waits).unwrap_or(head.job);
            Candidate { due, line, head: Some(head), job, instead: waits.then_some(Turn::Wait(line)) }
        });
        let awaiting = self.awaiting.iter().filter(|(_, line)| of_tree(*line)).filter_map(|&(due, line)| {
            let job = self.lines[line as usize].last_taken?;
            Some(Candidate { due, line, head: None, job, instead: Some(Turn::Unsure) })
        });
        let elsewhere = || self.elsewhere.iter().filter(|(_, line)| of_tree(*line));
        let foreign = elsewhere().filter_map(|&(due, line)| {
            let job = self.lines[line as usize].others.first?;
            Some(Candidate { due, line, head: None, job, instead: Some(Turn::Wait(line)) })
        });
        let mut candidates: Vec<Candidate> = own.chain(awaiting).chain(foreign).collect();
        candidates.sort_by_key(|candidate| (candidate.due, candidate.head.is_none(), candidate.head, candidate.line));
        let at = chooser.first_of(&mut candidates.iter().map(|candidate| candidate.job));
        let at = if at < candidates.len() { at } else { 0 };
        let chosen = candidates.into_iter().nth(at)?;
        // Nobody knows how the chooser would think of these: their turn comes by their tags.
        let unknown =
            elsewhere().find(|(due, line)| self.lines[*line as usize].others.first.is_none() && *due < chosen.due);
        match (unknown, chosen.instead) {
            (Some((_, line)), _) => Some(Turn::Wait(*line)),
            (None, Some(instead)) => Some(instead),
            (None, None) => chosen.head.map(|head| Turn::Serve(chosen.due, chosen.line, head)),
        }
    }

    /// The line of the tree with this `root` that others are to serve before `line`, which is due then.
    fn served_first(&self, due: u128, line: u32, root: &Arc<str>) -> Option<u32> {
        let others = self.lines[line as usize].others;
        if others.come_first && others.are_waited_for() {
            return Some(line);
        }
        let mut before = self.elsewhere.range(..(due, 0)).map(|(_, other)| *other);
        before.find(|other| self.lines[*other as usize].root.as_ref() == Some(root))
    }

    /// By root: the line whose turn it was there when somebody was to be taken last, and that others are to serve,
    /// where that keeps back what is ready here.
    pub fn waits(&self) -> BTreeMap<Arc<str>, Arc<str>> {
        if self.abroad == 0 {
            return BTreeMap::new();
        }
        let alone = self.active.iter().filter_map(|&(_, due, _, line)| {
            let root = self.lines[line as usize].root.as_ref().filter(|_| self.tree_of(line).is_none())?;
            Some((root, self.served_first(due, line, root)?))
        });
        let waits: BTreeMap<u32, &Arc<str>> =
            alone.chain(self.waits.iter().map(|(root, line)| (root, *line))).map(|(root, line)| (line, root)).collect();
        let named =
            self.by_name.iter().filter_map(|(name, line)| Some((Arc::clone(waits.get(line)?), Arc::clone(name))));
        named.collect()
    }

    /// The lines of the tree of `name` that others are to serve before they are served here.
    pub fn waited_for_with(&self, name: &Arc<str>) -> Vec<Arc<str>> {
        let root = self.by_name.get(name).and_then(|line| self.lines[*line as usize].root.as_ref());
        let is_waited_for = |line: &Line| {
            line.root.as_ref() == root
                && line.others.are_waited_for()
                && (line.others.come_first || line.head().is_none())
        };
        let lines = self.by_name.iter().filter(|(_, line)| is_waited_for(&self.lines[**line as usize]));
        lines.map(|(name, _)| Arc::clone(name)).collect()
    }

    /// What the chooser knows has changed: whom it chose counts no more.
    pub(crate) fn choose_anew(&mut self) {
        self.waits.clear();
    }

    /// What other schedulers do in the line from now on.
    pub(crate) fn set_others(&mut self, name: &Arc<str>, others: Others) {
        let line = self.number(name);
        let before = self.lines[line as usize].others.have_work;
        if others.have_work && !before {
            self.join(line);
            self.abroad += 1;
        }
        self.change(line, |line| line.others = others);
        self.choose_anew_with(line);
        if before && !others.have_work {
            self.leave(line);
            self.abroad -= 1;
        }
    }

    /// Who is first of the line here.
    pub(crate) fn first_of(&self, name: &str) -> Option<Rank> {
        self.lines[*self.by_name.get(name)? as usize].head()
    }

    /// Others have placed what costs so much of the line.
    pub(crate) fn charge_abroad(&mut self, name: &Arc<str>, cost: u64) {
        let line = self.number(name);
        // Who waits here is not put behind by what others do.
        let waiting = self.active.first().map(|(_, due, ..)| *due).into_iter();
        let first = waiting.chain(self.awaiting.first().map(|(due, _)| *due)).min();
        let tag = self.lines[line as usize].tag;
        self.virtual_time = self.virtual_time.max(first.map_or(tag, |first| tag.min(first)));
        self.change(line, |line| line.tag = line.tag.saturating_add(line.step(cost)));
    }

    /// A job that costs so much was taken; others of its line follow it if it finds a place, or not. Returns what
    /// [`Lines::redeem`] takes.
    pub(crate) fn pledge(&mut self, line: u32, (job, cost): (JobId, u64), followed: bool) -> u128 {
        let Some(step) = self.lines.get(line as usize).map(|line| line.step(cost)) else { return 0 };
        self.change(line, |line| {
            line.pledged = line.pledged.saturating_add(step);
            line.awaited += u32::from(followed);
            line.taken += 1;
            line.last_taken = Some(job);
        });
        step
    }

    /// It is known what comes of a job that was taken.
    pub(crate) fn redeem(&mut self, line: u32, step: u128, followed: bool) {
        self.change(line, |line| {
            line.pledged = line.pledged.saturating_sub(step);
            line.awaited = line.awaited.saturating_sub(u32::from(followed));
            line.taken = line.taken.saturating_sub(1);
        });
    }

    /// Charges a plan to its line, which has it as a member until [`Lines::settle`].
    pub(crate) fn charge(&mut self, line: u32, cost: u64) -> Fare {
        let Some(found) = self.lines.get(line as usize) else { return Fare { line, step: 0 } };
        let step = found.step(cost);
        self.virtual_time = self.virtual_time.max(found.tag);
        self.join(line);
        self.change(line, |line| line.tag = line.tag.saturating_add(step));
        Fare { line, step }
    }

    /// Of a plan so much of `of` was refused, and is given back.
    pub(crate) fn settle(&mut self, fare: Fare, refused: u64, of: u64) {
        let back = fare.step.saturating_mul(u128::from(refused.min(of))) / u128::from(of.max(1));
        self.change(fare.line, |line| line.tag = line.tag.saturating_sub(back));
        self.leave(fare.line);
    }

    /// A job of a strict line has found no place.
    pub(crate) fn hold(&mut self, line: u32, part: u32, rank: Rank) {
        self.change(line, |line| {
            let comes_first = |(held, other)| line.order(part, rank) < line.order(held, other);
            if line.strict && line.held_at.is_none_or(comes_first) {
                line.held_at = Some((part, rank));
            }
        });
    }

    /// The job that held the line moves again, or is gone.
    pub(crate) fn release(&mut self, line: u32, rank: Rank) {
        if self.lines[line as usize].held_at.is_some_and(|(_, held)| held == rank) {
            self.change(line, |line| line.held_at = None);
        }
    }

    /// Whether any line has somebody to serve now, what was taken aside, as far as the chooser has not said otherwise.
    pub(crate) fn has_ready(&self) -> bool {
        let may_be_served = |&(is_idle, due, _, line): &(bool, u128, Rank, u32)| match self.tree_of(line) {
            Some(root) if !is_idle => !self.waits.contains_key(root),
            _ => !self.is_passed_over(due, line),
        };
        self.active.iter().any(may_be_served) || (!self.active.is_empty() && !self.awaiting.is_empty())
    }

    /// Something of the line has changed: who was chosen in its tree counts no more.
    fn choose_anew_with(&mut self, line: u32) {
        if let Some(root) = self.lines[line as usize].root.as_ref().filter(|_| !self.waits.is_empty()) {
            self.waits.remove(root);
        }
    }

    /// Changes a line and keeps its place among the others right. A line that had nobody to serve for a while is owed
    /// no more than the whole cell.
    fn change(&mut self, number: u32, change: impl FnOnce(&mut Line)) {
        let virtual_time = self.virtual_time;
        let Some(line) = self.lines.get_mut(number as usize) else { return };
        let was = line.place();
        change(line);
        if was.0.is_none() && line.head().is_some() {
            line.tag = line.tag.max(virtual_time.saturating_sub(line.step(WHOLE)));
        }
        let now = line.place();
        if was == now {
            return;
        }
        self.choose_anew_with(number);
        if let Some((is_idle, due, head)) = was.0 {
            self.active.remove(&(is_idle, due, head, number));
        }
        if let Some(due) = was.1 {
            self.awaiting.remove(&(due, number));
        }
        if let Some(due) = was.2 {
            self.elsewhere.remove(&(due, number));
        }
        self.active.extend(now.0.map(|(is_idle, due, head)| (is_idle, due, head, number)));
        self.awaiting.extend(now.1.map(|due| (due, number)));
        self.elsewhere.extend(now.2.map(|due| (due, number)));
    }
}
