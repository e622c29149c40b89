//! Arguments of kube-scheduler's plugins that only `ohm plan` goes by, or reports by. Every function returns the score
//! as planners count it, where that changes.

use super::selectors::{PREFERRED, REQUIRED, preferred_term, required_terms};
use super::{At, Context, Fields};
use crate::plugins::{AddedAffinity, BalancedArguments, FitArguments, FitScoring, NeighbourArguments};
use ohm_model::profile::WEIGHT_MAX;
use ohm_model::{FitStrategy, Score};

/// The types of a scoring strategy; that without a direction has a shape.
const STRATEGIES: [(&str, Option<FitStrategy>); 4] = [
    ("LeastAllocated", Some(FitStrategy::LeastAllocated)),
    ("MostAllocated", Some(FitStrategy::MostAllocated)),
    ("RequestedToCapacityRatio", None),
    ("ByGroup", Some(FitStrategy::ByGroup)),
];

/// Of NodeResourcesFit.
pub(super) fn fit(cx: &mut Context, at: At<'_>, arguments: &mut FitArguments) -> Option<Vec<Score>> {
    let fields = Fields::open(cx, at, &[&["scoringStrategy", "ignoredResources", "ignoredResourceGroups"]])?;
    arguments.ignored = fields.list(cx, "ignoredResources", |cx, at| at.text(cx));
    arguments.ignored_groups = fields.list(cx, "ignoredResourceGroups", |cx, at| at.text(cx));
    let strategy = fields.get("scoringStrategy")?;
    let fields = Fields::open(cx, strategy, &[&["type", "resources", "requestedToCapacityRatio"]])?;
    if let Some(at) = fields.get("resources").filter(|at| !at.is_empty_list()) {
        arguments.resources = at.list(cx, resource);
    }
    let strategy = fields.require(cx, "type", "which direction is good")?.choice(cx, &STRATEGIES)?;
    arguments.scoring = match strategy {
        Some(strategy) => FitScoring::Towards(strategy),
        None => FitScoring::Shape(shape(cx, &fields)?),
    };
    Some(vec![Score::NodeResourcesFit { strategy: arguments.scoring.of_planners() }])
}

fn resource(cx: &mut Context, at: At<'_>) -> Option<(String, u32)> {
    let fields = Fields::open(cx, at, &[&["name", "weight"]])?;
    let name = fields.require(cx, "name", "a resource, such as `cpu`")?.text(cx)?;
    Some((name, fields.whole(cx, "weight", 1..=i64::from(WEIGHT_MAX)).unwrap_or(1)))
}

fn shape(cx: &mut Context, fields: &Fields<'_>) -> Option<Vec<(u32, u32)>> {
    let at = fields.require(cx, "requestedToCapacityRatio", "`{shape: [{utilization: 0, score: 10}, …]}`")?;
    let fields = Fields::open(cx, at, &[&["shape"]])?;
    let at = fields.require(cx, "shape", "a list of `{utilization: 0 to 100, score: 0 to 10}`")?;
    let mut last = None;
    let points = at.list(cx, |cx, at| {
        let fields = Fields::open(cx, at, &[&["utilization", "score"]])?;
        let place = fields.require(cx, "utilization", "0 to 100")?;
        let utilization: u32 = place.whole(cx, 0..=100)?;
        if last.replace(utilization).is_some_and(|last| last >= utilization) {
            place.rule(cx, "must be above that of the point before; sort the points");
        }
        Some((utilization, fields.require(cx, "score", "0 to 10")?.whole(cx, 0..=10)?))
    });
    if at.is_empty_list() {
        at.rule(cx, "has no point; add one, such as `{utilization: 0, score: 10}`");
    }
    (!points.is_empty()).then_some(points)
}

/// Of NodeResourcesBalancedAllocation. The weights of its resources must be 1 in kube-scheduler, too.
pub(super) fn balanced(cx: &mut Context, at: At<'_>, arguments: &mut BalancedArguments) -> Option<Vec<Score>> {
    let fields = Fields::open(cx, at, &[&["resources"]])?;
    if let Some(at) = fields.get("resources").filter(|at| !at.is_empty_list()) {
        arguments.resources = at.list(cx, |cx, at| {
            let fields = Fields::open(cx, at, &[&["name", "weight"]])?;
            if let Some(place) = fields.get("weight")
                && place.whole::<u32>(cx, 0..=i64::from(WEIGHT_MAX)).is_some_and(|weight| weight != 1)
            {
                place.rule(cx, "must be 1: what is to be used evenly counts alike");
            }
            fields.require(cx, "name", "a resource, such as `cpu`")?.text(cx)
        });
    }
    None
}

/// Of NodeAffinity.
pub(super) fn added_affinity(cx: &mut Context, at: At<'_>, arguments: &mut AddedAffinity) -> Option<Vec<Score>> {
    let fields = Fields::open(cx, at, &[&["addedAffinity"]])?;
    let fields = Fields::open(cx, fields.get("addedAffinity")?, &[&[REQUIRED, PREFERRED]])?;
    arguments.required = fields.get(REQUIRED).and_then(|at| required_terms(cx, at)).unwrap_or_default();
    arguments.preferred = fields.list(cx, PREFERRED, preferred_term);
    None
}

/// Of InterPodAffinity.
pub(super) fn neighbours(cx: &mut Context, at: At<'_>, arguments: &mut NeighbourArguments) -> Option<Vec<Score>> {
    let known: &[&str] = &["hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods"];
    let fields = Fields::open(cx, at, &[known])?;
    let hard_weight = fields.whole(cx, "hardPodAffinityWeight", 0..=i64::from(WEIGHT_MAX));
    arguments.hard_weight = hard_weight.unwrap_or(arguments.hard_weight);
    arguments.ignores_standing = fields.boolean(cx, "ignorePreferredTermsOfExistingPods").unwrap_or(false);
    None
}
