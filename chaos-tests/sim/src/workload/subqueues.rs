//! Subqueues, and queues that order their jobs by what those have used. The dice are their own: what else is drawn does
//! not depend on it, and a run without any of it is what it would be without this file.

use crate::layout::QUEUES;
use ohm_model::{Command, JobSpec, QueueSpec, Subqueue, UsageBasedOrder};
use ohm_stdx::{Prng, hash};

/// Of 1000 seeds whose jobs name queues, so many draw some of it.
const DRAWN_PERMILLE: u64 = 300;
/// Each queue has one of each; what follows its name, and its weight in thousandths.
const PARTS: [(&str, u64); 3] = [("one", 1000), ("two", 2500), ("none", 0)];

/// How many of 1000 queues that are put have an order by usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subqueues {
    permille: u64,
}

impl Subqueues {
    /// What a seed draws of it.
    pub(crate) fn drawn(seed: u64, queues: bool) -> Self {
        let mut dice = Prng::new(hash::chain(hash::mix(seed), 0x5bc1));
        let drawn = queues && dice.chance(DRAWN_PERMILLE);
        Subqueues { permille: if drawn { [500, 800, 1000][dice.below(3) as usize] } else { 0 } }
    }

    /// What the cell is told of them, once it has its queues.
    pub(crate) fn greetings(self) -> Vec<Command> {
        let queues = QUEUES.iter().filter(|_| self.permille > 0);
        let parts = queues.flat_map(|queue| PARTS.map(|(part, weight_milli)| (queue, part, weight_milli)));
        let subqueue = |(queue, part, weight_milli): (&&str, &str, u64)| {
            Command::PutSubqueue(Subqueue { name: format!("{queue}-{part}"), queue: queue.to_string(), weight_milli })
        };
        parts.map(subqueue).collect()
    }

    /// Which order the jobs of a queue that is put come in.
    pub(crate) fn settle(self, dice: &Prng, spec: &mut QueueSpec) {
        let name = hash::bytes(spec.name.as_bytes());
        let mut own = Prng::new(hash::chain(hash::chain(dice.clone().below(u64::MAX), 0x5bc2), name));
        if spec.is_cohort || !own.chance(self.permille) {
            return;
        }
        let half_life_seconds = [0, 30, 600, 7_200, 604_800][own.below(5) as usize];
        let weighs = own.chance(500);
        let weights = [("cpu".to_string(), 1000), ("memory".to_string(), own.below(3) * 500)];
        let resource_weights = weights.into_iter().filter(|_| weighs).collect();
        spec.usage_based_order = Some(Box::new(UsageBasedOrder { half_life_seconds, resource_weights }));
    }

    /// Which part of its queue a job names: none of the three, or one.
    pub(crate) fn name(self, job: &mut JobSpec) {
        if self.permille == 0 || !QUEUES.contains(&job.queue.as_str()) {
            return;
        }
        let draw = hash::mix(hash::bytes(job.name.as_bytes())) % 10;
        let part = match draw {
            0..4 => "one",
            4..8 => "two",
            8 => "none",
            _ => return job.subqueue.clear(),
        };
        job.subqueue = format!("{}-{part}", job.queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_seeds_draw_none_of_it() {
        let some = |queues| (0..1000).filter(|seed| Subqueues::drawn(*seed, queues).permille > 0).count();
        assert!((250..350).contains(&some(true)), "{}", some(true));
        assert_eq!(some(false), 0);
        assert!(Subqueues::default().greetings().is_empty());
    }
}
