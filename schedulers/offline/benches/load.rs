//! From the bytes of a large cell file to the answer about one gang: 100,000 nodes in four levels, as indented JSON.
//! `cargo bench -p ohm-offline`.

use criterion::{Criterion, criterion_group, criterion_main};
use ohm_manifest::{Dialect, parse_files};
use ohm_offline::{Question, plan};
use serde_json::{Value, json};
use std::hint::black_box;

const NODES: usize = 100_000;
const LEVELS: [&str; 4] = ["cloud.com/zone", "cloud.com/block", "cloud.com/rack", "kubernetes.io/hostname"];

fn node(number: usize) -> Value {
    let name = format!("node-{number:06}");
    let values =
        [format!("z{}", number / 10_000), format!("b{}", number / 1000), format!("r{}", number / 40), name.clone()];
    let mut labels: Value = LEVELS.iter().map(|level| level.to_string()).zip(values.map(Value::from)).collect();
    labels["kubernetes.io/arch"] = json!("amd64");
    labels["node.kubernetes.io/instance-type"] = json!("p5.48xlarge");
    let used = number % 7;
    json!({
        "apiVersion": "ohm/v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": false, "taints": []},
        "status": {
            "allocatable": {"cpu": "191450m", "memory": "2096Gi", "pods": "100", "nvidia.com/gpu": "8"},
            "used": {"cpu": format!("{used}500m"), "memory": format!("{used}Gi"), "pods": used.to_string()},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

fn cell() -> String {
    let levels = LEVELS.map(|level| json!({"nodeLabel": level}));
    let metadata = json!({"name": "default"});
    let topology =
        json!({"apiVersion": "ohm/v1", "kind": "Topology", "metadata": metadata, "spec": {"levels": levels}});
    let items: Vec<Value> = std::iter::once(topology).chain((0..NODES).map(node)).collect();
    let list = json!({"apiVersion": "ohm/v1", "kind": "List", "items": items});
    serde_json::to_string_pretty(&list).expect("JSON")
}

const JOB: &str = r#"{"apiVersion": "ohm/v1", "kind": "Job", "metadata": {"name": "gang"}, "spec": {"class": "tas",
 "count": 64, "requests": {"cpu": "8", "nvidia.com/gpu": "8"}, "topology": {"required": "cloud.com/block"}}}"#;

fn load(criterion: &mut Criterion) {
    let cell = cell();
    let mut group = criterion.benchmark_group("load");
    group.sample_size(10);
    group.bench_function(format!("{NODES} nodes, {} MB", cell.len() / 1_000_000), |bencher| {
        bencher.iter_with_large_drop(|| {
            let files = [("cell.json", cell.as_bytes()), ("jobs.json", JOB.as_bytes())];
            let mut files = parse_files(Dialect::Kubernetes, &files).into_iter();
            let mut next = || files.next().into_iter().flatten().map(|read| read.expect("a sound document")).collect();
            let (cell, jobs) = (next(), next());
            black_box(plan(Question { cell, jobs, ..Question::default() }))
        });
    });
    group.finish();
}

criterion_group!(benches, load);
criterion_main!(benches);
