//! The provisioner core: one closed list of inputs, one of effects, one step.

use crate::contract::{Answer, Question, Request};
use crate::open::{Key, Open};
use crate::releases::Releases;
use ohm_cell::{Cell, CheckState, Job, RepairRequest, RequestState, repair_request_id, request_id};
use ohm_client::{Follower, FollowerCore, FollowerEffect, FollowerInput, LeaseConfig, MemberConfig, MemberEffect};
use ohm_model::{Command, Entry, Epoch, Index, JobId, Lease, Outcome, ProvisioningClass, Role};
use ohm_stdx::Prng;
use ohm_stdx::bug::{self, Bug};
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

/// An answer of the outside to a request.
#[derive(Clone, Debug)]
pub struct Answered {
    /// The name of the request.
    pub id: String,
    /// The duty under which it was asked.
    pub epoch: Epoch,
    /// What it said.
    pub answer: Answer,
}

/// What a candidate is told; `Tick` several times per second.
pub type ProvisionerInput = FollowerInput<Answered>;

/// What a candidate wants done. Every question is answered by one [`Answered`], also when nobody could be reached.
pub type ProvisionerEffect = FollowerEffect<Box<Ask>>;

/// A question to the outside, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The question.
    pub question: Question,
    /// The class that says who is asked.
    pub class: Arc<ProvisioningClass>,
    /// The duty under which it is asked.
    pub epoch: Epoch,
}

/// What a report is about.
#[derive(Clone, Debug)]
enum About {
    Check(Key),
    /// Nodes that were brought for the request with this label.
    Release(String),
}

/// What a report is about, and the duty under which it is made.
type Told = (About, Epoch);

/// One candidate for the provisioning duty.
pub struct ProvisionerCore {
    follower: Follower<Told>,
    duty: Option<Epoch>,
    open: BTreeMap<Key, Open>,
    releases: Releases,
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
            follower: Follower::new(member, dice),
            duty: None,
            open: BTreeMap::new(),
            releases: Releases::default(),
        }
    }

    /// Whether the duty may be acted on at `now_ms`.
    pub fn holds_duty(&self, now_ms: u64) -> bool {
        self.follower.member().held(Lease::Provisioning, now_ms).is_some()
    }

    /// How many checks are open, as far as the duty is held. For metrics.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    fn look_at_duty(&mut self, now_ms: u64) {
        let held = self.follower.member().holds(Lease::Provisioning, now_ms);
        if held == self.duty || (held.is_none() && bug::is_planted(Bug::AskWithoutDuty)) {
            return;
        }
        // What an earlier holder asked is asked again, under the same names.
        self.duty = held;
        self.open.clear();
        self.releases.clear();
        self.refresh_all(now_ms);
    }

    fn replace(&mut self, now_ms: u64, cell: Cell, out: &mut Vec<ProvisionerEffect>) {
        if self.follower.replace(cell).is_some() {
            self.refresh_all(now_ms);
            self.with_follower(out, |follower, effects| follower.tell_leases(now_ms, effects));
        }
    }

    fn follow(&mut self, now_ms: u64, index: Index, entry: &Entry, out: &mut Vec<ProvisionerEffect>) {
        let Some(applied) = self.follower.apply(index, entry) else { return };
        applied.jobs.iter().for_each(|job| self.refresh(now_ms, *job));
        let nodes = self.follower.cell().nodes();
        if applied.nodes.iter().any(|node| nodes.get(*node).is_none_or(|record| record.release.is_on_its_way())) {
            self.refresh_releases(now_ms);
        }
        // Who waited for a class that was not known.
        if entry.commands.iter().any(|envelope| matches!(envelope.command, Command::PutProvisioningClass(_))) {
            self.refresh_all(now_ms);
        }
        self.with_follower(out, |follower, effects| {
            follower.hear(now_ms, entry, &applied, effects);
            follower.finish(now_ms, entry, applied, effects);
        });
    }

    fn refresh_all(&mut self, now_ms: u64) {
        let asking = self.follower.cell().jobs().iter().filter(|job| job.admission.round.is_some()).map(|job| job.id);
        let known = self.open.keys().map(|(job, ..)| *job);
        let jobs: BTreeSet<JobId> = asking.chain(known).collect();
        jobs.into_iter().for_each(|job| self.refresh(now_ms, job));
        self.refresh_releases(now_ms);
    }

    fn refresh_releases(&mut self, now_ms: u64) {
        if self.duty.is_some() {
            self.releases.refresh(now_ms, self.follower.cell());
        }
    }

    /// What is open of `job` is what its round asks, and what is to be watched.
    fn refresh(&mut self, now_ms: u64, id: JobId) {
        if self.duty.is_none() {
            return;
        }
        let mut wanted: BTreeMap<Key, (String, u64)> = BTreeMap::new();
        if let Some(job) = self.follower.cell().jobs().get(id) {
            for check in job.admission.round.iter().flat_map(|round| &round.checks) {
                let Some(class) = self.follower.cell().provisioning_classes().get(&check.class) else { continue };
                let due_ms = match check.state {
                    CheckState::Pending => now_ms,
                    CheckState::Ready if class.watch_seconds == 0 => continue,
                    CheckState::Ready => now_ms.saturating_add(class.watch_seconds.saturating_mul(1000)),
                };
                let key = (id, job.admission.rounds, check.class.clone(), 0);
                wanted.insert(key, (request_id(job, &check.class), due_ms));
            }
            for request in pending_of_repair(job) {
                let key = (id, job.admission.rounds, request.class.clone(), request.number);
                wanted.insert(key, (repair_request_id(job, &request.class, request.number), now_ms));
            }
        }
        let first = (id, 0, String::new(), 0);
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
        if self.releases.answered(now_ms, id, answer, self.follower.cell()) {
            return;
        }
        let Some((key, open)) = self.open.iter_mut().find(|(_, open)| open.id == id && open.is_asked) else { return };
        let Some(job) = self.follower.cell().jobs().get(key.0) else { return };
        let mut checks = job.admission.round.iter().flat_map(|round| &round.checks);
        let known = match key.3 {
            0 => checks
                .find(|check| check.class == key.2)
                .map(|check| (check.state == CheckState::Ready, check.message.as_str())),
            number => pending_of_repair(job)
                .find(|request| request.number == number)
                .map(|request| (false, request.message.as_str())),
        };
        let Some((known, class)) = known.zip(self.follower.cell().provisioning_classes().get(&key.2)) else { return };
        open.answered(now_ms, answer, class, known);
    }

    /// Asks what is due, and says what is to be said.
    fn speak(&mut self, now_ms: u64, out: &mut Vec<ProvisionerEffect>) {
        let Some(epoch) = self.duty else { return };
        let mut asked = self.open.values().filter(|open| open.is_asked).count() + self.releases.asked();
        let mut reports = Vec::new();
        for (key, open) in &mut self.open {
            if open.due_ms.is_some_and(|due_ms| due_ms <= now_ms) && asked < ASKED_MAX {
                let Some(ask) = ask_of(self.follower.cell(), key, epoch) else { continue };
                asked += 1;
                open.is_asked = true;
                if !bug::is_planted(Bug::RequestTwice) {
                    open.due_ms = None;
                }
                out.push(ProvisionerEffect::Own(Box::new(ask)));
            }
            if let Some(report) = open.say() {
                let (job, round, class, repair) = key.clone();
                let report = Command::ReportCheck { epoch, job, round, class, repair, report };
                reports.push((About::Check(key.clone()), report));
            }
        }
        for (release, class) in self.releases.ask(now_ms, self.follower.cell(), ASKED_MAX.saturating_sub(asked)) {
            let Some(class) = self.follower.cell().provisioning_classes().get(&class).map(Arc::clone) else { continue };
            out.push(ProvisionerEffect::Own(Box::new(Ask { question: Question::Release(release), class, epoch })));
        }
        let released = self.releases.say().into_iter();
        reports.extend(
            released.map(|(request, nodes)| (About::Release(request), Command::ReportReleased { epoch, nodes })),
        );
        for (about, command) in reports {
            let tag = (about, epoch);
            self.with_follower(out, |follower, effects| follower.submit(now_ms, tag, command, effects));
        }
    }

    /// Lets the follower do something, and follows what comes of it.
    fn with_follower(
        &mut self,
        out: &mut Vec<ProvisionerEffect>,
        act: impl FnOnce(&mut Follower<Told>, &mut Vec<MemberEffect<Told>>),
    ) {
        let mut effects = Vec::new();
        act(&mut self.follower, &mut effects);
        for effect in effects {
            match effect {
                MemberEffect::Answered { tag, outcome } => self.heard(&tag, Some(&outcome)),
                MemberEffect::Lost { tag } | MemberEffect::Busy { tag, .. } => self.heard(&tag, None),
                effect => out.extend(effect.told()),
            }
        }
    }

    /// The log has taken a report, or will not. What was said under an earlier duty of this process is said anew.
    fn heard(&mut self, (about, epoch): &Told, outcome: Option<&Outcome>) {
        if self.duty != Some(*epoch) {
            return;
        }
        match about {
            About::Check(key) => self.open.get_mut(key).into_iter().for_each(|open| open.heard(outcome)),
            About::Release(request) => self.releases.heard(request, outcome),
        }
    }
}

