//! What runs are given and held to, as the kernel sees it.

use crate::world::{Setup, Test, World, run, shell, wait_until};
use ohm_model::Exit;
use ohm_node::cgroup::layout::{self, Mount};
use ohm_node::cgroup::{Limits, MemoryKill, Requests, Resources};
use ohm_node::shim::{Request, RunSpec};
use std::fs;
use std::path::PathBuf;

pub(crate) const TESTS: &[Test] = &[
    ("limits_of_memory_hold", limits_of_memory_hold),
    ("limits_of_processes_hold", limits_of_processes_hold),
    ("limits_of_cpu_hold", limits_of_cpu_hold),
    ("a_small_request_is_not_throttled", a_small_request_is_not_throttled),
    ("who_is_over_the_request_goes_first", who_is_over_the_request_goes_first),
    ("points_follow_from_requests", points_follow_from_requests),
];

/// Whether the machine lacks this by the words of the shim; then it is said that `what` is not tested.
fn lacks(world: &World, word: &str, what: &str) -> bool {
    let warnings = &world.client.info.warnings;
    let is_missing = |warning: &String| {
        let missing = warning.split_once("cgroups give no ").map_or("", |(_, rest)| rest);
        let missing = missing.split_once(" here").map_or("", |(words, _)| words);
        missing.split(", ").any(|one| one == word) || warning.contains("limits are not enforced")
    };
    let lacks = warnings.iter().any(is_missing);
    if lacks {
        println!("not tested here: {what} ({warnings:?})");
    }
    lacks
}

