//! Three server cores in one thread, with real raft logs on disks in memory: commands, registrations, beats and their
//! answers go over any server; a copy that differs stops.

use ohm_agent::BeatAnswer;
use ohm_log::MemDisk;
use ohm_log_raft::{RaftConfig, RaftLog, Remarks};
use ohm_model::{
    Command, Envelope, Epoch, Incarnation, Lease, NodeId, NodeSpec, Outcome, QueueSpec, Role, Sequence, SessionId,
};
use ohm_replica::{
    AgentOrder, AppendResult, Beat, Clock, CopyEffect, FollowerId, Peer, Replica, ReplicaConfig, ReplicaFailure,
    RequestId, ServerConfig, ServerCore, ServerEffect, ServerInput,
};
use ohm_stdx::Prng;
use std::collections::{BTreeMap, VecDeque};

const SERVERS: [u64; 3] = [1, 2, 3];

struct World {
    cores: BTreeMap<u64, ServerCore<RaftLog<MemDisk>>>,
    network: VecDeque<(u64, u64, ohm_log::Bytes)>,
    effects: Vec<(u64, ServerEffect)>,
    failures: Vec<(u64, ReplicaFailure)>,
    /// What is appended to a server's hashes: a bug that only one of them has.
    now_ms: u64,
}

impl World {
    fn new() -> Self {
        let core = |server| {
            let config = RaftConfig { seed: server, ..RaftConfig::group(5, server, SERVERS.to_vec()) };
            let log = RaftLog::create(MemDisk::new(), config, Remarks::none()).unwrap();
            let config = ServerConfig { name: format!("server {server}"), cell_incarnation: 1, resend_ms: 500, server };
            let replica = Replica::new(log, ReplicaConfig::default());
            (server, ServerCore::new(replica, config, Prng::new(100 + server)))
        };
        let cores = SERVERS.into_iter().map(core).collect();
        let (network, effects, failures) = (VecDeque::new(), Vec::new(), Vec::new());
        World { cores, network, effects, failures, now_ms: 0 }
    }

    fn input(&mut self, server: u64, input: ServerInput) {
        let mut out = Vec::new();
        let Some(core) = self.cores.get_mut(&server) else { return };
        let clock = Clock { now_ms: self.now_ms, wall_ms: 1_000_000 + self.now_ms };
        if let Err(failure) = core.step(clock, input, &mut out) {
            self.failures.push((server, failure));
            self.cores.remove(&server);
        }
        for effect in out {
            match effect {
                ServerEffect::ToServer { to, bytes } => self.network.push_back((server, to, bytes)),
                effect => self.effects.push((server, effect)),
            }
        }
    }

    /// Ten milliseconds go by.
    fn step(&mut self) {
        self.now_ms += 10;
        for _ in 0..self.network.len() {
            let Some((from, to, bytes)) = self.network.pop_front() else { break };
            match self.cores.contains_key(&to) {
                true => self.input(to, ServerInput::FromServer { from, bytes }),
                false => self.input(from, ServerInput::Unreachable { server: to }),
            }
        }
        for server in SERVERS {
            for _ in 0..20 {
                self.input(server, ServerInput::Flush);
                let wake_ms = self.cores.get(&server).and_then(ServerCore::wake_ms);
                if wake_ms.is_none_or(|wake_ms| wake_ms > self.now_ms) {
                    break;
                }
            }
        }
    }

    /// Steps until an effect at `server` is what is looked for.
    fn wait<T>(&mut self, server: u64, what: &str, find: impl Fn(&ServerEffect) -> Option<T>) -> T {
        for _ in 0..2_000 {
            let found = self.effects.iter().find_map(|(at, effect)| find(effect).filter(|_| *at == server));
            if let Some(found) = found {
                return found;
            }
            self.step();
        }
        panic!("server {server}: never {what}");
    }

