//! What breaks, and what must hold nevertheless.

use crate::world::{Setup, Test, World, command, kill_hard, run, shell, wait_until};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use ohm_model::{Exit, Incarnation, OnDisconnect};
use ohm_node::clock::boottime_ms;
use ohm_node::shim::{
    Cause, End, Event, LeaseFile, NodeLease, PROTOCOL_VERSION, Request, RunSpec, ShimClient, ShimCommand,
};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

pub(crate) const TESTS: &[Test] = &[
    ("the_next_agent_finds_live_runs_and_ends", the_next_agent_finds_live_runs_and_ends),
    ("an_agent_killed_with_its_group_leaves_the_shim", an_agent_killed_with_its_group_leaves_the_shim),
    ("there_is_one_shim", there_is_one_shim),
    ("tasks_die_with_the_shim", tasks_die_with_the_shim),
    ("tasks_die_when_shim_and_guard_are_killed_at_once", tasks_die_when_shim_and_guard_are_killed_at_once),
    ("a_killed_guard_is_not_the_fault_of_tasks", a_killed_guard_is_not_the_fault_of_tasks),
    ("the_fence_ends_tasks_before_the_deadline", the_fence_ends_tasks_before_the_deadline),
    ("a_stopped_shim_ends_its_tasks_with_the_lease", a_stopped_shim_ends_its_tasks_with_the_lease),
    ("nothing_starts_without_a_lease", nothing_starts_without_a_lease),
    ("nothing_starts_shortly_before_a_lease_ends", nothing_starts_shortly_before_a_lease_ends),
    (
        "a_run_that_outlived_a_lease_is_ended_under_the_next_one",
        a_run_that_outlived_a_lease_is_ended_under_the_next_one,
    ),
    ("orders_of_an_earlier_registration_are_refused", orders_of_an_earlier_registration_are_refused),
    ("a_damaged_lease_runs_out", a_damaged_lease_runs_out),
    ("a_damaged_journal_keeps_nobody_from_starting", a_damaged_journal_keeps_nobody_from_starting),
    ("bad_bytes_on_the_socket_harm_nobody", bad_bytes_on_the_socket_harm_nobody),
    ("a_terminated_shim_stops_its_tasks", a_terminated_shim_stops_its_tasks),
    ("a_closing_shim_starts_nothing_more_and_ends", a_closing_shim_starts_nothing_more_and_ends),
    ("a_second_signal_leaves_no_grace", a_second_signal_leaves_no_grace),
];

fn the_next_agent_finds_live_runs_and_ends(setup: Setup) {
    let mut world = World::new(setup);
    let live = world.start_script(0, "sleep 720");
    world.start(1, shell("exit 4"));
    world.exited(1);
    let shim = world.client.info.pid;
    world.reconnect();
    assert_eq!(world.client.info.pid, shim, "found, not started");
    let (alive, ended) = world.listed();
    assert_eq!(alive, [live]);
    assert_eq!(ended.len(), 1);
    assert_eq!((ended[0].run, ended[0].end.clone()), (run(1), End::Code(4)));
    // What ends while no agent listens is told to the next one.
    world.send(&[Request::Stop { run: run(0), grace_ms: 0 }, Request::Forget { runs: vec![run(1)] }]);
    world.reconnect();
    let stopped = world.exited_or_listed(0);
    assert_eq!(stopped, Cause::Stopped);
}

impl World {
    fn exited_or_listed(&mut self, task: u32) -> Cause {
        self.find(|event| match event {
            Event::Exited(ended) if ended.run == run(task) => Some(ended.cause),
            Event::Listed { ended, .. } => ended.iter().find(|ended| ended.run == run(task)).map(|ended| ended.cause),
            _ => None,
        })
    }
}

/// The agent that is about to be killed: starts a shim and a task, says so, and waits.
pub(crate) fn agent(folder: OsString) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let setup = Setup { namespace: true, cgroups: true };
        let lease = LeaseFile::open(folder.as_ref()).unwrap();
        lease.write(NodeLease { deadline_ms: boottime_ms() + 3_600_000, since_ms: 0, incarnation: 1 }).unwrap();
        let mut client = command(folder.into(), setup).start_or_find().await.unwrap();
        client.send(&[Request::Start { run: run(0), spec: shell("sleep 721") }]).await.unwrap();
        while !matches!(client.next().await.unwrap(), Event::Started(_)) {}
        println!("up");
        std::future::pending::<()>().await;
    });
    ExitCode::SUCCESS
}