impl FollowerCore for ProvisionerCore {
    type Input = Answered;
    type Effect = Box<Ask>;

    fn cell(&self) -> &Cell {
        self.follower.cell()
    }

    fn step(&mut self, now_ms: u64, input: ProvisionerInput, out: &mut Vec<ProvisionerEffect>) {
        // First of all: a lease that ran out here ends the duty, so that nothing below can act on it.
        self.look_at_duty(now_ms);
        match input {
            ProvisionerInput::Snapshot(cell) => self.replace(now_ms, *cell, out),
            ProvisionerInput::Entry { index, entry } => self.follow(now_ms, index, &entry, out),
            ProvisionerInput::Session(input) => {
                self.with_follower(out, |follower, effects| follower.step(now_ms, input, effects));
            }
            ProvisionerInput::Own(Answered { id, epoch, answer }) => self.on_answer(now_ms, (&id, epoch), &answer),
        }
        self.look_at_duty(now_ms);
        self.speak(now_ms, out);
    }
}

/// The requests of the repair of `job` that wait for an answer. Nodes that are ready are not watched: once they join
/// they are nodes of the job like others.
fn pending_of_repair(job: &Job) -> impl Iterator<Item = &RepairRequest> {
    let requests = job.repairs.open.iter().flat_map(|open| &open.requests);
    requests.filter(|request| request.state == RequestState::Pending && job.admission.round.is_some())
}

fn ask_of(cell: &Cell, (job, _, class, repair): &Key, epoch: Epoch) -> Option<Ask> {
    let job = cell.jobs().get(*job)?;
    let check = job.admission.round.iter().flat_map(|round| &round.checks).find(|check| check.class == *class)?;
    let class = Arc::clone(cell.provisioning_classes().get(class)?);
    let request = match repair {
        0 => Request::of(cell, (job, check), &class),
        number => {
            let asked = pending_of_repair(job).find(|request| request.number == *number)?;
            Request::of_repair(cell, (job, check), asked, &class)
        }
    };
    Some(Ask { question: Question::Provision(request), class, epoch })
}
