//! Jobs of drawn shapes: gangs, arrays, services, leaders with workers, and some that ask for rare things.

use super::preemption::of_job;
use crate::layout::{PUT_TAINT, QUEUES, TAINT};
use core::net::{IpAddr, Ipv4Addr};
use ohm_model::job::{SpreadMode, TTL_SECONDS_DEFAULT};
use ohm_model::node::HOSTNAME_LABEL;
use ohm_model::resources::is_extended;
use ohm_model::selector::{Operator, Requirement, SelectorTerm, Toleration, TolerationOperator};
use ohm_model::{
    Class, GroupSpec, HostPort, JobSpec, OnDisconnect, Protocol, Reconcile, RepairPolicy, RepairSpec, Survivors,
    TaskSpec, TopologyMode, TopologyRequest, TopologySlice,
};
use ohm_stdx::{Prng, hash};

/// A job of a drawn class and shape, small enough for most drawn cells; for large cells some are large.
/// With `lasting`, gangs mostly outlive the loss of a node.
pub(crate) fn job(dice: &mut Prng, name: String, (large, lasting): (bool, bool), queues: bool) -> JobSpec {
    let class = Class::BUILT_IN[dice.below(3) as usize];
    let most = match (large && dice.chance(500), dice.below(5)) {
        (true, _) => 400,
        (false, 0) => 16,
        _ => 6,
    };
    let mut groups = vec![group(dice, class, "main", most)];
    if class != Class::SERVICE && dice.chance(150) {
        groups.push(group(dice, class, "side", most));
    }
    if class == Class::TAS && dice.chance(250) {
        groups.iter_mut().for_each(|group| cut(dice, group));
    }
    if class == Class::TAS && dice.chance(150) {
        let leader = leader_of(&groups[0]);
        groups[0].place_with = leader.place_with.clone();
        groups.insert(0, leader);
    }
    if lasting && class != Class::SERVICE && dice.chance(600) {
        let longer_ms = dice.between(10_000, 40_000);
        groups.iter_mut().for_each(|group| group.task.sim_duration_ms += longer_ms);
    }
    let queue = if queues && dice.chance(600) { QUEUES[dice.below(QUEUES.len() as u64) as usize] } else { "" };
    let (priority, repair, retries) = (dice.below(3) as i32, repair(dice, &groups), dice.below(4) as u32);
    let active_deadline_seconds = if dice.chance(100) { dice.between(5, 40) } else { 0 };
    let ttl_seconds_after_finished = if dice.chance(200) { dice.between(1, 20) } else { TTL_SECONDS_DEFAULT };
    // One draw says whether runs are kept, which of two lives on, and what becomes of those that stayed.
    let draw = dice.below(1000);
    let restarts = lasting && (draw / 3).is_multiple_of(3);
    let survivors = if restarts { Survivors::RestartAll } else { Survivors::Notify };
    spare(&mut groups, class, &name, draw);
    let (preempts, preemptible) = of_job(dice, &name);
    JobSpec {
        name,
        class,
        queue: queue.into(),
        subqueue: String::new(),
        priority,
        priority_class: String::new(),
        preempts,
        preemptible,
        labels: Default::default(),
        repair: RepairSpec { survivors, provision: (draw / 7).is_multiple_of(2), ..repair },
        groups,
        retries,
        active_deadline_seconds,
        pending_timeout_seconds: 0,
        ttl_seconds_after_finished,
        on_disconnect: if draw < 850 { OnDisconnect::Stop } else { OnDisconnect::Keep },
        reconcile: [Reconcile::Newer, Reconcile::Original, Reconcile::LongestRunning][draw as usize % 3],
        suspended: dice.chance(50),
        strategy: None,
    }
}

/// Lets some groups ask for spares, where that makes sense. The dice are their own: what else is drawn does not depend
/// on it.
fn spare(groups: &mut [GroupSpec], class: Class, name: &str, draw: u64) {
    let salt = groups.iter().fold(draw, |salt, group| hash::chain(salt, group.task.sim_duration_ms));
    let mut dice = Prng::new(hash::chain(salt, hash::bytes(name.as_bytes())));
    for group in groups.iter_mut() {
        group.spares = if dice.chance(300) { dice.between(1, 2) as u32 } else { 0 };
    }
    drop_senseless_spares(groups, class);
}

