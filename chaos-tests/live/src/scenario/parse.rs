//! Sentences in, scenario out.

mod faults;
mod load;
mod words;

pub use words::duration_ms;

use super::{Expectation, JUDGED, Scenario, Shape};
use faults::faults;
use load::load;
use ohm_model::Class;
use words::{Parsed, Words};

/// How long the healed cell may take unless the scenario says otherwise, in milliseconds.
const QUIET_MS_DEFAULT: u64 = 120_000;
const REAL_NODES_MAX: usize = 100;
const SIMULATED_NODES_MAX: usize = 10_000;
const REPLICAS_MAX: usize = 8;
const ETCD_MEMBERS_MAX: usize = 5;

/// What is wrong with a scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ScenarioError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// [`ScenarioError`] names the line and what would be right.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        scenario(text)
    }
}

fn scenario(text: &str) -> Result<Scenario, ScenarioError> {
    let mut read = Scenario {
        about: String::new(),
        cell: Shape::default(),
        loads: Vec::new(),
        faults: Vec::new(),
        expectations: Vec::new(),
        quiet_ms: QUIET_MS_DEFAULT,
    };
    let mut has_cell = false;
    let mut last = 1;
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        last = number + 1;
        let at = |message| ScenarioError { line: number + 1, message };
        let Some((kind, rest)) = line.split_once(':') else {
            return Err(at("wants about:, cell:, load:, fault: or expect: at its beginning".into()));
        };
        match kind.trim() {
            "about" => read.about = rest.trim().to_string(),
            "cell" => {
                read.cell = shape(rest).map_err(at)?;
                has_cell = true;
            }
            // Names are checked against the cell, so it comes first.
            _ if !has_cell => return Err(at("the cell: line must come before".into())),
            "load" => read.loads.push(load(rest, &read.cell).map_err(at)?),
            "fault" => read.faults.extend(faults(rest, &read.cell).map_err(at)?),
            "expect" => expectation(rest, &mut read).map_err(at)?,
            other => {
                return Err(at(format!("\"{other}:\" is unknown; about, cell, load, fault and expect are possible")));
            }
        }
    }
    if read.loads.is_empty() {
        return Err(ScenarioError { line: last, message: "a load: line is missing: nothing would be judged".into() });
    }
    read.faults.sort_by_key(|fault| fault.at_ms);
    Ok(read)
}

fn shape(text: &str) -> Parsed<Shape> {
    let mut cell = Shape::default();
    for part in text.split(',') {
        let mut words = Words::of(part);
        if words.skip("node") {
            words.expect("lease")?;
            cell.node_lease_ms = words.duration()?;
        } else if words.skip("duty") {
            words.expect("lease")?;
            cell.duty_lease_ms = words.duration()?;
        } else if words.skip("etcd") {
            words.expect("of")?;
            cell.etcd = words.number(ETCD_MEMBERS_MAX)?;
            if !words.skip("member") {
                words.expect("members")?;
            }
        } else if words.skip("no") {
            words.expect("timers")?;
            cell.has_timers = false;
        } else if words.skip("disk") {
            words.expect("of")?;
            let word = words.take("a size such as 64MiB")?;
            let mebibytes = word.strip_suffix("MiB").and_then(|number| number.parse::<u64>().ok());
            let mebibytes = mebibytes.filter(|number| (16..=4096).contains(number));
            cell.disk_bytes = Some(mebibytes.ok_or_else(|| format!("\"{word}\" where 16MiB to 4096MiB is due"))? << 20);
        } else {
            let count = words.number(SIMULATED_NODES_MAX)?;
            if words.skip("servers") || words.skip("server") {
                cell.servers = count;
                words.end()?;
                continue;
            }
            counted(&mut words, count, &mut cell)?;
            if words.skip("in") {
                ["racks", "of"].into_iter().try_for_each(|word| words.expect(word))?;
                cell.nodes_per_rack = Some(words.number(SIMULATED_NODES_MAX)?);
            }
        }
        words.end()?;
    }
    cell.check_leases().map_err(|short| format!("{short}: say duty lease 2s"))?;
    if ![1, 3, 5].contains(&cell.servers) {
        return Err(format!("{} servers: a cell has 1, 3 or 5", cell.servers));
    }
    if cell.servers > 1 && cell.etcd > 0 {
        return Err("several servers over an etcd: say one, the etcd keeps the log".into());
    }
    if cell.servers > 1 && cell.disk_bytes.is_some() {
        return Err("a disk of its own is made for one server only".into());
    }
    if cell.nodes_per_rack.is_some() && cell.simulated_nodes == 0 {
        return Err("only simulated nodes stand in racks: say 20 simulated nodes in racks of 5".into());
    }
    match cell.real_nodes + cell.simulated_nodes {
        0 => Err("a cell needs nodes, such as 4 real nodes or 20 simulated nodes".into()),
        _ => Ok(cell),
    }
}

fn counted(words: &mut Words<'_>, count: usize, cell: &mut Shape) -> Parsed<()> {
    let what = words.take("what is counted")?;
    let most = |most: usize| match count <= most {
        true => Ok(count),
        false => Err(format!("{count} {what}: {most} are the most")),
    };
    let is_plural = |word: &str, singular: &str| word.strip_suffix('s').unwrap_or(word) == singular;
    let noun = words.take("a noun")?;
    let class = Class::BUILT_IN.into_iter().find(|class| class.name() == what);
    match (what, class) {
        ("real", _) if is_plural(noun, "node") => cell.real_nodes = most(REAL_NODES_MAX)?,
        ("simulated", _) if is_plural(noun, "node") => cell.simulated_nodes = count,
        ("health", _) if is_plural(noun, "candidate") => cell.health = most(REPLICAS_MAX)?,
        (_, Some(class)) if is_plural(noun, "scheduler") => {
            let count = most(REPLICAS_MAX)?;
            cell.schedulers.iter_mut().filter(|(known, _)| *known == class).for_each(|known| known.1 = count);
        }
        _ => {
            return Err(format!(
                "\"{what} {noun}\" is unknown; servers, real nodes, simulated nodes, batch schedulers, service \
                 schedulers, tas schedulers and health candidates can be counted"
            ));
        }
    }
    Ok(())
}

fn expectation(text: &str, scenario: &mut Scenario) -> Parsed<()> {
    let mut words = Words::of(text);
    if words.skip("quiet") {
        words.expect("within")?;
        scenario.quiet_ms = words.duration()?;
    } else if words.skip("no") {
        let expectation = if words.skip("task") {
            words.expect("started")?;
            words.expect("again")?;
            Expectation::NoneStartedAgain
        } else {
            words.expect("node")?;
            words.expect("lost")?;
            Expectation::NoneLost
        };
        scenario.expectations.push(expectation);
    } else if JUDGED.split(' ').any(|promise| promise == words.peek()) {
        scenario.expectations.push(Expectation::Broken(words.take("a promise")?.to_string()));
        words.expect("broken")?;
    } else {
        let process = words.process(&scenario.cell)?;
        words.expect("lost")?;
        if !process.starts_with("node-") {
            return Err(format!("{process} is no node"));
        }
        scenario.expectations.push(Expectation::Lost(process));
    }
    words.end()
}
