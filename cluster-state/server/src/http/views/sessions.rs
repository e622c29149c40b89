//! Sessions: who holds which lease, and who still speaks.

use super::words::shard;
use ohm_cell::{Cell, Session};
use ohm_model::{Lease, Role, SessionId};
use ohm_wire::api::SessionView;

/// Servers and clients say that they are there once a minute; two of their words may be lost.
const SILENT_MS: u64 = 150_000;
/// Whoever competes for leases speaks every few seconds.
const COMPETITOR_SILENT_MS: u64 = 15_000;

/// Every session with the leases that it holds, and the leases that nobody holds.
pub(super) fn sessions(cell: &Cell) -> (Vec<SessionView>, Vec<String>) {
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

/// Whether the process behind a session is there, as far as the log knows.
pub(super) fn is_alive(cell: &Cell, id: SessionId, session: &Session) -> bool {
    state(cell, id, session) == "alive"
}

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