/// No job is refused for its spares.
pub(super) fn drop_senseless_spares(groups: &mut [GroupSpec], class: Class) {
    for group in
        groups.iter_mut().filter(|group| class.built_in().is_none_or(|kind| group.spares_problem(kind).is_some()))
    {
        group.spares = 0;
    }
}

/// What the job wants when it lost nodes; it may only widen to a level above those it requires.
fn repair(dice: &mut Prng, groups: &[GroupSpec]) -> RepairSpec {
    let required = |level: &str| {
        let asks = |group: &GroupSpec| group.topology.mode == TopologyMode::Required && group.topology.level == level;
        groups.iter().any(asks)
    };
    let policy = [RepairPolicy::FailFast, RepairPolicy::Wait, RepairPolicy::Widen][dice.below(3) as usize];
    let timeout_seconds = [0, 2, 10, 30][dice.below(4) as usize];
    match policy {
        RepairPolicy::FailFast => RepairSpec::default(),
        RepairPolicy::Widen if !required("topology.ohm/block") => {
            let rack = !required("topology.ohm/rack") && dice.chance(500);
            let widen_to = if rack { "topology.ohm/rack" } else { "topology.ohm/block" };
            RepairSpec { policy, timeout_seconds, widen_to: widen_to.into(), ..RepairSpec::default() }
        }
        _ => RepairSpec { policy: RepairPolicy::Wait, timeout_seconds, ..RepairSpec::default() },
    }
}

/// One small task that leads the workers of `group`, in their domain.
fn leader_of(group: &GroupSpec) -> GroupSpec {
    GroupSpec { name: "leader".into(), count: 1, min_count: 1, place_with: "team".into(), ..group.clone() }
}

/// A host port: of most groups on all addresses, of some on one of them or of another protocol.
fn port(number: u16, count: u32) -> HostPort {
    let one = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    match count % 5 {
        1 => HostPort::on(number, Protocol::Udp, None),
        2 => HostPort::on(number, Protocol::Tcp, Some(one)),
        _ => HostPort::tcp(number),
    }
}

fn group(dice: &mut Prng, class: Class, name: &str, most: u64) -> GroupSpec {
    let count = dice.between(1, most) as u32;
    let gang = dice.chance(500) && class != Class::SERVICE;
    let min_count = if gang { dice.between(1, u64::from(count)) as u32 } else { 1 };
    let endless = class == Class::SERVICE;
    let ports = if dice.chance(if endless { 400 } else { 60 }) {
        vec![port(8080 + dice.below(2) as u16, count)]
    } else {
        Vec::new()
    };
    let mut requests = vec![
        ("cpu".to_string(), dice.between(1, 20) as i64 * 100),
        ("memory".to_string(), dice.between(1, 8) as i64 * (256 << 20)),
    ];
    if dice.chance(80) {
        requests.push(("nvidia.com/gpu".to_string(), [250, 500, 1000, 2000][dice.below(4) as usize]));
    }
    // Nobody plans or judges by limits, so they take no dice.
    let more = |(name, amount): &(String, i64)| (name.clone(), if is_extended(name) { *amount } else { amount * 2 });
    let limits = requests.iter().filter(|_| count.is_multiple_of(2)).map(more).collect();
    GroupSpec {
        name: name.into(),
        labels: Default::default(),
        neighbours: None,
        count,
        min_count,
        elastic: !gang || dice.chance(300),
        requests: requests.into_iter().collect(),
        limits,
        node_selector: if dice.chance(150) { [("tier".into(), "gold".into())].into() } else { Default::default() },
        affinity: affinity(dice),
        preferred: Vec::new(),
        tolerations: tolerations(dice),
        ports,
        max_per_node: if dice.chance(200) { dice.between(1, 3) as u32 } else { 0 },
        spares: 0,
        spread: if endless { SpreadMode::Spread } else { SpreadMode::Pack },
        topology: topology(dice, class),
        disruption_budget: None,
        place_with: String::new(),
        task: TaskSpec {
            command: vec!["/bin/true".into()],
            grace_ms: dice.between(0, 2_000),
            sim_duration_ms: if endless && dice.chance(800) { 0 } else { dice.between(100, 12_000) },
            sim_exit_code: if dice.chance(100) { 1 } else { 0 },
            ..TaskSpec::default()
        },
    }
}

