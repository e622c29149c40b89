//! `ohm agent`: the arguments that describe a node, and many simulated ones.

use crate::checks::CheckArguments;
use ohm_manifest::{Content, Rounding, parse, parse_quantity};
use ohm_model::resources::{self, UnitKind};
use ohm_model::{NameError, NodeSpec, Taint, names};
use ohm_stdx::text::visible;
use std::path::{Path, PathBuf};

/// Simulated nodes in one rack, and racks in one block.
const HOSTS_PER_RACK: usize = 16;
const RACKS_PER_BLOCK: usize = 16;

/// `ohm agent`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AgentArguments {
    /// Name of the node [default: this machine's name]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Where tasks of this node listen, handed to their peers
    #[arg(long, default_value = "127.0.0.1", value_name = "IP")]
    pub(crate) address: String,
    /// Label of the node
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) label: Vec<String>,
    /// Taint of the node
    #[arg(long, value_name = "KEY=VALUE:EFFECT")]
    pub(crate) taint: Vec<String>,
    /// Room of the node, such as cpu=4 or nvidia.com/gpu=8 [default: what this machine has, and pods=110]
    #[arg(long, value_name = "NAME=QUANTITY")]
    pub(crate) capacity: Vec<String>,
    /// Stop the node's tasks when this process is stopped; without it they run on and are found again
    #[arg(long)]
    pub(crate) stop_tasks_on_exit: bool,
    #[command(flatten)]
    pub(crate) checks: CheckArguments,
    /// Host simulated nodes instead: a count, or a file of Node documents
    #[arg(long, value_name = "FILE|COUNT")]
    pub(crate) sim: Option<String>,
    /// End once all simulated nodes are down
    #[arg(long, hide = true)]
    pub(crate) ends_with_nodes: bool,
}

/// The nodes that `--sim` asks for.
pub(crate) fn simulated(sim: &str) -> Result<Vec<NodeSpec>, String> {
    if let Ok(count) = sim.parse::<usize>() {
        return Ok((0..count).map(simulated_node).collect());
    }
    let path = PathBuf::from(sim);
    let bytes = std::fs::read(&path).map_err(|error| format!("--sim {sim}: {error}"))?;
    let mut nodes = Vec::new();
    for verdict in parse(sim, &bytes) {
        match verdict.map_err(|error| error.to_string())?.content {
            Content::Node(node) => nodes.push(node.spec),
            _ => return Err(format!("--sim {sim}: only Node documents are possible here")),
        }
    }
    Ok(nodes)
}

fn simulated_node(number: usize) -> NodeSpec {
    let rack = number / HOSTS_PER_RACK;
    let labels = [
        ("topology.ohm/block".to_string(), format!("b{}", rack / RACKS_PER_BLOCK)),
        ("topology.ohm/rack".to_string(), format!("r{rack}")),
    ];
    let capacity = [("cpu".to_string(), 16_000), ("memory".to_string(), 64 << 30), ("pods".to_string(), 110)];
    NodeSpec {
        name: format!("sim-{number}"),
        labels: labels.into_iter().collect(),
        taints: Vec::new(),
        capacity: capacity.into_iter().collect(),
        address: String::new(),
    }
}

/// The node that the arguments describe; `detected` is what this machine has.
pub(crate) fn described(arguments: &AgentArguments, detected: NodeSpec) -> Result<NodeSpec, String> {
    named("--address", &arguments.address, names::address(&arguments.address))?;
    let mut spec = NodeSpec { address: arguments.address.clone(), ..detected };
    if let Some(name) = &arguments.name {
        spec.name.clone_from(name);
    }
    named("--name", &spec.name, names::dns_name(&spec.name))?;
    for label in &arguments.label {
        let (key, value) = pair("--label", label)?;
        named("--label", label, names::label_key(&key).and_then(|()| names::label_value(&value)))?;
        spec.labels.insert(key, value);
    }
    for taint in &arguments.taint {
        spec.taints.push(self::taint(taint)?);
    }
    if !arguments.capacity.is_empty() {
        // How many tasks a node takes is no matter of its machine: it stays unless it is named.
        spec.capacity.retain(|name, _| name == resources::PODS);
    }
    for room in &arguments.capacity {
        let (name, quantity) = pair("--capacity", room)?;
        named("--capacity", room, names::resource(&name))?;
        let amount = parse_quantity(&quantity, UnitKind::of(&name), Rounding::Down);
        spec.capacity.insert(name, amount.map_err(|error| format!("--capacity {room}: {error}"))?);
    }
    Ok(spec)
}

