//! One line: who is ready in it, where it stands among the others, and what other schedulers do in it.

use crate::rank::Rank;
use ohm_model::JobId;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The weight of a line that nobody gave one.
pub(crate) const WEIGHT_MILLI: u64 = 1000;
/// What other schedulers do in a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// They have work of it that may be placed.
    pub have_work: bool,
    /// The first job of that, as far as it is known.
    pub first: Option<JobId>,
    /// Jobs of theirs come before those that are ready here.
    pub come_first: bool,
    /// They are not waited for when it is their turn.
    pub are_passed: bool,
}

impl Others {
    pub(crate) fn are_waited_for(&self) -> bool {
        self.have_work && !self.are_passed
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) weight_milli: u64,
    /// Mostly one: see [`Part`].
    pub(crate) parts: Vec<Part>,
    pub(crate) tag: u128,
    /// For jobs that were taken and not planned yet.
    pub(crate) pledged: u128,
    /// How many of those will be followed by others if they find a place.
    pub(crate) awaited: u32,
    /// How many were taken and not planned yet.
    pub(crate) taken: u32,
    /// The last of those: what comes after it in the line is like it.
    pub(crate) last_taken: Option<JobId>,
    /// Jobs of the backlog and plans under way.
    pub(crate) members: u32,
    pub(crate) strict: bool,
    /// The root of its cohort tree, if it has one.
    pub(crate) root: Option<Arc<str>>,
    /// What other schedulers do in it. Their work counts as a member.
    pub(crate) others: Others,
    /// In a strict line: the job whose turn it is and that finds no place; nobody behind it starts.
    pub(crate) held_at: Option<(u32, Rank)>,
}

/// Part of a line: those of smaller key are served first, of equal ones by rank. A line without an order of parts has
/// one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub(crate) name: Arc<str>,
    pub(crate) key: u128,
    pub(crate) ready: BTreeSet<Rank>,
    /// Those of `ready` that don't wait to start: nobody keeps them back.
    pub(crate) standing: BTreeSet<Rank>,
}

/// Where a line stands among the others: in `active`, `awaiting` or `elsewhere`.
pub(crate) type Place = (Option<(bool, u128, Rank)>, Option<u128>, Option<u128>);

impl Line {
    pub(crate) fn head(&self) -> Option<Rank> {
        if self.strict && self.taken > 0 {
            return None;
        }
        let (part, head) = self.first_of(|part| &part.ready)?;
        let is_held = |(held, rank)| self.order(held, rank) < self.order(part, head);
        if self.held_at.is_some_and(is_held) {
            return self.first_of(|part| &part.standing).map(|(_, rank)| rank);
        }
        Some(head)
    }

    fn first_of(&self, ranks: impl Fn(&Part) -> &BTreeSet<Rank>) -> Option<(u32, Rank)> {
        let firsts = self.parts.iter().zip(0u32..).filter_map(|(part, at)| Some((at, *ranks(part).first()?)));
        firsts.min_by_key(|(part, head)| self.order(*part, *head))
    }

    /// Where somebody of a part stands in the line.
    pub(crate) fn order(&self, part: u32, rank: Rank) -> (u8, u128, Rank) {
        (rank.urgency, self.parts[part as usize].key, rank)
    }

    pub(crate) fn place(&self) -> Place {
        let due = self.tag.saturating_add(self.pledged);
        match self.head() {
            Some(head) => (Some((head.is_idle(), due, head)), None, None),
            None if self.awaited > 0 => (None, Some(due), None),
            None => (None, None, self.others.are_waited_for().then_some(due)),
        }
    }

    /// How far the line moves back for what costs so much.
    pub(crate) fn step(&self, cost: u64) -> u128 {
        u128::from(cost) * u128::from(WEIGHT_MILLI) / u128::from(self.weight_milli.max(1))
    }
}
