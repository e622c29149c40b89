//! What a run dwells on. Where everything may happen, some things hardly ever happen together. A theme makes one such
//! meeting likely; all else in the run stays as drawn.

use crate::faults::{Fault, Population, Victim, Way};
use crate::layout::QUEUES;
use ohm_model::{Class, ConditionKind, JobSpec, RepairPolicy, RepairSpec, TopologyMode, TopologyRequest};
use ohm_stdx::{Prng, hash};

/// Of 1000 runs, so many have each theme that they can have; the last two share what is left with runs without a theme.
const EACH_PERMILLE: u64 = 150;

/// The themes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Theme {
    /// None.
    #[default]
    Everything,
    /// Nodes are lost, and there is no room in the domain of what stood there, but in the one around it.
    Widening,
    /// Candidates for the health duty want leases of different lengths, and the duty goes from one to the other just
    /// when a node cannot be reached.
    Handover,
    /// Jobs wait for nodes that are brought from outside, and all goes wrong around that.
    Provisioning,
    /// The leader is cut off from the other servers again and again, while people read and write over all of them.
    Deposing,
    /// A node is lost and comes back, again and again, and its agent restarts while it is held down.
    Flapping,
    /// Racks are full of gangs that wait for what they lose, nodes go down and come back, and work of all classes waits
    /// for whatever becomes free.
    Owing,
    /// People and conditions drive gangs, services and topology jobs from node to node, and things fail meanwhile.
    Leaving,
    /// Large gangs wait among small jobs that take, one by one, whatever becomes free.
    Starving,
}

impl Theme {
    /// Draws the theme of a run. Its dice are their own: what else a seed draws does not depend on it.
    pub(crate) fn drawn(seed: u64, servers: usize) -> Self {
        let mut dice = Prng::new(hash::chain(hash::mix(seed), 0x7e3e));
        match dice.below(1000) / EACH_PERMILLE {
            0 => Theme::Widening,
            1 => Theme::Handover,
            2 if servers > 1 => Theme::Deposing,
            3 => Theme::Provisioning,
            4 => Theme::Flapping,
            5 => Theme::Leaving,
            6 if dice.chance(700) => Theme::Owing,
            6 if dice.chance(500) => Theme::Starving,
            _ => Theme::Everything,
        }
    }

    /// What goes wrong besides, with its times.
    pub(crate) fn faults(self, dice: &mut Prng, population: Population, until_ms: u64) -> Vec<(u64, Fault)> {
        let (nodes, health) = (population.nodes as u64, population.health as u64);
        let mut faults = Vec::new();
        match self {
            Theme::Everything | Theme::Starving => {}
            Theme::Widening => {
                for _ in 0..4 {
                    let reboot =
                        Fault::Reboot { node: dice.below(nodes) as usize, down_ms: dice.between(8_000, 30_000) };
                    faults.push((dice.between(5_000, until_ms), reboot));
                }
            }
            Theme::Owing => return (0..6).map(|_| reboot(dice, nodes, until_ms)).collect(),
            Theme::Handover => {
                // The candidates crash in turn: from the second crash on, each strikes the one that holds the duty.
                let mut at_ms = dice.between(4_000, 8_000);
                for turn in 0..5 {
                    let victim = Victim::Health((turn % health) as usize);
                    faults.push((at_ms, Fault::Crash { victim, down_ms: dice.between(4_500, 6_500) }));
                    let victim = Victim::Node(dice.below(nodes) as usize);
                    let for_ms = dice.between(15_000, 40_000);
                    faults.push((at_ms + dice.below(400), Fault::Cut { victim, way: Way::Both, for_ms }));
                    at_ms += dice.between(7_000, 10_000);
                }
            }
            Theme::Provisioning => {
                for _ in 0..6 {
                    let victim = Victim::Provisioner(dice.below(2) as usize);
                    let for_ms = dice.between(500, 9_000);
                    let fault = match dice.below(3) {
                        0 => Fault::Crash { victim, down_ms: for_ms },
                        1 => Fault::Pause { victim, for_ms },
                        _ => Fault::Cut { victim, way: Way::Both, for_ms },
                    };
                    faults.push((dice.between(3_000, until_ms), fault));
                }
                faults.extend((0..3).map(|_| reboot(dice, nodes, until_ms)));
            }
            Theme::Flapping => {
                let victim = Victim::Node(dice.below(nodes) as usize);
                let mut at_ms = dice.between(2_000, 4_000);
                for _ in 0..3 {
                    let for_ms = dice.between(8_500, 10_500);
                    faults.push((at_ms, Fault::Cut { victim, way: Way::Both, for_ms }));
                    at_ms += for_ms + dice.between(1_200, 2_500);
                }
                for _ in 0..2 {
                    faults.push((at_ms, Fault::Crash { victim, down_ms: dice.between(100, 600) }));
                    at_ms += dice.between(2_000, 6_000);
                }
            }
            Theme::Leaving => return leaving(dice, nodes, until_ms),
            Theme::Deposing => {
                for _ in 0..8 {
                    let depose = Fault::Depose { for_ms: dice.between(1_000, 6_000) };
                    faults.push((dice.between(3_000, until_ms), depose));
                }
            }
        }
        faults.into_iter().map(|(at_ms, fault)| (at_ms.min(until_ms), fault)).collect()
    }

