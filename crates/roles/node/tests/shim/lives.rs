//! Runs that live and end as they should.

use crate::world::{Setup, Test, World, run, shell, wait_until};
use nix::sys::signal::Signal;
use ohm_model::Exit;
use ohm_node::cgroup::MemoryKill;
use ohm_node::rotation::LogLimits;
use ohm_node::shim::{Cause, End, Event, Request, RunSpec};

pub(crate) const TESTS: &[Test] = &[
    ("exits_are_told_as_they_were", exits_are_told_as_they_were),
    ("what_cannot_start_says_why", what_cannot_start_says_why),
    ("environment_and_folders_are_as_asked", environment_and_folders_are_as_asked),
    ("a_run_starts_once", a_run_starts_once),
    ("stop_asks_first_and_then_kills_the_tree", stop_asks_first_and_then_kills_the_tree),
    ("stop_of_what_is_not_running", stop_of_what_is_not_running),
    ("daemons_end_with_their_run", daemons_end_with_their_run),
    ("a_deadline_ends_a_run", a_deadline_ends_a_run),
    ("logs_are_rotated_under_the_writer", logs_are_rotated_under_the_writer),
    ("many_short_runs", many_short_runs),
];

fn exits_are_told_as_they_were(setup: Setup) {
    let mut world = World::new(setup);
    let signal = |signal: Signal| End::Signal(signal as i32);
    let cases = [
        ("exit 0", End::Code(0)),
        ("exit 7", End::Code(7)),
        ("kill -SEGV $$", signal(Signal::SIGSEGV)),
        ("kill -KILL $$", signal(Signal::SIGKILL)),
        ("kill -40 $$", End::Signal(40)),
        ("exit 255", End::Code(255)),
    ];
    for (task, (script, end)) in (0..).zip(cases) {
        world.start(task, shell(script));
        let ended = world.exited(task);
        assert_eq!((ended.end, ended.cause, ended.memory_kill), (end, Cause::Own, MemoryKill::None), "{script}");
        assert!(ended.at_boottime_ms > 0);
    }
}

fn what_cannot_start_says_why(setup: Setup) {
    let mut world = World::new(setup);
    let mut nowhere = RunSpec::new(["/bin/true"]);
    nowhere.working_dir = "/no/such/folder".into();
    let cases = [
        (RunSpec::new(["no-such-program"]), "no-such-program"),
        (RunSpec::new(["/etc/passwd"]), "ermission denied"),
        (RunSpec::new(Vec::<String>::new()), "empty"),
        (nowhere, "/no/such/folder"),
    ];
    for (task, (spec, word)) in (0..).zip(cases) {
        world.start(task, spec);
        let ended = world.exited(task);
        assert_eq!(ended.exit(), Exit::StartFailed);
        let End::StartFailed(reason) = ended.end else { panic!("{ended:?}") };
        assert!(reason.contains(word), "{reason}");
    }
}

fn environment_and_folders_are_as_asked(setup: Setup) {
    let mut world = World::new(setup);
    let mut spec = RunSpec::new(["sh", "-c", "pwd; echo $COLOUR $OHM_INCARNATION $OHM_RUN; env | wc -l; cat"]);
    spec.environment = vec![("COLOUR".into(), "red".into()), ("OHM_RUN".into(), "forged".into())];
    world.start(0, spec.clone());
    assert_eq!(world.exited(0).end, End::Code(0));
    let own = world.path("runs").canonicalize().unwrap().join(run(0).to_string());
    // COLOUR, PATH, OHM_RUN, OHM_INCARNATION, OHM_SHIM, and PWD of the shell itself.
    assert_eq!(world.output(0), format!("{}\nred 2 {}\n6\n", own.display(), run(0)));
    spec.working_dir = "/usr".into();
    world.start(1, spec);
    world.exited(1);
    assert!(world.output(1).starts_with("/usr\n"));
}

fn a_run_starts_once(setup: Setup) {
    let mut world = World::new(setup);
    let file = world.path("starts");
    let script = format!("echo x >> {}; sleep 700", file.display());
    let requests = vec![Request::Start { run: run(0), spec: shell(&script) }; 3];
    world.send(&requests);
    let first = world.started(0);
    world.send(&requests);
    assert_eq!(world.started(0), first);
    wait_until("the script", || file.exists());
    world.send(&[Request::Stop { run: run(0), grace_ms: 0 }]);
    world.exited(0);
    world.send(&requests);
    let again = world.exited(0);
    assert_eq!(again.cause, Cause::Stopped);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x\n");
    // The record is there until it is forgotten.
    world.send(&[Request::Forget { runs: vec![run(0), run(99)] }]);
    assert_eq!(world.list(), (vec![], vec![]));
}

