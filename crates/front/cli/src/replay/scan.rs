//! The independent scan: whether a pod that waits fits what is free at the end. It knows nothing of planners and shares
//! no code with them: for each pod it looks at each node, as the API shows it, and at each of its devices.

use super::documents::{GPU, MODEL_LABEL};
use super::trace::{DEVICE_MILLI, Request};
use ohm_manifest::{Rounding, parse_quantity};
use ohm_model::UnitKind;
use ohm_wire::api::NodeSummary;
use serde::Serialize;
use std::collections::BTreeMap;

/// The API's answer cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum ScanError {
    /// An amount is no quantity.
    #[error("node {node} has {text} of {resource}, which is no quantity")]
    Amount {
        /// The node.
        node: String,
        /// The resource.
        resource: String,
        /// What stands there.
        text: String,
    },
}

/// A pod that waits although it fits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Stuck {
    /// The job.
    pub(super) job: String,
    /// A node on which it fits.
    pub(super) node: String,
    /// On how many nodes it fits.
    pub(super) nodes: usize,
}

/// What is free on a node that takes work.
struct Room<'n> {
    name: &'n str,
    model: Option<&'n str>,
    cpu_milli: i64,
    memory_bytes: i64,
    pods: i64,
    gpu_milli: i64,
    /// Thousandths of each device that is tracked singly.
    devices: &'n [u16],
}

/// The pods of `waiting` (their jobs' names and what they ask for) that fit a node of `nodes` now.
///
/// # Errors
/// An amount in `nodes` that is no quantity.
pub(super) fn scan(nodes: &[NodeSummary], waiting: &[(String, Request)]) -> Result<Vec<Stuck>, ScanError> {
    let takes_work = |node: &&NodeSummary| node.health == "ready" && node.schedulable && !node.cordoned;
    let rooms = nodes.iter().filter(takes_work).map(room).collect::<Result<Vec<_>, _>>()?;
    // Pods that ask for the same fit on the same nodes.
    let mut found: BTreeMap<&Request, (usize, &str)> = BTreeMap::new();
    let mut stuck = Vec::new();
    for (job, request) in waiting {
        let (nodes, node) = *found.entry(request).or_insert_with(|| {
            let mut open = rooms.iter().filter(|room| room.fits(request)).map(|room| room.name);
            let first = open.next();
            first.map_or((0, ""), |first| (1 + open.count(), first))
        });
        if nodes > 0 {
            stuck.push(Stuck { job: job.clone(), node: node.to_string(), nodes });
        }
    }
    Ok(stuck)
}

fn room(node: &NodeSummary) -> Result<Room<'_>, ScanError> {
    let free = |resource: &str| amount_of(node, &node.free, resource);
    Ok(Room {
        name: &node.name,
        model: node.labels.get(MODEL_LABEL).map(String::as_str),
        cpu_milli: free("cpu")?,
        memory_bytes: free("memory")?,
        pods: free("pods")?,
        gpu_milli: free(GPU)?,
        devices: node.devices.get(GPU).map_or(&[], Vec::as_slice),
    })
}

impl Room<'_> {
    fn fits(&self, request: &Request) -> bool {
        let is_model = request.models.is_empty()
            || self.model.is_some_and(|model| request.models.iter().any(|wanted| wanted == model));
        is_model
            && self.pods >= 1
            && self.cpu_milli >= request.cpu_milli
            && self.memory_bytes >= request.memory_mib << 20
            && self.gpu_milli >= request.gpu_milli
            && self.has_devices(request.gpu_milli)
    }

    /// A share must fit on one device; whole devices must be wholly free.
    fn has_devices(&self, gpu_milli: i64) -> bool {
        let mut free = self.devices.iter().map(|free| i64::from(*free));
        match gpu_milli {
            0 => true,
            1..DEVICE_MILLI => free.any(|free| free >= gpu_milli),
            _ => free.filter(|free| *free == DEVICE_MILLI).count() as i64 >= gpu_milli / DEVICE_MILLI,
        }
    }
}

/// How much of `resource` is in `amounts`, in the units of the model; 0 where it is absent or below zero.
fn amount_of(node: &NodeSummary, amounts: &BTreeMap<String, String>, resource: &str) -> Result<i64, ScanError> {
    let Some(text) = amounts.get(resource).filter(|text| !text.starts_with('-')) else { return Ok(0) };
    parse_quantity(text, UnitKind::of(resource), Rounding::Down).map_err(|_| ScanError::Amount {
        node: node.name.clone(),
        resource: resource.to_string(),
        text: text.clone(),
    })
}

