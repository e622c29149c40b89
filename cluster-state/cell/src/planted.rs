//! Planted bugs of the cell, at its seams: a command before it is applied, the state and the events after it, what the
//! judge is shown and what it says, and what is seen of quotas. The code between the seams knows nothing of them. Those
//! that skip a hard rule are beside the rules. Without the feature `planted-bugs` nothing of this is left.

mod apply;
mod judge;
pub(crate) mod quota;

pub(crate) use apply::{Planted, settle_with};
pub(crate) use judge::{said_by_judge, shown_to_judge};

use crate::state::jobs::Group;
use ohm_stdx::bug::{self, Bug};

/// Whether a snapshot that is restored brings back which commands were answered.
pub(crate) fn restores_answers() -> bool {
    !bug::is_planted(Bug::ForgetSessions)
}

/// What planners are shown of a group that they seek spares for.
pub(crate) fn show_to_planners(group: &mut Group) {
    if bug::is_planted(Bug::SpareAstray) {
        group.domain = None;
    }
}
