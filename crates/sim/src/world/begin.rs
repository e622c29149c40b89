//! The world before its first moment, and the first moment.

use super::{Event, World};
use crate::agenda::Agenda;
use crate::clocks::Clock;
use crate::faults::{self, Population, Victim};
use crate::knobs::Knobs;
use crate::links::{Links, NetworkFaults};
use crate::mischief::Mischief;
use crate::node::NodeProcess;
use crate::report::Report;
use crate::roles::{ClientProcess, HealthProcess, SchedulerProcess, Shell};
use crate::scenario::Scenario;
use crate::script;
use crate::server::ServerProcess;
use crate::workload;
use ohm_model::Class;
use ohm_oracle::Oracle;
use ohm_stdx::{Prng, hash};
use std::collections::BTreeMap;

/// How many candidates there are for the health duty, and how many clients.
const CANDIDATES: usize = 2;
const CLIENTS: usize = 2;

impl World {
    /// The world as its scenario and its seed make it.
    pub fn new(scenario: Scenario) -> Self {
        let mut dice = Prng::new(hash::mix(scenario.seed));
        let mut knobs = Knobs::drawn(&mut dice, scenario.nodes);
        if let Some(script) = &scenario.script {
            script.settle(&mut knobs);
        }
        knobs.faults_ms = scenario.faults_ms.unwrap_or(knobs.faults_ms);
        knobs.quiet_ms = scenario.quiet_ms.unwrap_or(knobs.quiet_ms);
        let clock = |dice: &mut Prng| Clock::drawn(dice, knobs.drift_ppm);
        let members = scenario.servers.max(1);
        let servers: Vec<ServerProcess> =
            (0..members).map(|number| ServerProcess::new(number, members, clock(&mut dice), &knobs)).collect();
        let mut schedulers = Vec::new();
        for (class, replicas) in Class::ALL.into_iter().zip(knobs.replicas) {
            for _ in 0..replicas {
                schedulers.push(SchedulerProcess { shell: Shell::new(clock(&mut dice)), class, core: None });
            }
        }
        let candidate = |_| HealthProcess { shell: Shell::new(clock(&mut dice)), session: None, core: None };
        let health = (0..CANDIDATES).map(candidate).collect();
        let nodes = (0..knobs.nodes)
            .map(|number| {
                let spec = match &scenario.script {
                    Some(script) if script.plain_nodes => script::plain_node(number),
                    _ => workload::node(&mut dice, number, knobs.is_large()),
                };
                let key = dice.u64();
                NodeProcess::new(spec, clock(&mut dice), key, knobs.stop_ms)
            })
            .collect();
        let client = |_| ClientProcess {
            shell: Shell::new(clock(&mut dice)),
            next_at_ms: dice.between(100, 2_000),
            submitted: Vec::new(),
            open: BTreeMap::new(),
            next_request: 1,
            left: knobs.wishes,
            greeted: false,
        };
        let clients = (0..CLIENTS).map(client).collect();
        let population = Population {
            servers: members,
            schedulers: schedulers.len(),
            health: CANDIDATES,
            nodes: knobs.nodes,
            clients: CLIENTS,
        };
        let drawn = faults::draw(&mut dice, population, knobs.faults_ms);
        let calm = scenario.script.as_ref().is_some_and(|script| script.is_calm);
        let network = if calm { NetworkFaults::calm() } else { knobs.network };
        let mut report = Report { seed: scenario.seed, nodes: knobs.nodes, ..Report::default() };
        let wanted = scenario.script.as_ref().is_none_or(|script| script.draws_faults);
        let mut faults = if wanted { drawn } else { Vec::new() };
        let mut asks = Vec::new();
        if let Some(script) = &scenario.script {
            faults.extend(script.faults.iter().copied());
            asks.clone_from(&script.asks);
        }
        report.fault_lines = faults.iter().map(|(at_ms, fault)| script::fault_line(*at_ms, fault)).collect();
        if let Some(kept) = &scenario.kept_faults {
            let numbered = faults.into_iter().enumerate().filter(|(number, _)| kept.contains(number));
            faults = numbered.map(|(_, fault)| fault).collect();
        }
        World {
            agenda: Agenda::default(),
            network,
            storm: (1, 0),
            links: Links::default(),
            connections: BTreeMap::new(),
            late: BTreeMap::new(),
            next_connection: 1,
            cuts: BTreeMap::new(),
            splits: BTreeMap::new(),
            servers,
            sending_delay_ms: 0,
            schedulers,
            health,
            nodes,
            clients,
            requests: BTreeMap::new(),
            next_request: 1,
            faults,
            asks,
            held: BTreeMap::new(),
            healed: false,
            mischief: Mischief::new(std::cell::Cell::new(knobs.mischief_permille)),
            oracle: Oracle::default(),
            history: Vec::new(),
            digest: 0,
            report,
            failed: None,
            dice,
            knobs,
            scenario,
        }
    }

    pub(super) fn begin(&mut self) {
        for number in 0..self.servers.len() {
            self.restart(Victim::Server(number));
            self.agenda.at(0, Event::Tick(Victim::Server(number)));
        }
        for number in 0..self.faults.len() {
            self.agenda.at(self.faults[number].0, Event::Strike(number));
        }
        for number in 0..self.asks.len() {
            self.agenda.at(self.asks[number].0, Event::Ask(number));
        }
        for victim in self.everybody() {
            let at_ms = self.dice.below(300);
            self.agenda.at(at_ms, Event::Restart(victim));
            self.agenda.at(at_ms, Event::Tick(victim));
        }
    }

    /// Everybody but the servers.
    pub(crate) fn everybody(&self) -> Vec<Victim> {
        let schedulers = (0..self.schedulers.len()).map(Victim::Scheduler);
        let health = (0..self.health.len()).map(Victim::Health);
        let nodes = (0..self.nodes.len()).map(Victim::Node);
        let clients = (0..self.clients.len()).map(Victim::Client);
        schedulers.chain(health).chain(nodes).chain(clients).collect()
    }
}
