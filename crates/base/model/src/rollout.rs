//! Rollouts: how a service whose tasks are made of something else by now gets there, in Kubernetes' words (Deployment),
//! with what Nomad adds: canaries, and the way back by itself.

use crate::budget::{PERCENT_MAX, TaskAmount};
use crate::ids::JobId;
use serde::{Deserialize, Serialize};

/// How many revisions a job remembers, beside those that something still runs of.
pub const REVISIONS_MAX: usize = 10;

/// The longest that a strategy may wait for anything, in seconds: a year.
pub const ROLLOUT_SECONDS_MAX: u64 = 31_536_000;

/// The most canaries: as many as a group may have tasks.
pub const CANARIES_MAX: u32 = 1_000_000;

/// How the tasks of a former revision make room for those of the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RolloutKind {
    /// A few at a time, as many available as must be.
    #[default]
    RollingUpdate,
    /// All of them end before the first of the next is placed.
    Recreate,
}

/// The words that documents have for it.
pub const ROLLOUT_KINDS: [(&str, RolloutKind); 2] =
    [("RollingUpdate", RolloutKind::RollingUpdate), ("Recreate", RolloutKind::Recreate)];

/// How a service gets from one revision to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RolloutStrategy {
    /// How former tasks make room.
    pub kind: RolloutKind,
    /// How many tasks there may be beyond the count of a group meanwhile. A share is rounded up.
    pub max_surge: TaskAmount,
    /// How many tasks of the count may be unavailable because of it. A share is rounded down.
    pub max_unavailable: TaskAmount,
    /// A task counts as available when it has been ready for so long.
    pub min_ready_seconds: u64,
    /// A rollout that has come no further for so long has stalled; 0 never does.
    pub progress_deadline_seconds: u64,
    /// Whether one that stalls goes back to the last revision that was complete.
    pub auto_revert: bool,
    /// So many tasks of the new revision are placed beside the others first, and nothing else happens before somebody
    /// promotes it; 0 for none.
    pub canary: u32,
    /// Nothing is replaced while it is set.
    pub pause: bool,
}

impl Default for RolloutStrategy {
    fn default() -> Self {
        RolloutStrategy {
            kind: RolloutKind::RollingUpdate,
            max_surge: TaskAmount::Percent(25),
            max_unavailable: TaskAmount::Percent(25),
            min_ready_seconds: 0,
            progress_deadline_seconds: 600,
            auto_revert: false,
            canary: 0,
            pause: false,
        }
    }
}

impl RolloutStrategy {
    /// How many tasks there may be beyond `count`, and how many of `count` may be unavailable. Where shares come to
    /// nothing both ways one may be unavailable (Kubernetes' `ResolveFenceposts`).
    pub fn bounds(&self, count: u32) -> (u32, u32) {
        let surge = u32::try_from(self.max_surge.of(u64::from(count))).unwrap_or(u32::MAX);
        let unavailable = match self.max_unavailable {
            TaskAmount::Tasks(tasks) => tasks,
            TaskAmount::Percent(percent) => {
                (u64::from(count) * u64::from(percent) / u64::from(PERCENT_MAX)).min(u64::from(u32::MAX)) as u32
            }
        };
        let unavailable = unavailable.min(count);
        (surge, if surge == 0 { unavailable.max(1) } else { unavailable })
    }

    /// The field that is wrong, and how, if one is.
    pub fn problem(&self) -> Option<(&'static str, String)> {
        let is_nothing = |amount| matches!(amount, TaskAmount::Tasks(0) | TaskAmount::Percent(0));
        for (field, amount) in [("maxSurge", self.max_surge), ("maxUnavailable", self.max_unavailable)] {
            if let TaskAmount::Percent(percent) = amount
                && percent > PERCENT_MAX
            {
                return Some((field, format!("must be at most {PERCENT_MAX}%, is {percent}%")));
            }
        }
        let is_rolling = self.kind == RolloutKind::RollingUpdate;
        if is_rolling && is_nothing(self.max_surge) && is_nothing(self.max_unavailable) {
            return Some(("maxUnavailable", "must be above 0 where maxSurge is 0: nothing could be replaced".into()));
        }
        if !is_rolling && self.canary > 0 {
            return Some(("canary", "must be 0 with Recreate: nothing of two revisions runs side by side".into()));
        }
        let seconds =
            [("minReadySeconds", self.min_ready_seconds), ("progressDeadlineSeconds", self.progress_deadline_seconds)];
        for (field, seconds) in seconds {
            if seconds > ROLLOUT_SECONDS_MAX {
                return Some((field, format!("must be at most {ROLLOUT_SECONDS_MAX}, is {seconds}")));
            }
        }
        let deadline = self.progress_deadline_seconds;
        if deadline > 0 && deadline <= self.min_ready_seconds {
            let ready = self.min_ready_seconds;
            return Some((
                "progressDeadlineSeconds",
                format!("must be above minReadySeconds ({ready}), is {deadline}"),
            ));
        }
        if self.canary > CANARIES_MAX {
            return Some(("canary", format!("must be at most {CANARIES_MAX}, is {}", self.canary)));
        }
        None
    }
}

