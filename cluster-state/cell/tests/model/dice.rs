//! Random commands for small, tight cells: mostly sensible, often slightly wrong.

use crate::budgets;
use crate::checks::name_of_check;
use crate::neighbours;
use crate::profiles::own_class;
use crate::state::{GPU, LEVELS};
use crate::world::{PEOPLE, World};
use ohm_model::{
    AdmissionCheck, Amounts, Class, Command, ConditionAction, ConditionKind, Exit, GroupSpec, HostPort, Incarnation,
    JobId, JobSpec, Lease, NodeConclusion, NodeCondition, NodeHealth, NodeId, NodeSpec, OnDisconnect, PriorityClass,
    QueueSpec, Reconcile, RepairPolicy, RepairSpec, RunRef, RunReport, RunReportKind, SessionId, Survivors, Taint,
    TaintEffect, TaintPattern, Toleration, TolerationOperator, TopologyMode,
};

pub(crate) const NODES: u64 = 5;
const JOBS: u64 = 6;

/// Ports that do not meet each other, of which some meet some of other groups.
fn ports(dice: &mut ohm_stdx::Prng) -> Vec<HostPort> {
    let sets = ["80 443", "443", "10.0.0.1:80", "10.0.0.2:80 443/UDP", "80/UDP 80"];
    sets[dice.below(5) as usize].split(' ').map(|port| port.parse().unwrap()).collect()
}

fn name_of_class(number: u64) -> String {
    format!("p{number}")
}

impl World {
    pub(crate) fn draw(&mut self) -> (SessionId, Command) {
        let name = |prefix: &str, number: u64| format!("{prefix}{number}");
        if self.dwells && self.dice.chance(200) {
            return (PEOPLE, self.check_report());
        }
        if self.dwells && self.dice.chance(60) {
            return (PEOPLE, self.released());
        }
        if self.dwells
            && self.dice.chance(120)
            && let Some(loss) = self.loss_of_admitted()
        {
            return (PEOPLE, loss);
        }
        if self.cell.jobs().iter().any(|job| self.cell.runs_to_leave(job).next().is_some()) && self.dice.chance(200) {
            return self.commit();
        }
        if self.holds_queues
            && self.dice.chance(120)
            && let Some(queue) = self.held_queue()
        {
            return (PEOPLE, Command::PutQueue(queue));
        }
        if self.times_queues
            && self.dice.chance(150)
            && let Some(queue) = self.timed_queue()
        {
            return (PEOPLE, Command::PutQueue(queue));
        }
        let command = match self.dice.below(104) {
            100..102 => self.cut_off(),
            102..104 if self.cell.kept().is_empty() => Command::Tick,
            0..9 | 102..104 => self.registration(),
            9..12 => self.drain(),
            12 if self.adds_taints && self.dice.chance(700) => self.taint(),
            12 => self.check_report(),
            13..15 => self.conclusion(),
            15..17 => Command::CordonNode { name: name("n", self.dice.below(NODES)), cordoned: self.dice.chance(400) },
            17 if self.dice.chance(300) => Command::ReleaseNode { name: name("n", self.dice.below(NODES)) },
            17 => Command::RemoveNode { name: name("n", self.dice.below(NODES)) },
            27..30 => self.update(),
            18..27 => Command::SubmitJobs { jobs: vec![self.job()] },
            30 => Command::CancelJob { name: name("j", self.dice.below(JOBS)), grace_ms: None },
            31 => Command::ForgetJob { name: name("j", self.dice.below(JOBS)) },
            32 => Command::SuspendJob { name: name("j", self.dice.below(JOBS)) },
            33..37 => Command::ResumeJob { name: name("j", self.dice.below(JOBS)) },
            37..56 => self.report(),
            56..63 => {
                self.now_ms += [1, 100, 1_000, 5_000, 70_000][self.dice.below(5) as usize];
                Command::Tick
            }
            63..64 => Command::PutQueue(self.queue()),
            64..66 if self.adds_classes => self.profile(),
            64 => self.update(),
            65 if self.dice.chance(500) => self.provisioning_class(),
            65 => self.priority_class(),
            66..68 => self.conditions(),
            _ => return self.commit(),
        };
        (PEOPLE, command)
    }

