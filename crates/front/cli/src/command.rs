//! The arguments of every command for people.

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::Shell;
use ohm_model::{GRACE_MS_MAX, Taint, TaintPattern};
use std::path::PathBuf;
use std::time::Duration;

/// The commands for people.
#[derive(Clone, Debug, Subcommand)]
pub enum ClientCommand {
    /// Submit job files: YAML or JSON, `-` for standard input
    Submit(Submit),
    /// Run one command as a batch job, print its output and end with its exit code
    Run(Run),
    /// List jobs
    Jobs(Jobs),
    /// Show a job with its groups, tasks and past runs
    Job(Job),
    /// Wait until a job is finished or runs
    Wait(Wait),
    /// Say why a job is in the state it is in
    Explain(Named),
    /// Print the output of a task
    Logs(Logs),
    /// Show where the tasks of a job that are ready can be reached
    Endpoints(crate::commands::endpoints::Endpoints),
    /// Show or steer how a service gets from one revision to the next
    #[command(subcommand)]
    Rollout(crate::commands::rollout::RolloutCommand),
    /// End a job for good
    Cancel(Cancel),
    /// Stop a job's runs and keep it from being placed
    Suspend(ManyNamed),
    /// Let a suspended job be placed again
    Resume(ManyNamed),
    /// Change how many tasks a job has, such as `ohm scale web 5` or `ohm scale train/workers 8`
    Scale(Scale),
    /// Forget finished jobs, which frees their names
    Remove(ManyNamed),
    /// List nodes
    Nodes,
    /// Show or change one node
    #[command(subcommand)]
    Node(NodeCommand),
    /// List queues and cohorts with what they use
    Queues,
    /// Show or remove one queue or cohort
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Remove a subqueue that no job names; `ohm queues` and `ohm queue show` list them
    #[command(subcommand)]
    Subqueue(RemoveCommand),
    /// List resource flavors
    Flavors,
    /// Remove a resource flavor that no queue and no cohort names
    #[command(subcommand)]
    Flavor(RemoveCommand),
    /// List namespaces, and how many jobs there are in each
    Namespaces,
    /// Remove a namespace in which there is no job
    #[command(subcommand)]
    Namespace(RemoveCommand),
    /// List disruption budgets, how many of their tasks are healthy, and how many may be stopped
    Budgets(Budgets),
    /// Remove a disruption budget that has a name
    #[command(subcommand)]
    Budget(RemoveCommand),
    /// List priority classes with their values
    PriorityClasses,
    /// Remove a priority class; jobs that named it keep the priority they got
    #[command(subcommand)]
    PriorityClass(RemoveCommand),
    /// List provisioning classes, who uses them, and how many requests are open
    ProvisioningClasses,
    /// Remove a provisioning class that no queue and no job uses
    #[command(subcommand)]
    ProvisioningClass(RemoveCommand),
    /// List the scheduling profile of every class: its scores, and how many schedulers serve it
    Profiles,
    /// Remove a scheduling profile that was submitted; refused while its class has unfinished jobs
    #[command(subcommand)]
    Profile(RemoveCommand),
    /// List topologies and their domains
    Topologies,
    /// Remove a topology
    #[command(subcommand)]
    Topology(RemoveCommand),
    /// Print what happened
    Events(Events),
    /// Show the cell in numbers, its sessions and leases
    Status,
    /// Say where jobs would be placed, or why not, from files and without a server
    Plan(crate::commands::plan::Plan),
    /// Replay a trace of a real cluster with simulated nodes, and report how it was placed
    Replay(crate::replay::Replay),
    /// Print the completion script of a shell, such as `ohm completion bash > /etc/bash_completion.d/ohm`
    Completion {
        /// The shell
        shell: Shell,
    },
}

/// `ohm submit`.
#[derive(Clone, Debug, Args)]
pub struct Submit {
    /// Files to submit: documents of `ohm/v1`, and objects of Kubernetes that run here
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Wait until the jobs are finished (services: until they run)
    #[arg(long)]
    pub wait: bool,
    /// Wait no longer than this, such as 90s, 5m, 1h, and fail then; the jobs stay as they are [default: for ever]
    #[arg(long, requires = "wait", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Run finished jobs of the same names again, with what the files say now
    #[arg(long)]
    pub replace: bool,
    /// Change jobs of the same names that are not finished to what the files say now
    #[arg(long)]
    pub update: bool,
    /// Print refused documents only
    #[arg(short, long)]
    pub quiet: bool,
}

/// `ohm scale`.
#[derive(Clone, Debug, Args)]
pub struct Scale {
    /// The job, and its group if it has several
    #[arg(value_name = "JOB[/GROUP]")]
    pub target: String,
    /// How many tasks; an elastic group, an array or a service takes it while it runs
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
}

