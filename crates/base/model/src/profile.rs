//! How the jobs of one class are planned: which scores with which weights.

use crate::class::Class;
use serde::{Deserialize, Serialize};

/// The largest weight of one score.
pub const WEIGHT_MAX: u32 = 100;

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
    /// How many tasks of the group stand in the node's domain of a topology already.
    PodTopologySpread {
        /// The label of the level.
        topology_key: String,
    },
    /// A device that a share of one would be the first to break up.
    DevicePacking,
    /// A node with devices, for a group that asks for none.
    KeepDevices,
}

impl Score {
    /// The name used in files, commands and the table of scores.
    pub fn name(&self) -> &'static str {
        match self {
            Score::NodeResourcesFit { .. } => "NodeResourcesFit",
            Score::NodeResourcesBalancedAllocation => "NodeResourcesBalancedAllocation",
            Score::NodeAffinity => "NodeAffinity",
            Score::TaintToleration => "TaintToleration",
            Score::PodTopologySpread { .. } => "PodTopologySpread",
            Score::DevicePacking => "DevicePacking",
            Score::KeepDevices => "KeepDevices",
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
    /// The class.
    pub class: Class,
    /// The scores that count; each at most once, but for those with different arguments.
    pub scores: Vec<WeightedScore>,
}

impl SchedulingProfile {
    /// The profile that every cell has for `class`.
    ///
    /// A weight of 1 weighs as much as leaving a whole node's worth of every requested resource idle. The weights of
    /// NodeAffinity and TaintToleration are kube-scheduler's.
    pub fn built_in(class: Class) -> Self {
        let scores = [
            (Score::NodeResourcesFit { strategy: FitStrategy::ByGroup }, 1),
            (Score::NodeAffinity, 2),
            (Score::TaintToleration, 3),
            (Score::DevicePacking, 2),
            (Score::KeepDevices, 4),
        ];
        let weighted = scores.into_iter().map(|(score, weight)| WeightedScore { score, weight });
        SchedulingProfile { class, scores: weighted.collect() }
    }

    /// The same profile in which `score` has this weight, whether it counted before or not.
    pub fn with_score(mut self, score: Score, weight: u32) -> Self {
        self.scores.retain(|known| known.score != score);
        self.scores.push(WeightedScore { score, weight });
        self
    }
}
