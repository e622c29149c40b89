//! What is written reads back the same, so that submitting a printed job again changes nothing.

use ohm_manifest::{Content, parse, to_json, to_yaml, validate};
use ohm_model::host_port::PROTOCOLS;
use ohm_model::resources::{Amounts, is_extended};
use ohm_model::selector::{Labels, NAME_FIELD};
use ohm_model::{
    BudgetLimit, BudgetTerms, Class, GroupSpec, HostPort, JobSpec, NeighbourTerm, Neighbours, OnDisconnect,
    OnUnhealthy, Operator, Probe, ProbeAction, ProbeKind, Probes, Reconcile, RepairPolicy, RepairSpec, Requirement,
    RolloutKind, RolloutStrategy, SelectorTerm, SimHealth, SpreadConstraint, SpreadMode, TaintEffect, TaskAmount,
    TaskSpec, Toleration, TolerationOperator, TopologyMode, TopologyRequest, TopologySlice, UnhealthyEviction,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use std::net::IpAddr;

fn name() -> impl Strategy<Value = String> {
    "[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?"
}

/// The name of a job, in half of the cases of a namespace.
fn name_of_job() -> impl Strategy<Value = String> {
    (name(), proptest::option::of("team-[a-c]")).prop_map(|(name, namespace)| match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name,
    })
}

fn key() -> impl Strategy<Value = String> {
    "([a-z]{1,5}\\.io/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,8}[A-Za-z0-9])?"
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof!["[A-Za-z0-9]([A-Za-z0-9_.-]{0,8}[A-Za-z0-9])?", "true|null|1e3|0x1f|yes|1\\.10|", Just(String::new())]
}

fn labels() -> impl Strategy<Value = Labels> {
    btree_map(key(), value(), 0..4)
}

/// Text for programs: anything but NUL, and often what YAML could take for something else.
fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>().prop_map(|text| text.replace('\0', "")),
        "[ \t\r\n'\"#:\\-?{}\\[\\]&*!|>%@`~\u{85}\u{a0}\u{2028}\u{feff}\u{7f}\u{1b}a-c0-9]{0,12}",
        "true|null|~|1e3|0x1f|0o7|yes|no|on|1_000|\\.inf|-|---|\\.\\.\\.|<<|=|2001-01-01|12:30:45| a|a |- a|a: b|a #b",
        "(line [a-z ]{0,20}\n){1,4}",
        "[a-z ]{70,200}",
    ]
}

fn amounts() -> impl Strategy<Value = Amounts> {
    let cpu = prop_oneof![0..10_000i64, Just(i64::MAX)].prop_map(|amount| ("cpu", amount));
    let memory = prop_oneof![0..10_000i64, (0..1000i64).prop_map(|gi| gi << 30), Just(i64::MAX)];
    let memory = memory.prop_map(|amount| ("memory", amount));
    let devices = prop_oneof![0..1000i64, (0..64i64).prop_map(|whole| whole * 1000)];
    let devices = devices.prop_map(|amount| ("nvidia.com/gpu", amount));
    vec(prop_oneof![cpu, memory, devices], 0..4)
        .prop_map(|amounts| amounts.into_iter().map(|(name, amount)| (name.to_string(), amount)).collect())
}

fn requirement() -> impl Strategy<Value = Requirement> {
    let operators = prop_oneof![
        (Just(Operator::In), vec(value(), 1..3)),
        (Just(Operator::NotIn), vec(value(), 1..3)),
        Just((Operator::Exists, vec![])),
        Just((Operator::DoesNotExist, vec![])),
        (Just(Operator::Gt), any::<i64>().prop_map(|bound| vec![bound.to_string()])),
        (Just(Operator::Lt), any::<i64>().prop_map(|bound| vec![bound.to_string()])),
    ];
    (key(), operators).prop_map(|(key, (operator, values))| Requirement { key, operator, values })
}

fn term() -> impl Strategy<Value = SelectorTerm> {
    vec(requirement(), 0..3).prop_map(SelectorTerm::of_labels)
}

