//! Commands as they stand in the log: decoded from bytes and applied to a cell in which things are under way.
//!
//! Each part of the input is one command. The low bits of its kind say in whose session it is said; with
//! [`RAW`] the part is a whole envelope instead, with numbers of its own, and with [`LATER`] a day goes by first.
//! Besides that nothing panics: what was refused changed nothing but what the cell remembers of the conversation, all
//! invariants hold, and the cell comes back from its snapshot as it was.

use crate::cell::{SESSIONS, World, documents};
use crate::pieces::{pieces, push_piece};
use ohm_cell::{Cell, restore};
use ohm_model::{
    CheckReport, Command, ConditionAction, ConditionKind, Envelope, Epoch, Exit, Grain, GroupIndex, Guard, Incarnation,
    JobGuard, JobId, Lease, NodeConclusion, NodeCondition, NodeHealth, Nomination, Outcome, Placement, Purpose, Role,
    RunRef, RunReport, RunReportKind, StopCause, TakeOver, TaskIndex, Transaction,
};
use ohm_stdx::codec;

/// The part is an envelope.
const RAW: u8 = 0x40;
/// A day goes by before it.
const LATER: u8 = 0x80;
const DAY_MS: u64 = 86_400_000;
/// More commands than this add time, and nothing that fewer don't show.
const COMMANDS_MAX: usize = 40;

thread_local! {
    static WORLD: World = World::new();
}

pub(crate) fn run(input: &[u8]) {
    let mut world = WORLD.with(World::clone);
    for (kind, bytes) in pieces(input).take(COMMANDS_MAX) {
        let envelope = match kind & RAW {
            0 => codec::decode::<Command>(bytes).map(|command| match command {
                Command::OpenSession { .. } | Command::Tick => Envelope::without_session(command),
                command => world.envelope(u64::from(kind & 7) % SESSIONS + 1, command),
            }),
            _ => codec::decode::<Envelope>(bytes),
        };
        let Ok(envelope) = envelope else { continue };
        assert_eq!(codec::decode::<Envelope>(&envelope.encode()).as_ref(), Ok(&envelope), "it does not read back");
        if kind & LATER != 0 {
            world.stamp_ms = world.stamp_ms.saturating_add(DAY_MS);
        }
        let before = world.cell.clone();
        if let Outcome::Refused(refusal) = world.apply(&envelope) {
            assert!(!refusal.to_string().is_empty());
            assert_unchanged(&before, &world.cell, &envelope);
        }
        let broken = world.cell.invariants();
        assert!(broken.is_empty(), "{broken:?} after {envelope:?}");
    }
    assert_comes_back(&world.cell);
}

/// A refusal is remembered with its session, and time went on; nothing else.
fn assert_unchanged(before: &Cell, after: &Cell, envelope: &Envelope) {
    assert!(before.nodes() == after.nodes(), "a refused command changed nodes: {envelope:?}");
    assert!(before.jobs() == after.jobs(), "a refused command changed jobs: {envelope:?}");
    assert!(before.runs() == after.runs(), "a refused command changed runs: {envelope:?}");
    assert!(before.quota() == after.quota(), "a refused command changed queues: {envelope:?}");
    assert!(before.topologies() == after.topologies(), "a refused command changed topologies: {envelope:?}");
    assert!(before.nominations() == after.nominations(), "a refused command changed held room: {envelope:?}");
    assert!(before.priority_classes() == after.priority_classes(), "a refused command changed classes: {envelope:?}");
    assert!(before.profiles() == after.profiles(), "a refused command changed profiles: {envelope:?}");
    assert!(before.kept() == after.kept(), "a refused command changed kept runs: {envelope:?}");
    assert!(
        before.provisioning_classes() == after.provisioning_classes(),
        "a refused command changed provisioning classes: {envelope:?}"
    );
    let leases = |cell: &Cell| {
        cell.sessions().leases().map(|(lease, state)| (lease, state.holder, state.epoch)).collect::<Vec<_>>()
    };
    assert_eq!(leases(before), leases(after), "a refused command changed leases: {envelope:?}");
}

