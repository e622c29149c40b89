//! Jobs as people ask for them.

use crate::budget::BudgetTerms;
use crate::class::{Class, ClassKind};
use crate::host_port::HostPort;
use crate::neighbours::{NEIGHBOUR_TERMS_MAX, Neighbours};
use crate::probe::Probes;
use crate::resources::{Amounts, display, is_extended};
use crate::rollout::RolloutStrategy;
use crate::selector::{Labels, Requirement, SelectorTerm, Toleration};
use crate::topology::{TopologyRequest, TopologySlice};
use serde::{Deserialize, Serialize};

/// What happens to a task whose node has lost its servers for longer than the node lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum OnDisconnect {
    /// The task is stopped by its node before the lease ends; a replacement never overlaps it.
    Stop,
    /// The task runs on; a replacement may run beside it until the node is back.
    Keep,
}

/// Which of two runs of one task lives on when the node of a kept one returns and finds it replaced. Where no
/// replacement stands, the kept run lives on in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reconcile {
    /// The later attempt: as a rule the replacement.
    #[default]
    Newer,
    /// The earlier attempt: as a rule the one that was cut off.
    Original,
    /// The one that was reported to run first, by stamped time; one that never was loses.
    LongestRunning,
}

/// What happens to a gang that lost tasks with their nodes and stands below its minimum. At or above the minimum it is
/// repaired without pause whatever the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RepairPolicy {
    /// What is lost is placed again at once inside the same domain; when nothing takes it, the gang is evicted whole
    /// and waits for its turn like a new one (Kueue's `TASFailedNodeReplacementFailFast`).
    #[default]
    FailFast,
    /// It waits for room, at most `timeout_seconds`; then as `FailFast`.
    Wait,
    /// What finds no room in the domain may stand anywhere in the domain of `widen_to` around it; waits as `Wait`.
    Widen,
}

/// What becomes of the tasks that stayed where they are when a repair placed others of their job anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Survivors {
    /// They run on, find the new places in their file of peers, and get a signal if the job names one.
    #[default]
    Notify,
    /// They start again where they are, in the entry that places the last of the others.
    RestartAll,
}

/// Signals that a job may have its tasks told with, by name.
pub const NOTICE_SIGNALS: [(&str, i32); 3] = [("SIGHUP", 1), ("SIGUSR1", 10), ("SIGUSR2", 12)];

/// How a job that lost nodes becomes whole again.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RepairSpec {
    /// Below the minimum.
    pub policy: RepairPolicy,
    /// How long `Wait` and `Widen` wait; 0 waits for ever.
    pub timeout_seconds: u64,
    /// The level of the topology up to which `Widen` may go; empty with the other policies.
    pub widen_to: String,
    /// What becomes of the tasks that stayed.
    pub survivors: Survivors,
    /// The signal that tells them of new peers, as the kernel numbers it; 0 for none.
    pub signal: i32,
    /// Whether a repair that finds no room asks for nodes, as the job was asked for when it was admitted.
    pub provision: bool,
}

/// How the tasks of a group are laid over equally good nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SpreadMode {
    /// Fill nodes that are already used (best fit).
    #[default]
    Pack,
    /// Use as many nodes as possible.
    Spread,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// By which it is known, unique among the jobs that the cell remembers: [`crate::job_name`].
    pub name: String,
    /// Who places it.
    pub class: Class,
    /// The queue it waits in; empty for none.
    pub queue: String,
    /// The subqueue of that queue which its document names; empty where it names the queue. The cell fills it in.
    pub subqueue: String,
    /// Higher is placed first. Of a job with a priority class the cell fills it in at submit.
    pub priority: i32,
    /// The priority class that gives the priority; empty for none.
    pub priority_class: String,
    /// Whether others may be stopped for it (`preemptionPolicy`). A priority class may forbid it, too.
    pub preempts: bool,
    /// Whether it may be stopped for others.
    pub preemptible: bool,
    /// Free marks for people.
    pub labels: Labels,
    /// One to [`GROUPS_MAX`] groups.
    pub groups: Vec<GroupSpec>,
    /// How often a task may fail by itself and be tried again. Lost nodes are never charged here.
    pub retries: u32,
    /// The job fails when it has run this long, counted from its first placement; 0 is no bound.
    pub active_deadline_seconds: u64,
    /// The job fails when it has waited this long in one piece with nothing of it standing; 0 is no bound.
    pub pending_timeout_seconds: u64,
    /// The finished job is forgotten after this long.
    pub ttl_seconds_after_finished: u64,
    /// What happens when a node loses its servers.
    pub on_disconnect: OnDisconnect,
    /// With `OnDisconnect::Keep`: which of two runs lives on when the node is back.
    pub reconcile: Reconcile,
    /// What happens when nodes are lost under it.
    pub repair: RepairSpec,
    /// Submitted but not to be placed yet.
    pub suspended: bool,
    /// How a service gets from one revision to the next; nothing where it does not say.
    pub strategy: Option<Box<RolloutStrategy>>,
}

