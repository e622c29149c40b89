//! A cell and its model side by side.

use crate::judge::Facts;
use crate::profiles::own_class;
use crate::state::{LEVELS, Plain};
use crate::update::Update;
use ohm_cell::{Applied, Cell, Sweep, restore};
use ohm_model::lease::SHARDS_PER_CLASS;
use ohm_model::{
    Class, ClassId, Command, Entry, Envelope, Index, JobId, JobOutcome, Lease, NodeId, Outcome, QueueSpec, ResourceId,
    Role, Sequence, SessionId, Shard, TopologySpec, Transaction, Verdict,
};
use ohm_stdx::Prng;
use std::collections::{BTreeSet, VecDeque};

/// The session that people, agents and the health duty speak through, and the two schedulers'.
pub(crate) const PEOPLE: SessionId = SessionId(1);
pub(crate) const BATCH: SessionId = SessionId(2);
pub(crate) const TAS: SessionId = SessionId(3);

pub(crate) struct World {
    pub(crate) cell: Cell,
    /// The cell before the last command: that is what a transaction was judged on.
    before: Cell,
    sweep: Sweep,
    broken: Vec<String>,
    /// The jobs that the last command named as changed, and the nodes that it gave room back on.
    touched: BTreeSet<JobId>,
    freed: BTreeSet<NodeId>,
    pub(crate) plain: Plain,
    pub(crate) dice: Prng,
    pub(crate) taken: u64,
    pub(crate) updated: u64,
    /// How many jobs were placed under a round.
    pub(crate) admitted: u64,
    pub(crate) moved: u64,
    pub(crate) now_ms: u64,
    seed: u64,
    /// Whether all queues have checks: a quarter of the seeds dwell on admission.
    pub(crate) dwells: bool,
    /// Whether an operator adds a class, and takes it back: a fifth of the seeds.
    pub(crate) adds_classes: bool,
    /// Whether people put taints on nodes, and jobs tolerate them for a while.
    pub(crate) adds_taints: bool,
    /// Whether queues are held and drained.
    pub(crate) holds_queues: bool,
    /// Whether queues give their jobs a time to be ready.
    pub(crate) times_queues: bool,
    /// Whether groups have labels and rules about other tasks.
    pub(crate) has_rules: bool,
    /// Whether groups have disruption budgets.
    pub(crate) has_budgets: bool,
    sequences: [u64; 4],
    log: Vec<(Index, Entry)>,
    trail: VecDeque<String>,
}

/// A panic inside the cell leaves the way to it on the screen.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}, the last commands:", self.seed);
            self.trail.iter().for_each(|line| eprintln!("  {line}"));
        }
    }
}

struct CellFacts<'a>(&'a Cell);