fn required_term() -> impl Strategy<Value = SelectorTerm> {
    let operator = prop::sample::select(vec![Operator::In, Operator::NotIn]);
    let field = (operator, vec(name(), 1..3)).prop_map(|(operator, values)| Requirement {
        key: NAME_FIELD.into(),
        operator,
        values,
    });
    (vec(requirement(), 0..3), vec(field, 0..2))
        .prop_map(|(requirements, fields)| SelectorTerm { requirements, fields })
}

fn toleration() -> impl Strategy<Value = Toleration> {
    let effects = [TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule, TaintEffect::NoExecute];
    let effect = option::of(prop::sample::select(effects.to_vec()));
    let seconds = option::of(0..=i64::MAX as u64);
    (key(), value(), any::<bool>(), any::<bool>(), effect, seconds).prop_map(
        |(key, value, equal, any_key, effect, seconds)| {
            let lasts = effect.is_none_or(|effect| effect == TaintEffect::NoExecute);
            let toleration_seconds = seconds.filter(|_| lasts);
            let (key, operator, value) = match equal {
                true if any_key => (key, TolerationOperator::Gt, "-7".to_string()),
                true => (key, TolerationOperator::Equal, value),
                false if any_key => (String::new(), TolerationOperator::Exists, String::new()),
                false => (key, TolerationOperator::Exists, String::new()),
            };
            Toleration { key, operator, value, effect, toleration_seconds }
        },
    )
}

fn topology() -> impl Strategy<Value = TopologyRequest> {
    let levelled = (prop_oneof![Just(TopologyMode::Required), Just(TopologyMode::Preferred)], key());
    let bare = (prop_oneof![Just(TopologyMode::None), Just(TopologyMode::Unconstrained)], Just(String::new()));
    let topology = prop_oneof![Just(String::new()), name()];
    let slice = (key(), 1..100u32).prop_map(|(level, size)| TopologySlice { level, size });
    let slices = vec(slice, 0..4).prop_map(|mut slices| {
        slices.sort();
        slices.dedup_by(|one, other| one.level == other.level);
        slices
    });
    (topology, prop_oneof![levelled, bare], slices, any::<bool>()).prop_map(
        |(topology, (mode, level), slices, balanced)| TopologyRequest { topology, mode, level, slices, balanced },
    )
}

/// What is compared with labels of tasks is no number.
fn task_requirement() -> impl Strategy<Value = Requirement> {
    requirement().prop_filter("no Gt and Lt", |found| !matches!(found.operator, Operator::Gt | Operator::Lt))
}

fn neighbour_term() -> impl Strategy<Value = NeighbourTerm> {
    let selector = || option::of(vec(task_requirement(), 0..3));
    let namespaces = btree_set(name(), 0..3);
    (selector(), namespaces, selector(), key()).prop_map(|(selector, namespaces, namespace_selector, topology_key)| {
        NeighbourTerm { selector, namespaces, namespace_selector, topology_key }
    })
}

fn spread_constraint() -> impl Strategy<Value = SpreadConstraint> {
    let numbers = (1..9u32, 1..9u32);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (key(), numbers, option::of(vec(task_requirement(), 0..3)), flags).prop_map(
        |(topology_key, (max_skew, min_domains), selector, (is_hard, honours_affinity, honours_taints))| {
            // With fewer domains than wanted nothing but a hard constraint is another one.
            let min_domains = if is_hard { min_domains } else { 1 };
            SpreadConstraint {
                topology_key,
                max_skew,
                is_hard,
                selector,
                min_domains,
                honours_affinity,
                honours_taints,
            }
        },
    )
}