impl JobSpec {
    /// The queue or subqueue that its document names.
    pub fn named_queue(&self) -> &str {
        if self.subqueue.is_empty() { &self.queue } else { &self.subqueue }
    }

    /// How it gets from one revision to the next.
    pub fn strategy(&self) -> RolloutStrategy {
        self.strategy.as_deref().copied().unwrap_or_default()
    }

    /// What is wrong with the rules of group `at` about other tasks, if anything is.
    pub fn neighbours_problem(&self, at: usize) -> Option<String> {
        let group = self.groups.get(at)?;
        let asked = group.neighbours.as_ref()?;
        let bears = |other: &&GroupSpec| {
            (group.topology.is_asked() || other.topology.is_asked()) && asked.is_about_own(&other.labels)
        };
        let of_topology = self.groups.iter().find(bears).map(|other| {
            let whom =
                if other.name == group.name { "its own tasks".into() } else { format!("tasks of {}", other.name) };
            let instead = "a topology, slices, `placeWith` and `maxPerNode` say how tasks of one job stand";
            format!("asks for something of {whom} beside a topology; keep one: {instead}")
        });
        group.neighbours_problem().or(of_topology)
    }

    /// A job without queue, priority, retries or deadline, whose tasks stop when their node is cut off.
    pub fn of(name: impl Into<String>, class: Class, groups: Vec<GroupSpec>) -> Self {
        JobSpec {
            name: name.into(),
            class,
            queue: String::new(),
            subqueue: String::new(),
            priority: 0,
            priority_class: String::new(),
            preempts: true,
            preemptible: true,
            labels: Labels::new(),
            groups,
            retries: 0,
            active_deadline_seconds: 0,
            pending_timeout_seconds: 0,
            ttl_seconds_after_finished: TTL_SECONDS_DEFAULT,
            on_disconnect: OnDisconnect::Stop,
            reconcile: Reconcile::Newer,
            repair: RepairSpec::default(),
            suspended: false,
            strategy: None,
        }
    }
}

/// Most groups a job may have.
pub const GROUPS_MAX: usize = 64;
/// Most tasks a group may have.
pub const TASKS_MAX: u32 = 1_000_000;
const _: () = assert!(TASKS_MAX == crate::rollout::CANARIES_MAX);
/// How long a finished job is remembered unless it says otherwise: one day.
pub const TTL_SECONDS_DEFAULT: u64 = 86_400;

/// Equal tasks of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSpec {
    /// Unique in the job.
    pub name: String,
    /// By which the rules of other groups, and its own, mean its tasks.
    pub labels: Labels,
    /// How many tasks.
    pub count: u32,
    /// The group starts with at least this many at once, or not at all. 1 to `count`.
    pub min_count: u32,
    /// Whether tasks beyond the first start may be added later, as room comes.
    pub elastic: bool,
    /// What each task asks for; `pods: 1` is added by the cell.
    pub requests: Amounts,
    /// The most each task may take, at least its request; what has a limit has a request. Without one memory ends at
    /// the request, CPU does not end, and devices are what was asked for.
    pub limits: Amounts,
    /// Labels the node must have.
    pub node_selector: Labels,
    /// Required node affinity: at least one term must match, unless there is none.
    pub affinity: Vec<SelectorTerm>,
    /// Preferred node affinity: weight 1 to 100, and what it rewards.
    pub preferred: Vec<(u32, SelectorTerm)>,
    /// What it asks of the tasks around it; nothing where it asks for nothing.
    pub neighbours: Option<Box<Neighbours>>,
    /// Taints it may stand on.
    pub tolerations: Vec<Toleration>,
    /// Host ports each task needs for itself.
    pub ports: Vec<HostPort>,
    /// Most tasks of this group on one node; 0 is no limit.
    pub max_per_node: u32,
    /// Room for so many more tasks is held once the group stands, in its domain, for tasks that are lost; never for
    /// more than it has tasks left.
    pub spares: u32,
    /// How tasks are laid over nodes.
    pub spread: SpreadMode,
    /// What it asks of the topology.
    pub topology: TopologyRequest,
    /// How many of its tasks must be healthy while somebody stops them who need not; nothing where it does not say.
    pub disruption_budget: Option<Box<BudgetTerms>>,
    /// Groups with the same non-empty label are placed in one domain together: a leader and its workers.
    pub place_with: String,
    /// What each task runs.
    pub task: TaskSpec,
}

