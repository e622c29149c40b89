//! One answer of each kind with every field filled in: what the schemas are made from. A field that is forgotten here
//! does not compile.

mod explain;
mod filled;
mod rollouts;

pub(super) use filled::ANY_KEY;
use filled::{text, texts, value};
use ohm_wire::api::{
    ActiveJobView, AdmissionView, ApiError, BorrowWithinCohortView, BroughtView, BudgetList, BudgetView, CheckView,
    ClockView, DocumentVerdict, DomainView, DrainView, EndpointList, EndpointView, ErrorAnswer, EventList, EventView,
    FairSharingView, GroupView, HeldView, JobList, JobSummary, JobTotals, JobView, JudgedView, LeavingView,
    NamespaceList, NamespaceView, NodeConditionView, NodeDetail, NodeList, NodeRunView, NodeSummary, NodeTotals,
    PastRepairView, PastRunView, PriorityClassList, PriorityClassView, ProblemView, ProfileList, ProfileView,
    ProvisioningClassList, ProvisioningClassView, PutTaintView, QueueDetail, QueueFlavorView, QueueList,
    QueuePreemptionView, QueueResourceView, QueueView, ReadinessView, ReadyTimeoutView, RepairView, ResourceFlavorList,
    ResourceFlavorView, RetryView, SchedulingView, ScoreView, ServerEngine, ServerList, ServerRole, ServerView,
    SessionView, StatusView, SubmitAnswer, SubqueueView, TaskCounts, TaskTotals, TaskView, TopologyList, TopologyView,
    UnhealthyNodeView, UsageBasedOrderView, VerdictKind, WaitAnswer, WaitingJobView,
};
use serde_json::{Value, json};

/// Every kind of answer by the name of its schema.
pub(super) fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("EndpointList", value(&endpoints())),
        ("ErrorAnswer", value(&error())),
        ("EventList", value(&EventList { events: vec![event()], dropped: 1, next: 1 })),
        ("EventView", value(&event())),
        ("ExplainView", value(&explain::explain())),
        ("JobList", value(&JobList { jobs: vec![job_summary()], total: 1, next: text() })),
        ("JobSummary", value(&job_summary())),
        ("JobView", value(&job())),
        ("NodeDetail", value(&node_detail())),
        ("NodeList", value(&NodeList { nodes: vec![node()], total: 1, next: text() })),
        ("NodeSummary", value(&node())),
        ("NamespaceList", value(&NamespaceList { namespaces: vec![namespace()] })),
        ("BudgetList", value(&BudgetList { budgets: vec![budget()] })),
        ("PriorityClassList", value(&PriorityClassList { priority_classes: vec![priority_class()] })),
        ("ProfileList", value(&ProfileList { profiles: vec![profile()] })),
        ("ProvisioningClassList", value(&ProvisioningClassList { provisioning_classes: vec![provisioning_class()] })),
        ("QueueDetail", value(&queue_detail())),
        ("QueueList", value(&QueueList { queues: vec![queue()] })),
        ("ResourceFlavorList", value(&ResourceFlavorList { resource_flavors: vec![resource_flavor()] })),
        ("RolloutView", value(&rollouts::rollout())),
        ("SchedulingView", value(&scheduling())),
        ("ServerList", value(&ServerList { servers: vec![server()], removed: vec![1], engine: ServerEngine::Raft })),
        ("StatusView", value(&status())),
        ("SubmitAnswer", value(&submit())),
        ("TopologyList", value(&topologies())),
        ("WaitAnswer", value(&WaitAnswer { reached: true, job: job_summary() })),
    ]
}

fn error() -> ErrorAnswer {
    ErrorAnswer { error: ApiError { code: text(), message: text(), hint: text() } }
}

fn server() -> ServerView {
    ServerView { server: 1, role: ServerRole::Voter, leads: true, here: true, address: text() }
}

fn submit() -> SubmitAnswer {
    let problem = ProblemView { line: 1, column: 1, field: text(), message: text() };
    let verdict = DocumentVerdict {
        document: 1,
        line: 1,
        column: 1,
        kind: text(),
        name: text(),
        verdict: VerdictKind::Refused,
        note: text(),
        finished: text(),
        finished_ms: 1,
        problems: vec![problem],
    };
    SubmitAnswer { accepted: 1, unchanged: 1, updated: 1, refused: 1, unknown: 1, verdicts: vec![verdict] }
}

fn counts() -> TaskCounts {
    TaskCounts {
        total: 1,
        pending: 1,
        backing_off: 1,
        live: 1,
        running: 1,
        stopping: 1,
        probed: 1,
        ready: 1,
        succeeded: 1,
        failed: 1,
        skipped: 1,
    }
}

fn job_summary() -> JobSummary {
    JobSummary {
        name: text(),
        class: text(),
        state: text(),
        reason: text(),
        priority: 1,
        queue: text(),
        subqueue: text(),
        held: text(),
        namespace: text(),
        owner: text(),
        labels: texts(),
        submitted_ms: 1,
        started_ms: 1,
        expected_start_ms: 1,
        expected_start_is_guess: true,
        finished_ms: 1,
        tasks: counts(),
    }
}

