//! Faults strike.

use super::World;
use crate::faults::{Fault, Victim, Way};
use crate::role::Role;
use crate::script;
use crate::stage::{Event, Up};
use crate::workload;
use ohm_agent::BeatAnswer;
use ohm_model::Lease;
use ohm_oracle::Record;
use ohm_replica::NEAR_MS;

/// Of how many nodes a stranger answers beats, and how many beats of each; the leases it gives.
const STRANGE_NODES_MAX: usize = 16;
const STRANGE_BEATS: u64 = 300;
const ENDLESS_MS: u64 = 3_600_000;
/// For so long others may go by what a server said of its clock, its way included.
const SAID_MS: u64 = 15_000;

impl World {
    pub(super) fn strike(&mut self, fault: Fault) {
        if self.stage.healed {
            return;
        }
        if !self.is_there(&fault) {
            return self.stage.fail("scenario", format!("nobody to strike: {}", script::fault_words(&fault)));
        }
        let fault = fault.with_server(|server| self.operator.stands_for(server));
        if fault.server().is_some_and(|server| self.roles.servers[server].shell().over)
            || !self.operator.may_change(&fault, &self.roles)
        {
            return;
        }
        self.stage.count(fault.kind());
        self.stage.note(|| script::fault_words(&fault));
        let (roles, stage) = (&mut self.roles, &mut self.stage);
        let now_ms = stage.now_ms();
        match fault {
            Fault::Crash { victim: Victim::Server(server), down_ms } => {
                roles.servers[server].crash(down_ms, false, stage);
            }
            Fault::Crash { victim, down_ms } => {
                roles.get(victim).kill(stage);
                stage.agenda.after(down_ms, Event::Restart(victim));
            }
            Fault::Amnesia { client, down_ms } => {
                roles.clients[client].kill(stage);
                roles.clients[client].forget_requests();
                stage.agenda.after(down_ms, Event::Restart(Victim::Client(client)));
            }
            // What waits for a paused process comes when it wakes, so a pause is never cut short later.
            Fault::Pause { victim, for_ms } => {
                roles.get(victim).shell_mut().pause((now_ms + for_ms).min(stage.knobs.faults_ms));
            }
            Fault::Stranger { for_ms } => self.strange_health(for_ms),
            Fault::Freeze { for_ms } => {
                let until_ms = (now_ms + for_ms).min(stage.knobs.faults_ms);
                roles.health.iter_mut().for_each(|candidate| candidate.shell_mut().pause(until_ms));
            }
            Fault::Reboot { node, .. }
            | Fault::Wipe { node, .. }
            | Fault::Ail { node, .. }
            | Fault::Respec { node, .. } => self.strike_node(node, fault),
            Fault::LostDisk { .. }
            | Fault::LostLog { .. }
            | Fault::CutLog { .. }
            | Fault::Retire { .. }
            | Fault::AddServer
            | Fault::Transfer { .. } => {
                self.operator.change(fault, roles, stage);
            }
            Fault::ClockJump { server, by_ms } => self.set_clock(now_ms, server, by_ms),
            Fault::PowerLoss { server, .. }
            | Fault::FullDisk { server, .. }
            | Fault::SlowDisk { server, .. }
            | Fault::FailedDisk { server, .. }
            | Fault::BitRot { server, .. } => roles.servers[server].strike_disk(fault, stage),
            Fault::Cut { .. } | Fault::Split { .. } | Fault::Depose { .. } | Fault::Storm { .. } => {
                self.strike_network(fault, now_ms);
            }
        }
    }

    fn set_clock(&mut self, now_ms: u64, server: usize, by_ms: i64) {
        let (roles, stage) = (&mut self.roles, &mut self.stage);
        let clock = &mut roles.servers[server].shell_mut().clock;
        stage.shown_clocks.push((now_ms, server, clock.wall_ahead_ms(now_ms)));
        clock.jump(by_ms);
        stage.shown_clocks.retain(|(at_ms, ..)| at_ms + SAID_MS > now_ms);
        let servers = roles.servers.iter().enumerate().filter(|(_, server)| !server.shell().over);
        let now = servers.map(|(number, server)| (number, server.shell().clock.wall_ahead_ms(now_ms)));
        let before = stage.shown_clocks.iter().map(|(_, number, offset_ms)| (*number, *offset_ms));
        if agree_ahead(now.chain(before)) {
            stage.history.push(Record::ClocksMoved { at_ms: now_ms });
        }
    }

    fn strike_node(&mut self, node: usize, fault: Fault) {
        let (process, stage) = (&mut self.roles.nodes[node], &mut self.stage);
        match fault {
            Fault::Reboot { down_ms, .. } | Fault::Wipe { down_ms, .. } => {
                process.kill(stage);
                if matches!(fault, Fault::Wipe { .. }) {
                    process.wipe(stage);
                }
                process.reboot(stage);
                stage.agenda.after(down_ms, Event::Restart(Victim::Node(node)));
            }
            Fault::Ail { kind, for_ms, .. } => drop(process.ails.insert(kind, stage.now_ms() + for_ms)),
            Fault::Respec { change, .. } => {
                process.kill(stage);
                workload::change(&mut process.spec, change);
                stage.agenda.after(300, Event::Restart(Victim::Node(node)));
            }
            _ => {}
        }
    }

