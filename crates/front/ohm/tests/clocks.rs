//! A server whose wall clock is ahead of the time of its cell. Nothing sets the clock of the machine: the state that
//! the server finds was stamped a day ago, which is the same to it.

use crate::cell;

use cell::wait;
use ohm_cell::{Applied, BackupSource, Cell, write_backup};
use ohm_model::{
    Asked, Class, Command, Entry, Envelope, Epoch, Grain, GroupIndex, GroupSpec, Index, JobGuard, JobSpec, Lease,
    NodeId, NodeSpec, Outcome, Placement, Role, Sequence, SessionId, TaskIndex, Transaction,
};
use ohm_runtime::clock::wall_ms;
use ohm_runtime::ports::free_addresses;
use serde_json::Value;
use std::path::Path;
use std::process;
use std::time::Duration;

const HOUR_S: u64 = 3_600;
const DAY_MS: u64 = 86_400_000;

/// A cell whose last entry was stamped at one moment.
struct Stamped {
    cell: Cell,
    stamp_ms: u64,
    sequence: u64,
}

impl Stamped {
    fn say(&mut self, command: impl Into<Asked>) -> Outcome {
        self.sequence += 1;
        let sequence = Sequence(self.sequence);
        self.apply(Envelope::new(SessionId(1), sequence, sequence, command))
    }

    fn apply(&mut self, envelope: Envelope) -> Outcome {
        let entry = Entry { stamp_ms: self.stamp_ms, commands: vec![envelope] };
        let mut applied = Applied::default();
        self.cell.apply(Index(self.cell.applied().0 + 1), &entry, &mut applied);
        applied.outcomes.remove(0)
    }
}

/// Job `long` runs and may do so for an hour, job `over` is finished and is kept for an hour.
fn stamped(stamp_ms: u64) -> Cell {
    let mut world = Stamped { cell: Cell::new(), stamp_ms, sequence: 0 };
    let role = Role::Scheduler(Class::BATCH);
    world.apply(Envelope::without_session(Command::OpenSession { nonce: 1, role, name: "test".into() }));
    let spec = NodeSpec {
        name: "n1".into(),
        labels: Default::default(),
        taints: Vec::new(),
        capacity: [("cpu", 4_000), ("pods", 110)].map(|(name, amount)| (name.into(), amount)).into(),
        address: "127.1.0.1".into(),
    };
    world.say(Command::RegisterNode { spec, key: 7, instance: 7, boot: 7, alive: Vec::new() });
    let job = |name: &str| JobSpec::of(name, Class::BATCH, vec![GroupSpec::gang("main", 1)]);
    let long = JobSpec { active_deadline_seconds: HOUR_S, ..job("long") };
    let over = JobSpec { ttl_seconds_after_finished: HOUR_S, ..job("over") };
    world.say(Command::SubmitJobs { jobs: vec![long, over] });
    world.say(Command::CancelJob { name: "over".into(), grace_ms: None });
    let found = world.cell.jobs().find("long").expect("accepted");
    let (job, shard, version) = (found.id, found.shard, found.version);
    world.say(Command::TakeLease { lease: Lease::Shard(shard), epoch: Epoch(0), renewed: Index(0) });
    let (node, class) = (NodeId(0), world.cell.nodes().class(NodeId(0)));
    let group = GroupIndex(0);
    let place = Placement { job, group, first: TaskIndex(0), count: 1, node, class, devices: Vec::new() };
    let outcome = world.say(Command::Commit(Transaction {
        jobs: vec![JobGuard { job, version, reserved: false }],
        place: vec![place],
        ..Transaction::empty(shard, Epoch(1), world.cell.applied(), Grain::PerTask)
    }));
    assert!(matches!(&outcome, Outcome::Verdict(verdict) if verdict.conflicts.is_empty()), "{outcome:?}");
    world.cell
}

struct Server {
    folder: String,
    url: String,
    _process: cell::Killed,
}

impl Server {
    fn start(folder: &Path) -> Server {
        let listen = free_addresses(1).unwrap()[0].to_string();
        let folder = folder.display().to_string();
        let mut command = process::Command::new(env!("CARGO_BIN_EXE_ohm"));
        let server = command.args(["server", "--listen", &listen, "--data-dir", &folder]).spawn().unwrap();
        let server = Server { url: format!("http://{listen}"), folder, _process: cell::Killed::of(server) };
        wait("it serves", || !server.ask(&["status"])["clocks"].is_null());
        server
    }

    fn ask(&self, words: &[&str]) -> Value {
        let mut command = process::Command::new(env!("CARGO_BIN_EXE_ohm"));
        command.args(words).args(["-o", "json", "--server", &self.url, "--data-dir", &self.folder]);
        serde_json::from_slice(&command.output().unwrap().stdout).unwrap_or_default()
    }

    fn state(&self, job: &str) -> Value {
        self.ask(&["job", job])["state"].clone()
    }
}

#[test]
fn a_wall_clock_that_is_a_day_ahead_ends_nothing_until_the_operator_believes_it() {
    let folder = tempfile::tempdir().unwrap();
    let (backup, data) = (folder.path().join("cell.backup"), folder.path().join("data"));
    let mut bytes = Vec::new();
    let source = BackupSource { cell: 7, cell_incarnation: 1 };
    assert!(write_backup(source, &stamped(wall_ms() - DAY_MS), |part| bytes.extend_from_slice(part)));
    std::fs::write(&backup, bytes).unwrap();
    let (backup, data_dir) = (backup.display().to_string(), data.display().to_string());
    cell::ohm(&["server", "restore", "--data-dir", &data_dir, "--from", &backup]);

    // Twice: the second process has the note of the first one.
    for _ in 0..2 {
        let server = Server::start(&data);
        std::thread::sleep(Duration::from_secs(1));
        let clock = server.ask(&["status"])["clocks"][0].clone();
        let offset_ms = clock["offsetMs"].as_u64().unwrap_or_default();
        assert!((DAY_MS - 10_000..DAY_MS + 60_000).contains(&offset_ms) && clock["unbelieved"] == true, "{clock}");
        assert_eq!((server.state("long"), server.state("over")), ("running".into(), "cancelled".into()));
    }

    let server = Server::start(&data);
    let status = server.ask(&["server", "believe-clock"]);
    assert_eq!(status["clocks"][0]["unbelieved"], false, "{status}");
    wait("the deadline of an hour has passed", || server.state("long") == "failed");
    wait("what was kept for an hour is forgotten", || server.state("over").is_null());
}
