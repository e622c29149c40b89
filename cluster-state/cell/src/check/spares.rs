//! Spares: as many as their group says, no more than it wants, each where it may be and where there is room for it.

use crate::cell::Cell;
use crate::policy::spares::spare_misplaced;
use crate::rooms::nominations::Held;
use crate::rooms::overlay::Overlay;
use crate::rooms::reads::room_for_spares;
use crate::state::jobs::Job;
use ohm_model::{GroupIndex, NodeId};

pub(crate) fn check_spares(cell: &Cell, job: &Job, broken: &mut Vec<String>) {
    for (at, (group, spec)) in job.groups.iter().zip(&job.spec.groups).enumerate() {
        let label = || format!("job {} group {}", job.spec.name, spec.name);
        let index = GroupIndex(at as u16);
        let counted: u32 = cell.spares_of(job.id, index).map(|(_, count)| count).sum();
        if counted != group.spares {
            broken.push(format!("P1: {}: {} spares kept, {counted} counted", label(), group.spares));
        }
        let wanted = if matches!(job.state, crate::state::jobs::JobState::Active) { job.spares_wanted(at) } else { 0 };
        if group.spares > wanted {
            broken.push(format!("P6: {} holds {} spares and is to have {wanted}", label(), group.spares));
        }
        for (node, _) in cell.spares_of(job.id, index) {
            let astray = job.binding_level(at).is_some()
                && job.shared_domain(at).is_some_and(|domain| cell.domain_key(job, at, node) != Some(domain));
            if astray {
                let name = cell.nodes.name(node);
                broken.push(format!("P5: a spare of {} is held on {name}, outside its domain", label()));
            }
        }
    }
}

pub(crate) fn check_spares_on(cell: &Cell, node: NodeId, broken: &mut Vec<String>) {
    let on_node = cell.nominations.on_node(node);
    let name = cell.nodes.name(node);
    for (at, held) in on_node.iter().enumerate().filter(|(_, held)| held.is_spare()) {
        let job = cell.jobs.get(held.job).map_or("?", |job| &job.spec.name);
        if let Some(why) = spare_misplaced(cell, held, node) {
            broken.push(format!("P8: node {name} holds a spare of job {job}, though {why}"));
        }
        let binds = |(other, found): &(usize, &Held)| {
            let stronger = (found.priority, std::cmp::Reverse((found.since, found.job, found.group)))
                > (held.priority, std::cmp::Reverse((held.since, held.job, held.group)));
            *other != at && (found.is_move() || found.is_earmark() || (found.is_spare() && stronger))
        };
        let mut over = Overlay::default();
        over.bare(node);
        on_node.iter().enumerate().filter(binds).for_each(|(_, held)| over.hold(node, held.clone()));
        let Some(found) = cell.jobs.get(held.job) else { continue };
        if room_for_spares(cell, (found, GroupIndex(held.group)), node, held.count, &over) < held.count {
            broken.push(format!("P1: node {name} has no room for a spare of job {job}"));
        }
    }
}