fn assert_comes_back(cell: &Cell) {
    let bytes = cell.snapshot_bytes();
    let restored = restore(&bytes).unwrap_or_else(|error| panic!("its own snapshot: {error}"));
    assert!(restored.snapshot_bytes() == bytes, "the snapshot of what was restored is another one");
    assert_eq!(restored.invariants(), Vec::<String>::new());
}

/// One seed for each command, and some of several.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let world = World::new();
    let mut commands = of_jobs(&world);
    commands.extend(of_nodes(&world));
    commands.extend(of_the_cell(&world));
    commands.extend(transactions(&world));
    commands.chunks(4).map(parts).chain(commands.iter().map(|command| parts(std::slice::from_ref(command)))).collect()
}

/// Which session says it, and what.
type Said = (u8, Command);

fn parts(commands: &[Said]) -> Vec<u8> {
    let mut bytes = Vec::new();
    commands.iter().for_each(|(kind, command)| push_piece(&mut bytes, *kind, &codec::encode(command)));
    bytes
}

fn of_jobs(world: &World) -> Vec<Said> {
    let mut commands = Vec::new();
    for name in ["array", "web", "train", "waits", "late"] {
        let spec = world.cell.jobs().find(name).expect("it is there").spec.as_ref().clone();
        let name = || name.to_string();
        commands.push(Command::UpdateJob { spec: Box::new(spec), version: None });
        commands.push(Command::SuspendJob { name: name() });
        commands.push(Command::ResumeJob { name: name() });
        commands.push(Command::CancelJob { name: name(), grace_ms: Some(0) });
        commands.push(Command::ForgetJob { name: name() });
    }
    commands.into_iter().chain(documents()).map(|command| (0, command)).collect()
}

fn of_nodes(world: &World) -> Vec<Said> {
    let node = world.cell.nodes().find("n0").expect("it is there");
    let spec = world.cell.nodes().get(node).expect("it is there").spec.as_ref().clone();
    let incarnation = Incarnation(1);
    let mut commands = Vec::new();
    for health in [NodeHealth::Suspect, NodeHealth::Lost, NodeHealth::Ready] {
        let conclusions = vec![NodeConclusion { node, incarnation, health }];
        commands.push((4, Command::ConcludeNodes { epoch: Epoch(1), conclusions }));
    }
    let take_over = TakeOver { duty_lease_ms: 4_000, resend_ms: 500, beat_interval_ms: 1_000 };
    commands.push((4, Command::BoundNodeLease { epoch: Epoch(1), seen_ms: 0, lease_ms: 30_000, take_over }));
    commands.push((4, Command::HoldConclusions { epoch: Epoch(1), silent: 3, brake_ms: 30_000 }));
    let name = || "n0".to_string();
    let (kind, action) = (ConditionKind::DiskPressure, ConditionAction::Drain);
    let conditions = vec![NodeCondition { kind, action, message: "full".into() }];
    let alive = vec![run_of(world, "train", 0)];
    let ended = |name, task, exit| {
        let kind = RunReportKind::Ended { exit, message: "why".into() };
        RunReport { run: run_of(world, name, task), kind }
    };
    let said = [
        Command::RegisterNode { spec: spec.clone(), key: 7, instance: 2, boot: 1, alive },
        Command::RegisterNode { spec, key: 7, instance: 3, boot: 2, alive: Vec::new() },
        Command::CordonNode { name: name(), cordoned: true },
        Command::TaintNode { name: name(), taint: "work=disk:NoExecute".parse().expect("a taint") },
        Command::UntaintNode { name: name(), pattern: "work".parse().expect("a pattern") },
        Command::DrainNode { name: name(), deadline_ms: 5_000, at_once: 1 },
        Command::UndrainNode { name: name() },
        Command::ReleaseNode { name: name() },
        Command::RemoveNode { name: "n3".into() },
        Command::ReportConditions { node, incarnation, number: 3, conditions },
        Command::Report { node, reports: vec![ended("array", 0, Exit::Code(1))] },
        Command::Report { node, reports: vec![ended("train", 1, Exit::Code(0)), ended("web", 0, Exit::Vanished)] },
    ];
    commands.extend(said.map(|command| (0, command)));
    commands
}