fn an_agent_killed_with_its_group_leaves_the_shim(setup: Setup) {
    let mut world = World::new(setup);
    kill_hard(world.client.info.pid);
    let mut agent = Command::new(std::env::current_exe().unwrap())
        .arg("agent")
        .arg(world.folder.path())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    agent.stdout.take().unwrap().read_exact(&mut [0; 2]).unwrap();
    killpg(Pid::from_raw(agent.id().cast_signed()), Signal::SIGKILL).unwrap();
    agent.wait().unwrap();
    world.reconnect();
    let (live, _) = world.listed();
    assert_eq!(live.iter().map(|one| one.run).collect::<Vec<_>>(), [run(0)]);
    assert!(world.is_alive(live[0]));
}

fn there_is_one_shim(setup: Setup) {
    let world = World::new(setup);
    let ShimCommand { program, options } = command(world.folder.path().into(), setup);
    let second = Command::new(program).args(options.arguments()).output().unwrap();
    assert!(!second.status.success());
    let error = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(error.contains("another shim is in charge"), "{error}");
}

fn tasks_die_with_the_shim(setup: Setup) {
    let mut world = World::new(setup);
    let mut keep = shell("trap '' TERM HUP INT; setsid sleep 722 & sleep 722 & echo up; wait");
    keep.on_disconnect = OnDisconnect::Keep;
    world.start(0, keep);
    let live = world.started(0);
    world.wait_for_output(0, "up");
    world.start(1, shell("exit 0"));
    world.exited(1);
    wait_until("daemons", || world.count("722") == 2);
    world.kill_shim();
    wait_until("death of the tasks", || !world.is_alive(live) && world.count("722") == 0);
    world.reconnect();
    let (alive, mut ended) = world.listed();
    ended.sort_by_key(|ended| ended.run);
    assert_eq!(alive, []);
    assert_eq!(ended.iter().map(|ended| ended.exit()).collect::<Vec<_>>(), [Exit::Vanished, Exit::Code(0)]);
    // Its incarnation is used up.
    world.start(0, shell("true"));
    assert_eq!(world.exited(0).cause, Cause::ShimDied);
    world.start_script(2, "sleep 723");
}

fn guard_of(world: &World) -> u32 {
    let children = world.processes.children(world.client.info.pid);
    let line = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_guard = |pid: &u32| line(pid).contains("--guard");
    children.into_iter().find(is_guard).unwrap()
}

fn tasks_die_when_shim_and_guard_are_killed_at_once(setup: Setup) {
    let mut world = World::new(setup);
    // Without either, what sheds its environment is not found: the shim warns of it.
    let is_findable = setup.namespace || setup.cgroups;
    let hidden = if is_findable { "(env -i setsid sleep 725 &) ;" } else { "" };
    let live = world.start_script(0, &format!("setsid sleep 724 & {hidden} echo up; sleep 724"));
    world.wait_for_output(0, "up");
    wait_until("daemons", || world.count("724") == 2 && world.count("725") == usize::from(is_findable));
    let guard = guard_of(&world);
    kill_hard(guard);
    world.kill_shim();
    if world.client.info.has_namespace {
        // By the kernel alone.
        wait_until("death of the tasks", || !world.is_alive(live) && world.count("724") + world.count("725") == 0);
    }
    // Without a namespace by the next shim, before it says anything.
    world.reconnect();
    assert_eq!(world.exited_or_listed(0), Cause::ShimDied);
    assert!(!world.is_alive(live));
    assert_eq!((world.count("724"), world.count("725")), (0, 0));
}

fn a_killed_guard_is_not_the_fault_of_tasks(setup: Setup) {
    let mut world = World::new(setup);
    let live = world.start_script(0, "sleep 726");
    let guard = guard_of(&world);
    kill_hard(guard);
    if world.client.info.has_namespace {
        let ended = world.exited(0);
        assert_eq!((ended.cause, ended.exit()), (Cause::ShimDied, Exit::Vanished));
        // The shim ends too: its namespace takes no more tasks.
        wait_until("the end of the shim", || {
            world.processes.stat(world.client.info.pid).is_none_or(|stat| stat.is_ending())
        });
        world.reconnect();
    } else {
        wait_until("a new guard", || {
            world.processes.children(world.client.info.pid).iter().any(|pid| *pid != guard && *pid != live.pid)
        });
        assert!(world.is_alive(live));
    }
    world.start_script(1, "sleep 727");
}

