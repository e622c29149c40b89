//! The cell in numbers.

use super::sessions::sessions;
use crate::handle::Servers;
use crate::metrics::Judged;
use ohm_cell::{CORDONED, Cell, JobState};
use ohm_model::{Class, NodeHealth};
use ohm_replica::NEAR_MS;
use ohm_wire::api::{ClockView, JobTotals, JudgedView, NodeTotals, StatusView, TaskTotals};

/// The cell in numbers, its sessions and leases.
pub(crate) fn status(cell: &Cell, servers: &Servers) -> StatusView {
    let (jobs, tasks) = job_totals(cell);
    let (sessions, free_leases) = sessions(cell);
    StatusView {
        applied_index: cell.applied().0,
        chain: format!("{:016x}", cell.chain()),
        cell_version: cell.version(),
        stamped_ms: cell.now_ms(),
        leader: servers.leader.map_or_else(String::new, |leader| leader.to_string()),
        clocks: clocks(servers),
        silent_nodes: cell.health().silent,
        held_until_ms: cell.health().held_until_ms,
        node_lease_ms: cell.health().lease_bound_ms,
        nodes: node_totals(cell),
        jobs,
        tasks,
        sessions,
        free_leases,
        judged: servers.judged.iter().map(judged).collect(),
    }
}

fn judged((class, seen): (&Class, &Judged)) -> JudgedView {
    let conflicts = seen.conflicts.iter().map(|(reason, rows)| (reason.to_string(), *rows));
    JudgedView {
        class: class.to_string(),
        transactions: seen.transactions,
        conflicted: seen.conflicted,
        conflicts: conflicts.collect(),
    }
}

fn clocks(servers: &Servers) -> Vec<ClockView> {
    let offsets = servers.time.iter().flat_map(|time| &time.offsets_ms);
    offsets
        .map(|&(server, offset_ms)| ClockView { server, offset_ms, unbelieved: offset_ms > NEAR_MS as i64 })
        .collect()
}

fn node_totals(cell: &Cell) -> NodeTotals {
    let mut totals = NodeTotals::default();
    for (node, record) in cell.nodes().iter() {
        totals.total += 1;
        totals.cordoned += u64::from(cell.nodes().flags(node) & CORDONED != 0);
        match record.health {
            NodeHealth::Ready => totals.ready += 1,
            NodeHealth::Suspect => totals.suspect += 1,
            NodeHealth::Lost => totals.lost += 1,
        }
    }
    totals
}

fn job_totals(cell: &Cell) -> (JobTotals, TaskTotals) {
    let (mut jobs, mut tasks) = (JobTotals::default(), TaskTotals::default());
    for job in cell.jobs().iter() {
        jobs.total += 1;
        match job.phase() {
            "pending" => jobs.pending += 1,
            "running" => jobs.running += 1,
            "suspended" => jobs.suspended += 1,
            "succeeded" => jobs.succeeded += 1,
            "failed" => jobs.failed += 1,
            _ => jobs.cancelled += 1,
        }
        // A finished job waits for nothing, but what it left behind may still be stopping.
        let waits = !matches!(job.state, JobState::Finished(_));
        for group in &job.groups {
            tasks.pending += if waits { u64::from(group.pending.len()) + u64::from(group.held) } else { 0 };
            tasks.backing_off += u64::from(group.backing_off);
            tasks.live += u64::from(group.live);
            tasks.running += u64::from(group.running);
            tasks.unready += u64::from(group.unready);
        }
    }
    (jobs, tasks)
}
