//! What pods of Kubernetes ask for and may take at most.

use ohm_manifest::{Content, Dialect, Document, NodeImage, parse_files};
use ohm_model::GroupSpec;
use ohm_model::resources::{Amounts, display};

/// The group of a Job whose pods have this spec.
fn group(pod: &str) -> GroupSpec {
    let job = format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: case}}\nspec:\n  template:\n    spec:\n      {}",
        pod.trim().replace('\n', "\n      ")
    );
    let verdicts = parse_files(Dialect::Kubernetes, &[("job.yaml", job.as_bytes())]);
    let document = verdicts[0][0].as_ref().unwrap_or_else(|error| panic!("{error}\n{job}"));
    let Content::Job(spec) = &document.content else { panic!("no job: {document:?}") };
    spec.groups[0].clone()
}

fn shown(amounts: &Amounts) -> String {
    let one = |(name, amount): (&String, &i64)| format!("{name} {}", display(name, *amount));
    amounts.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_pod_is_limited_where_each_of_its_containers_is() {
    let cases = [
        (
            "containers:\n\
             - {name: a, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2, memory: 2Gi}}}\n\
             - {name: b, resources: {limits: {cpu: 500m}, requests: {memory: 1Gi}}}",
            ("cpu 1500m, memory 2Gi", "cpu 2500m"),
        ),
        (
            "initContainers:\n\
             - {name: stays, restartPolicy: Always, resources: {limits: {memory: 1Gi}}}\n\
             - {name: first, resources: {requests: {memory: 1Gi}, limits: {memory: 6Gi}}}\n\
             containers:\n\
             - {name: a, resources: {requests: {memory: 2Gi}, limits: {memory: 3Gi}}}\n\
             overhead: {memory: 512Mi}",
            ("memory 3584Mi", "memory 7680Mi"),
        ),
        (
            "containers:\n\
             - {name: a, resources: {limits: {nvidia.com/gpu: 2}}}\n\
             - {name: b, resources: {requests: {cpu: 1}}}",
            ("cpu 1, nvidia.com/gpu 2", "nvidia.com/gpu 2"),
        ),
        (
            "resources: {requests: {cpu: 4, memory: 1Gi}, limits: {memory: 8Gi}}\n\
             containers:\n\
             - {name: a, resources: {limits: {cpu: 1, memory: 1Gi}}}",
            ("cpu 4, memory 1Gi", "memory 8Gi"),
        ),
    ];
    for (pod, (requests, limits)) in cases {
        let group = group(pod);
        assert_eq!((shown(&group.requests).as_str(), shown(&group.limits).as_str()), (requests, limits), "{pod}");
        let problem = group.limits.iter().find_map(|(name, limit)| group.limit_problem(name, *limit));
        assert_eq!(problem, None, "{pod}");
    }
}

/// The document with these lines, read with all that reports are made from.
fn in_full(lines: &str) -> Document {
    let mut verdicts = parse_files(Dialect::KubernetesInFull, &[("file.yaml", lines.as_bytes())]);
    verdicts.remove(0).remove(0).unwrap_or_else(|error| panic!("{error}\n{lines}"))
}

#[test]
fn scores_count_what_a_container_does_not_name() {
    let cases = [
        ("containers: []", "", 0),
        ("containers: [{name: a}, {name: b, resources: {requests: {cpu: \"0\"}}}]", "cpu 100m, memory 400Mi", 2),
        (
            "containers: [{name: a}], \
             initContainers: [{name: b, restartPolicy: Always}, {name: c, resources: {requests: {cpu: 1}}}]",
            "cpu 1100m, memory 400Mi",
            3,
        ),
        (
            "containers: [{name: a}], overhead: {cpu: 1}, resources: {requests: {memory: 1Gi}}",
            "cpu 1100m, memory 1Gi",
            1,
        ),
    ];
    for (spec, counted, containers) in cases {
        let pod = format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{{spec}}}\n");
        let aside = in_full(&pod).aside.expect("an outline");
        assert_eq!((shown(&aside.pods[0].counted).as_str(), aside.pods[0].containers), (counted, containers), "{spec}");
    }
}

#[test]
fn images_are_kept_where_reports_are_made() {
    let spec = "{containers: [{name: a, image: x}], initContainers: [{name: b, image: \"y:1\"}], \
                volumes: [{name: v, image: {reference: z}}]}";
    let pod = format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {spec}\n");
    assert_eq!(in_full(&pod).aside.expect("an outline").pods[0].images, ["y:1", "x", "z"]);
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n\
                status: {images: [{names: [\"x:1\", \"x:latest\"], sizeBytes: 7}]}\n";
    let image = NodeImage { names: vec!["x:1".into(), "x:latest".into()], size_bytes: 7 };
    assert_eq!(in_full(node).aside.expect("images").images, [image]);
    let verdicts = parse_files(Dialect::Kubernetes, &[("file.yaml", node.as_bytes())]);
    assert_eq!(verdicts[0][0].as_ref().map(|document| document.aside.clone()), Ok(None));
}

#[test]
fn a_node_that_does_not_say_it_takes_as_many_pods_as_a_kubelet_does() {
    for (status, pods) in [("{allocatable: {cpu: 1}}", 110), ("{}", 110), ("{allocatable: {pods: 0}}", 0)] {
        let node = format!("apiVersion: v1\nkind: Node\nmetadata: {{name: n}}\nstatus: {status}\n");
        let Content::Node(node) = in_full(&node).content else { panic!("no node") };
        assert_eq!(node.spec.capacity.get("pods"), Some(&pods), "{status}");
    }
}
