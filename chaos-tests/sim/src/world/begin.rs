//! The world before its first moment, and the first moment.

use super::operator::Operator;
use super::reads::Readers;
use super::{Event, World, outside};
use crate::agenda::Agenda;
use crate::clocks::Clock;
use crate::faults::{self, Fault, Population, Victim};
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
use ohm_model::{Class, Command, Index};
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
        let knobs = knobs(&mut dice, &scenario);
        let (servers, schedulers, health) = processes(&mut dice, &knobs);
        let nodes = nodes(&mut dice, &knobs, scenario.script.as_ref().is_some_and(|script| script.plain_nodes));
        let clients = clients(&mut dice, &knobs);
        let provisioners = outside::provisioners(&mut dice, knobs.theme, knobs.drift_ppm);
        let population = Population {
            servers: knobs.servers,
            schedulers: schedulers.len(),
            health: CANDIDATES,
            nodes: knobs.nodes,
            clients: CLIENTS,
            losses: knobs.losses,
        };
        let mut drawn = faults::draw(&mut dice, population, knobs.faults_ms);
        drawn.extend(knobs.theme.faults(&mut dice, population, knobs.faults_ms));
        let mut ailing = Prng::new(hash::chain(hash::mix(scenario.seed), 0xa11));
        drawn.extend(faults::draw_ailments(&mut ailing, population, knobs.faults_ms));
        drawn.sort_by_key(|(at_ms, _)| *at_ms);
        let calm = scenario.script.as_ref().is_some_and(|script| script.is_calm);
        let network = if calm { NetworkFaults::calm() } else { knobs.network };
        let (faults, mut asks, fault_lines) = what_happens(&scenario, drawn);
        asks.extend(workload::drains(scenario.seed, &knobs));
        let report = Report {
            seed: scenario.seed,
            nodes: knobs.nodes,
            servers: knobs.servers,
            fault_lines,
            ..Report::default()
        };
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
            provisioners,
            outside: outside::Outside::new(scenario.seed),
            nodes,
            clients,
            operator: Operator::new(knobs.servers),
            readers: Readers::new(Prng::new(hash::chain(hash::mix(scenario.seed), 0x4ead))),
            requests: BTreeMap::new(),
            next_request: 1,
            faults,
            asks,
            aimed: Index(0),
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
        self.agenda.at(0, Event::Operate);
        self.agenda.at(0, Event::Read);
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
        let provisioners = (0..self.provisioners.len()).map(Victim::Provisioner);
        schedulers.chain(health).chain(provisioners).chain(nodes).chain(clients).collect()
    }
}

/// The parameters, as drawn and as the scenario says.
fn knobs(dice: &mut Prng, scenario: &Scenario) -> Knobs {
    let mut knobs = Knobs::drawn(dice, scenario.nodes);
    if let Some(script) = &scenario.script {
        script.settle(&mut knobs);
    }
    knobs.faults_ms = scenario.faults_ms.unwrap_or(knobs.faults_ms);
    knobs.quiet_ms = scenario.quiet_ms.unwrap_or(knobs.quiet_ms);
    let said = scenario.script.as_ref().map(|script| script.servers.unwrap_or(1));
    let knobs = knobs.with_servers(scenario.servers.or(said), scenario.seed);
    match scenario.script.is_some() {
        true => knobs,
        false => knobs.with_theme(scenario.seed, scenario.nodes).with_drains(scenario.seed),
    }
}

type Processes = (Vec<ServerProcess>, Vec<SchedulerProcess>, Vec<HealthProcess>);

fn processes(dice: &mut Prng, knobs: &Knobs) -> Processes {
    let mut clock = || Clock::drawn(dice, knobs.drift_ppm);
    let servers = (0..knobs.servers).map(|number| ServerProcess::new(number, clock(), knobs)).collect();
    let mut schedulers = Vec::new();
    for (class, replicas) in Class::BUILT_IN.into_iter().zip(knobs.replicas) {
        for _ in 0..replicas {
            schedulers.push(SchedulerProcess { shell: Shell::new(clock()), class, core: None });
        }
    }
    let candidate = |_| HealthProcess { shell: Shell::new(clock()), session: None, core: None };
    let health = (0..CANDIDATES).map(candidate).collect();
    (servers, schedulers, health)
}

fn nodes(dice: &mut Prng, knobs: &Knobs, plain: bool) -> Vec<NodeProcess> {
    let node = |number| {
        let spec = if plain { script::plain_node(number) } else { workload::node(dice, number, knobs.is_large()) };
        let key = dice.u64();
        NodeProcess::new(spec, Clock::drawn(dice, knobs.drift_ppm), key, knobs.stop_ms)
    };
    (0..knobs.nodes).map(node).collect()
}

fn clients(dice: &mut Prng, knobs: &Knobs) -> Vec<ClientProcess> {
    let client = |_| ClientProcess {
        shell: Shell::new(Clock::drawn(dice, knobs.drift_ppm)),
        next_at_ms: dice.between(100, 2_000),
        submitted: Vec::new(),
        open: BTreeMap::new(),
        next_request: 1,
        left: knobs.wishes,
        greeted: false,
    };
    (0..CLIENTS).map(client).collect()
}

type Happenings = (Vec<(u64, Fault)>, Vec<(u64, Command)>, Vec<String>);

/// The faults that strike, what a script lets people ask, and all faults as lines, those left out included.
fn what_happens(scenario: &Scenario, drawn: Vec<(u64, Fault)>) -> Happenings {
    let wanted = scenario.script.as_ref().is_none_or(|script| script.draws_faults);
    let mut faults = if wanted { drawn } else { Vec::new() };
    let mut asks = Vec::new();
    if let Some(script) = &scenario.script {
        faults.extend(script.faults.iter().copied());
        asks.clone_from(&script.asks);
    }
    let lines = faults.iter().map(|(at_ms, fault)| script::fault_line(*at_ms, fault)).collect();
    if let Some(kept) = &scenario.kept_faults {
        let numbered = faults.into_iter().enumerate().filter(|(number, _)| kept.contains(number));
        faults = numbered.map(|(_, fault)| fault).collect();
    }
    (faults, asks, lines)
}
