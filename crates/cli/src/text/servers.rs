//! Servers.

use super::Style;
use super::table::Grid;
use ohm_wire::api::{ServerList, ServerRole};

/// The servers of the cell.
pub(crate) fn servers_table(list: &ServerList, style: &Style) -> String {
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
