//! The parameters of one run, drawn from its seed (swarm): how large the cell is, how every part is configured, how
//! unkind the world is. Small thresholds are likely on purpose, so that rare paths are walked often.

use crate::links::NetworkFaults;
use crate::theme::Theme;
use crate::workload::{
    Budgets, Lines, Namespaces, NeighbourRules, ProbedTasks, ReadyTimes, RolledServices, StopDelays, Subqueues,
};
use ohm_agent::{AgentConfig, CheckPolicy, DriverConfig};
use ohm_framework::SchedulerConfig;
use ohm_health::HealthConfig;
use ohm_log_raft::RaftConfig;
use ohm_model::{ClassKind, ConditionAction, ConditionKind, TakeOver};
use ohm_replica::ReplicaConfig;
use ohm_stdx::{Prng, hash};

/// How many nodes a large cell has.
pub(crate) const LARGE_NODES: usize = 5_000;
/// Nodes of a cell in which repairs leave their domain: two blocks of two racks of two nodes.
const WIDENING_NODES: usize = 8;
/// Nodes of a cell in which work moves: room for it in the same rack, in the same block, and elsewhere.
const LEAVING_NODES: usize = 10;
/// Nodes of a cell in which gangs wait among small jobs.
const STARVING_NODES: usize = 5;
/// Most nodes that a cell can be simulated with.
pub(crate) const NODES_MAX: usize = 100_000;
/// How many of 1000 seeds make a large cell.
const LARGE_PERMILLE: u64 = 10;

/// Everything about a run that is not what happens in it.
#[derive(Clone, Debug)]
pub(crate) struct Knobs {
    pub(crate) nodes: usize,
    /// Scheduler replicas of each class.
    pub(crate) replicas: [usize; 3],
    pub(crate) drift_ppm: u64,
    pub(crate) faults_ms: u64,
    pub(crate) quiet_ms: u64,
    pub(crate) replica: ReplicaConfig,
    /// How many servers found the cell.
    pub(crate) servers: usize,
    pub(crate) segment_bytes: u64,
    /// Bytes of entries, or of a snapshot, in one message between servers.
    pub(crate) between_bytes: u64,
    pub(crate) queue_entries: usize,
    pub(crate) shard_lease_ms: u64,
    pub(crate) duty_lease_ms: u64,
    pub(crate) transactions_in_flight: usize,
    pub(crate) jobs_per_pass: usize,
    pub(crate) transaction_bytes: usize,
    pub(crate) retries: u32,
    /// How long a scheduler plans one job.
    pub(crate) planning_ms: u64,
    pub(crate) node_lease_ms: u64,
    pub(crate) beat_interval_ms: u64,
    pub(crate) report_batch_max: usize,
    pub(crate) report_resend_ms: u64,
    /// How long tasks take to obey the polite signal.
    pub(crate) stop_ms: u64,
    pub(crate) network: NetworkFaults,
    /// How many of 1000 plans are spoilt.
    pub(crate) mischief_permille: u64,
    /// How many jobs and other wishes each client has.
    pub(crate) wishes: u64,
    pub(crate) wish_pause_ms: u64,
    /// Whether jobs outlive the loss of their nodes, racks go down together, and people aim at what is being repaired.
    pub(crate) losses: bool,
    /// Whether candidates for the health duty may be configured with leases of different lengths.
    pub(crate) leases_differ: bool,
    /// Whether jobs name queues, and queues change.
    pub(crate) queues: bool,
    /// What the run dwells on.
    pub(crate) theme: Theme,
    /// How many nodes are drained, one after the other or several at once.
    pub(crate) drains: usize,
    /// What the class of an operator is like, in a run that has one.
    pub(crate) own_class: Option<ClassKind>,
    /// Whether there are namespaces.
    pub(crate) namespaces: Namespaces,
    /// Whether jobs ask for something of the tasks around them.
    pub(crate) neighbour_rules: NeighbourRules,
    /// Whether tasks are probed.
    pub(crate) probed_tasks: ProbedTasks,
    /// Whether there are disruption budgets.
    pub(crate) budgets: Budgets,
    /// Whether services have strategies, and are changed while they run.
    pub(crate) rolled_services: RolledServices,
    /// Whether services are left running for a while when they are told to stop.
    pub(crate) stop_delays: StopDelays,
    /// How queues order, bound and hold their lines, and for how long jobs wait.
    pub(crate) lines: Lines,
    /// In which time queues have their jobs be ready.
    pub(crate) ready_times: ReadyTimes,
    /// Whether queues have subqueues, and order their jobs by what those have used.
    pub(crate) subqueues: Subqueues,
}

