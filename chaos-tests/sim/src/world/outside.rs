//! Those who bring nodes: asked by the provisioners, they answer late, twice, with "not yet", with failures, and they
//! take back what they brought. One request is answered alike however often and by whomever it is asked.

use super::{Event, World};
use crate::clocks::Clock;
use crate::faults::Victim;
use crate::node::NodeProcess;
use crate::roles::{ProvisionerProcess, Shell};
use crate::theme::Theme;
use crate::workload;
use ohm_cell::Standing;
use ohm_client::FollowerCore;
use ohm_model::{Command, Lease, Provisioner, ProvisioningClass, QueueSpec, Taint, TaintEffect};
use ohm_oracle::{Broken, Record};
use ohm_provisioning::{Answer, AnswerState, Answered, Ask, ProvisionerEffect, ProvisionerInput, TolerationWords};
use ohm_stdx::{Prng, hash};
use std::collections::{BTreeMap, BTreeSet};

/// The classes that queues of such a cell ask, and the label and taint of what they bring.
const CLASSES: [&str; 2] = ["spot", "slow"];
const POOL: &str = "pool";
/// So many nodes are brought at most.
const BROUGHT_MAX: usize = 4;
/// Once nothing goes wrong any more, a check is ready and a wait is over within this time.
const SETTLED_MS: u64 = 25_000;

/// What becomes of a request.
#[derive(Clone, Copy)]
struct Course {
    fails: bool,
    /// Whether the answer narrows the job to the nodes that were brought.
    narrows: bool,
    /// So many times it says "not yet" first.
    pending: u32,
}

/// The outside.
pub(crate) struct Outside {
    dice: Prng,
    courses: BTreeMap<String, Course>,
    /// Requests that were asked under a duty and are not answered.
    waiting: BTreeSet<(String, u64)>,
    brought: usize,
}

impl Outside {
    pub(crate) fn new(seed: u64) -> Self {
        let dice = Prng::new(hash::chain(hash::mix(seed), 0x0075));
        Outside { dice, courses: BTreeMap::new(), waiting: BTreeSet::new(), brought: 0 }
    }
}

/// The candidates for the provisioning duty; none where nobody is asked.
pub(super) fn provisioners(dice: &mut Prng, theme: Theme, drift_ppm: u64) -> Vec<ProvisionerProcess> {
    let count = if theme == Theme::Provisioning { 2 } else { 0 };
    let candidate = |_| ProvisionerProcess { shell: Shell::new(Clock::drawn(dice, drift_ppm)), core: None };
    (0..count).map(candidate).collect()
}

/// What is told to a cell besides, and its queues with checks.
pub(super) fn with_checks(dice: &mut Prng, commands: Vec<Command>) -> Vec<Command> {
    let class = |name: &str| {
        let mut class = ProvisioningClass::of(name, Provisioner::Sim);
        (class.poll_seconds, class.retry.base_seconds, class.retry.max_seconds) = (1, 1, 4);
        class.retry.limit = 3;
        match name {
            "spot" => (class.watch_seconds, class.booking_seconds) = (3, 20),
            _ => class.timeout_seconds = 8,
        }
        Command::PutProvisioningClass(class)
    };
    let checked = commands.into_iter().map(|command| match command {
        Command::PutQueue(spec) if !spec.is_cohort => Command::PutQueue(checked(dice, spec)),
        command => command,
    });
    let checked: Vec<Command> = checked.collect();
    CLASSES.map(class).into_iter().chain(checked).collect()
}

/// The queue with checks, now and then with another one or none, and room for what its jobs reserve.
pub(super) fn checked(dice: &mut Prng, spec: QueueSpec) -> QueueSpec {
    let checks = match dice.below(10) {
        0 => vec![],
        1 => vec!["nobody"],
        2 | 3 => CLASSES.to_vec(),
        4 => vec!["slow"],
        _ => vec!["spot"],
    };
    let nominal = spec.nominal.into_iter().map(|(name, amount)| (name, amount + 4_000)).collect();
    QueueSpec { admission_checks: checks.into_iter().map(String::from).collect(), nominal, ..spec }
}

impl World {
    pub(crate) fn step_provisioner(&mut self, victim: Victim, input: ProvisionerInput) {
        let Victim::Provisioner(number) = victim else { return };
        let now_ms = self.provisioners[number].shell.clock.boot_ms(self.agenda.now_ms());
        let Some(core) = &mut self.provisioners[number].core else { return };
        let before = core.cell().applied();
        let mut effects = Vec::new();
        core.step(now_ms, input, &mut effects);
        let (applied, chain) = (core.cell().applied(), core.cell().chain());
        if applied != before {
            let copy = format!("provisioner {} #{}", number + 1, self.provisioners[number].shell.starts);
            self.history.push(Record::Copied { copy, index: applied, chain });
        }
        for effect in effects {
            match effect {
                ProvisionerEffect::Send(envelopes) => self.send_commands(victim, envelopes),
                ProvisionerEffect::Own(ask) => self.asked_for_nodes(victim, &ask),
                _ => {}
            }
        }
    }