    fn strike_network(&mut self, fault: Fault, now_ms: u64) {
        let stage = &mut self.stage;
        match fault {
            Fault::Cut { victim, way, for_ms } => drop(stage.cuts.insert(victim, (way, now_ms + for_ms))),
            Fault::Split { one, other, way, for_ms } => {
                if way != Way::Up {
                    stage.splits.insert((one, other), now_ms + for_ms);
                }
                if way != Way::Down {
                    stage.splits.insert((other, one), now_ms + for_ms);
                }
            }
            Fault::Depose { for_ms } => {
                let Some(leader) = self.roles.leader() else { return };
                for other in (0..self.roles.servers.len()).filter(|other| *other != leader) {
                    stage.splits.extend([((leader, other), now_ms + for_ms), ((other, leader), now_ms + for_ms)]);
                }
            }
            Fault::Storm { times, for_ms } => stage.storm = (times, now_ms + for_ms),
            _ => {}
        }
    }

    /// Somebody who has the cell's token and reads the log, but never opened the session of health, attaches with its
    /// number at every server, and answers all beats that may be under way.
    fn strange_health(&mut self, for_ms: u64) {
        let (roles, stage) = (&mut self.roles, &mut self.stage);
        for (number, server) in roles.servers.iter_mut().enumerate() {
            let Some(core) = server.core().filter(|_| !server.shell().over) else { continue };
            let cell = core.replica().cell();
            let lease = cell.sessions().lease(Lease::Health);
            let Some(session) = lease.holder else { continue };
            let duty_epoch = lease.epoch;
            let answer = |(node, incarnation), sequence| {
                (node, BeatAnswer { incarnation, duty_epoch, sequence, lease_ms: ENDLESS_MS, interval_ms: 1_000 })
            };
            let nodes = cell.nodes().iter().map(|(node, record)| (node, record.incarnation)).take(STRANGE_NODES_MAX);
            let answers = nodes.flat_map(|node| (1..STRANGE_BEATS).map(move |beat| answer(node, beat))).collect();
            let starts = server.shell().starts;
            let connection = stage.open_connection(Victim::Client(0), number, starts);
            server.reach(connection, starts, Up::Duty(session, 1), stage);
            server.reach(connection, starts, Up::Answers(answers), stage);
            stage.connections.remove(&connection);
            stage.agenda.after(for_ms, Event::ServerLoses { connection, server: number, starts });
        }
    }

    /// Whether everybody whom the fault strikes exists: a scenario may name anybody.
    fn is_there(&self, fault: &Fault) -> bool {
        let exists = |victim| self.roles.find(victim).is_some();
        match *fault {
            Fault::Crash { victim, .. } | Fault::Pause { victim, .. } | Fault::Cut { victim, .. } => exists(victim),
            Fault::Amnesia { client, .. } => exists(Victim::Client(client)),
            Fault::Reboot { node, .. }
            | Fault::Wipe { node, .. }
            | Fault::Ail { node, .. }
            | Fault::Respec { node, .. } => exists(Victim::Node(node)),
            Fault::Split { one, other, .. } => exists(Victim::Server(one.max(other))),
            Fault::Storm { .. }
            | Fault::Freeze { .. }
            | Fault::Stranger { .. }
            | Fault::AddServer
            | Fault::Depose { .. } => true,
            Fault::LostDisk { server }
            | Fault::LostLog { server, .. }
            | Fault::CutLog { server, .. }
            | Fault::Retire { server }
            | Fault::Transfer { server }
            | Fault::PowerLoss { server, .. }
            | Fault::FullDisk { server, .. }
            | Fault::SlowDisk { server, .. }
            | Fault::FailedDisk { server, .. }
            | Fault::BitRot { server, .. }
            | Fault::ClockJump { server, .. } => exists(Victim::Server(server)),
        }
    }
}

/// Whether the clocks of two servers are ahead of real time and may pass for the same: one alone moves nothing,
/// whatever it shows.
fn agree_ahead(offsets_ms: impl Iterator<Item = (usize, i64)>) -> bool {
    let near_ms = NEAR_MS as i64;
    let ahead: Vec<(usize, i64)> = offsets_ms.filter(|(_, offset_ms)| *offset_ms > near_ms / 2).collect();
    let agrees = |(server, offset_ms): (usize, i64)| {
        ahead.iter().any(|(other, other_ms)| *other != server && (offset_ms - other_ms).abs() <= 2 * near_ms)
    };
    ahead.iter().any(|one| agrees(*one))
}
