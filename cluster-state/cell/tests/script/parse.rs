//! Words of a script as model values.

use ohm_model::{
    AdmissionCheck, Amounts, Class, Command, ConditionAction, ConditionKind, Exit, GroupSpec, HostPort, JobSpec, Lease,
    Namespace, NodeCondition, NodeSpec, OnDisconnect, Operator, PriorityClass, QueueSpec, QueueingStrategy, Reconcile,
    RepairPolicy, RepairSpec, Requirement, RunRef, SelectorTerm, Shard, Subqueue, Survivors, Taint, TaintEffect,
    TaskSpec, Toleration, TolerationOperator, TopologyMode, TopologySlice, TopologySpec, UnitKind, UsageBasedOrder,
};
use std::collections::BTreeMap;

/// The words of a line, front to back; `key=value` words may be asked for by key wherever they stand before the next
/// `/`.
pub(super) struct Words<'a> {
    words: Vec<&'a str>,
    line: &'a str,
}

impl<'a> Words<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        let code = line.split(" # ").next().unwrap_or(line);
        let code = if code.starts_with('#') { "" } else { code };
        Words { words: code.split_whitespace().collect(), line }
    }

    pub(super) fn next(&mut self) -> Option<&'a str> {
        (!self.words.is_empty()).then(|| self.words.remove(0))
    }

    pub(super) fn need(&mut self, what: &str) -> &'a str {
        self.next().unwrap_or_else(|| panic!("`{}` lacks {what}", self.line))
    }

    /// Takes `word` if it comes next.
    pub(super) fn take(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        found.then(|| self.words.remove(0));
        found
    }

    /// Takes the value of `key=value` before the next `/`.
    pub(super) fn option(&mut self, key: &str) -> Option<&'a str> {
        let end = self.words.iter().position(|word| *word == "/").unwrap_or(self.words.len());
        let value = |word: &&'a str| word.strip_prefix(key)?.strip_prefix('=');
        let at = self.words[..end].iter().position(|word| value(word).is_some())?;
        value(&self.words.remove(at))
    }

    /// Takes the bare word `flag` before the next `/`.
    pub(super) fn flag(&mut self, flag: &str) -> bool {
        let end = self.words.iter().position(|word| *word == "/").unwrap_or(self.words.len());
        let at = self.words[..end].iter().position(|word| *word == flag);
        at.map(|at| self.words.remove(at)).is_some()
    }

    /// Takes all words that start with `prefix` before the next `/`, without it.
    pub(super) fn all(&mut self, prefix: &str) -> Vec<&'a str> {
        let end = self.words.iter().position(|word| *word == "/").unwrap_or(self.words.len());
        let found = self.words[..end].iter().filter_map(|word| word.strip_prefix(prefix)).collect();
        let rest = self.words.split_off(end);
        self.words.retain(|word| !word.starts_with(prefix));
        self.words.extend(rest);
        found
    }

    pub(super) fn parsed<T: std::str::FromStr>(&mut self, key: &str, otherwise: T) -> T {
        let line = self.line;
        let read = |text: &str| text.parse().unwrap_or_else(|_| panic!("{key} in `{line}` is no number"));
        self.option(key).map_or(otherwise, read)
    }

    pub(super) fn done(&self) {
        assert!(self.words.is_empty(), "`{}`: nothing understands {:?}", self.line, self.words);
    }

    /// All `resource=quantity` words before the next `/`.
    pub(super) fn amounts(&mut self) -> Amounts {
        let mut amounts = Amounts::new();
        while let Some(word) = self.words.first().filter(|word| word.contains('=')) {
            let (name, quantity) = word.split_once('=').expect("a word with =");
            amounts.insert(name.to_string(), amount(name, quantity));
            self.words.remove(0);
        }
        amounts
    }

    /// `node NAME [key=1] [instance=1] [boot=1] [address=…] [label:KEY=VALUE…] [taint:KEY=VALUE:EFFECT…] [alive:JOB/GROUP/TASK#INCARNATION…] RESOURCE=QUANTITY…`
    pub(super) fn node(&mut self, run_ref: impl Fn(&str) -> RunRef) -> Command {
        let name = self.need("name").to_string();
        let (key, instance, boot) = (self.parsed("key", 1), self.parsed("instance", 1), self.parsed("boot", 1));
        let labels = self.all("label:").into_iter().map(pair).collect();
        let taints = self.all("taint:").into_iter().map(taint).collect();
        let alive: Vec<RunRef> = self.all("alive:").into_iter().map(run_ref).collect();
        let address = self.option("address").unwrap_or_default().to_string();
        let spec = NodeSpec { name, labels, taints, capacity: self.amounts(), address };
        Command::RegisterNode { spec, key, instance, boot, alive }
    }

    /// `job NAME CLASS [queue=…] [priority=…|priority-class=…] [retries=…] [deadline=SECONDS] [start-within=SECONDS] [ttl=SECONDS] [suspended] [label:KEY=VALUE…]
    /// [never-preempts] [not-preemptible]
    /// [disconnect=keep] [reconcile=newer|original|longest-running] / GROUP …`
    pub(super) fn job(&mut self) -> JobSpec {
        let name = self.need("name").to_string();
        let class = class(self.need("class"));
        let mut job = JobSpec {
            name,
            class,
            subqueue: String::new(),
            queue: self.option("queue").unwrap_or_default().to_string(),
            priority: self.parsed("priority", 0),
            priority_class: self.option("priority-class").unwrap_or_default().to_string(),
            preempts: !self.flag("never-preempts"),
            preemptible: !self.flag("not-preemptible"),
            labels: BTreeMap::new(),
            groups: Vec::new(),
            retries: self.parsed("retries", 0),
            active_deadline_seconds: self.parsed("deadline", 0),
            pending_timeout_seconds: self.parsed("start-within", 0),
            ttl_seconds_after_finished: self.parsed("ttl", 86_400),
            on_disconnect: OnDisconnect::Stop,
            reconcile: Reconcile::Newer,
            repair: RepairSpec::default(),
            suspended: self.flag("suspended"),
            strategy: self.strategy(),
        };
        job.labels = self.all("label:").into_iter().map(pair).collect();
        if self.option("disconnect") == Some("keep") {
            job.on_disconnect = OnDisconnect::Keep;
        }
        job.reconcile = match self.option("reconcile") {
            None | Some("newer") => Reconcile::Newer,
            Some("original") => Reconcile::Original,
            Some("longest-running") => Reconcile::LongestRunning,
            Some(other) => panic!("{other} is no rule"),
        };
        if let Some(policy) = self.option("repair") {
            let (policy, level) = policy.split_once(':').unwrap_or((policy, ""));
            job.repair.policy = match policy {
                "wait" => RepairPolicy::Wait,
                "widen" => RepairPolicy::Widen,
                other => panic!("{other} is no policy"),
            };
            job.repair.widen_to = level.to_string();
            job.repair.timeout_seconds = self.parsed("timeout", 0);
        }
        if self.option("survivors") == Some("restartAll") {
            job.repair.survivors = Survivors::RestartAll;
        }
        job.repair.provision = self.take("provision");
        while self.take("/") {
            job.groups.push(self.group());
        }
        job
    }

    /// `namespace NAME [label:KEY=VALUE…]`
    pub(super) fn namespace(&mut self) -> Namespace {
        let name = self.need("name").to_string();
        Namespace { name, labels: self.all("label:").into_iter().map(pair).collect() }
    }

    /// `priority-class NAME VALUE [description=WORD] [never-preempts] [default]`
    pub(super) fn priority_class(&mut self) -> PriorityClass {
        let description = self.option("description").unwrap_or_default().to_string();
        let name = self.need("name").to_string();
        let (preempts, global_default) = (!self.flag("never-preempts"), self.flag("default"));
        let value = self.need("value").parse().expect("a number");
        PriorityClass { name, value, preempts, description, global_default }
    }

    fn group(&mut self) -> GroupSpec {
        let name = self.need("group name").to_string();
        let count = self.parsed("count", 1);
        let ports = self.option("ports").map(|ports| ports.split(',').map(port));
        let mut group = GroupSpec {
            name,
            labels: self.all("label:").into_iter().map(pair).collect(),
            neighbours: self.neighbours(),
            disruption_budget: self.own_budget(),
            count,
            min_count: self.parsed("min", count),
            elastic: self.flag("elastic"),
            requests: Amounts::new(),
            limits: self.all("limit:").into_iter().map(limit).collect(),
            node_selector: self.all("select:").into_iter().map(pair).collect(),
            affinity: self.all("affinity:").into_iter().map(term).collect(),
            preferred: Vec::new(),
            tolerations: self.all("tolerate:").into_iter().map(toleration).collect(),
            ports: ports.map(Iterator::collect).unwrap_or_default(),
            max_per_node: self.parsed("max", 0),
            spares: self.parsed("spares", 0),
            spread: Default::default(),
            topology: Default::default(),
            place_with: self.option("with").unwrap_or_default().to_string(),
            task: TaskSpec { grace_ms: self.parsed("grace-ms", 0), probes: self.probes(), ..TaskSpec::default() },
        };
        if let Some(level) = self.option("required") {
            group.topology.mode = TopologyMode::Required;
            group.topology.level = level.to_string();
            group.topology.topology = self.option("topology").unwrap_or_default().to_string();
        }
        for slice in self.all("slice:") {
            let (level, size) = slice.rsplit_once('=').expect("slice:LEVEL=SIZE");
            let size = size.parse().expect("a size");
            group.topology.slices.push(TopologySlice { level: level.to_string(), size });
        }
        group.requests = self.amounts();
        group
    }

    /// `queue NAME [strict] [checks=CLASS,CLASS@FLAVOR@FLAVOR] [parent=COHORT] [stop=POLICY] [most-waiting=N]
    /// [min-runtime=SECONDS] [ready=TIMEOUT,RECOVERY,BASE,MAX[,LIMIT]] [namespaces=NAME,NAME]
    /// [lend:RESOURCE=…] [borrow:RESOURCE=…] RESOURCE=QUANTITY… [/ covers …]`
    pub(super) fn queue(&mut self, is_cohort: bool) -> QueueSpec {
        let checks = self.option("checks").map(|checks| checks.split(',').map(check).collect());
        let admission_checks = checks.unwrap_or_default();
        let (preemption, weight_milli) = (self.preemption(), self.parsed("weight-milli", 1000));
        let strategies = [QueueingStrategy::BestEffortFifo, QueueingStrategy::StrictFifo];
        let stop_policy = self.stop_policy();
        QueueSpec {
            name: self.need("name").to_string(),
            is_cohort,
            queueing_strategy: strategies[usize::from(self.flag("strict"))],
            preemption,
            stop_policy,
            namespaces: self.option("namespaces").map(|names| Box::new(names.split(',').map(String::from).collect())),
            max_waiting_jobs: self.parsed("most-waiting", 0),
            min_runtime_seconds: self.parsed("min-runtime", 0),
            ready_timeout: self.ready_timeout().map(Box::new),
            usage_based_order: self.usage_based_order().map(Box::new),
            weight_milli,
            parent: self.option("parent").unwrap_or_default().to_string(),
            borrowing_limit: self.all("borrow:").into_iter().map(limit).collect(),
            lending_limit: self.all("lend:").into_iter().map(limit).collect(),
            nominal: self.amounts(),
            admission_checks,
            resource_groups: self.resource_groups(),
            ..QueueSpec::default()
        }
    }

    /// `half-life=SECONDS [RESOURCE:WEIGHT…]`, comma-separated.
    fn usage_based_order(&mut self) -> Option<UsageBasedOrder> {
        let mut parts = self.option("half-life")?.split(',');
        let half_life_seconds = parts.next()?.parse().expect("seconds");
        let weight = |part: &str| {
            let (resource, weight) = part.split_once(':').expect("RESOURCE:WEIGHT");
            (resource.to_string(), weight.parse::<u64>().expect("a weight") * 1000)
        };
        Some(UsageBasedOrder { half_life_seconds, resource_weights: parts.map(weight).collect() })
    }

    /// `subqueue NAME QUEUE [weight-milli=N]`
    pub(super) fn subqueue(&mut self) -> Subqueue {
        let weight_milli = self.parsed("weight-milli", 1000);
        Subqueue { name: self.need("name").to_string(), queue: self.need("queue").to_string(), weight_milli }
    }

    /// `topology NAME LEVEL…`
    pub(super) fn topology(&mut self) -> TopologySpec {
        let name = self.need("name").to_string();
        TopologySpec { name, levels: std::iter::from_fn(|| self.next()).map(String::from).collect() }
    }
}