fn job() -> JobView<Value> {
    JobView {
        summary: job_summary(),
        shard: text(),
        repair: RepairView {
            state: text(),
            since_ms: 1,
            give_up_ms: 1,
            begun: 1,
            requests: vec![explain::node_request()],
            unhealthy_nodes: vec![UnhealthyNodeView { name: text(), cause: text(), since_ms: 1 }],
            past: vec![PastRepairView { since_ms: 1, ended_ms: 1, tasks: 1, nodes: vec![text()], failed: text() }],
        },
        start_deadline_ms: 1,
        readiness: ReadinessView { unready_since_ms: 1, due_ms: 1, timeouts: 1, backoff_limit: Some(1), until_ms: 1 },
        admission: admission(),
        rollout: rollouts::summary(),
        version: 1,
        groups: vec![group()],
        past_runs: vec![PastRunView {
            group: text(),
            task: 1,
            incarnation: 1,
            revision: 1,
            node: text(),
            placed_ms: 1,
            ended_ms: 1,
            exit: text(),
            stop_cause: text(),
            message: text(),
        }],
        spec: json!({}),
    }
}

fn group() -> GroupView {
    GroupView {
        name: text(),
        min_count: 1,
        started: true,
        domain: vec![text()],
        requests: texts(),
        limits: texts(),
        flavors: texts(),
        spares: 1,
        spare_nodes: vec![text()],
        counts: counts(),
        tasks: vec![TaskView {
            task: 1,
            state: text(),
            incarnation: 1,
            revision: 1,
            failures: 1,
            node: text(),
            pid: 1,
            placed_ms: 1,
            started_ms: 1,
            ready: Some(true),
            unready_reason: text(),
            starts_ms: 1,
            exit: text(),
            exit_code: Some(1),
            exit_signal: Some(1),
            stop_cause: text(),
        }],
        tasks_omitted: 1,
    }
}

fn node() -> NodeSummary {
    NodeSummary {
        name: text(),
        health: text(),
        cordoned: true,
        schedulable: true,
        drain: Some(DrainView { since_ms: 1, deadline_ms: 1, at_once: 1 }),
        runs: 1,
        incarnation: 1,
        address: text(),
        labels: texts(),
        taints: vec![text()],
        put_taints: vec![PutTaintView { taint: text(), since_ms: 1 }],
        capacity: texts(),
        free: texts(),
        devices: [(ANY_KEY.to_string(), vec![1])].into(),
        conditions: vec![NodeConditionView { kind: text(), action: text(), since_ms: 1, message: text() }],
        held_until_ms: 1,
        flaps: 1,
        brought: Some(BroughtView {
            request: text(),
            class: text(),
            job: text(),
            kept: true,
            state: text(),
            idle_until_ms: 1,
        }),
    }
}

fn node_detail() -> NodeDetail {
    let run_list = vec![NodeRunView {
        job: text(),
        group: text(),
        task: 1,
        incarnation: 1,
        state: text(),
        pid: 1,
        placed_ms: 1,
        started_ms: 1,
    }];
    let leaving = vec![LeavingView { job: text(), staying: 1, stopping: 1, reason: text() }];
    let held = vec![HeldView { job: text(), group: text(), tasks: 1, purpose: text() }];
    NodeDetail { summary: node(), registered: 1, ports: vec![text()], run_list, runs_omitted: 1, leaving, held }
}

fn queue_detail() -> QueueDetail {
    let (name, class, priority) = (text(), text(), 1);
    QueueDetail {
        summary: queue(),
        queueing_strategy: text(),
        waiting: vec![WaitingJobView {
            position: 1,
            name: text(),
            subqueue: text(),
            class: text(),
            priority,
            submitted_ms: 1,
            reason: text(),
        }],
        active: vec![ActiveJobView { name, class, priority, since_ms: 1, live: 1, quota: texts() }],
    }
}

fn queue() -> QueueView {
    let resource = || QueueResourceView {
        nominal: text(),
        borrowing_limit: text(),
        lending_limit: text(),
        used: text(),
        borrowed: text(),
        available: text(),
    };
    let borrow_within_cohort = BorrowWithinCohortView { policy: text(), max_priority_threshold: Some(1) };
    let preemption = QueuePreemptionView {
        within_cluster_queue: text(),
        reclaim_within_cohort: text(),
        borrow_within_cohort,
        outside_root: text(),
    };
    QueueView {
        name: text(),
        kind: text(),
        parent: text(),
        weight_milli: 1,
        weighted_share: 1,
        dominant_resource: text(),
        preemption: Some(preemption),
        stop_policy: text(),
        max_waiting_jobs: 1,
        namespaces: Some(vec![text()]),
        min_runtime_seconds: 1,
        ready_timeout: Some(ReadyTimeoutView {
            timeout_seconds: 1,
            recovery_timeout_seconds: 1,
            backoff_base_seconds: 1,
            backoff_max_seconds: 1,
            backoff_limit: Some(1),
        }),
        admission_checks: vec![text()],
        on_flavors: [(ANY_KEY.to_string(), vec![text()])].into(),
        resources: [(ANY_KEY.to_string(), resource())].into(),
        flavors: vec![QueueFlavorView { name: text(), resources: [(ANY_KEY.to_string(), resource())].into() }],
        usage_based_order: Some(UsageBasedOrderView {
            half_life_seconds: 1,
            resource_weights_milli: [(ANY_KEY.to_string(), 1)].into(),
        }),
        subqueues: vec![SubqueueView {
            name: text(),
            weight_milli: 1,
            used: texts(),
            consumed: texts(),
            key_milli: Some(1),
            pending: 1,
            running: 1,
        }],
        pending: 1,
        running: 1,
        suspended: 1,
    }
}

