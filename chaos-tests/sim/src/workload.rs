//! What people do in a run: nodes of drawn sizes, jobs of all classes, and everything people do to what is there.

mod budgets;
mod dice;
mod jobs;
mod lines;
mod namespaces;
mod neighbours;
mod preemption;
mod probes;
mod profiles;
mod ready;
mod rollouts;
mod stop_delays;
mod subqueues;

pub(crate) use budgets::Budgets;
pub(crate) use jobs::job;
pub(crate) use lines::{Lines, Stop};
pub(crate) use namespaces::Namespaces;
pub(crate) use neighbours::NeighbourRules;
use preemption::{min_runtime_seconds, preemption, scheduling};
pub(crate) use probes::ProbedTasks;
pub(crate) use profiles::{changed_profiles, first_profile, into_own_class, own_class, short_patience};
pub(crate) use ready::ReadyTimes;
pub(crate) use rollouts::RolledServices;
pub(crate) use stop_delays::StopDelays;
pub(crate) use subqueues::Subqueues;

use crate::faults::Change;
use crate::knobs::Knobs;
use crate::layout::{FLAVORED, PUT_TAINT, QUEUES, TAINT, rack_of};
use ohm_model::{
    Class, Command, FlavorFungibility, FlavorQuota, JobSpec, NodeSpec, QueueSpec, ResourceFlavor, ResourceGroup,
    ResourceQuota, Taint, TaintEffect, TaintPattern, TopologySpec, WhenCan,
};
use ohm_stdx::{Prng, hash};

/// The topology of every simulated cell.
pub(crate) fn topology() -> TopologySpec {
    let levels = ["topology.ohm/block", "topology.ohm/rack", "kubernetes.io/hostname"];
    TopologySpec { name: "default".into(), levels: levels.map(String::from).to_vec() }
}

/// A node of drawn size in a drawn rack; in a large cell racks are large too.
pub(crate) fn node(dice: &mut Prng, number: usize, large: bool) -> NodeSpec {
    let rack = rack_of(number, large);
    let block = if large { rack / 12 } else { rack / 2 };
    let mut labels = vec![
        ("topology.ohm/block".to_string(), format!("b{block}")),
        ("topology.ohm/rack".to_string(), format!("r{rack}")),
        ("tier".to_string(), if dice.chance(500) { "gold" } else { "tin" }.to_string()),
        ("size".to_string(), dice.below(10).to_string()),
    ];
    if dice.chance(60) {
        // A node outside the topology.
        labels.remove(1);
    }
    let mut capacity = vec![
        ("cpu".to_string(), dice.between(2, 8) as i64 * 1000),
        ("memory".to_string(), dice.between(4, 16) as i64 * (1 << 30)),
        ("pods".to_string(), dice.between(3, 20) as i64),
    ];
    if dice.chance(300) {
        capacity.push(("nvidia.com/gpu".to_string(), dice.between(1, 4) as i64 * 1000));
    }
    let taint = Taint { key: "dedicated".into(), value: "x".into(), effect: TaintEffect::NoSchedule };
    NodeSpec {
        name: format!("n{number}"),
        labels: labels.into_iter().collect(),
        taints: if dice.chance(80) { vec![taint] } else { Vec::new() },
        capacity: capacity.into_iter().collect(),
        address: format!("10.0.{}.{}", number / 250, number % 250),
    }
}

/// Makes a node another one.
pub(crate) fn change(spec: &mut NodeSpec, change: Change) {
    let cpu = spec.capacity.get("cpu").copied().unwrap_or(1000);
    let mut taint = |effect| {
        spec.taints.retain(|taint| taint.key != TAINT);
        spec.taints.push(Taint { key: TAINT.into(), value: String::new(), effect });
    };
    match change {
        Change::Rack => {
            let rack = spec.labels.entry("topology.ohm/rack".into()).or_default();
            *rack = if rack == "r0" { "r1".into() } else { "r0".into() };
        }
        Change::Tier => {
            let tier = spec.labels.entry("tier".into()).or_default();
            *tier = if tier == "gold" { "tin".into() } else { "gold".into() };
        }
        Change::NoSchedule => taint(TaintEffect::NoSchedule),
        Change::NoExecute => taint(TaintEffect::NoExecute),
        Change::Untaint => spec.taints.clear(),
        Change::Shrink => drop(spec.capacity.insert("cpu".into(), (cpu / 2).max(1000))),
        Change::Grow => drop(spec.capacity.insert("cpu".into(), (cpu * 2).min(64_000))),
    }
}

