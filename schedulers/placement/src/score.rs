//! Scores: which of the nodes that take a group is best. One file per score, and one line of [`TABLE`].
//!
//! Inside, a score is a cost: what a node lacks of the best score, 100 points lost being the whole weight. The unit of
//! costs is one resource's whole largest node, so a weight of 1 weighs as much as leaving a whole node's worth of every
//! requested resource idle. Costs are never below zero, so a score that is asked late only makes a node worse: what was
//! found without it stays a safe bound.

mod balanced_allocation;
mod costs;
pub(crate) mod device_packing;
mod domains;
mod fragmentation_gradient;
mod inter_pod_affinity;
pub(crate) mod keep_devices;
mod node_affinity;
pub(crate) mod node_resources_fit;
mod pod_topology_spread;
mod taint_toleration;

pub use costs::{AskClass, AskNode, ClassQuestion, Lost, NodeQuestion};
pub(crate) use costs::{Costs, Scoring};
pub(crate) use domains::DomainCosts;
use node_resources_fit::Fit;

use ohm_model::{SchedulingProfile, Score};

/// How often a score is asked, and how.
#[derive(Clone, Copy)]
pub enum Granularity {
    /// Of every node by the scan itself, over whole columns.
    Columns,
    /// Once per shape and class of nodes.
    Class(AskClass),
    /// Of each node that is the best of its block as far as columns and class show.
    Node(AskNode),
    /// The same, about what the cell is typically asked for: never where nobody asks for devices.
    Typical(AskNode),
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
    Entry { name: "InterPodAffinity", granularity: Granularity::Domain },
    Entry { name: "FragmentationGradient", granularity: Granularity::Typical(fragmentation_gradient::lost) },
];

/// The line of `score`.
pub fn entry(score: &Score) -> Option<&'static Entry> {
    TABLE.iter().find(|entry| entry.name == score.name())
}

impl Scoring {
    pub(crate) fn new(profile: &SchedulingProfile) -> Self {
        let mut scoring = Scoring::default();
        for weighted in profile.scores.iter().filter(|weighted| weighted.weight > 0) {
            let weight = weighted.weight;
            match (&weighted.score, entry(&weighted.score).map(|entry| entry.granularity)) {
                (score, Some(Granularity::Class(lost))) => {
                    scoring.classes.push((weight, lost));
                    scoring.keeping += if *score == Score::KeepDevices { weight } else { 0 };
                }
                (_, Some(Granularity::Node(lost))) => scoring.nodes.push((weight, lost)),
                (_, Some(Granularity::Typical(lost))) => scoring.of_typical.push((weight, lost)),
                (Score::NodeResourcesFit { strategy }, _) => scoring.fit = Some(Fit { weight, strategy: *strategy }),
                (Score::DevicePacking, _) => scoring.breaking = weight,
                (Score::PodTopologySpread { topology_key }, _) => {
                    scoring.asked_spread = scoring.asked_spread.max(weight);
                    scoring.domains.extend(topology_key.iter().map(|key| (weight, key.clone())));
                }
                (Score::InterPodAffinity, _) => scoring.affinity = weight,
                (_, Some(Granularity::Columns | Granularity::Domain) | None) => {}
            }
        }
        scoring
    }
}