fn topology(dice: &mut Prng, class: Class) -> TopologyRequest {
    let mode = match (class, dice.below(4)) {
        (Class::TAS, 0 | 1) => TopologyMode::Required,
        (Class::TAS, 2) => TopologyMode::Preferred,
        (Class::TAS, _) => TopologyMode::Unconstrained,
        _ => TopologyMode::None,
    };
    let level = match mode {
        TopologyMode::None | TopologyMode::Unconstrained => "",
        _ => ["topology.ohm/block", "topology.ohm/rack", "kubernetes.io/hostname"][dice.below(3) as usize],
    };
    TopologyRequest { mode, level: level.into(), ..TopologyRequest::default() }
}

/// Cuts a group into slices of a rack, of a host, or of hosts in racks, below the level it asks for. Its sizes become
/// multiples of theirs.
fn cut(dice: &mut Prng, group: &mut GroupSpec) {
    let (rack, host) = ("topology.ohm/rack", "kubernetes.io/hostname");
    let size = dice.between(2, 3) as u32;
    let layers: &[(&str, u32)] = match (group.topology.level.as_str(), dice.below(3)) {
        ("kubernetes.io/hostname", _) | (_, 0) => &[(host, size)],
        (_, 1) => &[(rack, size)],
        _ => &[(rack, size * 2), (host, size)],
    };
    let slice = |&(level, size): &(&str, u32)| TopologySlice { level: level.into(), size };
    group.topology.slices = layers.iter().map(slice).collect();
    let whole = layers.first().map_or(1, |(_, size)| *size);
    group.count = group.count.next_multiple_of(whole);
    group.min_count = group.min_count.next_multiple_of(whole).min(group.count);
}

fn affinity(dice: &mut Prng) -> Vec<SelectorTerm> {
    if !dice.chance(120) {
        return Vec::new();
    }
    let (key, operator, values): (&str, Operator, &[&str]) = match dice.below(5) {
        0 => ("tier", Operator::In, &["gold", "silver"]),
        1 => ("tier", Operator::NotIn, &["gold"]),
        2 => ("size", Operator::Gt, &["3"]),
        3 => ("size", Operator::Lt, &["7"]),
        _ => ("metadata.name", Operator::In, &["n0", "n2"]),
    };
    let values = values.iter().map(|value| value.to_string()).collect();
    let named = Requirement { key: key.into(), operator, values };
    if key != "metadata.name" {
        return vec![SelectorTerm::of_labels(vec![named])];
    }
    let labelled = Requirement { key: HOSTNAME_LABEL.into(), operator: Operator::Exists, values: Vec::new() };
    vec![SelectorTerm { requirements: vec![labelled], fields: vec![named] }]
}

fn tolerations(dice: &mut Prng) -> Vec<Toleration> {
    let toleration = |key: &str| Toleration {
        key: key.into(),
        operator: TolerationOperator::Exists,
        value: String::new(),
        effect: None,
        toleration_seconds: None,
    };
    let mut tolerations = Vec::new();
    if dice.chance(400) {
        tolerations.push(toleration("dedicated"));
    }
    if dice.chance(200) {
        tolerations.push(toleration(TAINT));
        // Who endures people at work endures a broken device: one condition that drives away not all of what is there.
        tolerations.push(toleration("node.ohm/device-error"));
    }
    if dice.chance(350) {
        let toleration_seconds = [None, Some(1), Some(4), Some(12)][dice.below(4) as usize];
        tolerations.push(Toleration { toleration_seconds, ..toleration(PUT_TAINT) });
    }
    tolerations
}
