//! The health core: one closed list of inputs, one of effects, one step.

use crate::brake::Brake;
use crate::config::{HealthConfig, Timing};
use crate::watch::{Finding, Watched};
use ohm_client::Held;
use ohm_model::{Command, Epoch, Incarnation, NodeConclusion, NodeHealth, NodeId};
use ohm_stdx::bug::{self, Bug};
use std::collections::{BTreeMap, BTreeSet};

/// A node as the own copy of the cell has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeSeen {
    /// Its slot.
    pub node: NodeId,
    /// Its present registration.
    pub incarnation: Incarnation,
    /// What was concluded so far.
    pub health: NodeHealth,
    /// It is not in the cell any more.
    pub removed: bool,
}

/// One beat: which node, under which registration, its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeatMark {
    /// The node.
    pub node: NodeId,
    /// The registration that sent it.
    pub incarnation: Incarnation,
    /// The agent's number for it.
    pub sequence: u64,
}

/// What a health core is told.
#[derive(Clone, Debug)]
pub enum HealthInput {
    /// Nodes that changed in the own copy. Must be told before the lease is confirmed by the same entries.
    NodesSeen {
        /// One past the highest node slot the cell ever used; never falls.
        slots: u32,
        /// The nodes.
        nodes: Vec<NodeSeen>,
    },
    /// What the own copy has laid down about node leases and the brake. Must be told before the lease is confirmed by
    /// the same entries: so whoever holds the duty knows of every lease that an earlier holder may have granted.
    Laid {
        /// The bound of all node leases that may be in force; 0 before the first.
        lease_bound_ms: u64,
        /// Whether conclusions are put off, as far as the cell was told.
        held: bool,
    },
    /// The health lease as the own keeper has it; before every other input, or whenever it changed.
    Duty(Option<Held>),
    /// Beats that a server relays.
    Beats {
        /// Which server or connection; answers go back there.
        relay: u64,
        /// The beats.
        beats: Vec<BeatMark>,
    },
    /// Time passes; several times per second. Conclusions are made on this input only.
    Tick,
}

/// What a health core wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthEffect {
    /// To the log, in one entry if possible. What is not taken now is asked for again later.
    Conclude(Vec<Command>),
    /// Not to the log.
    Say(DutyWord),
}

/// What the holder of the duty says besides its conclusions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DutyWord {
    /// To be relayed to the agents.
    Answers {
        /// Where the beats came from.
        relay: u64,
        /// The epoch of the duty.
        duty_epoch: Epoch,
        /// The lease granted, from the sending of each beat.
        lease_ms: u64,
        /// The wished time between two beats.
        interval_ms: u64,
        /// The beats answered.
        answers: Vec<BeatMark>,
    },
    /// Not one beat of any node comes, so the fault is most likely on the way: connect anew.
    HearsNobody {
        /// For how long.
        silent_ms: u64,
        /// How many nodes there are that should beat.
        nodes: usize,
    },
    /// Very many nodes are missing at once; conclusions wait for a while. Said once per time.
    BrakeEngaged {
        /// How many are missing.
        count: usize,
    },
}

/// No patience with silence is longer.
const PATIENCE_MS_MAX: u64 = 600_000;

/// The duty, while its lease runs here.
#[derive(Clone, Copy, Debug)]
struct Duty {
    held: Held,
    /// The watch began here; nobody is judged by what happened before.
    since_ms: u64,
}

/// One candidate for the health duty.
///
/// ```text
///   Watching nothing ──Duty(held)──▶ Watching ──lease ran out, or another epoch──▶ Watching nothing
/// ```
#[derive(Clone, Debug)]
pub struct HealthCore {
    config: HealthConfig,
    timing: Timing,
    slots: u32,
    /// As the own copy has it: the bound of node leases, and whether conclusions are put off.
    lease_bound_ms: u64,
    held: bool,
    /// Earlier, the bound or the brake is not spoken of again.
    speak_ms: u64,
    duty: Option<Duty>,
    nodes: BTreeMap<NodeId, Watched>,
    /// When to look at which node again; one place per node. A beat does not move the place, the look does.
    agenda: BTreeSet<(u64, NodeId)>,
    /// Nodes that are not lost, and how many of them are silent.
    watched: usize,
    missing: usize,
    brake: Brake,
    gather_until_ms: Option<u64>,
    last_tick_ms: u64,
    stalled: bool,
    /// For how long no beat came, while this process ran and held the duty.
    silent_ms: u64,
    /// For how long none may come before it is said: twice as long each time, lest a holder that looks for ways all the
    /// time never judges.
    patience_ms: u64,
}

