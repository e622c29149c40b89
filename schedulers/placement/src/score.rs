//! Scores: which of the nodes that take a group is best. One file per score, and one line of [`TABLE`].
//!
//! Inside, a score is a cost: what a node lacks of the best score, 100 points lost being the whole weight. The unit of
//! costs is one resource's whole largest node, so a weight of 1 weighs as much as leaving a whole node's worth of every
//! requested resource idle. Costs are never below zero, so a score that is asked late only makes a node worse: what was
//! found without it stays a safe bound.

mod balanced_allocation;
pub(crate) mod device_packing;
mod keep_devices;
mod node_affinity;
pub(crate) mod node_resources_fit;
mod pod_topology_spread;
mod taint_toleration;

use node_resources_fit::Fit;
pub(crate) use pod_topology_spread::DomainCosts;

use crate::table::WHOLE;
use ohm_cell::{NodeClass, Shape};
use ohm_framework::View;
use ohm_model::{NodeId, SchedulingProfile, Score, SelectorTerm, Toleration};
use std::sync::Arc;

/// The most that all costs of a class may sum up to; left-overs and offsets stay below it, too.
const COST_MAX: i64 = 1 << 29;
/// The most that the scores asked per node, or per domain, may sum up to.
const LATE_COST_MAX: i64 = 1 << 28;

/// What a node loses of one score: `parts` of `of`. Nothing lost is 100 points, all lost is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The part that is lost; more than `of` counts as more than a whole weight.
    pub parts: u64,
    /// The whole.
    pub of: u64,
}

impl Lost {
    /// Nothing is lost.
    pub const NOTHING: Lost = Lost { parts: 0, of: 1 };
}

/// All that a score per class may depend on: verdicts about classes are remembered by exactly this.
#[derive(Clone, Copy, Debug)]
pub struct ClassQuestion<'a> {
    /// What the group tolerates.
    pub tolerations: &'a [Toleration],
    /// What it prefers, with weights.
    pub preferred: &'a [(u32, SelectorTerm)],
    /// Whether it asks for devices.
    pub asks_devices: bool,
    /// The class of nodes.
    pub class: &'a NodeClass,
    /// Whether its nodes have devices.
    pub has_devices: bool,
}

/// All that a score per node may depend on: the answer is remembered until the node changes.
#[derive(Clone, Copy, Debug)]
pub struct NodeQuestion<'a> {
    /// The picture; of it, this node alone.
    pub view: &'a View<'a>,
    /// What one task asks for.
    pub shape: &'a Shape,
    /// The node.
    pub node: NodeId,
}

/// Asks a score about a class of nodes.
pub type AskClass = fn(&ClassQuestion<'_>) -> Lost;

/// Asks a score about one node.
pub type AskNode = fn(&NodeQuestion<'_>) -> Lost;

/// How often a score is asked, and how.
#[derive(Clone, Copy)]
pub enum Granularity {
    /// Of every node by the scan itself, over whole columns.
    Columns,
    /// Once per shape and class of nodes.
    Class(AskClass),
    /// Of each node that is the best of its block as far as columns and class show.
    Node(AskNode),
    /// Of each domain, by tasks that stand there and that the search gives it.
    Domain,
}

/// One line of the table.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The score's name: [`Score::name`].
    pub name: &'static str,
    /// How often it is asked.
    pub granularity: Granularity,
}

/// All scores.
pub const TABLE: &[Entry] = &[
    Entry { name: "NodeResourcesFit", granularity: Granularity::Columns },
    Entry { name: "DevicePacking", granularity: Granularity::Columns },
    Entry { name: "NodeAffinity", granularity: Granularity::Class(node_affinity::lost) },
    Entry { name: "TaintToleration", granularity: Granularity::Class(taint_toleration::lost) },
    Entry { name: "KeepDevices", granularity: Granularity::Class(keep_devices::lost) },
    Entry { name: "NodeResourcesBalancedAllocation", granularity: Granularity::Node(balanced_allocation::lost) },
    Entry { name: "PodTopologySpread", granularity: Granularity::Domain },
];

/// The line of `score`.
pub fn entry(score: &Score) -> Option<&'static Entry> {
    TABLE.iter().find(|entry| entry.name == score.name())
}

