//! The agent process with a real shim, real tasks, and a server of a few lines. This program is its own shim, so it has
//! its own `main`.

mod probes;
mod server;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ohm_model::{Exit, RunRef, RunReportKind};
use ohm_node::agent::{AgentError, AgentOptions, machine_node, run_agent};
use ohm_node::processes::Processes;
use ohm_runtime::servers::Servers;
use ohm_runtime::shutdown::Shutdown;
use server::Server;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(40);

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|word| word == "shim") {
        if let Err(error) = ohm_node::shim::shim_command(arguments) {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
        return ExitCode::SUCCESS;
    }
    if std::env::args().any(|argument| argument == "--list") {
        println!("agent: test");
        return ExitCode::SUCCESS;
    }
    ohm_runtime::trace::start("warn");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        say("tasks_run_and_tell", tasks_run_and_tell()).await;
        say("an_agent_that_comes_back_adopts", an_agent_that_comes_back_adopts()).await;
        say("a_lost_shim_is_replaced", a_lost_shim_is_replaced()).await;
        say("what_cannot_start_says_why", what_cannot_start_says_why()).await;
        probes::run().await;
    });
    ExitCode::SUCCESS
}

async fn say(name: &str, test: impl Future<Output = ()>) {
    test.await;
    println!("test {name} ... ok");
}

/// A server, a folder, and an agent process (as a task of this one).
struct World {
    server: Server,
    options: AgentOptions,
    _folder: tempfile::TempDir,
    shutdown: Shutdown,
    agent: JoinHandle<Result<(), AgentError>>,
}

impl World {
    async fn new() -> World {
        let (server, address) = Server::start().await;
        let folder = tempfile::tempdir().unwrap();
        let servers = Servers { addresses: vec!["http://127.0.0.1:1".into(), address], ..Servers::default() };
        let mut node = machine_node();
        node.address = "127.1.0.7".into();
        let options = AgentOptions::new(servers, &folder.path().join("node"), node);
        let (shutdown, agent) = start(&options);
        World { server, options, _folder: folder, shutdown, agent }
    }

    async fn stop_agent(&mut self) {
        self.shutdown.start();
        (&mut self.agent).await.unwrap().unwrap();
    }

    fn start_agent(&mut self) {
        (self.shutdown, self.agent) = start(&self.options);
    }

    /// Ends the agent together with the tasks.
    async fn end(mut self) {
        self.stop_agent().await;
        self.options.stop_tasks_on_exit = true;
        self.start_agent();
        until("registered for the last time", || !self.server.kinds(LAST).is_empty(), || self.server.want(999, "true"))
            .await;
        self.stop_agent().await;
        until("the end of the shim", || self.shim().is_none(), || ()).await;
    }

    fn shim(&self) -> Option<u32> {
        let text = std::fs::read_to_string(self.options.data_dir.join("shim/shim.pid")).ok()?;
        let pid = text.split(' ').next()?.parse().ok()?;
        let processes = Processes::open().unwrap();
        processes.stat(pid).is_some_and(|stat| !stat.is_ending()).then_some(pid)
    }
}

const LAST: RunRef = RunRef {
    task: ohm_model::TaskRef {
        job: ohm_model::JobId(1),
        group: ohm_model::GroupIndex(0),
        task: ohm_model::TaskIndex(999),
    },
    incarnation: ohm_model::Incarnation(1),
};

fn start(options: &AgentOptions) -> (Shutdown, JoinHandle<Result<(), AgentError>>) {
    let shutdown = Shutdown::default();
    (shutdown.clone(), tokio::spawn(run_agent(options.clone(), shutdown)))
}

/// Does `first` once and waits until `condition` holds.
async fn until<T>(what: &str, mut condition: impl FnMut() -> bool, first: impl FnOnce() -> T) -> T {
    let done = first();
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    done
}

async fn ended(server: &Server, run: RunRef) -> (Exit, String) {
    let find = || {
        server.kinds(run).into_iter().find_map(|kind| match kind {
            RunReportKind::Ended { exit, message } => Some((exit, message)),
            RunReportKind::Started { .. } | RunReportKind::Ready { .. } => None,
        })
    };
    until(&format!("the end of {run}"), || find().is_some(), || ()).await;
    find().unwrap()
}

