//! The provisioner core: one closed list of inputs, one of effects, one step.

use crate::contract::{Answer, Request};
use crate::open::{Key, Open};
use ohm_cell::{Applied, Cell, CheckState};
use ohm_client::{LeaseConfig, LeaseSeen, Member, MemberConfig, MemberEffect, MemberInput};
use ohm_model::{
    Command, Entry, Envelope, Epoch, Index, JobId, Lease, Outcome, ProvisioningClass, Role, Sequence, SessionId,
};
use ohm_stdx::Prng;
use ohm_stdx::canary::{self, Canary};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// So many questions may wait for an answer at a time.
const ASKED_MAX: usize = 64;

/// How a candidate works.
#[derive(Clone, Debug)]
pub struct ProvisionerConfig {
    /// For people: host and process.
    pub name: String,
    /// How long the duty's lease lasts, in milliseconds.
    pub duty_lease_ms: u64,
    /// An unanswered command is sent again after this long.
    pub resend_ms: u64,
}

/// What a candidate is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// The own copy is replaced by this one, restored from a snapshot.
    Snapshot(Box<Cell>),
    /// The next entry of the log. An entry that the copy contains already is passed over.
    Entry {
        /// Its index.
        index: Index,
        /// What it holds.
        entry: Entry,
    },
    /// A server's own answer to a command.
    Answer {
        /// The session the command was sent under.
        session: SessionId,
        /// Its number.
        sequence: Sequence,
        /// The answer.
        outcome: Outcome,
    },
    /// A server's own answer to `OpenSession`.
    OpenAnswer {
        /// The nonce of the command.
        nonce: u64,
        /// The answer.
        outcome: Outcome,
    },
    /// A server can be reached.
    Connected,
    /// No server can be reached.
    Disconnected,
    /// The outside has answered a request.
    Answered {
        /// The name of the request.
        id: String,
        /// The duty under which it was asked.
        epoch: Epoch,
        /// What it said.
        answer: Answer,
    },
    /// Time passes; several times per second.
    Tick,
    /// Stop: the duty and the session are given back.
    Close,
}

/// A question to the outside, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The question.
    pub request: Request,
    /// The class that says who is asked.
    pub class: Arc<ProvisioningClass>,
    /// The duty under which it is asked.
    pub epoch: Epoch,
}

/// What a candidate wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// To a server, in this order.
    Send(Vec<Envelope>),
    /// The session under which this candidate competes.
    Opened(SessionId),
    /// To the outside; every question is answered by one [`Input::Answered`], also when nobody could be reached.
    Ask(Box<Ask>),
    /// The duty is held from now on, or not any more.
    Duty {
        /// Which.
        held: bool,
    },
    /// The session is closed, as wished.
    Closed,
}

/// A report about a check, and the duty under which it is made.
type Told = (Key, Epoch);

/// One candidate for the provisioning duty.
pub struct ProvisionerCore {
    cell: Cell,
    member: Member<Told>,
    duty: Option<Epoch>,
    open: BTreeMap<Key, Open>,
    lease_told: Option<LeaseSeen>,
    applied: Applied,
}

impl ProvisionerCore {
    /// A candidate without a copy. `dice` must differ between processes.
    pub fn new(config: ProvisionerConfig, dice: Prng) -> Self {
        let member = MemberConfig {
            role: Role::Provisioner,
            name: config.name,
            resend_ms: config.resend_ms,
            resend_ms_max: config.resend_ms.saturating_mul(8),
            leases: LeaseConfig::duty(Lease::Provisioning, config.duty_lease_ms),
        };
        ProvisionerCore {
            cell: Cell::new(),
            member: Member::new(member, dice),
            duty: None,
            open: BTreeMap::new(),
            lease_told: None,
            applied: Applied::default(),
        }
    }

    /// The own copy.
    pub fn cell(&self) -> &Cell {
        &self.cell
    }

    /// Whether the duty may be acted on at `now_ms`.
    pub fn holds_duty(&self, now_ms: u64) -> bool {
        self.member.held(Lease::Provisioning, now_ms).is_some()
    }

