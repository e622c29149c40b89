//! What the checks of a node find, and what the cell is told of it.
//!
//! ```text
//!            `failures` bad findings in a row
//!   well ────────────────────────────────────▶ ill
//!    ▲ └───────────────────────────────────────┘ │
//!    └───────────── `successes` good ones ───────┘
//! ```
//! A new agent process knows nothing at first: the cell keeps what the former one said until every check has made up
//! its mind. Then the whole set goes to the cell, and again whenever it changes or the node is registered anew.

use ohm_model::{ConditionAction, ConditionKind, Incarnation, MESSAGE_CHARS_MAX, NodeCondition};
use std::collections::BTreeMap;

/// How the findings of one check are judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckPolicy {
    /// What is wrong if the check says so.
    pub kind: ConditionKind,
    /// What is to follow.
    pub action: ConditionAction,
    /// So many bad findings in a row, and it is wrong; at least 1.
    pub failures: u32,
    /// So many good ones in a row, and it is well again; at least 1.
    pub successes: u32,
    /// Of an amount: bad below this.
    pub bad_below: u64,
    /// Of an amount: good from here on. Between the two nothing changes.
    pub good_from: u64,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// All is well.
    Good,
    /// It is not, for this reason.
    Bad(String),
    /// So much is left, in the unit of the policy's bounds; the words are for people.
    Left(u64, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vote {
    Good,
    Bad,
    Undecided,
}

#[derive(Clone, Debug)]
struct Check {
    policy: CheckPolicy,
    /// Why it is ill, if it is; nothing as long as nobody knows.
    state: Option<Option<String>>,
    /// Findings in a row that say otherwise than the state, and what they say.
    streak: u32,
    last: Vote,
}

impl Check {
    /// Whether the state changed.
    fn take(&mut self, finding: Finding) -> bool {
        let (vote, message) = match finding {
            Finding::Good => (Vote::Good, String::new()),
            Finding::Bad(message) => (Vote::Bad, message),
            Finding::Left(left, message) if left < self.policy.bad_below => (Vote::Bad, message),
            Finding::Left(left, _) if left >= self.policy.good_from => (Vote::Good, String::new()),
            Finding::Left(..) if self.state.is_none() => (Vote::Good, String::new()),
            Finding::Left(..) => (Vote::Undecided, String::new()),
        };
        self.streak = if vote == self.last { self.streak.saturating_add(1) } else { 1 };
        self.last = vote;
        let needed = match vote {
            Vote::Good => self.policy.successes,
            Vote::Bad => self.policy.failures,
            Vote::Undecided => return false,
        };
        let is_ill = vote == Vote::Bad;
        if self.streak < needed.max(1) || self.state.as_ref().is_some_and(|state| state.is_some() == is_ill) {
            return false;
        }
        self.state = Some(is_ill.then(|| message.chars().take(MESSAGE_CHARS_MAX).collect()));
        true
    }
}

/// A set that is under way to the cell.
#[derive(Clone, Debug)]
struct Telling {
    number: u64,
    due_ms: u64,
}

/// All checks of one node.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    checks: BTreeMap<ConditionKind, Check>,
    resend_ms: u64,
    /// The registration that knows the present set.
    told: Option<Incarnation>,
    telling: Option<Telling>,
}

impl Conditions {
    pub(crate) fn new(policies: Vec<CheckPolicy>, resend_ms: u64) -> Self {
        let check = |policy: CheckPolicy| Check { policy, state: None, streak: 0, last: Vote::Undecided };
        let checks = policies.into_iter().map(|policy| (policy.kind, check(policy))).collect();
        Conditions { checks, resend_ms: resend_ms.max(1), told: None, telling: None }
    }

    /// Takes what a check found; findings of checks that nobody asked for are no news.
    pub(crate) fn take(&mut self, kind: ConditionKind, finding: Finding) {
        if self.checks.get_mut(&kind).is_some_and(|check| check.take(finding)) {
            (self.told, self.telling) = (None, None);
        }
    }

    /// What is wrong now; nothing as long as a check has not made up its mind.
    fn set(&self) -> Option<Vec<NodeCondition>> {
        let mut set = Vec::new();
        for (kind, check) in &self.checks {
            if let Some(message) = check.state.as_ref()? {
                set.push(NodeCondition { kind: *kind, action: check.policy.action, message: message.clone() });
            }
        }
        Some(set)
    }

    /// What was sent may be lost with the connection, or was meant for an earlier registration.
    pub(crate) fn hurry(&mut self) {
        self.telling = None;
    }

    /// When something has to be sent (again) under `registration`.
    pub(crate) fn due_ms(&self, registration: Incarnation) -> Option<u64> {
        if self.told == Some(registration) || self.checks.values().any(|check| check.state.is_none()) {
            return None;
        }
        Some(self.telling.as_ref().map_or(0, |telling| telling.due_ms))
    }

