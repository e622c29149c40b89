//! A cell of 100,000 nodes and 1,000,000 running tasks: how long a snapshot holds up the entries that are applied
//! meanwhile, how fast a copy catches up from it, and how much memory it takes.
//! `cargo bench -p ohm-server --bench snapshot` prints one line of JSON; `-- NODES TASKS_PER_NODE SECONDS` changes the
//! size.

#![allow(clippy::disallowed_types, reason = "a benchmark is about real time")]

use ohm_cell::{Applied, Cell, restore};
use ohm_log::{Bytes, Disk, DiskError, FileStatus};
use ohm_log_raft::{FileDisk, RaftConfig, RaftLog, Remarks};
use ohm_model::{
    Amounts, Class, Command, Entry, Envelope, Exit, Grain, GroupIndex, GroupSpec, Index, JobGuard, JobId, JobOutcome,
    JobSpec, Lease, NodeId, NodeSpec, Outcome, Placement, Role, RunRef, RunReport, RunReportKind, Sequence, SessionId,
    TaskIndex, Transaction,
};
use ohm_replica::{Clock, CopyEffect, Effect, Input, Replica, ReplicaConfig, Ticket};
use ohm_stdx::Prng;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const SESSION: SessionId = SessionId(1);
const TASKS_PER_JOB: u32 = 100;
/// Reports in one entry: half of them starts, half of them ends.
const REPORTS: usize = 200;

/// A disk that adds up what syncing costs.
struct Timed {
    disk: FileDisk,
    synced: Duration,
}

impl Disk for Timed {
    fn list(&mut self) -> Result<Vec<FileStatus>, DiskError> {
        self.disk.list()
    }

    fn read(&mut self, file: &str, offset: u64, length: usize) -> Result<Vec<u8>, DiskError> {
        self.disk.read(file, offset, length)
    }

    fn append(&mut self, file: &str, bytes: &[u8]) -> Result<(), DiskError> {
        self.disk.append(file, bytes)
    }

    fn sync(&mut self, file: &str) -> Result<(), DiskError> {
        let start = Instant::now();
        let synced = self.disk.sync(file);
        self.synced += start.elapsed();
        synced
    }

    fn truncate(&mut self, file: &str, length: u64) -> Result<(), DiskError> {
        self.disk.truncate(file, length)
    }

    fn rename(&mut self, source: &str, target: &str) -> Result<(), DiskError> {
        self.disk.rename(source, target)
    }

    fn remove(&mut self, file: &str) -> Result<(), DiskError> {
        self.disk.remove(file)
    }

    fn sync_folder(&mut self) -> Result<(), DiskError> {
        let start = Instant::now();
        let synced = self.disk.sync_folder();
        self.synced += start.elapsed();
        synced
    }
}

fn amounts(list: &[(&str, i64)]) -> Amounts {
    list.iter().map(|(name, amount)| (name.to_string(), *amount)).collect()
}

/// Builds the state with commands, as a cell would get there.
struct Builder {
    cell: Cell,
    applied: Applied,
    sequence: u64,
    jobs: Vec<JobId>,
}

impl Builder {
    fn run(&mut self, commands: Vec<Command>) -> Vec<Outcome> {
        let envelopes = commands.into_iter().map(|command| envelope(&mut self.sequence, command)).collect();
        let entry = Entry { stamp_ms: self.cell.now_ms() + 1, commands: envelopes };
        self.cell.apply(Index(self.cell.applied().0 + 1), &entry, &mut self.applied);
        std::mem::take(&mut self.applied.outcomes)
    }

    fn build(nodes: u32, per_node: u32) -> Builder {
        let mut builder = Builder { cell: Cell::new(), applied: Applied::default(), sequence: 0, jobs: Vec::new() };
        builder.run(vec![Command::OpenSession { nonce: 1, role: Role::Scheduler(Class::BATCH), name: "bench".into() }]);
        let leases = (0..ohm_model::lease::SHARDS_PER_CLASS)
            .map(|number| Lease::Shard(ohm_model::Shard { class: Class::BATCH, number }));
        let take = |lease| Command::TakeLease { lease, epoch: Default::default(), renewed: Index(0) };
        builder.run(leases.map(take).collect());
        for start in (0..nodes).step_by(500) {
            let register =
                |node| Command::RegisterNode { spec: node_spec(node), key: 1, instance: 1, boot: 1, alive: Vec::new() };
            builder.run((start..nodes.min(start + 500)).map(register).collect());
        }
        let tasks = nodes * per_node;
        for first in (0..tasks / TASKS_PER_JOB).step_by(50) {
            let jobs = (first..(first + 50).min(tasks / TASKS_PER_JOB)).map(job).collect();
            let outcomes = builder.run(vec![Command::SubmitJobs { jobs }]);
            let Some(Outcome::Jobs(outcomes)) = outcomes.first() else { panic!("{outcomes:?}") };
            for (place, outcome) in outcomes.iter().enumerate() {
                let JobOutcome::Accepted(job) = outcome else { panic!("{outcome:?}") };
                builder.jobs.push(*job);
                builder.place(*job, (first + place as u32) * TASKS_PER_JOB, per_node);
            }
        }
        builder
    }