    /// A person puts a taint on a node, or takes one off.
    fn taint(&mut self) -> Command {
        let name = format!("n{}", self.dice.below(NODES));
        let effects = [TaintEffect::NoSchedule, TaintEffect::NoExecute, TaintEffect::NoExecute];
        let (key, effect) =
            (["only", "work"][self.dice.below(2) as usize].to_string(), effects[self.dice.below(3) as usize]);
        match self.dice.below(3) {
            0 => {
                let effect = self.dice.chance(300).then_some(effect);
                Command::UntaintNode { name, pattern: TaintPattern { key, value: None, effect } }
            }
            _ => Command::TaintNode { name, taint: Taint { key, value: String::new(), effect } },
        }
    }

    fn registration(&mut self) -> Command {
        let away: Vec<NodeId> = self.cell.kept().iter().map(|(_, kept)| kept.node).collect();
        // Nodes that are waited for come back more often than others.
        let awaited = if self.dice.chance(700) { self.dice.pick(&away).copied() } else { None };
        let dice = &mut self.dice;
        let name = match awaited {
            Some(node) => self.cell.nodes().name(node).to_string(),
            None => format!("n{}", dice.below(NODES)),
        };
        let mut capacity = Amounts::new();
        capacity.insert("cpu".into(), 1000 * dice.between(0, 6) as i64);
        capacity.insert("memory".into(), dice.between(0, 4) as i64);
        capacity.insert("pods".into(), dice.between(1, 8) as i64);
        if dice.chance(500) {
            capacity.insert(GPU.into(), 1000 * dice.between(0, 3) as i64);
        }
        let mut labels = ohm_model::selector::Labels::new();
        for level in LEVELS {
            if dice.chance(900) {
                labels.insert(level.into(), ["a", "b"][dice.below(2) as usize].into());
            }
        }
        if dice.chance(500) {
            labels.insert("disk".into(), "ssd".into());
        }
        let effects = [TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule, TaintEffect::NoExecute];
        let effect = effects[dice.below(3) as usize];
        let taint = dice.chance(150).then(|| Taint { key: "only".into(), value: "x".into(), effect });
        let mut spec = NodeSpec { name, labels, taints: taint.into_iter().collect(), capacity, address: String::new() };
        if self.dwells && self.dice.chance(400) {
            spec.labels.extend(self.brought_labels());
        }
        let known = self.cell.nodes().find(&spec.name).and_then(|node| self.cell.nodes().get(node)).cloned();
        let (mut key, mut instance, mut boot) = (1, self.dice.below(1000), 1);
        if let Some(known) = known {
            (key, boot) = (known.key, known.boot);
            let as_it_was = awaited.is_some() && self.dice.chance(800);
            if as_it_was {
                spec = (*known.spec).clone();
            }
            match if as_it_was { 7 } else { self.dice.below(8) } {
                0 => key += 1,
                1 => boot += 1 + self.dice.below(2),
                6 => boot -= self.dice.below(boot),
                2 => (spec, instance) = ((*known.spec).clone(), known.instance),
                3 | 4 => spec = NodeSpec { capacity: spec.capacity, ..(*known.spec).clone() },
                5 => spec = NodeSpec { labels: spec.labels, taints: spec.taints, ..(*known.spec).clone() },
                _ => {}
            }
        }
        let node = self.cell.nodes().find(&spec.name);
        let kept: Vec<RunRef> = node.into_iter().flat_map(|node| self.cell.kept().on_node(node)).collect();
        let mut alive: Vec<RunRef> = kept.into_iter().filter(|_| self.dice.chance(850)).collect();
        if self.dice.chance(50) {
            alive.extend(self.run());
        }
        Command::RegisterNode { spec, key, instance, boot, alive }
    }

    /// A node with runs that are kept is lost.
    fn cut_off(&mut self) -> Command {
        let keeps =
            |job: JobId| self.cell.jobs().get(job).is_some_and(|job| job.spec.on_disconnect == OnDisconnect::Keep);
        let hosts = self.cell.runs().iter().filter(|(_, run)| keeps(run.run.task.job)).map(|(_, run)| run.node);
        let hosts: Vec<NodeId> = hosts.collect();
        let Some(&node) = self.dice.pick(&hosts) else { return self.conclusion() };
        let incarnation = self.cell.nodes().get(node).map_or(Incarnation(0), |record| record.incarnation);
        let epoch = self.cell.sessions().lease(Lease::Health).epoch;
        Command::ConcludeNodes {
            epoch,
            conclusions: vec![NodeConclusion { node, incarnation, health: NodeHealth::Lost }],
        }
    }