impl HealthCore {
    /// A candidate that knows no node yet.
    pub fn new(config: HealthConfig) -> Self {
        HealthCore {
            timing: config.bounded(0, 0),
            patience_ms: config.deaf_ms,
            config,
            slots: 0,
            lease_bound_ms: 0,
            held: false,
            speak_ms: 0,
            duty: None,
            nodes: BTreeMap::new(),
            agenda: BTreeSet::new(),
            watched: 0,
            missing: 0,
            brake: Brake::Off,
            gather_until_ms: None,
            last_tick_ms: 0,
            stalled: false,
            silent_ms: 0,
        }
    }

    /// The next moment at which `Tick` has something to do; none without the duty.
    pub fn due_ms(&self) -> Option<u64> {
        self.duty?;
        self.agenda.first().map(|(due_ms, _)| *due_ms)
    }

    /// How many nodes are silent, of how many that are not lost. For metrics.
    pub fn missing(&self) -> (usize, usize) {
        (self.missing, self.watched)
    }

    /// Takes one input at `now_ms` of the own monotonic clock, which must have been read after the input arrived.
    pub fn step(&mut self, now_ms: u64, input: HealthInput, out: &mut Vec<HealthEffect>) {
        // First of all: a lease that ran out here ends the watch, so that nothing below can act on it.
        if self.duty.is_some_and(|duty| duty.held.until_ms <= now_ms) {
            self.end_watch();
        }
        match input {
            HealthInput::NodesSeen { slots, nodes } => {
                self.slots = self.slots.max(slots);
                self.timing = self.config.bounded(self.slots, self.lease_bound_ms);
                nodes.into_iter().for_each(|seen| self.on_node(now_ms, seen));
            }
            HealthInput::Laid { lease_bound_ms, held } => {
                // What was asked for has come true, or somebody else's wish: the next may be said at once.
                if (self.lease_bound_ms, self.held) != (lease_bound_ms, held) {
                    self.speak_ms = now_ms;
                }
                (self.lease_bound_ms, self.held) = (lease_bound_ms, held);
                self.timing = self.config.bounded(self.slots, lease_bound_ms);
            }
            HealthInput::Duty(held) => self.on_duty(now_ms, held),
            HealthInput::Beats { relay, beats } => self.on_beats(now_ms, relay, beats, out),
            HealthInput::Tick => self.on_tick(now_ms, out),
        }
    }

    fn on_duty(&mut self, now_ms: u64, held: Option<Held>) {
        match (&mut self.duty, held.filter(|held| now_ms < held.until_ms)) {
            (_, None) => self.end_watch(),
            (Some(duty), Some(held)) if duty.held.epoch == held.epoch => duty.held = held,
            (_, Some(held)) => {
                self.end_watch();
                self.begin_watch(now_ms, held);
            }
        }
    }

    fn end_watch(&mut self) {
        self.duty = None;
        self.agenda.clear();
        self.nodes.values_mut().for_each(|node| node.due_ms = None);
        (self.missing, self.brake, self.gather_until_ms) = (0, Brake::Off, None);
    }

    /// Also after the smallest gap in the lease: beats that nobody answered in the gap must not count against nodes.
    fn begin_watch(&mut self, now_ms: u64, held: Held) {
        self.duty = Some(Duty { held, since_ms: now_ms });
        (self.last_tick_ms, self.stalled, self.speak_ms) = (now_ms, false, now_ms);
        self.silent_ms = 0;
        let first_look_ms = now_ms.saturating_add(self.timing.suspect_ms);
        for (&id, node) in &mut self.nodes {
            node.begin(held.epoch);
            if node.health != NodeHealth::Lost {
                let due_ms = if node.condemned.is_some() { now_ms } else { first_look_ms };
                node.due_ms = Some(due_ms);
                self.agenda.insert((due_ms, id));
            }
        }
    }

    fn on_node(&mut self, now_ms: u64, seen: NodeSeen) {
        let known = self.nodes.get(&seen.node).map(|node| (node.incarnation, node.health));
        match known {
            _ if seen.removed => return self.forget(seen.node),
            Some((incarnation, _)) if incarnation > seen.incarnation => return,
            Some((incarnation, health)) if incarnation == seen.incarnation => {
                if health == seen.health {
                    return;
                }
                // A lost registration does not come back; if a cell says otherwise, it is watched like a new one.
                if health != NodeHealth::Lost && seen.health != NodeHealth::Lost {
                    if let Some(node) = self.nodes.get_mut(&seen.node) {
                        node.health = seen.health;
                    }
                    return self.look_again(seen.node, now_ms);
                }
            }
            _ => {}
        }
        self.forget(seen.node);
        self.nodes.insert(seen.node, Watched::new(seen.incarnation, seen.health, now_ms));
        if seen.health != NodeHealth::Lost {
            self.watched += 1;
            self.look_again(seen.node, now_ms);
        }
    }

