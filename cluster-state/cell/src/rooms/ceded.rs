//! What one job leaves of its queue's quota to those that come before it: amounts by column. See `rooms/turns.rs`.

use crate::state::quota::QueueId;
use crate::state::turns::Place;
use ohm_model::{FlavorResource, SessionId};

/// What one job leaves to others. Jobs that are asked about one after the other in the order of one line cost one walk
/// together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ceded {
    pub(super) amounts: Sums,
    /// What is left besides to jobs for which others were stopped.
    pub(super) promised: Sums,
    /// How far the line has been looked at.
    pub(super) walk: Option<Walk>,
    /// Working memory: what one job needs.
    pub(super) ask: Sums,
}

/// How far a line has been looked at, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Walk {
    pub(super) queue: QueueId,
    pub(super) holder: SessionId,
    pub(super) until: Place,
    pub(super) looked_at: usize,
}

/// Sums of the few flavors and resources that jobs of one queue ask for.
pub(super) type Sums = Vec<(FlavorResource, i64)>;

impl Ceded {
    /// How much of a flavor and resource is left to those that come before.
    #[inline]
    pub(crate) fn of(&self, column: FlavorResource) -> i64 {
        let of = |sums: &Sums| sums.iter().find(|(known, _)| *known == column).map_or(0, |(_, amount)| *amount);
        of(&self.amounts).saturating_add(of(&self.promised))
    }

    /// The queue whose line was looked at.
    pub(crate) fn queue(&self) -> Option<QueueId> {
        self.walk.map(|walk| walk.queue)
    }

    /// Whether anything is left to anybody.
    pub(super) fn any(&self) -> bool {
        !self.amounts.is_empty()
    }

    /// The cell is another one, or was changed.
    pub(crate) fn clear(&mut self) {
        self.amounts.clear();
        self.walk = None;
    }

    /// What the job at hand needs is left to it.
    pub(super) fn leave_ask(&mut self) {
        let Ceded { amounts, ask, .. } = self;
        ask.iter().for_each(|&(column, amount)| add(amounts, column, amount));
    }
}

/// Adds an amount to a sum.
pub(super) fn add(sums: &mut Sums, column: FlavorResource, more: i64) {
    match sums.iter_mut().find(|(known, _)| *known == column) {
        Some((_, amount)) => *amount = amount.saturating_add(more),
        None => sums.push((column, more)),
    }
}
