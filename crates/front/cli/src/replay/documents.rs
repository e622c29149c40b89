//! A trace in the words of the cell: Node documents for the agent, Job documents for the API.
//!
//! Everything carries the mark of its replay: in names, so that two replays at a time do not collide; as a taint, so
//! that nobody else's task lands on a simulated node; as a required label, so that no pod of the trace lands on a node
//! that would really try to run it.

use super::speed::Speed;
use super::trace::{Request, TraceNode, TracePod};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// The resource that counts devices.
pub(super) const GPU: &str = "nvidia.com/gpu";
/// The label that names the type of a node's devices.
pub(super) const MODEL_LABEL: &str = "gpu.ohm/model";
/// The label and taint that name the replay.
const RUN_LABEL: &str = "replay.ohm/run";
/// How many tasks a node of the trace may hold.
const PODS_PER_NODE: u32 = 1000;

/// The name of one replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunName(String);

impl RunName {
    /// A name that no other replay has.
    pub(super) fn random() -> Self {
        RunName(format!("replay-{:08x}", ohm_runtime::dice::random_u64() >> 32))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// With what all its names begin.
    pub(super) fn prefix(&self) -> String {
        format!("{}-", self.0)
    }

    /// The name of a node or job in the cell.
    pub(super) fn named(&self, name: &str) -> String {
        format!("{}-{name}", self.0)
    }
}

/// Node documents, one JSON value per line, as `ohm agent --sim` reads them.
pub(super) fn node_file(run: &RunName, nodes: &[TraceNode]) -> String {
    let mut file = String::new();
    for node in nodes {
        let _ = writeln!(file, "{}", node_document(run, node));
    }
    file
}

fn node_document(run: &RunName, node: &TraceNode) -> Value {
    let mut labels = Map::from_iter([(RUN_LABEL.to_string(), json!(run.0))]);
    if !node.model.is_empty() {
        labels.insert(MODEL_LABEL.to_string(), json!(node.model));
    }
    let mut capacity = amounts(node.cpu_milli, node.memory_mib);
    capacity.insert("pods".to_string(), json!(PODS_PER_NODE));
    if node.gpus > 0 {
        capacity.insert(GPU.to_string(), json!(node.gpus));
    }
    json!({
        "apiVersion": "ohm/v1",
        "kind": "Node",
        "metadata": {"name": run.named(&node.name), "labels": labels},
        "spec": {"taints": [{"key": RUN_LABEL, "value": run.0, "effect": "NoSchedule"}]},
        "status": {"capacity": capacity},
    })
}

/// The job of `pod`: one task.
pub(super) fn job_document(run: &RunName, pod: &TracePod, speed: Speed) -> Value {
    let mut spec = json!({
        "class": class(pod),
        "requests": requests(&pod.request),
        "nodeSelector": {RUN_LABEL: run.0},
        "tolerations": [{"key": RUN_LABEL, "operator": "Equal", "value": run.0, "effect": "NoSchedule"}],
    });
    if !pod.request.models.is_empty() {
        let models = json!({"key": MODEL_LABEL, "operator": "In", "values": pod.request.models});
        let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [models]}]});
        spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
    }
    // A service that ended would be started again: it is cancelled when its time has come, instead.
    if let (Some(duration_ms), false) = (speed.duration_ms(pod), pod.is_service) {
        spec["sim"] = json!({"duration": format!("{duration_ms}ms")});
    }
    json!({"apiVersion": "ohm/v1", "kind": "Job", "metadata": {"name": run.named(&pod.name)}, "spec": spec})
}

fn class(pod: &TracePod) -> &'static str {
    if pod.is_service { "service" } else { "batch" }
}

fn requests(request: &Request) -> Map<String, Value> {
    let mut requests = amounts(request.cpu_milli, request.memory_mib);
    if request.gpu_milli > 0 {
        requests.insert(GPU.to_string(), json!(format!("{}m", request.gpu_milli)));
    }
    requests
}