impl Knobs {
    /// Draws the parameters; a count of nodes that was asked for stands.
    pub(crate) fn drawn(dice: &mut Prng, nodes: Option<usize>) -> Self {
        let mut one_of = |values: &[u64]| values[dice.below(values.len() as u64) as usize];
        let shard_lease_ms = one_of(&[2_000, 3_000, 6_000]);
        let duty_lease_ms = one_of(&[2_000, 3_000, 4_000]);
        let beyond_bound_ms = one_of(&[0, 1_000, 5_000]);
        let replica = ReplicaConfig {
            waiting_bytes_max: one_of(&[8 << 10, 256 << 10, 16 << 20]) as usize,
            entries_in_flight_max: one_of(&[1, 2, 4, 16]) as usize,
            snapshot_every_entries: one_of(&[15, 60, 200, 800]),
            kept_bytes_max: one_of(&[4 << 10, 4 << 20, 32 << 20]) as usize,
            ..ReplicaConfig::default()
        };
        let knobs = Knobs {
            nodes: one_of(&[1, 2, 3, 4, 5, 6, 7]) as usize,
            replicas: [one_of(&[1, 1, 2]), one_of(&[1, 1, 2]), one_of(&[1, 1, 2])].map(|count| count as usize),
            drift_ppm: one_of(&[0, 200, 4_000]),
            faults_ms: one_of(&[25_000, 40_000, 60_000]),
            quiet_ms: 75_000,
            replica,
            servers: 1,
            between_bytes: 2 << 20,
            segment_bytes: one_of(&[4 << 10, 64 << 10, 64 << 20]),
            queue_entries: one_of(&[2, 64, 4096]) as usize,
            shard_lease_ms,
            duty_lease_ms,
            transactions_in_flight: one_of(&[1, 4, 64]) as usize,
            jobs_per_pass: one_of(&[1, 8, 256]) as usize,
            transaction_bytes: one_of(&[256, 4 << 10, 128 << 10]) as usize,
            retries: one_of(&[1, 8]) as u32,
            planning_ms: 0,
            node_lease_ms: 0,
            beat_interval_ms: one_of(&[250, 500, 1_000]),
            report_batch_max: one_of(&[1, 16, 1024]) as usize,
            report_resend_ms: one_of(&[20, 300, 1_000]),
            stop_ms: one_of(&[0, 200, 1_500]),
            network: NetworkFaults::default(),
            mischief_permille: one_of(&[0, 0, 60, 250]),
            wishes: one_of(&[3, 10, 25, 45]),
            wish_pause_ms: one_of(&[300, 1_000, 2_500]),
            queues: one_of(&[0, 1]) == 1,
            losses: one_of(&[0, 1]) == 1,
            leases_differ: one_of(&[0, 0, 1]) == 1,
            theme: Theme::Everything,
            drains: 0,
            own_class: None,
            namespaces: Namespaces::default(),
            neighbour_rules: NeighbourRules::default(),
            probed_tasks: ProbedTasks::default(),
            budgets: Budgets::default(),
            rolled_services: RolledServices::default(),
            stop_delays: StopDelays::default(),
            lines: Lines::default(),
            ready_times: ReadyTimes::default(),
            subqueues: Subqueues::default(),
        };
        let network = NetworkFaults::drawn(dice);
        let large = dice.chance(LARGE_PERMILLE);
        let node_lease_ms = knobs.take_over().node_lease_ms_min() + beyond_bound_ms;
        let knobs = Knobs { network, node_lease_ms, ..knobs };
        match nodes {
            Some(nodes) if nodes > 200 => Knobs { nodes, ..knobs.large() },
            Some(nodes) => Knobs { nodes, ..knobs },
            None if large => knobs.large(),
            // What is lost needs somewhere to go.
            None if knobs.losses => Knobs { nodes: knobs.nodes + 3, ..knobs },
            None => knobs,
        }
    }

    /// Draws how many servers there are, unless it is said. Their dice are their own: what else a seed draws does not
    /// depend on them.
    pub(crate) fn with_servers(self, servers: Option<usize>, seed: u64) -> Self {
        let mut dice = Prng::new(hash::chain(hash::mix(seed), 0x5e57));
        let drawn = [1, 1, 3, 3, 5][dice.below(5) as usize];
        let drawn = if self.is_large() { 1 } else { drawn };
        let between_bytes = [600, 32 << 10, 2 << 20][dice.below(3) as usize];
        match servers.unwrap_or(drawn) {
            1 => self,
            servers => Knobs { servers, between_bytes, ..self },
        }
    }