/// What all nodes have of `resource`, and what of it is free, in the units of the model.
///
/// # Errors
/// An amount that is no quantity.
pub(super) fn totals(nodes: &[NodeSummary], resource: &str) -> Result<(i64, i64), ScanError> {
    let (mut capacity, mut free) = (0i64, 0i64);
    for node in nodes {
        capacity = capacity.saturating_add(amount_of(node, &node.capacity, resource)?);
        free = free.saturating_add(amount_of(node, &node.free, resource)?);
    }
    Ok((capacity, free))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node with 4 cores, 8 GiB, 2 pods and these shares of its devices free.
    fn node(name: &str, devices: &[u16]) -> NodeSummary {
        let gpu = devices.iter().map(|free| u32::from(*free)).sum::<u32>();
        let amounts = [("cpu", "4".to_string()), ("memory", "8Gi".into()), ("pods", "2".into())];
        let amounts = amounts.into_iter().chain([(GPU, format!("{gpu}m"))]);
        let free: BTreeMap<String, String> = amounts.map(|(name, amount)| (name.to_string(), amount)).collect();
        NodeSummary {
            name: name.into(),
            health: "ready".into(),
            schedulable: true,
            labels: [(MODEL_LABEL.to_string(), "T4".to_string())].into(),
            capacity: [("cpu".to_string(), "8".to_string()), (GPU.to_string(), devices.len().to_string())].into(),
            free,
            devices: [(GPU.to_string(), devices.to_vec())].into(),
            ..NodeSummary::default()
        }
    }

    fn asks(cpu_milli: i64, memory_mib: i64, gpu_milli: i64) -> Request {
        Request { cpu_milli, memory_mib, gpu_milli, models: Vec::new() }
    }

    fn fits(nodes: &[NodeSummary], request: Request) -> bool {
        !scan(nodes, &[("job".to_string(), request)]).unwrap().is_empty()
    }

    #[test]
    fn every_resource_must_fit_on_the_same_node() {
        let nodes = [node("a", &[])];
        assert!(fits(&nodes, asks(4000, 8192, 0)));
        assert!(!fits(&nodes, asks(4001, 8192, 0)) && !fits(&nodes, asks(4000, 8193, 0)));
        let mut full = node("b", &[]);
        full.free.insert("pods".into(), "0".into());
        assert!(!fits(&[full], asks(1, 1, 0)));
        let (mut little_cpu, mut little_memory) = (node("c", &[]), node("d", &[]));
        little_cpu.free.insert("cpu".into(), "-500m".into());
        little_memory.free.insert("memory".into(), "1Mi".into());
        assert!(!fits(&[little_cpu, little_memory], asks(1000, 2, 0)));
    }

    #[test]
    fn a_share_must_fit_on_one_device_and_whole_devices_must_be_free() {
        let nodes = [node("a", &[400, 400]), node("b", &[300])];
        assert!(fits(&nodes, asks(1, 1, 400)));
        assert!(!fits(&nodes, asks(1, 1, 401)), "800 are free in sum, but on two devices");
        assert!(!fits(&nodes, asks(1, 1, 1000)));
        let nodes = [node("a", &[1000, 999, 1000])];
        assert!(fits(&nodes, asks(1, 1, 999)) && fits(&nodes, asks(1, 1, 1000)) && fits(&nodes, asks(1, 1, 2000)));
        assert!(!fits(&nodes, asks(1, 1, 3000)));
        // A node whose devices are not shown is not taken for one that has room.
        let mut hidden = node("a", &[1000]);
        hidden.devices.clear();
        assert!(!fits(&[hidden], asks(1, 1, 1000)));
    }

    #[test]
    fn nodes_that_take_no_work_and_other_models_do_not_count() {
        let (mut cordoned, mut lost, mut unschedulable) = (node("a", &[]), node("b", &[]), node("c", &[]));
        cordoned.cordoned = true;
        lost.health = "lost".into();
        unschedulable.schedulable = false;
        assert!(!fits(&[cordoned, lost, unschedulable], asks(1, 1, 0)));
        let wanting =
            |models: &[&str]| Request { models: models.iter().map(|m| m.to_string()).collect(), ..asks(1, 1, 0) };
        assert!(fits(&[node("a", &[])], wanting(&["G2", "T4"])) && !fits(&[node("a", &[])], wanting(&["G2"])));
    }

    #[test]
    fn each_stuck_pod_is_named_with_a_node() {
        let nodes = [node("a", &[]), node("b", &[500]), node("c", &[600])];
        let waiting = [("j1", asks(1, 1, 500)), ("j2", asks(9000, 1, 0)), ("j3", asks(1, 1, 500))];
        let waiting: Vec<_> = waiting.into_iter().map(|(job, request)| (job.to_string(), request)).collect();
        let stuck = |job: &str| Stuck { job: job.into(), node: "b".into(), nodes: 2 };
        assert_eq!(scan(&nodes, &waiting).unwrap(), [stuck("j1"), stuck("j3")]);
    }

    #[test]
    fn amounts_are_summed_or_refused() {
        let mut nodes = [node("a", &[500, 1000]), node("b", &[0])];
        assert_eq!(totals(&nodes, "cpu"), Ok((16_000, 8000)));
        assert_eq!(totals(&nodes, GPU), Ok((3000, 1500)));
        nodes[1].free.insert("cpu".into(), "much".into());
        let error = scan(&nodes, &[]).unwrap_err();
        assert_eq!(error.to_string(), "node b has much of cpu, which is no quantity");
    }
}
