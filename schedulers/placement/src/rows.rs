//! From spots to rows: which task goes where, on which devices.

use crate::devices::DeviceRoom;
use crate::subject::Subject;
use crate::topology::Seats;
use ohm_model::{NodeId, Placement, TaskIndex};
use std::collections::BTreeMap;

/// Rows for the group's waiting tasks over `spots`, in order: the lowest waiting task on the first spot. Stops early
/// when tasks or devices run out, which a caller that counted them never sees.
pub fn rows(subject: &Subject<'_>, spots: &[(NodeId, u32)]) -> Vec<Placement> {
    let pending = subject.view.pending(subject.job, subject.group);
    let mut ranges = pending.iter();
    let mut range = ranges.next();
    let mut rows = Vec::with_capacity(spots.len());
    // A node may be there more than once.
    let mut used: BTreeMap<NodeId, DeviceRoom<'_>> = BTreeMap::new();
    for &(node, count) in spots {
        let known = used.remove(&node);
        let mut devices = known.unwrap_or_else(|| DeviceRoom::new(&subject.view, subject.shape, node));
        let mut rest = count;
        while rest > 0 {
            let Some((first, length)) = range else { return rows };
            let Some(row) = row(subject, node, first, length.min(rest), &mut devices) else { break };
            let taken = row.count;
            rows.push(row);
            rest -= taken;
            range = if taken < length { Some((first + taken, length - taken)) } else { ranges.next() };
        }
        if !subject.shape.devices.is_empty() {
            used.insert(node, devices);
        }
    }
    rows
}

/// Rows for waiting tasks that are bound to a node each.
pub fn rows_bound(subject: &Subject<'_>, mut bound: Vec<(u32, NodeId)>) -> Vec<Placement> {
    bound.sort_unstable();
    seated(subject, &Seats { bound, ..Seats::default() })
}

/// Rows for seats: ranks that are bound to a node there, others in order.
pub(crate) fn seated(subject: &Subject<'_>, seats: &Seats) -> Vec<Placement> {
    if seats.bound.is_empty() && seats.ranks.is_empty() {
        return rows(subject, &seats.free);
    }
    let ranks = seats.ranks.iter().copied();
    let free = seats.free.iter().flat_map(|(node, count)| std::iter::repeat_n(*node, *count as usize));
    let bound = seats.bound.iter().map(|(rank, node)| (*node, *rank));
    let mut by_node: Vec<(NodeId, u32)> = bound.chain(free.zip(ranks)).collect();
    by_node.sort_unstable();
    let mut rows = Vec::with_capacity(by_node.len());
    for ranks in by_node.chunk_by(|one, other| one.0 == other.0) {
        let mut devices = DeviceRoom::new(&subject.view, subject.shape, ranks[0].0);
        for run in ranks.chunk_by(|one, other| one.1 + 1 == other.1) {
            rows.extend(row(subject, ranks[0].0, run[0].1, run.len() as u32, &mut devices));
        }
    }
    rows.sort_unstable_by_key(|row| row.first);
    rows
}

fn row(subject: &Subject<'_>, node: NodeId, first: u32, count: u32, devices: &mut DeviceRoom<'_>) -> Option<Placement> {
    let (mut masks, mut placed) = (Vec::new(), count);
    if !subject.shape.devices.is_empty() {
        placed = (0..count).take_while(|_| devices.take(&mut masks)).count() as u32;
    }
    (placed > 0).then(|| Placement {
        job: subject.job.id,
        group: subject.group,
        first: TaskIndex(first),
        count: placed,
        node,
        class: subject.view.cell().nodes().class(node),
        devices: masks,
    })
}