/// The scores of a profile, sorted by how they are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scoring {
    fit: Option<Fit>,
    breaking: u32,
    classes: Vec<(u32, AskClass)>,
    nodes: Vec<(u32, AskNode)>,
    /// Weight, and the label of the level.
    domains: Vec<(u32, String)>,
}

impl Scoring {
    pub(crate) fn new(profile: &SchedulingProfile) -> Self {
        let mut scoring = Scoring::default();
        for weighted in profile.scores.iter().filter(|weighted| weighted.weight > 0) {
            let weight = weighted.weight;
            match (&weighted.score, entry(&weighted.score).map(|entry| entry.granularity)) {
                (_, Some(Granularity::Class(lost))) => scoring.classes.push((weight, lost)),
                (_, Some(Granularity::Node(lost))) => scoring.nodes.push((weight, lost)),
                (Score::NodeResourcesFit { strategy }, _) => scoring.fit = Some(Fit { weight, strategy: *strategy }),
                (Score::DevicePacking, _) => scoring.breaking = weight,
                (Score::PodTopologySpread { topology_key }, _) => scoring.domains.push((weight, topology_key.clone())),
                (_, Some(Granularity::Columns | Granularity::Domain) | None) => {}
            }
        }
        scoring
    }

    /// The direction and weight of the left-over; nothing when it does not count.
    pub(crate) fn fit(&self) -> Option<Fit> {
        self.fit
    }
}

/// The scores of a profile, weighed for one shape.
#[derive(Clone, Debug)]
pub(crate) struct Costs {
    scoring: Arc<Scoring>,
    /// How many resources the left-over sums up: costs are multiplied by it instead of dividing the sum by it.
    counted: u32,
    /// The weight of the left-over itself.
    unit: u32,
}

impl Costs {
    pub(crate) fn new(scoring: &Arc<Scoring>, counted: usize) -> Self {
        let unit = scoring.fit.map_or(1, |fit| fit.weight);
        Costs { scoring: Arc::clone(scoring), counted: counted.clamp(1, 16) as u32, unit }
    }

    pub(crate) fn scoring(&self) -> &Scoring {
        &self.scoring
    }

    /// What is lost of `weight`, in the unit of the scan.
    fn of(&self, weight: u32, lost: Lost) -> i64 {
        let whole = u64::from(weight) * u64::from(self.counted) * WHOLE as u64 / u64::from(self.unit);
        (whole.saturating_mul(lost.parts) / lost.of.max(1)).min(COST_MAX as u64) as i64
    }

    /// The cost of breaking up a device.
    pub(crate) fn of_breaking(&self) -> i32 {
        self.of(self.scoring.breaking, Lost { parts: 1, of: 1 }).min(COST_MAX / 4) as i32
    }

    /// The cost of any node of a class.
    pub(crate) fn of_class(&self, question: &ClassQuestion<'_>) -> i32 {
        let costs = self.scoring.classes.iter().map(|(weight, lost)| self.of(*weight, lost(question)));
        costs.sum::<i64>().min(COST_MAX) as i32
    }

    /// Whether single nodes are asked about at all.
    pub(crate) fn ask_nodes(&self) -> bool {
        !self.scoring.nodes.is_empty()
    }

    /// The cost of one node, beyond what columns and class say.
    pub(crate) fn of_node(&self, question: &NodeQuestion<'_>) -> i32 {
        let costs = self.scoring.nodes.iter().map(|(weight, lost)| self.of(*weight, lost(question)));
        costs.sum::<i64>().min(LATE_COST_MAX) as i32
    }
}