    fn conclusion(&mut self) -> Command {
        let node = NodeId(self.dice.below(NODES) as u32);
        let known = self.cell.nodes().get(node).map_or(Incarnation(0), |record| record.incarnation);
        let incarnation = if self.dice.chance(900) { known } else { Incarnation(known.0.wrapping_sub(1)) };
        let health = [NodeHealth::Ready, NodeHealth::Suspect, NodeHealth::Lost][self.dice.below(3) as usize];
        let epoch = self.cell.sessions().lease(Lease::Health).epoch;
        Command::ConcludeNodes { epoch, conclusions: vec![NodeConclusion { node, incarnation, health }] }
    }

    fn conditions(&mut self) -> Command {
        let node = NodeId(self.dice.below(NODES) as u32);
        let known = self.cell.nodes().get(node).map_or(Incarnation(0), |record| record.incarnation);
        let incarnation = if self.dice.chance(900) { known } else { Incarnation(known.0.wrapping_sub(1)) };
        let actions = [ConditionAction::Note, ConditionAction::NoNewWork, ConditionAction::Drain];
        let mut conditions = Vec::new();
        for _ in 0..self.dice.below(3) {
            let kind = ConditionKind::ALL[self.dice.below(4) as usize];
            let action = actions[self.dice.below(3) as usize];
            conditions.push(NodeCondition { kind, action, message: format!("{}", self.dice.below(2)) });
        }
        let number = self.dice.below(30);
        Command::ReportConditions { node, incarnation, number, conditions }
    }

    pub(crate) fn job(&mut self) -> JobSpec {
        let class = Class::BUILT_IN[self.dice.below(3) as usize];
        let class = if self.adds_classes && self.dice.chance(250) { own_class() } else { class };
        let queues: Vec<String> = self.plain.queues.values().filter(|q| !q.is_cohort).map(|q| q.name.clone()).collect();
        let queue =
            if self.dice.chance(if self.dwells { 950 } else { 700 }) { self.dice.pick(&queues).cloned() } else { None };
        let together = self.dice.chance(300);
        let level = LEVELS[self.dice.below(2) as usize];
        let groups = (0..1 + self.dice.below(3) / 2).map(|at| self.group(at, class, together, level)).collect();
        JobSpec {
            name: format!("j{}", self.dice.below(JOBS)),
            class,
            queue: queue.unwrap_or_default(),
            subqueue: String::new(),
            priority: self.dice.below(3) as i32,
            priority_class: if self.dice.chance(300) { name_of_class(self.dice.below(2)) } else { String::new() },
            labels: Default::default(),
            groups,
            retries: self.dice.below(3) as u32,
            active_deadline_seconds: if self.dice.chance(200) { self.dice.between(1, 90) } else { 0 },
            preempts: true,
            preemptible: true,
            pending_timeout_seconds: 0,
            ttl_seconds_after_finished: self.dice.below(20),
            on_disconnect: if self.dice.chance(400) { OnDisconnect::Keep } else { OnDisconnect::Stop },
            reconcile: [Reconcile::Newer, Reconcile::Original, Reconcile::LongestRunning][self.dice.below(3) as usize],
            repair: RepairSpec {
                policy: if self.dice.chance(500) { RepairPolicy::FailFast } else { RepairPolicy::Wait },
                timeout_seconds: self.dice.below(30),
                survivors: if self.dice.chance(300) { Survivors::RestartAll } else { Survivors::Notify },
                provision: self.dice.chance(500),
                ..RepairSpec::default()
            },
            suspended: self.dice.chance(50),
            strategy: None,
        }
    }

