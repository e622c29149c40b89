//! Rules about other tasks: which jobs have labels, and what their groups ask of the tasks around them. The dice are
//! their own: what else is drawn does not depend on them, and a run without any of it is what it would be without this
//! file.

use super::dice::{dice_of, is_drawn};
use ohm_model::node::HOSTNAME_LABEL;
use ohm_model::{JobSpec, NeighbourTerm, Neighbours, Operator, Requirement, SpreadConstraint};
use ohm_stdx::{Prng, hash};

/// Of 1000 seeds, so many have such rules.
const DRAWN_PERMILLE: u64 = 120;
/// Of 1000 groups, so many have rules of their own.
const ASKING_PERMILLE: u64 = 450;
const APPS: [&str; 3] = ["web", "db", "cache"];
const KEYS: [&str; 3] = [HOSTNAME_LABEL, "topology.ohm/rack", "topology.ohm/block"];

/// Whether a run has such rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NeighbourRules {
    are_there: bool,
}

impl NeighbourRules {
    /// What a seed draws of it.
    pub(crate) fn drawn(seed: u64) -> Self {
        // With this salt, no seed at which planted bugs were found before draws any.
        NeighbourRules { are_there: is_drawn(seed, 44_948, DRAWN_PERMILLE) }
    }

    /// Gives a new job labels, and some of its groups rules.
    pub(crate) fn settle(self, job: &mut JobSpec) {
        if !self.are_there {
            return;
        }
        let mut dice = dice_of(job, 0x6b1d);
        for group in &mut job.groups {
            let app = APPS[dice.below(3) as usize];
            group.labels = [("app".to_string(), app.to_string())].into();
            if dice.chance(ASKING_PERMILLE) {
                let asked = asked(&mut dice, app);
                group.neighbours = Some(Box::new(asked));
            }
        }
        drop_senseless_rules(job);
    }

    /// What people change of it with the rest of a job.
    pub(crate) fn change(self, dice: &Prng, job: &mut JobSpec) {
        let mut own = Prng::new(hash::chain(dice.clone().below(u64::MAX), 0x6b1e));
        for group in job.groups.iter_mut().filter(|_| self.are_there) {
            match own.below(8) {
                0 => drop(group.labels.insert("app".into(), APPS[own.below(3) as usize].into())),
                1 => group.neighbours = None,
                2 => group.neighbours = Some(Box::new(asked(&mut own, "web"))),
                _ => {}
            }
        }
        drop_senseless_rules(job);
    }
}

/// No job is refused for its rules.
fn drop_senseless_rules(job: &mut JobSpec) {
    for at in 0..job.groups.len() {
        if job.neighbours_problem(at).is_some() {
            job.groups[at].neighbours = None;
        }
    }
}

fn asked(dice: &mut Prng, own: &str) -> Neighbours {
    let mut asked = Neighbours::default();
    match dice.below(5) {
        0 => asked.anti_affinity.push(term(dice, own)),
        1 => asked.anti_affinity.push(any_term(dice)),
        2 => asked.affinity.push(term(dice, own)),
        3 => asked.spread.push(spread(dice, own)),
        _ => {
            asked.spread.push(spread(dice, own));
            asked.anti_affinity.push(any_term(dice));
        }
    }
    asked
}

fn any_term(dice: &mut Prng) -> NeighbourTerm {
    let app = APPS[dice.below(3) as usize];
    let mut term = term(dice, app);
    if dice.chance(300) {
        term.namespace_selector = Some(Vec::new());
    }
    term
}

fn term(dice: &mut Prng, app: &str) -> NeighbourTerm {
    let topology_key = KEYS[dice.below(3) as usize].to_string();
    NeighbourTerm { selector: Some(is(app)), topology_key, ..NeighbourTerm::default() }
}

fn spread(dice: &mut Prng, own: &str) -> SpreadConstraint {
    let key = KEYS[dice.below(3) as usize];
    let min_domains = if dice.chance(200) { dice.between(2, 4) as u32 } else { 1 };
    let honours_affinity = dice.chance(700);
    SpreadConstraint {
        min_domains,
        honours_affinity,
        ..SpreadConstraint::hard(key, dice.between(1, 2) as u32, is(own))
    }
}

fn is(app: &str) -> Vec<Requirement> {
    vec![Requirement { key: "app".into(), operator: Operator::In, values: vec![app.into()] }]
}