    /// Places a job's tasks on the nodes from the one that holds task `first` of all, and reports half of them to run.
    fn place(&mut self, job: JobId, first: u32, per_node: u32) {
        let found = self.cell.jobs().get(job).expect("it was accepted");
        let (shard, version) = (found.shard, found.version);
        let row = |start: u32| {
            let node = NodeId((first + start) / per_node);
            let class = self.cell.nodes().class(node);
            let (group, count) = (GroupIndex(0), per_node);
            Placement { job, group, first: TaskIndex(start), count, node, class, devices: Vec::new() }
        };
        let transaction = Transaction {
            jobs: vec![JobGuard { job, version, reserved: false }],
            place: (0..TASKS_PER_JOB).step_by(per_node as usize).map(row).collect(),
            ..Transaction::empty(
                shard,
                self.cell.sessions().lease(Lease::Shard(shard)).epoch,
                self.cell.applied(),
                Grain::PerTask,
            )
        };
        let outcomes = self.run(vec![Command::Commit(transaction)]);
        assert!(matches!(&outcomes[0], Outcome::Verdict(verdict) if verdict.conflicts.is_empty()), "{outcomes:?}");
        let reports = (0..TASKS_PER_JOB).step_by(per_node as usize).map(|start| {
            let run = |task| RunReport { run: RunRef::new(job, 0, task, 1), kind: RunReportKind::Started { pid: 7 } };
            let reports = (start..start + per_node / 2).map(run).collect();
            Command::Report { node: NodeId((first + start) / per_node), reports }
        });
        let reports = reports.collect();
        self.run(reports);
    }
}

fn envelope(sequence: &mut u64, command: Command) -> Envelope {
    if matches!(command, Command::OpenSession { .. }) {
        return Envelope::without_session(command);
    }
    *sequence += 1;
    Envelope::new(SESSION, Sequence(*sequence), Sequence(*sequence), command)
}

fn node_spec(node: u32) -> NodeSpec {
    NodeSpec {
        name: format!("node-{node}"),
        labels: [("rack".to_string(), format!("r{}", node / 40))].into_iter().collect(),
        taints: Vec::new(),
        capacity: amounts(&[("cpu", 64_000), ("memory", 256 << 30), ("pods", 256)]),
        address: format!("10.0.{}.{}", node / 256, node % 256),
    }
}

fn job(number: u32) -> JobSpec {
    let group =
        GroupSpec { requests: amounts(&[("cpu", 1000), ("pods", 1)]), ..GroupSpec::gang("main", TASKS_PER_JOB) };
    let job = JobSpec::of(format!("job-{number}"), Class::BATCH, vec![group]);
    JobSpec { ttl_seconds_after_finished: 1000, ..job }
}

/// The longest stretches of one phase, in microseconds: between two applied entries, and what of it was syncing.
#[derive(Default)]
struct Stretch {
    longest: Duration,
    synced: Duration,
    longest_without_sync: Duration,
    entries: u64,
}

impl Stretch {
    fn note(&mut self, took: Duration, synced: Duration) {
        self.entries += 1;
        if took > self.longest {
            (self.longest, self.synced) = (took, synced);
        }
        self.longest_without_sync = self.longest_without_sync.max(took.saturating_sub(synced));
    }

    fn json(&self) -> String {
        format!(
            "{{\"entries\":{},\"longest_us\":{},\"of_it_sync_us\":{},\"longest_without_sync_us\":{}}}",
            self.entries,
            self.longest.as_micros(),
            self.synced.as_micros(),
            self.longest_without_sync.as_micros()
        )
    }
}