fn the_fence_ends_tasks_before_the_deadline(setup: Setup) {
    let mut world = World::new(setup);
    let live =
        world.start_script(0, "trap 'echo asked' TERM; setsid sleep 728 & while :; do sleep 728 & wait $!; done");
    let mut keep = shell("sleep 729");
    keep.on_disconnect = OnDisconnect::Keep;
    world.start(1, keep);
    let kept = world.started(1);
    wait_until("children", || world.count("728") == 2);
    let deadline_ms = world.lease_for(4_000);
    // The agent is gone for all the shim knows: nobody sends anything.
    let ended = world.exited(0);
    assert_eq!((ended.cause, ended.exit()), (Cause::LeaseExpired, Exit::LeaseExpired));
    assert!(world.output(0).contains("asked"));
    assert!(!world.is_alive(live));
    assert_eq!(world.count("728"), 0);
    assert!(ended.at_boottime_ms < deadline_ms, "{} late", ended.at_boottime_ms - deadline_ms);
    std::thread::sleep(Duration::from_millis(deadline_ms.saturating_sub(boottime_ms()) + 300));
    assert!(world.is_alive(kept), "keep lives on");
    world.start(2, shell("true"));
    world.find(|event| matches!(event, Event::StartRefused { run: other, .. } if other == run(2)).then_some(()));
    // With a new lease the refused run may start after all.
    world.lease_for(3_600_000);
    world.start(2, shell("true"));
    assert_eq!(world.exited(2).end, End::Code(0));
    assert!(world.is_alive(kept));
}

/// Nothing of ours runs any more, and still nothing outlives the lease.
fn a_stopped_shim_ends_its_tasks_with_the_lease(setup: Setup) {
    let mut world = World::new(setup);
    let live = world.start_script(0, "trap '' TERM HUP; setsid sleep 743 & sleep 743 & echo up; wait");
    world.wait_for_output(0, "up");
    wait_until("children", || world.count("743") == 2);
    world.lease_for(2_000);
    // The shim must have seen the short lease before it stops, as it has seen every one that it started something on.
    std::thread::sleep(Duration::from_millis(300));
    let stop = |pid: u32| kill(Pid::from_raw(pid.cast_signed()), Signal::SIGSTOP).unwrap();
    stop(world.client.info.pid);
    if world.client.info.has_namespace {
        // Without one, the guard must run to end them.
        stop(guard_of(&world));
    }
    wait_until("death of the tasks", || !world.is_alive(live) && world.count("743") == 0);
    world.reconnect();
    assert_eq!(world.exited_or_listed(0), Cause::ShimDied);
}

fn nothing_starts_without_a_lease(setup: Setup) {
    let mut world = World::new(setup);
    world.lease.write(NodeLease::default()).unwrap();
    world.start(0, shell("true"));
    let refused = |event| matches!(event, Event::StartRefused { .. }).then_some(());
    world.find(refused);
    assert_eq!(world.list(), (vec![], vec![]));
}

/// The fence would end it at once, and the cell would have it started again.
fn nothing_starts_shortly_before_a_lease_ends(setup: Setup) {
    let mut world = World::new(setup);
    world.lease_for(1_950);
    for on_disconnect in [OnDisconnect::Stop, OnDisconnect::Keep] {
        world.start(0, RunSpec { on_disconnect, ..shell("true") });
        world.find(|event| match event {
            Event::StartRefused { .. } => Some(()),
            Event::Started(_) | Event::Exited(_) => panic!("it was started"),
            _ => None,
        });
    }
    assert_eq!(world.list(), (vec![], vec![]));
}

/// What a shim finds that was stopped over a deadline and wakes to a newer lease.
fn a_run_that_outlived_a_lease_is_ended_under_the_next_one(setup: Setup) {
    let mut world = World::new(setup);
    let live = world.start_script(0, "trap '' TERM; sleep 740 & wait");
    let keep = RunSpec { on_disconnect: OnDisconnect::Keep, ..shell("sleep 741") };
    world.start(1, keep);
    let kept = world.started(1);
    std::thread::sleep(Duration::from_millis(5));
    let now_ms = boottime_ms();
    world.lease.write(NodeLease { deadline_ms: now_ms + 3_600_000, since_ms: now_ms, incarnation: 1 }).unwrap();
    let ended = world.exited(0);
    assert_eq!((ended.cause, ended.exit()), (Cause::LeaseExpired, Exit::LeaseExpired));
    assert!(!world.is_alive(live) && world.is_alive(kept));
    assert!(world.start_script(2, "sleep 742").at_boottime_ms >= now_ms);
}