fn of_the_cell(world: &World) -> Vec<Said> {
    let name = |name: &str| name.to_string();
    let report = CheckReport::Ready {
        node_selector: [("rack".into(), "r1".into())].into(),
        tolerations: Vec::new(),
        message: "there".into(),
    };
    let (job, class) = (job_of(world, "asks"), name("more"));
    vec![
        (5, Command::ReportCheck { epoch: Epoch(1), job, round: 1, class, repair: 0, report: report.clone() }),
        (5, Command::ReportCheck { epoch: Epoch(1), job, round: 1, class: name("more"), repair: 1, report }),
        (0, Command::RemoveQueue { name: name("research") }),
        (0, Command::RemoveTopology { name: name("racks") }),
        (0, Command::RemovePriorityClass { name: name("high") }),
        (0, Command::RemoveProvisioningClass { name: name("more") }),
        (0, Command::RemoveSchedulingProfile { name: name("gpus") }),
        (0, Command::OpenSession { nonce: 9, role: Role::Client, name: name("c") }),
        (LATER, Command::Tick),
        (3, Command::CloseSession),
        (2, Command::KeepAlive),
        (0, Command::RaiseVersion { version: 1 }),
        (4, Command::ReleaseLease { lease: Lease::Health, epoch: Epoch(1) }),
    ]
}

/// Placements, evictions, held room and reservations, each as the scheduler of the job would commit it.
fn transactions(world: &World) -> Vec<Said> {
    let node = world.cell.nodes().find("n1").expect("it is there");
    let mut commands = Vec::new();
    for (session, name) in [(1, "array"), (2, "web"), (3, "train"), (1, "waits"), (1, "asks")] {
        let job = world.cell.jobs().find(name).expect("it is there");
        let (shard, version) = (job.shard, job.version);
        let (lease, job, group) = (Lease::Shard(shard), job.id, GroupIndex(0));
        let state = world.cell.sessions().lease(lease);
        commands.push((session, Command::TakeLease { lease, epoch: state.epoch, renewed: state.renewed }));
        let epoch = if state.holder.is_some() { state.epoch } else { Epoch(state.epoch.0 + 1) };
        let class = world.cell.nodes().class(node);
        let empty = || Transaction {
            jobs: vec![JobGuard { job, version, reserved: false }],
            ..Transaction::empty(shard, epoch, world.cell.applied(), Grain::PerTask)
        };
        let place = |first| Placement { job, group, first: TaskIndex(first), count: 1, node, class, devices: vec![] };
        let nominate = |purpose| vec![Nomination { job, group, node, first: TaskIndex(0), count: 1, purpose }];
        let evict = vec![(run_of(world, name, 0), StopCause::Moved)];
        for transaction in [
            Transaction { place: vec![place(1), place(2)], ..empty() },
            Transaction { place: vec![place(0)], grain: Grain::Minimum, guard: Guard::Unchanged, ..empty() },
            Transaction { evict: evict.clone(), nominate: nominate(Purpose::Move), ..empty() },
            Transaction { evict, ..empty() },
            Transaction { nominate: nominate(Purpose::Spare), grain: Grain::AllOrNothing, ..empty() },
            Transaction { nominate: nominate(Purpose::Preemptor { expires_ms: 2_000_000 }), ..empty() },
            Transaction { reserve: vec![job], ..empty() },
        ] {
            commands.push((session, Command::Commit(transaction)));
        }
    }
    commands
}

fn job_of(world: &World, name: &str) -> JobId {
    world.cell.jobs().find(name).expect("the documents have it").id
}

fn run_of(world: &World, name: &str, task: u32) -> RunRef {
    RunRef::new(job_of(world, name), 0, task, 1)
}