/// The folders of the shim's groups on this machine.
fn groups(world: &World) -> Vec<PathBuf> {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    let mounts = layout::mounts(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
    let name = ohm_node::shim::cgroup_name(&world.folder.path().canonicalize().unwrap());
    let of_mount = |Mount { own, root, .. }: &Mount| [own.join(&name), root.join(&name)];
    let mut folders: Vec<PathBuf> = mounts.iter().flat_map(of_mount).filter(|folder| folder.exists()).collect();
    folders.sort();
    folders.dedup();
    folders
}

/// What the files of this name of all slots say.
fn of_slots(world: &World, name: &str) -> Vec<String> {
    let slots = groups(world).into_iter().flat_map(|folder| fs::read_dir(folder).unwrap().flatten());
    slots.filter_map(|slot| fs::read_to_string(slot.path().join(name)).ok()).collect()
}

/// What the file of this name of the only slot there is says, if it has one.
fn of_only_slot(world: &World, name: &str) -> Option<String> {
    let mut found = of_slots(world, name);
    assert!(found.len() <= 1, "several slots have {name}");
    found.pop().map(|text| text.trim().to_string())
}

fn asking(script: &str, cpu_millicores: u32, memory_bytes: u64) -> RunSpec {
    let requests = Requests { cpu_millicores, memory_bytes };
    RunSpec { resources: Resources { requests, limits: Limits::default() }, ..shell(script) }
}

fn limits_of_memory_hold(setup: Setup) {
    let mut world = World::new(setup);
    if lacks(&world, "memory", "limits of memory") {
        return;
    }
    let mut spec = asking("x=x; while :; do x=$x$x; done", 900, 16 << 20);
    spec.resources.limits.memory_bytes = 32 << 20;
    world.start(0, spec);
    let ended = world.exited(0);
    assert_eq!((ended.memory_kill, ended.exit()), (MemoryKill::OverLimit, Exit::OutOfMemory), "{ended:?}");

    let mut small = shell("true");
    small.resources.limits.memory_bytes = 4096;
    world.start(2, small);
    assert_eq!(world.exited(2).exit(), Exit::StartFailed);
}

fn limits_of_processes_hold(setup: Setup) {
    let mut world = World::new(setup);
    if lacks(&world, "pids", "limits of processes") {
        return;
    }
    let mut spec = shell("for i in 1 2 3 4 5 6 7 8 9; do sleep 710 & done; echo survived");
    spec.resources.limits.pids = 5;
    world.start(1, spec);
    world.exited(1);
    let folder = ohm_node::shim::log_folder(world.folder.path(), run(1));
    assert!(fs::read_to_string(folder.join("stderr")).unwrap().contains("ork"), "cannot fork");
    assert_eq!(world.count("710"), 0);
}

/// A fifth of a core is throttled in every period of a run that wants all of one.
fn limits_of_cpu_hold(setup: Setup) {
    let mut world = World::new(setup);
    if lacks(&world, "cpu limits", "limits of CPU") {
        return;
    }
    let mut spec = asking("echo up; while :; do :; done", 100, 0);
    spec.resources.limits.cpu_millicores = 200;
    world.start(0, spec);
    world.wait_for_output(0, "up");
    wait_until("throttling", || throttled(&world).is_some_and(|times| times > 0));
    world.send(&[Request::Stop { run: run(0), grace_ms: 0 }]);
    world.exited(0);
}

/// How often the only slot was throttled. The group that kills may have statistics of its own, without this.
fn throttled(world: &World) -> Option<u64> {
    let number = |text: &String| text.lines().find_map(|line| line.strip_prefix("nr_throttled ")?.parse().ok());
    of_slots(world, "cpu.stat").iter().find_map(number)
}

/// A task that asks for 10m is as fast as any where nobody else wants the CPU.
fn a_small_request_is_not_throttled(setup: Setup) {
    let mut world = World::new(setup);
    if lacks(&world, "cpu", "weights of CPU") {
        return;
    }
    world.start(0, asking("i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; echo done; sleep 711", 10, 0));
    world.wait_for_output(0, "done");
    let weight = of_only_slot(&world, "cpu.weight").or_else(|| of_only_slot(&world, "cpu.shares"));
    assert!(matches!(weight.as_deref(), Some("1" | "10")), "{weight:?}");
    match of_only_slot(&world, "cpu.max").or_else(|| of_only_slot(&world, "cpu.cfs_quota_us")) {
        Some(quota) => assert!(quota.starts_with("max ") || quota == "-1", "{quota}"),
        None => println!("not tested here: that nothing is throttled (a kernel without quotas)"),
    }
    assert_eq!(throttled(&world).unwrap_or(0), 0);
    world.send(&[Request::Stop { run: run(0), grace_ms: 0 }]);
    world.exited(0);
}

/// The memory around all runs ends, as that of a node does: who has no more than was asked for lives.
fn who_is_over_the_request_goes_first(setup: Setup) {
    let mut world = World::new(setup);
    if lacks(&world, "memory", "who goes first when the node's memory ends") {
        return;
    }
    let all = ["memory.max", "memory.limit_in_bytes"];
    let bounds = groups(&world).into_iter().flat_map(|folder| all.map(|file| folder.join(file)));
    let bound = bounds.into_iter().find(|file| file.exists()).expect("the memory of the group around all runs");
    fs::write(&bound, (96_u64 << 20).to_string()).unwrap();

    let hold = "x=$(head -c 20000000 /dev/zero | tr '\\0' x); echo up; sleep 712";
    world.start(0, asking(hold, 0, 90 << 20));
    world.wait_for_output(0, "up");
    world.start(1, asking("x=x; while :; do x=$x$x; done", 0, 8 << 20));
    let ended = world.exited(1);
    assert_eq!((ended.memory_kill, ended.exit()), (MemoryKill::OverRequest, Exit::OverRequest), "{ended:?}");
    // Of what asks for nothing every byte is beyond its request.
    world.start(2, shell("x=x; while :; do x=$x$x; done"));
    assert_eq!(world.exited(2).exit(), Exit::OverRequest);
    let live: Vec<_> = world.list().0.iter().map(|live| live.run).collect();
    assert_eq!(live, [run(0)]);
    // Killed by somebody else it is a signal as any.
    world.send(&[Request::Signal { run: run(0), signal: 9 }]);
    assert_eq!(world.exited(0).exit(), Exit::Signal(9));
}

fn points_follow_from_requests(setup: Setup) {
    let mut world = World::new(setup);
    let own = fs::read_to_string("/proc/self/oom_score_adj").unwrap();
    let own: i64 = own.trim().parse().unwrap();
    let is_held = !lacks(&world, "memory", "what keeps its points because it is held to its request");
    let mut exact = asking("sleep 713", 0, 64 << 20);
    exact.resources.limits.memory_bytes = 64 << 20;
    let node_bytes = ohm_runtime::machine::memory_bytes().unwrap();
    let share = |bytes: u64| 1000 - i64::try_from(1000 * bytes / node_bytes).unwrap();
    let half = node_bytes / 2;
    let cases = [
        (shell("sleep 713"), 1000),
        (asking("sleep 713", 0, half), share(half)),
        (asking("sleep 713", 0, node_bytes * 2), 2),
        (exact, if is_held { own } else { share(64 << 20).min(999) }),
    ];
    for (task, (spec, points)) in (0..).zip(cases) {
        world.start(task, spec);
        let live = world.started(task);
        let told = fs::read_to_string(format!("/proc/{}/oom_score_adj", live.pid)).unwrap();
        assert_eq!(told.trim(), points.max(own).to_string(), "{task}");
    }
}
