//! Random commands for small, tight cells: mostly sensible, often slightly wrong.

use crate::checks::name_of_check;
use crate::state::{GPU, LEVELS};
use crate::world::{BATCH, PEOPLE, TAS, World};
use ohm_cell::{Job, JobState, RepairState, Standing};
use ohm_model::{
    Amounts, Class, ClassId, Command, ConditionAction, ConditionKind, Epoch, Exit, Grain, GroupIndex, GroupSpec, Guard,
    Incarnation, Index, JobGuard, JobId, JobSpec, Lease, NodeCondition, NodeHealth, NodeId, NodeSpec, Nomination,
    OnDisconnect, Placement, PriorityClass, QueueSpec, Reconcile, RepairPolicy, RepairSpec, RunRef, RunReport,
    RunReportKind, SessionId, StopCause, Survivors, Taint, TaintEffect, TaskIndex, Toleration, TolerationOperator,
    TopologyMode, Transaction,
};
use std::sync::Arc;

const NODES: u64 = 5;
const JOBS: u64 = 6;

fn name_of_class(number: u64) -> String {
    format!("p{number}")
}

impl World {
    pub(crate) fn draw(&mut self) -> (SessionId, Command) {
        let name = |prefix: &str, number: u64| format!("{prefix}{number}");
        if self.dwells && self.dice.chance(200) {
            return (PEOPLE, self.check_report());
        }
        if self.cell.jobs().iter().any(|job| self.cell.runs_to_leave(job).next().is_some()) && self.dice.chance(200) {
            return self.commit();
        }
        let command = match self.dice.below(104) {
            100..102 => self.cut_off(),
            102..104 if self.cell.kept().is_empty() => Command::Tick,
            0..9 | 102..104 => self.registration(),
            9..12 => self.drain(),
            12 => self.check_report(),
            13..15 => self.conclusion(),
            15..17 => Command::CordonNode { name: name("n", self.dice.below(NODES)), cordoned: self.dice.chance(400) },
            17 if self.dice.chance(300) => Command::ReleaseNode { name: name("n", self.dice.below(NODES)) },
            17 => Command::RemoveNode { name: name("n", self.dice.below(NODES)) },
            27..30 => self.update(),
            18..27 => Command::SubmitJobs { owner: "ann".into(), jobs: vec![self.job()] },
            30 => Command::CancelJob { name: name("j", self.dice.below(JOBS)) },
            31 => Command::ForgetJob { name: name("j", self.dice.below(JOBS)) },
            32 => Command::SuspendJob { name: name("j", self.dice.below(JOBS)) },
            33..37 => Command::ResumeJob { name: name("j", self.dice.below(JOBS)) },
            37..56 => self.report(),
            56..63 => {
                self.now_ms += [1, 100, 1_000, 5_000, 70_000][self.dice.below(5) as usize];
                Command::Tick
            }
            63..64 => Command::PutQueue(self.queue()),
            64 => self.update(),
            65 if self.dice.chance(500) => self.provisioning_class(),
            65 => self.priority_class(),
            66..68 => self.conditions(),
            _ => return self.commit(),
        };
        (PEOPLE, command)
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
        match alive.is_empty() {
            true => Command::RegisterNode { spec, key, instance, boot },
            false => Command::RegisterReturned { spec, key, instance, boot, alive },
        }
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
        Command::ConcludeNode { epoch, node, incarnation, health: NodeHealth::Lost }
    }

    fn conclusion(&mut self) -> Command {
        let node = NodeId(self.dice.below(NODES) as u32);
        let known = self.cell.nodes().get(node).map_or(Incarnation(0), |record| record.incarnation);
        let incarnation = if self.dice.chance(900) { known } else { Incarnation(known.0.wrapping_sub(1)) };
        let health = [NodeHealth::Ready, NodeHealth::Suspect, NodeHealth::Lost][self.dice.below(3) as usize];
        let epoch = self.cell.sessions().lease(Lease::Health).epoch;
        Command::ConcludeNode { epoch, node, incarnation, health }
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

    fn job(&mut self) -> JobSpec {
        let class = Class::ALL[self.dice.below(3) as usize];
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
            priority: self.dice.below(3) as i32,
            priority_class: if self.dice.chance(300) { name_of_class(self.dice.below(2)) } else { String::new() },
            labels: Default::default(),
            groups,
            retries: self.dice.below(3) as u32,
            active_deadline_seconds: if self.dice.chance(200) { self.dice.between(1, 90) } else { 0 },
            ttl_seconds_after_finished: self.dice.below(20),
            on_disconnect: if self.dice.chance(400) { OnDisconnect::Keep } else { OnDisconnect::Stop },
            reconcile: [Reconcile::Newer, Reconcile::Original, Reconcile::LongestRunning][self.dice.below(3) as usize],
            repair: RepairSpec {
                policy: if self.dice.chance(500) { RepairPolicy::FailFast } else { RepairPolicy::Wait },
                timeout_seconds: self.dice.below(30),
                survivors: if self.dice.chance(300) { Survivors::RestartAll } else { Survivors::Notify },
                ..RepairSpec::default()
            },
            suspended: self.dice.chance(50),
        }
    }

