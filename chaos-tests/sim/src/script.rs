//! Scenarios as text: what is there, what happens and when, and what must come of it, in lines that can be read aloud.
//!
//! ```text
//! # A rack goes down under a gang.
//! seed 7
//! nodes 6 alike
//! faults for 40s
//! at 2s submit tas train tasks 4 least 4 cpu 2000 lasting 20s required topology.ohm/rack
//! at 6s reboot node n1 for 5s
//! expect job train succeeded
//! ```

mod faults;
mod words;

pub(crate) use faults::{fault_line, fault_words, name};

use crate::faults::Fault;
use crate::knobs::{Knobs, NODES_MAX};
use crate::report::Report;
use ohm_cell::{Cell, TaskState};
use ohm_framework::SchedulerConfig;
use ohm_model::{
    Amounts, Class, Command, GroupSpec, HostPort, Incarnation, JobSpec, NodeSpec, OnDisconnect, QueueSpec, Reconcile,
    TaskSpec, TopologyMode, TopologyRequest,
};
use ohm_oracle::Broken;
use words::Words;

/// A scenario that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// The seed of everything it does not say.
    pub seed: u64,
    nodes: Option<usize>,
    pub(crate) servers: Option<usize>,
    replicas: Option<usize>,
    wishes: u64,
    mischief_permille: u64,
    queues: bool,
    /// How long a job takes, and how many one pass plans.
    planning: Option<(u64, usize)>,
    faults_ms: Option<u64>,
    quiet_ms: Option<u64>,
    pub(crate) plain_nodes: bool,
    pub(crate) is_calm: bool,
    pub(crate) draws_faults: bool,
    pub(crate) faults: Vec<(u64, Fault)>,
    pub(crate) asks: Vec<(u64, Command)>,
    expectations: Vec<Expectation>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Expectation {
    Job {
        name: String,
        phase: String,
    },
    /// Each of its tasks is in its first run.
    Untouched(String),
    /// It was the head of its line, and stood no later than was said first.
    AsPlanned(String),
    Broken(String),
    Fault(String),
    Conflict(String),
}

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ScriptError {
    /// Which, from 1.
    pub line: usize,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl Script {
    /// Reads a scenario.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let mut script = Script { is_calm: true, ..Script::default() };
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let mut words = Words::new(line);
            let read = script.read(&mut words).and_then(|()| words.end());
            read.map_err(|problem| ScriptError { line: number + 1, problem })?;
        }
        Ok(script)
    }

    fn read(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        match words.word("a statement")? {
            "seed" => self.seed = words.number("a seed")?,
            "nodes" => {
                let nodes = words.number("how many nodes")? as usize;
                self.nodes = Some(nodes).filter(|nodes| (1..=NODES_MAX).contains(nodes));
                self.nodes.ok_or("a cell has 1 to 100000 nodes")?;
                self.plain_nodes = words.take("alike");
            }
            "servers" => {
                let servers = words.number("how many servers")? as usize;
                self.servers = Some(servers).filter(|servers| [1, 3, 5].contains(servers));
                self.servers.ok_or("a cell has 1, 3 or 5 servers")?;
            }
            "schedulers" => {
                let replicas = words.number("how many of each class")? as usize;
                self.replicas = Some(replicas).filter(|replicas| (1..=16).contains(replicas));
                self.replicas.ok_or("a class has 1 to 16 schedulers")?;
            }
            "wishes" => self.wishes = words.number("how many wishes of each client")?,
            "queues" => self.queues = true,
            "planners" => {
                words.expect("err")?;
                self.mischief_permille = words.number("in how many of 1000 plans")?;
                words.expect("in")?;
                words.expect("1000")?;
            }
            "planning" => {
                ["a", "job", "takes"].into_iter().try_for_each(|word| words.expect(word))?;
                let planning_ms = words.time_ms()?;
                words.expect("with")?;
                let jobs_per_pass = words.number("how many jobs")?.max(1) as usize;
                ["in", "a", "pass"].into_iter().try_for_each(|word| words.expect(word))?;
                self.planning = Some((planning_ms, jobs_per_pass));
            }
            "network" => match words.word("calm or drawn")? {
                "calm" => self.is_calm = true,
                "drawn" => self.is_calm = false,
                other => return Err(format!("the network is calm or drawn, not \"{other}\"")),
            },
            "faults" if words.take("drawn") => self.draws_faults = true,
            "faults" => {
                words.expect("for")?;
                self.faults_ms = Some(words.time_ms()?);
            }
            "quiet" => {
                words.expect("for")?;
                self.quiet_ms = Some(words.time_ms()?);
            }
            "at" => {
                let at_ms = words.time_ms()?;
                self.happens(at_ms, words)?;
            }
            "expect" => self.expects(words)?,
            other => {
                return Err(format!(
                    "\"{other}\" begins no statement: seed, nodes, servers, schedulers, wishes, queues, planners, \
                     planning, network, faults, quiet, at and expect do"
                ));
            }
        }
        Ok(())
    }

    fn happens(&mut self, at_ms: u64, words: &mut Words<'_>) -> Result<(), String> {
        if let Some(fault) = faults::read(words)? {
            self.faults.push((at_ms, fault));
            return Ok(());
        }
        let command = match words.word("what happens")? {
            "submit" => Command::SubmitJobs { jobs: vec![read_job(words)?] },
            "queue" => Command::PutQueue(read_queue(words)?),
            "cancel" => Command::CancelJob { name: words.word("a job")?.into(), grace_ms: None },
            "suspend" => Command::SuspendJob { name: words.word("a job")?.into() },
            "resume" => Command::ResumeJob { name: words.word("a job")?.into() },
            "forget-job" => Command::ForgetJob { name: words.word("a job")?.into() },
            "cordon" => Command::CordonNode { name: words.word("a node")?.into(), cordoned: true },
            "uncordon" => Command::CordonNode { name: words.word("a node")?.into(), cordoned: false },
            "taint" => Command::TaintNode {
                name: words.word("a node")?.into(),
                taint: words.word("a taint")?.parse().map_err(|problem| format!("the taint: {problem}"))?,
            },
            "untaint" => Command::UntaintNode {
                name: words.word("a node")?.into(),
                pattern: words.word("a taint")?.parse().map_err(|problem| format!("the taint: {problem}"))?,
            },
            "release" => Command::ReleaseNode { name: words.word("a node")?.into() },
            "drain" => Command::DrainNode {
                name: words.word("a node")?.into(),
                deadline_ms: if words.take("within") { words.time_ms()? } else { 0 },
                at_once: 0,
            },
            "undrain" => Command::UndrainNode { name: words.word("a node")?.into() },
            "remove" => Command::RemoveNode { name: words.word("a node")?.into() },
            other => {
                return Err(format!(
                    "\"{other}\" is nothing that happens: submit, queue, cancel, suspend, resume, forget-job, cordon, \
                     uncordon, taint, untaint, release, drain, undrain, remove, {}",
                    faults::VERBS.join(", ")
                ));
            }
        };
        self.asks.push((at_ms, command));
        Ok(())
    }

    fn expects(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let expectation = match words.word("what is expected")? {
            "job" => {
                let name = words.word("a job")?.into();
                match words.word("its state, untouched or as-planned")? {
                    "untouched" => Expectation::Untouched(name),
                    "as-planned" => Expectation::AsPlanned(name),
                    phase => Expectation::Job { name, phase: phase.into() },
                }
            }
            "fault" => Expectation::Fault(words.rest()),
            "conflict" => Expectation::Conflict(words.word("a reason")?.into()),
            promise if promise.starts_with('P') => {
                words.expect("broken")?;
                Expectation::Broken(promise.into())
            }
            other => return Err(format!("\"{other}\" cannot be expected: a job, a fault, a conflict, or P… broken")),
        };
        self.expectations.push(expectation);
        Ok(())
    }

    /// Puts what it says in the place of what was drawn.
    pub(crate) fn settle(&self, knobs: &mut Knobs) {
        knobs.nodes = self.nodes.unwrap_or(knobs.nodes);
        knobs.replicas = self.replicas.map_or(knobs.replicas, |replicas| [replicas; 3]);
        (knobs.losses, knobs.leases_differ) = (false, false);
        (knobs.wishes, knobs.mischief_permille, knobs.queues) = (self.wishes, self.mischief_permille, self.queues);
        if let Some((planning_ms, jobs_per_pass)) = self.planning {
            // Where planning takes time, schedulers are otherwise as they are shipped.
            let SchedulerConfig { retries, transactions_in_flight, transaction_bytes, .. } = SchedulerConfig::new("");
            (knobs.planning_ms, knobs.jobs_per_pass, knobs.retries) = (planning_ms, jobs_per_pass, retries);
            (knobs.transactions_in_flight, knobs.transaction_bytes) = (transactions_in_flight, transaction_bytes);
        }
        knobs.faults_ms = self.faults_ms.unwrap_or(knobs.faults_ms);
        knobs.quiet_ms = self.quiet_ms.unwrap_or(knobs.quiet_ms);
    }

    /// What broke although it should not have, and what was expected and did not come.
    pub(crate) fn missed(&self, cell: Option<&Cell>, report: &Report) -> Vec<Broken> {
        let wanted = |promise: &str| self.expectations.contains(&Expectation::Broken(promise.into()));
        let mut missed: Vec<Broken> = report.broken.iter().filter(|broken| !wanted(broken.promise)).cloned().collect();
        for expectation in &self.expectations {
            let what = match expectation {
                Expectation::Job { name, phase } => {
                    let found = cell.and_then(|cell| cell.jobs().find(name)).map_or("absent", |job| job.phase());
                    (found != phase).then(|| format!("job {name} is {found}, not {phase}"))
                }
                Expectation::Untouched(name) => {
                    let job = cell.and_then(|cell| cell.jobs().find(name));
                    let mut tasks =
                        job.into_iter().flat_map(|job| job.groups.iter().flat_map(|group| group.tasks.iter()));
                    let again = tasks.any(|task| task.state != TaskState::Live || task.attempts != Incarnation(1));
                    (again || job.is_none()).then(|| format!("tasks of job {name} don't run as they were started"))
                }
                Expectation::AsPlanned(name) => late(cell, report, name),
                Expectation::Broken(promise) => {
                    let holds = !report.broken.iter().any(|broken| broken.promise == promise);
                    holds.then(|| format!("{promise} held"))
                }
                Expectation::Fault(kind) => {
                    (!report.faults.contains_key(kind.as_str())).then(|| format!("no {kind} happened"))
                }
                Expectation::Conflict(reason) => {
                    (!report.conflicts.contains_key(reason.as_str())).then(|| format!("no row met {reason}"))
                }
            };
            missed.extend(what.map(|what| Broken { promise: "expectation", what }));
        }
        missed
    }
}