impl GroupSpec {
    /// A group of `count` tasks that start together or not at all and ask for nothing.
    pub fn gang(name: impl Into<String>, count: u32) -> Self {
        GroupSpec {
            name: name.into(),
            labels: Labels::new(),
            count,
            min_count: count,
            elastic: false,
            requests: Amounts::new(),
            limits: Amounts::new(),
            node_selector: Labels::new(),
            affinity: Vec::new(),
            preferred: Vec::new(),
            neighbours: None,
            tolerations: Vec::new(),
            ports: Vec::new(),
            max_per_node: 0,
            spares: 0,
            spread: SpreadMode::Pack,
            topology: TopologyRequest::default(),
            disruption_budget: None,
            place_with: String::new(),
            task: TaskSpec::default(),
        }
    }

    /// The slices its tasks are cut into. A group of one task that is placed with others stands beside their slices and
    /// is cut into none of its own.
    pub fn slices(&self) -> &[TopologySlice] {
        if self.count == 1 && !self.place_with.is_empty() { &[] } else { &self.topology.slices }
    }

    /// What is wrong with its `spares` in a job of a class of this kind, if anything is.
    pub fn spares_problem(&self, kind: ClassKind) -> Option<String> {
        if self.spares == 0 {
            return None;
        }
        if self.spares > TASKS_MAX {
            return Some(format!("{}; up to {TASKS_MAX} are possible", self.spares));
        }
        if !self.slices().is_empty() {
            let problem = "a lost task comes back inside its slice, where a spare may not be; leave out one of the two";
            return Some(problem.to_string());
        }
        if kind != ClassKind::Service && self.elastic && self.min_count == 1 {
            return Some("tasks of an array don't wait for a lost one; ask for more of them instead".into());
        }
        None
    }

    /// What is wrong with its rules about other tasks by themselves, if anything is.
    pub fn neighbours_problem(&self) -> Option<String> {
        let asked = self.neighbours.as_ref()?;
        let number = asked.spread.len() + asked.terms().count();
        if number > NEIGHBOUR_TERMS_MAX {
            return Some(format!(
                "asks for {number} things of the tasks around it; at most {NEIGHBOUR_TERMS_MAX} may be"
            ));
        }
        None
    }

    /// What is wrong with its limit of the resource called `name`, if anything is.
    pub fn limit_problem(&self, name: &str, limit: i64) -> Option<String> {
        let Some(&request) = self.requests.get(name) else {
            return Some("is a limit without a request; ask for as much, or for less".into());
        };
        let [limited, asked] = [limit, request].map(|amount| display(name, amount));
        if is_extended(name) && limit != request {
            let why = "devices are given as they are asked for";
            return Some(format!("is {limited}, which differs from the request of {asked}; {why}"));
        }
        if limit < request {
            return Some(format!("is {limited}, which is below the request of {asked}"));
        }
        if limit == 0 && !is_extended(name) {
            return Some("is 0, which leaves nothing to run with; leave it out".into());
        }
        None
    }

    /// Whether a task of `other` is made of the same: what it runs, what it takes, and which nodes may hold it. How
    /// many there are and how they stand together is no part of it.
    pub fn is_made_as(&self, other: &GroupSpec) -> bool {
        self.task == other.task
            && (&self.requests, &self.limits) == (&other.requests, &other.limits)
            && (&self.node_selector, &self.affinity) == (&other.node_selector, &other.affinity)
            && (&self.tolerations, &self.neighbours) == (&other.tolerations, &other.neighbours)
            && (&self.ports, self.max_per_node) == (&other.ports, other.max_per_node)
    }

    /// Most tasks of the group on one node.
    pub fn most_on_node(&self) -> u32 {
        if self.max_per_node == 0 { u32::MAX } else { self.max_per_node }
    }

    /// Whether labels or affinity speak of single nodes by name, so that equal node classes can differ for it.
    pub fn names_hosts(&self) -> bool {
        let by_label = |requirement: &Requirement| requirement.key == crate::node::HOSTNAME_LABEL;
        let by_host = |term: &SelectorTerm| !term.fields.is_empty() || term.requirements.iter().any(by_label);
        self.node_selector.contains_key(crate::node::HOSTNAME_LABEL) || self.affinity.iter().any(by_host)
    }
}

/// What one task runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Environment on top of Ohm's own.
    pub env: Vec<(String, String)>,
    /// Where it starts; the run's own folder when empty.
    pub working_dir: String,
    /// Between leaving the endpoints of its job and the polite signal; at most [`crate::GRACE_MS_MAX`].
    pub stop_delay_ms: u64,
    /// Between the polite signal and the kill; at most [`crate::GRACE_MS_MAX`].
    pub grace_ms: u64,
    /// How its node finds out whether it has started, is ready and is well; nothing where it does not look.
    pub probes: Option<Box<Probes>>,
    /// On `sim` nodes: how long it takes; 0 never ends.
    pub sim_duration_ms: u64,
    /// On `sim` nodes: the exit code it ends with.
    pub sim_exit_code: i32,
}

impl TaskSpec {
    /// How long a task that is told to stop may run on.
    pub fn stops_within_ms(&self) -> u64 {
        self.stop_delay_ms.saturating_add(self.grace_ms)
    }
}
