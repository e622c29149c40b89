//! A class that an operator adds, and profiles that change while jobs of their classes wait and run.
//!
//! Whatever is drawn here has dice of its own: a run without such a class is what it would be without this file.

use crate::theme::Theme;
use ohm_model::{Class, ClassKind, Command, Guard, JobSpec, SCORE_BASES, SchedulingProfile, Score, Strategy};
use ohm_stdx::{Prng, hash};

/// The class that an operator adds.
pub(crate) fn own_class() -> Class {
    "own".parse().unwrap_or(Class::BATCH)
}

/// What makes the class known, before jobs of it are submitted.
pub(crate) fn first_profile(kind: ClassKind) -> Command {
    put(SchedulingProfile { like: kind, ..SchedulingProfile::built_in(own_class()) })
}

fn put(profile: SchedulingProfile) -> Command {
    Command::PutSchedulingProfile(Box::new(profile))
}

/// Half of the jobs of a kind are of the operator's class, by their names.
pub(crate) fn into_own_class(job: &mut JobSpec, own: Option<ClassKind>) {
    let is_own = own.is_some_and(|kind| kind.class() == job.class);
    if is_own && hash::mix(hash::bytes(job.name.as_bytes())).is_multiple_of(2) {
        job.class = own_class();
    }
}

/// How profiles change in a run with such a class: other scores for it and for built-in classes, back to what is built
/// in, and what is refused while it has jobs. A class that was removed comes back a while later.
pub(crate) fn changed_profiles(seed: u64, own: Option<ClassKind>, until_ms: u64) -> Vec<(u64, Command)> {
    let Some(kind) = own else { return Vec::new() };
    let mut dice = Prng::new(hash::chain(hash::mix(seed), 0xc1a7));
    let mut asks = Vec::new();
    for _ in 0..dice.between(1, 6) {
        let at_ms = dice.between(3_000, until_ms.max(4_000));
        let class = Class::BUILT_IN[dice.below(3) as usize];
        match dice.below(6) {
            0 | 1 => asks.push((at_ms, put(drawn(&mut dice, own_class(), kind)))),
            2 => {
                let like = class.built_in().unwrap_or(kind);
                asks.push((at_ms, put(drawn(&mut dice, own_class(), like))));
            }
            3 => {
                let like = class.built_in().unwrap_or(kind);
                asks.push((at_ms, put(drawn(&mut dice, class, like))));
            }
            4 => asks.push((at_ms, Command::RemoveSchedulingProfile { name: class.to_string() })),
            _ => {
                asks.push((at_ms, Command::RemoveSchedulingProfile { name: own_class().to_string() }));
                asks.push((at_ms + dice.between(100, 5_000), first_profile(kind)));
            }
        }
    }
    asks
}

/// Profiles with little patience, for a run in which gangs wait among small jobs: put 1.5 s after its start.
pub(crate) fn short_patience(seed: u64, theme: Theme) -> Vec<(u64, Command)> {
    if theme != Theme::Starving {
        return Vec::new();
    }
    let mut dice = Prng::new(hash::chain(hash::mix(seed), 0x4ead));
    let profile = |class| {
        let head_patience_seconds = dice.between(1, 5) as u32;
        (1_500, put(SchedulingProfile { head_patience_seconds, ..SchedulingProfile::built_in(class) }))
    };
    Class::BUILT_IN.map(profile).to_vec()
}

/// A profile with drawn scores and strategies.
fn drawn(dice: &mut Prng, class: Class, like: ClassKind) -> SchedulingProfile {
    let (_, base) = SCORE_BASES[dice.below(SCORE_BASES.len() as u64) as usize];
    let mut profile = SchedulingProfile { like, scores: base.scores(), ..SchedulingProfile::built_in(class) };
    if dice.chance(400) {
        let rack = Score::PodTopologySpread { topology_key: Some("topology.ohm/rack".into()) };
        profile = profile.with_score(rack, dice.between(0, 20) as u32);
    }
    if dice.chance(500) {
        profile.strategies = strategies(dice);
    }
    if dice.chance(400) {
        profile.conflicts = Guard::Unchanged;
    }
    profile
}

/// A list by which every job is placed that fits: the orders of groups are tried in another order, and spares are
/// asked for together with the tasks or not.
fn strategies(dice: &mut Prng) -> Vec<Strategy> {
    let mut orders = [Strategy::MinimumsFirst, Strategy::HardestFirst, Strategy::OtherOrders];
    dice.shuffle(&mut orders);
    let asks = dice.chance(500);
    let mut list = Strategy::ALL.to_vec();
    list.retain(|strategy| asks || !matches!(strategy, Strategy::AskForSpares | Strategy::WithoutSpares));
    let places = list.iter_mut().filter(|strategy| orders.contains(strategy));
    places.zip(orders).for_each(|(place, strategy)| *place = strategy);
    list
}