/// Why the job did not stand as it was planned, if it did not.
fn late(cell: Option<&Cell>, report: &Report, name: &str) -> Option<String> {
    let Some(planned_ms) = report.planned_ms.get(name) else {
        return Some(format!("job {name} was no head of a line"));
    };
    match cell.and_then(|cell| cell.jobs().find(name)).map_or(0, |job| job.started_ms) {
        0 => Some(format!("job {name} never stood")),
        started_ms if started_ms > *planned_ms => {
            Some(format!("job {name} stood {} ms later than was said", started_ms - planned_ms))
        }
        _ => None,
    }
}

/// `CLASS NAME` and then words with their values.
fn read_job(words: &mut Words<'_>) -> Result<JobSpec, String> {
    let class = words.word("a class")?;
    let class = Class::BUILT_IN.into_iter().find(|known| known.name() == class);
    let class = class.ok_or("a job is batch, service or tas")?;
    let mut group = GroupSpec {
        elastic: class == Class::SERVICE,
        requests: [("cpu".to_string(), 1000)].into(),
        task: TaskSpec { command: vec!["/bin/true".into()], grace_ms: 500, ..TaskSpec::default() },
        ..GroupSpec::gang("main", 1)
    };
    let mut spec = JobSpec::of(words.word("a name")?, class, Vec::new());
    while let Some(word) = words.next() {
        match word {
            "tasks" => group.count = words.number("how many tasks")? as u32,
            "least" => group.min_count = words.number("how many tasks at least")? as u32,
            "elastic" => group.elastic = true,
            "cpu" | "memory" => drop(group.requests.insert(word.into(), words.number("an amount")? as i64)),
            "lasting" => group.task.sim_duration_ms = words.time_ms()?,
            "failing" => group.task.sim_exit_code = 1,
            "port" => group.ports = vec![HostPort::tcp(words.number("a port")? as u16)],
            "required" => {
                let level = words.word("a level")?.into();
                group.topology = TopologyRequest { mode: TopologyMode::Required, level, ..Default::default() };
            }
            "priority" => spec.priority = words.number("a priority")? as i32,
            "deadline" => spec.active_deadline_seconds = words.time_ms()?.div_ceil(1000),
            "retries" => spec.retries = words.number("how many retries")? as u32,
            "queue" => spec.queue = words.word("a queue")?.into(),
            "keeps" => spec.on_disconnect = OnDisconnect::Keep,
            "keeps-original" => (spec.on_disconnect, spec.reconcile) = (OnDisconnect::Keep, Reconcile::Original),
            other => {
                return Err(format!(
                    "\"{other}\" says nothing about a job: tasks, least, elastic, cpu, memory, lasting, failing, \
                     port, required, priority, deadline, retries, queue, keeps and keeps-original do"
                ));
            }
        }
    }
    spec.groups = vec![group];
    Ok(spec)
}