    /// Most often another size of a job that is there.
    fn update(&mut self) -> Command {
        let known: Vec<JobSpec> = self.cell.jobs().iter().map(|job| (*job.spec).clone()).collect();
        let other = self.job();
        let Some(mut spec) = self.dice.pick(&known).cloned() else { return self.update_of(other) };
        for (at, group) in spec.groups.iter_mut().enumerate() {
            if self.dice.chance(200) {
                group.spares = self.dice.below(3) as u32;
            }
            if self.dice.chance(600) {
                group.count = self.dice.between(1, 6) as u32;
                group.min_count = if self.dice.chance(500) { group.min_count.min(group.count) } else { 1 };
            }
            if let Some(other) = other.groups.get(at).filter(|_| self.dice.chance(100)) {
                *group = other.clone();
            }
        }
        match self.dice.below(16) {
            0 => spec.priority = other.priority,
            1 => spec.priority_class = other.priority_class,
            2 => spec.queue = other.queue,
            3 => spec.retries = other.retries,
            4 => spec.active_deadline_seconds = other.active_deadline_seconds,
            5 => spec.repair = other.repair,
            6 => spec.suspended = !spec.suspended,
            7 => spec.groups = other.groups,
            8 => spec.groups.reverse(),
            9 => spec.class = other.class,
            10 => (spec.on_disconnect, spec.reconcile) = (other.on_disconnect, other.reconcile),
            11 => spec.name = other.name,
            13 if spec.active_deadline_seconds > 0 => spec.active_deadline_seconds += self.dice.between(1, 60),
            12 => drop(spec.labels.insert("team".into(), "a".into())),
            14 if self.has_budgets => spec.groups.iter_mut().for_each(|group| budgets::draw(&mut self.dice, group)),
            14 if self.has_rules => spec.groups.iter_mut().for_each(|group| neighbours::relabel(&mut self.dice, group)),
            _ => {}
        }
        self.update_of(spec)
    }

    /// The plain model knows nothing of rollouts: a service of which something stands changes its sizes alone.
    fn update_of(&mut self, mut spec: JobSpec) -> Command {
        let known = self.cell.jobs().find(&spec.name).filter(|job| job.kind.rolls() && job.live() > 0);
        for (group, now) in spec.groups.iter_mut().zip(known.iter().flat_map(|job| &job.spec.groups)) {
            let is_there =
                (&group.name, &group.topology, &group.place_with) == (&now.name, &now.topology, &now.place_with);
            if is_there {
                let sized = group.clone();
                *group = now.clone();
                (group.count, group.min_count, group.spares) = (sized.count, sized.min_count, sized.spares);
                (group.labels, group.disruption_budget) = (sized.labels, sized.disruption_budget);
            }
        }
        Command::UpdateJob { spec: Box::new(spec), version: None }
    }

    fn priority_class(&mut self) -> Command {
        let name = name_of_class(self.dice.below(2));
        match self.dice.chance(300) {
            true => Command::RemovePriorityClass { name },
            false => {
                let value = self.dice.below(2) as i32;
                let (preempts, description, global_default) = (true, String::new(), false);
                Command::PutPriorityClass(PriorityClass { name, value, preempts, description, global_default })
            }
        }
    }

    pub(crate) fn group(&mut self, at: u64, class: Class, together: bool, level: &str) -> GroupSpec {
        let (adds_taints, dice) = (self.adds_taints, &mut self.dice);
        let count = dice.between(1, 5) as u32;
        let mut requests = Amounts::new();
        requests.insert("cpu".into(), 500 * dice.between(0, 3) as i64);
        if dice.chance(300) {
            requests.insert("memory".into(), 1);
        }
        if dice.chance(200) {
            requests.insert(GPU.into(), [400, 500, 1000, 2000][dice.below(4) as usize]);
        }
        let mut group = GroupSpec {
            name: format!("g{at}"),
            labels: Default::default(),
            neighbours: None,
            count,
            min_count: if dice.chance(500) { 1 } else { dice.between(1, u64::from(count)) as u32 },
            elastic: dice.chance(600),
            requests,
            limits: Default::default(),
            node_selector: Default::default(),
            affinity: Vec::new(),
            preferred: Vec::new(),
            tolerations: Vec::new(),
            ports: if dice.chance(150) { ports(dice) } else { Vec::new() },
            max_per_node: if dice.chance(150) { dice.between(1, 2) as u32 } else { 0 },
            spares: if dice.chance(400) { dice.between(1, 3) as u32 } else { 0 },
            spread: Default::default(),
            topology: Default::default(),
            disruption_budget: None,
            place_with: if together { "pair".into() } else { String::new() },
            task: Default::default(),
        };
        if class.built_in().is_none_or(|kind| group.spares_problem(kind).is_some()) {
            group.spares = 0;
        }
        if class == Class::TAS || dice.chance(100) {
            group.topology.mode = TopologyMode::Required;
            group.topology.level = level.into();
            group.topology.topology = "default".into();
        }
        if dice.chance(150) {
            group.node_selector.insert("disk".into(), "ssd".into());
        }
        if self.has_rules {
            neighbours::draw(dice, &mut group);
        }
        if self.has_budgets {
            budgets::draw(dice, &mut group);
        }
        if dice.chance(300) {
            let operator = TolerationOperator::Exists;
            let second = if adds_taints { "work" } else { "only" };
            let key = ["only", second, "node.ohm/disk-pressure", "node.ohm/flapping", ""][dice.below(5) as usize];
            let is_own = adds_taints && ["only", "work"].contains(&key);
            let toleration_seconds = (is_own && dice.chance(600)).then(|| [0, 1, 5, 60][dice.below(4) as usize]);
            let (key, value) = (key.into(), String::new());
            group.tolerations.push(Toleration { key, operator, value, effect: None, toleration_seconds });
        }
        group
    }

