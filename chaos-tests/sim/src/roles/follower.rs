//! A simulated process that follows the log, and what its duty adds to that.

use crate::clocks::Clock;
use crate::faults::Victim;
use crate::role::{Role, Shell};
use crate::stage::{Down, Event, Stage, Up};
use ohm_cell::restore;
use ohm_client::{FollowerCore, FollowerEffect, FollowerInput, SessionInput};
use ohm_log::Bytes;
use ohm_model::{Command, Entry, Envelope, Index, Outcome, SessionId};
use ohm_oracle::Record;
use ohm_replica::{AppendResult, Beat, FollowFrame};
use ohm_stdx::Prng;

/// What one kind of follower is told.
pub(crate) type Input<D> = FollowerInput<<<D as Duty>::Core as FollowerCore>::Input>;
/// What one kind of follower wants beyond what all want.
type Own<D> = <<D as Duty>::Core as FollowerCore>::Effect;

/// What makes a follower a scheduler, a health candidate or a provisioner.
pub(crate) trait Duty: Sized {
    type Core: FollowerCore;
    /// What its copies of the cell are called.
    const NAME: &'static str;
    /// How often it is ticked.
    const TICK_MS: u64;

    fn victim(number: usize) -> Victim;

    /// The core of a new start. It has no disk: each start begins with nothing.
    fn core(&self, number: usize, starts: u64, stage: &Stage, dice: &mut Prng) -> Self::Core;

    /// Does what only this kind wants; what the core is told at once, if anything.
    fn perform(follower: &mut Follower<Self>, effect: Own<Self>, stage: &mut Stage) -> Option<Input<Self>>;

    /// What relayed beats are to it.
    fn beats(_connection: u64, _beats: Vec<Beat>) -> Option<Input<Self>> {
        None
    }

    /// Whether the servers have to know its session, as they do of the holder of the health duty.
    const SHOWS_SESSION: bool = false;
}

/// A follower of the log.
pub(crate) struct Follower<D: Duty> {
    pub(super) number: usize,
    pub(super) shell: Shell,
    core: Option<D::Core>,
    duty: D,
    session: Option<(SessionId, u64)>,
    /// Pieces of a snapshot that is arriving.
    pieces: Vec<Bytes>,
    /// What it does when it has done what keeps it busy.
    later: Vec<Input<D>>,
}

impl<D: Duty> Follower<D> {
    pub(crate) fn new(number: usize, clock: Clock, duty: D) -> Self {
        Follower {
            number,
            shell: Shell::new(clock),
            core: None,
            duty,
            session: None,
            pieces: Vec::new(),
            later: Vec::new(),
        }
    }

    pub(super) fn victim(&self) -> Victim {
        D::victim(self.number)
    }

