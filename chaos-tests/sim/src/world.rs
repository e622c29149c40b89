//! The world: everybody in one cell, and what goes wrong. It takes one event after the other from the agenda and hands
//! it to whom it concerns.

mod begin;
mod end;
mod records;
mod strike;

use crate::aim::aim;
use crate::faults::{Fault, Victim};
use crate::operator::Operator;
use crate::report::Report;
use crate::role::Role;
use crate::roles::{NodeProcess, Roles};
use crate::scenario::Scenario;
use crate::script;
use crate::stage::{Event, Stage};
use ohm_agent::DriverInput;
use ohm_model::{Command, Index};
use ohm_oracle::{Broken, Oracle};
use ohm_replica::ServerInput;

/// A cell in virtual time.
pub struct World {
    scenario: Scenario,
    stage: Stage,
    roles: Roles,
    operator: Operator,
    faults: Vec<(u64, Fault)>,
    asks: Vec<(u64, Command)>,
    /// Up to which entry was looked for something to aim at.
    aimed: Index,
    oracle: Oracle,
    digest: u64,
}

/// Runs a scenario from its seed.
pub fn run(scenario: &Scenario) -> Report {
    World::new(scenario.clone()).run()
}

impl World {
    fn run(mut self) -> Report {
        self.begin();
        let faults_ms = self.stage.knobs.faults_ms;
        self.run_until(faults_ms);
        self.heal();
        self.run_until(faults_ms + self.stage.knobs.quiet_ms);
        self.finish()
    }

    fn run_until(&mut self, until_ms: u64) {
        while self.stage.failed.is_none()
            && self.stage.report.broken.is_empty()
            && let Some(event) = self.stage.agenda.next(until_ms)
        {
            match self.target_of(&event) {
                Some(victim) if self.roles.get(victim).shell().stands_still(self.stage.now_ms()) => {
                    self.hold(victim, event);
                }
                _ => {
                    self.happen(event);
                    self.settle();
                }
            }
        }
        if let Some(broken) = self.stage.failed.take() {
            self.stage.note(|| broken.to_string());
            self.stage.report.broken.push(broken);
        }
    }

    /// Whom the event is for, if it waits while that one stands still.
    fn target_of(&self, event: &Event) -> Option<Victim> {
        let connections = &self.stage.connections;
        let server_of = |connection: &u64| {
            let known = connections.get(connection).map(|known| known.server);
            known.or_else(|| self.stage.late.get(connection).map(|(server, _)| *server)).map(Victim::Server)
        };
        match event {
            Event::Tick(victim) | Event::GoOn(victim) | Event::Connect(victim) => Some(*victim),
            Event::ProcessLoses { victim, .. } => Some(*victim),
            Event::Outside { provisioner, .. } => Some(Victim::Provisioner(*provisioner)),
            Event::Flush { server, .. } | Event::ServerLoses { server, .. } | Event::Encoded { server, .. } => {
                Some(Victim::Server(*server))
            }
            Event::Between { to, .. } => Some(Victim::Server(*to)),
            Event::Unreachable { from, .. } => Some(Victim::Server(*from)),
            Event::ToServer { connection, .. } => server_of(connection),
            Event::FromServer { connection, .. } => connections.get(connection).map(|known| known.victim),
            _ => None,
        }
    }

    /// What arrives at a process that stands still waits in order, as in its sockets.
    fn hold(&mut self, victim: Victim, event: Event) {
        let shell = self.roles.get(victim).shell_mut();
        let (until_ms, held) = (shell.paused_until_ms, shell.held.get_or_insert_default());
        if held.is_empty() {
            self.stage.agenda.at(until_ms, Event::Wake(victim));
        }
        held.push_back(event);
    }

    fn wake(&mut self, victim: Victim) {
        loop {
            let shell = self.roles.get(victim).shell_mut();
            let until_ms = shell.paused_until_ms;
            let Some(held) = &mut shell.held else { return };
            if until_ms > self.stage.now_ms() {
                return self.stage.agenda.at(until_ms, Event::Wake(victim));
            }
            match held.pop_front() {
                Some(event) => {
                    self.happen(event);
                    self.settle();
                }
                None => shell.held = None,
            }
        }
    }