/// What the cell is told before all else: its topology, and its queues if it has some.
pub(crate) fn greetings(dice: &mut Prng, queues: bool) -> Vec<Command> {
    let mut commands = vec![Command::PutTopology(topology())];
    if queues {
        let cohort = QueueSpec { is_cohort: true, parent: String::new(), ..queue(dice, "all") };
        commands.push(Command::PutQueue(cohort));
        commands.extend(FLAVORS.map(|name| put_flavor(name, dice.chance(900))));
        commands.extend(QUEUES.map(|name| Command::PutQueue(queue(dice, name))));
        commands.extend(scheduling(dice));
    }
    commands
}

/// The flavors: nodes of one tier or the other. A queue may list one more, which nobody has put.
const FLAVORS: [&str; 2] = ["gold", "tin"];

/// A flavor with the labels of its nodes, or without.
fn put_flavor(name: &str, labelled: bool) -> Command {
    let labels = labelled.then(|| ("tier".to_string(), name.to_string()));
    let flavor = ResourceFlavor { name: name.into(), node_labels: labels.into_iter().collect(), ..Default::default() };
    Command::PutResourceFlavor(Box::new(flavor))
}

/// Room by flavor: for everything in one group, or for devices in another, or for those not at all.
fn resource_groups(dice: &mut Prng) -> Vec<ResourceGroup> {
    let (all, gpu) = (["cpu", "memory", "nvidia.com/gpu"], dice.below(3));
    let covered = match gpu {
        0 => vec![&all[..]],
        1 => vec![&all[..2], &all[2..]],
        _ => vec![&all[..2]],
    };
    let group = |covered: &[&str]| {
        let mut names = [&FLAVORS[..], &["none"]].concat();
        let first = dice.below(2) as usize;
        names.swap(0, first);
        names.truncate([1, 2, 2, 3][dice.below(4) as usize]);
        let mut quota = |resource: &str| {
            let (scale, bound) = match resource {
                "cpu" => (1000, 12),
                "memory" => (1 << 30, 64),
                _ => (1000, 4),
            };
            let mut amount = || dice.below(bound) as i64 * scale;
            let quota =
                ResourceQuota { nominal: amount(), borrowing_limit: Some(amount()), lending_limit: Some(amount()) };
            let lending_limit = quota.lending_limit.filter(|lent| *lent <= quota.nominal && dice.chance(400));
            ResourceQuota {
                borrowing_limit: quota.borrowing_limit.filter(|_| dice.chance(300)),
                lending_limit,
                ..quota
            }
        };
        let mut flavor = |name: &&str| FlavorQuota {
            name: name.to_string(),
            resources: covered.iter().map(|resource| (resource.to_string(), quota(resource))).collect(),
        };
        let flavors = names.iter().map(&mut flavor).collect();
        ResourceGroup { covered_resources: covered.iter().map(|name| name.to_string()).collect(), flavors }
    };
    covered.into_iter().map(group).collect()
}

/// A queue with drawn quota and policies.
fn queue(dice: &mut Prng, name: &str) -> QueueSpec {
    let (preemption, min_runtime_seconds) = (preemption(dice, name), min_runtime_seconds(dice, name));
    QueueSpec { preemption, min_runtime_seconds, ..quota(dice, name) }
}

/// A queue with drawn quota.
fn quota(dice: &mut Prng, name: &str) -> QueueSpec {
    if FLAVORED.contains(&name) {
        let when = [WhenCan::MayStopSearch, WhenCan::TryNextFlavor];
        return QueueSpec {
            name: name.into(),
            parent: "all".into(),
            resource_groups: resource_groups(dice),
            flavor_fungibility: FlavorFungibility {
                when_can_borrow: when[dice.below(2) as usize],
                ..preemption::fungibility(dice, name)
            },
            ..QueueSpec::default()
        };
    }
    let mut cpu = |permille: u64, bound: u64| {
        let amount = dice.below(bound) as i64 * 1000;
        if dice.chance(permille) { [("cpu".to_string(), amount)].into() } else { Default::default() }
    };
    QueueSpec {
        name: name.into(),
        parent: if name == "alone" || name == "all" { String::new() } else { "all".into() },
        nominal: cpu(900, 12),
        borrowing_limit: cpu(300, 6),
        lending_limit: cpu(300, 6),
        ..QueueSpec::default()
    }
}

