//! One millisecond of the world, the faults that happen in it, and what must hold after it.

use super::cell::{TASKS_PER_NODE, keeps};
use super::{Change, FAULTS, FAULTS_END_MS, Message, World};
use ohm_agent::{AgentEffect, AgentInput, BeatAnswer, DriverInput};
use ohm_client::{LeaseSeen, Member, MemberEffect, SessionInput};
use ohm_health::{BeatMark, DutyWord, HealthEffect, HealthInput, NodeSeen};
use ohm_model::{Command, Lease, NodeConclusion, NodeHealth, NodeId};
use std::collections::BTreeMap;

impl World {
    pub(crate) fn step(&mut self) {
        if self.now_ms < FAULTS_END_MS {
            self.disturb();
        } else if self.now_ms == FAULTS_END_MS {
            self.heal();
        }
        while let Some(message) = self.arrived() {
            self.deliver(message);
        }
        self.show();
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        for &id in &ids {
            self.run_node(id);
        }
        for number in 0..self.candidates.len() {
            self.run_candidate(number);
        }
        if self.now_ms.is_multiple_of(250) {
            ids.iter().for_each(|&id| self.push_wanted(id));
        }
        self.check();
        self.now_ms += 1;
    }

    fn disturb(&mut self) {
        for fault in 0..FAULTS {
            if self.dice.below(10_000) < self.rates[fault] {
                let id = NodeId(self.dice.below(self.nodes.len() as u64) as u32);
                let number = self.dice.below(self.candidates.len() as u64) as usize;
                self.strike(fault, id, number);
            }
        }
    }

    fn strike(&mut self, fault: usize, id: NodeId, number: usize) {
        match fault {
            0 => drop(self.cut_from.insert(id)),
            1 => drop(self.cut_to.insert(id)),
            2 => {
                self.cut_from.clear();
                self.cut_to.clear();
            }
            3 => {
                let until_ms = self.now_ms + self.dice.below(5000);
                self.nodes.entry(id).and_modify(|node| node.paused_until_ms = until_ms);
            }
            4 => self.candidates[number].paused_until_ms = self.now_ms + self.dice.below(3000),
            5 => self.restart_agent(id),
            6 => self.restart_candidate(number),
            7 => self.cell.evict_one(),
            8 => self.tell_agent(id, AgentInput::Disconnected),
            _ => self.tell_agent(id, AgentInput::Connected),
        }
    }

    fn restart_candidate(&mut self, number: usize) {
        self.candidates[number] = self.candidate();
        let nodes = self.shown_nodes.iter().map(|(&id, &node)| (id, node)).collect();
        let laid = (self.cell.lease_bound_ms, self.cell.held);
        let change = Change { nodes, duty: self.cell.duty, laid };
        self.candidates[number].copies.push_back((self.now_ms, change));
        self.tell_member(number, SessionInput::Connected);
    }

    fn heal(&mut self) {
        (self.loss_permille, self.delay_ms_max, self.lag_ms_max) = (0, 5, 10);
        self.cut_from.clear();
        self.cut_to.clear();
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        for id in ids {
            self.nodes.entry(id).and_modify(|node| node.paused_until_ms = 0);
            self.tell_agent(id, AgentInput::Connected);
        }
        for number in 0..self.candidates.len() {
            self.candidates[number].paused_until_ms = 0;
            self.tell_member(number, SessionInput::Connected);
        }
    }