    fn leader(&mut self) -> u64 {
        for _ in 0..2_000 {
            let ready = self.cores.values().all(|core| core.has_caught_up(self.now_ms));
            let leader = self.cores.iter().find(|(_, core)| core.leader().1).map(|(server, _)| *server);
            if let Some(leader) = leader.filter(|_| ready) {
                return leader;
            }
            self.step();
        }
        panic!("nobody leads");
    }

    fn others(&mut self) -> Vec<u64> {
        let leader = self.leader();
        SERVERS.into_iter().filter(|server| *server != leader).collect()
    }

    fn command(&mut self, server: u64, number: u64, command: Command) -> Outcome {
        let request = RequestId(number);
        self.input(server, ServerInput::Command { request, asked: command.into() });
        let result = self.wait(server, "an answer", |effect| match effect {
            ServerEffect::Done { request: done, result } if *done == request => Some(result.clone()),
            _ => None,
        });
        let AppendResult::Committed { index, mut outcomes } = result else { panic!("{result:?}") };
        assert!(self.cores[&server].replica().cell().applied() >= index, "answered once this copy is that far");
        outcomes.remove(0)
    }

    fn register(&mut self, server: u64, peer: Peer, name: &str) -> (NodeId, Incarnation) {
        let capacity = [("cpu".to_string(), 1000), ("pods".to_string(), 10)].into();
        let (labels, taints) = (BTreeMap::new(), Vec::new());
        let spec = NodeSpec { name: name.into(), labels, taints, capacity, address: String::new() };
        self.input(
            server,
            ServerInput::Register { peer, local: 1, spec, key: 7, instance: 1, boot: 1, alive: Vec::new() },
        );
        self.wait(server, "registered", |effect| match effect {
            ServerEffect::ToAgent { peer: to, order: AgentOrder::Registered { node, incarnation, .. } }
                if *to == peer =>
            {
                Some((*node, *incarnation))
            }
            _ => None,
        })
    }
}

fn queue(name: &str) -> Command {
    Command::PutQueue(QueueSpec { name: name.into(), nominal: BTreeMap::new(), ..QueueSpec::default() })
}