    /// Makes most jobs such as the theme needs.
    pub(crate) fn bend(self, dice: &mut Prng, job: &mut JobSpec) {
        match self {
            Theme::Widening if dice.chance(700) => widening(dice, job),
            Theme::Handover if dice.chance(700) => lasting(dice, job),
            Theme::Provisioning if dice.chance(850) => provisioned(dice, job),
            Theme::Leaving if dice.chance(700) => movable(dice, job),
            Theme::Owing if dice.chance(900) => owing(dice, job),
            Theme::Starving if dice.chance(950) => starving(dice, job),
            _ => {}
        }
    }

    /// Of 1000 drained nodes, how many come back into use, and the longest time until then, in milliseconds.
    pub(crate) fn undrained(self) -> (u64, u64) {
        if self == Theme::Leaving { (950, 12_000) } else { (600, 30_000) }
    }

    /// The longest time between two reads, in milliseconds.
    pub(crate) fn read_pause_ms(self) -> u64 {
        if self == Theme::Deposing { 120 } else { 1_500 }
    }

    /// By how much more than another a candidate's leases may last, in milliseconds, where they differ.
    pub(crate) fn lease_differences_ms(self) -> [u64; 4] {
        if self == Theme::Handover { [0, 0, 8_000, 8_000] } else { [0, 0, 2_000, 8_000] }
    }
}

/// Conditions that drive away, and reboots.
fn leaving(dice: &mut Prng, nodes: u64, until_ms: u64) -> Vec<(u64, Fault)> {
    let mut faults: Vec<(u64, Fault)> = Vec::new();
    let node = |dice: &mut Prng| dice.below(nodes) as usize;
    for _ in 0..8 {
        let kinds = [ConditionKind::DeviceError, ConditionKind::HealthCheckFailed];
        let (node, kind) = (node(dice), kinds[dice.below(2) as usize]);
        let ail = Fault::Ail { node, kind, for_ms: dice.between(300, 15_000) };
        faults.push((dice.between(3_000, until_ms), ail));
    }
    for _ in 0..3 {
        let reboot = Fault::Reboot { node: node(dice), down_ms: dice.between(500, 12_000) };
        faults.push((dice.between(5_000, until_ms), reboot));
    }
    faults.into_iter().map(|(at_ms, fault)| (at_ms.min(until_ms), fault)).collect()
}

/// A node goes down for longer than its lease, and comes back.
fn reboot(dice: &mut Prng, nodes: u64, until_ms: u64) -> (u64, Fault) {
    let (node, down_ms) = (dice.below(nodes) as usize, dice.between(10_000, 25_000));
    (dice.between(8_000, until_ms), Fault::Reboot { node, down_ms })
}

/// Tasks that fill a host or a rack, stay long, and may go one level further when they are lost.
fn widening(dice: &mut Prng, job: &mut JobSpec) {
    let levels = ["topology.ohm/block", "topology.ohm/rack", "kubernetes.io/hostname"];
    let at = 1 + dice.below(2) as usize;
    job.class = Class::TAS;
    job.repair = RepairSpec {
        policy: RepairPolicy::Widen,
        timeout_seconds: 0,
        widen_to: levels[at - 1].to_string(),
        ..RepairSpec::default()
    };
    job.suspended = false;
    for group in &mut job.groups {
        group.topology =
            TopologyRequest { mode: TopologyMode::Required, level: levels[at].into(), ..TopologyRequest::default() };
        group.requests.insert("cpu".into(), dice.between(8, 20) as i64 * 100);
    }
    lasting(dice, job);
}