/// `CLASS[@FLAVOR]…`
fn check(text: &str) -> AdmissionCheck {
    let mut parts = text.split('@').map(String::from);
    let name = parts.next().unwrap_or_default();
    AdmissionCheck { name, on_flavors: parts.collect() }
}

pub(super) fn pair(text: &str) -> (String, String) {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    (key.to_string(), value.to_string())
}

pub(super) fn limit(text: &str) -> (String, i64) {
    let (name, quantity) = text.split_once('=').expect("RESOURCE=QUANTITY");
    (name.to_string(), amount(name, quantity))
}

fn effect(text: &str) -> TaintEffect {
    match text {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        other => panic!("{other} is no taint effect"),
    }
}

pub(super) fn taint(text: &str) -> Taint {
    let (pair_text, effect_text) = text.rsplit_once(':').expect("KEY=VALUE:EFFECT");
    let (key, value) = pair(pair_text);
    Taint { key, value, effect: effect(effect_text) }
}

/// `KIND:ACTION[:MESSAGE]`
pub(super) fn condition(text: &str) -> NodeCondition {
    let mut parts = text.splitn(3, ':');
    let (kind, action) = (parts.next().expect("a kind"), parts.next().expect("KIND:ACTION"));
    let kind = ConditionKind::ALL.into_iter().find(|known| known.name() == kind).expect("a kind of condition");
    let action = ConditionAction::named(action).expect("an action");
    NodeCondition { kind, action, message: parts.next().unwrap_or_default().to_string() }
}

