//! What goes wrong in a run: the kinds of faults, and how they are drawn from the seed before the run begins.
//!
//! What the real transport can do is what is done here. Between a process and a server runs a stream (gRPC over
//! TCP): in order and without gaps while it lasts, so nothing in it is doubled or overtaken. What a fault destroys
//! is the stream; what was in it may still arrive late, behind what a new stream brings, and whoever got no answer
//! says it again: that is where doubling and reordering come from. People's requests travel apart (HTTP): they
//! overtake each other, get lost alone, and a proxy may send one twice.

use crate::layout::rack_of;
use ohm_model::ConditionKind;
use ohm_stdx::Prng;

const DAY_MS: i64 = 86_400_000;

/// Whom a fault strikes: a position in the world's list of that role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Victim {
    Server(usize),
    Scheduler(usize),
    Health(usize),
    Provisioner(usize),
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
    /// Every candidate for the health duty stands still: nobody answers beats, and the leases of all nodes run down.
    Freeze { for_ms: u64 },
    /// A stranger with the cell's token says at every server that it is health, answers beats with endless leases, and
    /// leaves after a while.
    Stranger { for_ms: u64 },
    /// Nothing passes between the process and the servers, in one direction or both.
    Cut { victim: Victim, way: Way, for_ms: u64 },
    /// Nothing passes between two servers.
    Split { one: usize, other: usize, way: Way, for_ms: u64 },
    /// Nothing passes between the server that leads just then and the others.
    Depose { for_ms: u64 },
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
    /// The disk of a server is gone, and with it the server: the operator puts a new one in its place.
    LostDisk { server: usize },
    /// The log of a server is gone, and nothing else in its data folder: somebody puts the files back, or where there
    /// are several servers a new one in its place.
    LostLog { server: usize, down_ms: u64 },
    /// The same with the end of the log, from before what was durable when it was looked at last.
    CutLog { server: usize, down_ms: u64 },
    /// The operator removes a server that runs.
    Retire { server: usize },
    /// The operator adds a server.
    AddServer,
    /// The operator wants this server to lead.
    Transfer { server: usize },
    /// Something is wrong with a node whose agent goes on.
    Ail { node: usize, kind: ConditionKind, for_ms: u64 },
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
    "health frozen",
    "stranger as health",
    "provisioner crash",
    "provisioner pause",
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
    "node ailing",
    "disk full",
    "disk slow",
    "disk call failed",
    "disk write torn",
    "disk bit flipped",
    "server log lost",
    "server log cut",
    "clock jump",
];

/// What can go wrong besides where there are several servers.
pub const GROUP_FAULT_KINDS: &[&str] = &[
    "network split",
    "leader cut off",
    "message lost",
    "server disk lost",
    "server retired",
    "server added",
    "leader changed",
    "snapshot sent",
];

impl Fault {
    /// The kind, for counting.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Fault::Crash { victim, .. } => match victim {
                Victim::Server(_) => "server crash",
                Victim::Scheduler(_) => "scheduler crash",
                Victim::Health(_) => "health crash",
                Victim::Provisioner(_) => "provisioner crash",
                Victim::Node(_) => "agent crash",
                Victim::Client(_) => "client crash",
            },
            Fault::Pause { victim, .. } => match victim {
                Victim::Server(_) => "server pause",
                Victim::Scheduler(_) => "scheduler pause",
                Victim::Health(_) => "health pause",
                Victim::Provisioner(_) => "provisioner pause",
                Victim::Node(_) => "agent pause",
                Victim::Client(_) => "client pause",
            },
            Fault::Freeze { .. } => "health frozen",
            Fault::Stranger { .. } => "stranger as health",
            Fault::PowerLoss { .. } => "server power loss",
            Fault::Amnesia { .. } => "client amnesia",
            Fault::Cut { way: Way::Both, .. } => "network cut",
            Fault::Cut { way: Way::Up, .. } => "network cut upwards",
            Fault::Cut { way: Way::Down, .. } => "network cut downwards",
            Fault::Split { .. } => "network split",
            Fault::Depose { .. } => "leader cut off",
            Fault::LostDisk { .. } => "server disk lost",
            Fault::LostLog { .. } => "server log lost",
            Fault::CutLog { .. } => "server log cut",
            Fault::Retire { .. } => "server retired",
            Fault::AddServer => "server added",
            Fault::Transfer { .. } => "leader changed",
            Fault::Storm { .. } => "network storm",
            Fault::Reboot { .. } => "node reboot",
            Fault::Wipe { .. } => "node wiped",
            Fault::FullDisk { .. } => "disk full",
            Fault::SlowDisk { .. } => "disk slow",
            Fault::FailedDisk { .. } => "disk call failed",
            Fault::BitRot { .. } => "disk bit flipped",
            Fault::ClockJump { .. } => "clock jump",
            Fault::Ail { .. } => "node ailing",
            Fault::Respec { change: Change::Rack | Change::Tier, .. } => "node relabelled",
            Fault::Respec { change: Change::NoSchedule | Change::NoExecute | Change::Untaint, .. } => "node tainted",
            Fault::Respec { change: Change::Shrink | Change::Grow, .. } => "node resized",
        }
    }
}