impl Facts for CellFacts<'_> {
    fn holds_lease(&self, session: SessionId, transaction: &Transaction) -> bool {
        self.0.sessions().holds(Lease::Shard(transaction.shard), session, transaction.epoch)
    }

    fn holder(&self, shard: Shard) -> Option<SessionId> {
        self.0.sessions().lease(Lease::Shard(shard)).holder
    }

    fn class(&self, node: NodeId) -> ClassId {
        self.0.nodes().class(node)
    }

    fn resource(&self, name: &str) -> ResourceId {
        self.0.resources().find(name).expect("a resource that somebody named")
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut world = World {
            cell: Cell::new(),
            before: Cell::new(),
            sweep: Sweep::default(),
            broken: Vec::new(),
            touched: BTreeSet::new(),
            freed: BTreeSet::new(),
            plain: Plain::default(),
            dice: Prng::new(seed),
            taken: 0,
            updated: 0,
            admitted: 0,
            moved: 0,
            now_ms: 1_000_000,
            seed,
            dwells: seed % 4 == 3,
            adds_classes: seed % 5 == 1,
            adds_taints: seed % 4 == 2,
            holds_queues: seed % 6 == 1,
            times_queues: seed % 6 == 5,
            has_rules: seed % 3 == 1,
            has_budgets: seed % 3 == 2,
            sequences: [1; 4],
            log: Vec::new(),
            trail: VecDeque::new(),
        };
        let roles = [Role::Server, Role::Scheduler(Class::BATCH), Role::Scheduler(Class::TAS)];
        for (nonce, role) in roles.into_iter().enumerate() {
            let command = Command::OpenSession { nonce: nonce as u64, role, name: format!("s{nonce}") };
            world.apply(SessionId(0), command);
        }
        let shards = |class| (0..SHARDS_PER_CLASS).map(move |number| Lease::Shard(Shard { class, number }));
        let held = [Class::BATCH, Class::SERVICE, own_class()].into_iter().flat_map(shards).map(|lease| (BATCH, lease));
        let held = held
            .chain(shards(Class::TAS).map(|lease| (TAS, lease)))
            .chain([Lease::Health, Lease::Provisioning].map(|lease| (PEOPLE, lease)));
        for (session, lease) in held.collect::<Vec<_>>() {
            world.apply(session, Command::TakeLease { lease, epoch: Default::default(), renewed: Index(0) });
        }
        let levels = LEVELS.map(String::from).to_vec();
        world.apply(PEOPLE, Command::PutTopology(TopologySpec { name: "default".into(), levels }));
        world.plain.index = world.cell.applied();
        for command in world.first_checks().into_iter().chain(World::impatient(seed)).chain(World::busy_queue(seed)) {
            let outcome = world.apply(PEOPLE, command.clone());
            world.follow(PEOPLE, &command, &outcome).expect("the first checks are right");
        }
        if world.dwells {
            world.begin_with_admitted().expect("the first job is placed");
        }
        world
    }

    /// Sends one command through the log, and through a snapshot every now and then.
    pub(crate) fn apply(&mut self, session: SessionId, command: Command) -> Outcome {
        if self.dice.chance(30) {
            let restored = restore(&self.cell.snapshot_bytes()).expect("a snapshot can be read");
            assert!(restored == self.cell && restored.digest() == self.cell.digest(), "a snapshot is the state");
            self.cell = restored;
        }
        self.trail.push_back(format!("{} at {}: {command:?}", self.cell.applied().0 + 1, self.now_ms));
        if self.trail.len() > 20 {
            self.trail.pop_front();
        }
        let next = &mut self.sequences[session.0 as usize];
        let sequence = if session.0 == 0 || command == Command::Tick { 0 } else { *next };
        *next += 1;
        let done_below = Sequence(sequence);
        let envelope = Envelope::new(session, Sequence(sequence), done_below, command);
        let entry = Entry { stamp_ms: self.now_ms, commands: vec![envelope] };
        // Indices may skip.
        let index = Index(self.cell.applied().0 + 1 + self.dice.below(2));
        let mut applied = Applied::default();
        self.cell.apply(index, &entry, &mut applied);
        self.broken.extend(self.sweep.step(&self.cell, &applied));
        self.touched = applied.jobs.iter().copied().collect();
        self.freed = applied.freed.nodes.iter().copied().collect();
        self.log.push((index, entry));
        applied.outcomes[0].clone()
    }

    /// Draws a command, sends it to both, and compares them.
    pub(crate) fn step(&mut self) -> Result<(), String> {
        let (session, command) = self.draw();
        self.step_with(session, command)
    }

    /// Sends a command to both, and compares them.
    pub(crate) fn step_with(&mut self, session: SessionId, command: Command) -> Result<(), String> {
        self.before = self.cell.clone();
        let outcome = self.apply(session, command.clone());
        self.plain.index = self.cell.applied();
        self.plain.now_ms = self.now_ms;
        self.follow(session, &command, &outcome)?;
        self.plain.settle_kept(&CellFacts(&self.cell));
        self.plain.settle_brought();
        self.plain.settle_claims();
        self.plain.settle_heads();
        self.plain.settle_spares(&self.touched);
        self.plain.give_owed_room(&self.freed);
        self.plain.settle_repair_requests();
        self.plain.settle_idle();
        self.plain.settle_ready();
        self.plain.date_taints();
        self.plain.settle_leaving();
        self.broken.extend(self.sweep.whole(&self.cell));
        if !self.broken.is_empty() {
            return Err(format!("invariants after {command:?}: {:#?}", self.broken));
        }
        let admitted = self.plain.jobs.values().filter(|job| job.admission.round.as_ref().is_some_and(|round| round.0));
        self.admitted += admitted.count() as u64;
        self.compare().map_err(|difference| format!("after {command:?}\n  {outcome:?}\n  {difference}"))
    }

    /// Does in the model what `command` did in the cell.
    fn follow(&mut self, session: SessionId, command: &Command, outcome: &Outcome) -> Result<(), String> {
        let plain = &mut self.plain;
        let done = !matches!(outcome, Outcome::Refused(_));
        let expected = match command {
            Command::RegisterNode { spec, key, instance, boot, alive } => {
                let (known, before) = (plain.find_node(&spec.name), plain.registrations);
                let node = match (known, outcome) {
                    (Some(node), _) => node,
                    (None, Outcome::Node { node, .. }) => *node,
                    (None, _) => return Err("a new node is never refused here".into()),
                };
                let registered = plain.register(node, spec, *key, *instance, *boot);
                if known.is_some() && plain.registrations > before {
                    plain.reconcile(node, alive);
                }
                registered
            }
            Command::ConcludeNodes { conclusions, .. } => {
                let taken = conclusions.iter().map(|one| plain.conclude(one.node, one.incarnation.0, one.health));
                taken.filter(|taken| *taken).count() > 0
            }
            Command::TaintNode { .. } | Command::UntaintNode { .. } => plain.follow_taint(command),
            Command::CordonNode { name, cordoned } => {
                plain.find_node(name).map(|node| plain.cordon(node, *cordoned)).is_some()
            }
            Command::ReportConditions { node, incarnation, number, conditions } => {
                plain.report_conditions(*node, incarnation.0, *number, conditions)
            }
            Command::ReleaseNode { name } => plain.find_node(name).map(|node| plain.release(node)).is_some(),
            Command::RemoveNode { name } => plain.find_node(name).is_some_and(|node| plain.remove_node(node)),
            Command::SubmitJobs { jobs, .. } => return self.follow_submit(&jobs[0], outcome),
            Command::UpdateJob { spec, .. } => return self.follow_update(spec, outcome),
            Command::CancelJob { name, .. } => plain.find_job(name).is_some_and(|job| plain.cancel(job)),
            Command::SuspendJob { name } => plain.find_job(name).is_some_and(|job| plain.suspend(job, true)),
            Command::ForgetJob { name } => plain.find_job(name).is_some_and(|job| plain.forget(job)),
            Command::ResumeJob { name } => plain.find_job(name).is_some_and(|job| plain.suspend(job, false)),
            Command::Report { node, reports } => {
                plain.report(*node, reports);
                true
            }
            Command::Tick => {
                plain.tick();
                true
            }
            Command::PutProvisioningClass(class) => plain.put_provisioning_class(class),
            Command::RemoveProvisioningClass { name } => plain.remove_provisioning_class(name),
            Command::PutSchedulingProfile(profile) => {
                plain.put_profile(profile.class, profile.like, profile.head_patience_seconds)
            }
            Command::RemoveSchedulingProfile { name } => plain.remove_profile(name),
            Command::ReportCheck { .. } => self.follow_report_check(command),
            Command::ReportReleased { epoch, nodes } => self.follow_released(*epoch, nodes),
            Command::PutQueue(spec) => self.follow_queue(spec),
            Command::PutPriorityClass(class) => plain.put_priority_class(&class.name, class.value),
            Command::RemovePriorityClass { name } => plain.priority_classes.remove(name).is_some(),
            Command::DrainNode { name, deadline_ms, at_once } => {
                plain.find_node(name).map(|node| plain.drain(node, *deadline_ms, *at_once)).is_some()
            }
            Command::UndrainNode { name } => plain.find_node(name).map(|node| plain.undrain(node)).is_some(),
            Command::Commit(transaction) => return self.follow_commit(session, transaction, outcome),
            other => return Err(format!("{other:?} is not drawn")),
        };
        if expected == done { Ok(()) } else { Err(format!("{command:?}: {outcome:?}, the model says {expected}")) }
    }

    fn follow_submit(&mut self, spec: &ohm_model::JobSpec, outcome: &Outcome) -> Result<(), String> {
        let Outcome::Jobs(jobs) = outcome else { return Err(format!("{outcome:?} to a submit")) };
        let known = self.plain.find_job(&spec.name);
        let Some(spec) = self.plain.with_priority(spec, known) else {
            return if matches!(jobs[0], JobOutcome::Refused(_)) {
                Ok(())
            } else {
                Err(format!("{outcome:?} to {spec:?}"))
            };
        };
        match (&jobs[0], known) {
            (JobOutcome::Refused(_), None) if self.plain.kind_of(spec.class).is_none() => Ok(()),
            (JobOutcome::Accepted(job), None)
                if !self.plain.jobs.contains_key(job) && self.plain.kind_of(spec.class).is_some() =>
            {
                let shard = Shard::of(spec.class, &spec.name);
                self.plain.submit(*job, spec, shard);
                Ok(())
            }
            (JobOutcome::Unchanged(job), Some(known)) if *job == known && self.plain.jobs[job].spec == spec => Ok(()),
            (JobOutcome::Refused(_), Some(known)) if self.plain.jobs[&known].spec != spec => Ok(()),
            _ => Err(format!("{outcome:?} to {spec:?}, known as {known:?}")),
        }
    }

    fn follow_queue(&mut self, spec: &QueueSpec) -> bool {
        let former = self.plain.queues.get(&spec.name).map(|queue| queue.stop_policy).unwrap_or_default();
        self.plain.put_queue(spec);
        self.plain.recheck(&spec.name);
        self.plain.stop_queue(spec, former);
        true
    }

    fn follow_update(&mut self, spec: &ohm_model::JobSpec, outcome: &Outcome) -> Result<(), String> {
        let Outcome::Jobs(jobs) = outcome else { return Err(format!("{outcome:?} to an update")) };
        let expected = self.plain.update(spec);
        let said = match &jobs[0] {
            JobOutcome::Updated(_) => Update::Done,
            JobOutcome::Unchanged(_) => Update::Unchanged,
            JobOutcome::Refused(_) => Update::Refused,
            JobOutcome::Accepted(_) => return Err(format!("{outcome:?} to an update")),
        };
        self.updated += u64::from(said == Update::Done);
        if said == expected { Ok(()) } else { Err(format!("{outcome:?} to {spec:?}, the model says {expected:?}")) }
    }

    fn follow_commit(
        &mut self,
        session: SessionId,
        transaction: &Transaction,
        outcome: &Outcome,
    ) -> Result<(), String> {
        let Outcome::Verdict(verdict) = outcome else { return Err(format!("{outcome:?} to a commit")) };
        let expected = self.plain.commit(session, transaction, &CellFacts(&self.before));
        let rows = 0..transaction.place.len();
        let accepted: Vec<u32> = rows.map(|row| verdict.accepted_of(transaction, row)).collect();
        self.taken += accepted.iter().map(|count| u64::from(*count)).sum::<u64>();
        if transaction.is_move() && verdict.conflicts.is_empty() {
            self.moved += transaction.evict.len() as u64;
        }
        let conflicts: Vec<_> = verdict.conflicts.iter().map(|conflict| (conflict.row, conflict.reason)).collect();
        if accepted != expected.accepted || conflicts != expected.conflicts {
            let said = (accepted, conflicts);
            return Err(format!("{transaction:#?}\n  the cell says {said:?}\n  the model says {expected:?}"));
        }
        check_form(verdict, self.cell.applied())
    }

    /// The same entries once more, on a cell that never saw a snapshot.
    pub(crate) fn replay(&self) {
        let (mut copy, mut applied) = (Cell::new(), Applied::default());
        self.log.iter().for_each(|(index, entry)| copy.apply(*index, entry, &mut applied));
        assert_eq!((copy.chain(), copy.digest()), (self.cell.chain(), self.cell.digest()), "seed {}", self.seed);
    }
}

/// A verdict says all accepted in one way, and never asks to wait for what has not happened.
fn check_form(verdict: &Verdict, now: Index) -> Result<(), String> {
    let plain = verdict.conflicts.is_empty() == verdict.accepted.is_empty() || !verdict.conflicts.is_empty();
    let waits = verdict.refresh <= now && (verdict.refresh == Index(0) || !verdict.conflicts.is_empty());
    if plain && waits { Ok(()) } else { Err(format!("{verdict:?} has no sense at {now}")) }
}
