//! The runs that are to stop and run on for a while: whoever still finds them among the endpoints is served.

use super::{Action, LocalRun, Phase, Runs, Wish};
use crate::wanted::WantedRun;
use ohm_stdx::bug::{self, Bug};

impl Runs {
    /// When the polite signal of a run is due.
    pub(super) fn leaves_due_ms(&self) -> Option<u64> {
        self.leave_times.first().map(|(due_ms, _)| *due_ms)
    }

    /// Stops the runs whose time to leave is over.
    pub(crate) fn stop_left(&mut self, now_ms: u64, out: &mut Vec<Action>) {
        while let Some(&(due_ms, run)) = self.leave_times.first()
            && due_ms <= now_ms
        {
            self.leave_times.pop_first();
            self.settle_one((now_ms, run), false, out);
        }
    }

    /// Gives all runs that leave their times.
    pub(super) fn plan_leaves(&mut self) {
        let leaves = self.runs.iter().filter(|(_, local)| local.is_to_leave());
        self.leave_times = leaves.filter_map(|(run, local)| Some((local.leaves_ms?, *run))).collect();
    }
}

impl LocalRun {
    /// What a set says of its stop. Said again it may come sooner, and never later.
    pub(super) fn renew_leave(&mut self, now_ms: u64, wanted: &WantedRun) {
        let delay_ms = if bug::is_planted(Bug::StopAtOnce) { 0 } else { wanted.stop_delay_ms };
        let due_ms = now_ms.saturating_add(delay_ms);
        self.leaves_ms = wanted.stop.then(|| self.leaves_ms.map_or(due_ms, |known_ms| known_ms.min(due_ms)));
    }

    fn is_to_leave(&self) -> bool {
        matches!((&self.phase, self.wish), (Phase::Running { .. }, Wish::Stop))
    }

    /// Whether it is to stop, and not yet. What is not well serves nobody.
    pub(super) fn runs_on(&self, now_ms: u64) -> bool {
        self.is_to_leave() && self.leaves_ms.is_some_and(|leaves_ms| leaves_ms > now_ms) && !self.is_unhealthy()
    }
}
