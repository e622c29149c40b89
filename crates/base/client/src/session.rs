//! The session: every command happens exactly once, or its owner is told that nobody knows.

use crate::flight::{Flight, Sent};
use ohm_model::{Asked, Command, Envelope, Outcome, Refusal, Role, Sequence, SessionId};
use ohm_stdx::Prng;
use std::collections::VecDeque;

/// Most commands of the owner that wait or are in flight at once; further ones come back as `Busy`.
pub const COMMANDS_MAX: usize = 512;
/// The cell keeps this many answers of a session. No number further than this above the oldest unanswered one is used,
/// so the cell never has to refuse the oldest one for want of room.
pub const WINDOW_MAX: u64 = 1024;
/// Unanswered renewals that are still of interest; an older one would not renew much any more.
const RENEWALS_MAX: usize = 3;

/// What a session is opened as, and how patient it is.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// What the process does.
    pub role: Role,
    /// For people: host and process.
    pub name: String,
    /// An unanswered command is sent again after this long, then after twice as long, and so on.
    pub resend_ms: u64,
    /// The longest time between two sendings of one command.
    pub resend_ms_max: u64,
    /// Between two renewals of the session (and of all its leases).
    pub keep_alive_ms: u64,
}

/// What a session core is told besides the owner's commands.
#[derive(Clone, Debug)]
pub enum SessionInput {
    /// An answer of the log, from the server's reply or from the own copy; the same one may come twice.
    Answer {
        /// The session the command was sent under.
        session: SessionId,
        /// Its number.
        sequence: Sequence,
        /// The answer.
        outcome: Outcome,
    },
    /// The answer to `OpenSession`, by the nonce it carried.
    OpenAnswer {
        /// The nonce of the command.
        nonce: u64,
        /// `Session` or a refusal.
        outcome: Outcome,
    },
    /// A server can be reached; whatever is unanswered is sent to it at once.
    Connected,
    /// No server can be reached; nothing is sent until `Connected`.
    Disconnected,
    /// The owner is done: the session is closed and its leases are given back. The owner of a bare session must have
    /// stopped acting on them; a member drops them at once.
    Close,
    /// Time passes; several times per renewal interval at least.
    Tick,
}

/// What a session core wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEffect<T> {
    /// To the server, in this order.
    Send(Vec<Envelope>),
    /// The answer to a submitted command.
    Answered {
        /// The owner's name for it.
        tag: T,
        /// When it was sent for the first time, on the own clock.
        sent_ms: u64,
        /// The answer.
        outcome: Outcome,
    },
    /// The session ended before the answer came: the command took effect once or not at all. The owner looks at its
    /// copy.
    Lost {
        /// The owner's name for it.
        tag: T,
    },
    /// Too much is in flight, or the session ended or is closing before its turn came: the command comes back, it was
    /// never sent.
    Busy {
        /// The owner's name for it.
        tag: T,
        /// The command.
        asked: Asked,
    },
    /// A (new) session is open.
    Opened {
        /// Its number.
        session: SessionId,
        /// What only its owner has drawn: who shows it is its owner.
        nonce: u64,
    },
    /// The cell refuses to open a session; the core tries again.
    OpenRefused(Refusal),
    /// The session and its leases were renewed by a command that was first sent at `sent_ms`.
    Renewed {
        /// On the own clock.
        sent_ms: u64,
    },
    /// The session is not known to the cell any more. A new one is being opened.
    Gone,
    /// The session is closed, as wished.
    Closed,
}

/// ```text
///  Opening ──OpenAnswer──▶ Open ──Close──▶ Closing ──its answer──▶ Closed
///     ▲  │                  │                 └──SessionGone──────────▲
///     │  └──Close───────────┼─────────────────────────────────────────┘
///     └──SessionGone, with a new nonce
/// ```
#[derive(Clone, Copy, Debug)]
enum State {
    Opening { nonce: u64, due_ms: u64 },
    Open(SessionId),
    Closing(SessionId),
    Closed,
}

#[derive(Clone, Debug)]
enum Purpose<T> {
    Owner(T),
    KeepAlive,
    Close,
}

/// One session after the other, for one process.
#[derive(Clone, Debug)]
pub struct SessionCore<T> {
    config: SessionConfig,
    dice: Prng,
    state: State,
    connected: bool,
    flight: Flight<Purpose<T>>,
    /// The owner's commands in `flight`.
    owned: usize,
    /// Never sent yet.
    waiting: VecDeque<(T, Asked)>,
    renewals: VecDeque<Sequence>,
    renew_due_ms: u64,
}

impl<T> SessionCore<T> {
    /// A core that opens its first session as soon as a server can be reached. `dice` draw the nonces and must differ
    /// between processes.
    pub fn new(config: SessionConfig, mut dice: Prng) -> Self {
        let state = State::Opening { nonce: dice.u64(), due_ms: 0 };
        let flight = Flight::new(config.resend_ms, config.resend_ms_max);
        let (waiting, renewals) = (VecDeque::new(), VecDeque::new());
        SessionCore { config, dice, state, connected: false, flight, owned: 0, waiting, renewals, renew_due_ms: 0 }
    }

