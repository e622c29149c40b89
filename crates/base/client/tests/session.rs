//! Every command happens exactly once, or its owner hears that nobody knows; whatever the network does.

use crate::world;

use ohm_client::{COMMANDS_MAX, SessionConfig, SessionCore, SessionEffect, SessionInput};
use ohm_model::{Command, Envelope, Outcome, Refusal, Role, Sequence, SessionId};
use ohm_stdx::Prng;
use std::collections::BTreeMap;
use world::{MiniCell, Network, Reply};

type Core = SessionCore<u32>;

fn config() -> SessionConfig {
    let (resend_ms, resend_ms_max, keep_alive_ms) = (100, 1000, 700);
    SessionConfig { role: Role::Client, name: "test".into(), resend_ms, resend_ms_max, keep_alive_ms }
}

fn named(tag: u32) -> Command {
    Command::CordonNode { name: tag.to_string(), cordoned: true }
}

#[derive(Clone)]
enum Message {
    Ask(Envelope),
    Tell(Reply),
}

#[derive(Debug, PartialEq)]
enum Fate {
    Answered,
    Lost,
    Returned,
}

struct Run {
    core: Core,
    cell: MiniCell,
    network: Network<Message>,
    fates: BTreeMap<u32, Fate>,
    submitted: u32,
    connected: bool,
}

impl Run {
    fn step(&mut self, now_ms: u64, input: SessionInput) {
        let mut out = Vec::new();
        self.core.step(now_ms, input, &mut out);
        self.perform(now_ms, out);
    }

    fn submit(&mut self, now_ms: u64, tag: u32) {
        let mut out = Vec::new();
        self.core.submit(now_ms, tag, named(tag).into(), &mut out);
        self.perform(now_ms, out);
    }

    fn perform(&mut self, now_ms: u64, out: Vec<SessionEffect<u32>>) {
        for effect in out {
            match effect {
                SessionEffect::Send(envelopes) => {
                    assert!(self.connected, "nothing is sent without a connection");
                    for envelope in envelopes {
                        self.network.send(now_ms, 0, Message::Ask(envelope));
                    }
                }
                SessionEffect::Answered { tag, outcome, .. } => {
                    assert_eq!(outcome, Outcome::Done);
                    assert_eq!(self.fates.insert(tag, Fate::Answered), None);
                }
                SessionEffect::Lost { tag } => assert_eq!(self.fates.insert(tag, Fate::Lost), None),
                SessionEffect::Busy { tag, .. } => assert_eq!(self.fates.insert(tag, Fate::Returned), None),
                _ => {}
            }
        }
    }

    fn deliver(&mut self, now_ms: u64) {
        while let Some(message) = self.network.arrived(now_ms) {
            match message {
                Message::Ask(envelope) => {
                    let reply = self.cell.apply(&envelope);
                    self.network.send(now_ms, 0, Message::Tell(reply));
                }
                Message::Tell(Reply::Open { nonce, outcome }) => {
                    self.step(now_ms, SessionInput::OpenAnswer { nonce, outcome });
                }
                Message::Tell(Reply::Command { session, sequence, outcome }) => {
                    self.step(now_ms, SessionInput::Answer { session, sequence, outcome });
                }
            }
        }
    }
}

fn run(seed: u64) -> Run {
    let mut dice = Prng::new(seed);
    let core = SessionCore::new(config(), dice.fork());
    let network = Network::new(dice.fork());
    let mut run =
        Run { core, cell: MiniCell::default(), network, fates: BTreeMap::new(), submitted: 0, connected: false };
    for now_ms in 0..40_000 {
        run.deliver(now_ms);
        if now_ms < 20_000 && dice.chance(1) {
            run.connected = !run.connected;
            run.step(now_ms, if run.connected { SessionInput::Connected } else { SessionInput::Disconnected });
        }
        if now_ms < 20_000 && dice.chance(100) {
            for _ in 0..dice.below(30).min(run.core.room() as u64) {
                run.submitted += 1;
                run.submit(now_ms, run.submitted);
            }
        }
        if now_ms < 20_000 && seed.is_multiple_of(2) && dice.below(4000) == 0 {
            run.cell.forget_session(&mut dice);
        }
        if now_ms == 20_000 {
            run.network.heal();
            run.connected = true;
            run.step(now_ms, SessionInput::Connected);
        }
        if now_ms.is_multiple_of(10) {
            run.step(now_ms, SessionInput::Tick);
        }
    }
    run
}