/// A gang that keeps its rack and waits there for what it loses, or work that waits for any room.
fn owing(dice: &mut Prng, job: &mut JobSpec) {
    job.suspended = false;
    if dice.chance(400) {
        let level = ["topology.ohm/block", "topology.ohm/rack"][dice.below(2) as usize];
        let timeout_seconds = [0, 0, 20][dice.below(3) as usize];
        (job.class, job.priority) = (Class::TAS, dice.below(2) as i32);
        job.repair = RepairSpec { policy: RepairPolicy::Wait, timeout_seconds, ..RepairSpec::default() };
        for group in &mut job.groups {
            group.topology =
                TopologyRequest { mode: TopologyMode::Required, level: level.into(), ..TopologyRequest::default() };
            group.requests.insert("cpu".into(), dice.between(10, 18) as i64 * 100);
        }
    } else {
        job.priority = [-10, 0, 100][dice.below(3) as usize];
        job.groups
            .iter_mut()
            .for_each(|group| _ = group.requests.insert("cpu".into(), dice.between(2, 8) as i64 * 100));
    }
    lasting(dice, job);
}

/// A gang that needs a good part of the cell at once, or a small job that needs little of it for a while.
fn starving(dice: &mut Prng, job: &mut JobSpec) {
    job.suspended = false;
    job.groups.truncate(1);
    job.active_deadline_seconds = 0;
    // A service would fill the cell for good.
    if job.class == Class::SERVICE {
        job.class = Class::BATCH;
    }
    let is_gang = dice.chance(120);
    let group = &mut job.groups[0];
    (group.place_with, group.spares, group.max_per_node) = (String::new(), 0, 0);
    group.topology.slices.clear();
    group.node_selector.clear();
    group.affinity.clear();
    group.ports.clear();
    group.requests = [("cpu".to_string(), dice.between(5, 15) as i64 * 100)].into();
    group.task.sim_duration_ms = dice.between(1_500, 6_000);
    group.task.sim_exit_code = 0;
    let count = if is_gang { dice.between(5, 12) as u32 } else { 1 };
    (group.count, group.min_count, group.elastic) = (count, count, !is_gang);
    job.priority = if is_gang { dice.below(2) as i32 } else { 0 };
}

/// Work that fits the quota of its queue, so that much is reserved and asked for.
fn provisioned(dice: &mut Prng, job: &mut JobSpec) {
    job.queue = dice.pick(&QUEUES).map(|queue| queue.to_string()).unwrap_or_default();
    job.suspended = false;
    job.active_deadline_seconds = 0;
    let asks = dice.chance(350);
    if asks {
        // It fills good part of a rack, where nothing else may become free for what it loses.
        (job.class, job.repair) =
            (Class::TAS, RepairSpec { policy: RepairPolicy::Wait, provision: true, ..RepairSpec::default() });
        lasting(dice, job);
    }
    for group in &mut job.groups {
        let (least, most) = if asks { (8, 16) } else { (1, 8) };
        group.requests.insert("cpu".into(), dice.between(least, most) as i64 * 100);
        if asks {
            let level = "topology.ohm/rack".to_string();
            group.topology = TopologyRequest { mode: TopologyMode::Required, level, ..TopologyRequest::default() };
        }
    }
}

/// Small and lasting, so that it stands when its node is to be left and finds a place elsewhere: a service, a gang, or
/// one that requires a rack or a block.
fn movable(dice: &mut Prng, job: &mut JobSpec) {
    job.suspended = false;
    if job.repair.policy == RepairPolicy::Widen {
        job.repair = RepairSpec::default();
    }
    if job.class != Class::SERVICE {
        job.class = if dice.chance(700) { Class::TAS } else { Class::BATCH };
        lasting(dice, job);
    }
    let level = ["topology.ohm/block", "topology.ohm/rack"][dice.below(2) as usize];
    for group in &mut job.groups {
        group.requests.insert("cpu".into(), dice.between(1, 5) as i64 * 100);
        group.topology = match job.class {
            Class::TAS => {
                TopologyRequest { mode: TopologyMode::Required, level: level.into(), ..TopologyRequest::default() }
            }
            _ => TopologyRequest::default(),
        };
    }
}

fn lasting(dice: &mut Prng, job: &mut JobSpec) {
    let longer_ms = dice.between(15_000, 50_000);
    job.active_deadline_seconds = 0;
    job.groups.iter_mut().for_each(|group| group.task.sim_duration_ms += longer_ms);
}
