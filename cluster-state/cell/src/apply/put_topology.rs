//! Topologies are put and removed.

use crate::apply::Tx;
use crate::apply::steps::names::check_names;
use crate::state::topologies::Topology;
use ohm_model::topology::LEVELS_MAX;
use ohm_model::{NodeId, Outcome, Refusal, TopologySpec};
use std::collections::BTreeSet;

pub(crate) fn put_topology(tx: &mut Tx<'_>, spec: &TopologySpec) -> Result<Outcome, Refusal> {
    let invalid = |field: &str, problem: String| Err(Refusal::Invalid { field: field.into(), problem });
    check_names(spec)?;
    let distinct: BTreeSet<&String> = spec.levels.iter().collect();
    if spec.levels.is_empty() || spec.levels.len() > LEVELS_MAX || distinct.len() != spec.levels.len() {
        return invalid("spec.levels", format!("1 to {LEVELS_MAX} distinct labels are possible"));
    }
    let host = spec.levels.iter().position(|level| level == ohm_model::node::HOSTNAME_LABEL);
    if host.is_some_and(|host| host + 1 != spec.levels.len()) {
        return invalid("spec.levels", "the host name can only be the last level".into());
    }
    if let Some(known) = tx.topologies.iter().find(|known| known.spec.name == spec.name) {
        if known.spec == *spec {
            return Ok(Outcome::Done);
        }
        let hint = "remove it first, or choose another name".to_string();
        return Err(Refusal::NameTaken { kind: "topology".into(), name: spec.name.clone(), hint });
    }
    let mut topology = Topology::new(spec.clone());
    let nodes: Vec<NodeId> = tx.nodes.iter().map(|(node, _)| node).collect();
    for node in nodes {
        if let Some(record) = tx.nodes.get(node) {
            topology.join(node, &record.spec.labels);
        }
    }
    tx.topologies.put(topology);
    Ok(Outcome::Done)
}

pub(crate) fn remove_topology(tx: &mut Tx<'_>, name: &str) -> Result<Outcome, Refusal> {
    if !tx.topologies.iter().any(|known| known.spec.name == name) {
        return Err(Refusal::NotFound { kind: "topology".into(), name: name.into() });
    }
    let uses = |group: &ohm_model::GroupSpec| {
        let request = &group.topology;
        request.is_asked() && (request.topology == name || request.topology.is_empty())
    };
    let open = |job: &&std::sync::Arc<crate::state::jobs::Job>| {
        !matches!(job.state, crate::state::jobs::JobState::Finished(_))
    };
    if let Some(job) = tx.jobs.iter().filter(open).find(|job| job.spec.groups.iter().any(uses)) {
        return Err(Refusal::WrongState {
            kind: "topology".into(),
            name: name.into(),
            state: format!("used by job {}", job.spec.name),
            hint: "cancel the job or wait for its end".into(),
        });
    }
    tx.topologies.remove(name);
    Ok(Outcome::Done)
}
