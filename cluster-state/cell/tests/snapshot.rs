//! Snapshots of cells that are large, cut off or damaged.

use ohm_cell::{Applied, Cell, RestoreError, restore};
use ohm_model::{
    Class, Command, Entry, Envelope, GroupSpec, Index, JobSpec, NodeSpec, QueueSpec, Role, SchedulingProfile, Sequence,
    SessionId,
};

fn apply(cell: &mut Cell, session: u64, sequence: u64, command: Command) {
    let envelope = Envelope::new(SessionId(session), Sequence(sequence), Sequence(sequence), command);
    let entry = Entry { stamp_ms: 1_000_000, commands: vec![envelope] };
    cell.apply(Index(cell.applied().0 + 1), &entry, &mut Applied::default());
}

fn with_jobs(jobs: u64, count: u32) -> Cell {
    let mut cell = Cell::new();
    apply(&mut cell, 0, 0, Command::OpenSession { nonce: 1, role: Role::Server, name: "people".into() });
    for number in 0..jobs {
        let group = GroupSpec { min_count: 1, elastic: true, ..GroupSpec::gang("main", count) };
        let job = JobSpec {
            ttl_seconds_after_finished: 0,
            ..JobSpec::of(format!("job-{number}"), Class::BATCH, vec![group])
        };
        apply(&mut cell, 1, number + 1, Command::SubmitJobs { jobs: vec![job] });
    }
    cell
}

/// No frame comes near what a reader refuses, however many tasks the jobs of one chunk have.
#[test]
fn large_jobs_are_cut_into_frames_that_can_be_read() {
    let cell = with_jobs(3, 300_000);
    let (mut longest, mut frames) = (0, 0);
    cell.snapshot(|frame| {
        longest = longest.max(frame.len());
        frames += 1;
    });
    assert!(longest < 5 << 20, "the longest of {frames} frames has {longest} bytes");
    let restored = restore(&cell.snapshot_bytes()).unwrap();
    assert!(restored == cell && restored.digest() == cell.digest());
}

#[test]
fn a_cut_or_damaged_snapshot_is_refused() {
    let bytes = with_jobs(5, 3).snapshot_bytes();
    for end in 0..bytes.len() {
        assert!(restore(&bytes[..end]).is_err(), "cut at {end} of {}", bytes.len());
    }
    for bit in (0..bytes.len() * 8).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(restore(&damaged).is_err(), "bit {bit} flipped");
    }
    let longer = [bytes.as_slice(), &bytes].concat();
    assert!(matches!(restore(&longer), Err(RestoreError::Order { .. })), "a second snapshot behind the first");
}

/// Nodes that have nothing in common, and queues with long names.
#[test]
fn many_classes_and_fat_queues_are_cut_into_frames_that_can_be_read() {
    let mut cell = with_jobs(1, 1);
    for number in 0..20_000u64 {
        let labels = (0..4).map(|label| (format!("example.com/{label}-{}", "x".repeat(50)), format!("{number:060}")));
        let spec = NodeSpec {
            name: format!("node-{number}"),
            labels: labels.collect(),
            taints: Vec::new(),
            capacity: [("pods".to_string(), 10)].into(),
            address: String::new(),
        };
        apply(
            &mut cell,
            1,
            number + 2,
            Command::RegisterNode { spec, key: number, instance: 1, boot: 1, alive: Vec::new() },
        );
    }
    let (name, description) = ("high".to_string(), "first".to_string());
    let class = ohm_model::PriorityClass { name, value: 7, preempts: true, description, global_default: true };
    apply(&mut cell, 1, 29_999, Command::PutPriorityClass(class));
    for number in 0..200u64 {
        let amounts = (0..120).map(|resource| (format!("{}.example.com/{resource:063}", "x".repeat(125)), 1));
        let spec = QueueSpec {
            name: format!("queue-{number}"),
            nominal: amounts.collect(),
            borrowing_limit: Default::default(),
            lending_limit: Default::default(),
            ..QueueSpec::default()
        };
        apply(&mut cell, 1, number + 30_000, Command::PutQueue(spec));
    }
    let mut profile = SchedulingProfile::built_in("gpu".parse().unwrap());
    profile.like = ohm_model::ClassKind::Service;
    profile.strategies = vec![ohm_model::Strategy::Place];
    apply(&mut cell, 1, 30_200, Command::PutSchedulingProfile(Box::new(profile.clone())));
    assert_eq!((cell.nodes().len(), cell.quota().iter().count()), (20_000, 200));
    assert_eq!(cell.priority_classes().get("high").map(|class| class.value), Some(7));
    assert_eq!(cell.profiles().of(profile.class).as_deref(), Some(&profile));
    let mut longest = 0;
    assert!(cell.snapshot(|frame| longest = longest.max(frame.len())));
    assert!(longest < 5 << 20, "the longest frame has {longest} bytes");
    let restored = restore(&cell.snapshot_bytes()).unwrap();
    assert!(restored == cell && restored.digest() == cell.digest());
}
