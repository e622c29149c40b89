//! Two revisions of one group side by side: every sum is that of the runs, whatever the group has become.

use super::Applied;
use crate::apply::steps::rounds::count_reshaped;
use crate::cell::Cell;
use crate::state::runs::Run;
use crate::state::shapes::Shape;
use ohm_model::lease::SHARDS_PER_CLASS;
use ohm_model::{
    Amounts, Class, Command, Entry, Envelope, Epoch, Exit, Grain, GroupIndex, GroupSpec, HostPort, Incarnation, Index,
    JobGuard, JobSpec, Lease, NodeConclusion, NodeHealth, NodeId, NodeSpec, OnDisconnect, Outcome, Placement,
    QueueSpec, Role, RunRef, RunReport, RunReportKind, Sequence, SessionId, Shard, TaskIndex, Transaction,
};
use std::sync::Arc;

const GPU: &str = "gpu.io/x";

struct World {
    cell: Cell,
    applied: Applied,
    sequence: u64,
}

fn amounts(cpu: i64, gpu: i64) -> Amounts {
    [("cpu", cpu), (GPU, gpu)].map(|(name, amount)| (name.to_string(), amount)).into()
}

impl World {
    /// Two nodes, a queue, and a service of four tasks in it that ask for 1 cpu, 1 device and port 80.
    fn new() -> Self {
        let mut world = World { cell: Cell::new(), applied: Applied::default(), sequence: 0 };
        world.run(Command::OpenSession { nonce: 1, role: Role::Scheduler(Class::SERVICE), name: "test".into() });
        let shards = (0..SHARDS_PER_CLASS).map(|number| Lease::Shard(Shard { class: Class::SERVICE, number }));
        for lease in shards.chain([Lease::Health]) {
            world.run(Command::TakeLease { lease, epoch: Epoch(0), renewed: Index(0) });
        }
        world.run(Command::PutQueue(QueueSpec {
            name: "team".into(),
            nominal: amounts(20_000, 20_000),
            ..QueueSpec::default()
        }));
        for name in ["n0", "n1", "n2", "n3"] {
            world.register(name, Vec::new());
        }
        let group = GroupSpec {
            min_count: 1,
            elastic: true,
            requests: amounts(1_000, 1_000),
            ports: vec![HostPort::tcp(80)],
            ..GroupSpec::gang("main", 4)
        };
        let spec = JobSpec {
            queue: "team".into(),
            on_disconnect: OnDisconnect::Keep,
            ..JobSpec::of("web", Class::SERVICE, vec![group])
        };
        world.run(Command::SubmitJobs { jobs: vec![spec] });
        world
    }

    fn run(&mut self, command: Command) {
        let free = matches!(command, Command::OpenSession { .. });
        self.sequence += u64::from(!free);
        let (session, sequence) = if free { (0, 0) } else { (1, self.sequence) };
        let sequence = Sequence(sequence);
        let envelope = Envelope::new(SessionId(session), sequence, sequence, command);
        let entry = Entry { stamp_ms: self.cell.now_ms() + 1, commands: vec![envelope] };
        self.cell.apply(Index(self.cell.applied().0 + 1), &entry, &mut self.applied);
        let refused = self.applied.outcomes.iter().find(|outcome| matches!(outcome, Outcome::Refused(_)));
        assert_eq!((refused, self.cell.invariants()), (None, Vec::new()));
        let restored = crate::restore(&self.cell.snapshot_bytes()).expect("a snapshot that can be read");
        assert_eq!(restored.digest(), self.cell.digest());
    }

    fn register(&mut self, name: &str, alive: Vec<RunRef>) {
        let mut capacity = amounts(4_000, 4_000);
        capacity.insert("pods".into(), 10);
        let (labels, taints) = Default::default();
        let spec = NodeSpec { name: name.into(), labels, taints, capacity, address: String::new() };
        self.run(Command::RegisterNode { spec, key: 1, instance: 1, boot: 1, alive });
    }

    fn commit(&mut self, change: impl FnOnce(&Cell, &mut Transaction)) {
        let job = Arc::clone(self.cell.jobs().find("web").unwrap());
        let mut transaction = Transaction {
            jobs: vec![JobGuard { job: job.id, version: job.version, reserved: false }],
            ..Transaction::empty(
                job.shard,
                self.cell.sessions().lease(Lease::Shard(job.shard)).epoch,
                self.cell.applied(),
                Grain::PerTask,
            )
        };
        change(&self.cell, &mut transaction);
        self.run(Command::Commit(transaction));
        let Outcome::Verdict(verdict) = &self.applied.outcomes[0] else { panic!("a verdict") };
        assert_eq!(verdict.conflicts, []);
    }

    fn place(&mut self, task: u32, node: u32, device_mask: u64) {
        self.commit(|cell, transaction| {
            let (job, node) = (transaction.jobs[0].job, NodeId(node));
            transaction.place.push(Placement {
                job,
                group: GroupIndex(0),
                first: TaskIndex(task),
                count: 1,
                node,
                class: cell.nodes().class(node),
                devices: vec![device_mask],
            });
        });
    }

    /// From now on tasks ask for 2 cpu, 2 devices and port 81.
    fn revise(&mut self) {
        let cell = &mut self.cell;
        let id = cell.jobs.find("web").unwrap().id;
        let mut spec = (*cell.jobs.get(id).unwrap().spec).clone();
        (spec.groups[0].requests, spec.groups[0].ports) = (amounts(2_000, 2_000), vec![HostPort::tcp(81)]);
        let shape = Shape::of(&spec.groups[0], "default", &mut cell.resources, &mut cell.quota.columns).unwrap();
        let joined = cell.shapes.join(shape);
        let job = cell.jobs.get_mut(id).unwrap();
        let former = std::mem::replace(&mut job.groups[0].shape, joined);
        job.groups[0].revision += 1;
        job.spec = Arc::new(spec);
        cell.shapes.leave(former);
        count_reshaped(cell, id, 0);
        assert_eq!(cell.invariants(), Vec::<String>::new());
    }