    /// The open session.
    pub fn session(&self) -> Option<SessionId> {
        match self.state {
            State::Open(session) => Some(session),
            _ => None,
        }
    }

    /// The nonce of the session that is being opened.
    pub fn opening(&self) -> Option<u64> {
        match self.state {
            State::Opening { nonce, .. } => Some(nonce),
            _ => None,
        }
    }

    /// How many more commands would be taken now.
    pub fn room(&self) -> usize {
        match self.state {
            State::Opening { .. } | State::Open(_) => COMMANDS_MAX.saturating_sub(self.owned + self.waiting.len()),
            State::Closing(_) | State::Closed => 0,
        }
    }

    /// The next moment at which `Tick` may have something to do; none while disconnected or closed.
    pub fn due_ms(&self) -> Option<u64> {
        match self.state {
            _ if !self.connected => None,
            State::Opening { due_ms, .. } => Some(due_ms),
            State::Open(_) => Some(self.flight.due_ms().map_or(self.renew_due_ms, |due| due.min(self.renew_due_ms))),
            State::Closing(_) => self.flight.due_ms(),
            State::Closed => None,
        }
    }

    /// Takes one input at `now_ms` of the own monotonic clock, which must have been read after the input arrived.
    pub fn step(&mut self, now_ms: u64, input: SessionInput, out: &mut Vec<SessionEffect<T>>) {
        match input {
            SessionInput::Answer { session, sequence, outcome } => {
                self.on_answer(now_ms, session, sequence, outcome, out);
            }
            SessionInput::OpenAnswer { nonce, outcome } => self.on_open_answer(now_ms, nonce, outcome, out),
            SessionInput::Connected => {
                self.connected = true;
                self.resend(now_ms, true, out);
            }
            SessionInput::Disconnected => self.connected = false,
            SessionInput::Close => self.close(now_ms, out),
            SessionInput::Tick => self.resend(now_ms, false, out),
        }
        self.send_waiting(now_ms, out);
    }

    /// The owner wants a command done; `tag` comes back with the answer.
    pub fn submit(&mut self, now_ms: u64, tag: T, asked: Asked, out: &mut Vec<SessionEffect<T>>) {
        match self.room() {
            0 => out.push(SessionEffect::Busy { tag, asked }),
            _ => self.waiting.push_back((tag, asked)),
        }
        self.send_waiting(now_ms, out);
    }

    fn on_open_answer(&mut self, now_ms: u64, asked: u64, outcome: Outcome, out: &mut Vec<SessionEffect<T>>) {
        let State::Opening { nonce, .. } = self.state else { return };
        match outcome {
            _ if nonce != asked => {}
            Outcome::Session(session) => {
                self.state = State::Open(session);
                self.renew_due_ms = now_ms.saturating_add(self.config.keep_alive_ms);
                out.push(SessionEffect::Opened { session, nonce });
            }
            Outcome::Refused(refusal) => {
                self.state = State::Opening { nonce, due_ms: now_ms.saturating_add(self.config.resend_ms_max) };
                out.push(SessionEffect::OpenRefused(refusal));
            }
            _ => {}
        }
    }

    fn on_answer(
        &mut self,
        now_ms: u64,
        session: SessionId,
        sequence: Sequence,
        outcome: Outcome,
        out: &mut Vec<SessionEffect<T>>,
    ) {
        if !matches!(self.state, State::Open(own) | State::Closing(own) if own == session) {
            return;
        }
        match outcome {
            Outcome::Refused(Refusal::SessionGone(_)) => self.lose_session(now_ms, out),
            // Not done and not remembered: it is sent again when its time-out passes.
            Outcome::Refused(Refusal::Busy { .. }) => {}
            outcome => {
                let Some(sent) = self.flight.remove(sequence) else { return };
                self.on_outcome(sent, outcome, out);
            }
        }
    }

    fn on_outcome(&mut self, sent: Sent<Purpose<T>>, outcome: Outcome, out: &mut Vec<SessionEffect<T>>) {
        match sent.purpose {
            Purpose::Owner(tag) => {
                self.owned -= 1;
                out.push(match outcome {
                    // Never true of a number we still wait for; if a cell says so, nobody knows what it answered
                    // before.
                    Outcome::Refused(Refusal::Acknowledged) => SessionEffect::Lost { tag },
                    outcome => SessionEffect::Answered { tag, sent_ms: sent.sent_ms, outcome },
                });
            }
            Purpose::KeepAlive if outcome == Outcome::Done => {
                out.push(SessionEffect::Renewed { sent_ms: sent.sent_ms });
            }
            Purpose::KeepAlive => {}
            Purpose::Close => self.finish(out),
        }
    }

