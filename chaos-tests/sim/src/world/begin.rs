//! The world before its first moment, and the first moment.

use super::World;
use crate::clocks::Clock;
use crate::faults::{self, Fault, Population, Victim};
use crate::knobs::Knobs;
use crate::links::NetworkFaults;
use crate::operator::Operator;
use crate::report::Report;
use crate::roles::{ClientProcess, Health, HealthProcess, NodeProcess, ProvisionerProcess, Provisioning};
use crate::roles::{Roles, SchedulerProcess, Scheduling, ServerProcess};
use crate::scenario::Scenario;
use crate::script;
use crate::stage::{Event, Newcomer, Stage};
use crate::theme::Theme;
use crate::workload;
use ohm_model::{Class, Command, Index};
use ohm_oracle::Oracle;
use ohm_stdx::{Prng, hash};

/// How many candidates there are for the health duty and for the provisioning duty, and how many clients.
const CANDIDATES: usize = 2;
const PROVISIONERS: usize = 2;
const CLIENTS: usize = 2;

impl World {
    /// The world as its scenario and its seed make it.
    pub fn new(scenario: Scenario) -> Self {
        let mut dice = Prng::new(hash::mix(scenario.seed));
        let knobs = knobs(&mut dice, &scenario);
        let (servers, schedulers, health) = processes(&mut dice, &knobs, scenario.seed);
        let nodes = nodes(&mut dice, &knobs, scenario.script.as_ref().is_some_and(|script| script.plain_nodes));
        let clients = clients(&mut dice, &knobs);
        let provisioners = provisioners(&mut dice, &knobs);
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
        let mut freezing = Prng::new(hash::chain(hash::mix(scenario.seed), 0xf4ee));
        drawn.extend(faults::draw_duty_faults(&mut freezing, knobs.node_lease_ms, knobs.faults_ms));
        let mut forgetting = Prng::new(hash::chain(hash::mix(scenario.seed), 0x109));
        drawn.extend(faults::draw_lost_logs(&mut forgetting, population, knobs.faults_ms));
        let mut jumping = Prng::new(hash::chain(hash::mix(scenario.seed), 0xc10c));
        drawn.extend(faults::draw_clock_jumps(&mut jumping, population, knobs.faults_ms));
        drawn.sort_by_key(|(at_ms, _)| *at_ms);
        let calm = scenario.script.as_ref().is_some_and(|script| script.is_calm);
        let network = if calm { NetworkFaults::calm() } else { knobs.network };
        let (faults, mut asks, fault_lines) = what_happens(&scenario, drawn);
        asks.extend(workload::drains(scenario.seed, &knobs));
        // What a script lets people do is all that they do.
        if scenario.script.is_none() {
            asks.extend(workload::taints(scenario.seed, &knobs));
        }
        asks.extend(workload::short_patience(scenario.seed, knobs.theme));
        asks.extend(workload::changed_profiles(scenario.seed, knobs.own_class, knobs.faults_ms));
        let report = Report {
            seed: scenario.seed,
            nodes: knobs.nodes,
            servers: knobs.servers,
            fault_lines,
            ..Report::default()
        };
        World {
            operator: Operator::new(knobs.servers),
            roles: Roles { servers, schedulers, health, provisioners, nodes, clients },
            stage: Stage::new(dice, knobs, network, report, scenario.trace),
            faults,
            asks,
            aimed: Index(0),
            oracle: Oracle::default(),
            digest: 0,
            scenario,
        }
    }

    pub(super) fn begin(&mut self) {
        for number in 0..self.roles.servers.len() {
            self.restart(Victim::Server(number));
            self.stage.agenda.at(0, Event::Tick(Victim::Server(number)));
        }
        let stage = &mut self.stage;
        stage.agenda.at(0, Event::Operate);
        stage.agenda.at(0, Event::Read);
        for (at_ms, fault) in std::mem::take(&mut self.faults) {
            stage.agenda.at(at_ms, Event::Strike(fault));
        }
        for (at_ms, command) in std::mem::take(&mut self.asks) {
            stage.ask_at(at_ms, command);
        }
        for (at_ms, stop) in stage.knobs.lines.stops(self.scenario.seed, stage.knobs.faults_ms) {
            stage.agenda.at(at_ms, Event::Stop(stop));
        }
        for victim in self.roles.everybody() {
            let at_ms = stage.dice.below(300);
            stage.agenda.at(at_ms, Event::Restart(victim));
            stage.agenda.at(at_ms, Event::Tick(victim));
        }
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
        false => {
            let knobs = knobs.with_theme(scenario.seed, scenario.nodes).with_drains(scenario.seed);
            knobs.with_own_class(scenario.seed).with_lines(scenario.seed)
        }
    }
}

type Processes = (Vec<ServerProcess>, Vec<SchedulerProcess>, Vec<HealthProcess>);

fn processes(dice: &mut Prng, knobs: &Knobs, seed: u64) -> Processes {
    let mut clock = || Clock::drawn(dice, knobs.drift_ppm);
    let servers = (0..knobs.servers).map(|number| ServerProcess::new(number, clock(), knobs)).collect();
    let mut schedulers = Vec::new();
    for (class, replicas) in Class::BUILT_IN.into_iter().zip(knobs.replicas) {
        for _ in 0..replicas {
            schedulers.push(SchedulerProcess::new(schedulers.len(), clock(), Scheduling(class)));
        }
    }
    let health = (0..CANDIDATES).map(|number| HealthProcess::new(number, clock(), Health)).collect();
    if knobs.own_class.is_some() {
        let mut own = Prng::new(hash::chain(hash::mix(seed), 0xc1a6));
        for _ in 0..own.between(1, 2) {
            let clock = Clock::drawn(&mut own, knobs.drift_ppm);
            schedulers.push(SchedulerProcess::new(schedulers.len(), clock, Scheduling(workload::own_class())));
        }
    }
    (servers, schedulers, health)
}

fn nodes(dice: &mut Prng, knobs: &Knobs, plain: bool) -> Vec<NodeProcess> {
    let node = |number| {
        let spec = if plain { script::plain_node(number) } else { workload::node(dice, number, knobs.is_large()) };
        let key = dice.u64();
        let clock = Clock::drawn(dice, knobs.drift_ppm);
        NodeProcess::new(number, Newcomer { spec, clock, key }, knobs.tasks())
    };
    (0..knobs.nodes).map(node).collect()
}

fn clients(dice: &mut Prng, knobs: &Knobs) -> Vec<ClientProcess> {
    let client = |number| {
        let clock = Clock::drawn(dice, knobs.drift_ppm);
        ClientProcess::new(number, clock, dice.between(100, 2_000), knobs.wishes)
    };
    (0..CLIENTS).map(client).collect()
}

/// The candidates for the provisioning duty; none where nobody is asked.
fn provisioners(dice: &mut Prng, knobs: &Knobs) -> Vec<ProvisionerProcess> {
    let count = if knobs.theme == Theme::Provisioning { PROVISIONERS } else { 0 };
    let mut candidate = |number| {
        let clock = Clock::drawn(dice, knobs.drift_ppm);
        ProvisionerProcess::new(number, clock, Provisioning)
    };
    (0..count).map(&mut candidate).collect()
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
