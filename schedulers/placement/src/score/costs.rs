//! What scores are asked, and what they cost: a score of 100 costs nothing, what it loses is paid in units of the scan.

use super::node_resources_fit::Fit;
use crate::table::WHOLE;
use crate::typical::Typical;
use ohm_cell::{NodeClass, Shape};
use ohm_framework::View;
use ohm_model::{NodeId, SelectorTerm, Toleration};
use std::sync::Arc;

/// The most that all costs of a class may sum up to; left-overs and offsets stay below it, too.
pub(super) const COST_MAX: i64 = 1 << 29;
/// The most that the scores asked per node, or per domain, may sum up to.
pub(super) const LATE_COST_MAX: i64 = 1 << 30;
/// The most that free devices may cost, of each resource.
const KEEPING_COST_MAX: i64 = 1 << 24;

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

/// All that a score per node may depend on: the answer is remembered until the node, or what is typical, changes.
#[derive(Clone, Copy, Debug)]
pub struct NodeQuestion<'a> {
    /// The picture; of it, this node alone.
    pub view: &'a View<'a>,
    /// What one task asks for.
    pub shape: &'a Shape,
    /// The node.
    pub node: NodeId,
    /// What the cell is typically asked for; counted only where a score asks for it.
    pub typical: &'a Typical,
}

/// Asks a score about a class of nodes.
pub type AskClass = fn(&ClassQuestion<'_>) -> Lost;

/// Asks a score about one node.
pub type AskNode = fn(&NodeQuestion<'_>) -> Lost;

/// The scores of a profile, sorted by how they are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scoring {
    pub(super) fit: Option<Fit>,
    pub(super) breaking: u32,
    pub(super) keeping: u32,
    pub(super) classes: Vec<(u32, AskClass)>,
    pub(super) nodes: Vec<(u32, AskNode)>,
    /// Weight, and the label of the level.
    pub(super) domains: Vec<(u32, String)>,
    /// The weight of soft constraints that groups name.
    pub(super) asked_spread: u32,
    /// The weight of what groups prefer of the tasks around them.
    pub(super) affinity: u32,
    /// Those about what is typical.
    pub(super) of_typical: Vec<(u32, AskNode)>,
    typical: Arc<Typical>,
}

impl Scoring {
    /// The direction and weight of the left-over; nothing when it does not count.
    pub(crate) fn fit(&self) -> Option<Fit> {
        self.fit
    }

    /// What the cell is typically asked for, as far as it was counted.
    pub(crate) fn typical(&self) -> &Typical {
        &self.typical
    }

    /// Whether a score asks for that.
    pub(crate) fn asks_typical(&self) -> bool {
        !self.of_typical.is_empty()
    }

    /// The scores that are asked about single nodes.
    fn of_nodes(&self) -> impl Iterator<Item = &(u32, AskNode)> {
        let of_typical = self.of_typical.iter().filter(|_| !self.typical.requests.is_empty());
        self.nodes.iter().chain(of_typical)
    }

    /// The same scores with other requests that are typical.
    pub(crate) fn with_typical(&self, typical: Typical) -> Self {
        Scoring { typical: Arc::new(typical), ..self.clone() }
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
    pub(super) fn of(&self, weight: u32, lost: Lost) -> i64 {
        let whole = u64::from(weight) * u64::from(self.counted) * WHOLE as u64 / u64::from(self.unit);
        (whole.saturating_mul(lost.parts) / lost.of.max(1)).min(COST_MAX as u64) as i64
    }

    /// The cost of breaking up a device.
    pub(crate) fn of_breaking(&self) -> i32 {
        self.of(self.scoring.breaking, Lost { parts: 1, of: 1 }).min(COST_MAX / 4) as i32
    }

    /// The cost of the free devices of the largest node.
    pub(crate) fn of_keeping(&self) -> i32 {
        self.of(self.scoring.keeping, Lost { parts: 1, of: 1 }).min(KEEPING_COST_MAX) as i32
    }

    /// The cost of any node of a class.
    pub(crate) fn of_class(&self, question: &ClassQuestion<'_>) -> i32 {
        let costs = self.scoring.classes.iter().map(|(weight, lost)| self.of(*weight, lost(question)));
        costs.sum::<i64>().min(COST_MAX) as i32
    }

    /// Whether single nodes are asked about at all.
    pub(crate) fn ask_nodes(&self) -> bool {
        self.scoring.of_nodes().next().is_some()
    }

    /// The cost of one node, beyond what columns and class say.
    pub(crate) fn of_node(&self, question: &NodeQuestion<'_>) -> i32 {
        let costs = self.scoring.of_nodes().map(|(weight, lost)| self.of(*weight, lost(question)));
        costs.sum::<i64>().min(LATE_COST_MAX) as i32
    }
}