    /// What was sent under the old session may have happened or not; sending it again under a new one could do it
    /// twice.
    fn lose_session(&mut self, now_ms: u64, out: &mut Vec<SessionEffect<T>>) {
        if matches!(self.state, State::Closing(_)) {
            return self.finish(out);
        }
        self.lose_all(out);
        // What was never sent could go out under the new session, but it was thought of by the holder of the old one's
        // leases: the owner decides anew.
        out.extend(self.waiting.drain(..).map(|(tag, asked)| SessionEffect::Busy { tag, asked }));
        self.state = State::Opening { nonce: self.dice.u64(), due_ms: now_ms };
        out.push(SessionEffect::Gone);
        self.resend(now_ms, false, out);
    }

    fn lose_all(&mut self, out: &mut Vec<SessionEffect<T>>) {
        self.owned = 0;
        self.renewals.clear();
        for sent in self.flight.drain() {
            if let Purpose::Owner(tag) = sent.purpose {
                out.push(SessionEffect::Lost { tag });
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<SessionEffect<T>>) {
        self.lose_all(out);
        self.state = State::Closed;
        out.push(SessionEffect::Closed);
    }

    fn close(&mut self, now_ms: u64, out: &mut Vec<SessionEffect<T>>) {
        out.extend(self.waiting.drain(..).map(|(tag, asked)| SessionEffect::Busy { tag, asked }));
        match self.state {
            State::Opening { .. } => self.finish(out),
            State::Open(session) => {
                self.state = State::Closing(session);
                let sequence = self.flight.add(now_ms, Purpose::Close, Command::CloseSession.into(), true);
                if self.connected {
                    out.extend(self.flight.envelope(session, sequence).map(|one| SessionEffect::Send(vec![one])));
                }
            }
            State::Closing(_) | State::Closed => {}
        }
    }

    /// Sends what is due: the opening, what is unanswered for too long (or `all` of it), the renewal.
    fn resend(&mut self, now_ms: u64, all: bool, out: &mut Vec<SessionEffect<T>>) {
        if !self.connected {
            return;
        }
        match self.state {
            State::Opening { nonce, due_ms } if all || due_ms <= now_ms => {
                self.state = State::Opening { nonce, due_ms: now_ms.saturating_add(self.config.resend_ms) };
                out.push(SessionEffect::Send(vec![self.open_envelope(nonce)]));
            }
            State::Opening { .. } | State::Closed => {}
            State::Open(session) | State::Closing(session) => {
                let mut envelopes = self.flight.resend(now_ms, session, all);
                if matches!(self.state, State::Open(_)) && self.renew_due_ms <= now_ms {
                    envelopes.extend(self.renew(now_ms, session));
                }
                if !envelopes.is_empty() {
                    out.push(SessionEffect::Send(envelopes));
                }
            }
        }
    }

    fn open_envelope(&self, nonce: u64) -> Envelope {
        let command = Command::OpenSession { nonce, role: self.config.role, name: self.config.name.clone() };
        Envelope::new(SessionId(0), Sequence(0), Sequence(0), command)
    }

    /// A renewal is never sent twice, because it counts from its first sending: a new one is worth more. Old ones are
    /// given up, which moves the mark past them; should one still arrive, it renews a little, which harms nobody.
    fn renew(&mut self, now_ms: u64, session: SessionId) -> Option<Envelope> {
        self.renew_due_ms = now_ms.saturating_add(self.config.keep_alive_ms.max(1));
        if self.renewals.len() >= RENEWALS_MAX
            && let Some(oldest) = self.renewals.pop_front()
        {
            self.flight.remove(oldest);
        }
        if !self.has_window(now_ms) {
            return None;
        }
        let sequence = self.flight.add(now_ms, Purpose::KeepAlive, Command::KeepAlive.into(), false);
        self.renewals.retain(|&renewal| self.flight.get(renewal).is_some());
        self.renewals.push_back(sequence);
        self.flight.envelope(session, sequence)
    }

    /// Whether one more number may be used. A late renewal must not hold up all others for ever: it is given up.
    fn has_window(&mut self, now_ms: u64) -> bool {
        while self.flight.window() >= WINDOW_MAX {
            match self.flight.oldest_late(now_ms) {
                Some((sequence, Sent { purpose: Purpose::KeepAlive, .. })) => drop(self.flight.remove(sequence)),
                _ => return false,
            }
        }
        true
    }

    /// Numbers and sends what waits, as far as the window allows.
    fn send_waiting(&mut self, now_ms: u64, out: &mut Vec<SessionEffect<T>>) {
        let State::Open(session) = self.state else { return };
        if !self.connected || self.waiting.is_empty() {
            return;
        }
        let mut envelopes = Vec::new();
        while self.has_window(now_ms) {
            let Some((tag, asked)) = self.waiting.pop_front() else { break };
            let sequence = self.flight.add(now_ms, Purpose::Owner(tag), asked, true);
            self.owned += 1;
            envelopes.extend(self.flight.envelope(session, sequence));
        }
        if !envelopes.is_empty() {
            out.push(SessionEffect::Send(envelopes));
        }
    }
}
