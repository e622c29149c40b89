//! Probes of real tasks: programs beside them, connections and requests.

use super::{World, ended, pid_of, say, server::Server, until};
use ohm_model::{Exit, Probe, ProbeAction, Probes, RunRef, RunReportKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What tasks of the node listen on.
const ADDRESS: &str = "127.1.0.7";

pub(crate) async fn run() {
    say("a_program_beside_a_task_says_when_it_is_ready", a_program_beside_a_task_says_when_it_is_ready()).await;
    say("a_program_that_hangs_is_a_failure_and_gone", a_program_that_hangs_is_a_failure_and_gone()).await;
    say("a_program_ends_with_its_task", a_program_ends_with_its_task()).await;
    say("requests_and_connections_go_to_the_node", requests_and_connections_go_to_the_node()).await;
    say("an_agent_that_comes_back_probes_on", an_agent_that_comes_back_probes_on()).await;
}

fn probe(action: ProbeAction) -> Probe {
    Probe { period_seconds: 1, failure_threshold: 1, ..Probe::of(action) }
}

fn exec(script: &str) -> Probe {
    probe(ProbeAction::Exec { command: ["sh", "-c", script].map(String::from).to_vec() })
}

fn readiness(probe: Probe) -> Option<Box<Probes>> {
    Some(Box::new(Probes { readiness: Some(probe), ..Probes::default() }))
}

fn liveness(probe: Probe) -> Option<Box<Probes>> {
    Some(Box::new(Probes { liveness: Some(probe), ..Probes::default() }))
}

/// What was said of readiness so far.
fn words(server: &Server, run: RunRef) -> Vec<(bool, String)> {
    let word = |kind| match kind {
        RunReportKind::Ready { ready, message, .. } => Some((ready, message)),
        _ => None,
    };
    server.kinds(run).into_iter().filter_map(word).collect()
}

async fn is_ready(server: &Server, run: RunRef, ready: bool) -> String {
    let last = || words(server, run).pop();
    until(&format!("{run} ready: {ready}"), || last().is_some_and(|(is, _)| is == ready), || ()).await;
    last().unwrap().1
}

/// Whether a process with these words lives.
fn lives(words: &[&str]) -> bool {
    let wanted: Vec<u8> = words.iter().flat_map(|word| word.bytes().chain([0])).collect();
    let mut folders = std::fs::read_dir("/proc").unwrap().flatten();
    folders.any(|entry| std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == wanted))
}

async fn a_program_beside_a_task_says_when_it_is_ready() {
    let world = World::new().await;
    let server = &world.server;
    // It stands in the folder of the task, has its environment, and sees what it does.
    let beside = exec("echo no such file >&2; test -e ready && test \"$OHM_RANK\" = 0");
    let run = server.want_probed(0, "sleep 1; touch ready; sleep 2; rm ready; sleep 803", readiness(beside));
    assert_eq!(is_ready(server, run, false).await, "readinessProbe failed once: exit 1: no such file");
    assert_eq!(is_ready(server, run, true).await, "");
    is_ready(server, run, false).await;
    assert_eq!(words(server, run).len(), 3, "only changes are told: {:?}", words(server, run));
    let none =
        server.want_probed(1, "sleep 803", readiness(probe(ProbeAction::Exec { command: vec!["nowhere".into()] })));
    assert!(is_ready(server, none, false).await.contains("cannot execute"));
    world.end().await;
}

async fn a_program_that_hangs_is_a_failure_and_gone() {
    let world = World::new().await;
    let hangs = exec("echo waits; sleep 604 & exec sleep 605");
    let run = world.server.want_probed(0, "trap 'exit 0' TERM; sleep 804 & wait", liveness(hangs));
    pid_of(&world.server, run).await;
    let (exit, message) = ended(&world.server, run).await;
    assert_eq!(exit, Exit::Unhealthy, "although it obeyed with 0");
    assert_eq!(message, "livenessProbe failed once: did not end within 1000 ms: waits");
    assert!(!lives(&["sleep", "604"]) && !lives(&["sleep", "605"]) && !lives(&["sleep", "804"]));
    world.end().await;
}

async fn a_program_ends_with_its_task() {
    let world = World::new().await;
    let patient = Probe { timeout_seconds: 600, ..exec("exec sleep 606") };
    let run = world.server.want_probed(0, "sleep 1.5; exit 4", readiness(patient));
    until("the program beside it", || lives(&["sleep", "606"]), || ()).await;
    assert_eq!(ended(&world.server, run).await.0, Exit::Code(4));
    assert!(!lives(&["sleep", "606"]), "it outlived its task");
    world.end().await;
}

/// Answers every request with this status, until it is aborted.
async fn answer(listener: TcpListener, status: Arc<AtomicU16>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut request = [0; 4096];
        let length = stream.read(&mut request).await.unwrap_or(0);
        let request = String::from_utf8_lossy(&request[..length]).to_ascii_lowercase();
        let is_meant = request.starts_with("get /healthz?a=1 http/1.1") && request.contains("x-probe: yes");
        let status = if is_meant { status.load(Ordering::Relaxed) } else { 400 };
        let answer = format!("HTTP/1.1 {status} Some\r\nContent-Length: 0\r\nLocation: http://127.0.0.1:1/\r\n\r\n");
        let _ = stream.write_all(answer.as_bytes()).await;
    }
}

async fn serve(status: &Arc<AtomicU16>) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind((ADDRESS, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (port, tokio::spawn(answer(listener, Arc::clone(status))))
}

async fn requests_and_connections_go_to_the_node() {
    let world = World::new().await;
    let server = &world.server;
    let status = Arc::new(AtomicU16::new(500));
    let (port, listening) = serve(&status).await;
    let (path, headers) = ("/healthz?a=1".to_string(), vec![("X-Probe".to_string(), "yes".to_string())]);
    let get = ProbeAction::HttpGet { path, port, host: String::new(), is_https: false, headers };
    let http = server.want_probed(0, "sleep 805", readiness(probe(get)));
    let tcp =
        server.want_probed(1, "sleep 805", readiness(probe(ProbeAction::TcpSocket { port, host: String::new() })));
    is_ready(server, tcp, true).await;
    let why = is_ready(server, http, false).await;
    assert_eq!(why, format!("readinessProbe failed once: http://{ADDRESS}:{port}/healthz?a=1 answers 500"));
    status.store(302, Ordering::Relaxed);
    is_ready(server, http, true).await;
    status.store(404, Ordering::Relaxed);
    is_ready(server, http, false).await;
    listening.abort();
    let why = is_ready(server, tcp, false).await;
    assert!(why.contains("refused"), "{why}");
    world.end().await;
}

async fn an_agent_that_comes_back_probes_on() {
    let mut world = World::new().await;
    let run = world.server.want_probed(0, "sleep 4; touch gone; sleep 806", readiness(exec("test ! -e gone")));
    is_ready(&world.server, run, true).await;
    let said = words(&world.server, run).len();
    world.stop_agent().await;
    world.start_agent();
    is_ready(&world.server, run, false).await;
    assert_eq!(words(&world.server, run).len(), said + 1, "nothing else was told: {:?}", words(&world.server, run));
    world.end().await;
}