/// What somebody wants of the rollout of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RolloutAction {
    /// Nothing more is replaced.
    Pause,
    /// It goes on.
    Resume,
    /// The canaries are good: the others are replaced.
    Promote,
    /// Back to a revision that the job remembers; the one before the present one where none is named.
    Undo {
        /// Which.
        revision: Option<u32>,
    },
}

/// What became of a rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RolloutStep {
    /// It began.
    Started,
    /// From now on so many tasks of a group are wanted, and what is placed is of this revision.
    Aimed {
        /// The group.
        group: u16,
        /// The revision of what is placed.
        revision: u32,
        /// How many tasks, with those beyond the count.
        count: u32,
    },
    /// Its canaries are all available: it waits to be promoted.
    Waits,
    /// Somebody promoted it.
    Promoted,
    /// It has come no further for too long.
    Stalled {
        /// What it waits for, for people.
        reason: String,
    },
    /// It stalled, and goes back to an earlier revision, which the event names.
    Reverted {
        /// The revision that did not come up.
        from: u32,
    },
    /// Every task is of the revision, and available.
    Finished,
}

/// A step of a rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutEvent {
    /// The job.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// The revision of the job that it leads to.
    pub revision: u32,
    /// What.
    pub step: RolloutStep,
}

#[cfg(test)]
mod tests {
    use super::*;
    use TaskAmount::{Percent, Tasks};

    fn check(max_surge: TaskAmount, max_unavailable: TaskAmount, count: u32, bounds: (u32, u32)) {
        let strategy = RolloutStrategy { max_surge, max_unavailable, ..RolloutStrategy::default() };
        assert_eq!(strategy.bounds(count), bounds, "{max_surge} and {max_unavailable} of {count}");
    }

    #[test]
    fn bounds_are_those_of_a_deployment() {
        check(Percent(25), Percent(25), 10, (3, 2));
        check(Percent(25), Percent(25), 1, (1, 0));
        check(Percent(0), Percent(10), 5, (0, 1));
        check(Tasks(0), Tasks(3), 2, (0, 2));
        check(Percent(100), Percent(0), 7, (7, 0));
        check(Percent(1), Percent(99), 0, (0, 1));
        check(Percent(100), Percent(100), u32::MAX, (u32::MAX, u32::MAX));
    }

    #[test]
    fn what_could_never_roll_is_a_problem() {
        let field = |change: fn(&mut RolloutStrategy)| {
            let mut strategy = RolloutStrategy::default();
            change(&mut strategy);
            strategy.problem().map(|(field, _)| field)
        };
        assert_eq!(field(|_| ()), None);
        assert_eq!(
            field(|found| (found.max_surge, found.max_unavailable) = (Tasks(0), Percent(0))),
            Some("maxUnavailable")
        );
        assert_eq!(field(|found| found.max_surge = Percent(101)), Some("maxSurge"));
        assert_eq!(field(|found| found.min_ready_seconds = 600), Some("progressDeadlineSeconds"));
        assert_eq!(field(|found| (found.min_ready_seconds, found.progress_deadline_seconds) = (600, 0)), None);
        assert_eq!(field(|found| (found.kind, found.canary) = (RolloutKind::Recreate, 1)), Some("canary"));
        assert_eq!(
            field(|found| (found.kind, found.max_surge, found.max_unavailable) =
                (RolloutKind::Recreate, Tasks(0), Tasks(0))),
            None
        );
    }
}
