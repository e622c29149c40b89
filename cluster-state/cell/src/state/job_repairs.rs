//! How far the repair of a job is, and how it ends.

use crate::state::jobs::{Group, Job, JobState};
use crate::state::repairs::{PAST_REPAIRS_MAX, PastRepair, RepairEnd, RepairState};
use ohm_model::{GroupIndex, GroupSpec, NodeId};
use ohm_stdx::RangeSet;
use ohm_stdx::bug::{self, Bug};

/// How long room is owed to a repair that does not say how long it may take.
const OWED_MS: u64 = 600_000;

impl Job {
    /// How far its repair is.
    pub fn repair_state(&self) -> RepairState {
        if self.groups.iter().any(|group| !group.lost.is_empty()) {
            RepairState::Waiting
        } else if self.groups.iter().any(|group| !group.replaced.is_empty()) {
            RepairState::InFlight
        } else if self.repairs.open.is_some() && self.is_left() {
            RepairState::Leaving
        } else {
            RepairState::Whole
        }
    }

    /// Whether a gang that runs has fewer tasks than its minimum, in any group; what is to stop does not count, but
    /// what moves to a place that is reserved for it does.
    pub fn is_below_minimum(&self) -> bool {
        let short = |(group, spec): (&Group, &GroupSpec)| {
            let stands = group.live.saturating_sub(group.stopping) + group.moving.len();
            group.started && stands < group.needed(spec)
        };
        self.starts_whole() && self.groups.iter().zip(&self.spec.groups).any(short)
    }

    /// The lost tasks of a group that no room is held for as they move: room is owed to them once it is claimed.
    pub fn owed(&self, group: GroupIndex) -> RangeSet {
        let Some(group) = self.groups.get(usize::from(group.0)) else { return RangeSet::default() };
        let mut owed = group.lost.clone();
        owed.remove_all(&group.moving);
        if self.state == JobState::Active { owed } else { RangeSet::default() }
    }

    /// Until when room is owed to what it lost, in stamped time: each loss sets it anew, and so does another policy.
    pub fn owed_until_ms(&self) -> Option<u64> {
        let timeout_ms = match self.spec.repair.timeout_seconds {
            0 => OWED_MS,
            seconds => seconds.saturating_mul(1000),
        };
        self.repairs.open.as_ref().map(|open| open.last_ms.saturating_add(timeout_ms))
    }

    /// Whether room may be claimed for what the group lost, as far as the time for it goes.
    pub fn may_claim(&self, group: GroupIndex, now_ms: u64) -> bool {
        self.owed_until_ms().is_some_and(|until_ms| now_ms < until_ms) && !self.owed(group).is_empty()
    }

    /// Whether everything of the group that waits for a place was lost: it is repaired, and nothing of it is new work.
    pub(crate) fn is_only_repaired(&self, group: GroupIndex) -> bool {
        let is_lost = |group: &Group| {
            let mut waits = group.pending.iter();
            !group.lost.is_empty() && waits.all(|(first, count)| group.lost.overlap(first, count) == count)
        };
        self.groups.get(usize::from(group.0)).is_some_and(is_lost)
    }

    /// Whether something of it that its node drives away still stops.
    fn is_left(&self) -> bool {
        self.groups.iter().any(|group| group.driven > 0) && !bug::is_planted(Bug::EarlyWhole)
    }

    /// Whether a gang that falls below its minimum waits for tasks that its nodes drive away to end: what one cause
    /// takes is one loss, and what becomes of it is decided when all of it is lost.
    pub fn awaits_ends(&self) -> bool {
        self.groups.iter().any(|group| group.driven_out() > 0) && self.is_below_minimum()
    }

    /// Whether a gang may be given up now: it runs below its minimum, and all of its loss is there.
    pub(crate) fn may_be_given_up(&self) -> bool {
        self.repair_state() == RepairState::Waiting && self.is_below_minimum() && !self.awaits_ends()
    }

    /// Ends whatever repair is under way. Returns the slots of the nodes that were lost for it.
    pub(crate) fn drop_repair(&mut self) -> Vec<NodeId> {
        for group in &mut self.groups {
            (group.lost, group.replaced) = Default::default();
        }
        self.repairs.open = None;
        self.repairs.take_lost()
    }

    /// Puts the repair under way, if there is one, to the past.
    pub(crate) fn close_repair(&mut self, now_ms: u64, end: RepairEnd) -> Option<PastRepair> {
        let open = self.repairs.open.take()?;
        let past =
            PastRepair { since_ms: open.since_ms, ended_ms: now_ms, placed: open.placed, nodes: open.nodes, end };
        if self.repairs.past.len() >= PAST_REPAIRS_MAX {
            self.repairs.past.remove(0);
        }
        self.repairs.past.push(past.clone());
        Some(past)
    }
}
