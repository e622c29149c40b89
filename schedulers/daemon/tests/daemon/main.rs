//! The daemons over real connections to a server of a few lines.

mod server;

use bytes::Bytes;
use ohm_daemon::{DaemonError, HealthOptions, SchedulerOptions, run_health, run_scheduler};
use ohm_model::{Class, Command, GroupSpec, Index, JobSpec, Lease, NodeSpec, Outcome, Role, TaskSpec};
use ohm_runtime::servers::Servers;
use ohm_runtime::shutdown::Shutdown;
use ohm_wire::{Beat, Beats};
use server::Server;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tonic::Status;

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);

struct Daemon {
    shutdown: Shutdown,
    task: JoinHandle<Result<(), DaemonError>>,
}

impl Daemon {
    fn scheduler(address: &str) -> Daemon {
        let shutdown = Shutdown::default();
        let options = SchedulerOptions::new(servers(address), Class::BATCH, "batch-test");
        Daemon { shutdown: shutdown.clone(), task: tokio::spawn(run_scheduler(options, shutdown)) }
    }

    fn health(address: &str) -> Daemon {
        let shutdown = Shutdown::default();
        let options = HealthOptions::new(servers(address), "health-test").with_node_lease_ms(10_000);
        Daemon { shutdown: shutdown.clone(), task: tokio::spawn(run_health(options, shutdown)) }
    }

    async fn stop(self) {
        self.shutdown.start();
        self.task.await.unwrap().unwrap();
    }
}

/// The first address never answers: the next one is tried.
fn servers(address: &str) -> Servers {
    Servers { addresses: vec!["http://127.0.0.1:1".into(), address.into()], ..Servers::default() }
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn register(server: &Server, name: &str) {
    let capacity = [("cpu".to_string(), 64_000), ("pods".to_string(), 1000)].into();
    let (labels, taints) = Default::default();
    let spec = NodeSpec { name: name.into(), labels, taints, capacity, address: String::new() };
    let outcome =
        server.state().command(Command::RegisterNode { spec, key: 1, instance: 1, boot: 1, alive: Vec::new() });
    assert!(matches!(outcome, Outcome::Node { .. }), "{outcome:?}");
}

fn submit(server: &Server, name: &str) {
    let group = GroupSpec {
        requests: [("cpu".to_string(), 1000)].into(),
        task: TaskSpec { command: vec!["true".into()], ..TaskSpec::default() },
        ..GroupSpec::gang("main", 3)
    };
    let job = JobSpec { ttl_seconds_after_finished: 60, ..JobSpec::of(name, Class::BATCH, vec![group]) };
    let outcome = server.state().command(Command::SubmitJobs { jobs: vec![job] });
    assert!(matches!(outcome, Outcome::Jobs(_)), "{outcome:?}");
}

fn is_placed(server: &Server, name: &str) -> bool {
    server.state().cell.jobs().find(name).is_some_and(|job| job.live() == 3)
}

fn sessions(server: &Server, role: Role) -> usize {
    server.state().cell.sessions().iter().filter(|(_, session)| session.role == role).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduler_places_from_a_snapshot_and_from_entries_and_after_a_lost_connection() {
    let (server, address) = Server::start().await;
    register(&server, "node-1");
    submit(&server, "before");
    let scheduler = Daemon::scheduler(&address);
    until("placement from the snapshot", || is_placed(&server, "before")).await;
    submit(&server, "during");
    until("placement from an entry", || is_placed(&server, "during")).await;
    until("acknowledgements", || server.state().acknowledged > 0).await;
    server.state().hang_up();
    submit(&server, "after");
    until("placement after a lost connection", || is_placed(&server, "after")).await;
    assert!(server.state().follows >= 2);
    let role = Role::Scheduler(Class::BATCH);
    assert_eq!(sessions(&server, role), 1, "one session through it all");
    scheduler.stop().await;
    assert_eq!(sessions(&server, role), 0, "given back at the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_decode_ends_the_process() {
    let (server, address) = Server::start().await;
    let scheduler = Daemon::scheduler(&address);
    until("a session", || sessions(&server, Role::Scheduler(Class::BATCH)) == 1).await;
    server.state().tell(Index(9_999), Bytes::from_static(b"no entry"));
    let ended = tokio::time::timeout(PATIENCE, scheduler.task).await.unwrap().unwrap();
    assert!(matches!(ended, Err(DaemonError::Entry { index: Index(9_999), .. })), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_will_not_have_it_ends_the_process_and_one_that_is_absent_does_not() {
    let (server, address) = Server::start().await;
    server.state().refusal = Some(Status::unavailable("not yet"));
    let scheduler = Daemon::scheduler(&address);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!scheduler.task.is_finished());
    server.state().refusal = Some(Status::failed_precondition("apply version 9 is needed"));
    let ended = tokio::time::timeout(PATIENCE, scheduler.task).await.unwrap().unwrap();
    assert!(matches!(&ended, Err(DaemonError::Refused(text)) if text.contains("version 9")), "{ended:?}");
    let none = run_scheduler(SchedulerOptions::new(Servers::default(), Class::TAS, "x"), Shutdown::default()).await;
    assert!(matches!(none, Err(DaemonError::Connect(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_takes_the_duty_answers_beats_and_gives_it_back() {
    let (server, address) = Server::start().await;
    register(&server, "node-1");
    let health = Daemon::health(&address);
    until("the duty", || server.state().cell.sessions().lease(Lease::Health).holder.is_some()).await;
    let (node, incarnation) = {
        let state = server.state();
        let node = state.cell.nodes().find("node-1").unwrap();
        (node.0, state.cell.nodes().get(node).unwrap().incarnation.0)
    };
    let beat = |sequence| Beats { beats: vec![Beat { node, incarnation, sequence }] };
    let answered = |sequence: u64| {
        let state = server.state();
        state.answers.iter().flat_map(|answers| &answers.answers).any(|answer| answer.sequence == sequence)
    };
    until("the first answer", || {
        server.state().beat(beat(1));
        answered(1)
    })
    .await;
    let lease_ms = server.state().answers[0].answers[0].lease_ms;
    assert_eq!(lease_ms, 10_000);
    server.state().hang_up();
    until("an answer over the next connection", || {
        server.state().beat(beat(2));
        answered(2)
    })
    .await;
    let attached = server.state().attached.clone();
    assert!(attached.len() >= 2 && attached.iter().all(|session| *session == attached[0]), "{attached:?}");
    health.stop().await;
    assert!(server.state().cell.sessions().lease(Lease::Health).holder.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_that_hears_nobody_connects_anew_and_keeps_its_session() {
    let (server, address) = Server::start().await;
    register(&server, "node-1");
    let health = Daemon::health(&address);
    until("the duty", || server.state().cell.sessions().lease(Lease::Health).holder.is_some()).await;
    let follows = server.state().follows;
    until("another connection", || server.state().follows > follows).await;
    until("the session on it", || server.state().attached.len() >= 2).await;
    let attached = server.state().attached.clone();
    assert!(attached.iter().all(|attach| *attach == attached[0]), "{attached:?}");
    let session = server.state().cell.sessions().lease(Lease::Health).holder.unwrap();
    assert_eq!(attached[0].session, session.0);
    assert_eq!(attached[0].nonce, server.state().cell.sessions().get(session).unwrap().nonce);
    health.stop().await;
}