    /// Draws how many nodes people drain. Their dice are their own, too; people with large cells have no time for it.
    pub(crate) fn with_drains(self, seed: u64) -> Self {
        let mut dice = Prng::new(hash::chain(hash::mix(seed), 0xd4a1));
        let drains = [0, 0, 2, 5, 9][dice.below(5) as usize];
        if self.is_large() { self } else { Knobs { drains: drains.max(self.drains), ..self } }
    }

    /// Draws whether an operator adds a class. Its dice are its own, too.
    pub(crate) fn with_own_class(self, seed: u64) -> Self {
        let mut dice = Prng::new(hash::chain(hash::mix(seed), 0xc1a5));
        let kinds = [ClassKind::Batch, ClassKind::Service, ClassKind::Tas];
        let own_class = if dice.chance(200) { dice.pick(&kinds).copied() } else { None };
        if self.is_large() { self } else { Knobs { own_class, ..self } }
    }

    /// Draws how queues order, bound and hold their lines, for how long jobs wait, and in which time they are to be
    /// ready, and whether there are namespaces, rules about other tasks, probes and disruption budgets. Its dice are
    /// its own, too.
    pub(crate) fn with_lines(self, seed: u64) -> Self {
        let lines = if self.is_large() { Lines::default() } else { Lines::drawn(seed, self.queues) };
        let ready_times = ReadyTimes::drawn(seed, self.queues && !self.is_large());
        let subqueues = Subqueues::drawn(seed, self.queues && !self.is_large());
        let namespaces = if self.is_large() { Namespaces::default() } else { Namespaces::drawn(seed) };
        let rules = if self.is_large() { NeighbourRules::default() } else { NeighbourRules::drawn(seed) };
        let probed_tasks = if self.is_large() { ProbedTasks::default() } else { ProbedTasks::drawn(seed) };
        let budgets = if self.is_large() { Budgets::default() } else { Budgets::drawn(seed) };
        let rolled_services = if self.is_large() { RolledServices::default() } else { RolledServices::drawn(seed) };
        let stop_delays = if self.is_large() { StopDelays::default() } else { StopDelays::drawn(seed) };
        let knobs = Knobs { lines, ready_times, subqueues, namespaces, neighbour_rules: rules, ..self };
        Knobs { probed_tasks, budgets, rolled_services, stop_delays, ..knobs }
    }

    /// Draws what the run dwells on; a large cell has no theme.
    pub(crate) fn with_theme(self, seed: u64, asked: Option<usize>) -> Self {
        if self.is_large() {
            return self;
        }
        let theme = Theme::drawn(seed, self.servers);
        self.settled(theme, asked)
    }

    /// The same for a run with this theme; a count of nodes that was asked for stands.
    fn settled(self, theme: Theme, asked: Option<usize>) -> Self {
        let knobs = self;
        let lasting = Knobs { theme, losses: true, ..knobs.clone() };
        match theme {
            Theme::Everything => knobs,
            Theme::Widening => {
                Knobs { nodes: asked.unwrap_or(WIDENING_NODES), wishes: knobs.wishes.max(25), ..lasting }
            }
            Theme::Handover => Knobs {
                leases_differ: true,
                // Short enough that one candidate's lease ends while the other one has the duty.
                duty_lease_ms: 2_000,
                beat_interval_ms: 250,
                node_lease_ms: 5_000,
                ..lasting
            },
            Theme::Provisioning => Knobs { queues: true, wishes: knobs.wishes.max(25), ..lasting },
            Theme::Deposing => Knobs { theme, wishes: knobs.wishes.max(45), wish_pause_ms: 300, ..knobs },
            Theme::Flapping => Knobs {
                theme,
                wishes: knobs.wishes.max(45),
                wish_pause_ms: 900,
                // Short enough that a node is lost three times before the faults end.
                duty_lease_ms: 2_000,
                beat_interval_ms: 250,
                node_lease_ms: 5_000,
                faults_ms: 60_000,
                ..knobs
            },
            Theme::Owing => Knobs {
                nodes: asked.unwrap_or(WIDENING_NODES),
                replicas: [2, 2, 2],
                wishes: knobs.wishes.max(45),
                wish_pause_ms: 300,
                // Short enough that much is lost and comes back before the faults end.
                duty_lease_ms: 2_000,
                beat_interval_ms: 250,
                node_lease_ms: 5_000,
                faults_ms: 60_000,
                ..lasting
            },
            Theme::Starving => Knobs {
                theme,
                nodes: asked.unwrap_or(STARVING_NODES),
                wishes: 110,
                wish_pause_ms: 500,
                faults_ms: 60_000,
                losses: false,
                ..knobs
            },
            Theme::Leaving => {
                let nodes = asked.unwrap_or(LEAVING_NODES);
                Knobs { nodes, drains: 24, wishes: knobs.wishes.max(25), wish_pause_ms: 300, ..lasting }
            }
        }
    }

