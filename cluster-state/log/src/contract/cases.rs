//! The promises, one function each.

use super::copy::{Answer, Copy, History};
use super::engine::Engine;
use crate::{Bytes, ENTRY_BYTES_MAX, Log, LogRequest, SNAPSHOT_PIECE_BYTES_MAX, SubmitError};
use ohm_model::Index;
use ohm_stdx::Prng;

/// What a case needs besides its engine.
pub(super) struct Context {
    label: String,
    dice: Prng,
    ids: u64,
}

impl Context {
    pub(super) fn new(case: &str, seed: u64) -> Self {
        Context { label: format!("{case}, seed {seed}"), dice: Prng::new(seed), ids: 0 }
    }

    /// Bytes that no other append has.
    fn payload(&mut self) -> Bytes {
        self.ids += 1;
        let filler = self.dice.below(200) as usize;
        let mut bytes = self.ids.to_le_bytes().to_vec();
        bytes.resize(8 + filler, self.ids as u8);
        bytes.into()
    }
}

type Case<E> = fn(&mut E, &mut Context);

/// All cases by name.
pub(super) fn all<E: Engine>() -> Vec<(&'static str, Case<E>)> {
    vec![
        ("every append gets one answer", answers),
        ("appends one after the other keep their order", order),
        ("an append repeated until it is committed is there", retry),
        ("a restart at any point loses nothing acknowledged", restart),
        ("a restart yields the newest snapshot and what follows", snapshot_while_appending),
        ("a snapshot of a wrong index is refused", wrong_snapshots),
        ("trim forgets no more than the snapshots cover", trim),
        ("a slow consumer meets busy, not memory", slow_consumer),
        ("two appenders see one order", two_appenders),
        ("lengths are checked", lengths),
        ("a read covers what was acknowledged before", reads),
    ]
}

/// Starts again, reads everything, and checks the whole history.
fn finish<E: Engine>(engine: &mut E, context: &Context, copy: Copy<E::Log>, history: &mut History) {
    engine.stop(copy.log);
    let mut again = Copy::new(&context.label, engine.start());
    again.settle(history);
    assert!(
        again.applied >= history.acknowledged_up_to(),
        "{}: a restart ends at {}, {} was acknowledged",
        context.label,
        again.applied,
        history.acknowledged_up_to()
    );
    history.check(&context.label);
    engine.stop(again.log);
}

/// Appends fewer than `limit` payloads without waiting for answers.
fn burst<L: Log>(copy: &mut Copy<L>, limit: u64, context: &mut Context, history: &mut History) {
    for _ in 0..context.dice.below(limit) {
        copy.append(&context.payload(), history);
    }
}

fn answers<E: Engine>(engine: &mut E, context: &mut Context) {
    let (mut history, mut copy) = (History::default(), Copy::new(&context.label, engine.start()));
    let mut appended = Vec::new();
    for _ in 0..30 {
        for _ in 0..context.dice.below(20) {
            let bytes = context.payload();
            appended.push((copy.append(&bytes, &mut history), bytes));
        }
        for _ in 0..context.dice.below(4) {
            copy.poll(&mut history);
        }
    }
    copy.settle(&mut history);
    for (token, bytes) in &appended {
        match (copy.answers[token], history.find(bytes)) {
            (Answer::Committed(index), Some(found)) => assert_eq!(index, found, "{}", context.label),
            (Answer::Refused, None) | (Answer::Unknown, _) => {}
            (answer, found) => panic!("{}: {answer:?}, but in the log at {found:?}", context.label),
        }
    }
    finish(engine, context, copy, &mut history);
}

fn order<E: Engine>(engine: &mut E, context: &mut Context) {
    let (mut history, mut copy) = (History::default(), Copy::new(&context.label, engine.start()));
    let mut last = Index(0);
    for _ in 0..60 {
        let bytes = context.payload();
        if let Answer::Committed(index) = copy.append_and_wait(&bytes, &mut history) {
            assert!(index > last, "{}: a later append went before {last}, to {index}", context.label);
            last = index;
        }
    }
    assert!(last > Index(0), "{}: nothing was ever committed", context.label);
    finish(engine, context, copy, &mut history);
}

