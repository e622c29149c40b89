//! What one claim costs: judged, committed, reported, written and read back. `cargo bench -p ohm-cell`.

#![allow(clippy::disallowed_types, reason = "a benchmark is about real time")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ohm_cell::{Applied, Cell, Overlay, Scratch, restore};
use ohm_model::lease::SHARDS_PER_CLASS;
use ohm_model::{
    Amounts, Class, Command, Entry, Envelope, Exit, Grain, GroupIndex, GroupSpec, Index, JobGuard, JobId, JobOutcome,
    JobSpec, Lease, NodeId, NodeSpec, Outcome, Placement, QueueSpec, Role, RunRef, RunReport, RunReportKind, Sequence,
    SessionId, Shard, TaskIndex, TopologySpec, Transaction, Verdict,
};
use ohm_stdx::codec;
use std::hint::black_box;
use std::time::{Duration, Instant};

const SESSION: SessionId = SessionId(1);
const NODES: u32 = 10_000;

/// A cell with one session that holds every batch shard, and nodes of equal size.
struct Yard {
    cell: Cell,
    applied: Applied,
    sequence: u64,
    jobs: u64,
}

impl Yard {
    fn new() -> Self {
        Yard::with_racks(8)
    }

    fn with_racks(racks: u32) -> Self {
        let mut yard = Yard { cell: Cell::new(), applied: Applied::default(), sequence: 0, jobs: 0 };
        let open = Command::OpenSession { nonce: 1, role: Role::Scheduler(Class::BATCH), name: "bench".into() };
        yard.run(vec![open]);
        let leases = (0..SHARDS_PER_CLASS).map(|number| Lease::Shard(Shard { class: Class::BATCH, number }));
        let take = |lease| Command::TakeLease { lease, epoch: Default::default(), renewed: Index(0) };
        yard.run(leases.map(take).collect());
        let nominal = amounts(&[("cpu", 1 << 50), ("memory", 1 << 60), ("pods", 1 << 40)]);
        let cohort = QueueSpec { name: "all".into(), is_cohort: true, nominal: Amounts::new(), ..QueueSpec::default() };
        let queue = |name: &str| QueueSpec {
            name: name.into(),
            is_cohort: false,
            parent: "all".into(),
            nominal: nominal.clone(),
            ..cohort.clone()
        };
        yard.run(vec![Command::PutQueue(cohort.clone())]);
        yard.run(vec![Command::PutQueue(queue("one")), Command::PutQueue(queue("two"))]);
        for node in 0..NODES {
            let spec = NodeSpec {
                name: format!("node-{node}"),
                labels: [("rack".to_string(), format!("r{}", node / 40 % racks))].into_iter().collect(),
                taints: Vec::new(),
                capacity: amounts(&[("cpu", 64_000), ("memory", 256 << 30), ("pods", 256)]),
                address: String::new(),
            };
            yard.run(vec![Command::RegisterNode { spec, key: 1, instance: 1, boot: 1, alive: Vec::new() }]);
        }
        yard
    }

    fn entry(&mut self, commands: Vec<Command>) -> Entry {
        let envelope = |command: Command| {
            let free = matches!(command, Command::OpenSession { .. } | Command::Tick);
            self.sequence += u64::from(!free);
            let sequence = Sequence(self.sequence);
            Envelope::new(if free { SessionId(0) } else { SESSION }, sequence, sequence, command)
        };
        Entry { stamp_ms: self.cell.now_ms() + 1, commands: commands.into_iter().map(envelope).collect() }
    }

    fn apply(&mut self, entry: &Entry) -> Duration {
        let index = Index(self.cell.applied().0 + 1);
        let start = Instant::now();
        self.cell.apply(index, black_box(entry), &mut self.applied);
        start.elapsed()
    }

    fn run(&mut self, commands: Vec<Command>) -> Duration {
        let entry = self.entry(commands);
        self.apply(&entry)
    }

    /// Submits `jobs` equal jobs of `count` tasks, `queues` of them in turn in a queue.
    fn submit(&mut self, jobs: u64, count: u32, queues: &[&str]) -> Vec<JobId> {
        let specs = (0..jobs).map(|number| {
            let queue = if queues.is_empty() { "" } else { queues[number as usize % queues.len()] };
            job(format!("job-{}", self.jobs + number), count, queue)
        });
        let specs = specs.collect();
        self.jobs += jobs;
        self.run(vec![Command::SubmitJobs { jobs: specs }]);
        let Some(Outcome::Jobs(outcomes)) = self.applied.outcomes.first() else { panic!("jobs are accepted") };
        let accepted = outcomes.iter().map(|outcome| match outcome {
            JobOutcome::Accepted(job) => *job,
            other => panic!("{other:?}"),
        });
        accepted.collect()
    }