    /// The set to send now, if there is one. `number` must be higher than all before.
    pub(crate) fn next(
        &mut self,
        now_ms: u64,
        registration: Incarnation,
        number: impl FnOnce() -> u64,
    ) -> Option<(u64, Vec<NodeCondition>)> {
        if self.due_ms(registration)? > now_ms {
            return None;
        }
        let set = self.set()?;
        let number = self.telling.as_ref().map_or_else(number, |telling| telling.number);
        self.telling = Some(Telling { number, due_ms: now_ms.saturating_add(self.resend_ms) });
        Some((number, set))
    }

    /// The cell has taken what was sent under `number`.
    pub(crate) fn accept(&mut self, number: u64, registration: Incarnation) {
        if self.telling.take_if(|telling| telling.number == number).is_some() {
            self.told = Some(registration);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGISTERED: Incarnation = Incarnation(4);

    fn policy(kind: ConditionKind) -> CheckPolicy {
        let (failures, successes, bad_below, good_from) = (3, 2, 50, 60);
        CheckPolicy { kind, action: ConditionAction::Drain, failures, successes, bad_below, good_from }
    }

    fn bad(conditions: &mut Conditions, kind: ConditionKind, times: u32) {
        (0..times).for_each(|time| conditions.take(kind, Finding::Bad(format!("exit {time}"))));
    }

    fn good(conditions: &mut Conditions, kind: ConditionKind, times: u32) {
        (0..times).for_each(|_| conditions.take(kind, Finding::Good));
    }

    /// What is told at `now_ms`, accepted at once.
    fn told(conditions: &mut Conditions, now_ms: u64) -> Option<Vec<String>> {
        let (number, set) = conditions.next(now_ms, REGISTERED, || now_ms)?;
        conditions.accept(number, REGISTERED);
        Some(set.into_iter().map(|condition| format!("{} {}", condition.kind.name(), condition.message)).collect())
    }

    #[test]
    fn a_check_needs_several_findings_in_a_row_either_way() {
        let kind = ConditionKind::HealthCheckFailed;
        let mut conditions = Conditions::new(vec![policy(kind)], 100);
        good(&mut conditions, kind, 1);
        assert_eq!(told(&mut conditions, 1), None, "one finding says nothing yet");
        good(&mut conditions, kind, 1);
        assert_eq!(told(&mut conditions, 2), Some(vec![]), "the cell may hold something of an earlier process");
        bad(&mut conditions, kind, 2);
        good(&mut conditions, kind, 1);
        bad(&mut conditions, kind, 2);
        assert_eq!(told(&mut conditions, 3), None);
        bad(&mut conditions, kind, 1);
        assert_eq!(told(&mut conditions, 4), Some(vec!["health-check-failed exit 0".into()]));
        bad(&mut conditions, kind, 9);
        good(&mut conditions, kind, 1);
        assert_eq!(told(&mut conditions, 5), None, "what is known is not told again");
        good(&mut conditions, kind, 1);
        assert_eq!(told(&mut conditions, 6), Some(vec![]));
    }

    #[test]
    fn between_the_two_bounds_nothing_changes() {
        let kind = ConditionKind::DiskPressure;
        let mut conditions = Conditions::new(vec![CheckPolicy { failures: 1, successes: 1, ..policy(kind) }], 100);
        let mut left = |left: u64, now_ms: u64| {
            conditions.take(kind, Finding::Left(left, format!("{left} left")));
            told(&mut conditions, now_ms)
        };
        assert_eq!(left(55, 1), Some(vec![]));
        assert_eq!(left(49, 2), Some(vec!["disk-pressure 49 left".into()]));
        assert_eq!(left(59, 3), None);
        assert_eq!(left(60, 4), Some(vec![]));
        assert_eq!(left(50, 5), None);
    }

    #[test]
    fn a_set_is_sent_until_it_is_taken_and_again_after_a_registration() {
        let kind = ConditionKind::DeviceError;
        let mut conditions = Conditions::new(vec![policy(kind)], 100);
        bad(&mut conditions, kind, 3);
        let numbered = |conditions: &mut Conditions, now_ms, number| {
            conditions.next(now_ms, REGISTERED, || number).map(|(number, set)| (number, set.len()))
        };
        assert_eq!(numbered(&mut conditions, 10, 1), Some((1, 1)));
        assert_eq!(numbered(&mut conditions, 109, 2), None);
        assert_eq!(numbered(&mut conditions, 110, 2), Some((1, 1)), "the same set under the same number");
        good(&mut conditions, kind, 2);
        assert_eq!(numbered(&mut conditions, 111, 3), Some((3, 0)), "another set at once, under another number");
        conditions.accept(1, REGISTERED);
        assert!(conditions.due_ms(REGISTERED).is_some(), "an earlier set was taken, this one was not");
        conditions.accept(3, REGISTERED);
        assert_eq!(conditions.due_ms(REGISTERED), None);
        assert_eq!(conditions.due_ms(Incarnation(5)), Some(0));
    }

    #[test]
    fn without_checks_the_cell_is_told_so_once() {
        let mut conditions = Conditions::new(Vec::new(), 100);
        assert_eq!(told(&mut conditions, 1), Some(vec![]));
        assert_eq!(told(&mut conditions, 2), None);
    }
}
