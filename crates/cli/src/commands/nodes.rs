//! Questions and orders about nodes.

use super::Session;
use crate::client::path_of;
use crate::command::NodeCommand;
use crate::failure::{EXIT_DONE, Failure};
use crate::output::note;
use crate::text;
use ohm_wire::api::{NodeDetail, NodeList, NodeSummary};
use serde_json::json;

/// Most nodes that are asked for at once.
const PAGE: usize = 10_000;

pub(crate) fn list(session: &Session) -> Result<u8, Failure> {
    let mut list = NodeList::default();
    loop {
        let query = [("limit", PAGE.to_string()), ("after", list.next.clone())];
        let page: NodeList = session.client.get("/v1/nodes", &query)?;
        list.nodes.extend(page.nodes);
        (list.total, list.next) = (page.total, page.next);
        if list.next.is_empty() {
            break;
        }
    }
    session.output.print(&list, |style| text::nodes_table(&list, style))?;
    Ok(EXIT_DONE)
}

pub(crate) fn one(session: &Session, command: &NodeCommand) -> Result<u8, Failure> {
    match command {
        NodeCommand::Show(node) => {
            let view: NodeDetail = session.client.get(&path_of("nodes", &node.name), &[])?;
            session.output.print(&view, |style| text::node_text(&view, style))?;
        }
        NodeCommand::Cordon(node) => change(session, &node.name, "cordon", "cordoned")?,
        NodeCommand::Uncordon(node) => change(session, &node.name, "uncordon", "uncordoned")?,
        NodeCommand::Release(node) => change(session, &node.name, "release", "held down no more")?,
        NodeCommand::Remove(node) => {
            let before: NodeDetail = session.client.get(&path_of("nodes", &node.name), &[])?;
            session.client.delete(&path_of("nodes", &node.name))?;
            session.output.print(&json!({"removed": node.name}), |_| format!("node {} removed\n", node.name))?;
            if before.summary.health == "ready" {
                note("hint: its agent still runs and registers it again; stop that one first, or cordon the node");
            }
        }
    }
    Ok(EXIT_DONE)
}

fn change(session: &Session, name: &str, action: &str, state: &str) -> Result<(), Failure> {
    let node: NodeSummary = session.client.post(&format!("{}/{action}", path_of("nodes", name)))?;
    session.output.print(&node, |_| format!("node {name} is {state}\n"))
}
