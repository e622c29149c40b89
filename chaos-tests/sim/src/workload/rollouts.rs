//! Which services have strategies, and what people do to their rollouts. The dice are their own: what else is drawn
//! does not depend on them, and a run without any of it is what it would be without this file.

use super::dice::{dice_of, is_drawn};
use ohm_model::{Class, Command, JobSpec, RolloutAction, RolloutKind, RolloutStrategy, TaskAmount};
use ohm_stdx::{Prng, hash};

/// Of 1000 seeds, so many have strategies and people who change what runs.
const DRAWN_PERMILLE: u64 = 150;
/// Of 1000 services, so many have a strategy of their own.
const OWN_PERMILLE: u64 = 800;
/// In place of so many of 1000 things that people do to what is there, a service is changed while it runs.
const CHANGED_PERMILLE: u64 = 500;

/// Whether a run has rollouts beyond those that happen by chance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RolledServices {
    are_there: bool,
}

impl RolledServices {
    /// What a seed draws of it.
    pub(crate) fn drawn(seed: u64) -> Self {
        RolledServices { are_there: is_drawn(seed, 61_207, DRAWN_PERMILLE) }
    }

    /// Gives a new service a strategy.
    pub(crate) fn settle(self, job: &mut JobSpec) {
        if !self.are_there || job.class != Class::SERVICE {
            return;
        }
        let mut dice = dice_of(job, 0x4011);
        job.strategy = dice.chance(OWN_PERMILLE).then(|| Box::new(strategy(&mut dice)));
    }

    /// What somebody does to one of these jobs in place of something else.
    pub(crate) fn change(self, dice: &Prng, jobs: &[JobSpec]) -> Option<Command> {
        let mut own = Prng::new(hash::chain(dice.clone().below(u64::MAX), 0x4012));
        if !self.are_there || !own.chance(CHANGED_PERMILLE) {
            return None;
        }
        let services: Vec<&JobSpec> = jobs.iter().filter(|job| job.class == Class::SERVICE).collect();
        let job = *own.pick(&services)?;
        let name = job.name.clone();
        let action = match own.below(12) {
            0 => RolloutAction::Pause,
            1 => RolloutAction::Resume,
            2 | 3 => RolloutAction::Promote,
            4 => RolloutAction::Undo { revision: None },
            5 => RolloutAction::Undo { revision: Some(own.between(1, 4) as u32) },
            _ => return Some(Command::UpdateJob { spec: Box::new(changed(&mut own, job)), version: None }),
        };
        Some(Command::Rollout { name, action })
    }
}

/// A job whose tasks are made of something else: most come up, some never do.
fn changed(dice: &mut Prng, job: &JobSpec) -> JobSpec {
    let mut spec = job.clone();
    let version = dice.below(6).to_string();
    let (smaller, fails) = (dice.chance(300), dice.chance(200));
    for group in &mut spec.groups {
        group.task.env.retain(|(name, _)| name != "VERSION");
        group.task.env.push(("VERSION".into(), version.clone()));
        if smaller {
            let cpu = group.requests.entry("cpu".into()).or_insert(1000);
            *cpu = (*cpu / 2).max(100);
        }
        if fails {
            (group.task.sim_duration_ms, group.task.sim_exit_code) = (dice.between(100, 2_000), 1);
        }
    }
    if dice.chance(200) {
        spec.strategy = Some(Box::new(strategy(dice)));
    }
    spec
}

fn strategy(dice: &mut Prng) -> RolloutStrategy {
    let amount = |dice: &mut Prng| match dice.below(3) {
        0 => TaskAmount::Percent(25 * dice.below(5) as u32),
        _ => TaskAmount::Tasks(dice.below(3) as u32),
    };
    let mut strategy = RolloutStrategy {
        kind: if dice.chance(150) { RolloutKind::Recreate } else { RolloutKind::RollingUpdate },
        max_surge: amount(dice),
        max_unavailable: amount(dice),
        min_ready_seconds: if dice.chance(500) { 0 } else { dice.between(1, 5) },
        progress_deadline_seconds: if dice.chance(300) { 0 } else { dice.between(6, 30) },
        auto_revert: dice.chance(500),
        canary: if dice.chance(300) { dice.between(1, 2) as u32 } else { 0 },
        pause: dice.chance(50),
    };
    if strategy.kind == RolloutKind::Recreate {
        strategy.canary = 0;
    }
    if strategy.problem().is_some() {
        strategy.max_unavailable = TaskAmount::Tasks(1);
    }
    strategy
}
