//! The table of routes. The router and the OpenAPI document are both made from it, so neither can lack what the other
//! has.

use super::{
    Shared, backup, control, endpoints, events, jobs, logs, nodes, overview, queues, rollout, scale, servers, submit,
    wait,
};
use axum::routing::{MethodRouter, delete, get, post};

/// One path and the methods it takes.
pub(super) struct Route {
    /// With `{name}` for the part that is a name.
    pub(super) path: &'static str,
    /// What may be done there.
    pub(super) operations: &'static [Operation],
}

/// One method of a path.
pub(super) struct Operation {
    /// In lower case.
    pub(super) method: &'static str,
    /// What it does, in one line.
    pub(super) summary: &'static str,
    /// Query parameters: name, type, meaning.
    pub(super) query: &'static [(&'static str, &'static str, &'static str)],
    /// The schema of a good answer; empty where it is no JSON.
    pub(super) answer: &'static str,
}

const fn operation(
    method: &'static str,
    summary: &'static str,
    query: &'static [(&'static str, &'static str, &'static str)],
    answer: &'static str,
) -> Operation {
    Operation { method, summary, query, answer }
}

const SUBMIT: &[Operation] = &[operation(
    "post",
    "Submit documents, of Ohm or of Kubernetes: YAML, JSON, or NDJSON of any length. One verdict per document; 422 if any \
     was refused",
    &[
        ("verdicts", "string", "`all` (default) or `refused`: which verdicts the answer lists"),
        ("replace", "boolean", "forget finished jobs of the same names first, so that they run again"),
        ("update", "boolean", "change jobs of the same names that are not finished to what the documents say"),
        ("namespace", "string", "the namespace of jobs and budgets whose metadata name none; `default` by default"),
    ],
    "SubmitAnswer",
)];
const JOBS: &[Operation] = &[operation(
    "get",
    "Jobs, by name",
    &[
        ("namespace", "string", "only jobs of this namespace"),
        ("state", "string", "only jobs in this state"),
        ("class", "string", "only jobs of this class"),
        ("queue", "string", "only jobs of this queue"),
        ("owner", "string", "only jobs of this owner"),
        ("limit", "integer", "at most so many; 500 by default, 10000 at most"),
        ("after", "string", "only jobs whose name comes after this one"),
    ],
    "JobList",
)];
const JOB: &[Operation] = &[
    operation(
        "get",
        "One job with its groups, tasks, past runs and document",
        &[
            ("tasks", "integer", "at most so many tasks of each group; 1000 by default, 100000 at most"),
            ("firstTask", "integer", "the first task to list"),
        ],
        "JobView",
    ),
    operation("delete", "Forget a finished job, which frees its name; refused while a run of it still stops", &[], ""),
];
const SERVERS: &[Operation] = &[operation("get", "The servers of the cell, as this one knows them", &[], "ServerList")];
const SERVER: &[Operation] =
    &[operation("delete", "Remove a server for good: its number is never used again", &[], "")];
const LEAD: &[Operation] = &[operation("post", "Let this server lead, if it can", &[], "ServerList")];
const BELIEVE_CLOCK: &[Operation] = &[operation(
    "post",
    "Say that the wall clock of this server is right: the time of the cell moves forward to it",
    &[],
    "StatusView",
)];
const BACKUP: &[Operation] = &[operation(
    "get",
    "The whole state as a file for `ohm server restore`, with everything acknowledged before the request",
    &[],
    "",
)];
const CANCEL: &[Operation] = &[operation(
    "post",
    "End a job for good, or hurry what still runs of one that is over",
    &[(
        "graceSeconds",
        "integer",
        "what runs of it is killed after so many seconds at the latest, 0 for at once; what its tasks ask for by default",
    )],
    "JobSummary",
)];
const SUSPEND: &[Operation] =
    &[operation("post", "Stop a job's runs and keep it from being placed", &[], "JobSummary")];