/// `ohm run`.
#[derive(Clone, Debug, Args)]
pub struct Run {
    /// Name of the job [default: run- and eight characters]
    #[arg(long)]
    pub name: Option<String>,
    /// Cores of each task, such as 2 or 500m
    #[arg(long, value_name = "QUANTITY")]
    pub cpu: Option<String>,
    /// Memory of each task, such as 512Mi
    #[arg(long, value_name = "QUANTITY")]
    pub memory: Option<String>,
    /// Any resource of each task, such as nvidia.com/gpu=1
    #[arg(long, value_name = "NAME=QUANTITY", value_parser = key_value)]
    pub request: Vec<(String, String)>,
    /// Most of a resource that each task may take, such as cpu=2 or memory=1Gi; without a request it is that, too
    #[arg(long, value_name = "NAME=QUANTITY", value_parser = key_value)]
    pub limit: Vec<(String, String)>,
    /// How many tasks, which start together
    #[arg(long, default_value_t = 1)]
    pub count: u32,
    /// How often a task may fail and be tried again
    #[arg(long, default_value_t = 0)]
    pub retries: u32,
    /// Queue to wait in
    #[arg(long)]
    pub queue: Option<String>,
    /// Higher goes first
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    pub priority: i32,
    /// Environment of the tasks
    #[arg(long, value_name = "NAME=VALUE", value_parser = key_value)]
    pub env: Vec<(String, String)>,
    /// Label that nodes must have
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub node_selector: Vec<(String, String)>,
    /// Cancel it and fail after this long, such as 90s, 5m, 1h, the wait for room included [default: never]
    #[arg(long, value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Where the tasks start [default: a folder of their own]
    #[arg(long, value_name = "DIR")]
    pub working_dir: Option<String>,
    /// Program and arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// `ohm budgets`.
#[derive(Clone, Debug, Args)]
pub struct Budgets {
    /// Budgets of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
}

/// `ohm jobs`.
#[derive(Clone, Debug, Args)]
pub struct Jobs {
    /// Jobs of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Only jobs in this state
    #[arg(long, value_parser = ["pending", "running", "suspended", "succeeded", "failed", "cancelled"])]
    pub state: Option<String>,
    /// Only jobs of this class
    #[arg(long, value_parser = ["batch", "service", "tas"])]
    pub class: Option<String>,
    /// Only jobs of this queue
    #[arg(long)]
    pub queue: Option<String>,
    /// Only jobs of this owner
    #[arg(long)]
    pub owner: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 1000)]
    pub limit: usize,
}

/// `ohm job`.
#[derive(Clone, Debug, Args)]
pub struct Job {
    /// The job
    pub name: String,
    /// At most so many tasks of each group
    #[arg(long, default_value_t = 100)]
    pub tasks: usize,
    /// Print the job as the document that would make it again
    #[arg(long)]
    pub spec: bool,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Goal {
    /// The job is over.
    #[default]
    Finished,
    /// The minimum of every group was started and is reported to run, or the job is over.
    Running,
    /// As `running`, and ready by their probes, or the job is over.
    Ready,
}

impl Goal {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Goal::Finished => "finished",
            Goal::Running => "running",
            Goal::Ready => "ready",
        }
    }
}

/// `ohm wait`.
#[derive(Clone, Debug, Args)]
pub struct Wait {
    /// The job
    pub name: String,
    /// What to wait for
    #[arg(long = "for", value_enum, default_value = "finished", value_name = "STATE")]
    pub goal: Goal,
    /// Give up after this long, such as 90s, 5m, 1h [default: never]
    #[arg(long, value_parser = duration)]
    pub timeout: Option<Duration>,
}

/// A command about one job.
#[derive(Clone, Debug, Args)]
pub struct Named {
    /// The job
    pub name: String,
}

/// A command about some jobs.
#[derive(Clone, Debug, Args)]
pub struct ManyNamed {
    /// The jobs
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
}

/// `ohm cancel`.
#[derive(Clone, Debug, Args)]
pub struct Cancel {
    /// The jobs
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Kill what runs of them at once; also what still stops of one that is over
    #[arg(long, conflicts_with = "grace")]
    pub now: bool,
    /// Kill what runs of them after so many seconds at the latest [default: what the tasks ask for]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=GRACE_MS_MAX / 1000))]
    pub grace: Option<u64>,
}

impl Cancel {
    /// What is done, as the path of the API says it.
    pub(crate) fn action(&self) -> String {
        match self.grace.or(self.now.then_some(0)) {
            Some(seconds) => format!("cancel?graceSeconds={seconds}"),
            None => "cancel".into(),
        }
    }
}

/// `ohm logs`.
#[derive(Clone, Debug, Args)]
pub struct Logs {
    /// The job
    pub name: String,
    /// Go on as the output grows; waits for the task to start
    #[arg(short, long)]
    pub follow: bool,
    /// Rank of the task; one task at a time is printed, its last run
    #[arg(long, default_value_t = 0)]
    pub task: u32,
    /// Group of the task [default: the first one]
    #[arg(long)]
    pub group: Option<String>,
    /// What it wrote to standard error, instead of standard output
    #[arg(long)]
    pub stderr: bool,
    /// With --follow: wait no longer than this for the task to start, such as 90s, 5m, 1h [default: for ever]
    #[arg(long, requires = "follow", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Only so many of the last lines
    #[arg(long, value_name = "LINES")]
    pub tail: Option<usize>,
}