fn check_commands(count: u64) {
    let (mut answered, mut lost) = (0, 0);
    for seed in 0..count {
        let run = run(seed);
        assert_eq!(run.fates.len() as u32, run.submitted, "seed {seed}: every command has a fate in the end");
        for (tag, fate) in &run.fates {
            let times = run.cell.effects.get(&tag.to_string()).copied().unwrap_or(0);
            match fate {
                Fate::Answered => assert_eq!(times, 1, "seed {seed}: command {tag}"),
                Fate::Lost => assert!(times <= 1, "seed {seed}: command {tag}"),
                Fate::Returned => assert_eq!(times, 0, "seed {seed}: command {tag}"),
            }
        }
        answered += run.fates.values().filter(|fate| **fate == Fate::Answered).count();
        lost += run.fates.values().filter(|fate| **fate == Fate::Lost).count();
    }
    assert!(answered > 4000 && lost > 40, "both fates are met: {answered} answered, {lost} lost");
}

#[test]
fn every_command_happens_exactly_once_or_its_owner_hears_that_nobody_knows() {
    check_commands(24);
}

#[test]
#[ignore = "a sweep: run it optimised, with --profile sim"]
fn every_command_has_one_fate_in_thousands_of_seeds() {
    check_commands(3000);
}

#[test]
fn one_seed_gives_one_history() {
    let (first, second) = (run(4), run(4));
    assert_eq!(first.fates, second.fates);
    assert_eq!(format!("{:?}", first.cell), format!("{:?}", second.cell));
}

fn open_core() -> Core {
    let mut core = Core::new(config(), Prng::new(1));
    let mut out = Vec::new();
    core.step(0, SessionInput::Connected, &mut out);
    let nonce = core.opening().unwrap();
    core.step(0, SessionInput::OpenAnswer { nonce: nonce ^ 1, outcome: Outcome::Session(SessionId(6)) }, &mut out);
    assert_eq!(core.session(), None, "another process's session is not ours");
    core.step(0, SessionInput::OpenAnswer { nonce, outcome: Outcome::Session(SessionId(7)) }, &mut out);
    assert_eq!(core.session(), Some(SessionId(7)));
    core
}

#[test]
fn what_is_too_much_comes_back_to_its_owner() {
    let (mut core, mut out) = (open_core(), Vec::new());
    for tag in 0..COMMANDS_MAX as u32 {
        core.submit(1, tag, named(tag).into(), &mut out);
    }
    out.clear();
    core.submit(1, 9999, named(9999).into(), &mut out);
    assert_eq!(out, [SessionEffect::Busy { tag: 9999, asked: named(9999).into() }]);
}

#[test]
fn a_lost_session_is_replaced_and_nothing_sent_before_is_sent_again() {
    let (mut core, mut out) = (open_core(), Vec::new());
    core.submit(1, 1, named(1).into(), &mut out);
    core.step(2, SessionInput::Disconnected, &mut out);
    core.submit(2, 2, named(2).into(), &mut out);
    core.step(3, SessionInput::Connected, &mut out);
    out.clear();
    let gone = Outcome::Refused(Refusal::SessionGone(SessionId(7)));
    core.step(
        4,
        SessionInput::Answer { session: SessionId(6), sequence: Sequence(1), outcome: gone.clone() },
        &mut out,
    );
    assert_eq!(out, [], "an answer to an older session says nothing about this one");
    core.step(4, SessionInput::Answer { session: SessionId(7), sequence: Sequence(1), outcome: gone }, &mut out);
    assert!(out.contains(&SessionEffect::Lost { tag: 1 }) && out.contains(&SessionEffect::Lost { tag: 2 }));
    core.submit(5, 3, named(3).into(), &mut out);
    out.clear();
    let nonce = core.opening().unwrap();
    core.step(6, SessionInput::OpenAnswer { nonce, outcome: Outcome::Session(SessionId(20)) }, &mut out);
    let envelope = Envelope::new(SessionId(20), Sequence(1), Sequence(1), named(3));
    assert_eq!(out, [SessionEffect::Opened { session: SessionId(20), nonce }, SessionEffect::Send(vec![envelope])]);
}

#[test]
fn closing_gives_back_what_was_never_sent_and_ends_with_the_answer() {
    let (mut core, mut out) = (open_core(), Vec::new());
    core.step(1, SessionInput::Disconnected, &mut out);
    core.submit(1, 1, named(1).into(), &mut out);
    core.step(2, SessionInput::Close, &mut out);
    assert_eq!(out.last(), Some(&SessionEffect::Busy { tag: 1, asked: named(1).into() }));
    out.clear();
    core.step(3, SessionInput::Connected, &mut out);
    let closes = |effect: &SessionEffect<u32>| match effect {
        SessionEffect::Send(sent) => sent.iter().any(|envelope| envelope.command == Command::CloseSession),
        _ => false,
    };
    assert!(out.iter().any(closes), "{out:?}");
    let answer = SessionInput::Answer { session: SessionId(7), sequence: Sequence(1), outcome: Outcome::Done };
    core.step(4, answer, &mut out);
    assert_eq!(out.last(), Some(&SessionEffect::Closed));
}
