//! Which tasks are probed, and how they answer. The dice are their own: what else is drawn does not depend on them, and
//! a run without any of it is what it would be without this file.

use super::dice::{dice_of, is_drawn};
use ohm_model::{JobSpec, OnUnhealthy, Probe, ProbeAction, Probes, SimHealth};
use ohm_stdx::Prng;

/// Of 1000 seeds, so many have probes.
const DRAWN_PERMILLE: u64 = 100;
/// Of 1000 groups, so many are probed.
const PROBED_PERMILLE: u64 = 600;

/// Whether a run has tasks that are probed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProbedTasks {
    are_there: bool,
}

impl ProbedTasks {
    /// What a seed draws of it.
    pub(crate) fn drawn(seed: u64) -> Self {
        // With this salt, no seed at which planted bugs were found before draws any, and none that is kept.
        ProbedTasks { are_there: is_drawn(seed, 84_803, DRAWN_PERMILLE) }
    }

    /// Gives some groups of a new job probes.
    pub(crate) fn settle(self, job: &mut JobSpec) {
        if !self.are_there {
            return;
        }
        let mut dice = dice_of(job, 0x9b0e);
        for group in &mut job.groups {
            if dice.chance(PROBED_PERMILLE) {
                group.task.probes = Some(Box::new(probes(&mut dice)));
            }
        }
    }
}

fn probes(dice: &mut Prng) -> Probes {
    let mut probes = Probes {
        startup: dice.chance(400).then(|| probe(dice)),
        readiness: dice.chance(600).then(|| probe(dice)),
        liveness: dice.chance(600).then(|| probe(dice)),
        on_unhealthy: if dice.chance(700) { OnUnhealthy::Count } else { OnUnhealthy::Ignore },
        sim: health(dice),
    };
    if !probes.may_end() && !probes.gates_readiness() {
        probes.readiness = Some(probe(dice));
    }
    if !probes.may_end() {
        probes.on_unhealthy = OnUnhealthy::Count;
    }
    probes
}

fn probe(dice: &mut Prng) -> Probe {
    Probe {
        initial_delay_seconds: if dice.chance(800) { 0 } else { 1 },
        period_seconds: dice.between(1, 2) as u32,
        failure_threshold: dice.between(1, 4) as u32,
        grace_ms: None,
        ..Probe::of(ProbeAction::TcpSocket { port: 80, host: String::new() })
    }
}

fn health(dice: &mut Prng) -> SimHealth {
    let mut after = |permille, most_ms| if dice.chance(permille) { dice.between(1, most_ms) } else { 0 };
    SimHealth {
        ready_after_ms: after(700, 3_000),
        unready_after_ms: after(400, 8_000),
        unready_for_ms: after(800, 4_000),
        unhealthy_after_ms: after(400, 10_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_seeds_draw_none_of_it() {
        let some = (0..1000).filter(|seed| ProbedTasks::drawn(*seed).are_there).count();
        assert!((60..140).contains(&some), "{some}");
    }

    #[test]
    fn what_is_drawn_is_never_refused() {
        for seed in 0..1000 {
            assert_eq!(probes(&mut Prng::new(seed)).problem(), None, "{seed}");
        }
    }
}