    fn run_of(&self, task: usize) -> &Run {
        let group = &self.cell.jobs().find("web").unwrap().groups[0];
        self.cell.runs().get(group.tasks[task].run).expect("a live run")
    }

    fn report(&mut self, task: usize, kind: RunReportKind) {
        let (run, node) = (self.run_of(task).run, self.run_of(task).node);
        self.run(Command::Report { node, reports: vec![RunReport { run, kind }] });
    }

    fn end(&mut self, task: usize) {
        self.report(task, RunReportKind::Ended { exit: Exit::Code(1), message: String::new() });
    }

    fn lose(&mut self, node: u32) {
        let node = NodeId(node);
        let incarnation = self.cell.nodes().get(node).map_or(Incarnation(0), |record| record.incarnation);
        let conclusions = vec![NodeConclusion { node, incarnation, health: NodeHealth::Lost }];
        let epoch = self.cell.sessions().lease(Lease::Health).epoch;
        self.run(Command::ConcludeNodes { epoch, conclusions });
    }

    /// What the queue is charged, in thousandths of a cpu.
    fn charged(&self) -> i64 {
        let column = self.cell.quota().columns().find("", crate::CPU).unwrap();
        self.cell.quota().get("team").unwrap().used(column)
    }

    fn free_cpu(&self, node: u32) -> i64 {
        self.cell.nodes().free(NodeId(node), self.cell.resources().find("cpu").unwrap())
    }
}

/// Tasks 0 and 1 of the first revision, 2 and 3 of the second; 0 and 2 share a node.
fn side_by_side() -> World {
    let mut world = World::new();
    world.place(0, 0, 0b1);
    world.place(1, 1, 0b1);
    world.revise();
    world.place(2, 0, 0b110);
    world.place(3, 2, 0b11);
    (0..4).for_each(|task| world.report(task, RunReportKind::Started { pid: 7 }));
    assert_eq!([0, 1, 2, 3].map(|task| world.run_of(task).revision), [1, 1, 2, 2]);
    assert_eq!(
        (world.charged(), world.free_cpu(0), world.free_cpu(1), world.free_cpu(2)),
        (6_000, 1_000, 3_000, 2_000)
    );
    assert_eq!(world.cell.nodes().get(NodeId(0)).unwrap().ports, [HostPort::tcp(80), HostPort::tcp(81)]);
    world
}

#[test]
fn each_run_gives_back_what_it_took() {
    let mut world = side_by_side();
    world.end(0);
    assert_eq!((world.charged(), world.free_cpu(0)), (5_000, 2_000));
    world.end(3);
    world.end(1);
    assert_eq!((world.charged(), world.free_cpu(1), world.free_cpu(2)), (2_000, 4_000, 4_000));
    let job = world.cell.jobs().find("web").unwrap();
    assert_eq!(job.past.iter().map(|past| past.revision).collect::<Vec<_>>(), [1, 2, 1]);
    assert_eq!((world.cell.shapes().len(), job.groups[0].reshaped), (1, 0), "nobody has the former shape");
}

#[test]
fn a_reservation_takes_and_gives_back_the_difference() {
    let mut world = side_by_side();
    world.commit(|_, transaction| transaction.reserve.push(transaction.jobs[0].job));
    assert_eq!(world.charged(), 8_000);
    world.run(Command::SuspendJob { name: "web".into() });
    assert_eq!(world.charged(), 6_000);
    (0..4).for_each(|task| world.end(task));
    assert_eq!(world.charged(), 0);
}

#[test]
fn a_kept_run_comes_back_as_what_it_was() {
    let mut world = side_by_side();
    let run = world.run_of(1).run;
    world.lose(1);
    assert_eq!((world.charged(), world.cell.kept().len()), (5_000, 1));
    world.register("n1", vec![run]);
    let back = world.run_of(1);
    assert_eq!((back.run, back.revision, back.started_ms > 0), (run, 1, true));
    assert_eq!((world.charged(), world.free_cpu(1), world.cell.kept().len()), (6_000, 3_000, 0));
}

#[test]
fn a_kept_run_holds_its_room_while_its_replacement_of_another_revision_stands() {
    let mut world = side_by_side();
    let run = world.run_of(1).run;
    let mut spec = (*world.cell.jobs().find("web").unwrap().spec).clone();
    spec.reconcile = ohm_model::Reconcile::Original;
    let id = world.cell.jobs().find("web").unwrap().id;
    world.cell.jobs.get_mut(id).unwrap().spec = Arc::new(spec);
    world.lose(1);
    world.place(1, 3, 0b11);
    world.register("n1", vec![run]);
    assert_eq!((world.charged(), world.free_cpu(1), world.free_cpu(3)), (7_000, 3_000, 2_000));
    world.end(1);
    assert_eq!((world.run_of(1).run, world.run_of(1).revision), (run, 1));
    assert_eq!((world.charged(), world.free_cpu(1), world.free_cpu(3)), (6_000, 3_000, 4_000));
    world.run(Command::CancelJob { name: "web".into(), grace_ms: None });
    (0..4).for_each(|task| world.end(task));
    assert_eq!((world.charged(), world.cell.shapes().len()), (0, 1));
}
