//! A cell in one thread: a log in memory, scheduler cores on copies of their own, and a network that loses, doubles and
//! delays everything between them, all drawn from one seed.

#![allow(unreachable_pub)]

pub mod first_fit;

pub use first_fit::FirstFit;
use ohm_cell::{Applied, Cell, Job, restore};
use ohm_client::{FollowerCore, SessionInput};
use ohm_framework::{Again, Proceed, SchedulerConfig, SchedulerCore, SchedulerEffect, SchedulerInput};
use ohm_model::{
    Amounts, Class, Command, Entry, Envelope, Exit, GroupSpec, Index, JobSpec, Lease, NodeSpec, Outcome, Role,
    RunReport, RunReportKind, Sequence, SessionId,
};
use ohm_stdx::Prng;
use std::collections::BTreeMap;
use std::sync::Arc;

pub const STEP_MS: u64 = 20;
/// How many transactions of one scheduler may be under way.
pub const IN_FLIGHT: usize = 4;

/// Something on its way to a replica.
enum Mail {
    Answer(SessionId, Sequence, Outcome),
    OpenAnswer(u64, Outcome),
}

pub struct Replica {
    pub core: SchedulerCore<FirstFit>,
    /// How many entries it was given.
    position: usize,
    mail: Vec<(u64, Mail)>,
    pub alive: bool,
    /// Stands still until then.
    frozen_until_ms: u64,
    /// Its clock is this much ahead.
    clock_ms: u64,
}

pub struct World {
    pub now_ms: u64,
    pub dice: Prng,
    pub reference: Cell,
    pub replicas: Vec<Replica>,
    pub faulty: bool,
    /// How often everything parked is looked at again.
    pub sweep_ms: u64,
    log: Vec<(Index, Entry)>,
    chains: Vec<u64>,
    /// Envelopes on their way to the log, by arrival; with the replica that sent them.
    wire: Vec<(u64, Option<usize>, Envelope)>,
    driver: SessionId,
    sequence: u64,
}

impl World {
    /// The job of this name, as the reference has it.
    pub fn found(&self, name: &str) -> &Arc<Job> {
        self.reference.jobs().find(name).expect("a job that was submitted")
    }

    pub fn new(seed: u64) -> Self {
        let mut world = World {
            now_ms: 1_000,
            dice: Prng::new(seed),
            reference: Cell::new(),
            replicas: Vec::new(),
            faulty: false,
            sweep_ms: 5_000,
            log: Vec::new(),
            chains: Vec::new(),
            wire: Vec::new(),
            driver: SessionId(1),
            sequence: 0,
        };
        world.append(vec![Envelope::without_session(Command::OpenSession {
            nonce: 1,
            role: Role::Client,
            name: "driver".into(),
        })]);
        world
    }

    /// Adds a replica; `late` ones begin from a snapshot.
    pub fn add(&mut self, class: Class, spreads: bool) {
        let name = format!("{}-{}", class.name(), self.replicas.len());
        self.add_named(&name, class, spreads);
    }

    /// Adds a replica under a name of its own, or under that of one that was killed.
    pub fn add_named(&mut self, name: &str, class: Class, spreads: bool) {
        let number = self.replicas.len();
        let mut config = SchedulerConfig::new(name);
        (config.lease_ms, config.resend_ms, config.resend_ms_max) = (2_000, 200, 800);
        (config.jobs_per_pass, config.transactions_in_flight) = (1 + self.dice.below(6) as usize, IN_FLIGHT);
        (config.rows_per_pass, config.sweep_ms) = (1 + self.dice.below(20) as usize, self.sweep_ms);
        config.transaction_bytes = 200 + self.dice.below(2_000) as usize;
        let dice = self.dice.fork();
        let mut core = SchedulerCore::new(config, FirstFit::new(class, spreads), dice);
        let mut position = 0;
        let clock_ms = self.dice.below(1_000_000);
        let now_ms = self.now_ms + clock_ms;
        let mut effects = Vec::new();
        if self.dice.chance(500) {
            let cell = restore(&self.reference.snapshot_bytes()).expect("a snapshot comes back");
            core.step(now_ms, SchedulerInput::Snapshot(Box::new(cell)), &mut effects);
            position = self.log.len();
        }
        core.step(now_ms, SchedulerInput::Session(SessionInput::Connected), &mut effects);
        let replica = Replica { core, position, mail: Vec::new(), alive: true, frozen_until_ms: 0, clock_ms };
        self.replicas.push(replica);
        self.perform(number, effects);
    }

