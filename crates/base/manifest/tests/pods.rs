//! What pods of Kubernetes ask for and may take at most.

use ohm_manifest::{Content, Dialect, parse_files};
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
