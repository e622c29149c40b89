//! Heads of lines: each can use what is kept for it, and no line has two.

use crate::cell::Cell;
use crate::policy::heads::{may_stand, waits_for_its_rooms};
use crate::rooms::heads::{HEAD_MS_MAX, others_at_head};
use crate::state::jobs::Job;
use ohm_model::Purpose;

pub(crate) fn check_head(cell: &Cell, job: &Job, broken: &mut Vec<String>) {
    if !cell.nominations.is_head(job.id) {
        return;
    }
    let name = &job.spec.name;
    if !waits_for_its_rooms(cell, job) {
        broken.push(format!("P10: room is kept for {name}, the head of its line, which does not wait for it"));
    }
    if let Some(other) = others_at_head(cell, job).next() {
        broken.push(format!("P10: {name} and {} are both the head of one line", other.spec.name));
    }
    for (node, held) in cell.nominations.of_job(job.id).filter(|(_, held)| held.is_head()) {
        let node_name = cell.nodes.name(node);
        if !may_stand(cell, held, node) {
            broken
                .push(format!("P10: node {node_name} keeps room for {name}, the head of its line, and can't take it"));
        }
        let Purpose::Head { start_ms, until_ms, .. } = held.purpose else { continue };
        if start_ms > until_ms || until_ms > cell.now_ms.saturating_add(HEAD_MS_MAX) {
            broken.push(format!("P10: node {node_name} keeps room for {name}, the head of its line, for too long"));
        }
    }
}