    pub fn kill(&mut self, number: usize) {
        self.replicas[number].alive = false;
    }

    /// One command of the driver, never lost.
    pub fn command(&mut self, command: Command) -> Outcome {
        self.sequence += 1;
        let sequence = Sequence(self.sequence);
        self.append(vec![Envelope::new(self.driver, sequence, sequence, command)]).remove(0)
    }

    pub fn register(&mut self, name: &str, capacity: &[(&str, i64)], boot: u64) {
        let capacity: Amounts = capacity.iter().map(|(name, amount)| (name.to_string(), *amount)).collect();
        let spec = NodeSpec {
            name: name.into(),
            labels: Default::default(),
            taints: Vec::new(),
            capacity,
            address: String::new(),
        };
        self.command(Command::RegisterNode { spec, key: 7, instance: boot, boot, alive: Vec::new() });
    }

    pub fn take_health(&mut self) {
        let (epoch, renewed) = Default::default();
        self.command(Command::TakeLease { lease: Lease::Health, epoch, renewed });
    }

    pub fn submit(&mut self, jobs: Vec<JobSpec>) {
        let outcome = self.command(Command::SubmitJobs { jobs });
        let Outcome::Jobs(jobs) = outcome else { panic!("{outcome:?}") };
        for job in jobs {
            assert!(matches!(job, ohm_model::JobOutcome::Accepted(_)), "{job:?}");
        }
    }

    /// The cell forgets the session of a replica, as it does with silent ones.
    pub fn close_session(&mut self, number: usize) {
        let Some(session) = self.replicas[number].core.session() else { return };
        let (sequence, done_below) = (Sequence(1 << 40), Sequence(0));
        self.append(vec![Envelope::new(session, sequence, done_below, Command::CloseSession)]);
    }

    fn append(&mut self, commands: Vec<Envelope>) -> Vec<Outcome> {
        let index = Index(self.reference.applied().0 + 1 + self.dice.below(2));
        let entry = Entry { stamp_ms: self.now_ms, commands };
        let entry = Entry::decode(&entry.encode()).expect("an entry comes back");
        let mut applied = Applied::default();
        self.reference.apply(index, &entry, &mut applied);
        let idle = |envelope: &Envelope| envelope.command == Command::KeepAlive;
        let broken = if entry.commands.iter().all(idle) { Vec::new() } else { self.reference.invariants() };
        assert!(broken.is_empty(), "after {index}: {broken:#?}");
        self.log.push((index, entry));
        self.chains.push(self.reference.chain());
        applied.outcomes
    }

    pub fn run(&mut self, for_ms: u64) {
        let end_ms = self.now_ms + for_ms;
        while self.now_ms < end_ms {
            self.now_ms += STEP_MS;
            self.work_nodes();
            self.deliver();
            for number in 0..self.replicas.len() {
                self.step_replica(number);
            }
        }
    }

    /// Agents: tasks that are to stop, stop; batch tasks end after a while; stamped time passes.
    fn work_nodes(&mut self) {
        let mut commands = Vec::new();
        let now_ms = self.reference.now_ms();
        let mut ended = BTreeMap::new();
        for (_, run) in self.reference.runs().iter() {
            let class = self.reference.jobs().get(run.run.task.job).map(|job| job.spec.class);
            let length_ms = 300 + ohm_stdx::hash::mix(run.run.task.job.0) % 3_000;
            let over = class != Some(Class::SERVICE) && run.placed_ms + length_ms <= now_ms;
            if run.stop.is_some() || over {
                let failed = ohm_stdx::hash::mix(run.placed.0).is_multiple_of(10);
                let exit = Exit::Code(i32::from(failed));
                let kind = RunReportKind::Ended { exit, message: String::new() };
                ended.entry(run.node).or_insert_with(Vec::new).push(RunReport { run: run.run, kind });
            }
        }
        commands.extend(ended.into_iter().map(|(node, reports)| Command::Report { node, reports }));
        commands.into_iter().for_each(|command| drop(self.command(command)));
        if self.reference.next_due_ms().is_some_and(|due_ms| due_ms <= self.now_ms) {
            self.append(vec![Envelope::without_session(Command::Tick)]);
        }
    }

