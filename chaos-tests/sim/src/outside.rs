//! Those who bring nodes: asked by the provisioners, they answer late, twice, with "not yet", with failures, and they
//! take back what they brought. One request is answered alike however often and by whomever it is asked.

use ohm_model::{AdmissionCheck, Command, Epoch, Provisioner, ProvisioningClass, QueueSpec, ResourceGroup};
use ohm_provisioning::{Answer, AnswerState, Answered, Ask, Question, TolerationWords};
use ohm_stdx::{Prng, hash};
use std::collections::{BTreeMap, BTreeSet};

/// The classes that queues of such a cell ask, and the label and taint of what they bring.
const CLASSES: [&str; 2] = ["spot", "slow"];
pub(crate) const POOL: &str = "pool";
/// So many nodes are brought at most.
const BROUGHT_MAX: usize = 4;

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
    pub(crate) dice: Prng,
    courses: BTreeMap<String, Course>,
    /// Requests that were asked under a duty and are not answered.
    waiting: BTreeSet<(String, u64)>,
    brought: usize,
    /// The newest duty that any copy knows of.
    duty: Epoch,
}

/// An answer under way.
pub(crate) struct Reply {
    pub(crate) answer: Answer,
    pub(crate) after_ms: u64,
    /// How often it comes.
    pub(crate) times: u64,
}

impl Outside {
    pub(crate) fn new(seed: u64) -> Self {
        let dice = Prng::new(hash::chain(hash::mix(seed), 0x0075));
        Outside { dice, courses: BTreeMap::new(), waiting: BTreeSet::new(), brought: 0, duty: Epoch(0) }
    }

    /// A copy knows of the provisioning duty of this epoch.
    pub(crate) fn duty_seen(&mut self, epoch: Epoch) {
        self.duty = self.duty.max(epoch);
    }

    /// Whether somebody else has the duty by now.
    pub(crate) fn is_over(&self, epoch: Epoch) -> bool {
        self.duty > epoch
    }

    /// Notes that a request was asked; whether it is the only one of its name under this duty.
    pub(crate) fn is_first(&mut self, ask: &Ask) -> bool {
        self.waiting.insert((ask.question.id().to_string(), ask.epoch.0))
    }

    /// The answer has come.
    pub(crate) fn answered(&mut self, answered: &Answered) {
        self.waiting.remove(&(answered.id.clone(), answered.epoch.0));
    }

    /// What is answered, and when; once the world is `calm` at once and as asked.
    pub(crate) fn reply(&mut self, ask: &Ask, calm: bool) -> Reply {
        let course = self.course_of(ask.question.id(), calm);
        let dice = &mut self.dice;
        let answer = match &ask.question {
            Question::Release(_) if !calm && dice.chance(150) => Answer::of(AnswerState::Failed, "not reached"),
            Question::Release(_) if !calm && dice.chance(150) => Answer::of(AnswerState::Pending, ""),
            Question::Release(_) => Answer::of(AnswerState::Released, ""),
            Question::Provision(request) if request.ready && !calm && dice.chance(80) => {
                Answer::of(AnswerState::Revoked, "taken back")
            }
            Question::Provision(request) if request.ready && !calm && dice.chance(80) => {
                Answer::of(AnswerState::Expired, "given to others")
            }
            Question::Provision(_) => answer_of(course),
        };
        let (after_ms, twice) = match calm {
            true => (10, false),
            false => ([5, 60, 400, 2_500][dice.below(4) as usize] + dice.below(40), dice.chance(150)),
        };
        Reply { answer, after_ms, times: 1 + u64::from(twice) }
    }

    fn course_of(&mut self, id: &str, calm: bool) -> Course {
        let dice = &mut self.dice;
        let known = self.courses.entry(id.to_string());
        let course = known.or_insert_with(|| {
            let fails = dice.chance(200);
            Course { fails, narrows: dice.chance(300), pending: dice.below(3).saturating_sub(1) as u32 * 2 }
        });
        let now = *course;
        course.pending = course.pending.saturating_sub(1);
        if calm { Course { fails: false, pending: 0, ..now } } else { now }
    }

    /// Whether a node is brought now.
    pub(crate) fn brings_node(&mut self) -> bool {
        let brings = self.brought < BROUGHT_MAX && self.dice.chance(400);
        self.brought += usize::from(brings);
        brings
    }
}

/// What is told to a cell besides, and its queues with checks.
pub(crate) fn with_checks(dice: &mut Prng, commands: Vec<Command>) -> Vec<Command> {
    let class = |name: &str| {
        let provisioner = match name {
            "spot" => Provisioner::Command { command: vec!["bring".into()] },
            _ => Provisioner::Sim,
        };
        let mut class = ProvisioningClass::of(name, provisioner);
        class.idle_seconds = 6;
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
pub(crate) fn checked(dice: &mut Prng, spec: QueueSpec) -> QueueSpec {
    let checks = match dice.below(10) {
        0 => vec![],
        1 => vec!["nobody"],
        2 | 3 => CLASSES.to_vec(),
        4 => vec!["slow"],
        _ => vec!["spot"],
    };
    let nominal = spec.nominal.into_iter().map(|(name, amount)| (name, amount + 4_000)).collect();
    let mut resource_groups = spec.resource_groups;
    for flavor in resource_groups.iter_mut().flat_map(|group| &mut group.flavors) {
        flavor.resources.get_mut("cpu").into_iter().for_each(|quota| quota.nominal += 4_000);
    }
    let admission_checks = checks.into_iter().map(|check| on_flavors(dice, check, &resource_groups)).collect();
    QueueSpec { admission_checks, nominal, resource_groups, ..spec }
}

/// The check, for all jobs or for some flavors of such a queue.
fn on_flavors(dice: &mut Prng, check: &str, groups: &[ResourceGroup]) -> AdmissionCheck {
    let mut check = AdmissionCheck::of(check);
    let names: BTreeSet<&String> = groups.iter().flat_map(|group| &group.flavors).map(|flavor| &flavor.name).collect();
    if !names.is_empty() && dice.chance(700) {
        check.on_flavors = names.into_iter().filter(|_| dice.chance(500)).cloned().collect();
    }
    check
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