    fn happen(&mut self, event: Event) {
        let (roles, stage) = (&mut self.roles, &mut self.stage);
        match event {
            Event::Tick(victim) => roles.get(victim).tick(stage),
            Event::GoOn(victim) => roles.get(victim).go_on(stage),
            Event::Connect(victim) => self.connect(victim),
            Event::Restart(victim) => self.restart(victim),
            Event::Wake(victim) => self.wake(victim),
            Event::ProcessLoses { victim, connection } => self.process_loses(victim, connection),
            Event::FromServer { connection, down } => {
                if let Some(known) = stage.connections.get(&connection) {
                    roles.get(known.victim).hear(connection, down, stage);
                }
            }
            Event::ToServer { connection, up } => {
                if let Some((server, starts)) = stage.reached_by(connection) {
                    roles.servers[server].reach(connection, starts, up, stage);
                }
            }
            Event::Flush { server, starts } => roles.servers[server].flush(starts, stage),
            Event::Between { from, to, bytes } => {
                if !stage.is_cut_between(from, to) {
                    roles.servers[to].reach_from(from, bytes, stage);
                }
            }
            Event::Unreachable { from, to } => roles.servers[from].miss(to, stage),
            Event::ServerLoses { connection, server, starts } => {
                stage.late.remove(&connection);
                roles.servers[server].lose(connection, starts, stage);
            }
            Event::Encoded { server, starts, purpose, index, pieces } => {
                if starts == roles.servers[server].shell().starts {
                    roles.servers[server].step(ServerInput::Encoded { purpose, index, pieces }, stage);
                }
            }
            Event::DiskRoom { server, starts } => roles.servers[server].give_disk_room(starts),
            Event::DiskDeadline { server, starts } => roles.servers[server].end_doomed(starts, stage),
            Event::Outside { provisioner, starts, answered } => {
                roles.provisioners[provisioner].answered(starts, answered, stage);
            }
            Event::Driver { node } => roles.nodes[node].run_driver(stage),
            // The tasks of a job end by themselves, wherever they are.
            Event::Finish(job) => {
                roles.nodes.iter_mut().for_each(|node| node.drive_tasks(DriverInput::Finish { job }, stage));
            }
            Event::Ask(command) => roles.clients[0].request(*command, stage),
            Event::Stop(stop) => self.stop(stop),
            Event::Lift { until_ms } => self.lift(until_ms),
            Event::Operate => self.operator.look(roles, stage),
            Event::Read => self.read(),
            Event::TakeBack { node } => roles.nodes[node].take_back(stage),
            Event::Strike(fault) => self.strike(fault),
        }
        for newcomer in self.stage.newcomers.drain(..) {
            let number = self.roles.nodes.len();
            self.roles.nodes.push(NodeProcess::new(number, newcomer, self.stage.knobs.tasks()));
        }
    }

    fn restart(&mut self, victim: Victim) {
        let (role, stage) = (self.roles.get(victim), &mut self.stage);
        if role.is_up() || role.shell().over {
            return;
        }
        let mut dice = stage.dice.fork();
        stage.note(|| format!("{} starts", script::name(victim)));
        role.start(&mut dice, stage);
    }

    /// One attempt to connect; goes on until it works.
    fn connect(&mut self, victim: Victim) {
        let (roles, stage) = (&mut self.roles, &mut self.stage);
        let role = roles.get(victim);
        if !role.is_up() || role.shell().connection.is_some() {
            return;
        }
        let now_ms = stage.now_ms();
        let ready = roles.servers_where(|number, server| {
            let is_cut = stage.is_cut(victim, number, true) || stage.is_cut(victim, number, false);
            server.caught_up && server.shell().paused_until_ms <= now_ms && !is_cut
        });
        let Some(&server) = stage.dice.pick(&ready) else {
            let again_ms = stage.dice.between(50, 400);
            return stage.agenda.after(again_ms, Event::Connect(victim));
        };
        let connection = stage.open_connection(victim, server, roles.servers[server].shell().starts);
        stage.note(|| format!("{} connects", script::name(victim)));
        let role = roles.get(victim);
        role.shell_mut().connection = Some(connection);
        role.connected(connection, stage);
    }

    fn process_loses(&mut self, victim: Victim, connection: u64) {
        let (role, stage) = (self.roles.get(victim), &mut self.stage);
        if role.shell().connection != Some(connection) || !role.is_up() {
            return;
        }
        role.shell_mut().connection = None;
        stage.note(|| format!("{} loses its connection", script::name(victim)));
        role.disconnected(stage);
        let again_ms = stage.dice.between(10, 300);
        stage.agenda.after(again_ms, Event::Connect(victim));
    }

    /// Somebody reads over one server.
    fn read(&mut self) {
        let stage = &mut self.stage;
        let again_ms = stage.readers.dice.between(50, stage.knobs.theme.read_pause_ms());
        stage.agenda.after(again_ms, Event::Read);
        let now_ms = stage.now_ms();
        let is_ready =
            |_, server: &crate::roles::ServerProcess| server.caught_up && !server.shell().stands_still(now_ms);
        let ready = self.roles.servers_where(is_ready);
        if let Some(&server) = stage.readers.dice.pick(&ready) {
            let request = stage.readers.ask(server);
            self.roles.servers[server].step(ServerInput::Read { request }, stage);
        }
    }

    /// Hands the history on to the oracle and mixes it into the digest.
    fn settle(&mut self) {
        if self.stage.history.is_empty() {
            return;
        }
        let history = std::mem::take(&mut self.stage.history);
        for record in &history {
            self.digest = records::fold(self.digest, record);
            self.stage.report.note(record);
            if self.scenario.trace
                && let Some(text) = records::summary(record)
            {
                self.stage.note(|| text);
            }
            self.oracle.watch(record);
        }
        aim(&history, &mut self.aimed, &self.roles, &mut self.stage);
        if !self.oracle.broken().is_empty() && self.stage.failed.is_none() {
            self.stage.failed = Some(Broken { promise: "oracle", what: "the run ends here".into() });
        }
    }
}