/// `ohm node`.
#[derive(Clone, Debug, Subcommand)]
pub enum NodeCommand {
    /// Show a node with its runs
    Show(NodeName),
    /// Keep new work away from a node
    Cordon(NodeName),
    /// Let new work come to a node again
    Uncordon(NodeName),
    /// Put a taint on a node: it keeps away what does not tolerate it; with NoExecute what runs there leaves, too
    Taint(TaintNode),
    /// Take taints off a node that were put there by `ohm node taint`
    Untaint(UntaintNode),
    /// Trust a node again that is held down because it fell silent and came back too often
    Release(NodeName),
    /// Move what runs on a node elsewhere: each task gets its new place before it is stopped
    Drain(DrainNode),
    /// End the drain of a node: what moves goes on, the rest stays
    Undrain(NodeName),
    /// Take a node out of the cell; refused while it holds runs, unless it is lost. Stop its agent first
    Remove(NodeName),
}

/// `ohm queue`.
#[derive(Clone, Debug, Subcommand)]
pub enum QueueCommand {
    /// Show a queue with what it uses, its policies, the jobs that wait and why, and those that run
    Show(ShowQueue),
    /// Take it out of the cell; queues stay while a job names them
    Remove {
        /// Its name
        name: String,
    },
}

/// `ohm queue show`.
#[derive(Clone, Debug, Args)]
pub struct ShowQueue {
    /// The queue or cohort
    pub name: String,
    /// At most so many jobs that wait, and as many that run; 200 at most
    #[arg(long, default_value_t = 20)]
    pub limit: usize,
}

/// `ohm flavor`, `ohm priority-class`, `ohm profile` and `ohm topology`.
#[derive(Clone, Debug, Subcommand)]
pub enum RemoveCommand {
    /// Take it out of the cell; queues and topologies stay while a job names them
    Remove {
        /// Its name
        name: String,
    },
}

/// `ohm node drain`.
#[derive(Clone, Debug, Args)]
pub struct DrainNode {
    /// The node
    pub name: String,
    /// After this long, such as 10m, stop what is left, place or not [default: never]
    #[arg(long, value_parser = duration)]
    pub deadline: Option<Duration>,
    /// How many tasks of one group of a service move at the same time; gangs and arrays move as there is room
    #[arg(long, value_name = "TASKS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub at_once: u32,
    /// Wait until nothing runs on the node any more
    #[arg(long)]
    pub wait: bool,
    /// Wait no longer than this, such as 90s, 5m, 1h, and fail then; the drain goes on [default: for ever]
    #[arg(long, requires = "wait", value_parser = duration)]
    pub timeout: Option<Duration>,
}

/// `ohm node taint`.
#[derive(Clone, Debug, Args)]
pub struct TaintNode {
    /// The node
    pub name: String,
    /// The taint; effects are NoSchedule, PreferNoSchedule and NoExecute
    #[arg(value_name = "KEY=VALUE:EFFECT")]
    pub taint: Taint,
}

/// `ohm node untaint`.
#[derive(Clone, Debug, Args)]
pub struct UntaintNode {
    /// The node
    pub name: String,
    /// Which taints: all with the key, or those with this value or effect
    #[arg(value_name = "KEY[=VALUE][:EFFECT]")]
    pub taint: TaintPattern,
}

/// A node.
#[derive(Clone, Debug, Args)]
pub struct NodeName {
    /// The node
    pub name: String,
}

/// `ohm events`.
#[derive(Clone, Debug, Args)]
pub struct Events {
    /// Go on with what happens from here on
    #[arg(short, long)]
    pub follow: bool,
    /// With --follow: end after this, such as 90s, 5m, 1h [default: never]
    #[arg(long, requires = "follow", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Only events of this job
    #[arg(long)]
    pub job: Option<String>,
    /// Of the lines there are already, at most so many of the last
    #[arg(long, default_value_t = 100)]
    pub limit: usize,
    /// Also who took which lease; a start writes dozens of them
    #[arg(long)]
    pub all: bool,
    /// Only events after this log entry
    #[arg(long, value_name = "INDEX")]
    pub after: Option<u64>,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_string(), value.to_string())),
        _ => Err("must be NAME=VALUE".to_string()),
    }
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "s" | "" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err("must be a whole number with s, m, h or d, such as 90s".to_string()),
    };
    let number: u64 = number.parse().map_err(|_| "must begin with a whole number, such as 90s".to_string())?;
    Ok(Duration::from_secs(number.saturating_mul(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_unit() {
        for (text, seconds) in [("90", 90), ("90s", 90), ("5m", 300), ("2h", 7200), ("1d", 86_400)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)));
        }
        for text in ["", "s", "1.5h", "-1", "5 m", "99999999999999999999"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn pairs_are_cut_at_the_first_sign() {
        assert_eq!(key_value("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert!(key_value("=x").is_err() && key_value("x").is_err());
    }
}