/// Where the agent called `name` keeps its state in a data folder, beside a server and other agents.
pub(crate) fn state_folder(data_dir: &Path, name: &str) -> Result<PathBuf, String> {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
        return Err(format!("--name {name}: must be made of letters, digits, `-`, `_` and `.`"));
    }
    Ok(data_dir.join("nodes").join(name))
}

/// What an argument may be called.
fn named(flag: &str, text: &str, rule: Result<(), NameError>) -> Result<(), String> {
    rule.map_err(|error| format!("{flag} {}: {error}", visible(text)))
}

fn pair(flag: &str, text: &str) -> Result<(String, String), String> {
    let found = text.split_once('=').filter(|(key, _)| !key.is_empty());
    found
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .ok_or_else(|| format!("{flag} {text}: wants KEY=VALUE"))
}

fn taint(text: &str) -> Result<Taint, String> {
    text.parse().map_err(|problem| format!("--taint {}: {problem}", visible(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        agent: AgentArguments,
    }

    fn capacity(line: &str) -> Vec<(String, i64)> {
        let arguments = Line::try_parse_from(line.split(' ')).ok().unwrap().agent;
        let detected = NodeSpec {
            name: "here".into(),
            labels: Default::default(),
            taints: Vec::new(),
            capacity: [("cpu".to_string(), 8000), ("pods".to_string(), 110)].into(),
            address: String::new(),
        };
        described(&arguments, detected).unwrap().capacity.into_iter().collect()
    }

    #[test]
    fn a_named_capacity_replaces_the_machines_but_for_the_number_of_tasks() {
        let room = |cpu, pods| vec![("cpu".to_string(), cpu), ("pods".to_string(), pods)];
        assert_eq!(capacity("agent"), room(8000, 110));
        assert_eq!(capacity("agent --capacity cpu=4"), room(4000, 110));
        assert_eq!(capacity("agent --capacity cpu=4 --capacity pods=7"), room(4000, 7));
    }

    #[test]
    fn what_describes_a_node_keeps_the_rules_of_the_cell() {
        let refused = |line: &[&str]| {
            let words = ["agent"].iter().chain(line);
            let arguments = Line::try_parse_from(words).ok().unwrap().agent;
            let detected = NodeSpec { name: "here".into(), ..simulated_node(0) };
            described(&arguments, detected).unwrap_err()
        };
        for (flag, value) in [
            ("--name", "N\x1b1"),
            ("--address", "10.0.0.1\n"),
            ("--label", "a\x1b[2J=b"),
            ("--label", "a=b\x1b"),
            ("--taint", "a=b c:NoSchedule"),
            ("--capacity", "gp\u{9b}u=1"),
        ] {
            let said = refused(&[flag, value]);
            assert!(said.starts_with(flag) && !said.contains(['\x1b', '\n', '\u{9b}']), "{said}");
        }
    }

    #[test]
    fn agents_of_one_folder_keep_apart() {
        let folder = Path::new("/data");
        assert_eq!(state_folder(folder, "n1").unwrap(), Path::new("/data/nodes/n1"));
        for wrong in ["", "..", "../other", "a/b", "a b"] {
            assert!(state_folder(folder, wrong).unwrap_err().contains("--name"), "{wrong}");
        }
    }
}
