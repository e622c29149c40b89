//! Disruption budgets: which there are, and which groups have one of their own. The dice are their own: what else is
//! drawn does not depend on them, and a run without any of it is what it would be without this file.

use super::dice::{dice_of, is_drawn};
use ohm_model::{
    Budget, BudgetLimit, BudgetTerms, Command, JobSpec, Operator, Requirement, TaskAmount, UnhealthyEviction,
};
use ohm_stdx::{Prng, hash};

/// Of 1000 seeds, so many have budgets.
const DRAWN_PERMILLE: u64 = 130;
/// Of 1000 groups, so many have one of their own.
const OWN_PERMILLE: u64 = 350;
/// In place of so many of 1000 things that people do to what is there, a budget is put or removed.
const CHANGED_PERMILLE: u64 = 100;
const APPS: [&str; 3] = ["web", "db", "cache"];

/// Whether a run has budgets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Budgets {
    are_there: bool,
}

impl Budgets {
    /// What a seed draws of it.
    pub(crate) fn drawn(seed: u64) -> Self {
        // With this salt, no seed at which planted bugs were found before draws any.
        Budgets { are_there: is_drawn(seed, 56_840, DRAWN_PERMILLE) }
    }

    /// What the cell is told of them.
    pub(crate) fn greetings(self) -> Vec<Command> {
        let apps = APPS.iter().take(2).filter(|_| self.are_there);
        apps.map(|app| put(&mut Prng::new(hash::bytes(app.as_bytes())), app)).collect()
    }

    /// Gives a new job labels where it has none, and some of its groups budgets of their own.
    pub(crate) fn settle(self, job: &mut JobSpec) {
        if !self.are_there {
            return;
        }
        let mut dice = dice_of(job, 0x7d1d);
        for group in &mut job.groups {
            let app = APPS[dice.below(3) as usize];
            group.labels.entry("app".to_string()).or_insert_with(|| app.to_string());
            if dice.chance(OWN_PERMILLE) {
                group.disruption_budget = Some(Box::new(terms(&mut dice)));
            }
        }
    }

    /// What people change of it with the rest of a job.
    pub(crate) fn amend(self, dice: &Prng, job: &mut JobSpec) {
        let mut own = Prng::new(hash::chain(dice.clone().below(u64::MAX), 0x7d1e));
        for group in job.groups.iter_mut().filter(|_| self.are_there) {
            match own.below(6) {
                0 => group.disruption_budget = None,
                1 => group.disruption_budget = Some(Box::new(terms(&mut own))),
                _ => {}
            }
        }
    }

    /// What somebody does in place of something else.
    pub(crate) fn change(self, dice: &Prng) -> Option<Command> {
        let mut own = Prng::new(hash::chain(dice.clone().below(u64::MAX), 0x7d1f));
        if !self.are_there || !own.chance(CHANGED_PERMILLE) {
            return None;
        }
        let app = APPS[own.below(3) as usize];
        Some(if own.chance(300) { Command::RemoveBudget { name: app.into() } } else { put(&mut own, app) })
    }
}

/// Rarely one that lets nothing go.
fn terms(dice: &mut Prng) -> BudgetTerms {
    let limit = match dice.below(4) {
        0 => BudgetLimit::MinAvailable(TaskAmount::Tasks(dice.between(0, 3) as u32)),
        1 => BudgetLimit::MinAvailable(TaskAmount::Percent(dice.between(20, 80) as u32)),
        2 => BudgetLimit::MaxUnavailable(TaskAmount::Percent(dice.between(10, 60) as u32)),
        _ => BudgetLimit::MaxUnavailable(TaskAmount::Tasks(dice.between(0, 2) as u32)),
    };
    let always = dice.chance(300);
    let unhealthy = if always { UnhealthyEviction::AlwaysAllow } else { UnhealthyEviction::IfHealthyBudget };
    BudgetTerms { limit, unhealthy }
}

fn put(dice: &mut Prng, app: &str) -> Command {
    let requirement = Requirement { key: "app".into(), operator: Operator::In, values: vec![app.into()] };
    let selector = Some(if dice.chance(100) { Vec::new() } else { vec![requirement] });
    Command::PutBudget(Budget { name: app.into(), selector, terms: terms(dice) })
}