    fn forget(&mut self, id: NodeId) {
        let Some(node) = self.nodes.remove(&id) else { return };
        if let Some(due_ms) = node.due_ms {
            self.agenda.remove(&(due_ms, id));
        }
        self.missing -= usize::from(node.missing && self.duty.is_some());
        self.watched -= usize::from(node.health != NodeHealth::Lost);
    }

    /// Moves a node's place in the agenda to `due_ms`.
    fn look_again(&mut self, id: NodeId, due_ms: u64) {
        let Some(node) = self.nodes.get_mut(&id).filter(|_| self.duty.is_some()) else { return };
        if let Some(before_ms) = node.due_ms.replace(due_ms) {
            self.agenda.remove(&(before_ms, id));
        }
        self.agenda.insert((due_ms, id));
    }

    fn on_beats(&mut self, now_ms: u64, relay: u64, beats: Vec<BeatMark>, out: &mut Vec<HealthEffect>) {
        let Some(Duty { held, .. }) = self.duty.filter(|_| self.timing.lease_ms > 0) else { return };
        if !beats.is_empty() {
            (self.silent_ms, self.patience_ms) = (0, self.config.deaf_ms);
        }
        let mut answers = Vec::with_capacity(beats.len());
        for beat in beats {
            let Some(node) = self.nodes.get_mut(&beat.node) else { continue };
            if !node.may_answer(beat.incarnation) {
                continue;
            }
            node.alive_ms = now_ms;
            answers.push(beat);
            let changed = node.missing || (!node.has_beaten && node.health != NodeHealth::Ready);
            self.missing -= usize::from(node.missing);
            (node.has_beaten, node.missing) = (true, false);
            if changed {
                self.look_again(beat.node, now_ms);
            }
        }
        if !answers.is_empty() {
            let Timing { lease_ms, interval_ms, .. } = self.timing;
            let answers = DutyWord::Answers { relay, duty_epoch: held.epoch, lease_ms, interval_ms, answers };
            out.push(HealthEffect::Say(answers));
        }
    }

    fn on_tick(&mut self, now_ms: u64, out: &mut Vec<HealthEffect>) {
        // After a stall of this very process beats wait to be read: they are heard before anybody is judged. Put off
        // once only, lest a slow process never judges.
        let passed_ms = now_ms.saturating_sub(self.last_tick_ms);
        let late = passed_ms >= self.config.beat_interval_ms;
        self.last_tick_ms = now_ms;
        self.stalled = late && !self.stalled;
        // What passed while this process stood still says nothing about others.
        self.listen(if late { 0 } else { passed_ms }, out);
        self.brake.relax(self.missing, self.watched, &self.config);
        self.speak(now_ms, out);
        let Some(duty) = self.duty.filter(|_| !self.stalled) else { return };
        let mut conclusions = Vec::new();
        while conclusions.len() < self.config.conclusions_max {
            let Some(&(due_ms, id)) = self.agenda.first() else { break };
            if due_ms > now_ms {
                break;
            }
            self.agenda.pop_first();
            let conclusion = self.judge(now_ms, duty, id, out);
            conclusions.extend(conclusion);
        }
        let all_judged = self.agenda.first().is_none_or(|(due_ms, _)| *due_ms > now_ms);
        if all_judged && self.gather_until_ms.is_some_and(|until_ms| until_ms <= now_ms) {
            self.gather_until_ms = None;
        }
        if !conclusions.is_empty() {
            let epoch = duty.held.epoch;
            out.push(HealthEffect::Conclude(vec![Command::ConcludeNodes { epoch, conclusions }]));
        }
    }

    /// Another `passed_ms` went by.
    fn listen(&mut self, passed_ms: u64, out: &mut Vec<HealthEffect>) {
        if self.duty.is_none() || self.watched == 0 {
            self.silent_ms = 0;
            return;
        }
        self.silent_ms += passed_ms;
        if self.silent_ms >= self.patience_ms {
            self.patience_ms = (self.patience_ms * 2).min(PATIENCE_MS_MAX);
            let silent_ms = std::mem::take(&mut self.silent_ms);
            out.push(HealthEffect::Say(DutyWord::HearsNobody { silent_ms, nodes: self.watched }));
        }
    }