    fn asked_for_nodes(&mut self, victim: Victim, ask: &Ask) {
        let Victim::Provisioner(number) = victim else { return };
        let (id, epoch) = (ask.request.id.clone(), ask.epoch);
        self.note(|| format!("{} asks for {id}", crate::script::name(victim)));
        let copies = self.servers.iter().filter_map(|server| server.core());
        let newest = copies.map(|core| core.replica().cell().sessions().lease(Lease::Provisioning).epoch).max();
        if newest.is_some_and(|newest| newest > epoch) {
            return self.fail("P6", format!("{id} is asked under duty {epoch}, which is over"));
        }
        if !self.outside.waiting.insert((id.clone(), epoch.0)) {
            return self.fail("P3", format!("{id} is asked again under duty {epoch} before it was answered"));
        }
        let calm = self.healed;
        let course = self.course_of(&id);
        let dice = &mut self.outside.dice;
        let answer = match ask.request.ready {
            true if !calm && dice.chance(80) => Answer::of(AnswerState::Revoked, "taken back"),
            true if !calm && dice.chance(80) => Answer::of(AnswerState::Expired, "given to others"),
            _ => answer_of(course),
        };
        let (after_ms, twice) = match calm {
            true => (10, false),
            false => ([5, 60, 400, 2_500][dice.below(4) as usize] + dice.below(40), dice.chance(150)),
        };
        if answer.state == AnswerState::Ready {
            self.bring_node();
        }
        let starts = self.provisioners[number].shell.starts;
        for time in 0..1 + u64::from(twice) {
            let (id, answer) = (id.clone(), answer.clone());
            self.agenda.after(after_ms * (1 + time), Event::Outside { victim, starts, id, epoch, answer });
        }
    }

    fn course_of(&mut self, id: &str) -> Course {
        let dice = &mut self.outside.dice;
        let known = self.outside.courses.entry(id.to_string());
        let course = known.or_insert_with(|| {
            let fails = dice.chance(200);
            Course { fails, narrows: dice.chance(300), pending: dice.below(3).saturating_sub(1) as u32 * 2 }
        });
        let now = *course;
        course.pending = course.pending.saturating_sub(1);
        if self.healed { Course { fails: false, pending: 0, ..now } } else { now }
    }

    pub(crate) fn outside_answers(&mut self, victim: Victim, starts: u64, said: (String, ohm_model::Epoch, Answer)) {
        let Victim::Provisioner(number) = victim else { return };
        let (id, epoch, answer) = said;
        self.outside.waiting.remove(&(id.clone(), epoch.0));
        if self.provisioners[number].shell.starts == starts {
            self.step_provisioner(victim, ProvisionerInput::Own(Answered { id, epoch, answer }));
        }
    }

    /// A node that only those find which were told of it.
    fn bring_node(&mut self) {
        if self.outside.brought >= BROUGHT_MAX || self.healed || !self.outside.dice.chance(400) {
            return;
        }
        self.outside.brought += 1;
        let number = self.nodes.len();
        let mut spec = workload::node(&mut self.outside.dice, number, false);
        spec.labels.insert(POOL.into(), "spot".into());
        spec.taints = vec![Taint { key: POOL.into(), value: "spot".into(), effect: TaintEffect::NoSchedule }];
        let (key, clock) = (self.outside.dice.u64(), Clock::drawn(&mut self.outside.dice, self.knobs.drift_ppm));
        self.nodes.push(NodeProcess::new(spec, clock, key, self.knobs.stop_ms));
        let after_ms = self.outside.dice.between(1, 3_000);
        self.agenda.after(after_ms, Event::Restart(Victim::Node(number)));
        self.agenda.after(after_ms, Event::Tick(Victim::Node(number)));
    }

    /// Jobs that nobody moves on although nothing goes wrong any more.
    pub(super) fn stuck_admissions(&self) -> Vec<Broken> {
        let Some(core) = self.leader().and_then(|number| self.servers[number].core()) else { return Vec::new() };
        let cell = core.replica().cell();
        let active = cell.jobs().iter().filter(|job| job.state == ohm_cell::JobState::Active);
        let stuck = active.filter_map(|job| {
            let late = |since_ms: u64| since_ms + SETTLED_MS < cell.now_ms();
            let round = job.admission.round.as_ref();
            let what = match cell.standing(job) {
                Standing::Checking if round.is_some_and(|round| late(round.since_ms)) => "its checks",
                Standing::BackOff(due_ms) if late(due_ms) => "another attempt",
                _ => return None,
            };
            Some(Broken { promise: "P10", what: format!("job {} waits for {what} for ever", job.spec.name) })
        });
        stuck.collect()
    }
}

fn answer_of(course: Course) -> Answer {
    if course.pending > 0 {
        return Answer::of(AnswerState::Pending, format!("{} more", course.pending));
    }
    if course.fails {
        return Answer::of(AnswerState::Failed, "none left");
    }
    let mut answer = Answer::of(AnswerState::Ready, "");
    let toleration = TolerationWords { key: POOL.into(), operator: Some("Exists".into()), ..Default::default() };
    answer.tolerations.push(toleration);
    if course.narrows {
        answer.node_selector.insert(POOL.into(), "spot".into());
    }
    answer
}