fn amounts(cpu_milli: i64, memory_mib: i64) -> Map<String, Value> {
    let amounts = [("cpu", cpu_milli, "m"), ("memory", memory_mib, "Mi")];
    let amounts = amounts.into_iter().filter(|(_, amount, _)| *amount > 0);
    amounts.map(|(name, amount, unit)| (name.to_string(), json!(format!("{amount}{unit}")))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_manifest::{Content, parse};
    use ohm_model::{Amounts, Class, JobSpec, NodeSpec};

    fn run() -> RunName {
        RunName("replay-1".into())
    }

    fn pod(gpu_milli: i64, is_service: bool) -> TracePod {
        let request = Request { cpu_milli: 6000, memory_mib: 1024, gpu_milli, models: Vec::new() };
        TracePod { name: "pod-1".into(), request, is_service, created_s: 100, deleted_s: 400 }
    }

    fn read_job(pod: &TracePod, speed: Speed) -> JobSpec {
        let document = job_document(&run(), pod, speed).to_string();
        match parse("line.json", document.as_bytes()).remove(0).unwrap().content {
            Content::Job(job) => *job,
            other => panic!("{other:?}"),
        }
    }

    fn read_nodes(nodes: &[TraceNode]) -> Vec<NodeSpec> {
        let documents = parse("nodes.json", node_file(&run(), nodes).as_bytes());
        let specs = documents.into_iter().map(|document| match document.unwrap().content {
            Content::Node(node) => node.spec,
            other => panic!("{other:?}"),
        });
        specs.collect()
    }

    #[test]
    fn nodes_are_what_an_agent_reads() {
        let node = |name: &str, gpus, model: &str| TraceNode {
            name: name.into(),
            cpu_milli: 96_000,
            memory_mib: 2,
            gpus,
            model: model.into(),
        };
        let nodes = read_nodes(&[node("a", 8, "T4"), node("b", 0, "")]);
        assert_eq!(nodes[0].name, "replay-1-a");
        assert_eq!(nodes[0].labels.get(MODEL_LABEL).map(String::as_str), Some("T4"));
        let mut capacity = Amounts::from([("cpu".into(), 96_000), ("memory".into(), 2 << 20), ("pods".into(), 1000)]);
        assert_eq!(nodes[1].capacity, capacity);
        capacity.insert(GPU.into(), 8000);
        assert_eq!(nodes[0].capacity, capacity);
        assert!(!nodes[1].labels.contains_key(MODEL_LABEL));
        assert_eq!(nodes[0].taints[0].to_string(), "replay.ohm/run=replay-1:NoSchedule");
    }

    #[test]
    fn pods_are_jobs_of_one_task_which_only_simulated_nodes_take() {
        let service = read_job(&pod(460, true), Speed::Max);
        assert_eq!((service.class, service.groups[0].count), (Class::SERVICE, 1));
        assert_eq!(service.groups[0].requests.get(GPU), Some(&460));
        assert_eq!(service.groups[0].task.sim_duration_ms, 0);
        let batch = read_job(&pod(8000, false), Speed::Max);
        assert_eq!((batch.class, batch.groups[0].count), (Class::BATCH, 1));
        assert_eq!(batch.groups[0].requests.get(GPU), Some(&8000));
        assert_eq!(batch.groups[0].requests.get("cpu"), Some(&6000));
        assert_eq!(batch.groups[0].task.sim_duration_ms, 0);
        assert!(!read_job(&pod(0, false), Speed::Max).groups[0].requests.contains_key(GPU));
    }

    #[test]
    fn models_are_required_and_durations_scaled() {
        let mut wanted = pod(1000, false);
        wanted.request.models = vec!["V100M16".into(), "V100M32".into()];
        let job = read_job(&wanted, Speed::Factor(100.0));
        let term = &job.groups[0].affinity[0].requirements[0];
        assert_eq!((term.key.as_str(), term.values.len()), (MODEL_LABEL, 2));
        assert_eq!(job.groups[0].task.sim_duration_ms, 3000);
        // A service is taken away by the replay.
        assert_eq!(read_job(&pod(0, true), Speed::Factor(100.0)).groups[0].task.sim_duration_ms, 0);
    }
}