fn scheduling() -> SchedulingView {
    SchedulingView { fair_sharing: FairSharingView { enable: true, preemption_strategies: vec![text()] } }
}

fn provisioning_class() -> ProvisioningClassView {
    ProvisioningClassView {
        name: text(),
        provisioner: text(),
        target: text(),
        parameters: texts(),
        retry: RetryView { base_seconds: 1, factor: 1, max_seconds: 1, limit: 1 },
        booking_seconds: 1,
        timeout_seconds: 1,
        call_timeout_seconds: 1,
        poll_seconds: 1,
        watch_seconds: 1,
        exclusive: true,
        idle_seconds: 1,
        queues: vec![text()],
        open: 1,
    }
}

fn admission() -> AdmissionView {
    AdmissionView {
        state: text(),
        problem: text(),
        round: 1,
        reserved: texts(),
        checks: vec![CheckView {
            class: text(),
            on_flavors: vec![text()],
            state: text(),
            attempt: 1,
            request: text(),
            message: text(),
            since_ms: 1,
        }],
        next_attempt_ms: 1,
        failed_check: text(),
        failed_attempt: 1,
        failed_message: text(),
    }
}

fn resource_flavor() -> ResourceFlavorView {
    ResourceFlavorView { name: text(), node_labels: texts(), node_taints: vec![text()], tolerations: vec![text()] }
}

fn namespace() -> NamespaceView {
    NamespaceView { name: text(), labels: [(ANY_KEY.to_string(), text())].into(), jobs: 1 }
}

fn budget() -> BudgetView {
    BudgetView {
        name: text(),
        namespace: text(),
        min_available: text(),
        max_unavailable: text(),
        unhealthy_pod_eviction_policy: text(),
        expected: 1,
        healthy: 1,
        desired: 1,
        allowed: 1,
    }
}

fn endpoints() -> EndpointList {
    let endpoint = EndpointView { group: text(), task: 1, node: text(), address: text(), ports: vec![text()] };
    EndpointList { job: text(), endpoints: vec![endpoint] }
}

fn priority_class() -> PriorityClassView {
    PriorityClassView { name: text(), value: 1, preemption_policy: text(), description: text(), global_default: true }
}

fn topologies() -> TopologyList {
    let domain = DomainView { level: text(), values: vec![text()], nodes: 1 };
    TopologyList { topologies: vec![TopologyView { name: text(), levels: vec![text()], domains: vec![domain] }] }
}

fn event() -> EventView {
    EventView {
        index: 1,
        at_ms: 1,
        kind: text(),
        message: text(),
        job: text(),
        group: text(),
        task: Some(1),
        count: 1,
        incarnation: 1,
        node: text(),
        state: text(),
        reason: text(),
        stop_cause: text(),
        exit: text(),
        session: text(),
        lease: text(),
        conflicts: [(ANY_KEY.to_string(), 1)].into(),
    }
}

fn profile() -> ProfileView {
    ProfileView {
        name: text(),
        class: text(),
        like: text(),
        built_in: true,
        base: text(),
        scores: vec![ScoreView { name: text(), weight: 1, args: texts() }],
        strategies: vec![text()],
        conflicts: text(),
        head_patience_seconds: 1,
        replicas: 1,
        jobs: 1,
    }
}

fn status() -> StatusView {
    let session = SessionView {
        id: 1,
        role: text(),
        name: text(),
        state: text(),
        renewed_index: 1,
        spoke_ms: 1,
        leases: vec![text()],
    };
    let conflicts = [(ANY_KEY.to_string(), 1)].into();
    let judged = JudgedView { class: text(), transactions: 1, conflicted: 1, conflicts };
    StatusView {
        applied_index: 1,
        chain: text(),
        cell_version: 1,
        stamped_ms: 1,
        leader: text(),
        clocks: vec![ClockView { server: 1, offset_ms: 1, unbelieved: true }],
        silent_nodes: 1,
        held_until_ms: 1,
        node_lease_ms: 1,
        nodes: NodeTotals { total: 1, ready: 1, suspect: 1, lost: 1, cordoned: 1 },
        jobs: JobTotals { total: 1, pending: 1, running: 1, suspended: 1, succeeded: 1, failed: 1, cancelled: 1 },
        tasks: TaskTotals { pending: 1, backing_off: 1, live: 1, running: 1, unready: 1 },
        sessions: vec![session],
        free_leases: vec![text()],
        judged: vec![judged],
    }
}