/// `KEY[=VALUE][@SECONDS]`
pub(super) fn toleration(text: &str) -> Toleration {
    let (text, seconds) = text.split_once('@').map_or((text, None), |(text, seconds)| (text, Some(seconds)));
    let toleration_seconds = seconds.map(|seconds| seconds.parse().expect("seconds"));
    let (key, value) = pair(text);
    let operator = if value.is_empty() { TolerationOperator::Exists } else { TolerationOperator::Equal };
    Toleration { key, operator, value, effect: None, toleration_seconds }
}

fn term(text: &str) -> SelectorTerm {
    let (key, values) = pair(text);
    let values = values.split(',').map(String::from).collect();
    SelectorTerm::of_labels(vec![Requirement { key, operator: Operator::In, values }])
}

/// `4`, `500m`, `8Gi` of resource `name`, in its unit.
fn amount(name: &str, text: &str) -> i64 {
    let digits = text.trim_end_matches(|character: char| character.is_alphabetic());
    let number: i64 = digits.parse().unwrap_or_else(|_| panic!("{text} is no quantity of {name}"));
    let whole = if UnitKind::of(name) == UnitKind::Milli { 1000 } else { 1 };
    match &text[digits.len()..] {
        "" => number.saturating_mul(whole),
        "m" => number,
        "Mi" => number << 20,
        "Gi" => number << 30,
        other => panic!("{other} is no unit here"),
    }
}

