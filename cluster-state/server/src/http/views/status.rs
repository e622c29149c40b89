//! The cell in numbers.

use super::words::shard;
use ohm_cell::{CORDONED, Cell, JobState, Session};
use ohm_model::{Lease, NodeHealth, Role, SessionId};
use ohm_wire::api::{JobTotals, NodeTotals, SessionView, StatusView, TaskTotals};

/// The cell in numbers, its sessions and leases.
pub(crate) fn status(cell: &Cell, leader: String) -> StatusView {
    let (jobs, tasks) = job_totals(cell);
    let (sessions, free_leases) = sessions(cell);
    StatusView {
        applied_index: cell.applied().0,
        chain: format!("{:016x}", cell.chain()),
        cell_version: cell.version(),
        stamped_ms: cell.now_ms(),
        leader,
        silent_nodes: cell.health().silent,
        held_until_ms: cell.health().held_until_ms,
        node_lease_ms: cell.health().lease_bound_ms,
        nodes: node_totals(cell),
        jobs,
        tasks,
        sessions,
        free_leases,
    }
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
            tasks.pending += if waits { group.pending.len().into() } else { 0 };
            tasks.backing_off += u64::from(group.backing_off);
            tasks.live += u64::from(group.live);
            tasks.running += u64::from(group.running);
        }
    }
    (jobs, tasks)
}

fn sessions(cell: &Cell) -> (Vec<SessionView>, Vec<String>) {
    let mut free = Vec::new();
    let mut views: Vec<SessionView> = cell
        .sessions()
        .iter()
        .map(|(id, session)| SessionView {
            id: id.0,
            role: role(session.role),
            name: session.name.clone(),
            state: state(cell, id, session).to_string(),
            renewed_index: session.renewed.0,
            spoke_ms: session.spoke_ms,
            leases: Vec::new(),
        })
        .collect();
    for (lease, state) in cell.sessions().leases() {
        let name = match lease {
            Lease::Health => "health".to_string(),
            Lease::Provisioning => "provisioning".to_string(),
            Lease::Shard(held) => shard(held),
        };
        let holder = state.holder.and_then(|holder| views.iter_mut().find(|view| view.id == holder.0));
        match holder {
            Some(view) => view.leases.push(name),
            None => free.push(name),
        }
    }
    (views, free)
}

/// Servers and clients say that they are there once a minute; two of their words may be lost.
const SILENT_MS: u64 = 150_000;
/// Whoever competes for leases speaks every few seconds.
const COMPETITOR_SILENT_MS: u64 = 15_000;

/// Whether the process behind a session is there, as far as the log knows.
fn state(cell: &Cell, id: SessionId, session: &Session) -> &'static str {
    let silent_ms = match session.role {
        Role::Server | Role::Client => SILENT_MS,
        Role::Scheduler(_) | Role::Health | Role::Provisioner => COMPETITOR_SILENT_MS,
    };
    match cell.now_ms().saturating_sub(session.spoke_ms) {
        _ if cell.sessions().is_superseded(id) => "replaced",
        silence_ms if silence_ms > silent_ms => "silent",
        _ => "alive",
    }
}

fn role(role: Role) -> String {
    match role {
        Role::Server => "server".to_string(),
        Role::Scheduler(class) => format!("scheduler {}", class.name()),
        Role::Health => "health".to_string(),
        Role::Client => "client".to_string(),
        Role::Provisioner => "provisioner".to_string(),
    }
}