fn stop_asks_first_and_then_kills_the_tree(setup: Setup) {
    let mut world = World::new(setup);
    world.start_script(0, "trap 'echo bye; exit 5' TERM; echo up; sleep 701 & wait");
    world.wait_for_output(0, "up");
    world.send(&[Request::Stop { run: run(0), grace_ms: 30_000 }]);
    let ended = world.exited(0);
    assert_eq!((ended.end, ended.cause), (End::Code(5), Cause::Stopped));
    assert_eq!(world.output(0), "up\nbye\n");
    assert_eq!(world.count("701"), 0);

    let tree =
        "trap '' TERM; (trap '' TERM; setsid sh -c 'trap \"\" TERM; echo up; sleep 702; sleep 702') & sleep 702; wait";
    world.start_script(1, tree);
    world.wait_for_output(1, "up");
    world.send(&[Request::Stop { run: run(1), grace_ms: 200 }]);
    let ended = world.exited(1);
    assert_eq!((ended.end, ended.cause), (End::Signal(9), Cause::Stopped));
    assert_eq!(world.count("702"), 0);

    // A stopped process ends politely too.
    world.start_script(2, "trap 'exit 6' TERM; echo up; kill -STOP $$; sleep 703 & wait");
    world.wait_for_output(2, "up");
    world.send(&[Request::Stop { run: run(2), grace_ms: 30_000 }]);
    assert_eq!(world.exited(2).end, End::Code(6));
}

fn stop_of_what_is_not_running(setup: Setup) {
    let mut world = World::new(setup);
    world.send(&[Request::Stop { run: run(0), grace_ms: 0 }]);
    world.find(|event| (event == Event::NotKnown { run: run(0) }).then_some(()));
    // In one message, so that it is stopped before it is started.
    let spec = shell("sleep 704");
    world.send(&[Request::Start { run: run(1), spec }, Request::Stop { run: run(1), grace_ms: 0 }]);
    let ended = world.exited(1);
    assert!(matches!(ended.exit(), Exit::NeverStarted | Exit::Signal(9 | 15)), "{ended:?}");
    world.start(2, shell("exit 3"));
    world.exited(2);
    world.send(&[Request::Stop { run: run(2), grace_ms: 0 }]);
    assert_eq!(world.exited(2).end, End::Code(3));
}

fn daemons_end_with_their_run(setup: Setup) {
    let mut world = World::new(setup);
    world.start_script(0, "sleep 705 & setsid sleep 705 & (setsid sh -c 'sleep 705; :' &) ; echo up; sleep 0.3");
    world.wait_for_output(0, "up");
    assert_eq!(world.exited(0).end, End::Code(0));
    assert_eq!(world.count("705"), 0, "when the end is told nothing is left");
    if setup.cgroups {
        world.start_script(1, "(env -i setsid sleep 706 &); echo up; sleep 0.3");
        world.exited(1);
        assert_eq!(world.count("706"), 0, "a cgroup needs no mark");
    }
    // Another run's daemons are not touched.
    world.start_script(2, "setsid sleep 707 & echo up; sleep 700");
    world.wait_for_output(2, "up");
    wait_until("daemon of 2", || world.count("707") == 1);
    world.start(3, shell("setsid sleep 708 & exit 0"));
    world.exited(3);
    assert_eq!((world.count("707"), world.count("708")), (1, 0));
}

fn a_deadline_ends_a_run(setup: Setup) {
    let mut world = World::new(setup);
    let mut spec = shell("trap 'exit 9' TERM; sleep 709 & wait");
    spec.active_deadline_ms = Some(500);
    world.start(0, spec);
    let ended = world.exited(0);
    assert_eq!((ended.end, ended.cause), (End::Code(9), Cause::DeadlineExceeded));
}

fn logs_are_rotated_under_the_writer(setup: Setup) {
    let mut world = World::new(setup);
    let mut spec = shell("seq 1 40000; sleep 2.5; seq 40001 80000; sleep 2.5; echo end; sleep 700");
    spec.logs = LogLimits { bytes_max: 100_000, files_max: 3 };
    world.start(0, spec);
    world.wait_for_output(0, "end");
    let folder = ohm_node::shim::log_folder(world.folder.path(), run(0));
    wait_until("two rotations", || folder.join("stdout.2").exists());
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let all = ["stdout.3", "stdout.2", "stdout.1", "stdout"].map(read).concat();
    let numbers: Vec<u32> = all.lines().filter_map(|line| line.parse().ok()).collect();
    assert_eq!(numbers, (1..=80_000).collect::<Vec<u32>>(), "nothing lost, nothing twice");
    assert!(read("stdout").len() < 200_000);
}

fn many_short_runs(setup: Setup) {
    let mut world = World::new(setup);
    let start = |task| Request::Start { run: run(task), spec: RunSpec::new(["/bin/true"]) };
    world.send(&(0..500).map(start).collect::<Vec<Request>>());
    let mut ended = std::collections::BTreeSet::new();
    while ended.len() < 500 {
        if let Event::Exited(one) = world.next() {
            assert_eq!(one.end, End::Code(0));
            assert!(ended.insert(one.run), "told twice");
        }
    }
    let runs = ended.into_iter().collect();
    world.send(&[Request::Forget { runs }]);
    assert_eq!(world.list(), (vec![], vec![]));
}