const RESUME: &[Operation] = &[operation("post", "Let a suspended job be placed again", &[], "JobSummary")];
const SCALE: &[Operation] = &[operation(
    "post",
    "Change how many tasks a group of a job has; the minimum of one that starts whole follows",
    &[("count", "integer", "how many tasks"), ("group", "string", "the group; may be left out if there is one only")],
    "JobSummary",
)];
const WAIT: &[Operation] = &[operation(
    "get",
    "Wait until a job is finished or runs; answers when that is so or the time is up",
    &[
        ("for", "string", "`finished` (default), `running` (all groups started and run) or `ready` (by probes, too)"),
        ("timeout", "integer", "seconds; 30 by default, 300 at most"),
    ],
    "WaitAnswer",
)];
const EXPLAIN: &[Operation] = &[operation("get", "Why a job is in the state it is in", &[], "ExplainView")];
const LOGS: &[Operation] = &[operation(
    "get",
    "The output of a task, as a stream of bytes",
    &[
        ("group", "string", "the group; the first one by default"),
        ("task", "integer", "the task's rank; 0 by default"),
        ("stderr", "boolean", "the standard error instead of the standard output"),
        ("follow", "boolean", "go on as it grows"),
        ("tail", "integer", "only so many of the last bytes"),
        ("tailLines", "integer", "only so many of the last lines, counted by the node that keeps them"),
    ],
    "",
)];
const ENDPOINTS: &[Operation] = &[operation(
    "get",
    "Where the tasks of a job that are ready can be reached; as server-sent events with `follow` or `Accept: \
     text/event-stream`, the whole list whenever it changes",
    &[("group", "string", "only tasks of this group"), ("follow", "boolean", "go on with the lists to come")],
    "EndpointList",
)];
const ROLLOUT: &[Operation] = &[
    operation(
        "get",
        "How far the rollout of a service is, by group, and its revisions; as server-sent events with `follow` or \
         `Accept: text/event-stream`, the whole view whenever it changes",
        &[("follow", "boolean", "go on with the views to come")],
        "RolloutView",
    ),
    operation(
        "post",
        "Pause, resume or promote the rollout of a service, or take it back to a revision: the last one that was \
         complete unless `revision` names one. The body is {\"action\": \"pause|resume|promote|undo\", \
         \"revision\": 3}",
        &[],
        "RolloutView",
    ),
];
const NODES: &[Operation] = &[operation(
    "get",
    "Nodes, by name",
    &[
        ("limit", "integer", "at most so many; 500 by default, 10000 at most"),
        ("after", "string", "only nodes whose name comes after this one"),
    ],
    "NodeList",
)];
const NODE: &[Operation] = &[
    operation(
        "get",
        "One node with its runs",
        &[("runs", "integer", "at most so many runs; 1000 by default, 100000 at most")],
        "NodeDetail",
    ),
    operation("delete", "Take a node out of the cell; refused while it holds runs, unless it is lost", &[], ""),
];
const CORDON: &[Operation] = &[operation("post", "Keep new work away from a node", &[], "NodeSummary")];
const UNCORDON: &[Operation] = &[operation("post", "Let new work come to a node again", &[], "NodeSummary")];
const TAINT: &[Operation] = &[operation(
    "post",
    "Put a taint on a node, beside those that it registers with",
    &[("taint", "string", "as `key=value:Effect` with NoSchedule, PreferNoSchedule or NoExecute")],
    "NodeSummary",
)];
const UNTAINT: &[Operation] = &[operation(
    "post",
    "Take taints off a node that people put there",
    &[("taint", "string", "which: `key`, `key=value`, `key:Effect` or `key=value:Effect`")],
    "NodeSummary",
)];
const RELEASE_NODE: &[Operation] =
    &[operation("post", "Trust a node again that is held down because it fell silent too often", &[], "NodeSummary")];
const DRAIN: &[Operation] = &[operation(
    "post",
    "Move what runs on a node elsewhere, and keep new work away from it",
    &[
        ("deadlineMs", "integer", "after so many milliseconds what is left is stopped; never by default"),
        ("atOnce", "integer", "how many tasks of one group of a service move at the same time; 1 by default"),
    ],
    "NodeSummary",
)];
const UNDRAIN: &[Operation] =
    &[operation("post", "End the drain of a node: what moves goes on, the rest stays", &[], "NodeSummary")];
