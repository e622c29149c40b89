//! How the jobs of one class are planned: which scores with which weights, which strategies.

use crate::class::{Class, ClassKind};
use crate::transaction::Guard;
use serde::{Deserialize, Serialize};

/// The largest weight of one score.
pub const WEIGHT_MAX: u32 = 100;
/// Most profiles of a cell that were submitted.
pub const PROFILES_MAX: usize = 64;
/// Most scores of one profile, those that are switched off included.
pub const SCORES_MAX: usize = 32;
/// The patience of heads, unless a profile says otherwise.
pub const HEAD_PATIENCE_SECONDS: u32 = 30;
/// The levels that PodTopologySpread spreads over when it is given no others, as in Kubernetes.
pub const SPREAD_KEYS: [&str; 2] = ["kubernetes.io/hostname", "topology.kubernetes.io/zone"];

/// Which direction of what a placement leaves free is good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FitStrategy {
    /// Little is good for groups that pack, much for groups that spread.
    #[default]
    ByGroup,
    /// Little is good: the node that is fullest afterwards.
    MostAllocated,
    /// Much is good: the node that is emptiest afterwards.
    LeastAllocated,
}

/// What a planner tries for a job. `schedulers/planner` has a file for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Strategy {
    /// Tasks on the move where their room is reserved.
    SeatReserved,
    /// Lost tasks where spares of their group are held.
    SeatInSpares,
    /// Groups that start ask for their spares as well.
    AskForSpares,
    /// The groups in their order, each with as many tasks as fit.
    Place,
    /// The minimums of the groups that start, and then whatever else fits.
    MinimumsFirst,
    /// The group that found no room behind the others, before them.
    HardestFirst,
    /// All groups at once, node by node.
    JointPacking,
    /// Equally good places in another order.
    OtherOrders,
    /// Again without the spares that were asked for as well.
    WithoutSpares,
    /// What was seated, though nothing else of the job finds room.
    KeepSeated,
    /// Again with the spares that the job holds as room for its own tasks.
    LendOwnSpares,
    /// Again without seating lost tasks in spares first.
    WithoutSpareSeats,
}

impl Strategy {
    /// All strategies, in the order in which they are tried unless a profile says otherwise.
    pub const ALL: [Strategy; 12] = [
        Strategy::SeatReserved,
        Strategy::SeatInSpares,
        Strategy::AskForSpares,
        Strategy::Place,
        Strategy::MinimumsFirst,
        Strategy::HardestFirst,
        Strategy::JointPacking,
        Strategy::OtherOrders,
        Strategy::WithoutSpares,
        Strategy::KeepSeated,
        Strategy::LendOwnSpares,
        Strategy::WithoutSpareSeats,
    ];

    /// The name used in files, commands and explanations.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::SeatReserved => "SeatReserved",
            Strategy::SeatInSpares => "SeatInSpares",
            Strategy::AskForSpares => "AskForSpares",
            Strategy::Place => "Place",
            Strategy::MinimumsFirst => "MinimumsFirst",
            Strategy::HardestFirst => "HardestFirst",
            Strategy::JointPacking => "JointPacking",
            Strategy::OtherOrders => "OtherOrders",
            Strategy::WithoutSpares => "WithoutSpares",
            Strategy::KeepSeated => "KeepSeated",
            Strategy::LendOwnSpares => "LendOwnSpares",
            Strategy::WithoutSpareSeats => "WithoutSpareSeats",
        }
    }
}

/// One score with its arguments. The names are those of kube-scheduler's plugins where it has one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Score {
    /// What is left free of each requested resource after the placement, in shares of the cell's largest node.
    NodeResourcesFit {
        /// Which direction is good.
        strategy: FitStrategy,
    },
    /// How evenly cpu and memory of the node are used after the placement, compared with before.
    NodeResourcesBalancedAllocation,
    /// Preferred node affinity that the node does not meet.
    NodeAffinity,
    /// `PreferNoSchedule` taints that the group does not tolerate.
    TaintToleration,
    /// How uneven the tasks become that the group is to be spread with (`ScheduleAnyway`).
    PodTopologySpread {
        /// What a group is spread over that names no constraints itself: the label of a topology's level, by how many
        /// of its own tasks stand in the node's domain. Nothing leaves such groups alone.
        topology_key: Option<String>,
    },
    /// How few of the tasks that the group prefers to be near are in the node's domain, or prefer to be near it.
    InterPodAffinity,
    /// A device that a share of one would be the first to break up.
    DevicePacking,
    /// A node with devices, for a group that asks for none; one whose devices are free, once more.
    KeepDevices,
    /// How much of the node's free devices typical requests of the cell could use before the placement and can't after.
    FragmentationGradient,
}

