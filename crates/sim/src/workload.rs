//! What people do in a run: nodes of drawn sizes, jobs of all classes, cancels, suspends, cordons.

use ohm_model::job::{SpreadMode, TTL_SECONDS_DEFAULT};
use ohm_model::{
    Class, Command, GroupSpec, JobSpec, NodeSpec, OnDisconnect, TaskSpec, TopologyMode, TopologyRequest, TopologySpec,
};
use ohm_stdx::Prng;

/// The topology of every simulated cell.
pub(crate) fn topology() -> TopologySpec {
    let levels = ["topology.ohm/block", "topology.ohm/rack", "kubernetes.io/hostname"];
    TopologySpec { name: "default".into(), levels: levels.map(String::from).to_vec() }
}

/// A node of drawn size in a drawn rack.
pub(crate) fn node(dice: &mut Prng, number: usize) -> NodeSpec {
    let rack = number / 2;
    let labels = [
        ("topology.ohm/block".to_string(), format!("b{}", rack / 2)),
        ("topology.ohm/rack".to_string(), format!("r{rack}")),
        ("tier".to_string(), if dice.chance(500) { "gold" } else { "tin" }.to_string()),
    ];
    let capacity = [
        ("cpu".to_string(), dice.between(2, 8) as i64 * 1000),
        ("memory".to_string(), dice.between(4, 16) as i64 * (1 << 30)),
        ("pods".to_string(), dice.between(3, 20) as i64),
    ];
    NodeSpec {
        name: format!("n{number}"),
        labels: labels.into_iter().collect(),
        taints: Vec::new(),
        capacity: capacity.into_iter().collect(),
        address: format!("10.0.0.{number}"),
    }
}

/// A job of a drawn class and shape, small enough for most drawn cells.
pub(crate) fn job(dice: &mut Prng, name: String) -> JobSpec {
    let class = Class::ALL[dice.below(3) as usize];
    let mut groups = vec![group(dice, class, "main")];
    if class != Class::Service && dice.chance(150) {
        groups.push(group(dice, class, "side"));
    }
    JobSpec {
        name,
        class,
        queue: String::new(),
        priority: dice.below(3) as i32,
        labels: Default::default(),
        groups,
        retries: dice.below(4) as u32,
        active_deadline_seconds: if dice.chance(100) { dice.between(5, 40) } else { 0 },
        ttl_seconds_after_finished: if dice.chance(200) { dice.between(1, 20) } else { TTL_SECONDS_DEFAULT },
        on_disconnect: if dice.chance(850) { OnDisconnect::Stop } else { OnDisconnect::Keep },
        suspended: dice.chance(50),
    }
}

fn group(dice: &mut Prng, class: Class, name: &str) -> GroupSpec {
    let count = dice.between(1, 6) as u32;
    let gang = dice.chance(500) && class != Class::Service;
    let min_count = if gang { dice.between(1, u64::from(count)) as u32 } else { 1 };
    let mode = match (class, dice.below(3)) {
        (Class::Tas, 0) => TopologyMode::Required,
        (Class::Tas, 1) => TopologyMode::Preferred,
        (Class::Tas, _) => TopologyMode::Unconstrained,
        _ => TopologyMode::None,
    };
    let level = match mode {
        TopologyMode::None | TopologyMode::Unconstrained => String::new(),
        _ => ["topology.ohm/block", "topology.ohm/rack"][dice.below(2) as usize].to_string(),
    };
    let selector = if dice.chance(150) { vec![("tier".to_string(), "gold".to_string())] } else { Vec::new() };
    let requests = [
        ("cpu".to_string(), dice.between(1, 20) as i64 * 100),
        ("memory".to_string(), dice.between(1, 8) as i64 * (256 << 20)),
    ];
    let endless = class == Class::Service;
    GroupSpec {
        name: name.into(),
        count,
        min_count,
        elastic: !gang || dice.chance(300),
        requests: requests.into_iter().collect(),
        node_selector: selector.into_iter().collect(),
        affinity: Vec::new(),
        preferred: Vec::new(),
        tolerations: Vec::new(),
        ports: if class == Class::Service && dice.chance(400) { vec![8080 + dice.below(2) as u16] } else { Vec::new() },
        max_per_node: if dice.chance(200) { dice.between(1, 3) as u32 } else { 0 },
        spread: if endless { SpreadMode::Spread } else { SpreadMode::Pack },
        topology: TopologyRequest { level, mode, ..TopologyRequest::default() },
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

/// Something a person does to what is there already.
pub(crate) fn interference(dice: &mut Prng, job: Option<String>, nodes: usize) -> Option<Command> {
    let node = format!("n{}", dice.below(nodes as u64));
    Some(match dice.below(6) {
        0 | 1 => Command::CancelJob { name: job? },
        2 => Command::SuspendJob { name: job? },
        3 => Command::ResumeJob { name: job? },
        4 => Command::CordonNode { name: node, cordoned: true },
        _ => Command::CordonNode { name: node, cordoned: false },
    })
}
