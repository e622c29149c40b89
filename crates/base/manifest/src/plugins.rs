//! What a SchedulingProfile says in kube-scheduler's words, whether Ohm's planners go by it or not.

use ohm_model::resources::{CPU, MEMORY};
use ohm_model::{FitStrategy, Score, ScoreBase, SelectorTerm, WeightedScore};
use std::collections::BTreeMap;

/// Scores that no planner of Ohm counts, with their weights in kube-scheduler: they are reported only.
pub const REPORTED_SCORES: [(&str, u32); 1] = [("ImageLocality", 1)];

/// Scores and arguments of plugins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plugins {
    /// How much each score counts; 0 switches it off. Planners count those that [`Score`] has.
    pub weights: BTreeMap<&'static str, u32>,
    /// Of NodeResourcesFit.
    pub fit: FitArguments,
    /// The `resources` of NodeResourcesBalancedAllocation. Reported only: planners go by cpu and memory.
    pub balanced: BalancedArguments,
    /// Of NodeAffinity.
    pub added_affinity: AddedAffinity,
    /// Of InterPodAffinity. Reported only: planners go by the defaults.
    pub neighbours: NeighbourArguments,
}

/// The arguments of NodeResourcesFit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FitArguments {
    /// What is good. Planners take a shape that rises for MostAllocated, and one that falls for LeastAllocated.
    pub scoring: FitScoring,
    /// What is compared, and how much it counts. Reported only: planners go by all that a task asks for.
    pub resources: Vec<(String, u32)>,
    /// Extended resources that keep no task of the class away from a node (`ignoredResources`). `ohm plan` takes them
    /// from what its tasks ask for.
    pub ignored: Vec<String>,
    /// The same for all with one of these domains (`ignoredResourceGroups`).
    pub ignored_groups: Vec<String>,
}

impl Default for FitArguments {
    fn default() -> Self {
        FitArguments {
            scoring: FitScoring::Towards(FitStrategy::default()),
            resources: [CPU, MEMORY].map(|name| (name.to_string(), 1)).to_vec(),
            ignored: Vec::new(),
            ignored_groups: Vec::new(),
        }
    }
}

impl FitArguments {
    /// Whether what a task asks for of this resource keeps it away from no node.
    pub fn ignores(&self, resource: &str) -> bool {
        let Some((domain, _)) = resource.split_once('/') else { return false };
        self.ignored.iter().any(|name| name == resource) || self.ignored_groups.iter().any(|group| group == domain)
    }
}

/// What NodeResourcesFit takes for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FitScoring {
    /// Much or little of what is left.
    Towards(FitStrategy),
    /// Points of a line, by rising use: hundredths that are used, and 0 to 10 that they are worth
    /// (`RequestedToCapacityRatio`).
    Shape(Vec<(u32, u32)>),
}

impl FitScoring {
    /// What planners go by.
    pub(crate) fn of_planners(&self) -> FitStrategy {
        match self {
            FitScoring::Towards(strategy) => *strategy,
            FitScoring::Shape(points) => match points.first().zip(points.last()) {
                Some((first, last)) if last.1 > first.1 => FitStrategy::MostAllocated,
                Some((first, last)) if last.1 < first.1 => FitStrategy::LeastAllocated,
                _ => FitStrategy::ByGroup,
            },
        }
    }
}

/// The arguments of NodeResourcesBalancedAllocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancedArguments {
    /// What is to be used evenly.
    pub resources: Vec<String>,
}

impl Default for BalancedArguments {
    fn default() -> Self {
        BalancedArguments { resources: [CPU, MEMORY].map(str::to_string).to_vec() }
    }
}

/// What NodeAffinity asks of nodes beside each pod itself (`addedAffinity`). `ohm plan` adds it to the jobs of the
/// class, so that planners go by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddedAffinity {
    /// One of these must match, unless there is none.
    pub required: Vec<SelectorTerm>,
    /// What is liked, by weight.
    pub preferred: Vec<(u32, SelectorTerm)>,
}

/// The arguments of InterPodAffinity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighbourArguments {
    /// What a required affinity of what stands counts where it means the pod (`hardPodAffinityWeight`).
    pub hard_weight: u32,
    /// Whether what stands likes counts only where the pod itself likes something, too
    /// (`ignorePreferredTermsOfExistingPods`).
    pub ignores_standing: bool,
}

impl Default for NeighbourArguments {
    fn default() -> Self {
        NeighbourArguments { hard_weight: 1, ignores_standing: false }
    }
}

impl Plugins {
    /// What these scores of a profile are in kube-scheduler's words, with its arguments where they have none.
    pub fn of(scores: &[WeightedScore]) -> Self {
        let mut plugins = Plugins::default();
        for WeightedScore { score, weight } in scores {
            plugins.weights.insert(score.name(), *weight);
            if let Score::NodeResourcesFit { strategy } = score {
                plugins.fit.scoring = FitScoring::Towards(*strategy);
            }
        }
        plugins
    }

    /// The scores that a profile begins with.
    pub(crate) fn of_base(base: Option<ScoreBase>, scores: &[WeightedScore]) -> Self {
        let mut plugins = Plugins::of(scores);
        if base == Some(ScoreBase::Kubernetes) {
            plugins.weights.extend(REPORTED_SCORES);
        }
        plugins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_resources_are_extended_ones() {
        let (ignored, ignored_groups) = (vec!["cpu".into(), "example.com/nic".into()], vec!["nvidia.com".into()]);
        let fit = FitArguments { ignored, ignored_groups, ..FitArguments::default() };
        assert!(fit.ignores("example.com/nic") && fit.ignores("nvidia.com/gpu"));
        assert!(!fit.ignores("cpu") && !fit.ignores("example.com/gpu"));
    }

    #[test]
    fn a_shape_is_planned_by_where_it_goes() {
        let of = |points: &[(u32, u32)]| FitScoring::Shape(points.to_vec()).of_planners();
        assert_eq!(of(&[(0, 0), (100, 10)]), FitStrategy::MostAllocated);
        assert_eq!(of(&[(0, 10), (50, 10), (100, 1)]), FitStrategy::LeastAllocated);
        assert_eq!(of(&[(0, 5)]), FitStrategy::ByGroup);
    }
}