fn neighbours() -> impl Strategy<Value = Option<Box<Neighbours>>> {
    let terms = || vec(neighbour_term(), 0..2);
    let near = vec((1..=100i32, neighbour_term()), 0..2);
    let far = vec((-100..=-1i32, neighbour_term()), 0..2);
    (vec(spread_constraint(), 0..2), terms(), terms(), near, far).prop_map(
        |(spread, affinity, anti_affinity, mut preferred, far)| {
            preferred.extend(far);
            let asked = Neighbours { spread, affinity, anti_affinity, preferred };
            (!asked.is_empty()).then(|| Box::new(asked))
        },
    )
}

fn probe(kind: ProbeKind) -> impl Strategy<Value = Probe> {
    let program = words().prop_filter("a program has a name", |program| !program.is_empty());
    let exec = (program, vec(words(), 0..3)).prop_map(|(program, mut command)| {
        command.insert(0, program);
        ProbeAction::Exec { command }
    });
    let host = || prop_oneof![Just(String::new()), name(), Just("::1".to_string())];
    let headers = vec(("[A-Za-z-]{1,8}", "[ -~]{0,8}"), 0..3);
    let http = ("/[a-z0-9?=&%./-]{0,9}", 1..=u16::MAX, host(), any::<bool>(), headers);
    let http = http.prop_map(|(path, port, host, is_https, headers)| ProbeAction::HttpGet {
        path,
        port,
        host,
        is_https,
        headers,
    });
    let tcp = (1..=u16::MAX, host()).prop_map(|(port, host)| ProbeAction::TcpSocket { port, host });
    let numbers = (0..100u32, 1..100u32, 1..100u32, 1..10u32, 1..10u32);
    let grace_ms = option::of(1..100_000u64);
    (prop_oneof![exec, http, tcp], numbers, grace_ms).prop_map(move |(action, numbers, grace_ms)| {
        let (delay, period_seconds, timeout_seconds, successes, failure_threshold) = numbers;
        let is_readiness = kind == ProbeKind::Readiness;
        Probe {
            action,
            initial_delay_seconds: delay,
            period_seconds,
            timeout_seconds,
            success_threshold: if is_readiness { successes } else { 1 },
            failure_threshold,
            grace_ms: grace_ms.filter(|_| !is_readiness),
        }
    })
}

fn probes() -> impl Strategy<Value = Option<Box<Probes>>> {
    let of = |kind| option::of(probe(kind));
    let all = (of(ProbeKind::Startup), of(ProbeKind::Readiness), of(ProbeKind::Liveness));
    let time = || prop_oneof![Just(0), 1..100_000u64];
    (all, any::<bool>(), (time(), time(), time(), time())).prop_map(
        |((startup, readiness, liveness), ignores, times)| {
            let (ready_after_ms, unready_after_ms, unready_for_ms, unhealthy_after_ms) = times;
            let sim = SimHealth { ready_after_ms, unready_after_ms, unready_for_ms, unhealthy_after_ms };
            let mut probes = Probes { startup, readiness, liveness, on_unhealthy: OnUnhealthy::Count, sim };
            if ignores && probes.may_end() {
                probes.on_unhealthy = OnUnhealthy::Ignore;
            }
            let asks = ProbeKind::ALL.iter().any(|kind| probes.get(*kind).is_some());
            asks.then(|| Box::new(probes))
        },
    )
}

fn task() -> impl Strategy<Value = TaskSpec> {
    let program = words().prop_filter("a program has a name", |program| !program.is_empty());
    let command = prop_oneof![
        Just(vec![]),
        (program, vec(words(), 0..4)).prop_map(|(program, mut arguments)| {
            arguments.insert(0, program);
            arguments
        })
    ];
    let env = btree_map("[A-Z_]([A-Z0-9_]{0,6})", words(), 0..4).prop_map(|env| env.into_iter().collect());
    let times = prop_oneof![Just(0), 0..100_000u64, (0..100u64).prop_map(|seconds| seconds * 1000)];
    (command, env, words(), (times.clone(), times.clone()), times, (0..=255i32, probes())).prop_map(
        |(command, env, working_dir, (stop_delay_ms, grace_ms), sim_duration_ms, (sim_exit_code, probes))| TaskSpec {
            command,
            env,
            working_dir,
            stop_delay_ms,
            grace_ms,
            probes,
            sim_duration_ms,
            sim_exit_code,
        },
    )
}

