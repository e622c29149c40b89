//! What people of the field write, and what it is called here.

use crate::text::nearest;

/// Words of Kubernetes, Kueue, Slurm and Nomad that are no field of ours, and what to do instead.
const INSTEAD: [(&str, &str); 21] = [
    ("annotations", "only `labels` are kept"),
    ("backoffLimit", "write `retries`"),
    ("completions", "write `count`"),
    ("containers", "tasks are processes, not containers: write `command` in the group"),
    ("image", "tasks are processes, not containers: write `command`"),
    ("matchFields", "write `matchExpressions` on the label `kubernetes.io/hostname`"),
    ("minReadySeconds", "write it in `strategy`"),
    ("namespace", "only jobs and budgets are in a namespace; `namespaces` of a queue says whose jobs it takes"),
    ("ntasks", "write `count`"),
    ("parallelism", "write `count`, and `minCount` for the fewest that may start"),
    ("paused", "write `pause` in `strategy`"),
    ("podAffinity", "write it in `affinity`"),
    ("podAntiAffinity", "write it in `affinity`"),
    ("progressDeadlineSeconds", "write it in `strategy`"),
    ("queueName", "write `queue`"),
    ("replicas", "write `count`"),
    ("restartPolicy", "write `retries`"),
    ("revisionHistoryLimit", "the last ten revisions are kept"),
    ("rollingUpdate", "write `maxSurge` and `maxUnavailable` in `strategy` itself"),
    ("updateStrategy", "write `strategy`"),
    ("valueFrom", "write the `value`"),
];

/// What to say behind the name of an unknown field: what it is called here, the likeliest slip, or all that is known.
pub(crate) fn unknown_field_hint(field: &str, known: &[&[&'static str]]) -> String {
    if let Some((_, instead)) = INSTEAD.iter().find(|(word, _)| *word == field) {
        return format!("; {instead}");
    }
    let fields = known.iter().flat_map(|fields| fields.iter().copied());
    match nearest(field, fields.clone()) {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None => format!("; known: {}", fields.collect::<Vec<_>>().join(", ")),
    }
}