    /// One transaction that places every task of the jobs, `per_row` to a node.
    fn plan(&self, jobs: &[JobId], per_row: u32) -> Transaction {
        let first = self.cell.jobs().get(jobs[0]).expect("a job");
        let mut transaction = Transaction::empty(
            first.shard,
            self.cell.sessions().lease(Lease::Shard(first.shard)).epoch,
            self.cell.applied(),
            Grain::Minimum,
        );
        for id in jobs {
            let job = self.cell.jobs().get(*id).expect("a job");
            if job.shard != transaction.shard {
                continue;
            }
            transaction.jobs.push(JobGuard { job: *id, version: job.version, reserved: false });
            for first in (0..job.spec.groups[0].count).step_by(per_row as usize) {
                let node = NodeId((transaction.place.len() as u32 * 7) % NODES);
                transaction.place.push(Placement {
                    job: *id,
                    group: GroupIndex(0),
                    first: TaskIndex(first),
                    count: per_row,
                    node,
                    class: self.cell.nodes().class(node),
                    devices: Vec::new(),
                });
            }
        }
        transaction
    }

    /// Everything that `transaction` placed has started and ended; returns how long the reports took.
    fn report(&mut self, transaction: &Transaction) -> Duration {
        let reports = |placement: &Placement| {
            let runs = placement.first.0..placement.first.0 + placement.count;
            let both = runs.flat_map(|task| {
                let run = RunRef::new(placement.job, 0, task, 1);
                let ended = RunReportKind::Ended { exit: Exit::Code(0), message: String::new() };
                [RunReport { run, kind: RunReportKind::Started { pid: 7 } }, RunReport { run, kind: ended }]
            });
            Command::Report { node: placement.node, reports: both.collect() }
        };
        let commands: Vec<Command> = transaction.place.iter().map(reports).collect();
        commands.chunks(100).map(|commands| self.run(commands.to_vec())).sum()
    }

    /// Lets the clock run until every finished job is forgotten.
    fn forget(&mut self) {
        let stamp_ms = self.cell.now_ms() + 200_000;
        let mut entry = self.entry(vec![Command::Tick]);
        entry.stamp_ms = stamp_ms;
        self.apply(&entry);
        assert_eq!((self.cell.runs().len(), self.cell.jobs().len()), (0, 0), "each round begins with an empty cell");
    }

    fn committed(&self) {
        let whole =
            |outcome: &Outcome| matches!(outcome, Outcome::Verdict(Verdict { conflicts, .. }) if conflicts.is_empty());
        assert!(self.applied.outcomes.iter().all(whole), "everything is accepted");
    }
}

fn amounts(list: &[(&str, i64)]) -> Amounts {
    list.iter().map(|(name, amount)| (name.to_string(), *amount)).collect()
}

fn job(name: String, count: u32, queue: &str) -> JobSpec {
    let group =
        GroupSpec { requests: amounts(&[("cpu", 100), ("memory", 64 << 20)]), ..GroupSpec::gang("main", count) };
    JobSpec { queue: queue.into(), ttl_seconds_after_finished: 1, ..JobSpec::of(name, Class::BATCH, vec![group]) }
}

/// (name, jobs, tasks of each, tasks to a row, queues)
const LOADS: [(&str, u64, u32, u32, &[&str]); 5] = [
    ("gang_rows_of_10", 1, 10_000, 10, &[]),
    ("gang_rows_of_1", 1, 10_000, 1, &[]),
    ("gang_rows_of_1_queued", 1, 10_000, 1, &["one"]),
    ("single_tasks_queued", 1000, 1, 1, &["one"]),
    ("single_tasks_two_queues", 1000, 1, 1, &["one", "two"]),
];

fn claims(c: &mut Criterion) {
    let mut yard = Yard::new();
    for (name, jobs, count, per_row, queues) in LOADS {
        let total = jobs * u64::from(count);
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Elements(total)).sample_size(20).measurement_time(Duration::from_secs(3));
        group.bench_function("judge", |bencher| {
            let ids = yard.submit(jobs, count, queues);
            let transaction = yard.plan(&ids, per_row);
            let mut scratch = Scratch::default();
            bencher.iter(|| black_box(yard.cell.judge(SESSION, black_box(&transaction), &mut scratch)));
            let entry = yard.entry(vec![Command::Commit(transaction.clone())]);
            yard.apply(&entry);
            yard.committed();
            yard.report(&transaction);
            yard.forget();
        });
        for which in ["commit", "start_and_end"] {
            group.bench_function(which, |bencher| {
                bencher.iter_custom(|rounds| {
                    let mut spent = Duration::ZERO;
                    for _ in 0..rounds {
                        let ids = yard.submit(jobs, count, queues);
                        let transaction = yard.plan(&ids, per_row);
                        let entry = yard.entry(vec![Command::Commit(transaction.clone())]);
                        let commit = yard.apply(&entry);
                        yard.committed();
                        let report = yard.report(&transaction);
                        spent += if which == "commit" { commit } else { report };
                        yard.forget();
                    }
                    spent
                });
            });
        }
        group.finish();
    }
}

