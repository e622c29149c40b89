//! Scheduling profiles as HTTP shows them.

use super::sessions::is_alive;
use ohm_cell::{Cell, JobState};
use ohm_model::{Class, FitStrategy, SchedulingProfile, Score, ScoreBase};
use ohm_wire::api::{ProfileList, ProfileView, ScoreView};
use std::collections::BTreeMap;

/// The profile of every class.
pub(crate) fn profiles(cell: &Cell) -> ProfileList {
    let mut jobs: BTreeMap<Class, u64> = BTreeMap::new();
    for job in cell.jobs().iter().filter(|job| !matches!(job.state, JobState::Finished(_))) {
        *jobs.entry(job.spec.class).or_default() += 1;
    }
    let profile = |class: Class| {
        let profile = cell.profiles().of(class)?;
        Some(ProfileView {
            built_in: cell.profiles().submitted(class).is_none(),
            replicas: replicas(cell, class),
            jobs: jobs.get(&class).copied().unwrap_or(0),
            ..view(&profile)
        })
    };
    ProfileList { profiles: cell.profiles().classes().into_iter().filter_map(profile).collect() }
}

/// How many schedulers of `class` run.
pub(crate) fn replicas(cell: &Cell, class: Class) -> u64 {
    let runs = |(id, _): &(ohm_model::SessionId, _)| {
        cell.sessions().get(*id).is_some_and(|session| is_alive(cell, *id, session))
    };
    cell.replicas(class).filter(runs).count() as u64
}

fn view(profile: &SchedulingProfile) -> ProfileView {
    let score = |weighted: &ohm_model::WeightedScore| ScoreView {
        name: weighted.score.name().to_string(),
        weight: weighted.weight,
        args: arguments(&weighted.score),
    };
    ProfileView {
        name: profile.name.clone(),
        class: profile.class.to_string(),
        like: profile.like.class().to_string(),
        base: ScoreBase::of(&profile.scores).map_or_else(String::new, |base| base.name().to_string()),
        scores: profile.scores.iter().map(score).collect(),
        strategies: profile.strategies.iter().map(|strategy| strategy.name().to_string()).collect(),
        conflicts: profile.conflicts.name().to_string(),
        head_patience_seconds: profile.head_patience_seconds,
        ..ProfileView::default()
    }
}

fn arguments(score: &Score) -> BTreeMap<String, String> {
    let argument = |path: &str, value: &str| [(path.to_string(), value.to_string())].into();
    match score {
        Score::NodeResourcesFit { strategy } => {
            let word = match strategy {
                FitStrategy::ByGroup => "ByGroup",
                FitStrategy::MostAllocated => "MostAllocated",
                FitStrategy::LeastAllocated => "LeastAllocated",
            };
            argument("scoringStrategy.type", word)
        }
        Score::PodTopologySpread { topology_key: Some(key) } => argument("defaultConstraints.topologyKey", key),
        _ => BTreeMap::new(),
    }
}