fn retry<E: Engine>(engine: &mut E, context: &mut Context) {
    let (mut history, mut copy) = (History::default(), Copy::new(&context.label, engine.start()));
    for _ in 0..30 {
        let attempts = (0..1000).map(|_| context.payload());
        let committed = attempts.into_iter().any(|bytes| match copy.append_and_wait(&bytes, &mut history) {
            Answer::Committed(index) => history.find(&bytes) == Some(index),
            Answer::Refused | Answer::Unknown => false,
        });
        assert!(committed, "{}: a thousand attempts and none committed", context.label);
    }
    finish(engine, context, copy, &mut history);
}

fn restart<E: Engine>(engine: &mut E, context: &mut Context) {
    let mut history = History::default();
    for _ in 0..25 {
        let mut copy = Copy::new(&context.label, engine.start());
        let steps = context.dice.below(40);
        for _ in 0..steps {
            let choice = context.dice.below(10);
            if choice < 5 {
                copy.try_append(&context.payload());
            } else if choice < 8 {
                copy.poll(&mut history);
            } else if choice < 9 {
                copy.save_snapshot();
            } else {
                copy.trim(Index(context.dice.below(copy.applied.0 + 10)));
            }
        }
        engine.stop(copy.log);
    }
    let copy = Copy::new(&context.label, engine.start());
    finish(engine, context, copy, &mut history);
}

fn snapshot_while_appending<E: Engine>(engine: &mut E, context: &mut Context) {
    let mut history = History::default();
    for _ in 0..6 {
        let mut copy = Copy::new(&context.label, engine.start());
        copy.settle(&mut history);
        let newest = history.saved.last().copied();
        assert_eq!(copy.installed.first().copied(), newest, "{}: not the newest snapshot", context.label);
        for _ in 0..3 {
            burst(&mut copy, 30, context, &mut history);
            copy.save_snapshot();
            burst(&mut copy, 30, context, &mut history);
            copy.settle(&mut history);
        }
        engine.stop(copy.log);
    }
    assert!(!history.saved.is_empty(), "{}: no snapshot was ever saved", context.label);
    let copy = Copy::new(&context.label, engine.start());
    finish(engine, context, copy, &mut history);
}

fn wrong_snapshots<E: Engine>(engine: &mut E, context: &mut Context) {
    let (mut history, mut copy) = (History::default(), Copy::new(&context.label, engine.start()));
    for _ in 0..20 {
        copy.append_and_wait(&context.payload(), &mut history);
    }
    copy.settle(&mut history);
    let above = Index(copy.applied.0 + 1000);
    copy.save_snapshot_at(above);
    copy.settle(&mut history);
    assert_eq!(copy.snapshots_failed, [above], "{}: a snapshot from the future was taken", context.label);
    while history.saved.is_empty() {
        copy.save_snapshot();
        copy.settle(&mut history);
    }
    copy.snapshots_failed.clear();
    copy.save_snapshot();
    copy.settle(&mut history);
    assert_eq!(copy.snapshots_failed, [copy.applied], "{}: an old snapshot was taken", context.label);
    finish(engine, context, copy, &mut history);
}

fn trim<E: Engine>(engine: &mut E, context: &mut Context) {
    let (mut history, mut copy) = (History::default(), Copy::new(&context.label, engine.start()));
    for round in 0..8 {
        burst(&mut copy, 80, context, &mut history);
        copy.settle(&mut history);
        copy.trim(Index(copy.applied.0 + 1000));
        if round > 0 {
            copy.save_snapshot();
        }
        copy.settle(&mut history);
        copy.trim(copy.applied);
        copy.settle(&mut history);
        if context.dice.chance(300) {
            engine.stop(copy.log);
            copy = Copy::new(&context.label, engine.start());
            copy.settle(&mut history);
        }
    }
    let all: Vec<Index> = history.indices().collect();
    engine.stop(copy.log);
    copy = Copy::new(&context.label, engine.start());
    copy.settle(&mut history);
    assert!(Some(&copy.applied) >= all.last(), "{}: trimmed away at {}", context.label, copy.applied);
    finish(engine, context, copy, &mut history);
}

