//! What is known of one node, and what follows from it at a given moment.

use crate::config::Timing;
use ohm_model::{Epoch, Incarnation, NodeHealth};

/// One registered node.
///
/// ```text
///           beats missing            lease and margin passed
///   Ready ────────────────▶ Suspect ─────────────────────────▶ Lost ──▶ (a new registration)
///     ▲                        │
///     └──beats arrive again────┘
/// ```
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) incarnation: Incarnation,
    /// As the own copy of the cell has it.
    pub(crate) health: NodeHealth,
    /// The last answered beat arrived then, or the registration was first seen then.
    pub(crate) alive_ms: u64,
    /// A beat was answered during this watch.
    pub(crate) has_beaten: bool,
    /// Counted among the missing.
    pub(crate) missing: bool,
    /// Found lost under this epoch of the duty; the conclusion may be under way.
    pub(crate) condemned: Option<Epoch>,
    /// The last conclusion sent and when.
    pub(crate) asked: Option<(NodeHealth, u64)>,
    /// Its place in the agenda.
    pub(crate) due_ms: Option<u64>,
}

/// What a look at a node says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// Nothing to conclude: it has not been watched for long enough.
    Unknown,
    Ready,
    Missing,
    Overdue,
    Condemned,
}

impl Watched {
    pub(crate) fn new(incarnation: Incarnation, health: NodeHealth, now_ms: u64) -> Self {
        Watched {
            incarnation,
            health,
            alive_ms: now_ms,
            has_beaten: false,
            missing: false,
            condemned: None,
            asked: None,
            due_ms: None,
        }
    }

    /// A watch begins: whatever was found out before counts no more. Only a verdict of the same epoch stands, because
    /// its conclusion may still be on its way into the log.
    pub(crate) fn begin(&mut self, epoch: Epoch) {
        (self.has_beaten, self.missing, self.asked, self.due_ms) = (false, false, None, None);
        self.condemned = self.condemned.filter(|condemned| *condemned == epoch);
    }

    /// Whether a beat of `incarnation` may be answered.
    pub(crate) fn may_answer(&self, incarnation: Incarnation) -> bool {
        self.incarnation == incarnation && self.health != NodeHealth::Lost && self.condemned.is_none()
    }

    /// Looks at the node at `now_ms` of a watch that began at `since_ms`.
    pub(crate) fn find(&self, now_ms: u64, since_ms: u64, timing: &Timing) -> Finding {
        let silent_ms = now_ms.saturating_sub(self.alive_ms.max(since_ms));
        match self.has_beaten {
            _ if self.condemned.is_some() => Finding::Condemned,
            _ if silent_ms >= timing.lost_ms => Finding::Overdue,
            _ if silent_ms >= timing.suspect_ms => Finding::Missing,
            true => Finding::Ready,
            false => Finding::Unknown,
        }
    }

    /// When the finding may become another one.
    pub(crate) fn next_ms(&self, finding: Finding, since_ms: u64, timing: &Timing) -> u64 {
        let start_ms = self.alive_ms.max(since_ms);
        match finding {
            Finding::Unknown | Finding::Ready => start_ms.saturating_add(timing.suspect_ms),
            Finding::Missing | Finding::Overdue => start_ms.saturating_add(timing.lost_ms),
            Finding::Condemned => u64::MAX,
        }
    }

    /// Notes that `health` is asked for, unless the copy has it already or it was asked for not long ago.
    pub(crate) fn ask(&mut self, now_ms: u64, health: NodeHealth, retry_ms: u64) -> bool {
        let fresh = |(asked, at_ms): (NodeHealth, u64)| asked == health && now_ms.saturating_sub(at_ms) < retry_ms;
        if self.health == health || self.asked.is_some_and(fresh) {
            return false;
        }
        self.asked = Some((health, now_ms));
        true
    }
}
