//! How queues order, bound and hold their lines, and for how long jobs wait to start. The dice are their own: what else
//! is drawn does not depend on it, and a run without any of it is what it would be without this file.

use crate::layout::QUEUES;
use ohm_cell::Cell;
use ohm_model::{Command, JobSpec, QueueSpec, QueueingStrategy, StopPolicy};
use ohm_stdx::{Prng, hash};

/// Of 1000 seeds, so many draw some of it.
const DRAWN_PERMILLE: u64 = 300;
/// Of 1000 jobs that are submitted to a queue, so many have it held the moment after.
const AIMED_PERMILLE: u64 = 120;
/// Of 1000 jobs that are submitted where queues may be StrictFIFO, so many are followed by a more important one.
const URGENT_PERMILLE: u64 = 300;

/// What of it a run has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    /// Whether queues may be StrictFIFO.
    strict: bool,
    /// Whether queues may bound how many jobs wait.
    bounded: bool,
    /// How often people hold a queue.
    holds: u64,
    /// The queue that stays as it is when everything heals, held or not.
    stays: Option<&'static str>,
    /// Whether jobs may have a start deadline.
    impatient: bool,
}

impl Lines {
    /// What a seed draws of it.
    pub(crate) fn drawn(seed: u64, queues: bool) -> Self {
        // With this salt, nearly all seeds at which planted bugs were found before draw none of it.
        let mut dice = Prng::new(hash::chain(hash::mix(seed), 12_284));
        if !dice.chance(DRAWN_PERMILLE) {
            return Lines::default();
        }
        let (strict, bounded, impatient) = (dice.chance(600), dice.chance(400), dice.chance(500));
        let holds = [0, 2, 4, 8][dice.below(4) as usize];
        let stays = dice.pick(&QUEUES).copied().filter(|_| dice.chance(300));
        match queues {
            true => Lines { strict, bounded, holds, stays: stays.filter(|_| holds > 0), impatient },
            false => Lines { impatient, ..Lines::default() },
        }
    }

    /// How a queue that is put orders and bounds its line.
    pub(crate) fn order(self, dice: &Prng, spec: &mut QueueSpec) {
        if spec.is_cohort {
            return;
        }
        let mut own = apart(dice, "order", &spec.name);
        if self.strict && own.chance(650) {
            spec.queueing_strategy = QueueingStrategy::StrictFifo;
        }
        if self.bounded && own.chance(600) {
            spec.max_waiting_jobs = own.between(1, 5) as u32;
        }
    }

    /// For how long a job waits to start; now and then another time than before.
    pub(crate) fn hurry(self, dice: &Prng, job: &mut JobSpec) {
        let mut own = apart(dice, "hurry", &job.name);
        if self.impatient && own.chance(500) {
            job.pending_timeout_seconds = [0, 1, 3, 8, 20, 40][own.below(6) as usize];
        }
    }

    /// When people hold which queue, hold it in another way, and let it go on: first of all that which may stay held.
    pub(crate) fn stops(self, seed: u64, until_ms: u64) -> Vec<(u64, Stop)> {
        let mut dice = Prng::new(hash::chain(hash::mix(seed), 0x57095));
        let until_ms = until_ms.max(4_000);
        let mut stops = Vec::new();
        if let Some(queue) = self.stays {
            let policy = policy(&mut dice);
            stops.push((until_ms - dice.between(200, 1_000), Stop { queue, policy }));
        }
        for _ in 0..self.holds {
            let (at_ms, queue) = (dice.between(3_000, until_ms), *dice.pick(&QUEUES).expect("some"));
            let mut stop = |at_ms: u64, policy: StopPolicy| stops.push((at_ms, Stop { queue, policy }));
            stop(at_ms, policy(&mut dice));
            if dice.chance(350) {
                stop(at_ms + dice.between(50, 6_000), policy(&mut dice));
            }
            if dice.chance(800) {
                stop(at_ms + dice.between(200, 15_000), StopPolicy::None);
            }
        }
        stops
    }

    /// Whether the queue of a job that is submitted now is held a moment later, and until when after that.
    pub(crate) fn aimed(self, dice: &Prng, job: &JobSpec) -> Option<[(u64, Stop); 2]> {
        let queue = QUEUES.into_iter().find(|queue| *queue == job.queue).filter(|_| self.holds > 0)?;
        let mut own = apart(dice, "aimed", &job.name);
        let (after_ms, for_ms) = (own.between(1, 250), own.between(300, 8_000));
        let stop = |policy| Stop { queue, policy };
        let both = [(after_ms, stop(policy(&mut own))), (after_ms + for_ms, stop(StopPolicy::None))];
        own.chance(AIMED_PERMILLE).then_some(both)
    }

    /// A more important job that somebody submits to the queue of another one, so much later: while that is planned.
    pub(crate) fn urgent(self, dice: &Prng, job: &JobSpec) -> Option<(u64, Command)> {
        let mut own = apart(dice, "urgent", &job.name);
        let (after_ms, follows) = (own.between(1, 60), own.chance(URGENT_PERMILLE));
        let name = format!("{}-urgent", job.name);
        let urgent = JobSpec { name, priority: job.priority + 1, ..job.clone() };
        let meant = self.strict && follows && QUEUES.contains(&job.queue.as_str());
        meant.then(|| (after_ms, Command::SubmitJobs { jobs: vec![urgent] }))
    }

    /// The queues that people let go on when everything heals; none where nobody holds any.
    pub(crate) fn lifted(self) -> impl Iterator<Item = &'static str> {
        QUEUES.into_iter().filter(move |queue| self.holds > 0 && self.stays != Some(queue))
    }
}

/// People hold a queue, or let it go on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    pub(crate) queue: &'static str,
    pub(crate) policy: StopPolicy,
}

impl Stop {
    /// What they ask for, with the queue as it is by now; nothing where it is not there, or has this policy already.
    pub(crate) fn command(self, cell: &Cell) -> Option<Command> {
        let spec = &cell.quota().get(self.queue)?.spec;
        let differs = spec.stop_policy != self.policy;
        differs.then(|| Command::PutQueue(QueueSpec { stop_policy: self.policy, ..spec.clone() }))
    }
}

fn policy(dice: &mut Prng) -> StopPolicy {
    if dice.chance(600) { StopPolicy::Hold } else { StopPolicy::HoldAndDrain }
}

fn apart(dice: &Prng, purpose: &str, name: &str) -> Prng {
    let named = hash::chain(hash::bytes(purpose.as_bytes()), hash::bytes(name.as_bytes()));
    Prng::new(hash::chain(dice.clone().below(u64::MAX), named))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_seeds_draw_none_of_it() {
        let some = |queues| (0..1000).filter(|seed| Lines::drawn(*seed, queues) != Lines::default()).count();
        assert!((250..350).contains(&some(true)), "{}", some(true));
        assert!((100..200).contains(&some(false)), "{}", some(false));
    }
}
