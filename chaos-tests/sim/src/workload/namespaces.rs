//! Namespaces: which there are, which jobs are in them, and whose jobs queues take. The dice are their own: what else
//! is drawn does not depend on it, and a run without any of it is what it would be without this file.

use super::dice::is_drawn;
use ohm_model::{Command, JobSpec, NAMESPACE_DEFAULT, Namespace, QueueSpec, job_name, split_job_name};
use ohm_stdx::{Prng, hash};

/// Of 1000 seeds, so many have namespaces.
const DRAWN_PERMILLE: u64 = 150;
/// The second one comes and goes.
const NAMES: [&str; 2] = ["team-a", "team-b"];
/// Of 1000 queues that are put, so many take jobs of some namespaces only.
const CHOOSY_PERMILLE: u64 = 300;
/// In place of so many of 1000 things that people do to what is there, a namespace is put or removed.
const CHANGED_PERMILLE: u64 = 80;

/// Whether a run has namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Namespaces {
    are_there: bool,
}

impl Namespaces {
    /// What a seed draws of it.
    pub(crate) fn drawn(seed: u64) -> Self {
        // With this salt, nearly all seeds at which planted bugs were found before draw none.
        Namespaces { are_there: is_drawn(seed, 9_175, DRAWN_PERMILLE) }
    }

    /// What the cell is told of them.
    pub(crate) fn greetings(self) -> Vec<Command> {
        let names = NAMES.into_iter().filter(|_| self.are_there);
        names.map(put).collect()
    }

    /// Whose jobs a queue that is put takes.
    pub(crate) fn settle(self, dice: &Prng, spec: &mut QueueSpec) {
        let name = hash::bytes(spec.name.as_bytes());
        let mut own = Prng::new(hash::chain(hash::chain(dice.clone().below(u64::MAX), 0x4a3f), name));
        if self.are_there && !spec.is_cohort && own.chance(CHOOSY_PERMILLE) {
            let all = [NAMESPACE_DEFAULT, NAMES[0], NAMES[1]];
            let some = all.into_iter().filter(|_| own.chance(600)).map(String::from).collect();
            spec.namespaces = Some(Box::new(some));
        }
    }

    /// The namespace that a new job is in: half of them say none.
    pub(crate) fn enter(self, job: &mut JobSpec) {
        let draw = (hash::mix(hash::bytes(job.name.as_bytes())) >> 8) % 4;
        if let (true, Some(namespace)) = (self.are_there && !job.name.contains('/'), NAMES.get(draw as usize)) {
            job.name = job_name(namespace, split_job_name(&job.name).1);
        }
    }

    /// What somebody does in place of something else.
    pub(crate) fn change(self, dice: &Prng) -> Option<Command> {
        let mut own = Prng::new(hash::chain(dice.clone().below(u64::MAX), 0x4a40));
        if !self.are_there || !own.chance(CHANGED_PERMILLE) {
            return None;
        }
        let removed = || Command::RemoveNamespace { name: NAMES[1].into() };
        Some(if own.chance(600) { removed() } else { put(NAMES[1]) })
    }
}

fn put(name: &str) -> Command {
    let labels = [("team".to_string(), name.to_string())].into();
    Command::PutNamespace(Namespace { name: name.into(), labels })
}
