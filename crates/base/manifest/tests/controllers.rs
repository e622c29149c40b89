//! How Deployments and StatefulSets get from one revision to the next.

use ohm_manifest::{Content, Dialect, parse_files};
use ohm_model::{RolloutKind, RolloutStrategy, TaskAmount};

fn strategy(kind: &str, spec: &str) -> Option<RolloutStrategy> {
    let text = format!(
        "apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: web}}\nspec:\n  selector: {{matchLabels: {{app: web}}}}\n  \
         template: {{metadata: {{labels: {{app: web}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}\n{spec}"
    );
    let mut verdicts = parse_files(Dialect::Kubernetes, &[("web.yaml", text.as_bytes())]).remove(0);
    match verdicts.remove(0).unwrap_or_else(|error| panic!("{error}\n{text}")).content {
        Content::Job(job) => job.strategy.map(|strategy| *strategy),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_deployment_says_how_it_changes() {
    let default = RolloutStrategy::default();
    assert_eq!(strategy("Deployment", ""), None);
    assert_eq!(strategy("Deployment", "  strategy: {}\n  revisionHistoryLimit: 2\n"), Some(default));
    let bounds = "  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 50%}}\n";
    let (max_surge, max_unavailable) = (TaskAmount::Tasks(1), TaskAmount::Percent(50));
    assert_eq!(strategy("Deployment", bounds), Some(RolloutStrategy { max_surge, max_unavailable, ..default }));
    let times = "  minReadySeconds: 5\n  progressDeadlineSeconds: 60\n  paused: true\n  strategy: {type: Recreate}\n";
    assert_eq!(
        strategy("Deployment", times),
        Some(RolloutStrategy {
            kind: RolloutKind::Recreate,
            min_ready_seconds: 5,
            progress_deadline_seconds: 60,
            pause: true,
            ..default
        })
    );
}

#[test]
fn a_stateful_set_changes_one_at_a_time() {
    let said = |spec: &str| strategy("StatefulSet", &format!("  podManagementPolicy: Parallel\n{spec}")).unwrap();
    let one = RolloutStrategy {
        max_surge: TaskAmount::Tasks(0),
        max_unavailable: TaskAmount::Tasks(1),
        progress_deadline_seconds: 0,
        ..RolloutStrategy::default()
    };
    assert_eq!(said(""), one);
    assert_eq!(said("  updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0}}\n"), one);
    let two = "  minReadySeconds: 700\n  updateStrategy: {rollingUpdate: {maxUnavailable: 2}}\n";
    let max_unavailable = TaskAmount::Tasks(2);
    assert_eq!(said(two), RolloutStrategy { max_unavailable, min_ready_seconds: 700, ..one });
}
