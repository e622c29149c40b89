//! Claims: whoever has room kept for a repair claims it, and is owed it; each lost task once, where there is room for
//! it.

use crate::cell::Cell;
use crate::judge::slices::may_join;
use crate::policy::claims::rooms_left;
use crate::state::jobs::Job;
use ohm_model::{GroupIndex, NodeId};

pub(crate) fn check_claims(cell: &Cell, job: &Job, broken: &mut Vec<String>) {
    let name = &job.spec.name;
    for (group, _) in cell.nominations.claims_of(job.id) {
        if job.owed(GroupIndex(group)).is_empty() {
            broken.push(format!("P10: job {name} claims room for group {group}, of which nothing waits"));
        }
        if job.owed_until_ms().is_none() {
            broken.push(format!("P10: job {name} claims room for ever"));
        }
    }
    for at in 0..job.groups.len() {
        let mut owed = job.owed(GroupIndex(at as u16));
        for (node, held) in cell.nominations.of_job(job.id).filter(|(_, held)| held.earmarks(job.id, at as u16)) {
            for rank in held.tasks.values() {
                let node_name = cell.nodes.name(node);
                if !owed.contains(rank, 1) {
                    broken.push(format!("P10: node {node_name} holds more for the repair of {name} than it lacks"));
                }
                if !may_join(cell, (job, at), rank, node) {
                    broken.push(format!("P5: node {node_name} holds room for task {rank} of {name} outside its slice"));
                }
                owed.remove(rank, 1);
            }
        }
    }
}

pub(crate) fn check_earmarks_on(cell: &Cell, node: NodeId, broken: &mut Vec<String>) {
    if !cell.nominations.on_node(node).iter().any(crate::rooms::nominations::Held::is_earmark) {
        return;
    }
    let name = cell.nodes.name(node);
    for (held, most) in rooms_left(cell, node) {
        let job = cell.jobs.get(held.job).map_or("?", |job| &job.spec.name);
        if most < held.count || held.count != held.tasks.len() {
            broken.push(format!("P1: node {name} holds room for {} lost tasks of {job}, and has {most}", held.count));
        }
    }
}