fn orders_of_an_earlier_registration_are_refused(setup: Setup) {
    let mut world = World::new(setup);
    let deadline_ms = boottime_ms() + 3_600_000;
    world.lease.write(NodeLease { deadline_ms, since_ms: 0, incarnation: 5 }).unwrap();
    world.start(0, RunSpec { registration: Incarnation(4), ..shell("true") });
    world.find(|event| matches!(event, Event::StartRefused { run: other, .. } if other == run(0)).then_some(()));
    world.start(1, RunSpec { registration: Incarnation(5), ..shell("true") });
    assert_eq!(world.exited(1).end, End::Code(0));
}

fn a_damaged_lease_runs_out(setup: Setup) {
    let mut world = World::new(setup);
    world.lease_for(7_000);
    world.start_script(0, "sleep 730");
    // Long enough to be read; then nothing whole can be read any more.
    std::thread::sleep(Duration::from_millis(300));
    std::fs::write(world.path("lease"), [0x55; 32]).unwrap();
    assert_eq!(world.exited(0).cause, Cause::LeaseExpired);
}

fn a_damaged_journal_keeps_nobody_from_starting(setup: Setup) {
    let mut world = World::new(setup);
    let live = world.start_script(0, "sleep 731");
    world.kill_shim();
    wait_until("death of the task", || !world.is_alive(live));
    for bytes in [&b""[..], b"\x01", &[0xaa; 100]] {
        std::fs::write(world.path("journal"), bytes).unwrap();
        world.reconnect();
        assert_eq!(world.client.info.warnings.iter().any(|text| text.contains("journal.damaged")), bytes.len() == 100);
        world.kill_shim();
    }
    world.reconnect();
    world.start(1, shell("exit 0"));
    assert_eq!(world.exited(1).end, End::Code(0));
}

fn bad_bytes_on_the_socket_harm_nobody(setup: Setup) {
    let mut world = World::new(setup);
    let live = world.start_script(0, "sleep 732");
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 5000], &[1, 4, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9], b"\x01"] {
        let mut stream = UnixStream::connect(world.path("shim.sock")).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut second = ShimClient::connect(world.folder.path()).await.unwrap();
        second.send(&[Request::Hello { version: PROTOCOL_VERSION + 1 }]).await.unwrap();
        let refusal = loop {
            if let Err(error) = second.next().await {
                break error.to_string();
            }
        };
        assert!(refusal.contains("version"), "{refusal}");
    });
    assert_eq!(world.list().0, [live]);
}

fn a_closing_shim_starts_nothing_more_and_ends(setup: Setup) {
    let mut world = World::new(setup);
    // More than one turn starts, so that the signal finds some that wait.
    let starts: Vec<Request> =
        (0..200).map(|task| Request::Start { run: run(task), spec: shell("sleep 735") }).collect();
    world.send(&starts);
    let shim = world.client.info.pid;
    kill(Pid::from_raw(shim.cast_signed()), Signal::SIGTERM).unwrap();
    wait_until("the end of the shim", || world.processes.stat(shim).is_none_or(|stat| stat.is_ending()));
    assert_eq!(world.count("735"), 0);
    world.reconnect();
    assert_eq!(world.list().0, [], "nothing lives, and nothing is started later");
}

fn a_second_signal_leaves_no_grace(setup: Setup) {
    let mut world = World::new(setup);
    let stubborn = RunSpec { grace_ms: 3_600_000, ..shell("trap '' TERM; echo up; sleep 736 & wait; wait") };
    world.start(0, stubborn);
    world.wait_for_output(0, "up");
    let shim = Pid::from_raw(world.client.info.pid.cast_signed());
    kill(shim, Signal::SIGTERM).unwrap();
    kill(shim, Signal::SIGQUIT).unwrap();
    let ended = world.exited(0);
    assert_eq!((ended.end.clone(), ended.exit()), (End::Signal(9), ohm_model::Exit::NodeShutdown));
}

fn a_terminated_shim_stops_its_tasks(setup: Setup) {
    let mut world = World::new(setup);
    world.start_script(0, "trap 'exit 8' TERM; echo up; sleep 733 & wait");
    world.wait_for_output(0, "up");
    kill(Pid::from_raw(world.client.info.pid.cast_signed()), Signal::SIGTERM).unwrap();
    let ended = world.exited(0);
    assert_eq!((ended.end, ended.cause), (End::Code(8), Cause::ShimEnded));
    wait_until("the end of the shim", || {
        world.processes.stat(world.client.info.pid).is_none_or(|stat| stat.is_ending())
    });
    world.reconnect();
    assert_eq!(world.exited_or_listed(0), Cause::ShimEnded);
}
