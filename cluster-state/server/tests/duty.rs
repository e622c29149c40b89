//! A server with its port and its disk, and clients that say over it that they are health.

use ohm_model::{Command, Envelope, Epoch, Lease, NodeSpec, Outcome, Role, Sequence, SessionId};
use ohm_runtime::connect::{Client, connect};
use ohm_runtime::shutdown::Shutdown;
use ohm_runtime::tls::TlsFiles;
use ohm_server::ServerOptions;
use ohm_wire::{
    AgentDown, AgentUp, AppendReply, AppendRequest, Beat, BeatAnswer, BeatAnswers, Beats, DutyAttach, DutyDown, DutyUp,
    RegisterNode, agent_down, agent_up, append_reply, duty_up, read, write,
};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// What opened the session of health.
const NONCE: u64 = 5;

async fn next<T>(stream: &mut Streaming<T>) -> Option<T> {
    tokio::time::timeout(PATIENCE, stream.next()).await.expect("not in time")?.ok()
}

/// A stream to the server and back.
struct Talk<Up, Down> {
    up: mpsc::Sender<Up>,
    down: Streaming<Down>,
}

pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) address: String,
    shutdown: Shutdown,
    server: tokio::task::JoinHandle<Result<(), ohm_server::ServerError>>,
    pub(crate) folder: tempfile::TempDir,
}

impl World {
    pub(crate) async fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let listen = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let options = ServerOptions {
            data_dir: folder.path().to_path_buf(),
            listen,
            insecure: false,
            tls: TlsFiles::default(),
            tls_client_auth: false,
            advertise: None,
            join: Vec::new(),
            snapshot_every_entries: None,
            etcd: None,
        };
        let shutdown = Shutdown::default();
        let server = tokio::spawn(ohm_server::run(options, shutdown.clone()));
        let address = format!("http://{listen}");
        for _ in 0..600 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let Ok(token) = std::fs::read_to_string(folder.path().join("token")) else { continue };
            if let Ok(client) = connect(&address, Some(token.trim()), &TlsFiles::default()).await {
                return World { client, address, shutdown, server, folder };
            }
        }
        panic!("the server does not answer");
    }

    async fn append(&mut self) -> Talk<AppendRequest, AppendReply> {
        let (up, requests) = mpsc::channel(16);
        let down = self.client.append(ReceiverStream::new(requests)).await.unwrap().into_inner();
        Talk { up, down }
    }

    async fn agent(&mut self) -> Talk<AgentUp, AgentDown> {
        let (up, requests) = mpsc::channel(16);
        let down = self.client.agent(ReceiverStream::new(requests)).await.unwrap().into_inner();
        Talk { up, down }
    }

    /// Says that it is health, by the number of the session.
    async fn health(&mut self, session: SessionId, nonce: u64) -> Talk<DutyUp, DutyDown> {
        let (up, requests) = mpsc::channel(16);
        let down = self.client.duty(ReceiverStream::new(requests)).await.unwrap().into_inner();
        let attach = duty_up::Kind::Attach(DutyAttach { session: session.0, nonce });
        up.send(DutyUp { kind: Some(attach) }).await.unwrap();
        Talk { up, down }
    }
}

