//! Why a job is not placed, as data; [`Explanation::to_text`] says it in words.

pub use ohm_cell::Miss;
use ohm_cell::NoOffer;
use ohm_model::{ConflictReason, FlavorResource, GroupIndex, Index, JobId, ResourceId, StopPolicy, Strategy};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The node that came nearest in one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NearMiss {
    /// The resource.
    pub resource: ResourceId,
    /// What one task asks for.
    pub asked: i64,
    /// The largest amount that was free on a node which passes every other filter.
    pub free: i64,
    /// That node's name.
    pub node: String,
}

/// What a domain holds of one layer of slices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerFit {
    /// The label of the layer's level.
    pub level: String,
    /// How many slices fit.
    pub fit: u32,
    /// How many are needed.
    pub needed: u32,
}

/// What keeps the job from being placed; the first that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Obstacle {
    /// Too few nodes take its tasks; see the counts.
    Room,
    /// Nodes would take it, but no single domain of this level takes all that must be together.
    Domain {
        /// The label of the level.
        level: String,
        /// The label values of the domain that takes most, top to bottom; empty when none takes any.
        best: Vec<String>,
        /// How many tasks, or slices where slices are asked for, fit in that domain; over several domains where the
        /// request spreads.
        fit: u32,
        /// What the best domain holds of each layer of slices.
        layers: Vec<LayerFit>,
        /// Whether the request may spread over several domains.
        spreads: bool,
    },
    /// The request can be met by no cell with this topology, whatever room there is.
    Contradiction {
        /// What contradicts what.
        problem: String,
    },
    /// No flavor of its queue suits a group.
    NoFlavor {
        /// The queue.
        queue: String,
        /// The group.
        group: GroupIndex,
        /// Why none does.
        why: NoOffer,
    },
    /// The queue has too little left of a resource.
    Quota {
        /// The queue.
        queue: String,
        /// The resource, and of which flavor.
        column: FlavorResource,
        /// What the job needs at once.
        asked: i64,
        /// What the queue may still use, borrowing included, beside what is `ceded`.
        available: i64,
        /// What is left besides to jobs of the queue that come before it and are planned by other schedulers.
        ceded: i64,
    },
    /// Its queue is StrictFIFO, and others of it come first.
    Turn {
        /// The queue.
        queue: String,
        /// Who is first.
        first: JobId,
    },
    /// Its queue is held.
    Held {
        /// The queue.
        queue: String,
        /// Its stop policy.
        policy: StopPolicy,
    },
    /// Room is nominated; the runs there have been told to stop and have not ended.
    Stopping {
        /// How many.
        runs: u32,
    },
    /// It waits for something outside: provisioning, a check.
    Waiting {
        /// For what, as a noun phrase.
        what: String,
    },
    /// Its plan does not fit one log entry.
    TooLarge {
        /// Rows of the plan.
        rows: usize,
        /// The most bytes they may take.
        limit: usize,
    },
    /// Every plan so far collided with others' work; it is looked at again soon.
    Conflicts {
        /// How many in a row.
        attempts: u32,
        /// The last reason.
        reason: ConflictReason,
    },
    /// The planner returned a plan without content: an error in the planner.
    EmptyPlan,
}

/// What was tried for a job before it was given up, or left with less than it asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// The profile that the job was planned with.
    pub profile: String,
    /// The strategies that had something to do, in the order of the profile.
    pub strategies: Vec<Strategy>,
}

/// Why a job is not placed. Every number was counted on one picture of the cell; none is estimated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The job.
    pub job: JobId,
    /// The last entry of the picture.
    pub seen: Index,
    /// The group that could not be placed.
    pub group: GroupIndex,
    /// The group that is placed with it as one: the leader of its workers. The numbers hold for both.
    pub partner: Option<GroupIndex>,
    /// Other groups of the job for which room was found before; the numbers count that room as taken.
    pub beside: Vec<GroupIndex>,
    /// How many slices of `slice` tasks would find room now (within one domain, where one is required).
    pub fit: u32,
    /// How many must find room at once.
    pub of: u32,
    /// Tasks in a slice: 1 where `fit` and `of` are tasks.
    pub slice: u32,
    /// Nodes in the cell.
    pub total_nodes: u32,
    /// Nodes that can take at least one task.
    pub open_nodes: u32,
    /// All other nodes, by the first filter that excludes them.
    pub misses: BTreeMap<Miss, u32>,
    /// The nearest node per resource, among those that are short of that resource only.
    pub nearest: Vec<NearMiss>,
    /// What stands in the way.
    pub obstacle: Obstacle,
    /// The flavors that the job was planned with, each way to take them by itself; the numbers are of the first. Empty
    /// where it has no choice.
    pub flavors: Vec<String>,
    /// What was tried; nothing where no planner was asked.
    pub tried: Option<Arc<Tried>>,
}

impl Explanation {
    /// An explanation without counts, for obstacles that have nothing to do with single nodes.
    pub fn of_obstacle(job: JobId, seen: Index, of: u32, obstacle: Obstacle) -> Self {
        Explanation {
            job,
            seen,
            group: GroupIndex(0),
            partner: None,
            beside: Vec::new(),
            fit: 0,
            of,
            slice: 1,
            total_nodes: 0,
            open_nodes: 0,
            misses: BTreeMap::new(),
            nearest: Vec::new(),
            obstacle,
            flavors: Vec::new(),
            tried: None,
        }
    }

    /// The groups that are not placed, and for which the numbers hold.
    pub fn groups(&self) -> impl Iterator<Item = GroupIndex> {
        [Some(self.group), self.partner].into_iter().flatten()
    }

    /// Counts one node under its first excluding filter.
    pub fn miss(&mut self, miss: Miss) {
        self.miss_many(miss, 1);
    }

    /// Counts `nodes` nodes under their first excluding filter.
    pub fn miss_many(&mut self, miss: Miss, nodes: u32) {
        *self.misses.entry(miss).or_insert(0) += nodes;
    }

    /// Takes note of a node that is short of `resource` and of nothing else.
    pub fn near(&mut self, resource: ResourceId, asked: i64, free: i64, node: &str) {
        match self.nearest.iter_mut().find(|near| near.resource == resource) {
            Some(near) if near.free >= free => {}
            Some(near) => {
                near.free = free;
                node.clone_into(&mut near.node);
            }
            None => self.nearest.push(NearMiss { resource, asked, free, node: node.to_string() }),
        }
    }
}
