const N: usize = 200_000;
use std::time::Instant;
#[test]
fn speed() {
    let mut s = String::from("{\"apiVersion\": \"ohm/v1\", \"kind\": \"List\", \"items\": [\n");
    let mut y = String::new();
    for i in 0..100_000 {
        if i > 0 { s.push_str(",\n"); }
        let d = format!(r#" {{
  "apiVersion": "ohm/v1",
  "kind": "Node",
  "metadata": {{
   "name": "node-{i}",
   "labels": {{
    "topology.ohm/block": "block-{}",
    "topology.ohm/rack": "rack-{}",
    "kubernetes.io/hostname": "node-{i}",
    "kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "p5.48xlarge", "topology.kubernetes.io/zone": "eu-west-1a"
   }}
  }},
  "spec": {{
   "unschedulable": false,
   "taints": [{{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}}]
  }},
  "status": {{
   "allocatable": {{
    "cpu": "192000m",
    "memory": "2048Gi",
    "nvidia.com/gpu": "8",
    "pods": "110"
   }},
   "used": {{"cpu": "500m", "memory": 1073741824, "pods": 3}},
   "conditions": [{{ "type": "Ready", "status": "True" }}, {{"type": "DiskPressure", "status": "False", "reason": "KubeletHasNoDiskPressure", "message": "kubelet has no disk pressure"}}]
  }}
 }}"#, i/512, i/16);
        s.push_str(&d);
        if i < 10_000 { y.push_str("---\n"); y.push_str(&d); y.push('\n'); }
    }
    s.push_str("\n]}");
    for (n, b) in [("cell.json", s.clone()), ("cell.json", s.replace("\"cpu\"", "\"cqu\"")), ("cell.yaml", y), ("a.json", "{\"a\":\n".repeat(N)), ("a.json", "[\n{\"a\":\n".repeat(N)), ("a.json", "{}{\n".repeat(N)), ("a.yaml", "---\na: [\n".repeat(N/20)), ("a.yaml", "a: [\n".repeat(N/20))] {
        let t = Instant::now();
        let v = ohm_manifest::parse(n, b.as_bytes());
        println!("{n} {} MB {} docs {} ok {:?}", b.len()/1_000_000, v.len(), v.iter().filter(|v| v.is_ok()).count(), t.elapsed());
    }
}
