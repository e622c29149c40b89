//! One line per queue, served in turn by weight.

use crate::rank::Rank;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The weight of a line that nobody gave one.
const WEIGHT_MILLI: u32 = 1000;
/// How far a line of weight 1000 moves back with each turn.
const STRIDE: u64 = 1 << 20;

#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    by_name: BTreeMap<Arc<str>, u32>,
    lines: Vec<Line>,
    /// Lines with somebody to serve, by the turn they have come to; those that have no work left come last.
    active: BTreeSet<(bool, u64, u32)>,
    turn: u64,
}

#[derive(Clone, Debug, Default)]
struct Line {
    weight_milli: u32,
    ready: BTreeSet<Rank>,
    turn: u64,
    strict: bool,
    /// In a strict line: the job whose turn it is and that its quota keeps back; nobody behind it is served.
    held_at: Option<Rank>,
}

impl Line {
    fn head(&self) -> Option<Rank> {
        let head = *self.ready.first()?;
        self.held_at.is_none_or(|held| head <= held).then_some(head)
    }
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

    /// Sets the share of a line and whether a head that its quota keeps back keeps back everybody behind it.
    pub(crate) fn set(&mut self, name: &Arc<str>, weight_milli: u32, strict: bool) {
        let line = self.number(name);
        self.change(line, |line| {
            (line.weight_milli, line.strict) = (weight_milli.max(1), strict);
            if !strict {
                line.held_at = None;
            }
        });
    }

    pub(crate) fn add(&mut self, line: u32, rank: Rank) {
        self.change(line, |line| {
            line.ready.insert(rank);
        });
    }

    pub(crate) fn remove(&mut self, line: u32, rank: Rank) {
        self.change(line, |line| {
            line.ready.remove(&rank);
        });
    }

    /// The line whose turn it is, and who is first in it.
    pub(crate) fn next(&self) -> Option<(u32, Rank)> {
        let &(.., line) = self.active.first()?;
        Some((line, self.lines[line as usize].head()?))
    }

    /// Counts a turn against a line.
    pub(crate) fn charge(&mut self, line: u32) {
        self.turn = self.turn.max(self.lines[line as usize].turn);
        self.change(line, |line| {
            line.turn = line.turn.saturating_add(STRIDE * u64::from(WEIGHT_MILLI) / u64::from(line.weight_milli));
        });
    }

    /// A job of a strict line was kept back by its quota.
    pub(crate) fn hold(&mut self, line: u32, rank: Rank) {
        self.change(line, |line| {
            if line.strict && line.held_at.is_none_or(|held| rank < held) {
                line.held_at = Some(rank);
            }
        });
    }

    /// The job that held the line moves again, or is gone.
    pub(crate) fn release(&mut self, line: u32, rank: Rank) {
        if self.lines[line as usize].held_at == Some(rank) {
            self.change(line, |line| line.held_at = None);
        }
    }

    /// Whether any line has somebody to serve.
    pub(crate) fn has_ready(&self) -> bool {
        !self.active.is_empty()
    }

    /// Changes a line and keeps its entry among the active ones right. A line that was idle joins at the present turn:
    /// it gets no credit for having had nothing to do.
    fn change(&mut self, number: u32, change: impl FnOnce(&mut Line)) {
        let turn = self.turn;
        let Some(line) = self.lines.get_mut(number as usize) else { return };
        let was = line.head().map(|head| (head.is_idle(), line.turn, number));
        change(line);
        let is_active = line.head().is_some();
        if is_active && was.is_none() {
            line.turn = line.turn.max(turn);
        }
        let now = line.head().map(|head| (head.is_idle(), line.turn, number));
        if was != now {
            if let Some(was) = was {
                self.active.remove(&was);
            }
            self.active.extend(now);
        }
    }
}
