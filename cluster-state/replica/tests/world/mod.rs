//! A small cell, told what to do command by command.

use ohm_cell::{Applied, Cell};
use ohm_model::{
    Class, Command, Entry, Envelope, Epoch, Grain, GroupIndex, GroupSpec, Index, JobGuard, JobId, JobSpec, Lease,
    NodeId, NodeSpec, Outcome, Placement, Role, RunReport, Sequence, SessionId, TaskIndex, TaskSpec, Transaction,
};

pub(crate) struct World {
    pub(crate) cell: Cell,
    sequence: u64,
}

impl World {
    /// A cell with one session, that of a scheduler.
    pub(crate) fn new() -> Self {
        let mut world = World { cell: Cell::new(), sequence: 0 };
        world.apply(Envelope::without_session(Command::OpenSession {
            nonce: 1,
            role: Role::Scheduler(Class::BATCH),
            name: "test".into(),
        }));
        world
    }

    fn apply(&mut self, envelope: Envelope) -> Outcome {
        let entry = Entry { stamp_ms: 1_000_000, commands: vec![envelope] };
        let mut applied = Applied::default();
        self.cell.apply(Index(self.cell.applied().0 + 1), &entry, &mut applied);
        applied.outcomes.remove(0)
    }

    pub(crate) fn say(&mut self, command: Command) -> Outcome {
        self.sequence += 1;
        let sequence = Sequence(self.sequence);
        self.apply(Envelope::new(SessionId(1), sequence, sequence, command))
    }

    pub(crate) fn register(&mut self, name: &str) -> NodeId {
        let spec = NodeSpec {
            name: name.into(),
            labels: Default::default(),
            taints: Vec::new(),
            capacity: [("cpu", 1 << 30), ("memory", 1 << 40), ("pods", 110)].map(|(n, a)| (n.into(), a)).into(),
            address: "127.1.0.1".into(),
        };
        let outcome = self.say(Command::RegisterNode { spec, key: 7, instance: 7, boot: 7, alive: Vec::new() });
        let Outcome::Node { node, .. } = outcome else { panic!("{outcome:?}") };
        node
    }

    pub(crate) fn submit(&mut self, name: &str, count: u32, min_count: u32, task: TaskSpec) -> JobId {
        let outcome = self.say(Command::SubmitJobs { jobs: vec![job(name, count, min_count, task)] });
        assert!(matches!(outcome, Outcome::Jobs(_)), "{outcome:?}");
        self.cell.jobs().find(name).expect("accepted").id
    }

    /// Places the first `count` tasks of `job` on `node`.
    pub(crate) fn place(&mut self, job: JobId, count: u32, node: NodeId) {
        let found = self.cell.jobs().get(job).unwrap();
        let (shard, version) = (found.shard, found.version);
        self.say(Command::TakeLease { lease: Lease::Shard(shard), epoch: Epoch(0), renewed: Index(0) });
        let class = self.cell.nodes().class(node);
        let outcome = self.say(Command::Commit(Transaction {
            jobs: vec![JobGuard { job, version, reserved: false }],
            place: vec![Placement {
                job,
                group: GroupIndex(0),
                first: TaskIndex(0),
                count,
                node,
                class,
                devices: Vec::new(),
            }],
            ..Transaction::empty(shard, Epoch(1), self.cell.applied(), Grain::PerTask)
        }));
        let Outcome::Verdict(verdict) = &outcome else { panic!("{outcome:?}") };
        assert!(verdict.conflicts.is_empty(), "{verdict:?}");
    }

    pub(crate) fn report(&mut self, node: NodeId, reports: Vec<RunReport>) {
        assert_eq!(self.say(Command::Report { node, reports }), Outcome::Done);
    }
}

pub(crate) fn job(name: &str, count: u32, min_count: u32, task: TaskSpec) -> JobSpec {
    let group = GroupSpec { min_count, elastic: min_count < count, task, ..GroupSpec::gang("main", count) };
    JobSpec { ttl_seconds_after_finished: 0, ..JobSpec::of(name, Class::BATCH, vec![group]) }
}