fn slow_consumer<E: Engine>(engine: &mut E, context: &mut Context) {
    let (mut history, mut copy) = (History::default(), Copy::new(&context.label, engine.start()));
    copy.settle(&mut history);
    let accepted = (0..200_000).take_while(|_| copy.try_append(&context.payload()).is_some()).count();
    assert!(accepted < 200_000, "{}: a log that nobody polls never says busy", context.label);
    copy.settle(&mut history);
    assert_eq!(copy.answers.len(), accepted, "{}", context.label);
    assert!(copy.try_append(&context.payload()).is_some(), "{}: still busy after it was polled", context.label);
    copy.settle(&mut history);
    finish(engine, context, copy, &mut history);
}

fn two_appenders<E: Engine>(engine: &mut E, context: &mut Context) {
    let (mut history, mut one) = (History::default(), Copy::new(&context.label, engine.start()));
    let mut other = engine.start_another().map(|log| Copy::new(&context.label, log));
    for _ in 0..100 {
        let first = context.dice.chance(500);
        let copy = if first { &mut one } else { other.as_mut().unwrap_or(&mut one) };
        burst(copy, 5, context, &mut history);
        copy.poll(&mut history);
    }
    one.settle(&mut history);
    if let Some(mut other) = other {
        other.settle(&mut history);
        one.settle(&mut history);
        assert_eq!(one.applied, other.applied, "{}: two copies end at different places", context.label);
        engine.stop(other.log);
    }
    finish(engine, context, one, &mut history);
}

fn lengths<E: Engine>(engine: &mut E, context: &mut Context) {
    let (mut history, mut copy) = (History::default(), Copy::new(&context.label, engine.start()));
    let entry = |length| LogRequest::Append { token: 9_999, bytes: Bytes::from(vec![1; length]) };
    let snapshot = |pieces: &[usize]| LogRequest::SaveSnapshot {
        index: Index(1),
        pieces: pieces.iter().map(|length| Bytes::from(vec![1; *length])).collect(),
    };
    for (request, expected) in [
        (entry(0), SubmitError::Length { length: 0, limit: ENTRY_BYTES_MAX }),
        (entry(ENTRY_BYTES_MAX + 1), SubmitError::Length { length: ENTRY_BYTES_MAX + 1, limit: ENTRY_BYTES_MAX }),
        (snapshot(&[]), SubmitError::NoPieces),
        (snapshot(&[1, 0]), SubmitError::Length { length: 0, limit: SNAPSHOT_PIECE_BYTES_MAX }),
    ] {
        assert_eq!(copy.log.submit(0, request), Err(expected), "{}", context.label);
    }
    let longest = (1..=50u8).any(|attempt| {
        let bytes = Bytes::from(vec![attempt; ENTRY_BYTES_MAX]);
        matches!(copy.append_and_wait(&bytes, &mut history), Answer::Committed(_))
    });
    assert!(longest, "{}: an entry of the full length is never committed", context.label);
    finish(engine, context, copy, &mut history);
}

fn reads<E: Engine>(engine: &mut E, context: &mut Context) {
    let (mut history, mut copy) = (History::default(), Copy::new(&context.label, engine.start()));
    let mut other = engine.start_another().map(|log| Copy::new(&context.label, log));
    let mut answered = 0;
    for _ in 0..40 {
        burst(&mut copy, 4, context, &mut history);
        let acknowledged = history.acknowledged_up_to();
        let reader = other.as_mut().unwrap_or(&mut copy);
        if let Some(index) = reader.read(&mut history) {
            assert!(index >= acknowledged, "{}: read at {index}, {acknowledged} was acknowledged", context.label);
            reader.poll_until_applied(index, &mut history);
            answered += 1;
        }
        copy.poll(&mut history);
    }
    assert!(answered > 0, "{}: no read was ever answered", context.label);
    copy.settle(&mut history);
    if let Some(other) = other {
        engine.stop(other.log);
    }
    finish(engine, context, copy, &mut history);
}
