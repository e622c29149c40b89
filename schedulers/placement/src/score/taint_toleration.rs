//! TaintToleration: `PreferNoSchedule` taints that the group does not tolerate, each a whole weight.
//!
//! kube-scheduler counts them in shares of the node with most of them; here one taint always counts alike.

use super::costs::{ClassQuestion, Lost};
use ohm_model::{Taint, TaintEffect};

/// More taints than this make a node no worse.
const COUNTED_MAX: usize = 4;

pub(super) fn lost(question: &ClassQuestion<'_>) -> Lost {
    let disliked = |taint: &&Taint| {
        taint.effect == TaintEffect::PreferNoSchedule && !question.tolerations.iter().any(|t| t.covers(taint))
    };
    let taints = question.class.taints.iter().filter(disliked).count().min(COUNTED_MAX);
    Lost { parts: taints as u64, of: 1 }
}