const QUEUES: &[Operation] = &[operation("get", "Queues and cohorts with what they use", &[], "QueueList")];
const QUEUE: &[Operation] = &[
    operation(
        "get",
        "A queue or cohort with what it uses, the first of its jobs that wait and why, and of those that run",
        &[("limit", "integer", "at most so many jobs that wait, and as many that run; 20 by default, 200 at most")],
        "QueueDetail",
    ),
    operation(
        "delete",
        "Remove a queue or cohort; a queue that a job names is not, of a cohort that is named its name stays",
        &[],
        "",
    ),
];
const SUBQUEUE: &[Operation] =
    &[operation("delete", "Remove a subqueue that no job names; what it has used is forgotten", &[], "")];
const RESOURCE_FLAVORS: &[Operation] =
    &[operation("get", "Resource flavors: the kinds of machines that quota is given for", &[], "ResourceFlavorList")];
const RESOURCE_FLAVOR: &[Operation] =
    &[operation("delete", "Remove a resource flavor; refused while a queue or cohort names it", &[], "")];
const SCHEDULING: &[Operation] = &[operation("get", "What holds for all queues", &[], "SchedulingView")];
const NAMESPACES: &[Operation] =
    &[operation("get", "Namespaces with their labels, and how many jobs there are in each", &[], "NamespaceList")];
const NAMESPACE: &[Operation] =
    &[operation("delete", "Remove a namespace; refused while jobs or budgets are in it", &[], "")];
const BUDGETS: &[Operation] = &[operation(
    "get",
    "Disruption budgets, how many of their tasks are healthy, and how many may be stopped",
    &[("namespace", "string", "only budgets of this namespace")],
    "BudgetList",
)];
const BUDGET: &[Operation] = &[operation("delete", "Remove a disruption budget that has a name", &[], "")];
const PRIORITY_CLASSES: &[Operation] =
    &[operation("get", "Priority classes with their values", &[], "PriorityClassList")];
const PRIORITY_CLASS: &[Operation] =
    &[operation("delete", "Remove a priority class; jobs that named it keep the priority they got", &[], "")];
const PROVISIONING_CLASSES: &[Operation] =
    &[operation("get", "Provisioning classes, and how many requests of each are open", &[], "ProvisioningClassList")];
const PROVISIONING_CLASS: &[Operation] =
    &[operation("delete", "Remove a provisioning class; refused while a queue or a job names it", &[], "")];
const PROFILES: &[Operation] =
    &[operation("get", "The scheduling profile of every class, and how many schedulers serve it", &[], "ProfileList")];
const PROFILE: &[Operation] = &[operation(
    "delete",
    "Remove a scheduling profile: a built-in class goes on without it, another one is known no more; refused while it \
     has unfinished jobs",
    &[],
    "",
)];
const TOPOLOGY: &[Operation] = &[operation("delete", "Remove a topology; refused while an open job names it", &[], "")];
const TOPOLOGIES: &[Operation] = &[operation("get", "Topologies and their domains", &[], "TopologyList")];
const EVENTS: &[Operation] = &[operation(
    "get",
    "What happened; as server-sent events with `follow` or `Accept: text/event-stream`",
    &[
        ("after", "integer", "only events of log entries after this index (or Last-Event-ID)"),
        ("limit", "integer", "of the events there are already, only so many of the last; 1000 by default"),
        ("job", "string", "only events of this job"),
        ("leases", "boolean", "also who took which lease; true by default"),
        ("follow", "boolean", "go on with what happens from here on"),
    ],
    "EventList",
)];
const STATUS: &[Operation] = &[operation("get", "The cell in numbers, its sessions and leases", &[], "StatusView")];
const OPENAPI: &[Operation] = &[operation("get", "This document", &[], "")];
const METRICS: &[Operation] = &[operation("get", "Metrics in the text format of Prometheus", &[], "")];
const HEALTHZ: &[Operation] = &[operation("get", "Whether the server answers; needs no token", &[], "")];

