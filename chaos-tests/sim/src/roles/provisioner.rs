//! A simulated candidate for the provisioning duty.

use super::follower::{Duty, Follower};
use crate::clocks::Clock;
use crate::faults::Victim;
use crate::outside::POOL;
use crate::script;
use crate::stage::{Event, Newcomer, Stage};
use crate::workload;
use ohm_model::{Taint, TaintEffect};
use ohm_provisioning::{
    AnswerState, Answered, Ask, ProvisionerConfig, ProvisionerCore, ProvisionerInput, Question, Request,
};
use ohm_stdx::Prng;

/// It asks the outside for nodes.
pub(crate) struct Provisioning;

pub(crate) type ProvisionerProcess = Follower<Provisioning>;

impl Duty for Provisioning {
    type Core = ProvisionerCore;
    const NAME: &'static str = "provisioner";
    const TICK_MS: u64 = 40;

    fn victim(number: usize) -> Victim {
        Victim::Provisioner(number)
    }

    fn core(&self, number: usize, starts: u64, stage: &Stage, dice: &mut Prng) -> ProvisionerCore {
        let (name, duty_lease_ms) = (format!("provisioner-{number} #{starts}"), stage.knobs.duty_lease_ms);
        ProvisionerCore::new(ProvisionerConfig { name, duty_lease_ms, resend_ms: 500 }, dice.fork())
    }

    fn perform(follower: &mut ProvisionerProcess, ask: Box<Ask>, stage: &mut Stage) -> Option<ProvisionerInput> {
        let (id, epoch) = (ask.question.id().to_string(), ask.epoch);
        stage.note(|| format!("{} asks for {id}", script::name(follower.victim())));
        if stage.outside.is_over(epoch) {
            stage.fail("P6", format!("{id} is asked under duty {epoch}, which is over"));
            return None;
        }
        if !stage.outside.is_first(&ask) {
            stage.fail("P3", format!("{id} is asked again under duty {epoch} before it was answered"));
            return None;
        }
        let reply = stage.outside.reply(&ask, stage.healed);
        match &ask.question {
            Question::Provision(request) => {
                if reply.answer.state == AnswerState::Ready && !stage.healed && stage.outside.brings_node() {
                    bring_node(request, stage);
                }
            }
            Question::Release(release) if reply.answer.state == AnswerState::Released => {
                let numbers = release.nodes.iter().filter_map(|name| name.strip_prefix('n')?.parse().ok());
                for node in numbers {
                    let after_ms = stage.outside.dice.between(1, 2_000);
                    stage.agenda.after(after_ms, Event::TakeBack { node });
                }
            }
            Question::Release(_) => {}
        }
        let (provisioner, starts) = (follower.number, follower.shell.starts);
        for time in 1..=reply.times {
            let answered = Answered { id: id.clone(), epoch, answer: reply.answer.clone() };
            stage.agenda.after(reply.after_ms * time, Event::Outside { provisioner, starts, answered });
        }
        None
    }
}

impl ProvisionerProcess {
    /// The outside answers what the start `starts` of this process asked.
    pub(crate) fn answered(&mut self, starts: u64, answered: Answered, stage: &mut Stage) {
        stage.outside.answered(&answered);
        if self.shell.starts == starts {
            self.step(ProvisionerInput::Own(answered), stage);
        }
    }
}

/// A node that only those find which were told of it. Most say what they were brought for.
fn bring_node(request: &Request, stage: &mut Stage) {
    let (number, dice) = (stage.nodes, &mut stage.outside.dice);
    let mut spec = workload::node(dice, number, false);
    spec.labels.insert(POOL.into(), "spot".into());
    if dice.chance(700) {
        spec.labels.extend(request.node_labels.clone());
    }
    // Mostly where the lost tasks may go.
    if request.repair && dice.chance(850) {
        spec.labels.extend(request.groups.first().into_iter().flat_map(|group| group.node_selector.clone()));
    }
    spec.taints = vec![Taint { key: POOL.into(), value: "spot".into(), effect: TaintEffect::NoSchedule }];
    if dice.chance(400) {
        spec.taints.clear();
    }
    let key = dice.u64();
    let clock = Clock::drawn(dice, stage.knobs.drift_ppm);
    let after_ms = dice.between(1, 3_000);
    stage.nodes += 1;
    stage.newcomers.push(Newcomer { spec, clock, key });
    stage.agenda.after(after_ms, Event::Restart(Victim::Node(number)));
    stage.agenda.after(after_ms, Event::Tick(Victim::Node(number)));
}