/// The names of all scores.
pub const SCORE_NAMES: [&str; 9] = [
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "NodeAffinity",
    "TaintToleration",
    "PodTopologySpread",
    "InterPodAffinity",
    "DevicePacking",
    "KeepDevices",
    "FragmentationGradient",
];

impl Score {
    /// The score of this name with the arguments it has unless others are given: one for each level that it is about.
    /// Empty when no score is called so.
    pub fn named(name: &str) -> Vec<Score> {
        match name {
            "NodeResourcesFit" => vec![Score::NodeResourcesFit { strategy: FitStrategy::default() }],
            "NodeResourcesBalancedAllocation" => vec![Score::NodeResourcesBalancedAllocation],
            "NodeAffinity" => vec![Score::NodeAffinity],
            "TaintToleration" => vec![Score::TaintToleration],
            "PodTopologySpread" => {
                SPREAD_KEYS.map(|key| Score::PodTopologySpread { topology_key: Some(key.to_string()) }).to_vec()
            }
            "InterPodAffinity" => vec![Score::InterPodAffinity],
            "DevicePacking" => vec![Score::DevicePacking],
            "KeepDevices" => vec![Score::KeepDevices],
            "FragmentationGradient" => vec![Score::FragmentationGradient],
            _ => Vec::new(),
        }
    }

    /// The name used in files, commands and the table of scores.
    pub fn name(&self) -> &'static str {
        match self {
            Score::NodeResourcesFit { .. } => "NodeResourcesFit",
            Score::NodeResourcesBalancedAllocation => "NodeResourcesBalancedAllocation",
            Score::NodeAffinity => "NodeAffinity",
            Score::TaintToleration => "TaintToleration",
            Score::PodTopologySpread { .. } => "PodTopologySpread",
            Score::InterPodAffinity => "InterPodAffinity",
            Score::DevicePacking => "DevicePacking",
            Score::KeepDevices => "KeepDevices",
            Score::FragmentationGradient => "FragmentationGradient",
        }
    }
}

/// One score and how much it counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WeightedScore {
    /// The score.
    pub score: Score,
    /// 0 to [`WEIGHT_MAX`]; 0 switches the score off.
    pub weight: u32,
}

/// How the jobs of one class are planned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SchedulingProfile {
    /// Unique in the cell; the profiles that every cell has are named as their class.
    pub name: String,
    /// The class. No two profiles of a cell have the same.
    pub class: Class,
    /// What the class is like: the defaults of its jobs, whether they start whole, how they are paced.
    pub like: ClassKind,
    /// The scores that count; each at most once, but for those with different arguments.
    pub scores: Vec<WeightedScore>,
    /// The strategies to try, in order, each at most once; none stands for all of them.
    pub strategies: Vec<Strategy>,
    /// What must still be true at commit of the nodes that tasks are placed on.
    pub conflicts: Guard,
    /// How long a job of the class waits for room before it may keep, as the head of its line, what becomes free.
    pub head_patience_seconds: u32,
}

impl SchedulingProfile {
    /// The profile that every cell has for `class`; for a class of an operator, one as batch has it.
    pub fn built_in(class: Class) -> Self {
        let like = class.built_in().unwrap_or(ClassKind::Batch);
        let scores = ScoreBase::Default.scores();
        let (strategies, conflicts) = (Vec::new(), Guard::default());
        let (name, head_patience_seconds) = (class.to_string(), HEAD_PATIENCE_SECONDS);
        SchedulingProfile { name, class, like, scores, strategies, conflicts, head_patience_seconds }
    }

    /// The same profile in which `score` has this weight, whether it counted before or not.
    pub fn with_score(mut self, score: Score, weight: u32) -> Self {
        self.scores.retain(|known| known.score != score);
        self.scores.push(WeightedScore { score, weight });
        self
    }
}

