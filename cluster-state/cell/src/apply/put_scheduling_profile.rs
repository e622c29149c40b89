//! Scheduling profiles are put and removed, and with them the classes that are not built in.

use crate::apply::Tx;
use crate::apply::steps::names::check_names;
use crate::state::job_store::Jobs;
use crate::state::jobs::{Job, JobState};
use ohm_model::profile::{PROFILES_MAX, SCORES_MAX, WEIGHT_MAX};
use ohm_model::{Class, Outcome, Refusal, SchedulingProfile, Score, Strategy};
use std::collections::BTreeSet;
use std::sync::Arc;

const KIND: &str = "scheduling profile";

/// Adds or changes the profile of a class. Schedulers plan by it from their next pass on; what is placed stays.
pub(crate) fn put_scheduling_profile(tx: &mut Tx<'_>, profile: &SchedulingProfile) -> Result<Outcome, Refusal> {
    check_profile(profile)?;
    let (name, class) = (&profile.name, profile.class);
    if let Some(known) = tx.profiles.find(name).filter(|known| known.class != class) {
        let hint = format!("it is the profile of class {}; remove it first, or choose another name", known.class);
        return Err(Refusal::NameTaken { kind: KIND.into(), name: name.clone(), hint });
    }
    match tx.profiles.submitted(class) {
        Some(known) if known.name != *name => {
            let known = &known.name;
            let problem = format!("class \"{class}\" has the profile {known}; change that one, or remove it first");
            return Err(Refusal::Invalid { field: "spec.class".into(), problem });
        }
        Some(known) if known.like != profile.like => refuse_used(&tx.jobs, known, "its `like` can be changed")?,
        None if tx.profiles.iter().len() >= PROFILES_MAX => {
            let problem = format!("the cell has {PROFILES_MAX} scheduling profiles already; remove one first");
            return Err(Refusal::Invalid { field: "metadata.name".into(), problem });
        }
        _ => {}
    }
    tx.profiles.put(profile.clone());
    Ok(Outcome::Done)
}

/// Removes a profile. A built-in class goes on with what every cell has for it, another one is known no more.
pub(crate) fn remove_scheduling_profile(tx: &mut Tx<'_>, name: &str) -> Result<Outcome, Refusal> {
    let Some(known) = tx.profiles.find(name) else {
        let is_built_in = Class::BUILT_IN.iter().any(|class| class.name() == name);
        let (kind, name) = (KIND.to_string(), name.to_string());
        let hint = "only a document that was submitted in its place can be removed".to_string();
        return Err(match is_built_in {
            true => Refusal::WrongState { kind, name, state: "built in".into(), hint },
            false => Refusal::NotFound { kind, name },
        });
    };
    let class = known.class;
    if class.built_in().is_none() {
        refuse_used(&tx.jobs, known, "it can be removed")?;
    }
    tx.profiles.remove(class);
    Ok(Outcome::Done)
}

/// Refuses what would change how the unfinished jobs of a class are judged.
fn refuse_used(jobs: &Jobs, profile: &SchedulingProfile, wish: &str) -> Result<(), Refusal> {
    let class = profile.class;
    let uses = |job: &&Arc<Job>| job.spec.class == class && !matches!(job.state, JobState::Finished(_));
    let Some(job) = jobs.iter().find(uses) else { return Ok(()) };
    let hint = format!("{wish} once all jobs of class {class} have ended");
    let state = format!("used by job {}", job.spec.name);
    Err(Refusal::WrongState { kind: KIND.into(), name: profile.name.clone(), state, hint })
}

fn check_profile(profile: &SchedulingProfile) -> Result<(), Refusal> {
    let invalid = |field: &str, problem: String| Err(Refusal::Invalid { field: field.into(), problem });
    check_names(profile)?;
    let (name, class) = (&profile.name, profile.class);
    if Class::BUILT_IN.iter().any(|built_in| built_in.name() == name && *built_in != class) {
        return invalid("spec.class", format!("\"{class}\"; a profile that is called {name} is for class {name}"));
    }
    if let Some(kind) = class.built_in().filter(|kind| *kind != profile.like) {
        return invalid("spec.like", format!("class {class} is built in and stays like {}", kind.class()));
    }
    if profile.scores.len() > SCORES_MAX {
        return invalid("spec.scores", format!("{} scores; at most {SCORES_MAX} are possible", profile.scores.len()));
    }
    let mut seen = BTreeSet::new();
    for weighted in &profile.scores {
        let name = weighted.score.name();
        if weighted.weight > WEIGHT_MAX {
            return invalid(
                "spec.scores",
                format!("{name} weighs {}; at most {WEIGHT_MAX} is possible", weighted.weight),
            );
        }
        // Of what is not spread over several levels there is one.
        let place = match &weighted.score {
            Score::PodTopologySpread { topology_key } => topology_key.as_deref(),
            _ => None,
        };
        if !seen.insert((name, place)) {
            return invalid("spec.scores", format!("names {name} twice"));
        }
    }
    let strategies = &profile.strategies;
    if !strategies.is_empty() && !strategies.contains(&Strategy::Place) {
        return invalid("spec.strategies", "must name Place, too: without it no job is placed".into());
    }
    if strategies.iter().collect::<BTreeSet<_>>().len() != strategies.len() {
        return invalid("spec.strategies", "names a strategy twice".into());
    }
    Ok(())
}