/// Every route.
pub(super) fn table() -> Vec<(Route, MethodRouter<Shared>)> {
    let route = |path, operations| Route { path, operations };
    vec![
        (route("/v1/submit", SUBMIT), post(submit::submit)),
        (route("/v1/jobs", JOBS), get(jobs::list)),
        (route("/v1/jobs/{name}", JOB), get(jobs::show).merge(delete(control::forget))),
        (route("/v1/jobs/{name}/cancel", CANCEL), post(control::cancel)),
        (route("/v1/jobs/{name}/scale", SCALE), post(scale::scale)),
        (route("/v1/jobs/{name}/suspend", SUSPEND), post(control::suspend)),
        (route("/v1/jobs/{name}/resume", RESUME), post(control::resume)),
        (route("/v1/jobs/{name}/wait", WAIT), get(wait::wait)),
        (route("/v1/jobs/{name}/explain", EXPLAIN), get(jobs::explain)),
        (route("/v1/jobs/{name}/logs", LOGS), get(logs::logs)),
        (route("/v1/jobs/{name}/endpoints", ENDPOINTS), get(endpoints::endpoints)),
        (route("/v1/jobs/{name}/rollout", ROLLOUT), get(rollout::show).merge(post(rollout::change))),
        (route("/v1/nodes", NODES), get(nodes::list)),
        (route("/v1/nodes/{name}", NODE), get(nodes::show).merge(delete(control::remove_node))),
        (route("/v1/nodes/{name}/cordon", CORDON), post(control::cordon)),
        (route("/v1/nodes/{name}/uncordon", UNCORDON), post(control::uncordon)),
        (route("/v1/nodes/{name}/taint", TAINT), post(control::taint)),
        (route("/v1/nodes/{name}/untaint", UNTAINT), post(control::untaint)),
        (route("/v1/nodes/{name}/drain", DRAIN), post(control::drain)),
        (route("/v1/nodes/{name}/undrain", UNDRAIN), post(control::undrain)),
        (route("/v1/nodes/{name}/release", RELEASE_NODE), post(control::release_node)),
        (route("/v1/servers", SERVERS), get(servers::list)),
        (route("/v1/servers/{name}", SERVER), delete(servers::remove)),
        (route("/v1/servers/{name}/lead", LEAD), post(servers::transfer)),
        (route("/v1/servers/{name}/believe-clock", BELIEVE_CLOCK), post(servers::believe_clock)),
        (route("/v1/backup", BACKUP), get(backup::backup)),
        (route("/v1/queues", QUEUES), get(overview::queues)),
        (route("/v1/queues/{name}", QUEUE), get(queues::show).merge(delete(control::remove_queue))),
        (route("/v1/subqueues/{name}", SUBQUEUE), delete(control::remove_subqueue)),
        (route("/v1/resource-flavors", RESOURCE_FLAVORS), get(overview::resource_flavors)),
        (route("/v1/resource-flavors/{name}", RESOURCE_FLAVOR), delete(control::remove_resource_flavor)),
        (route("/v1/scheduling", SCHEDULING), get(overview::scheduling)),
        (route("/v1/namespaces", NAMESPACES), get(overview::namespaces)),
        (route("/v1/namespaces/{name}", NAMESPACE), delete(control::remove_namespace)),
        (route("/v1/budgets", BUDGETS), get(overview::budgets)),
        (route("/v1/budgets/{name}", BUDGET), delete(control::remove_budget)),
        (route("/v1/priority-classes", PRIORITY_CLASSES), get(overview::priority_classes)),
        (route("/v1/priority-classes/{name}", PRIORITY_CLASS), delete(control::remove_priority_class)),
        (route("/v1/provisioning-classes", PROVISIONING_CLASSES), get(overview::provisioning_classes)),
        (route("/v1/provisioning-classes/{name}", PROVISIONING_CLASS), delete(control::remove_provisioning_class)),
        (route("/v1/profiles", PROFILES), get(overview::profiles)),
        (route("/v1/profiles/{name}", PROFILE), delete(control::remove_profile)),
        (route("/v1/topologies/{name}", TOPOLOGY), delete(control::remove_topology)),
        (route("/v1/topologies", TOPOLOGIES), get(overview::topologies)),
        (route("/v1/events", EVENTS), get(events::events)),
        (route("/v1/status", STATUS), get(overview::status)),
        (route("/v1/openapi.json", OPENAPI), get(overview::openapi)),
        (route("/metrics", METRICS), get(overview::metrics)),
        (route("/healthz", HEALTHZ), get(overview::healthz)),
    ]
}