fn entries(c: &mut Criterion) {
    let mut yard = Yard::new();
    let ids = yard.submit(1, 10_000, &[]);
    let mut group = c.benchmark_group("entry");
    group.throughput(Throughput::Elements(10_000)).sample_size(20);
    for per_row in [10, 1] {
        let transaction = yard.plan(&ids, per_row);
        let entry = yard.entry(vec![Command::Commit(transaction)]);
        let bytes = codec::encode(&entry);
        println!("entry of 10,000 claims in rows of {per_row}: {} bytes", bytes.len());
        group.bench_function(BenchmarkId::new("encode", per_row), |bencher| {
            bencher.iter(|| codec::encode(black_box(&entry)));
        });
        group.bench_function(BenchmarkId::new("decode", per_row), |bencher| {
            bencher.iter(|| codec::decode::<Entry>(black_box(&bytes)).expect("an entry"));
        });
    }
    group.finish();
}

fn snapshots(c: &mut Criterion) {
    let mut yard = Yard::new();
    for _ in 0..10 {
        let ids = yard.submit(1, 10_000, &["one"]);
        let transaction = yard.plan(&ids, 10);
        let entry = yard.entry(vec![Command::Commit(transaction)]);
        yard.apply(&entry);
        yard.committed();
    }
    let bytes = yard.cell.snapshot_bytes();
    println!("snapshot of {NODES} nodes and {} runs: {} bytes", yard.cell.runs().len(), bytes.len());
    let mut group = c.benchmark_group("snapshot_100k_tasks");
    group.throughput(Throughput::Elements(100_000)).sample_size(20);
    group.bench_function("clone", |bencher| bencher.iter(|| yard.cell.clone()));
    group.bench_function("encode", |bencher| bencher.iter(|| yard.cell.snapshot_bytes().len()));
    group.bench_function("restore", |bencher| bencher.iter(|| restore(black_box(&bytes)).expect("a snapshot")));
    group.bench_function("first_commit_after_clone", |bencher| {
        bencher.iter_custom(|rounds| {
            let mut spent = Duration::ZERO;
            for _ in 0..rounds {
                let mut copy = Yard { cell: yard.cell.clone(), applied: Applied::default(), ..yard };
                let ids = copy.submit(1, 1000, &[]);
                let transaction = copy.plan(&ids, 10);
                let entry = copy.entry(vec![Command::Commit(transaction)]);
                spent += copy.apply(&entry);
            }
            spent
        });
    });
    group.finish();
}

/// The picture on which a planner looks for places of tasks that have to leave: of a gang of 1,000 beside 100,000 other
/// tasks, with a topology of 250 racks.
fn moves(c: &mut Criterion) {
    let mut yard = Yard::with_racks(NODES / 40);
    let levels = ["rack", "kubernetes.io/hostname"].map(String::from).to_vec();
    yard.run(vec![Command::PutTopology(TopologySpec { name: "default".into(), levels })]);
    for count in [vec![10_000; 10], vec![1_000]].concat() {
        let ids = yard.submit(1, count, &[]);
        let transaction = yard.plan(&ids, 1);
        let entry = yard.entry(vec![Command::Commit(transaction)]);
        yard.apply(&entry);
        yard.committed();
    }
    let gang = yard.cell.jobs().iter().find(|job| job.groups[0].live == 1_000).expect("the gang").id;
    let runs: Vec<RunRef> = (0..1_000).map(|task| RunRef::new(gang, 0, task, 1)).collect();
    let mut group = c.benchmark_group("as_if_left");
    group.sample_size(20);
    for count in [1, 100, 1_000] {
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            let job = yard.cell.jobs().get(gang).expect("the gang");
            bencher.iter(|| Overlay::default().leave(&yard.cell, job, black_box(&runs[..count])));
        });
    }
    group.finish();
}

fn sizes(_: &mut Criterion) {
    let node_row = 8 * 2 * 3 + 4 + 1 + 24 + 4 + 4;
    println!(
        "bytes: Run {}, Task {}, Job {}, Group {}, Placement {}; node: columns {node_row}, record {}",
        size_of::<ohm_cell::Run>(),
        size_of::<ohm_cell::Task>(),
        size_of::<ohm_cell::Job>(),
        size_of::<ohm_cell::Group>(),
        size_of::<Placement>(),
        size_of::<ohm_cell::NodeRecord>(),
    );
}

criterion_group!(benches, sizes, claims, entries, snapshots, moves);
criterion_main!(benches);
