//! Questions about nodes.

use super::answer::{Answer, Problem, json};
use super::jobs::{LISTED_DEFAULT, LISTED_MAX, PAGE_DEFAULT, PAGE_MAX, insert_bounded};
use super::params::{Name, Params};
use super::shared::Shared;
use super::views;
use axum::extract::State;
use ohm_wire::api::NodeList;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    limit: Option<usize>,
    after: Option<String>,
}

pub(super) async fn list(State(shared): State<Shared>, Params(query): Params<ListQuery>) -> Answer {
    let cell = shared.cells.now().await?;
    let limit = query.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX);
    let after = query.after.as_deref().unwrap_or_default();
    let mut page = BTreeMap::new();
    let mut more = false;
    for (node, record) in cell.nodes().iter() {
        if record.spec.name.as_str() > after {
            more |= insert_bounded(&mut page, &record.spec.name, node, limit);
        }
    }
    let next = page.last_key_value().filter(|_| more).map_or_else(String::new, |(name, _)| name.to_string());
    let nodes = page.into_values().filter_map(|node| views::node_summary(&cell, node)).collect();
    Ok(json(cell.applied(), &NodeList { nodes, total: cell.nodes().len() as u64, next }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowQuery {
    runs: Option<usize>,
}

pub(super) async fn show(State(shared): State<Shared>, Name(name): Name, Params(query): Params<ShowQuery>) -> Answer {
    let cell = shared.cells.now().await?;
    let node = cell.nodes().find(&name).ok_or_else(|| Problem::no_node(&name))?;
    let runs = query.runs.unwrap_or(LISTED_DEFAULT).min(LISTED_MAX);
    let view = views::node_detail(&cell, node, runs).ok_or_else(|| Problem::no_node(&name))?;
    Ok(json(cell.applied(), &view))
}