/// Limits as they may stand beside `requests`: some have none, others the same, and what is no device may have more.
fn limits_over(requests: &Amounts, dice: u32) -> Amounts {
    let more = |name: &String| if is_extended(name) { 0 } else { i64::from(dice % 3) };
    let limited = requests.iter().filter(|(name, amount)| name.len() as u32 % 4 != dice % 4 && **amount > 0);
    limited.map(|(name, amount)| (name.clone(), amount.saturating_add(more(name)))).collect()
}

fn budget() -> impl Strategy<Value = BudgetTerms> {
    let amount = prop_oneof![any::<u32>().prop_map(TaskAmount::Tasks), (0..=100u32).prop_map(TaskAmount::Percent)];
    let unhealthy = select(vec![UnhealthyEviction::IfHealthyBudget, UnhealthyEviction::AlwaysAllow]);
    (amount, any::<bool>(), unhealthy).prop_map(|(amount, is_least, unhealthy)| {
        let limit = if is_least { BudgetLimit::MinAvailable(amount) } else { BudgetLimit::MaxUnavailable(amount) };
        BudgetTerms { limit, unhealthy }
    })
}

fn group() -> impl Strategy<Value = GroupSpec> {
    let counts = (1..1000u32).prop_flat_map(|count| (Just(count), 1..=count));
    let first =
        (counts, any::<bool>(), amounts(), labels(), vec(required_term(), 0..3), vec((1..=100u32, term()), 0..3));
    // Two ports of one group may not meet.
    let ports = btree_map(1..u16::MAX, (select(&PROTOCOLS[..]), option::of(any::<IpAddr>())), 0..4);
    let ports = ports.prop_map(|ports| {
        let port = |(port, ((_, protocol), address))| HostPort::on(port, protocol, address);
        ports.into_iter().map(port).collect()
    });
    let limit = prop_oneof![Just(0), 1..10u32];
    let spares = prop_oneof![Just(0), 1..4u32];
    let second = (vec(toleration(), 0..3), ports, (limit, spares), any::<bool>(), topology(), value(), task());
    let third = (labels(), neighbours(), option::of(budget()));
    (first, second, third).prop_map(|(first, second, (labels, neighbours, budget))| {
        let ((count, min_count), elastic, requests, node_selector, affinity, preferred) = first;
        let (tolerations, ports, (max_per_node, spares), spreads, topology, place_with, task) = second;
        let spread = if spreads { SpreadMode::Spread } else { SpreadMode::Pack };
        GroupSpec {
            name: String::new(),
            labels,
            neighbours,
            count,
            min_count,
            elastic,
            limits: if elastic { limits_over(&requests, min_count) } else { Default::default() },
            requests,
            node_selector,
            affinity,
            preferred,
            tolerations,
            ports,
            max_per_node,
            spares,
            spread,
            topology,
            disruption_budget: budget.map(Box::new),
            place_with,
            task,
        }
    })
}

