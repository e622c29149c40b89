//! Disruption budgets, in Kubernetes' words: how many tasks must be healthy, or may be missing, while somebody stops
//! tasks that could run on: drains, moves, preemption. What is lost counts against them and is kept back by nobody.

use crate::ids::{GroupIndex, JobId};
use crate::neighbours::selects;
use crate::selector::{Labels, Requirement};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Most budgets of a cell.
pub const BUDGETS_MAX: usize = 10_000;

/// The most that a share of tasks may be.
pub const PERCENT_MAX: u32 = 100;

/// So many tasks, or such a share of those that are expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TaskAmount {
    /// A number.
    Tasks(u32),
    /// Hundredths of what is expected, 0 to [`PERCENT_MAX`], rounded up.
    Percent(u32),
}

impl TaskAmount {
    /// How many that are of `expected`.
    pub fn of(self, expected: u64) -> u64 {
        match self {
            TaskAmount::Tasks(tasks) => u64::from(tasks),
            TaskAmount::Percent(percent) => {
                (u128::from(expected) * u128::from(percent)).div_ceil(u128::from(PERCENT_MAX)) as u64
            }
        }
    }

    /// The amount that a text says: `2`, or `50%`.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_suffix('%');
        let number = digits.unwrap_or(text);
        let number: u32 = number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())??;
        match digits {
            Some(_) => (number <= PERCENT_MAX).then_some(TaskAmount::Percent(number)),
            None => Some(TaskAmount::Tasks(number)),
        }
    }
}

impl fmt::Display for TaskAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskAmount::Tasks(tasks) => write!(f, "{tasks}"),
            TaskAmount::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// What a budget keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BudgetLimit {
    /// At least so many tasks are healthy.
    MinAvailable(TaskAmount),
    /// No more than so many of those that are expected are not.
    MaxUnavailable(TaskAmount),
}

impl BudgetLimit {
    /// How many tasks must be healthy where so many are expected.
    pub fn desired(self, expected: u64) -> u64 {
        match self {
            BudgetLimit::MinAvailable(amount) => amount.of(expected),
            BudgetLimit::MaxUnavailable(amount) => expected.saturating_sub(amount.of(expected)),
        }
    }
}

/// When a task that is not healthy may be stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum UnhealthyEviction {
    /// While as many others are healthy as must be.
    #[default]
    IfHealthyBudget,
    /// Always.
    AlwaysAllow,
}

/// The words that documents have for it.
pub const UNHEALTHY_EVICTIONS: [(&str, UnhealthyEviction); 2] =
    [("IfHealthyBudget", UnhealthyEviction::IfHealthyBudget), ("AlwaysAllow", UnhealthyEviction::AlwaysAllow)];

/// What a budget asks for, whoever it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BudgetTerms {
    /// What it keeps.
    pub limit: BudgetLimit,
    /// When tasks may be stopped that are not healthy.
    pub unhealthy: UnhealthyEviction,
}

impl BudgetTerms {
    /// The field that is wrong, and how, if one is.
    pub fn problem(&self) -> Option<(&'static str, String)> {
        let (field, amount) = match self.limit {
            BudgetLimit::MinAvailable(amount) => ("minAvailable", amount),
            BudgetLimit::MaxUnavailable(amount) => ("maxUnavailable", amount),
        };
        match amount {
            TaskAmount::Percent(percent) if percent > PERCENT_MAX => {
                Some((field, format!("must be at most {PERCENT_MAX}%, is {percent}%")))
            }
            TaskAmount::Percent(_) | TaskAmount::Tasks(_) => None,
        }
    }
}

/// A budget for the tasks of one namespace that have certain labels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// What it is called, with its namespace as jobs are: `web`, or `team-a/web`.
    pub name: String,
    /// Which labels the tasks have; nothing means no task, an empty list every task of the namespace.
    pub selector: Option<Vec<Requirement>>,
    /// What it asks for.
    pub terms: BudgetTerms,
}

impl Budget {
    /// Whether it is about tasks of its namespace with these labels.
    pub fn selects(&self, labels: &Labels) -> bool {
        selects(&self.selector, labels)
    }
}

/// Which budget is meant: one with a name, by its number, or the one that a group has by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BudgetRef {
    /// The named one with this number, which is never used again.
    Named(u32),
    /// That of a group.
    OfGroup(JobId, GroupIndex),
}

/// A job has to leave its nodes, and a budget keeps it there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetEvent {
    /// The job.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// The budget, for people.
    pub budget: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(limit: BudgetLimit, expected: u64, desired: u64) {
        assert_eq!(limit.desired(expected), desired, "{limit:?} of {expected}");
    }

    #[test]
    fn shares_are_rounded_up_as_in_kubernetes() {
        use BudgetLimit::{MaxUnavailable, MinAvailable};
        use TaskAmount::{Percent, Tasks};
        check(MinAvailable(Tasks(2)), 7, 2);
        check(MinAvailable(Tasks(9)), 7, 9);
        check(MinAvailable(Percent(50)), 7, 4);
        check(MinAvailable(Percent(100)), 7, 7);
        check(MaxUnavailable(Tasks(2)), 7, 5);
        check(MaxUnavailable(Tasks(9)), 7, 0);
        check(MaxUnavailable(Percent(30)), 7, 4);
        check(MaxUnavailable(Percent(0)), 7, 7);
        check(MaxUnavailable(Percent(100)), u64::MAX, 0);
    }

    #[test]
    fn amounts_read_back_as_they_are_written() {
        for (text, amount) in [("0", Some("0")), ("12", Some("12")), ("100%", Some("100%")), ("05%", Some("5%"))] {
            assert_eq!(TaskAmount::parse(text).map(|amount| amount.to_string()).as_deref(), amount, "{text}");
        }
        for text in ["", "%", "101%", "-1", "+1", "1.5", "5 %", "4294967296"] {
            assert_eq!(TaskAmount::parse(text), None, "{text}");
        }
    }
}