async fn command(talk: &mut Talk<AppendRequest, AppendReply>, ticket: u64, envelope: Envelope) -> Outcome {
    // A server that has just begun is busy for a moment.
    loop {
        let command_bytes = vec![envelope.encode().into()];
        talk.up.send(AppendRequest { ticket, command_bytes }).await.unwrap();
        match next(&mut talk.down).await.and_then(|reply| reply.result) {
            Some(append_reply::Result::Committed(done)) => return read("outcome", &done.outcome_bytes[0]).unwrap(),
            Some(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            None => panic!("no answer"),
        }
    }
}

/// The session of health, which holds the duty.
async fn take_duty(talk: &mut Talk<AppendRequest, AppendReply>) -> SessionId {
    let open = Command::OpenSession { nonce: NONCE, role: Role::Health, name: "health".into() };
    let Outcome::Session(session) = command(talk, 1, Envelope::without_session(open)).await else { panic!("refused") };
    let take = Command::TakeLease { lease: Lease::Health, epoch: Epoch(0), renewed: ohm_model::Index(0) };
    let taken = command(talk, 2, Envelope::new(session, Sequence(1), Sequence(1), take)).await;
    assert_eq!(taken, Outcome::Lease(Epoch(1)));
    session
}

/// The slot and the registration of a new node.
async fn register(agent: &mut Talk<AgentUp, AgentDown>) -> (u32, u32) {
    let capacity = [("cpu".to_string(), 1000), ("pods".to_string(), 10)].into();
    let (labels, taints) = Default::default();
    let spec = NodeSpec { name: "n1".into(), labels, taints, capacity, address: String::new() };
    let (spec_bytes, alive_bytes) = (write(&spec), Default::default());
    let register = RegisterNode { local: 1, spec_bytes, key: 7, instance: 1, boot: 1, alive_bytes };
    agent.up.send(AgentUp { kind: Some(agent_up::Kind::Register(register)) }).await.unwrap();
    loop {
        let down = next(&mut agent.down).await.expect("an answer");
        if let Some(agent_down::Kind::Registered(registered)) = down.kind {
            return (registered.node, registered.incarnation);
        }
    }
}

fn heard(down: Option<DutyDown>) -> Vec<u64> {
    let beats = down.and_then(|down| down.beats).map(|beats| beats.beats).unwrap_or_default();
    beats.iter().map(|beat| beat.sequence).collect()
}

/// Waits until health hears this beat.
async fn hear(health: &mut Talk<DutyUp, DutyDown>, sequence: u64) {
    loop {
        let down = next(&mut health.down).await;
        assert!(down.is_some(), "the stream of health is ended");
        if heard(down).contains(&sequence) {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_neither_takes_the_beats_of_health_away_nor_answers_them() {
    let mut world = World::new().await;
    let mut append = world.append().await;
    let session = take_duty(&mut append).await;
    let mut agent = world.agent().await;
    let (node, incarnation) = register(&mut agent).await;
    let mut health = world.health(session, NONCE).await;
    let beat = async |agent: &Talk<AgentUp, AgentDown>, sequence| {
        let beats = Beats { beats: vec![Beat { node, incarnation, sequence }] };
        agent.up.send(AgentUp { kind: Some(agent_up::Kind::Beats(beats)) }).await.unwrap();
    };
    let answer = |sequence, duty_epoch, lease_ms| {
        let answer = BeatAnswer { node, incarnation, sequence, duty_epoch, interval_ms: 1_000, lease_ms };
        DutyUp { kind: Some(duty_up::Kind::Answers(BeatAnswers { answers: vec![answer] })) }
    };
    // The attach and the beat come over different streams: sooner or later one finds the other.
    let mut first = 1;
    loop {
        beat(&agent, first).await;
        match tokio::time::timeout(Duration::from_millis(300), health.down.next()).await {
            Ok(down) => break assert!(!heard(down.and_then(Result::ok)).is_empty()),
            Err(_) => first += 1,
        }
        assert!(first < 100, "no beat arrives");
    }
    let mut stranger = world.health(session, NONCE + 1).await;
    let _ = stranger.up.send(answer(first, 1, 3_600_000)).await;
    assert_eq!(heard(next(&mut stranger.down).await), [0; 0], "its stream is ended");
    health.up.send(answer(first, 0, 3_600_000)).await.unwrap();
    beat(&agent, 200).await;
    hear(&mut health, 200).await;
    health.up.send(answer(200, 1, 10_000)).await.unwrap();
    let answers = loop {
        if let Some(agent_down::Kind::Answers(answers)) = next(&mut agent.down).await.expect("an answer").kind {
            break answers.answers;
        }
    };
    let found: Vec<(u64, u64)> = answers.iter().map(|answer| (answer.sequence, answer.lease_ms)).collect();
    assert_eq!(found, [(200, 10_000)], "neither the stranger nor an old epoch is believed");
    drop(stranger);
    beat(&agent, 300).await;
    hear(&mut health, 300).await;
    world.shutdown.start();
    drop((append, agent, health, world.client));
    tokio::time::timeout(PATIENCE, world.server).await.expect("it ends").unwrap().unwrap();
}
