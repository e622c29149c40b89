//! What goes wrong in a run: the kinds of faults, and how they are drawn from the seed before the run begins.
//!
//! What the real transport can do is what is done here. Between a process and a server runs a stream (gRPC over
//! TCP): in order and without gaps while it lasts, so nothing in it is doubled or overtaken. What a fault destroys
//! is the stream; what was in it may still arrive late, behind what a new stream brings, and whoever got no answer
//! says it again: that is where doubling and reordering come from. People's requests travel apart (HTTP): they
//! overtake each other, get lost alone, and a proxy may send one twice.

use ohm_stdx::Prng;

/// Whom a fault strikes: a position in the world's list of that role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Victim {
    Server(usize),
    Scheduler(usize),
    Health(usize),
    Node(usize),
    Client(usize),
}

/// Which direction of a link is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Both,
    /// Nothing reaches the server.
    Up,
    /// Nothing comes from the server.
    Down,
}

/// How an agent's node is another one after its restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Rack,
    Tier,
    NoSchedule,
    NoExecute,
    Untaint,
    Shrink,
    Grow,
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process is killed and started again.
    Crash { victim: Victim, down_ms: u64 },
    /// The machine of a server loses power in the middle of its disk calls, after so many more: what was not synced is
    /// lost, kept or torn.
    PowerLoss { server: usize, after_calls: u64, down_ms: u64 },
    /// A client comes back without its memory and asks for everything again.
    Amnesia { client: usize, down_ms: u64 },
    /// The process stands still (on a node: the agent; its tasks run on).
    Pause { victim: Victim, for_ms: u64 },
    /// Nothing passes between the process and the servers, in one direction or both.
    Cut { victim: Victim, way: Way, for_ms: u64 },
    /// Nothing passes between two servers.
    Split { one: usize, other: usize, way: Way, for_ms: u64 },
    /// Every message takes so many times as long.
    Storm { times: u64, for_ms: u64 },
    /// The machine of a node restarts: agent and tasks are gone at once.
    Reboot { node: usize, down_ms: u64 },
    /// The machine of a node comes back with an empty disk: it does not know any more who it was.
    Wipe { node: usize, down_ms: u64 },
    /// A server's disk has no room.
    FullDisk { server: usize, for_ms: u64 },
    /// Every sync takes this long.
    SlowDisk { server: usize, by_ms: u64, for_ms: u64 },
    /// A disk call fails, after so many more.
    FailedDisk { server: usize, after_calls: u64, down_ms: u64 },
    /// A server restarts and finds a bit of what it had synced flipped.
    BitRot { server: usize, down_ms: u64 },
    /// Somebody sets a server's wall clock.
    ClockJump { server: usize, by_ms: i64 },
    /// An agent restarts on a node that is another one now.
    Respec { node: usize, change: Change },
}

/// Every kind of fault that the drawn mix can hold, for the coverage table.
pub const FAULT_KINDS: &[&str] = &[
    "server crash",
    "server power loss",
    "server pause",
    "scheduler crash",
    "scheduler pause",
    "health crash",
    "health pause",
    "agent crash",
    "agent pause",
    "client crash",
    "client amnesia",
    "client pause",
    "network cut",
    "network cut upwards",
    "network cut downwards",
    "network storm",
    "stream broken",
    "message late",
    "request lost",
    "request doubled",
    "request overtaken",
    "node reboot",
    "node wiped",
    "node relabelled",
    "node tainted",
    "node resized",
    "disk full",
    "disk slow",
    "disk call failed",
    "disk write torn",
    "disk bit flipped",
    "clock jump",
];

impl Fault {
    /// The kind, for counting.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Fault::Crash { victim, .. } => match victim {
                Victim::Server(_) => "server crash",
                Victim::Scheduler(_) => "scheduler crash",
                Victim::Health(_) => "health crash",
                Victim::Node(_) => "agent crash",
                Victim::Client(_) => "client crash",
            },
            Fault::Pause { victim, .. } => match victim {
                Victim::Server(_) => "server pause",
                Victim::Scheduler(_) => "scheduler pause",
                Victim::Health(_) => "health pause",
                Victim::Node(_) => "agent pause",
                Victim::Client(_) => "client pause",
            },
            Fault::PowerLoss { .. } => "server power loss",
            Fault::Amnesia { .. } => "client amnesia",
            Fault::Cut { way: Way::Both, .. } => "network cut",
            Fault::Cut { way: Way::Up, .. } => "network cut upwards",
            Fault::Cut { way: Way::Down, .. } => "network cut downwards",
            Fault::Split { .. } => "network split",
            Fault::Storm { .. } => "network storm",
            Fault::Reboot { .. } => "node reboot",
            Fault::Wipe { .. } => "node wiped",
            Fault::FullDisk { .. } => "disk full",
            Fault::SlowDisk { .. } => "disk slow",
            Fault::FailedDisk { .. } => "disk call failed",
            Fault::BitRot { .. } => "disk bit flipped",
            Fault::ClockJump { .. } => "clock jump",
            Fault::Respec { change: Change::Rack | Change::Tier, .. } => "node relabelled",
            Fault::Respec { change: Change::NoSchedule | Change::NoExecute | Change::Untaint, .. } => "node tainted",
            Fault::Respec { change: Change::Shrink | Change::Grow, .. } => "node resized",
        }
    }
}