/// A set of scores that a profile may begin with. What a profile got from it stays as it was in later versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreBase {
    /// What the built-in classes count.
    Default,
    /// What kube-scheduler counts by default, as far as there is such a score here.
    Kubernetes,
    /// What leaves fewest devices idle that somebody asks for, then full nodes first, whatever a group says.
    Packing,
    /// Empty nodes first, whatever a group says.
    Spreading,
}

/// The names of the sets, as files write them.
pub const SCORE_BASES: [(&str, ScoreBase); 4] = [
    ("default", ScoreBase::Default),
    ("kubernetes", ScoreBase::Kubernetes),
    ("packing", ScoreBase::Packing),
    ("spreading", ScoreBase::Spreading),
];

impl ScoreBase {
    /// The set that `scores` are, in whatever order.
    pub fn of(scores: &[WeightedScore]) -> Option<ScoreBase> {
        let sorted = |mut scores: Vec<WeightedScore>| {
            scores.sort();
            scores
        };
        let given = sorted(scores.to_vec());
        SCORE_BASES.iter().map(|(_, base)| *base).find(|base| sorted(base.scores()) == given)
    }

    /// The name used in files.
    pub fn name(self) -> &'static str {
        SCORE_BASES.iter().find(|(_, base)| *base == self).map_or("", |(name, _)| name)
    }

    /// The scores with their weights.
    ///
    /// A weight of 1 weighs as much as leaving a whole node's worth of every requested resource idle. The weights of
    /// what groups prefer are kube-scheduler's; where devices are packed, a whole preference weighs as much as a
    /// device.
    pub fn scores(self) -> Vec<WeightedScore> {
        let fit = |strategy| (Score::NodeResourcesFit { strategy }, 1);
        let preferring = if self == ScoreBase::Packing { 10 } else { 1 };
        let spread =
            |key: Option<&str>| (Score::PodTopologySpread { topology_key: key.map(String::from) }, 2 * preferring);
        let preferences = [
            (Score::NodeAffinity, 2 * preferring),
            (Score::TaintToleration, 3 * preferring),
            (Score::InterPodAffinity, 2 * preferring),
        ];
        let gradient = |weight| (Score::FragmentationGradient, weight);
        let devices = [(Score::DevicePacking, 2), (Score::KeepDevices, 4), spread(None)];
        let (first, last) = match self {
            ScoreBase::Default => (vec![fit(FitStrategy::ByGroup)], devices.to_vec()),
            ScoreBase::Packing => (vec![gradient(20), fit(FitStrategy::MostAllocated)], devices.to_vec()),
            ScoreBase::Spreading => (vec![fit(FitStrategy::LeastAllocated)], devices.to_vec()),
            ScoreBase::Kubernetes => {
                let balanced = (Score::NodeResourcesBalancedAllocation, 1);
                let spreads = SPREAD_KEYS.map(|key| spread(Some(key)));
                (vec![fit(FitStrategy::LeastAllocated), balanced], spreads.to_vec())
            }
        };
        let scores = first.into_iter().chain(preferences).chain(last);
        scores.map(|(score, weight)| WeightedScore { score, weight }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_score_is_found_by_its_name() {
        for name in SCORE_NAMES {
            let scores = Score::named(name);
            assert!(!scores.is_empty() && scores.iter().all(|score| score.name() == name), "{name}");
        }
        assert!(Score::named("ImageLocality").is_empty());
    }

    #[test]
    fn sets_of_scores_are_known_again() {
        for (name, base) in SCORE_BASES {
            let mut scores = base.scores();
            scores.reverse();
            assert_eq!((ScoreBase::of(&scores), base.name()), (Some(base), name));
            scores[0].weight += 1;
            assert_eq!(ScoreBase::of(&scores), None, "{name}");
        }
    }

    #[test]
    fn sets_of_scores_fit_into_a_profile() {
        for (name, base) in SCORE_BASES {
            let scores = base.scores();
            assert!((1..=SCORES_MAX).contains(&scores.len()), "{name}");
            assert!(scores.iter().all(|weighted| (1..=WEIGHT_MAX).contains(&weighted.weight)), "{name}");
        }
    }
}