async fn pid_of(server: &Server, run: RunRef) -> u32 {
    let find = || {
        server.kinds(run).into_iter().find_map(|kind| match kind {
            RunReportKind::Started { pid } => Some(pid),
            RunReportKind::Ended { .. } | RunReportKind::Ready { .. } => None,
        })
    };
    until(&format!("the start of {run}"), || find().is_some(), || ()).await;
    find().unwrap()
}

async fn log(server: &Server, request: u64, run: RunRef, follow: bool) -> Result<String, String> {
    until("the output", || server.log(request).is_some(), || server.read_log(request, run, follow)).await;
    server.log(request).unwrap()
}

async fn tasks_run_and_tell() {
    let world = World::new().await;
    let server = &world.server;
    let script = "echo $OHM_JOB $OHM_GROUP $OHM_RANK/$OHM_COUNT $OHM_NODE_IP $OHM_PEERS; echo no >&2; exit 3";
    let first = server.want(4, script);
    assert_eq!(ended(server, first).await.0, Exit::Code(3));
    let text = log(server, 1, first, false).await.unwrap();
    assert_eq!(text, "default/train workers 4/9 127.1.0.7 127.1.0.1,\n", "although the shim has forgotten it");
    assert_eq!(log(server, 2, first, true).await.unwrap(), text, "what is over is not followed for ever");

    let slow = server.want(5, "for i in 1 2 3 4 5; do echo line $i; sleep 0.2; done");
    assert_eq!(log(server, 3, slow, true).await.unwrap(), "line 1\nline 2\nline 3\nline 4\nline 5\n");
    let large = server.want(6, "seq 1 300000");
    assert_eq!(ended(server, large).await.0, Exit::Code(0));
    let text = log(server, 4, large, false).await.unwrap();
    assert!(text.ends_with("\n299999\n300000\n") && text.lines().count() == 300_000);
    let unknown = log(server, 5, RunRef::new(ohm_model::JobId(9), 0, 0, 1), false).await;
    assert!(unknown.unwrap_err().contains("not kept"));

    let stopped = server.want(7, "trap 'echo bye; exit 9' TERM; echo up; sleep 800 & wait");
    let pid = pid_of(server, stopped).await;
    server.want_stop(stopped);
    ended(server, stopped).await;
    assert!(Processes::open().unwrap().stat(pid).is_none());
    world.end().await;
}

async fn an_agent_that_comes_back_adopts() {
    let mut world = World::new().await;
    let (long, short) = (world.server.want(0, "sleep 801"), world.server.want(1, "sleep 1; exit 5"));
    let pid = pid_of(&world.server, long).await;
    pid_of(&world.server, short).await;
    let shim = world.shim().unwrap();
    world.stop_agent().await;
    assert!(Processes::open().unwrap().stat(pid).is_some(), "tasks live on");
    tokio::time::sleep(Duration::from_millis(1200)).await;
    world.start_agent();
    assert_eq!(ended(&world.server, short).await.0, Exit::Code(5), "what ended in between is told");
    assert_eq!((world.shim(), world.server.state().registrations), (Some(shim), 2));
    assert_eq!(world.server.kinds(long), [RunReportKind::Started { pid }], "no second start");
    let server = world.server.clone();
    world.end().await;
    let (exit, _) = ended(&server, long).await;
    assert_eq!(exit, Exit::NodeShutdown, "not charged to the task");
}

async fn a_lost_shim_is_replaced() {
    let world = World::new().await;
    let lost = world.server.want(0, "sleep 802");
    pid_of(&world.server, lost).await;
    let shim = world.shim().unwrap();
    kill(Pid::from_raw(shim.cast_signed()), Signal::SIGKILL).unwrap();
    assert_eq!(ended(&world.server, lost).await.0, Exit::Vanished);
    let next = world.server.want(1, "exit 0");
    assert_eq!(ended(&world.server, next).await.0, Exit::Code(0));
    assert_ne!(world.shim(), Some(shim));
    world.end().await;
}

async fn what_cannot_start_says_why() {
    let world = World::new().await;
    let server = &world.server;
    let long = server.want(0, &format!("true {}", "x".repeat(3 << 20)));
    let (exit, message) = ended(server, long).await;
    assert_eq!(exit, Exit::StartFailed);
    assert!(message.contains("too long"), "{message}");
    let fine = server.want(1, "exit 0");
    assert_eq!(ended(server, fine).await.0, Exit::Code(0));
    world.end().await;
}