fn job() -> impl Strategy<Value = JobSpec> {
    let class = prop::sample::select(Class::BUILT_IN.to_vec());
    let groups = vec(group(), 1..4).prop_map(|mut groups| {
        groups.iter_mut().enumerate().for_each(|(index, group)| group.name = format!("g{index}"));
        groups
    });
    let queue = prop_oneof![Just(String::new()), name()];
    let priority =
        prop_oneof![any::<i32>().prop_map(|value| (value, String::new())), name().prop_map(|name| (0, name))];
    let seconds = prop_oneof![Just(0), Just(86_400), 1..1_000_000u64];
    let numbers = (priority, any::<u32>(), seconds.clone(), seconds);
    let flags = (any::<bool>(), any::<bool>(), repair(), option::of(strategy()));
    (name_of_job(), class, queue, numbers, labels(), groups, flags).prop_map(
        |(
            name,
            class,
            queue,
            (priority, retries, deadline, ttl),
            labels,
            mut groups,
            (keeps, suspended, repair, strategy),
        )| {
            let has_none = |group: &GroupSpec| class.built_in().is_none_or(|kind| group.spares_problem(kind).is_some());
            groups.iter_mut().filter(|group| has_none(group)).for_each(|group| group.spares = 0);
            let mut job = JobSpec {
                name,
                class,
                queue,
                subqueue: String::new(),
                priority: priority.0,
                priority_class: priority.1,
                preempts: retries % 5 != 0,
                preemptible: retries % 7 != 0,
                labels,
                groups,
                retries,
                active_deadline_seconds: deadline,
                pending_timeout_seconds: deadline / 2,
                ttl_seconds_after_finished: ttl,
                on_disconnect: if keeps { OnDisconnect::Keep } else { OnDisconnect::Stop },
                reconcile: match (keeps, retries % 3) {
                    (true, 1) => Reconcile::Original,
                    (true, 2) => Reconcile::LongestRunning,
                    _ => Reconcile::Newer,
                },
                repair,
                suspended,
                strategy: strategy.filter(|_| class == Class::SERVICE).map(Box::new),
            };
            for at in 0..job.groups.len() {
                if job.neighbours_problem(at).is_some() {
                    job.groups[at].neighbours = None;
                }
            }
            job
        },
    )
}

fn strategy() -> impl Strategy<Value = RolloutStrategy> {
    let amount = || prop_oneof![any::<u32>().prop_map(TaskAmount::Tasks), (0..=100u32).prop_map(TaskAmount::Percent)];
    let seconds = || prop_oneof![Just(0), Just(600), 1..100_000u64];
    let kind = prop_oneof![Just(RolloutKind::RollingUpdate), Just(RolloutKind::Recreate)];
    let canary = prop_oneof![Just(0), 1..1000u32];
    let strategy = (kind, amount(), amount(), seconds(), seconds(), any::<bool>(), canary, any::<bool>()).prop_map(
        |(kind, max_surge, max_unavailable, ready, deadline, auto_revert, canary, pause)| RolloutStrategy {
            kind,
            max_surge,
            max_unavailable,
            min_ready_seconds: ready,
            progress_deadline_seconds: deadline,
            auto_revert,
            canary,
            pause,
        },
    );
    let strategy =
        strategy.prop_map(|drawn| if drawn.problem().is_some() { RolloutStrategy::default() } else { drawn });
    prop_oneof![Just(RolloutStrategy::default()), strategy]
}

fn repair() -> impl Strategy<Value = RepairSpec> {
    (0..3u8, prop_oneof![Just(0), 1..100_000u64], any::<bool>()).prop_map(|(kind, seconds, provision)| {
        let (policy, widen_to) = match kind {
            0 => (RepairPolicy::FailFast, ""),
            1 => (RepairPolicy::Wait, ""),
            _ => (RepairPolicy::Widen, "topology.ohm/block"),
        };
        RepairSpec {
            policy,
            timeout_seconds: if kind == 0 { 0 } else { seconds },
            widen_to: widen_to.to_string(),
            provision: provision && kind != 0,
            ..RepairSpec::default()
        }
    })
}

fn read_back(file_name: &str, text: &str) -> JobSpec {
    let mut verdicts = parse(file_name, text.as_bytes());
    assert_eq!(verdicts.len(), 1, "{text}");
    match verdicts.remove(0).unwrap_or_else(|error| panic!("{error}\n{text}")).content {
        Content::Job(job) => *job,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn a_written_job_reads_back_the_same(job in job()) {
        prop_assert_eq!(validate::job(&job), vec![]);
        let json = to_json(&job).unwrap();
        prop_assert_eq!(&read_back("job.json", &json), &job, "{}", json);
        let yaml = to_yaml(&job).unwrap();
        prop_assert_eq!(&read_back("job.yaml", &yaml), &job, "{}", yaml);
    }
}