/// How many of each role there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Population {
    pub(crate) servers: usize,
    pub(crate) schedulers: usize,
    pub(crate) health: usize,
    pub(crate) nodes: usize,
    pub(crate) clients: usize,
}

/// How many families of faults there are: each is in the mix of a run or is not.
const FAMILIES: u64 = 9;

/// Draws the faults of a run with their times, ascending; the families that occur at all are drawn too (swarm).
pub(crate) fn draw(dice: &mut Prng, population: Population, until_ms: u64) -> Vec<(u64, Fault)> {
    let allowed: Vec<bool> = (0..FAMILIES).map(|_| dice.chance(600)).collect();
    let count = [0, 4, 10, 18, 30][dice.below(5) as usize];
    let mut faults = Vec::new();
    for _ in 0..count {
        let at_ms = dice.between(1_000.min(until_ms), until_ms);
        let family = dice.below(FAMILIES);
        let fault = draw_fault(dice, family, population);
        if allowed[family as usize] {
            faults.push((at_ms, fault));
        }
    }
    faults.sort_by_key(|(at_ms, _)| *at_ms);
    faults
}

fn draw_fault(dice: &mut Prng, family: u64, population: Population) -> Fault {
    let victim = draw_victim(dice, population);
    let server = dice.below(population.servers as u64) as usize;
    let node = dice.below(population.nodes as u64) as usize;
    let scale_ms = [50, 500, 2_000, 5_000, 9_000, 14_000, 20_000][dice.below(7) as usize];
    let for_ms = scale_ms / 2 + dice.below(scale_ms);
    let down_ms = for_ms.min(8_000);
    match family {
        0 => match (victim, dice.chance(400)) {
            (Victim::Client(client), true) => Fault::Amnesia { client, down_ms },
            _ => Fault::Crash { victim, down_ms },
        },
        1 => Fault::Pause { victim, for_ms },
        2 => {
            let way = [Way::Both, Way::Both, Way::Up, Way::Down][dice.below(4) as usize];
            Fault::Cut { victim, way, for_ms }
        }
        3 if dice.chance(250) => Fault::Wipe { node, down_ms: for_ms },
        3 => Fault::Reboot { node, down_ms: for_ms },
        4 => Fault::Storm { times: [3, 10, 40][dice.below(3) as usize], for_ms },
        5 => Fault::PowerLoss { server, after_calls: dice.below(8), down_ms },
        6 => match dice.below(4) {
            0 => Fault::FullDisk { server, for_ms: down_ms },
            1 => Fault::SlowDisk { server, by_ms: [5, 50, 400][dice.below(3) as usize], for_ms },
            2 => Fault::FailedDisk { server, after_calls: dice.below(8), down_ms },
            _ => Fault::BitRot { server, down_ms },
        },
        7 => {
            let hour_ms = 3_600_000;
            Fault::ClockJump { server, by_ms: [hour_ms, -hour_ms, 2 * hour_ms, -5_000][dice.below(4) as usize] }
        }
        _ => {
            let changes = [
                Change::Rack,
                Change::Tier,
                Change::NoSchedule,
                Change::NoExecute,
                Change::Untaint,
                Change::Shrink,
                Change::Grow,
            ];
            Fault::Respec { node, change: changes[dice.below(changes.len() as u64) as usize] }
        }
    }
}

fn draw_victim(dice: &mut Prng, population: Population) -> Victim {
    let pick = |dice: &mut Prng, count: usize| dice.below(count as u64) as usize;
    match dice.below(10) {
        0 | 1 => Victim::Server(pick(dice, population.servers)),
        2 | 3 => Victim::Scheduler(pick(dice, population.schedulers)),
        4 | 5 => Victim::Health(pick(dice, population.health)),
        6 => Victim::Client(pick(dice, population.clients)),
        _ => Victim::Node(pick(dice, population.nodes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drawn_kind_is_in_the_table() {
        let population = Population { servers: 1, schedulers: 3, health: 2, nodes: 4, clients: 2 };
        for seed in 0..300 {
            for (at_ms, fault) in draw(&mut Prng::new(seed), population, 40_000) {
                assert!(FAULT_KINDS.contains(&fault.kind()), "{fault:?}");
                assert!((1_000..=40_000).contains(&at_ms));
            }
        }
    }
}
