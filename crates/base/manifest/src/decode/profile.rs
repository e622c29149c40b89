//! Scheduling profiles, in the words of kube-scheduler's configuration.

use super::{At, Context, Fields, arguments};
use crate::plugins::{Plugins, REPORTED_SCORES};
use crate::tree::Value;
use ohm_model::profile::{SCORE_NAMES, SPREAD_KEYS, WEIGHT_MAX};
use ohm_model::transaction::GUARDS;
use ohm_model::{
    Class, ClassKind, ClassNameError, FitStrategy, SCORE_BASES, SchedulingProfile, Score, ScoreBase, Strategy,
    WeightedScore,
};
use std::collections::BTreeSet;

const LIKE: [(&str, ClassKind); 3] =
    [("batch", ClassKind::Batch), ("service", ClassKind::Service), ("tas", ClassKind::Tas)];
const FIT_STRATEGIES: [(&str, FitStrategy); 3] = [
    ("MostAllocated", FitStrategy::MostAllocated),
    ("LeastAllocated", FitStrategy::LeastAllocated),
    ("ByGroup", FitStrategy::ByGroup),
];
const DEFAULTING: [(&str, bool); 2] = [("List", false), ("System", true)];
const WHEN_UNSATISFIABLE: [(&str, ()); 1] = [("ScheduleAnyway", ())];