    /// How many checks are open, as far as the duty is held. For metrics.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Takes one input at `now_ms` of the own monotonic clock, read after the input arrived.
    pub fn step(&mut self, now_ms: u64, input: Input, out: &mut Vec<Effect>) {
        // First of all: a lease that ran out here ends the duty, so that nothing below can act on it.
        self.look_at_duty(now_ms);
        match input {
            Input::Snapshot(cell) => self.replace(now_ms, *cell, out),
            Input::Entry { index, entry } => self.follow(now_ms, index, &entry, out),
            Input::Answer { session, sequence, outcome } => {
                self.feed(now_ms, MemberInput::Answer { session, sequence, outcome }, out);
            }
            Input::OpenAnswer { nonce, outcome } => {
                self.feed(now_ms, MemberInput::OpenAnswer { nonce, outcome }, out);
            }
            Input::Connected => self.feed(now_ms, MemberInput::Connected, out),
            Input::Disconnected => self.feed(now_ms, MemberInput::Disconnected, out),
            Input::Answered { id, epoch, answer } => self.on_answer(now_ms, (&id, epoch), &answer),
            Input::Tick => self.feed(now_ms, MemberInput::Tick, out),
            Input::Close => self.feed(now_ms, MemberInput::Close, out),
        }
        self.look_at_duty(now_ms);
        self.speak(now_ms, out);
    }

    fn look_at_duty(&mut self, now_ms: u64) {
        let held = self.member.holds(Lease::Provisioning, now_ms);
        if held == self.duty || (held.is_none() && canary::sings(Canary::AskWithoutDuty)) {
            return;
        }
        // What an earlier holder asked is asked again, under the same names.
        self.duty = held;
        self.open.clear();
        self.refresh_all(now_ms);
    }

    fn replace(&mut self, now_ms: u64, cell: Cell, out: &mut Vec<Effect>) {
        // Of another server, perhaps, that lags behind the one followed before: a copy never steps back.
        if cell.applied() < self.cell.applied() {
            return;
        }
        self.cell = cell;
        self.refresh_all(now_ms);
        self.tell_lease(now_ms, out);
    }

    fn follow(&mut self, now_ms: u64, index: Index, entry: &Entry, out: &mut Vec<Effect>) {
        if index <= self.cell.applied() {
            return;
        }
        let mut applied = std::mem::take(&mut self.applied);
        self.cell.apply(index, entry, &mut applied);
        applied.jobs.iter().for_each(|job| self.refresh(now_ms, *job));
        for (envelope, outcome) in entry.commands.iter().zip(&applied.outcomes) {
            // Who waited for a class that was not known.
            if matches!(envelope.command, Command::PutProvisioningClass(_)) {
                self.refresh_all(now_ms);
            }
            if let Some(input) = self.member.heard(envelope, outcome) {
                self.feed(now_ms, input, out);
            }
        }
        self.applied = applied;
        self.tell_lease(now_ms, out);
    }

    fn refresh_all(&mut self, now_ms: u64) {
        let asking = self.cell.jobs().iter().filter(|job| job.admission.round.is_some()).map(|job| job.id);
        let known = self.open.keys().map(|(job, ..)| *job);
        let jobs: BTreeSet<JobId> = asking.chain(known).collect();
        jobs.into_iter().for_each(|job| self.refresh(now_ms, job));
    }

    /// What is open of `job` is what its round asks, and what is to be watched.
    fn refresh(&mut self, now_ms: u64, id: JobId) {
        if self.duty.is_none() {
            return;
        }
        let mut wanted: BTreeMap<Key, (String, u64)> = BTreeMap::new();
        if let Some(job) = self.cell.jobs().get(id) {
            for check in job.admission.round.iter().flat_map(|round| &round.checks) {
                let Some(class) = self.cell.provisioning_classes().get(&check.class) else { continue };
                let due_ms = match check.state {
                    CheckState::Pending => now_ms,
                    CheckState::Ready if class.watch_seconds == 0 => continue,
                    CheckState::Ready => now_ms.saturating_add(class.watch_seconds.saturating_mul(1000)),
                };
                wanted.insert((id, job.admission.rounds, check.class.clone()), (job.request_id(&check.class), due_ms));
            }
        }
        let first = (id, 0, String::new());
        let known: Vec<Key> =
            self.open.range(first..).take_while(|((job, ..), _)| *job == id).map(|(key, _)| key.clone()).collect();
        for key in known.iter().filter(|key| !wanted.contains_key(key)) {
            self.open.remove(key);
        }
        for (key, (request, due_ms)) in wanted {
            self.open.entry(key).or_insert_with(|| Open::due(request, due_ms));
        }
    }