/// `NAME` and then resources with their amounts.
fn read_queue(words: &mut Words<'_>) -> Result<QueueSpec, String> {
    let mut nominal = Amounts::new();
    let name = words.word("a queue")?.to_string();
    while let Some(resource) = words.next() {
        nominal.insert(resource.to_string(), words.number("an amount")? as i64);
    }
    Ok(QueueSpec { name, nominal, ..QueueSpec::default() })
}

/// A node of a cell whose nodes are all alike: two in a rack, two racks in a block.
pub(crate) fn plain_node(number: usize) -> NodeSpec {
    let rack = number / 2;
    let labels = [("topology.ohm/block", format!("b{}", rack / 2)), ("topology.ohm/rack", format!("r{rack}"))];
    NodeSpec {
        name: format!("n{number}"),
        labels: labels.into_iter().map(|(key, value)| (key.to_string(), value)).collect(),
        taints: Vec::new(),
        capacity: [("cpu".into(), 8000), ("memory".into(), 32 << 30), ("pods".into(), 20)].into(),
        address: format!("10.0.0.{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_read() {
        let text = "# a rack\nseed 7\nnodes 6 alike\nschedulers 2\nplanners err 60 in 1000\nfaults for 40s\n\
                    at 2s submit tas train tasks 4 least 3 cpu 2000 lasting 20s required topology.ohm/rack\n\
                    at 6500ms reboot node n1 for 5s # its tasks are gone\nexpect job train succeeded\n";
        let script = Script::parse(text).unwrap();
        assert_eq!((script.seed, script.nodes, script.plain_nodes, script.faults_ms), (7, Some(6), true, Some(40_000)));
        assert_eq!(script.faults, [(6_500, Fault::Reboot { node: 1, down_ms: 5_000 })]);
        let [(2_000, Command::SubmitJobs { jobs, .. })] = script.asks.as_slice() else { panic!("{:?}", script.asks) };
        assert_eq!((jobs[0].groups[0].count, jobs[0].groups[0].min_count), (4, 3));
    }

    #[test]
    fn a_wrong_line_is_named_with_what_would_be_right() {
        for (text, part) in [
            ("seed x", "a seed"),
            ("\nseed 1 2", "\"2\""),
            ("walk the dog", "begins no statement"),
            ("at 2 submit", "such as 5s"),
            ("at 2s dance", "nothing that happens"),
            ("at 2s crash king 1 for 1s", "server, scheduler, health, provisioner, node or client"),
            ("at 2s submit batch j colour red", "says nothing about a job"),
            ("expect rain", "cannot be expected"),
        ] {
            let error = Script::parse(text).unwrap_err();
            assert!(error.problem.contains(part), "{text}: {error}");
            assert_eq!(error.line, 1 + text.chars().take_while(|character| *character == '\n').count());
        }
    }
}