/// The job with something else in it; most often with other counts.
pub(crate) fn update(dice: &mut Prng, job: &JobSpec) -> JobSpec {
    let mut spec = job.clone();
    for group in &mut spec.groups {
        let size = group.topology.slices.first().map_or(1, |slice| slice.size.max(1));
        let scales = group.elastic || spec.class == Class::SERVICE || dice.chance(200);
        if scales && dice.chance(800) {
            let slices = dice.between(1, 2 * u64::from(group.count.div_ceil(size)));
            group.count = size.saturating_mul(slices as u32);
            group.min_count = match group.elastic {
                true if dice.chance(200) => dice.between(1, u64::from(group.count)) as u32,
                true => group.min_count.min(group.count),
                false => group.count,
            };
        }
    }
    match dice.below(8) {
        0 => spec.priority += 1,
        1 => spec.retries += 1,
        2 => drop(spec.labels.insert("changed".into(), "yes".into())),
        3 => spec.groups.iter_mut().for_each(|group| {
            let cpu = group.requests.entry("cpu".into()).or_insert(1000);
            *cpu = (*cpu / 2).max(100);
        }),
        4 => spec.groups.iter_mut().for_each(|group| group.spares = (group.spares + 1) % 3),
        _ => {}
    }
    jobs::drop_senseless_spares(&mut spec.groups, spec.class);
    spec
}

/// The nodes that people drain, with and without a deadline, several at the same time; most come back into use.
pub(crate) fn drains(seed: u64, knobs: &Knobs) -> Vec<(u64, Command)> {
    let mut dice = Prng::new(hash::chain(hash::mix(seed), 0xd4a2));
    let mut asks = Vec::new();
    let (undrained_permille, undrained_ms) = knobs.theme.undrained();
    for _ in 0..knobs.drains {
        let name = format!("n{}", dice.below(knobs.nodes as u64));
        let at_ms = dice.between(3_000, knobs.faults_ms.max(4_000));
        let deadline_ms = if dice.chance(300) { dice.between(500, 20_000) } else { 0 };
        let at_once = [0, 0, 1, 3][dice.below(4) as usize];
        asks.push((at_ms, Command::DrainNode { name: name.clone(), deadline_ms, at_once }));
        if dice.chance(undrained_permille) {
            asks.push((at_ms + dice.between(100, undrained_ms), Command::UndrainNode { name }));
        }
    }
    asks
}

/// The taints that people put on nodes, now and then on two at once, and take off again, sooner or later.
pub(crate) fn taints(seed: u64, knobs: &Knobs) -> Vec<(u64, Command)> {
    let mut dice = Prng::new(hash::chain(hash::mix(seed), 0x7a17));
    let count = if knobs.is_large() { 0 } else { [0, 2, 5, 9][dice.below(4) as usize] };
    let mut asks = Vec::new();
    for _ in 0..count {
        let at_ms = dice.between(3_000, knobs.faults_ms.max(4_000));
        let effect =
            *dice.pick(&[TaintEffect::NoExecute, TaintEffect::NoExecute, TaintEffect::NoSchedule]).expect("three");
        for _ in 0..if dice.chance(300) { 2 } else { 1 } {
            let name = format!("n{}", dice.below(knobs.nodes as u64));
            let taint = Taint { key: PUT_TAINT.into(), value: "disk".into(), effect };
            let (key, lasts_ms) = (taint.key.clone(), dice.between(500, 25_000));
            asks.push((at_ms, Command::TaintNode { name: name.clone(), taint }));
            if dice.chance(800) {
                let pattern = TaintPattern { key, value: None, effect: dice.chance(500).then_some(effect) };
                asks.push((at_ms + lasts_ms, Command::UntaintNode { name, pattern }));
            }
        }
    }
    asks
}

/// Something a person does to what is there already.
pub(crate) fn interference(dice: &mut Prng, job: Option<&JobSpec>, nodes: usize, queues: bool) -> Option<Command> {
    let node = format!("n{}", dice.below(nodes as u64));
    let name = || job.map(|spec| spec.name.clone());
    Some(match dice.below(22) {
        0 | 1 => Command::CancelJob { name: name()?, grace_ms: None },
        2 | 3 => Command::SuspendJob { name: name()? },
        4..=6 => Command::ResumeJob { name: name()? },
        7 => Command::CordonNode { name: node, cordoned: true },
        8 => Command::CordonNode { name: node, cordoned: false },
        9 => Command::RemoveNode { name: node },
        10 => Command::SubmitJobs { jobs: vec![job?.clone()] },
        // Under a name that is taken by something else.
        11 => {
            let mut other = job?.clone();
            other.priority += 1;
            Command::SubmitJobs { jobs: vec![other] }
        }
        12 if queues => {
            let name = *dice.pick(&QUEUES)?;
            Command::PutQueue(queue(dice, name))
        }
        20 if queues => put_flavor(dice.pick(&FLAVORS)?, dice.chance(700)),
        12 => Command::RemoveQueue { name: "nobody".into() },
        13..=16 => Command::UpdateJob { spec: Box::new(update(dice, job?)), version: None },
        17..=19 => Command::ForgetJob { name: name()? },
        _ => Command::RemoveTopology { name: "default".into() },
    })
}