    /// Says what the cell must know: a longer bound of leases before one is granted, a shorter one when the longer have
    /// all run out, and whether conclusions are put off.
    fn speak(&mut self, now_ms: u64, out: &mut Vec<HealthEffect>) {
        let Some(duty) = self.duty.filter(|_| self.speak_ms <= now_ms) else { return };
        let (epoch, seen_ms) = (duty.held.epoch, self.lease_bound_ms);
        let Timing { lease_ms, interval_ms, .. } = self.config.timing(self.slots);
        let run_out = now_ms.saturating_sub(duty.since_ms) >= self.timing.lost_ms;
        let mut commands = Vec::new();
        let differs = lease_ms > seen_ms || (lease_ms < seen_ms && run_out);
        if differs && !(seen_ms > 0 && bug::is_planted(Bug::UnboundLease)) {
            let take_over = self.config.take_over(interval_ms);
            commands.push(Command::BoundNodeLease { epoch, seen_ms, lease_ms, take_over });
        }
        let holds = matches!(self.brake, Brake::On { .. });
        if holds != self.held {
            let silent = if holds { u32::try_from(self.missing).unwrap_or(u32::MAX).max(1) } else { 0 };
            commands.push(Command::HoldConclusions { epoch, silent, brake_ms: self.config.brake_ms });
        }
        if !commands.is_empty() {
            self.speak_ms = now_ms.saturating_add(self.config.retry_ms.max(1));
            out.push(HealthEffect::Conclude(commands));
        }
    }

    /// Looks at one node, says what there is to conclude, and puts it back into the agenda.
    fn judge(&mut self, now_ms: u64, duty: Duty, id: NodeId, out: &mut Vec<HealthEffect>) -> Option<NodeConclusion> {
        let (timing, retry_ms) = (self.timing, self.config.retry_ms.max(1));
        let node = self.nodes.get_mut(&id)?;
        let mut finding = node.find(now_ms, duty.since_ms, &timing);
        if matches!(finding, Finding::Missing | Finding::Overdue) && !node.missing {
            node.missing = true;
            self.missing += 1;
        }
        let mut wait_until_ms = None;
        if finding == Finding::Overdue {
            wait_until_ms = self.hold_back(now_ms, out);
            if wait_until_ms.is_none() {
                finding = Finding::Condemned;
            }
        }
        let node = self.nodes.get_mut(&id)?;
        let epoch = duty.held.epoch;
        let wished = match finding {
            Finding::Unknown => node.health,
            Finding::Ready => NodeHealth::Ready,
            Finding::Missing | Finding::Overdue => NodeHealth::Suspect,
            Finding::Condemned => {
                // From here on its beats are not answered: the conclusion cannot be called back.
                node.condemned = Some(epoch);
                NodeHealth::Lost
            }
        };
        let asked = node.ask(now_ms, wished, retry_ms);
        let next_ms = wait_until_ms.unwrap_or_else(|| node.next_ms(finding, duty.since_ms, &timing));
        let retry_at_ms = match node.asked {
            Some((_, at_ms)) if node.health != wished => at_ms.saturating_add(retry_ms),
            _ => u64::MAX,
        };
        let due_ms = next_ms.min(retry_at_ms).max(now_ms.saturating_add(1));
        node.due_ms = Some(due_ms);
        self.agenda.insert((due_ms, id));
        let incarnation = node.incarnation;
        asked.then_some(NodeConclusion { node: id, incarnation, health: wished })
    }

    /// Until when a node that is overdue has to wait: for the brake, and for others that fail together with it.
    fn hold_back(&mut self, now_ms: u64, out: &mut Vec<HealthEffect>) -> Option<u64> {
        let (wait_until_ms, engaged) = self.brake.check(now_ms, self.missing, self.watched, &self.config);
        if engaged {
            out.push(HealthEffect::Say(DutyWord::BrakeEngaged { count: self.missing }));
        }
        if let Some(until_ms) = wait_until_ms {
            // Looked at now and then, because the brake comes off when the others are back.
            return Some(until_ms.min(now_ms.saturating_add(self.config.retry_ms.max(1))));
        }
        let gather_ms = self.config.gather_ms;
        let until_ms = *self.gather_until_ms.get_or_insert(now_ms.saturating_add(gather_ms));
        (now_ms < until_ms).then_some(until_ms)
    }
}