    /// The same for a cell so large that everything small would only take time.
    fn large(self) -> Self {
        Knobs {
            nodes: LARGE_NODES,
            replicas: [1, 1, 2],
            faults_ms: 10_000,
            quiet_ms: 32_000,
            replica: ReplicaConfig { snapshot_every_entries: 2_000, ..ReplicaConfig::default() },
            queue_entries: 4096,
            transactions_in_flight: 64,
            jobs_per_pass: 256,
            transaction_bytes: 128 << 10,
            node_lease_ms: 22_000,
            beat_interval_ms: 4_000,
            report_batch_max: 1024,
            report_resend_ms: 1_000,
            network: NetworkFaults { break_per_100000: 0, slow_permille: 0, ..self.network },
            wishes: 12,
            wish_pause_ms: 400,
            losses: false,
            leases_differ: false,
            ..self
        }
    }

    /// Whether the cell is so large that sweeps over all of it must be rare.
    pub(crate) fn is_large(&self) -> bool {
        self.nodes > 200
    }

    pub(crate) fn scheduler(&self, name: &str) -> SchedulerConfig {
        SchedulerConfig {
            lease_ms: self.shard_lease_ms,
            transactions_in_flight: self.transactions_in_flight,
            jobs_per_pass: self.jobs_per_pass,
            transaction_bytes: self.transaction_bytes,
            retries: self.retries,
            ..SchedulerConfig::new(name)
        }
    }

    /// How the health duty changes hands; the shortest node lease follows from it.
    fn take_over(&self) -> TakeOver {
        let (duty_lease_ms, beat_interval_ms) = (self.duty_lease_ms, self.beat_interval_ms);
        TakeOver { duty_lease_ms, resend_ms: HealthConfig::default().resend_ms, beat_interval_ms }
    }

    pub(crate) fn health(&self) -> HealthConfig {
        HealthConfig {
            node_lease_ms: self.node_lease_ms,
            duty_lease_ms: self.duty_lease_ms,
            beat_interval_ms: self.beat_interval_ms,
            ..HealthConfig::default()
        }
    }

    pub(crate) fn agent(&self) -> AgentConfig {
        AgentConfig {
            beat_interval_ms: self.beat_interval_ms,
            report_batch_max: self.report_batch_max,
            report_resend_ms: self.report_resend_ms,
            checks: ConditionKind::ALL.map(check).to_vec(),
            ..AgentConfig::default()
        }
    }

    /// How simulated tasks behave.
    pub(crate) fn tasks(&self) -> DriverConfig {
        let (stop_ms, fence_lead_ms) = (self.stop_ms, self.agent().fence_lead_ms());
        DriverConfig { stop_ms, stop_spread_ms: stop_ms / 2, fence_lead_ms }
    }

    /// Of a founder, or of one that joins later.
    pub(crate) fn raft(&self, server: usize) -> RaftConfig {
        let founders = (1..=self.servers as u64).collect();
        RaftConfig {
            segment_bytes: self.segment_bytes,
            queue_entries: self.queue_entries,
            batch_bytes: self.between_bytes,
            ..RaftConfig::group(7, server as u64 + 1, founders)
        }
    }
}

/// One finding decides: what is drawn is what is wrong.
fn check(kind: ConditionKind) -> CheckPolicy {
    let action = match kind {
        ConditionKind::DiskPressure => ConditionAction::NoNewWork,
        ConditionKind::MemoryPressure => ConditionAction::Note,
        ConditionKind::DeviceError | ConditionKind::HealthCheckFailed => ConditionAction::Drain,
    };
    CheckPolicy { kind, action, failures: 1, successes: 1, bad_below: 0, good_from: 0 }
}