impl Fault {
    /// The same fault for the server that stands where the named one stood.
    pub(crate) fn with_server(mut self, mut standing: impl FnMut(usize) -> usize) -> Fault {
        match &mut self {
            Fault::Crash { victim: Victim::Server(server), .. }
            | Fault::Pause { victim: Victim::Server(server), .. }
            | Fault::Cut { victim: Victim::Server(server), .. }
            | Fault::PowerLoss { server, .. }
            | Fault::FullDisk { server, .. }
            | Fault::SlowDisk { server, .. }
            | Fault::FailedDisk { server, .. }
            | Fault::BitRot { server, .. }
            | Fault::ClockJump { server, .. }
            | Fault::LostDisk { server }
            | Fault::LostLog { server, .. }
            | Fault::CutLog { server, .. }
            | Fault::Retire { server }
            | Fault::Transfer { server } => *server = standing(*server),
            Fault::Split { one, other, .. } => (*one, *other) = (standing(*one), standing(*other)),
            _ => {}
        }
        self
    }

    /// The one server that it strikes, if it is one.
    pub(crate) fn server(&self) -> Option<usize> {
        let mut found = None;
        self.with_server(|server| *found.insert(server));
        found
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
    /// Whether nodes go down together.
    pub(crate) losses: bool,
}

/// How many families of faults there are: each is in the mix of a run or is not.
const FAMILIES: u64 = 9;
/// And where there are several servers.
const GROUP_FAMILIES: u64 = 12;

/// Draws the faults of a run with their times, ascending; the families that occur at all are drawn too (swarm).
pub(crate) fn draw(dice: &mut Prng, population: Population, until_ms: u64) -> Vec<(u64, Fault)> {
    let families = if population.servers > 1 { GROUP_FAMILIES } else { FAMILIES };
    let allowed: Vec<bool> = (0..families).map(|_| dice.chance(600)).collect();
    let count = [0, 4, 10, 18, 30][dice.below(5) as usize];
    let mut faults = Vec::new();
    for _ in 0..count {
        let at_ms = dice.between(1_000.min(until_ms), until_ms);
        let family = dice.below(families);
        let fault = draw_fault(dice, family, population);
        if allowed[family as usize] {
            faults.push((at_ms, fault));
        }
    }
    if population.losses && population.nodes > 1 {
        for _ in 0..dice.below(5) {
            let at_ms = dice.between(1_000.min(until_ms), until_ms);
            faults.extend(draw_losses(dice, population.nodes).map(|(after_ms, fault)| {
                let last_ms = until_ms.max(at_ms);
                ((at_ms + after_ms).min(last_ms), fault)
            }));
        }
    }
    faults.sort_by_key(|(at_ms, _)| *at_ms);
    faults
}

/// What is wrong with nodes whose agents go on, in four of ten runs. Its dice are its own: what else a seed draws does
/// not depend on it.
pub(crate) fn draw_ailments(dice: &mut Prng, population: Population, until_ms: u64) -> Vec<(u64, Fault)> {
    let count = if dice.chance(400) { dice.between(1, 8) } else { 0 };
    let ailment = |_| {
        let node = dice.below(population.nodes as u64) as usize;
        let kind = ConditionKind::ALL[dice.below(4) as usize];
        let for_ms = dice.between(200, 25_000);
        (dice.between(1_000.min(until_ms), until_ms), Fault::Ail { node, kind, for_ms })
    };
    (0..count).map(ailment).collect()
}

/// What befalls the health duty: in one of four runs all candidates stand still for about as long as a node lease
/// lasts, in one of four somebody else says that it is health. Its dice are its own, too.
pub(crate) fn draw_duty_faults(dice: &mut Prng, node_lease_ms: u64, until_ms: u64) -> Vec<(u64, Fault)> {
    let count = if dice.chance(250) { dice.between(1, 2) } else { 0 };
    let freeze = |_| {
        let for_ms = dice.between(node_lease_ms / 2, node_lease_ms + node_lease_ms / 2);
        (dice.between(1_000.min(until_ms), until_ms), Fault::Freeze { for_ms })
    };
    let mut faults: Vec<(u64, Fault)> = (0..count).map(freeze).collect();
    let strangers = if dice.chance(250) { dice.between(1, 3) } else { 0 };
    for _ in 0..strangers {
        let for_ms = dice.between(1, 3_000);
        faults.push((dice.between(1_000.min(until_ms), until_ms), Fault::Stranger { for_ms }));
    }
    faults
}

/// In one of five runs somebody sets the clock of a server a day forward, and it restarts soon after, with or without
/// its machine; in a part of these, the clock of another one is set as well. Its dice are its own, too.
pub(crate) fn draw_clock_jumps(dice: &mut Prng, population: Population, until_ms: u64) -> Vec<(u64, Fault)> {
    if !dice.chance(200) {
        return Vec::new();
    }
    let by_ms = [DAY_MS, DAY_MS, 30 * DAY_MS][dice.below(3) as usize];
    let first = dice.below(population.servers as u64) as usize;
    let both = dice.chance(300) && population.servers > 1;
    let others = both.then(|| (first + 1) % population.servers);
    let jumps = std::iter::once(first).chain(others).map(|server| {
        let at_ms = dice.between(1_000.min(until_ms), until_ms);
        let (after_ms, down_ms) = (dice.between(1, 4_000), dice.between(100, 4_000));
        let restart = match dice.chance(300) {
            true => Fault::PowerLoss { server, after_calls: dice.below(8), down_ms },
            false => Fault::Crash { victim: Victim::Server(server), down_ms },
        };
        [(at_ms, Fault::ClockJump { server, by_ms }), ((at_ms + after_ms).min(until_ms), restart)]
    });
    jumps.flatten().collect()
}

/// A server that loses its log and keeps the rest, in one of six runs, and one that loses the end of it, in as many.
/// Their dice are their own, too.
pub(crate) fn draw_lost_logs(dice: &mut Prng, population: Population, until_ms: u64) -> Vec<(u64, Fault)> {
    let mut draw = |fault: fn(usize, u64) -> Fault| {
        let server = dice.below(population.servers as u64) as usize;
        let (at_ms, down_ms) = (dice.between(1_000.min(until_ms), until_ms), dice.between(100, 8_000));
        dice.chance(170).then(|| (at_ms, fault(server, down_ms)))
    };
    let lost = draw(|server, down_ms| Fault::LostLog { server, down_ms });
    let cut = draw(|server, down_ms| Fault::CutLog { server, down_ms });
    lost.into_iter().chain(cut).collect()
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
        9 => {
            let other = (server + 1 + dice.below(population.servers as u64 - 1) as usize) % population.servers;
            let way = [Way::Both, Way::Both, Way::Up, Way::Down][dice.below(4) as usize];
            Fault::Split { one: server, other, way, for_ms }
        }
        // Servers die more often than the rest of the world: that is what several are for.
        10 => match dice.below(3) {
            0 => Fault::Cut { victim: Victim::Server(server), way: Way::Both, for_ms },
            1 => Fault::Pause { victim: Victim::Server(server), for_ms: for_ms.min(6_000) },
            _ => Fault::Crash { victim: Victim::Server(server), down_ms },
        },
        11 => match dice.below(6) {
            0 | 1 => Fault::LostDisk { server },
            2 => Fault::Retire { server },
            3 => Fault::AddServer,
            _ => Fault::Transfer { server },
        },
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

/// One node, two, or a whole rack go down or are cut off within a moment, mostly for longer than a lease; how long
/// after the first one each of them does.
fn draw_losses(dice: &mut Prng, nodes: usize) -> impl Iterator<Item = (u64, Fault)> + use<> {
    let first = dice.below(nodes as u64) as usize;
    let rack = rack_of(first, false);
    let struck: Vec<usize> = match dice.below(3) {
        0 => vec![first],
        1 => vec![first, (first + 1 + dice.below(nodes as u64 - 1) as usize) % nodes],
        _ => (0..nodes).filter(|&node| rack_of(node, false) == rack).collect(),
    };
    // Within what health gathers, and beyond.
    let within_ms = [0, 150, 500, 3_000][dice.below(4) as usize];
    let cut = dice.chance(300).then(|| [Way::Both, Way::Up, Way::Down][dice.below(3) as usize]);
    let down_ms = dice.between(3_000, 30_000);
    let mut losses = Vec::new();
    for node in struck {
        let after_ms = dice.between(0, within_ms);
        let down_ms = down_ms + dice.below(2_000);
        losses.push(match cut {
            Some(way) => (after_ms, Fault::Cut { victim: Victim::Node(node), way, for_ms: down_ms }),
            None => (after_ms, Fault::Reboot { node, down_ms }),
        });
    }
    losses.into_iter()
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
        for (seed, servers) in (0..300).flat_map(|seed| [(seed, 1), (seed, 3)]) {
            let population = Population { servers, schedulers: 3, health: 2, nodes: 4, clients: 2, losses: true };
            for (at_ms, fault) in draw(&mut Prng::new(seed), population, 40_000) {
                let among_several = servers > 1 && GROUP_FAULT_KINDS.contains(&fault.kind());
                assert!(FAULT_KINDS.contains(&fault.kind()) || among_several, "{fault:?}");
                assert!((1_000..=40_000).contains(&at_ms));
            }
        }
    }
}