    /// Most often another size of a job that is there.
    fn update(&mut self) -> Command {
        let known: Vec<JobSpec> = self.cell.jobs().iter().map(|job| (*job.spec).clone()).collect();
        let other = self.job();
        let Some(mut spec) = self.dice.pick(&known).cloned() else { return self.update_of(other) };
        for (at, group) in spec.groups.iter_mut().enumerate() {
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
            12 => drop(spec.labels.insert("team".into(), "a".into())),
            _ => {}
        }
        self.update_of(spec)
    }

    fn update_of(&mut self, spec: JobSpec) -> Command {
        Command::UpdateJob { owner: "ann".into(), spec: Box::new(spec), version: None }
    }

    fn priority_class(&mut self) -> Command {
        let name = name_of_class(self.dice.below(2));
        match self.dice.chance(300) {
            true => Command::RemovePriorityClass { name },
            false => {
                let value = self.dice.below(2) as i32;
                Command::PutPriorityClass(PriorityClass { name, value, description: String::new() })
            }
        }
    }

    fn group(&mut self, at: u64, class: Class, together: bool, level: &str) -> GroupSpec {
        let dice = &mut self.dice;
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
            count,
            min_count: if dice.chance(500) { 1 } else { dice.between(1, u64::from(count)) as u32 },
            elastic: dice.chance(600),
            requests,
            node_selector: Default::default(),
            affinity: Vec::new(),
            preferred: Vec::new(),
            tolerations: Vec::new(),
            ports: if dice.chance(150) { vec![80, 443][dice.below(2) as usize..].to_vec() } else { Vec::new() },
            max_per_node: if dice.chance(150) { dice.between(1, 2) as u32 } else { 0 },
            spread: Default::default(),
            topology: Default::default(),
            place_with: if together { "pair".into() } else { String::new() },
            task: Default::default(),
        };
        if class == Class::Tas || dice.chance(100) {
            group.topology.mode = TopologyMode::Required;
            group.topology.level = level.into();
            group.topology.topology = "default".into();
        }
        if dice.chance(150) {
            group.node_selector.insert("disk".into(), "ssd".into());
        }
        if dice.chance(300) {
            let operator = TolerationOperator::Exists;
            let key = ["only", "only", "node.ohm/disk-pressure", "node.ohm/flapping", ""][dice.below(5) as usize];
            group.tolerations.push(Toleration { key: key.into(), operator, value: String::new(), effect: None });
        }
        group
    }

    fn queue(&mut self) -> QueueSpec {
        let dice = &mut self.dice;
        let is_cohort = self.plain.queues.is_empty() || dice.chance(200);
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
                admission_checks.push(name_of_check(class));
            }
        }
        let weight_milli = 1000;
        QueueSpec { name, is_cohort, parent, nominal, borrowing_limit, lending_limit, weight_milli, admission_checks }
    }

    fn run(&mut self) -> Option<RunRef> {
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
                Exit::NodeShutdown,
                Exit::LeaseExpired,
                Exit::NeverStarted,
            ];
            let exit = exits[self.dice.below(9).saturating_sub(3) as usize];
            let kind = match self.dice.chance(700) {
                true => RunReportKind::Ended { exit, message: String::new() },
                false => RunReportKind::Started { pid: 7 },
            };
            reports.push(RunReport { run, kind });
        }
        Command::Report { node, reports }
    }

    fn commit(&mut self) -> (SessionId, Command) {
        let jobs: Vec<Arc<Job>> = self.cell.jobs().iter().cloned().collect();
        let open: Vec<Arc<Job>> = jobs.iter().filter(|job| job.state == JobState::Active).cloned().collect();
        let leaves = |job: &&Arc<Job>| self.cell.runs_to_leave(job).next().is_some();
        let leaving: Vec<Arc<Job>> = open.iter().filter(leaves).cloned().collect();
        let likely = if self.dice.chance(900) { &open } else { &jobs };
        let likely = if !leaving.is_empty() && self.dice.chance(700) { &leaving } else { likely };
        let Some(first) = self.dice.pick(likely).cloned() else { return (PEOPLE, Command::Tick) };
        let shard = first.shard;
        let mut chosen = vec![first];
        for job in &jobs {
            if job.id != chosen[0].id && (job.shard == shard || self.dice.chance(30)) && self.dice.chance(400) {
                chosen.push(Arc::clone(job));
            }
        }
        let right = if shard.class == Class::Tas { TAS } else { BATCH };
        let session = if self.dice.chance(980) { right } else { PEOPLE };
        let epoch = self.cell.sessions().lease(Lease::Shard(shard)).epoch;
        let mut transaction = Transaction {
            shard,
            epoch: if self.dice.chance(980) { epoch } else { Epoch(epoch.0 + 1) },
            seen: Index(self.cell.applied().0.saturating_sub(self.dice.below(20).saturating_sub(15))),
            grain: [Grain::PerTask, Grain::Minimum, Grain::AllOrNothing][self.dice.below(5) as usize / 2],
            guard: if self.dice.chance(800) { Guard::Fits } else { Guard::Unchanged },
            jobs: Vec::new(),
            evict: Vec::new(),
            place: Vec::new(),
            nominate: Vec::new(),
            reserve: Vec::new(),
        };
        let leaves = |job: &Arc<Job>| !job.repairs.unhealthy.is_empty() && job.live() > 0;
        if chosen.iter().any(leaves) && self.dice.chance(700) {
            chosen.truncate(self.dice.between(1, 2) as usize);
            self.move_away(&chosen, &mut transaction);
            self.spoil(&mut transaction);
            return (session, Command::Commit(transaction));
        }
        for job in &chosen {
            self.add_job(job, &mut transaction);
        }
        if chosen.iter().any(|job| job.repair_state() == RepairState::Waiting) && self.dice.chance(200) {
            self.give_up(&chosen, &mut transaction);
        }
        self.spoil(&mut transaction);
        (session, Command::Commit(transaction))
    }

    /// Makes the transaction one that gives up repairs, most often of a job that waits for one.
    fn give_up(&mut self, jobs: &[Arc<Job>], transaction: &mut Transaction) {
        transaction.evict.clear();
        for job in jobs {
            let tasks = job.groups.iter().flat_map(|group| group.tasks.iter());
            let runs = tasks.filter_map(|task| self.cell.runs().get(task.run)).map(|run| run.run);
            let runs: Vec<_> = runs.filter(|_| self.dice.chance(900)).collect();
            transaction.evict.extend(runs.into_iter().map(|run| (run, StopCause::RepairFailed)));
        }
        if self.dice.chance(950) {
            (transaction.place, transaction.nominate, transaction.reserve) = Default::default();
        }
    }

    fn add_job(&mut self, job: &Job, transaction: &mut Transaction) {
        let version = if self.dice.chance(960) { job.version } else { Index(job.version.0 - 1) };
        transaction.jobs.push(JobGuard {
            job: job.id,
            version,
            reserved: !job.reserved.is_empty() && self.dice.chance(500),
        });
        let waits = self.cell.standing(job) == Standing::Unreserved;
        let may_place = self.cell.standing(job).may_place() || self.dice.chance(50);
        for group in 0..if may_place { job.groups.len() as u16 } else { 0 } {
            let pending: Vec<(u32, u32)> = job.groups[usize::from(group)].pending.iter().collect();
            for (first, count) in pending {
                self.cover(job, group, first, count, transaction);
            }
        }
        if self.dice.chance(30) {
            let group = self.dice.below(3) as u16;
            self.cover(job, group, 0, 2, transaction);
        }
        if self.dice.chance(100) {
            let groups = job.groups.len() as u64 + u64::from(self.dice.chance(50));
            let (group, count) = (GroupIndex(self.dice.below(groups) as u16), self.dice.below(3) as u32 + 1);
            let (node, expires_ms) = (NodeId(self.dice.below(NODES) as u32), self.now_ms + self.dice.below(5_000));
            transaction.nominate.push(Nomination { job: job.id, group, node, count, expires_ms });
        }
        if self.dice.chance(if waits { 700 } else { 80 }) {
            transaction.reserve.push(job.id);
        }
        if self.dice.chance(250) {
            let causes = [StopCause::Preempted, StopCause::Moved, StopCause::GangRestart];
            let cause = if self.dice.chance(20) { StopCause::Drained } else { causes[self.dice.below(3) as usize] };
            transaction.evict.extend(self.run().map(|run| (run, cause)));
        }
    }

    /// Rows for a range of tasks, cut at random places.
    fn cover(&mut self, job: &Job, group: u16, mut first: u32, count: u32, transaction: &mut Transaction) {
        let end = first + count;
        while first < end {
            let node = self.node_for(job, group, transaction);
            let taken: u32 = transaction.place.iter().filter(|row| row.node == node).map(|row| row.count).sum();
            let room = self.room(job, group, node).saturating_sub(taken);
            if room == 0 && self.dice.chance(800) {
                return;
            }
            let room = if self.dice.chance(900) { room.max(1) } else { end - first };
            let count = self.dice.between(1, u64::from(room.min(end - first))) as u32;
            if self.dice.chance(950) {
                let placement = self.placement(job, group, first, count, node);
                transaction.place.push(placement);
            }
            first += count;
        }
    }

    /// A node that may fit, most often in the domain of the row before.
    pub(crate) fn node_for(&mut self, job: &Job, group: u16, transaction: &Transaction) -> NodeId {
        let slots: Vec<NodeId> = self.cell.nodes().iter().map(|(node, _)| node).collect();
        let mut likely: Vec<NodeId> = slots.iter().copied().filter(|node| self.room(job, group, *node) > 0).collect();
        if let Some(last) = transaction.place.last().filter(|row| row.job == job.id)
            && self.dice.chance(800)
        {
            let topology = self.cell.topologies().get("default").expect("the topology").clone();
            likely.retain(|node| topology.key_of(*node, 1) == topology.key_of(last.node, 1));
        }
        let likely = if likely.is_empty() || self.dice.chance(100) { slots } else { likely };
        let node = self.dice.pick(&likely).copied().unwrap_or_default();
        if self.dice.chance(990) { node } else { NodeId(self.dice.below(8) as u32) }
    }

    fn placement(&mut self, job: &Job, group: u16, first: u32, count: u32, node: NodeId) -> Placement {
        let known = self.cell.nodes().class(node);
        let class = if self.dice.chance(990) { known } else { ClassId(known.0 + 1) };
        let gpu = job.spec.groups.get(usize::from(group)).and_then(|group| group.requests.get(GPU)).copied();
        let devices = (0..if gpu.is_some_and(|amount| amount > 0) { count } else { 0 }).map(|_| {
            let wide = gpu.is_some_and(|amount| amount > 1000);
            let masks: &[u64] = if wide { &[0b11, 0b110, 0b101, 0b11, 0b111] } else { &[1, 2, 1, 2, 4] };
            masks[self.dice.below(masks.len() as u64) as usize]
        });
        let mut devices: Vec<u64> = devices.collect();
        if self.dice.chance(5) {
            devices.push(1);
        }
        let (group, first) = (GroupIndex(group), TaskIndex(first));
        Placement { job: job.id, group, first, count, node, class, devices }
    }

    /// How many tasks of the group would fit by what the node has free.
    fn room(&self, job: &Job, group: u16, node: NodeId) -> u32 {
        let Some(shape) = self.cell.shape_of(job, usize::from(group)) else { return 0 };
        let nodes = self.cell.nodes();
        let may_stand = nodes.is_schedulable(node) && self.cell.admits(job.groups[usize::from(group)].shape, node);
        let limits = shape.requests.iter().map(|(column, amount)| (nodes.free(node, *column) / amount).max(0) as u32);
        if may_stand { limits.min().unwrap_or(0) } else { 0 }
    }

    /// Now and then something that no sane planner writes.
    fn spoil(&mut self, transaction: &mut Transaction) {
        match self.dice.below(120) {
            0 => self.dice.shuffle(&mut transaction.place),
            1 => transaction.jobs.extend(transaction.jobs.first().copied()),
            2 => drop(transaction.jobs.pop()),
            3 => transaction.place.extend(transaction.place.first().cloned()),
            4 => transaction.jobs.push(JobGuard { job: JobId(u64::MAX), version: Index(1), reserved: false }),
            5 => {
                if let Some(row) = transaction.place.first_mut() {
                    let (first, count) = (self.dice.below(7) as u32, u32::MAX - self.dice.below(3) as u32);
                    (row.first, row.count) = (TaskIndex(first), count);
                }
            }
            6 => {
                if let Some(row) = transaction.place.last_mut() {
                    (row.count, row.first) = (self.dice.below(2) as u32, TaskIndex(u32::MAX));
                }
            }
            7 => transaction.jobs.reverse(),
            _ => {}
        }
    }
}
