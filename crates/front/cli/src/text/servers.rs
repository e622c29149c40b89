//! Servers.

use super::Style;
use super::table::Grid;
use ohm_wire::api::{ServerEngine, ServerList, ServerRole};

/// The servers of the cell.
pub(crate) fn servers_table(list: &ServerList, style: &Style) -> String {
    if list.engine == ServerEngine::Etcd {
        return peers_table(list, style);
    }
    let mut grid = Grid::new(style, &["SERVER", "ROLE", "LEADS", "ADDRESS"]);
    for server in &list.servers {
        let role = match server.role {
            ServerRole::Voter => "voter",
            ServerRole::Learner => "learner",
        };
        let leads = if server.leads { "yes" } else { "" };
        grid.row([server.server.to_string(), role.into(), leads.into(), server.address.clone()]);
    }
    grid.text()
}

/// Servers over etcd: those that run, all alike.
fn peers_table(list: &ServerList, style: &Style) -> String {
    let mut grid = Grid::new(style, &["SERVER", "ROLE", "ADDRESS"]);
    for server in &list.servers {
        grid.row([server.server.to_string(), "peer over etcd".into(), server.address.clone()]);
    }
    grid.text()
}