    /// Puts what arrives now into the log, and sends the answers back.
    fn deliver(&mut self) {
        let wire = std::mem::take(&mut self.wire).into_iter();
        let (due, later): (Vec<_>, Vec<_>) = wire.partition(|(due_ms, ..)| *due_ms <= self.now_ms);
        self.wire = later;
        if due.is_empty() {
            return;
        }
        let senders: Vec<Option<usize>> = due.iter().map(|(_, sender, _)| *sender).collect();
        let envelopes: Vec<Envelope> = due.into_iter().map(|(_, _, envelope)| envelope).collect();
        let outcomes = self.append(envelopes.clone());
        for ((sender, envelope), outcome) in senders.into_iter().zip(envelopes).zip(outcomes) {
            let Some(sender) = sender else { continue };
            if self.faulty && self.dice.chance(300) {
                continue;
            }
            let mail = match envelope.command {
                Command::OpenSession { nonce, .. } => Mail::OpenAnswer(nonce, outcome),
                _ => Mail::Answer(envelope.session, envelope.sequence, outcome),
            };
            let due_ms = self.now_ms + self.dice.below(if self.faulty { 400 } else { 20 });
            self.replicas[sender].mail.push((due_ms, mail));
        }
    }

    fn step_replica(&mut self, number: usize) {
        if self.faulty && self.dice.chance(3) {
            self.replicas[number].frozen_until_ms = self.now_ms + self.dice.below(3_000);
        }
        let replica = &mut self.replicas[number];
        if !replica.alive || replica.frozen_until_ms > self.now_ms {
            return;
        }
        let now_ms = self.now_ms + replica.clock_ms;
        let mut inputs = Vec::new();
        let jump = self.faulty && self.dice.chance(4);
        let lag = if self.faulty { self.dice.below(4) as usize } else { usize::MAX };
        if jump {
            let cell = restore(&self.reference.snapshot_bytes()).expect("a snapshot comes back");
            inputs.push(SchedulerInput::Snapshot(Box::new(cell)));
            replica.position = self.log.len();
        }
        let end = replica.position.saturating_add(lag).min(self.log.len());
        for (index, entry) in &self.log[replica.position..end] {
            inputs.push(SchedulerInput::Entry { index: *index, entry: entry.clone() });
        }
        replica.position = end;
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut replica.mail).into_iter().partition(|mail| mail.0 <= self.now_ms);
        replica.mail = later;
        inputs.extend(due.into_iter().map(|(_, mail)| match mail {
            Mail::Answer(session, sequence, outcome) => {
                SchedulerInput::Session(SessionInput::Answer { session, sequence, outcome })
            }
            Mail::OpenAnswer(nonce, outcome) => SchedulerInput::Session(SessionInput::OpenAnswer { nonce, outcome }),
        }));
        inputs.push(SchedulerInput::Session(SessionInput::Tick));
        let mut effects = Vec::new();
        for input in inputs {
            replica.core.step(now_ms, input, &mut effects);
        }
        let mut rounds = 0;
        while let Some(at) = effects.iter().position(|effect| *effect == SchedulerEffect::Own(Again)) {
            effects.remove(at);
            replica.core.step(now_ms, SchedulerInput::Own(Proceed), &mut effects);
            rounds += 1;
            assert!(rounds < 10_000, "the core never comes to rest");
        }
        if end > 0 && replica.core.cell().applied() == self.log[end - 1].0 {
            assert_eq!(replica.core.cell().chain(), self.chains[end - 1], "the copies went apart");
        }
        self.perform(number, effects);
    }

    fn perform(&mut self, number: usize, effects: Vec<SchedulerEffect>) {
        for effect in effects {
            let SchedulerEffect::Send(envelopes) = effect else { continue };
            for envelope in envelopes {
                let copies = if !self.faulty { 1 } else { [0, 1, 1, 1, 1, 1, 2][self.dice.below(7) as usize] };
                for _ in 0..copies {
                    let delay_ms = if self.faulty { self.dice.below(300) } else { 0 };
                    self.wire.push((self.now_ms + delay_ms, Some(number), envelope.clone()));
                }
            }
        }
    }
}

/// A job with one group.
pub fn job(name: &str, class: Class, count: u32, min_count: u32, cpu: i64) -> JobSpec {
    JobSpec { retries: 20, ..JobSpec::of(name, class, vec![group("main", count, min_count, cpu)]) }
}

/// A group that asks for `cpu` thousandths per task.
pub fn group(name: &str, count: u32, min_count: u32, cpu: i64) -> GroupSpec {
    GroupSpec { min_count, requests: [("cpu".to_string(), cpu)].into(), ..GroupSpec::gang(name, count) }
}