    fn restart_agent(&mut self, id: NodeId) {
        let agent = self.agent();
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.agent = agent;
        node.inbox.clear();
        self.tell_agent(id, AgentInput::Connected);
        self.drive(id, DriverInput::Attach);
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Ask(number, envelope) => {
                let outcome = self.cell.apply(&envelope);
                let input = match (&envelope.command, outcome) {
                    (Command::OpenSession { nonce, .. }, outcome) => {
                        SessionInput::OpenAnswer { nonce: *nonce, outcome }
                    }
                    (_, outcome) => {
                        SessionInput::Answer { session: envelope.session, sequence: envelope.sequence, outcome }
                    }
                };
                self.send(None, Message::Tell(number, input));
            }
            Message::Register(id, instance) => {
                let input = match self.cell.register(id, instance) {
                    Ok(incarnation) => AgentInput::Registered { instance, node: id, incarnation },
                    Err(refusal) => AgentInput::RegisterRefused { instance, refusal },
                };
                self.send(Some(id), Message::ToAgent(id, input));
            }
            Message::Reports(id, batch, reports) => {
                self.cell.report(id, &reports);
                let input = AgentInput::ReportsAccepted { batch, index: self.cell.index };
                self.send(Some(id), Message::ToAgent(id, input));
            }
            Message::ToAgent(id, input) => {
                self.nodes.entry(id).and_modify(|node| node.inbox.push_back(input));
            }
            Message::Tell(number, _) | Message::Beat(number, _) => self.candidates[number].inbox.push_back(message),
        }
    }

    /// Lets every copy know what changed, late but in order, and pushes wanted sets.
    fn show(&mut self) {
        if self.shown_index == self.cell.index.0 {
            return;
        }
        self.shown_index = self.cell.index.0;
        let changed = self.cell.nodes.iter().filter(|(id, node)| self.shown_nodes.get(id) != Some(node));
        let nodes: Vec<_> = changed.map(|(&id, &node)| (id, node)).collect();
        self.shown_nodes = self.cell.nodes.clone();
        let laid = (self.cell.lease_bound_ms, self.cell.held);
        let change = Change { nodes, duty: self.cell.duty, laid };
        for candidate in &mut self.candidates {
            let lag_ms = self.dice.below(self.lag_ms_max);
            candidate.copies.push_back((self.now_ms + lag_ms, change.clone()));
        }
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        ids.into_iter().for_each(|id| self.push_wanted(id));
    }

    /// A server says what is wanted; now and then a stale one repeats an old set.
    fn push_wanted(&mut self, id: NodeId) {
        let Some(set) = self.cell.wanted(id) else { return };
        let stale = self.loss_permille > 0 && self.dice.chance(100);
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let old = node.old_set.replace(set.clone());
        let sent = if stale { old.unwrap_or(set) } else { set };
        let incarnation = sent.node_incarnation;
        self.send(Some(id), Message::ToAgent(id, AgentInput::Wanted(sent)));
        if self.cell.nodes.get(&id).is_some_and(|node| node.health == NodeHealth::Lost) {
            self.send(Some(id), Message::ToAgent(id, AgentInput::RegistrationEnded { incarnation }));
        }
    }

    fn run_node(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get(&id) else { return };
        let local_ms = node.clock.read(self.now_ms);
        if node.driver.due_ms().is_some_and(|due_ms| due_ms <= local_ms) {
            self.drive(id, DriverInput::Tick);
        }
        while let Some(node) = self.nodes.get_mut(&id).filter(|node| node.paused_until_ms <= self.now_ms) {
            match node.inbox.pop_front() {
                Some(input) => self.tell_agent(id, input),
                None if node.agent.due_ms().is_some_and(|due_ms| due_ms <= local_ms) => {
                    return self.tell_agent(id, AgentInput::Tick);
                }
                None => return,
            }
        }
    }

    pub(crate) fn drive(&mut self, id: NodeId, input: DriverInput) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let mut events = Vec::new();
        node.driver.step(node.clock.read(self.now_ms), input, &mut events);
        node.inbox.extend(events.into_iter().map(AgentInput::Runner));
    }

    fn tell_agent(&mut self, id: NodeId, input: AgentInput) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let mut out = Vec::new();
        node.agent.step(node.clock.read(self.now_ms), input, &mut out);
        for effect in out {
            match effect {
                AgentEffect::Register { instance, .. } => self.send(Some(id), Message::Register(id, instance)),
                AgentEffect::Beat { node, incarnation, sequence, .. } => {
                    let beat = BeatMark { node, incarnation, sequence };
                    (0..self.candidates.len()).for_each(|number| self.send(Some(id), Message::Beat(number, beat)));
                    if let Some(answer) = self.own_answer(incarnation, sequence) {
                        self.send(Some(id), Message::ToAgent(id, AgentInput::BeatAnswer(answer)));
                    }
                }
                AgentEffect::StartRun { incarnation, wanted } => {
                    self.drive(id, DriverInput::Start { incarnation, wanted });
                }
                AgentEffect::StopRun { run, grace_ms } => self.drive(id, DriverInput::Stop { run, grace_ms }),
                AgentEffect::Probe(order) => self.drive(id, DriverInput::Probe(order)),
                AgentEffect::ForgetRun { run } => self.drive(id, DriverInput::Forget { run }),
                AgentEffect::WriteLease(file) => self.drive(id, DriverInput::Lease(file)),
                AgentEffect::SendReports { batch, node, reports } => {
                    self.send(Some(id), Message::Reports(node, batch, reports));
                }
                AgentEffect::Superseded => self.restart_agent(id),
                AgentEffect::RegisterRefused(_)
                | AgentEffect::SendConditions { .. }
                | AgentEffect::TellPeers { .. } => {}
            }
        }
    }

    fn run_candidate(&mut self, number: usize) {
        if self.candidates[number].paused_until_ms > self.now_ms {
            return;
        }
        while self.candidates[number].copies.front().is_some_and(|(at_ms, _)| *at_ms <= self.now_ms) {
            let Some((_, change)) = self.candidates[number].copies.pop_front() else { break };
            let seen = |(node, state): &(NodeId, super::NodeState)| {
                let (incarnation, health) = (state.incarnation, state.health);
                NodeSeen { node: *node, incarnation, health, removed: false }
            };
            let nodes = change.nodes.iter().map(seen).collect();
            let (lease_bound_ms, held) = change.laid;
            self.tell_health(number, HealthInput::Laid { lease_bound_ms, held });
            self.tell_health(number, HealthInput::NodesSeen { slots: 8, nodes });
            let super::DutyState { holder, epoch, renewed } = change.duty;
            let seen = LeaseSeen { lease: Lease::Health, holder, epoch, renewed };
            self.with_member(number, |member, now_ms, out| member.see_lease(now_ms, seen, out));
        }
        while let Some(message) = self.candidates[number].inbox.pop_front() {
            match message {
                Message::Tell(_, input) => self.tell_member(number, input),
                Message::Beat(_, beat) => {
                    self.tell_health(number, HealthInput::Beats { relay: 0, beats: vec![beat] });
                }
                _ => {}
            }
        }
        if (self.now_ms + number as u64).is_multiple_of(25) {
            self.tell_member(number, SessionInput::Tick);
            self.tell_health(number, HealthInput::Tick);
        }
    }

    pub(crate) fn tell_member(&mut self, number: usize, input: SessionInput) {
        self.with_member(number, |member, now_ms, out| member.step(now_ms, input, out));
    }

    fn with_member(&mut self, number: usize, tell: impl FnOnce(&mut Member<()>, u64, &mut Vec<MemberEffect<()>>)) {
        let candidate = &mut self.candidates[number];
        let mut out = Vec::new();
        tell(&mut candidate.member, candidate.clock.read(self.now_ms), &mut out);
        for effect in out {
            if let MemberEffect::Send(envelopes) = effect {
                envelopes.into_iter().for_each(|envelope| self.send(None, Message::Ask(number, envelope)));
            }
        }
    }

    fn tell_health(&mut self, number: usize, input: HealthInput) {
        let candidate = &mut self.candidates[number];
        let local_ms = candidate.clock.read(self.now_ms);
        let mut out = Vec::new();
        let held = candidate.member.held(Lease::Health, local_ms);
        candidate.health.step(local_ms, HealthInput::Duty(held), &mut out);
        candidate.health.step(local_ms, input, &mut out);
        for effect in out {
            match effect {
                HealthEffect::Conclude(commands) => {
                    for command in commands {
                        self.check_conclusion(&command);
                        self.with_member(number, |member, now_ms, out| member.submit(now_ms, (), command, out));
                    }
                }
                HealthEffect::Say(DutyWord::Answers { duty_epoch, lease_ms, interval_ms, answers, .. }) => {
                    for BeatMark { node, incarnation, sequence } in answers {
                        let answer =
                            self.answer(BeatAnswer { incarnation, duty_epoch, sequence, lease_ms, interval_ms });
                        self.send(Some(node), Message::ToAgent(node, AgentInput::BeatAnswer(answer)));
                    }
                }
                HealthEffect::Say(DutyWord::BrakeEngaged { .. } | DutyWord::HearsNobody { .. }) => {}
            }
        }
    }

    /// At the very moment a node is concluded lost, nothing that must stop lives there.
    fn check_conclusion(&mut self, command: &Command) {
        let Command::ConcludeNodes { conclusions, .. } = command else { return };
        for NodeConclusion { node, incarnation, .. } in conclusions.iter().filter(|one| one.health == NodeHealth::Lost)
        {
            let present = self.cell.nodes.get(node).map(|state| state.incarnation);
            let Some(here) = self.nodes.get(node).filter(|_| present == Some(*incarnation)) else { continue };
            let alive = here.driver.leased().count();
            if alive > 0 {
                self.violations.push(format!("{} ms: {alive} runs live on lost node {node}", self.now_ms));
            }
        }
    }

    /// No task that must stop has two live runs anywhere.
    fn check(&mut self) {
        let mut live: BTreeMap<u32, u32> = BTreeMap::new();
        for node in self.nodes.values() {
            node.driver.leased().for_each(|run| *live.entry(run.task.task.0).or_default() += 1);
        }
        if let Some((task, count)) = live.into_iter().find(|(_, count)| *count > 1) {
            self.violations.push(format!("{} ms: task {task} lives {count} times", self.now_ms));
        }
    }

    /// What is wrong once faults have been over for a while.
    pub(crate) fn unsettled(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (id, node) in &self.cell.nodes {
            if node.health != NodeHealth::Ready {
                found.push(format!("node {id} is {:?}", node.health));
            }
        }
        let live: Vec<_> = self.nodes.values().flat_map(|node| node.driver.live()).collect();
        let tasks = self.nodes.len() as u32 * TASKS_PER_NODE;
        for task in 0..tasks {
            let wanted = self.cell.runs.keys().filter(|run| run.task.task.0 == task).count();
            let alive = live.iter().filter(|run| run.task.task.0 == task && self.cell.runs.contains_key(run)).count();
            let all = live.iter().filter(|run| run.task.task.0 == task).count();
            if (wanted, alive, all) != (1, 1, 1) {
                let kind = if keeps(task) { "keep" } else { "stop" };
                found.push(format!("task {task} ({kind}): {wanted} wanted, {alive} of them live, {all} live at all"));
            }
        }
        found
    }
}