pub(super) fn class(text: &str) -> Class {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// `health` or `CLASS/NUMBER`.
pub(super) fn lease(text: &str) -> Lease {
    match text.split_once('/') {
        None if text == "provisioning" => Lease::Provisioning,
        None => Lease::Health,
        Some((name, number)) => Lease::Shard(Shard { class: class(name), number: number.parse().expect("a shard") }),
    }
}

/// `+5s`, `+200ms` or milliseconds since 1970.
pub(super) fn time(text: &str, now_ms: u64) -> u64 {
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("{text} is no time"));
    match text.strip_prefix('+') {
        None => number(text),
        Some(text) => match text.strip_suffix("ms") {
            Some(text) => now_ms.saturating_add(number(text)),
            None => now_ms.saturating_add(number(text.trim_end_matches('s')).saturating_mul(1000)),
        },
    }
}

/// `FIRST..END` or `FIRST+COUNT`, as (first, count).
pub(super) fn range(text: &str) -> (u32, u32) {
    let number = |text: &str| text.parse::<u32>().unwrap_or_else(|_| panic!("{text} is no task"));
    match text.split_once("..") {
        Some((first, end)) => (number(first), number(end) - number(first)),
        None => {
            let (first, count) = text.split_once('+').expect("FIRST..END or FIRST+COUNT");
            (number(first), number(count))
        }
    }
}

pub(super) fn exit(text: &str) -> Exit {
    match text {
        "oom" => Exit::OutOfMemory,
        "over-request" => Exit::OverRequest,
        "start-failed" => Exit::StartFailed,
        "unhealthy" => Exit::Unhealthy,
        "lease-expired" => Exit::LeaseExpired,
        "never-started" => Exit::NeverStarted,
        "vanished" => Exit::Vanished,
        "node-shutdown" => Exit::NodeShutdown,
        code => match code.strip_prefix("signal-") {
            Some(signal) => Exit::Signal(signal.parse().expect("a signal")),
            None => Exit::Code(code.parse().unwrap_or_else(|_| panic!("{code} is no exit"))),
        },
    }
}

/// A host port; `0` is one that the cell refuses.
fn port(text: &str) -> HostPort {
    if text == "0" { HostPort::tcp(0) } else { text.parse().expect("a port") }
}