#[test]
fn every_server_takes_commands_and_shows_them() {
    let mut world = World::new();
    world.leader();
    for (number, server) in SERVERS.into_iter().cycle().take(9).enumerate() {
        let outcome = world.command(server, number as u64, queue(&format!("queue-{number}")));
        assert!(!matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
    }
    let other = world.others()[0];
    // A scheduler's own session, over a server that does not lead.
    let open = Command::OpenSession { nonce: 77, role: Role::Health, name: "duty".into() };
    let commands = vec![Envelope::without_session(open).encode().into()];
    world.input(other, ServerInput::Append { peer: Peer(9), ticket: 1, commands });
    let outcomes = world.wait(other, "an answer", |effect| match effect {
        ServerEffect::Appended { peer: Peer(9), ticket: 1, result: AppendResult::Committed { outcomes, .. } } => {
            Some(outcomes.clone())
        }
        _ => None,
    });
    assert!(matches!(outcomes[0], Outcome::Session(_)));
    world.input(other, ServerInput::Read { request: RequestId(500) });
    let read = world.wait(other, "readable", |effect| match effect {
        ServerEffect::Readable { request: RequestId(500), result } => Some(result.clone()),
        _ => None,
    });
    assert_eq!(read, Ok(()));
    (0..50).for_each(|_| world.step());
    let chains: Vec<u64> = world.cores.values().map(|core| core.replica().cell().chain()).collect();
    assert!(chains.iter().all(|chain| *chain == chains[0]));
}

#[test]
fn commands_go_on_when_the_leader_is_gone() {
    let mut world = World::new();
    let leader = world.leader();
    let other = world.others()[0];
    world.input(other, ServerInput::Command { request: RequestId(1), asked: queue("before").into() });
    world.input(other, ServerInput::Flush);
    world.cores.remove(&leader);
    world.wait(other, "an answer after all", |effect| match effect {
        ServerEffect::Done { request: RequestId(1), result: AppendResult::Committed { .. } } => Some(()),
        _ => None,
    });
}

/// An agent at one server, and at another one the holder of the duty.
struct Ways {
    world: World,
    one: u64,
    two: u64,
    agent: Peer,
    holder: Peer,
    session: SessionId,
    node: NodeId,
    incarnation: Incarnation,
}

fn ways() -> Ways {
    let mut world = World::new();
    let [one, two] = world.others()[..] else { panic!("two others") };
    let (agent, holder) = (Peer(11), Peer(12));
    let (node, incarnation) = world.register(one, agent, "n1");
    // The duty is held by a session that is connected to the third server.
    let open = Command::OpenSession { nonce: 5, role: Role::Health, name: "duty".into() };
    let commands = vec![Envelope::without_session(open).encode().into()];
    world.input(two, ServerInput::Append { peer: holder, ticket: 1, commands });
    let session = world.wait(two, "a session", |effect| match effect {
        ServerEffect::Appended { ticket: 1, result: AppendResult::Committed { outcomes, .. }, .. } => match outcomes[0]
        {
            Outcome::Session(session) => Some(session),
            _ => None,
        },
        _ => None,
    });
    take_duty(&mut world, two, holder, session);
    world.input(two, ServerInput::Duty { peer: holder, session, nonce: 5 });
    (0..10).for_each(|_| world.step());
    Ways { world, one, two, agent, holder, session, node, incarnation }
}

#[test]
fn beats_reach_the_holder_of_the_duty_and_answers_come_back() {
    let Ways { mut world, one, two, agent, holder, node, incarnation, .. } = ways();
    let beat = Beat { node, incarnation, sequence: 4 };
    world.input(one, ServerInput::Beats { peer: agent, beats: vec![beat] });
    let beats = world.wait(two, "beats for the holder", |effect| match effect {
        ServerEffect::ToDuty { peer, beats } if *peer == holder => Some(beats.clone()),
        _ => None,
    });
    assert_eq!(beats, [beat]);
    let answer = BeatAnswer { incarnation, duty_epoch: Epoch(1), sequence: 4, lease_ms: 10_000, interval_ms: 1_000 };
    world.input(two, ServerInput::Answers { peer: holder, answers: vec![(node, answer)] });
    let answered = world.wait(one, "the answer for the agent", |effect| match effect {
        ServerEffect::ToAgent { peer, order: AgentOrder::BeatAnswers(answers) } if *peer == agent => {
            Some(answers.clone())
        }
        _ => None,
    });
    assert_eq!(answered, [(node, answer)]);
}

#[test]
fn a_stranger_neither_hears_beats_nor_answers_them_and_the_owner_may_connect_anew() {
    let Ways { mut world, one, two, agent, holder, session, node, incarnation } = ways();
    let beat = Beat { node, incarnation, sequence: 4 };
    let answer = BeatAnswer { incarnation, duty_epoch: Epoch(1), sequence: 4, lease_ms: 10_000, interval_ms: 1_000 };
    world.input(one, ServerInput::Beats { peer: agent, beats: vec![beat] });
    (0..50).for_each(|_| world.step());
    // A stranger names the session, here and elsewhere, and answers; nobody listens, and the beats go where they went.
    world.effects.clear();
    let (stranger, long) = (Peer(13), BeatAnswer { lease_ms: 3_600_000, ..answer });
    for server in SERVERS {
        world.input(server, ServerInput::Duty { peer: stranger, session, nonce: 6 });
        world.input(server, ServerInput::Answers { peer: stranger, answers: vec![(node, long)] });
        world.wait(server, "refused", |effect| match effect {
            ServerEffect::DutyRefused { peer, .. } if *peer == stranger => Some(()),
            _ => None,
        });
    }
    let old = BeatAnswer { duty_epoch: Epoch(0), ..answer };
    world.input(two, ServerInput::Answers { peer: holder, answers: vec![(node, old)] });
    (0..200).for_each(|_| world.step());
    let is_answer =
        |effect: &ServerEffect| matches!(effect, ServerEffect::ToAgent { order: AgentOrder::BeatAnswers(_), .. });
    assert!(
        !world.effects.iter().any(|(_, effect)| is_answer(effect)),
        "neither a stranger nor an old duty is believed"
    );
    world.input(one, ServerInput::Beats { peer: agent, beats: vec![beat] });
    world.wait(two, "beats for the holder", |effect| match effect {
        ServerEffect::ToDuty { peer, .. } if *peer == holder => Some(()),
        _ => None,
    });
    // The owner itself may connect anew; when that is over its former connection counts again.
    let again = Peer(14);
    world.input(two, ServerInput::Duty { peer: again, session, nonce: 5 });
    world.effects.clear();
    world.input(one, ServerInput::Beats { peer: agent, beats: vec![beat] });
    let reached = |effect: &ServerEffect| match effect {
        ServerEffect::ToDuty { peer, .. } => Some(*peer),
        _ => None,
    };
    assert_eq!(world.wait(two, "beats", reached), again);
    world.input(two, ServerInput::Gone { peer: again });
    world.effects.clear();
    world.input(one, ServerInput::Beats { peer: agent, beats: vec![beat] });
    assert_eq!(world.wait(two, "beats", reached), holder);
}

fn take_duty(world: &mut World, server: u64, peer: Peer, session: SessionId) {
    let command = Command::TakeLease { lease: Lease::Health, epoch: Epoch(0), renewed: ohm_model::Index(0) };
    let envelope = Envelope::new(session, Sequence(1), Sequence(1), command);
    world.input(server, ServerInput::Append { peer, ticket: 2, commands: vec![envelope.encode().into()] });
    let outcome = world.wait(server, "the duty", |effect| match effect {
        ServerEffect::Appended { ticket: 2, result: AppendResult::Committed { outcomes, .. }, .. } => {
            Some(outcomes[0].clone())
        }
        _ => None,
    });
    assert_eq!(outcome, Outcome::Lease(Epoch(1)));
}

#[test]
fn a_beat_of_a_node_that_nobody_knows_ends_its_registration() {
    let mut world = World::new();
    let other = world.others()[0];
    let beat = Beat { node: NodeId(40), incarnation: Incarnation(3), sequence: 1 };
    world.input(other, ServerInput::Beats { peer: Peer(3), beats: vec![beat] });
    assert!(
        world.effects.iter().all(|(_, effect)| !matches!(effect, ServerEffect::ToAgent { .. })),
        "not before it is sure"
    );
    world.wait(other, "ended", |effect| match effect {
        ServerEffect::ToAgent { order: AgentOrder::RegistrationEnded { node: NodeId(40), .. }, .. } => Some(()),
        _ => None,
    });
}

#[test]
fn a_follower_that_is_ahead_of_a_lagging_server_waits_for_it() {
    let mut world = World::new();
    let (leader, other) = (world.leader(), world.others()[0]);
    let far = world.cores[&leader].replica().cell().applied();
    world.command(leader, 1, queue("a"));
    world.input(other, ServerInput::Follow { follower: FollowerId(1), from: ohm_model::Index(far.0 + 3) });
    world.command(leader, 2, queue("b"));
    world.command(leader, 3, queue("c"));
    world.command(leader, 4, queue("d"));
    let first = world.wait(other, "entries", |effect| match effect {
        ServerEffect::Copy(CopyEffect::ToFollower { frame, .. }) => Some(frame.clone()),
        _ => None,
    });
    let ohm_replica::FollowFrame::Entries(entries) = first else { panic!("it was sent back in time") };
    assert!(entries[0].0.0 > far.0 + 3);
}