    fn on_answer(&mut self, now_ms: u64, (id, epoch): (&str, Epoch), answer: &Answer) {
        // Nobody waits for what was asked in an earlier round, or under an earlier duty, of this process, too: there
        // the same request was asked anew, and its own answer is still to come.
        if self.duty != Some(epoch) {
            return;
        }
        let Some((key, open)) = self.open.iter_mut().find(|(_, open)| open.id == id && open.is_asked) else { return };
        let Some(job) = self.cell.jobs().get(key.0) else { return };
        let mut checks = job.admission.round.iter().flat_map(|round| &round.checks);
        let Some(check) = checks.find(|check| check.class == key.2) else { return };
        let Some(class) = self.cell.provisioning_classes().get(&key.2) else { return };
        open.answered(now_ms, answer, class, (check.state == CheckState::Ready, &check.message));
    }

    /// Asks what is due, and says what is to be said.
    fn speak(&mut self, now_ms: u64, out: &mut Vec<Effect>) {
        let Some(epoch) = self.duty else { return };
        let mut asked = self.open.values().filter(|open| open.is_asked).count();
        let mut reports = Vec::new();
        for (key, open) in &mut self.open {
            if open.due_ms.is_some_and(|due_ms| due_ms <= now_ms) && asked < ASKED_MAX {
                let Some(ask) = ask_of(&self.cell, key, epoch) else { continue };
                asked += 1;
                open.is_asked = true;
                if !canary::sings(Canary::RequestTwice) {
                    open.due_ms = None;
                }
                out.push(Effect::Ask(Box::new(ask)));
            }
            if let Some(report) = open.say() {
                let (job, round, class) = key.clone();
                reports.push(((key.clone(), epoch), Command::ReportCheck { epoch, job, round, class, report }));
            }
        }
        for (tag, command) in reports {
            self.feed(now_ms, MemberInput::Submit { tag, command }, out);
        }
    }

    fn tell_lease(&mut self, now_ms: u64, out: &mut Vec<Effect>) {
        let state = self.cell.sessions().lease(Lease::Provisioning);
        // A candidate that was started anew need not wait for its own former lease.
        let holder = state.holder.filter(|holder| !self.cell.sessions().is_superseded(*holder));
        let seen = LeaseSeen { lease: Lease::Provisioning, holder, epoch: state.epoch, renewed: state.renewed };
        if self.lease_told.replace(seen) != Some(seen) {
            self.feed(now_ms, MemberInput::LeaseSeen(seen), out);
        }
    }

    fn feed(&mut self, now_ms: u64, input: MemberInput<Told>, out: &mut Vec<Effect>) {
        let mut effects = Vec::new();
        self.member.step(now_ms, input, &mut effects);
        for effect in effects {
            match effect {
                MemberEffect::Send(envelopes) => out.push(Effect::Send(envelopes)),
                MemberEffect::Opened(session) => out.push(Effect::Opened(session)),
                MemberEffect::Gained { .. } => out.push(Effect::Duty { held: true }),
                MemberEffect::Dropped { .. } => out.push(Effect::Duty { held: false }),
                MemberEffect::Closed => out.push(Effect::Closed),
                MemberEffect::Answered { tag, outcome } => self.heard(&tag, Some(&outcome)),
                MemberEffect::Lost { tag } | MemberEffect::Busy { tag, .. } => self.heard(&tag, None),
                MemberEffect::OpenRefused(_) | MemberEffect::Gone => {}
            }
        }
    }

    /// The log has taken a report, or will not. What was said under an earlier duty of this process is said anew.
    fn heard(&mut self, (key, epoch): &Told, outcome: Option<&Outcome>) {
        if let Some(open) = self.open.get_mut(key).filter(|_| self.duty == Some(*epoch)) {
            open.heard(outcome);
        }
    }
}

fn ask_of(cell: &Cell, (job, _, class): &Key, epoch: Epoch) -> Option<Ask> {
    let job = cell.jobs().get(*job)?;
    let check = job.admission.round.iter().flat_map(|round| &round.checks).find(|check| check.class == *class)?;
    let class = Arc::clone(cell.provisioning_classes().get(class)?);
    let request = Request::of(job, check, &class, check.state == CheckState::Ready);
    Some(Ask { request, class, epoch })
}
