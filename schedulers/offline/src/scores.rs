//! The scores that kube-scheduler's plugins would give the nodes that fit, for reports: planners go by scores of their
//! own, which compare classes of nodes instead of nodes.
//!
//! ```text
//! cell, documents ──Ground──▶ one file per score ──▶ 0..=100 for each node that fits ──weights──▶ total
//! ```
//!
//! Invariants: a score knows nothing of the others; a plugin that has nothing to say about the group says nothing at
//! all; numbers are whole. Where Kubernetes counts in floats, the exact value is taken, so that a score may be one
//! apart where that is a whole number.

mod balanced_allocation;
mod fit;
mod fixed;
mod ground;
mod image_locality;
mod inter_pod_affinity;
mod node_affinity;
mod normal;
mod taint_toleration;
mod topology_spread;

use self::ground::Ground;
use self::normal::SCORE_MAX;
use crate::answer::NodeVerdict;
use crate::world::World;
use ohm_cell::Job;
use ohm_manifest::Plugins;

/// Gives each node that fits its score, in the order of the nodes; nothing where there is nothing to say.
type Scorer = fn(&Ground<'_>) -> Option<Vec<i64>>;

/// Every score, by the name of its plugin.
const SCORES: [(&str, Scorer); 7] = [
    ("ImageLocality", image_locality::score),
    ("InterPodAffinity", inter_pod_affinity::score),
    ("NodeAffinity", node_affinity::score),
    ("NodeResourcesBalancedAllocation", balanced_allocation::score),
    ("NodeResourcesFit", fit::score),
    ("PodTopologySpread", topology_spread::score),
    ("TaintToleration", taint_toleration::score),
];

/// Adds to the verdicts of all nodes on a group, in the order of the nodes, the scores that its profile counts.
pub(crate) fn add(world: &World, job: &Job, group: usize, verdicts: &mut [NodeVerdict]) {
    let known = world.facts.plugins.get(&job.spec.class);
    let built_in = || world.cell.profiles().of(job.spec.class).map(|profile| Plugins::of(&profile.scores));
    let of_cell = if known.is_none() { built_in() } else { None };
    let Some(plugins) = known.or(of_cell.as_ref()) else { return };
    let fits = verdicts.iter().map(|verdict| verdict.fits).collect::<Vec<_>>();
    let Some(ground) = Ground::new(world, (job, group), plugins, &fits) else { return };
    for (name, scorer) in SCORES {
        let Some(weight) = plugins.weights.get(name).filter(|weight| **weight > 0) else { continue };
        let Some(scores) = scorer(&ground) else { continue };
        let fitting = verdicts.iter_mut().filter(|verdict| verdict.fits);
        for (verdict, score) in fitting.zip(scores) {
            let score = score.clamp(0, SCORE_MAX) as u32;
            verdict.scores.insert(name, score);
            *verdict.total.get_or_insert(0) += weight * score;
        }
    }
}