/// The server's work without its sockets: entries of reports one after the other, a snapshot in the middle.
fn measure(
    replica: &mut Replica<RaftLog<Timed>>,
    jobs: &[JobId],
    sequence: &mut u64,
    seconds: u64,
    per_node: u32,
) -> [Stretch; 2] {
    let (encoded, arrivals) = mpsc::channel();
    let mut dice = Prng::new(7);
    let mut stretches = [Stretch::default(), Stretch::default()];
    let (begin, clock) = (Instant::now(), Duration::from_secs(seconds));
    let nodes = replica.cell().nodes().len() as u64;
    let (mut saved, mut ticket) = (false, 0);
    let mut during = false;
    let mut out = Vec::new();
    let (mut last, mut synced_before) = (Instant::now(), replica.log().disk().synced);
    while begin.elapsed() < clock || !saved {
        ticket += 1;
        let commands = reports(&mut dice, jobs, sequence, nodes, per_node);
        replica
            .step(at(now_ms(begin)), Input::Propose { ticket: Ticket(ticket), commands }, &mut out)
            .expect("a proposal");
        let mut answered = false;
        while !answered {
            if let Ok((purpose, index, pieces)) = arrivals.try_recv() {
                replica
                    .step(at(now_ms(begin)), Input::Encoded { purpose, index, pieces }, &mut out)
                    .expect("a snapshot");
            }
            replica.step(at(now_ms(begin)), Input::Flush, &mut out).expect("a flush");
            for effect in out.drain(..) {
                match effect {
                    Effect::Copy(CopyEffect::Applied { .. }) => {
                        let (now, synced) = (Instant::now(), replica.log().disk().synced);
                        stretches[usize::from(during)].note(now - last, synced - synced_before);
                        (last, synced_before, answered) = (now, synced, true);
                    }
                    Effect::Copy(CopyEffect::Encode { purpose, cell }) => {
                        during = true;
                        let encoded = encoded.clone();
                        std::thread::spawn(move || {
                            let pieces = Replica::<RaftLog<Timed>>::encode(&cell);
                            let _ = encoded.send((purpose, cell.applied(), pieces));
                        });
                    }
                    Effect::Copy(CopyEffect::SnapshotSaved { .. }) => (saved, during) = (true, false),
                    _ => {}
                }
            }
        }
    }
    stretches
}

fn at(now_ms: u64) -> Clock {
    Clock { now_ms, wall_ms: 1 }
}

fn now_ms(begin: Instant) -> u64 {
    begin.elapsed().as_millis() as u64
}

/// Starts and ends of tasks all over the cell, so that a snapshot meets writes in every chunk.
fn reports(dice: &mut Prng, jobs: &[JobId], sequence: &mut u64, nodes: u64, per_node: u32) -> Vec<Bytes> {
    let report = |dice: &mut Prng, number: usize| {
        let node = dice.below(nodes) as u32;
        let task = node * per_node + dice.below(u64::from(per_node)) as u32;
        let run = RunRef::new(jobs[(task / TASKS_PER_JOB) as usize], 0, task % TASKS_PER_JOB, 1);
        let kind = match number % 2 {
            0 => RunReportKind::Started { pid: 8 },
            _ => RunReportKind::Ended { exit: Exit::Code(0), message: String::new() },
        };
        Command::Report { node: NodeId(node), reports: vec![RunReport { run, kind }] }
    };
    (0..REPORTS).map(|number| envelope(sequence, report(dice, number)).encode().into()).collect()
}

/// Resident memory of this process and its highest so far, in bytes.
fn memory() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024
    };
    (field("VmRSS:"), field("VmHWM:"))
}

fn main() {
    let numbers: Vec<u64> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let size = |place: usize, default: u64| numbers.get(place).copied().unwrap_or(default);
    let (nodes, per_node, seconds) = (size(0, 100_000) as u32, size(1, 10) as u32, size(2, 20));
    let Builder { cell, mut sequence, jobs, .. } = Builder::build(nodes, per_node);
    let runs = cell.runs().len();
    let start = Instant::now();
    let pieces = Replica::<RaftLog<Timed>>::encode(&cell);
    let encode = start.elapsed();
    let bytes: usize = pieces.iter().map(Bytes::len).sum();
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Timed { disk: FileDisk::open(folder.path()).expect("a disk"), synced: Duration::ZERO };
    let config = RaftConfig::single(1, 1);
    let disk = RaftLog::create_from(disk, &config, cell.applied(), pieces.clone()).expect("a log");
    drop(cell);
    let joined = pieces.concat();
    drop(pieces);
    let start = Instant::now();
    let restored = restore(&joined).expect("a snapshot");
    let catch_up = start.elapsed();
    drop((restored, joined));
    let log = RaftLog::open(disk, config, Remarks::none()).expect("the log");
    let config = ReplicaConfig { snapshot_every_entries: 500, ..ReplicaConfig::default() };
    let mut replica = Replica::new(log, config);
    let mut out = Vec::new();
    while replica.cell().applied() == Index(0) || replica.wake_ms() == Some(0) {
        replica.step(at(0), Input::Flush, &mut out).expect("a flush");
    }
    out.clear();
    let (copy, _) = memory();
    let [before, during] = measure(&mut replica, &jobs, &mut sequence, seconds, per_node);
    let (_, highest) = memory();
    let claims_per_s = runs as f64 / catch_up.as_secs_f64();
    println!(
        "{{\"nodes\":{nodes},\"runs\":{runs},\"snapshot_bytes\":{bytes},\"encode_ms\":{},\"catch_up_ms\":{},\
         \"catch_up_claims_per_s\":{claims_per_s:.0},\"copy_rss_bytes\":{copy},\"process_highest_bytes\":{highest},\
         \"apart_from_snapshots\":{},\"during_snapshots\":{}}}",
        encode.as_millis(),
        catch_up.as_millis(),
        before.json(),
        during.json()
    );
}
