//! What goes wrong in a run, drawn from the seed before it begins.

use ohm_stdx::Prng;

/// Whom a fault strikes: a position in the world's list of that role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    Server,
    Scheduler(usize),
    Health(usize),
    Node(usize),
    Client(usize),
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process is killed and started again.
    Crash { victim: Victim, down_ms: u64, power_loss: bool },
    /// The process stands still (on a node: the agent; its tasks run on).
    Pause { victim: Victim, for_ms: u64 },
    /// Nothing passes between the process and the server.
    Cut { victim: Victim, for_ms: u64 },
    /// The machine of a node restarts: agent and tasks are gone at once.
    Reboot { node: usize, down_ms: u64 },
}

impl Fault {
    /// The kind, for counting.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Fault::Crash { victim: Victim::Server, power_loss: true, .. } => "server power loss",
            Fault::Crash { victim: Victim::Server, .. } => "server crash",
            Fault::Crash { victim: Victim::Scheduler(_), .. } => "scheduler crash",
            Fault::Crash { victim: Victim::Health(_), .. } => "health crash",
            Fault::Crash { victim: Victim::Node(_), .. } => "agent crash",
            Fault::Crash { victim: Victim::Client(_), .. } => "client crash",
            Fault::Pause { victim: Victim::Server, .. } => "server pause",
            Fault::Pause { victim: Victim::Scheduler(_), .. } => "scheduler pause",
            Fault::Pause { victim: Victim::Health(_), .. } => "health pause",
            Fault::Pause { victim: Victim::Node(_), .. } => "agent pause",
            Fault::Pause { victim: Victim::Client(_), .. } => "client pause",
            Fault::Cut { .. } => "network cut",
            Fault::Reboot { .. } => "node reboot",
        }
    }
}

/// How many of each role there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Population {
    pub(crate) schedulers: usize,
    pub(crate) health: usize,
    pub(crate) nodes: usize,
    pub(crate) clients: usize,
}

/// Draws the faults of a run with their times; the kinds that occur at all are drawn too (swarm).
pub(crate) fn draw(dice: &mut Prng, population: Population, until_ms: u64) -> Vec<(u64, Fault)> {
    let allowed: Vec<bool> = (0..4).map(|_| dice.chance(700)).collect();
    let count = dice.below(16);
    let mut faults = Vec::new();
    for _ in 0..count {
        let at_ms = dice.between(1_000, until_ms);
        let victim = draw_victim(dice, population);
        let short_ms = [50, 500, 2_000, 5_000, 9_000, 14_000, 20_000][dice.below(7) as usize];
        let for_ms = short_ms / 2 + dice.below(short_ms);
        let fault = match dice.below(4) {
            0 => Fault::Crash { victim, down_ms: for_ms.min(8_000), power_loss: dice.chance(500) },
            1 => Fault::Pause { victim, for_ms },
            2 => Fault::Cut { victim, for_ms },
            _ => Fault::Reboot { node: dice.below(population.nodes as u64) as usize, down_ms: for_ms },
        };
        let kind = match fault {
            Fault::Crash { .. } => 0,
            Fault::Pause { .. } => 1,
            Fault::Cut { .. } => 2,
            Fault::Reboot { .. } => 3,
        };
        if allowed[kind] {
            faults.push((at_ms, fault));
        }
    }
    faults.sort_by_key(|(at_ms, _)| *at_ms);
    faults
}

fn draw_victim(dice: &mut Prng, population: Population) -> Victim {
    let pick = |dice: &mut Prng, count: usize| dice.below(count as u64) as usize;
    match dice.below(10) {
        0 | 1 => Victim::Server,
        2 | 3 => Victim::Scheduler(pick(dice, population.schedulers)),
        4 | 5 => Victim::Health(pick(dice, population.health)),
        6 => Victim::Client(pick(dice, population.clients)),
        _ => Victim::Node(pick(dice, population.nodes)),
    }
}