/// Reads the `spec` of a profile; without one, the profile of a class with all defaults. What it says in the words of
/// kube-scheduler stays with the document where `ohm plan` reads it.
pub(crate) fn scheduling_profile(
    cx: &mut Context,
    name: String,
    root: At<'_>,
    spec: Option<At<'_>>,
) -> Option<SchedulingProfile> {
    let known: &[&str] =
        &["class", "like", "base", "scores", "pluginConfig", "strategies", "conflicts", "headPatienceSeconds"];
    let fields = match spec {
        Some(spec) => Some(Fields::open(cx, spec, &[known])?),
        None => None,
    };
    let get = |field| fields.as_ref().and_then(|fields: &Fields<'_>| fields.get(field));
    let class = match get("class") {
        Some(at) => class_name(cx, at)?,
        None => name.parse().map_err(|error: ClassNameError| named(cx, root, &error)).ok()?,
    };
    let mut profile = SchedulingProfile::built_in(class);
    profile.name = name;
    if let Some(at) = get("like") {
        let like = at.choice(cx, &LIKE).unwrap_or(profile.like);
        if class.built_in().is_some_and(|kind| kind != like) {
            at.rule(cx, format!("class {class} is built in and stays like {}; leave it out", profile.like.class()));
        }
        profile.like = like;
    }
    let base = get("base").and_then(|at| at.choice(cx, &SCORE_BASES));
    profile.scores = match (base, get("scores")) {
        (Some(base), _) => base.scores(),
        (None, Some(_)) => Vec::new(),
        (None, None) => ScoreBase::Default.scores(),
    };
    let mut plugins = Plugins::of_base(base, &profile.scores);
    if let Some(at) = get("scores") {
        read_scores(cx, at, (&mut profile.scores, &mut plugins));
    }
    if let Some(at) = get("pluginConfig") {
        read_arguments(cx, at, (&mut profile.scores, &mut plugins));
    }
    if cx.reads_kubernetes() {
        cx.aside().plugins = Some(plugins);
    }
    profile.strategies = get("strategies").map_or_else(Vec::new, |at| at.list(cx, strategy));
    if let Some(at) = get("conflicts") {
        profile.conflicts = at.choice(cx, &GUARDS).unwrap_or_default();
    }
    let patience = fields.and_then(|fields| fields.whole(cx, "headPatienceSeconds", 0..=i64::from(u32::MAX)));
    profile.head_patience_seconds = patience.unwrap_or(profile.head_patience_seconds);
    Some(profile)
}

fn named(cx: &mut Context, root: At<'_>, error: &ClassNameError) {
    root.rule(cx, format!("{error}; call the profile so, or give `spec.class`"));
}

fn class_name(cx: &mut Context, at: At<'_>) -> Option<Class> {
    let name = at.text(cx)?;
    name.parse().map_err(|error: ClassNameError| at.rule(cx, error.to_string())).ok()
}

fn score_name(cx: &mut Context, fields: &Fields<'_>) -> Option<&'static str> {
    let mut names = SCORE_NAMES.map(|name| (name, name)).to_vec();
    if cx.reads_kubernetes() {
        names.extend(REPORTED_SCORES.map(|(name, _)| (name, name)));
    }
    fields.require(cx, "name", "the name of a score, such as `NodeResourcesFit`")?.choice(cx, &names)
}

fn strategy(cx: &mut Context, at: At<'_>) -> Option<Strategy> {
    at.choice(cx, &Strategy::ALL.map(|strategy| (strategy.name(), strategy)))
}

/// Weights: a score that counts already gets another weight, another one counts from here on.
fn read_scores(cx: &mut Context, at: At<'_>, (scores, plugins): (&mut Vec<WeightedScore>, &mut Plugins)) {
    let mut seen = BTreeSet::new();
    at.list(cx, |cx, at| {
        let fields = Fields::open(cx, at, &[&["name", "weight"]])?;
        let weight = fields.whole(cx, "weight", 0..=i64::from(WEIGHT_MAX)).unwrap_or(1);
        let name = score_name(cx, &fields)?;
        if !seen.insert(name) {
            at.rule(cx, format!("names `{name}` again; keep one"));
        }
        if scores.iter().all(|known| known.score.name() != name) {
            scores.extend(Score::named(name).into_iter().map(|score| WeightedScore { score, weight }));
        }
        scores.iter_mut().filter(|known| known.score.name() == name).for_each(|known| known.weight = weight);
        plugins.weights.insert(name, weight);
        Some(())
    });
}

/// Arguments of scores that count.
fn read_arguments(cx: &mut Context, at: At<'_>, (scores, plugins): (&mut Vec<WeightedScore>, &mut Plugins)) {
    let mut seen = BTreeSet::new();
    at.list(cx, |cx, at| {
        let fields = Fields::open(cx, at, &[&["name", "args"]])?;
        let arguments = fields.require(cx, "args", "the arguments of the score");
        let name = score_name(cx, &fields)?;
        if !seen.insert(name) {
            at.rule(cx, format!("names `{name}` again; keep one"));
        }
        if !plugins.weights.contains_key(name) {
            at.rule(cx, format!("`{name}` does not count; name it under `scores`, too"));
            return None;
        }
        let given = with_arguments(cx, name, arguments?, plugins)?;
        let place = scores.iter().position(|known| known.score.name() == name)?;
        let weight = scores[place].weight;
        scores.retain(|known| known.score.name() != name);
        scores.splice(place..place, given.into_iter().map(|score| WeightedScore { score, weight }));
        Some(())
    });
}

/// Reads the arguments of a score. Returns the score as planners count it with them, where that changes.
fn with_arguments(cx: &mut Context, name: &str, at: At<'_>, plugins: &mut Plugins) -> Option<Vec<Score>> {
    if cx.reads_kubernetes() {
        match name {
            "NodeResourcesFit" => return arguments::fit(cx, at, &mut plugins.fit),
            "NodeResourcesBalancedAllocation" => return arguments::balanced(cx, at, &mut plugins.balanced),
            "NodeAffinity" => return arguments::added_affinity(cx, at, &mut plugins.added_affinity),
            "InterPodAffinity" => return arguments::neighbours(cx, at, &mut plugins.neighbours),
            _ => {}
        }
    }
    match name {
        "NodeResourcesFit" => {
            let fields = Fields::open(cx, at, &[&["scoringStrategy"]])?;
            let strategy = fields.require(cx, "scoringStrategy", "`{type: MostAllocated}` or another type")?;
            let fields = Fields::open(cx, strategy, &[&["type"]])?;
            let strategy = fields.require(cx, "type", "which direction is good")?.choice(cx, &FIT_STRATEGIES)?;
            Some(vec![Score::NodeResourcesFit { strategy }])
        }
        "PodTopologySpread" => spread(cx, at),
        _ => {
            let is_empty = matches!(&at.node.value, Value::Map(entries) if entries.is_empty());
            if !is_empty {
                at.rule(cx, format!("`{name}` takes no arguments; leave it out"));
            }
            None
        }
    }
}

/// The levels to spread over.
fn spread(cx: &mut Context, at: At<'_>) -> Option<Vec<Score>> {
    let fields = Fields::open(cx, at, &[&["defaultConstraints", "defaultingType"]])?;
    let is_system = fields.get("defaultingType").and_then(|at| at.choice(cx, &DEFAULTING)).unwrap_or(false);
    let constraints = fields.get("defaultConstraints");
    if let Some(at) = constraints.filter(|at| is_system && !at.is_empty_list()) {
        at.rule(cx, "is given with `defaultingType: List` only");
    }
    if is_system {
        return Some(SPREAD_KEYS.map(|key| Score::PodTopologySpread { topology_key: Some(key.to_string()) }).to_vec());
    }
    let mut seen = BTreeSet::new();
    let mut keys = fields.list(cx, "defaultConstraints", |cx, at| {
        let fields = Fields::open(cx, at, &[&["topologyKey", "whenUnsatisfiable"]])?;
        if let Some(at) = fields.get("whenUnsatisfiable") {
            at.choice(cx, &WHEN_UNSATISFIABLE);
        }
        let place = fields.require(cx, "topologyKey", "the node label of a level of a topology")?;
        let topology_key = place.text(cx)?;
        if !seen.insert(topology_key.clone()) {
            place.rule(cx, format!("names `{topology_key}` again; keep one"));
        }
        Some(Score::PodTopologySpread { topology_key: Some(topology_key) })
    });
    if keys.is_empty() {
        keys.push(Score::PodTopologySpread { topology_key: None });
    }
    Some(keys)
}
