//! The server core over a log that never fails: what people and agents are answered.

use ohm_log::{MemFaults, MemLog, MemStore};
use ohm_model::{
    Command, Envelope, Exit, JobId, NodeId, Outcome, QueueSpec, Refusal, RunRef, RunReport, RunReportKind,
};
use ohm_replica::{
    AgentOrder, AppendResult, Clock, CopyEffect, Peer, Replica, ReplicaConfig, RequestId, ServerConfig, ServerCore,
    ServerEffect, ServerInput,
};
use ohm_stdx::Prng;

struct Server {
    core: ServerCore<MemLog>,
    clock: Clock,
}

impl Server {
    fn new() -> Self {
        let log = MemStore::new(1, MemFaults::default()).open();
        let config = ServerConfig { name: "server".into(), cell_incarnation: 1, resend_ms: 500, server: 1 };
        let core = ServerCore::new(Replica::new(log, ReplicaConfig::default()), config, Prng::new(1));
        Server { core, clock: Clock { now_ms: 1_000, wall_ms: 1_000_000 } }
    }

    fn say(&mut self, input: ServerInput) -> Vec<ServerEffect> {
        let mut effects = Vec::new();
        self.core.step(self.clock, input, &mut effects).unwrap();
        effects
    }

    /// Some seconds pass; returns what the server wanted done meanwhile.
    fn pass(&mut self, seconds: u64) -> Vec<ServerEffect> {
        let mut effects = Vec::new();
        for _ in 0..seconds * 10 {
            self.clock.now_ms += 100;
            self.clock.wall_ms += 100;
            effects.extend(self.say(ServerInput::Flush));
        }
        effects
    }

    fn ask(&mut self, number: u64, command: Command) -> Outcome {
        let mut effects = self.say(ServerInput::Command { request: RequestId(number), asked: command.into() });
        effects.extend(self.pass(3));
        let answer = effects.into_iter().find_map(|effect| match effect {
            ServerEffect::Done { request, result: AppendResult::Committed { mut outcomes, .. } } => {
                (request == RequestId(number)).then(|| outcomes.remove(0))
            }
            _ => None,
        });
        answer.expect("an answer")
    }
}

fn queue(name: &str, resources: usize) -> Command {
    Command::PutQueue(QueueSpec {
        name: name.into(),
        nominal: (0..resources).map(|number| (format!("example.com/{number:060}"), 1)).collect(),
        ..QueueSpec::default()
    })
}

#[test]
fn what_no_entry_can_hold_is_refused_and_holds_up_nothing() {
    let mut server = Server::new();
    server.pass(1);
    let refused = server.ask(1, queue("long", 20_000));
    assert!(matches!(&refused, Outcome::Refused(Refusal::Invalid { field, .. }) if field == "command"), "{refused:?}");
    for number in 2..1_500 {
        assert_eq!(server.ask(number, queue("short", 2)), Outcome::Done, "command {number}");
    }
}

/// Of a newer version, perhaps: what stands in the log and can't be read ends every copy at each start again.
#[test]
fn a_command_of_another_server_that_can_not_be_read_never_reaches_the_log() {
    let mut server = Server::new();
    server.pass(1);
    let parcel = |command: &[u8]| {
        let (ticket, length) = (5u64.to_le_bytes(), (command.len() as u32).to_le_bytes());
        [&[3][..], &ticket, &length, command].concat().into()
    };
    let mut effects = server.say(ServerInput::FromServer { from: 2, bytes: parcel(&[250, 250]) });
    effects.extend(server.pass(1));
    let answered = |effect: &ServerEffect| matches!(effect, ServerEffect::ToServer { to: 2, .. });
    assert!(effects.iter().any(answered), "the other server is told");
    let before = server.core.replica().cell().applied();
    server.say(ServerInput::FromServer { from: 2, bytes: parcel(&Envelope::without_session(Command::Tick).encode()) });
    server.pass(1);
    assert!(server.core.replica().cell().applied() > before, "what can be read is taken as ever");
}

#[test]
fn reports_that_are_refused_are_done_with() {
    let mut server = Server::new();
    server.pass(1);
    let kind = RunReportKind::Ended { exit: Exit::StartFailed, message: "x".repeat(2 << 20) };
    let reports = vec![RunReport { run: RunRef::new(JobId(1), 0, 0, 1), kind }];
    let mut effects = server.say(ServerInput::Reports { peer: Peer(4), node: NodeId(1), batch: 7, reports });
    effects.extend(server.pass(2));
    let taken = |effect: &ServerEffect| {
        matches!(effect, ServerEffect::ToAgent { order: AgentOrder::ReportsAccepted { batch: 7, .. }, .. })
    };
    assert!(effects.iter().any(taken));
}

#[test]
fn time_goes_on_after_a_clock_that_was_ahead() {
    let mut server = Server::new();
    server.pass(1);
    server.clock.wall_ms += 3_600_000;
    server.ask(1, queue("a", 1));
    server.clock.wall_ms -= 3_600_000;
    let before = server.core.replica().cell().now_ms();
    server.pass(5);
    server.ask(2, queue("b", 1));
    let passed = server.core.replica().cell().now_ms() - before;
    assert!((5_000..12_000).contains(&passed), "{passed} ms");
}

#[test]
fn a_clock_that_is_a_day_ahead_is_shown_and_followed_when_the_operator_says_so() {
    const DAY_MS: u64 = 86_400_000;
    let mut server = Server::new();
    server.pass(1);
    server.ask(1, queue("a", 1));
    let before_ms = server.core.replica().cell().now_ms();
    server.clock.wall_ms += DAY_MS;
    let told = server.pass(2);
    let held = |effect: &ServerEffect| matches!(effect, ServerEffect::Copy(CopyEffect::Time(word)) if word.is_held);
    assert!(told.iter().any(held));
    server.ask(2, queue("b", 1));
    assert!(server.core.replica().cell().now_ms() - before_ms < 10_000);
    let offset_ms = |server: &Server| server.core.replica().time(server.clock).unwrap().offsets_ms[0].1;
    assert!((DAY_MS as i64 - 1_000..=DAY_MS as i64).contains(&offset_ms(&server)));
    // Time moves without anybody else's command.
    server.say(ServerInput::BelieveClock { server: 1 });
    server.pass(1);
    assert!(server.core.replica().cell().now_ms() - before_ms >= DAY_MS);
    assert!(offset_ms(&server).abs() < 1_000);
}