    pub(super) fn step(&mut self, input: Input<D>, stage: &mut Stage) {
        let now_ms = self.shell.clock.boot_ms(stage.now_ms());
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let Some(core) = &mut self.core else { break };
            let before = core.cell().applied();
            let mut effects = Vec::new();
            core.step(now_ms, input, &mut effects);
            // What it plans takes its time: what comes of it leaves only then, and what arrives meanwhile waits.
            stage.sending_delay_ms += stage.planned.take() * stage.knobs.planning_ms;
            let (applied, chain) = (core.cell().applied(), core.cell().chain());
            if applied != before {
                let copy = format!("{} {} #{}", D::NAME, self.number + 1, self.shell.starts);
                stage.history.push(Record::Copied { copy, index: applied, chain });
            }
            for effect in effects {
                match effect {
                    FollowerEffect::Send(envelopes) => stage.send_commands(self.shell.connection, envelopes),
                    FollowerEffect::Own(own) => {
                        let next = D::perform(self, own, stage);
                        if stage.sending_delay_ms == 0 { inputs.extend(next) } else { self.later.extend(next) }
                    }
                    FollowerEffect::Opened { session, nonce } if D::SHOWS_SESSION => {
                        self.session = Some((session, nonce));
                        if let Some(connection) = self.shell.connection {
                            stage.send_up(connection, Up::Duty(session, nonce));
                        }
                    }
                    _ => {}
                }
            }
        }
        let busy_ms = std::mem::take(&mut stage.sending_delay_ms);
        if busy_ms > 0 {
            self.shell.pause(stage.now_ms() + busy_ms);
            stage.agenda.after(busy_ms, Event::GoOn(self.victim()));
        }
    }

    fn take_frame(&mut self, connection: u64, frame: FollowFrame, stage: &mut Stage) {
        let bytes = frame.bytes();
        match frame {
            FollowFrame::Snapshot { piece, last, .. } => {
                self.pieces.push(piece);
                if last {
                    let pieces = std::mem::take(&mut self.pieces);
                    let whole: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
                    match restore(&whole) {
                        Ok(cell) => self.step(FollowerInput::Snapshot(Box::new(cell)), stage),
                        Err(error) => stage.fail("P9", format!("a snapshot does not restore: {error}")),
                    }
                }
            }
            FollowFrame::Entries(entries) => {
                for (index, bytes) in entries {
                    match Entry::decode(&bytes) {
                        Ok(entry) => self.step(FollowerInput::Entry { index, entry }, stage),
                        Err(error) => stage.fail("P9", format!("an entry does not decode: {error}")),
                    }
                }
            }
        }
        stage.send_up(connection, Up::Acknowledge { bytes });
    }

    fn take_answers(&mut self, connection: u64, ticket: u64, result: AppendResult, stage: &mut Stage) {
        let known = stage.connections.get_mut(&connection);
        let envelopes = known.and_then(|known| known.tickets.remove(&ticket)).unwrap_or_default();
        if let AppendResult::Committed { outcomes, .. } = result {
            let answers = envelopes.into_iter().zip(outcomes);
            answers.for_each(|(envelope, outcome)| self.step(answer(&envelope, outcome), stage));
        }
    }
}

fn answer<X>(envelope: &Envelope, outcome: Outcome) -> FollowerInput<X> {
    let (session, sequence) = (envelope.session, envelope.sequence);
    FollowerInput::Session(match envelope.command {
        Command::OpenSession { nonce, .. } => SessionInput::OpenAnswer { nonce, outcome },
        _ => SessionInput::Answer { session, sequence, outcome },
    })
}

impl<D: Duty> Role for Follower<D> {
    fn shell(&self) -> &Shell {
        &self.shell
    }

    fn shell_mut(&mut self) -> &mut Shell {
        &mut self.shell
    }

    fn is_up(&self) -> bool {
        self.core.is_some()
    }

    fn start(&mut self, dice: &mut Prng, stage: &mut Stage) {
        self.shell.starts += 1;
        self.core = Some(self.duty.core(self.number, self.shell.starts, stage, dice));
        stage.agenda.after(1, Event::Connect(self.victim()));
    }

    fn stop(&mut self) {
        (self.core, self.session) = (None, None);
        self.later.clear();
    }

    fn tick(&mut self, stage: &mut Stage) {
        stage.agenda.after(D::TICK_MS, Event::Tick(self.victim()));
        self.step(FollowerInput::Session(SessionInput::Tick), stage);
    }

    fn go_on(&mut self, stage: &mut Stage) {
        std::mem::take(&mut self.later).into_iter().for_each(|input| self.step(input, stage));
    }

    fn connected(&mut self, connection: u64, stage: &mut Stage) {
        let from = self.core.as_ref().map_or(Index(0), |core| core.cell().applied());
        self.pieces.clear();
        stage.send_up(connection, Up::Follow { from });
        if let Some((session, nonce)) = self.session {
            stage.send_up(connection, Up::Duty(session, nonce));
        }
        self.step(FollowerInput::Session(SessionInput::Connected), stage);
    }

    fn disconnected(&mut self, stage: &mut Stage) {
        self.step(FollowerInput::Session(SessionInput::Disconnected), stage);
    }

    fn hear(&mut self, connection: u64, down: Down, stage: &mut Stage) {
        match down {
            Down::Appended { ticket, result } => self.take_answers(connection, ticket, result, stage),
            Down::Frame(frame) => self.take_frame(connection, frame, stage),
            Down::Beats(beats) => {
                if let Some(input) = D::beats(connection, beats) {
                    self.step(input, stage);
                }
            }
            Down::Order(_) | Down::Done { .. } => {}
        }
    }
}