    fn queue(&mut self) -> QueueSpec {
        let dice = &mut self.dice;
        let is_cohort = !self.plain.queues.contains_key("c0") || dice.chance(200);
        let name = if is_cohort { "c0".to_string() } else { format!("q{}", dice.below(3)) };
        let amount = |dice: &mut ohm_stdx::Prng| 500 * dice.below(16) as i64;
        let mut limits = [Amounts::new(), Amounts::new(), Amounts::new()];
        for (at, limit) in limits.iter_mut().enumerate() {
            if at == 0 || dice.chance(400) {
                limit.insert("cpu".into(), amount(dice));
            }
            if dice.chance(200) {
                limit.insert("pods".into(), dice.below(8) as i64);
            }
        }
        let [nominal, borrowing_limit, lending_limit] = limits;
        let parent = if !is_cohort && dice.chance(700) { "c0".to_string() } else { String::new() };
        let mut admission_checks = Vec::new();
        for class in 0..if is_cohort { 0 } else { 2 } {
            if dice.chance(if self.dwells { 600 } else { 60 }) {
                admission_checks.push(AdmissionCheck::of(name_of_check(class)));
            }
        }
        let limits = QueueSpec { nominal, borrowing_limit, lending_limit, ..QueueSpec::default() };
        QueueSpec { name, is_cohort, parent, admission_checks, ..limits }
    }

    pub(crate) fn run(&mut self) -> Option<RunRef> {
        let kept: Vec<RunRef> = self.cell.kept().iter().map(|(run, _)| *run).collect();
        let live: Vec<RunRef> = self.cell.runs().iter().map(|(_, run)| run.run).collect();
        let runs = if !kept.is_empty() && self.dice.chance(60) { kept } else { live };
        let mut run = *self.dice.pick(&runs)?;
        match self.dice.below(12) {
            0 => run.incarnation.0 = run.incarnation.0.wrapping_sub(1),
            1 => run.incarnation.0 += 1,
            2 => run.task.task.0 += self.dice.below(3) as u32,
            3 => run.task.group.0 += 1,
            _ => {}
        }
        Some(run)
    }

    fn report(&mut self) -> Command {
        let mut node = NodeId(self.dice.below(NODES) as u32);
        let mut reports = Vec::new();
        for _ in 0..self.dice.between(1, 3) {
            let Some(run) = self.run() else { break };
            let slot = self.cell.runs().iter().find(|(_, live)| live.run == run);
            if self.dice.chance(900) && reports.is_empty() {
                let kept = self.cell.kept().get(run).map_or(node, |kept| kept.node);
                node = slot.map_or(kept, |(_, live)| live.node);
            }
            let exits = [
                Exit::Code(0),
                Exit::Code(1),
                Exit::OutOfMemory,
                Exit::OverRequest,
                Exit::NodeShutdown,
                Exit::LeaseExpired,
                Exit::NeverStarted,
            ];
            let exit = exits[self.dice.below(10).saturating_sub(3) as usize];
            let kind = match self.dice.chance(700) {
                true => RunReportKind::Ended { exit, message: String::new() },
                false => RunReportKind::Started { pid: 7 },
            };
            reports.push(RunReport { run, kind });
        }
        Command::Report { node, reports }
    }
}
