//! A person puts a taint on a node, or takes taints off. They are apart from those that the node registers with and
//! from those of its state: they stay when it registers anew, and nobody else takes them off.

use crate::apply::Tx;
use crate::apply::cordon_node::named_node;
use crate::policy::conditions::reclassify;
use crate::policy::evictions::evict_repelled;
use crate::policy::tolerations::watch_tolerations;
use ohm_model::condition::own_prefix;
use ohm_model::{EventKind, NodeId, Outcome, Refusal, Taint, TaintPattern, names};

/// Most taints that people put on one node.
const PUT_TAINTS_MAX: usize = 64;

fn invalid(field: &str, problem: String) -> Refusal {
    Refusal::Invalid { field: field.into(), problem }
}

pub(crate) fn taint_node(tx: &mut Tx<'_>, name: &str, taint: &Taint) -> Result<Outcome, Refusal> {
    let node = named_node(tx, name)?;
    names::label_key(&taint.key).map_err(|error| invalid("key", error.to_string()))?;
    names::label_value(&taint.value).map_err(|error| invalid("value", error.to_string()))?;
    if let Some(prefix) = own_prefix(&taint.key) {
        let problem = format!("{taint}: the cell sets taints with {prefix} by itself; choose another key");
        return Err(invalid("key", problem));
    }
    let record = tx.record(node);
    let is_same = |known: &&Taint| (&known.key, known.effect) == (&taint.key, taint.effect);
    if let Some(known) = record.put_taints.iter().find(is_same) {
        return Err(invalid("taint", format!("node {name} has {known} already; take that off first")));
    }
    if let Some(known) = record.spec.taints.iter().find(is_same) {
        let problem = format!("node {name} registers with {known} already; its agent's --taint says so");
        return Err(invalid("taint", problem));
    }
    if record.put_taints.len() >= PUT_TAINTS_MAX {
        return Err(invalid("taint", format!("node {name} has {PUT_TAINTS_MAX} taints already, which is the most")));
    }
    tx.record_mut(node).put_taints.push(taint.clone());
    tell(tx, node, name, taint.clone(), true);
    settle(tx, node);
    Ok(Outcome::Done)
}

pub(crate) fn untaint_node(tx: &mut Tx<'_>, name: &str, pattern: &TaintPattern) -> Result<Outcome, Refusal> {
    let node = named_node(tx, name)?;
    let record = tx.record_mut(node);
    let (gone, kept) = std::mem::take(&mut record.put_taints).into_iter().partition(|taint| pattern.matches(taint));
    let gone: Vec<Taint> = gone;
    record.put_taints = kept;
    if gone.is_empty() {
        if let Some(own) = record.taints.iter().find(|taint| pattern.matches(taint)) {
            let problem = format!(
                "{own} of node {name} was not put there by `ohm node taint`: its agent or its state is the cause"
            );
            return Err(invalid("taint", problem));
        }
        return Err(Refusal::NotFound { kind: "taint".into(), name: format!("{pattern} on node {name}") });
    }
    gone.into_iter().for_each(|taint| tell(tx, node, name, taint, false));
    settle(tx, node);
    Ok(Outcome::Done)
}

fn tell(tx: &mut Tx<'_>, node: NodeId, name: &str, taint: Taint, tainted: bool) {
    tx.tell(EventKind::NodeTainted { node, name: name.to_string(), taint, tainted });
}

/// The node has another class from now on, and what does not tolerate it any more leaves.
fn settle(tx: &mut Tx<'_>, node: NodeId) {
    let former = reclassify(tx, node);
    tx.classes.leave(former);
    tx.free_node(node);
    tx.touch_node(node);
    evict_repelled(tx, node);
    watch_tolerations(tx, node);
}
