//! The plain model: what a cell holds, as maps, with every sum worked out anew whenever somebody asks.

use crate::admission::PlainAdmission;
use crate::brought::PlainRelease;
use crate::ready::PlainReady;
use crate::repair_requests::PlainRequest;
use ohm_model::{
    Amounts, Class, ClassKind, ConditionKind, ConflictReason, GroupSpec, HostPort, Index, JobId, JobSpec,
    NodeCondition, NodeHealth, NodeId, NodeSpec, ProvisioningClass, Purpose, QueueSpec, SessionId, Shard, StopCause,
    Taint, TaintEffect, TopologyMode,
};
use std::collections::{BTreeMap, BTreeSet};

/// The levels of the one topology of the model's cells.
pub(crate) const LEVELS: [&str; 2] = ["block", "rack"];
/// The one extended resource of the model's cells.
pub(crate) const GPU: &str = "gpu.io/x";

/// Whether two tasks of a node can't have both.
pub(crate) fn ports_meet(one: HostPort, other: HostPort) -> bool {
    let on_one_address = one.address.is_none() || other.address.is_none() || one.address == other.address;
    one.port == other.port && one.protocol == other.protocol && on_one_address
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Pending,
    BackingOff,
    Live,
    Succeeded,
    Failed,
    Skipped,
    Stopped,
    Removed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Active,
    Suspended,
    Succeeded,
    Failed,
    Cancelled,
}

#[derive(Clone, Debug)]
pub(crate) struct PlainTask {
    pub(crate) phase: Phase,
    pub(crate) incarnation: u32,
    /// The highest one there was.
    pub(crate) attempts: u32,
    pub(crate) failures: u32,
    pub(crate) refusals: u32,
    /// Whether it was ever placed.
    pub(crate) stood: bool,
}

/// What was lost with nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlainRepair {
    /// Tasks to be placed again.
    pub(crate) lost: BTreeSet<(u16, u32)>,
    /// Tasks placed again that don't run yet.
    pub(crate) replaced: BTreeSet<(u16, u32)>,
    pub(crate) unhealthy: BTreeSet<NodeId>,
    /// The names of those that were removed meanwhile.
    pub(crate) removed: BTreeSet<String>,
    /// When the last of them was lost.
    pub(crate) last_ms: u64,
    /// The first loss, and when the policy gives up.
    pub(crate) open: Option<(Index, Option<u64>)>,
    pub(crate) failed: u32,
    /// The groups that have found no room.
    pub(crate) without_room: BTreeSet<u16>,
    /// The nodes that the open one asks for.
    pub(crate) requests: Vec<PlainRequest>,
    /// How many requests there ever were.
    pub(crate) requested: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct PlainJob {
    pub(crate) spec: JobSpec,
    pub(crate) state: State,
    pub(crate) version: Index,
    /// The entry by which it queues: its submission, or when it was not ready in time last.
    pub(crate) queued: Index,
    pub(crate) submitted_ms: u64,
    pub(crate) shard: Shard,
    pub(crate) tasks: BTreeMap<(u16, u32), PlainTask>,
    pub(crate) started: Vec<bool>,
    /// The labels of the required domain, from the top, while the group has live tasks.
    pub(crate) domain: Vec<Option<Vec<String>>>,
    pub(crate) reserved: bool,
    pub(crate) admission: PlainAdmission,
    pub(crate) ready: PlainReady,
    pub(crate) repair: PlainRepair,
    /// Tasks that leave their nodes, with room for each.
    pub(crate) moving: BTreeSet<(u16, u32)>,
    /// Nodes it has to leave, as found after the last command, and the condition if it is not a drain.
    pub(crate) leaving: BTreeMap<NodeId, Option<ConditionKind>>,
    pub(crate) first_placed_ms: Option<u64>,
    /// The highest attempt at a task that is gone since an update.
    pub(crate) floor: u32,
    /// Whether its tasks run until they are stopped, each by itself.
    pub(crate) endless: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct PlainNode {
    pub(crate) spec: NodeSpec,
    pub(crate) key: u64,
    pub(crate) instance: u64,
    pub(crate) boot: u64,
    /// The latest first.
    pub(crate) incarnation: u32,
    pub(crate) registered: Index,
    pub(crate) health: NodeHealth,
    pub(crate) cordoned: bool,
    pub(crate) conditions: BTreeMap<ConditionKind, NodeCondition>,
    /// The highest number of a set that its registration told.
    pub(crate) heard: u64,
    /// Every time it came back since it was new or released by hand.
    pub(crate) returns: Vec<u64>,
    pub(crate) held: bool,
    /// Taints that people put on it.
    pub(crate) put: Vec<Taint>,
    /// Since when it has each of all its taints.
    pub(crate) since: BTreeMap<Taint, u64>,
    /// Whether it is kept for the job that it was brought for, and how far it is on its way back.
    pub(crate) kept: bool,
    pub(crate) release: PlainRelease,
    /// Its deadline, if it has one, and how many tasks of a service's group may move at the same time.
    pub(crate) drain: Option<(Option<u64>, u32)>,
}

#[derive(Clone, Debug)]
pub(crate) struct PlainRun {
    pub(crate) started_ms: Option<u64>,
    pub(crate) job: JobId,
    pub(crate) group: u16,
    pub(crate) task: u32,
    pub(crate) incarnation: u32,
    pub(crate) node: NodeId,
    pub(crate) placed: Index,
    pub(crate) placed_ms: u64,
    pub(crate) stop: Option<StopCause>,
    /// Ends and starts again in place.
    pub(crate) restart: bool,
    pub(crate) masks: Vec<u64>,
}

/// A run whose node is away, or is back and lets it live on once the attempt named is over.
#[derive(Clone, Debug)]
pub(crate) struct PlainKept {
    pub(crate) run: PlainRun,
    pub(crate) back: Option<Option<u32>>,
}

#[derive(Clone, Debug)]
pub(crate) struct PlainHold {
    pub(crate) job: JobId,
    pub(crate) group: u16,
    pub(crate) node: NodeId,
    pub(crate) count: u32,
    /// Which tasks, where they move.
    pub(crate) tasks: BTreeSet<u32>,
    pub(crate) purpose: Purpose,
    pub(crate) since: Index,
}

impl PlainHold {
    pub(crate) fn is_move(&self) -> bool {
        self.purpose == Purpose::Move
    }

    pub(crate) fn is_spare(&self) -> bool {
        self.purpose == Purpose::Spare
    }

    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        match self.purpose {
            Purpose::Preemptor { expires_ms: ends_ms } | Purpose::Head { until_ms: ends_ms, .. } => ends_ms <= now_ms,
            Purpose::Move | Purpose::Spare | Purpose::Repair => false,
        }
    }

    pub(crate) fn is_head(&self) -> bool {
        matches!(self.purpose, Purpose::Head { .. })
    }

    pub(crate) fn is_earmark(&self) -> bool {
        self.purpose == Purpose::Repair
    }

    pub(crate) fn is_preemptor(&self) -> bool {
        matches!(self.purpose, Purpose::Preemptor { .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    BackOff(JobId, u16, u32, u32),
    Deadline(JobId),
    Forget(JobId),
    Hold(NodeId),
    Repair(JobId, Index),
    HoldDown(NodeId),
    Admission(JobId, u32),
    Drain(NodeId),
    Toleration(NodeId),
    Room(JobId, u16, u32, u32),
    Claim(JobId),
    Idle(NodeId),
    RepairRequest(JobId),
    Ready(JobId),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Plain {
    pub(crate) index: Index,
    pub(crate) now_ms: u64,
    pub(crate) nodes: BTreeMap<NodeId, PlainNode>,
    pub(crate) registrations: u32,
    pub(crate) jobs: BTreeMap<JobId, PlainJob>,
    pub(crate) runs: Vec<PlainRun>,
    pub(crate) holds: Vec<PlainHold>,
    /// To which groups room is owed, and for how many tasks it was sought last.
    pub(crate) claims: BTreeMap<(JobId, u16), usize>,
    /// How many claims were made, and for how many tasks room was earmarked.
    pub(crate) claimed: u64,
    pub(crate) earmarked: u64,
    /// How many nodes that were brought were taken back.
    pub(crate) taken_back: u64,
    /// How many requests for nodes repairs have made.
    pub(crate) asked_for_repairs: u64,
    /// What was earmarked after the command before, with the request that the node was brought for.
    pub(crate) earmarked_before: Vec<(PlainHold, Option<String>)>,
    /// The job whose spares are not charged while its rows are judged.
    pub(crate) lent: Option<JobId>,
    /// What the job whose rows are judged leaves to those before it, and to how many jobs anything was left.
    pub(crate) ceded: Amounts,
    pub(crate) have_ceded: u64,
    pub(crate) kept: Vec<PlainKept>,
    /// What is judged stands there already: what bars new work only counts for nothing.
    pub(crate) adopts: bool,
    /// How many spares were granted, and how many of them were used.
    pub(crate) spares_held: u64,
    pub(crate) spares_used: u64,
    /// How many jobs were stopped because their queue was drained.
    pub(crate) stopped: u64,
    /// How many jobs were not ready in time.
    pub(crate) timed_out: u64,
    /// How many kept runs have lived on.
    pub(crate) returned: u64,
    /// How many rows were refused by rules about other tasks.
    pub(crate) ruled_out: u64,
    /// How often a budget kept a task from being moved.
    pub(crate) held_by_budgets: u64,
    pub(crate) queues: BTreeMap<String, QueueSpec>,
    pub(crate) priority_classes: BTreeMap<String, i32>,
    pub(crate) provisioning_classes: BTreeMap<String, ProvisioningClass>,
    /// The profiles that were submitted: what their classes are like.
    pub(crate) profiles: BTreeMap<Class, ClassKind>,
    /// How many seconds their jobs wait before they may be heads.
    pub(crate) patience: BTreeMap<Class, u32>,
    /// When a run of a job ended last that did not end by itself with 0.
    pub(crate) ended_ms: BTreeMap<JobId, u64>,
    /// How many jobs became the head of their line.
    pub(crate) heads_made: u64,
    /// Every change of a node, and whose commit it was.
    pub(crate) touches: Vec<(NodeId, Index, SessionId)>,
    pub(crate) alarms: Vec<(u64, Alarm)>,
    /// What the command at hand took away.
    pub(crate) losses: Vec<(JobId, u16, u32, NodeId)>,
}

/// What one task of `group` takes, `pods` included.
pub(crate) fn request(group: &GroupSpec) -> Amounts {
    let mut request: Amounts = group.requests.clone().into_iter().filter(|(_, amount)| *amount > 0).collect();
    request.insert("pods".into(), 1);
    request
}

impl PlainJob {
    pub(crate) fn count(&self, group: u16, phase: Phase) -> u32 {
        self.tasks.iter().filter(|((at, _), task)| *at == group && task.phase == phase).count() as u32
    }

    pub(crate) fn live(&self) -> u32 {
        self.tasks.values().filter(|task| task.phase == Phase::Live).count() as u32
    }

    pub(crate) fn whole(&self) -> bool {
        !self.endless
    }

    /// How many tasks of `group` must be live at its start.
    pub(crate) fn needed(&self, group: u16) -> u32 {
        let over = self.count(group, Phase::Succeeded) + self.count(group, Phase::Failed);
        let spec = &self.spec.groups[usize::from(group)];
        let left = spec.count - over - self.count(group, Phase::Skipped);
        let wanted = if spec.min_count > over { spec.min_count - over } else { 1 };
        wanted.min(left)
    }
}

impl Plain {
    pub(crate) fn find_node(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().find(|(_, node)| node.spec.name == name).map(|(id, _)| *id)
    }

    pub(crate) fn find_job(&self, name: &str) -> Option<JobId> {
        self.jobs.iter().find(|(_, job)| job.spec.name == name).map(|(id, _)| *id)
    }

    pub(crate) fn runs_on(&self, node: NodeId) -> impl Iterator<Item = &PlainRun> {
        self.runs.iter().filter(move |run| run.node == node)
    }

    pub(crate) fn group_of(&self, run: &PlainRun) -> &GroupSpec {
        &self.jobs[&run.job].spec.groups[usize::from(run.group)]
    }

    /// What has room on the node: live runs, and kept ones that live on there.
    pub(crate) fn occupants(&self, node: NodeId) -> impl Iterator<Item = &PlainRun> {
        let back = self.kept.iter().filter(move |kept| kept.run.node == node && kept.back.is_some());
        self.runs_on(node).chain(back.map(|kept| &kept.run))
    }

    pub(crate) fn free(&self, node: NodeId, resource: &str) -> i64 {
        let capacity = self.nodes[&node].spec.capacity.get(resource).copied().unwrap_or(0);
        let used = |run: &PlainRun| request(self.group_of(run)).get(resource).copied().unwrap_or(0);
        capacity - self.occupants(node).map(used).sum::<i64>()
    }

    /// What nominations that `job` may not override keep of `resource` on `node`; whether heads let it pass.
    pub(crate) fn held_from(&self, (job, group): (JobId, u16), passes: bool, node: NodeId, resource: &str) -> i64 {
        let priority = self.jobs[&job].spec.priority;
        let on_node = self.holds.iter().filter(|hold| hold.node == node && (hold.job, hold.group) != (job, group));
        let held = on_node.filter_map(|hold| {
            let holder = self.jobs.get(&hold.job)?;
            let amount = request(&holder.spec.groups[usize::from(hold.group)]).get(resource).copied().unwrap_or(0);
            let binds = match hold.is_earmark() {
                _ if hold.is_head() && (passes || self.is_gone_before(job, hold)) => false,
                true => hold.job != job && !self.is_repaired_before((job, group), hold),
                false => hold.is_move() || (holder.spec.priority >= priority && hold.job != job),
            };
            binds.then_some(amount * i64::from(hold.count))
        });
        held.sum()
    }

    /// Devices of the node, and how many thousandths of each are taken.
    pub(crate) fn devices(&self, node: NodeId) -> (u32, BTreeMap<u32, i64>) {
        let present = self.nodes[&node].spec.capacity.get(GPU).copied().unwrap_or(0) / 1000;
        let mut taken = BTreeMap::new();
        for run in self.occupants(node) {
            let each = self.group_of(run).requests.get(GPU).copied().unwrap_or(0).min(1000);
            for mask in &run.masks {
                for device in (0..64).filter(|device| mask & (1 << device) != 0) {
                    *taken.entry(device).or_insert(0) += each;
                }
            }
        }
        (present as u32, taken)
    }

    /// Whether a node is being emptied, because it holds more than it has now.
    pub(crate) fn is_shrunk(&self, node: NodeId) -> bool {
        let (present, taken) = self.devices(node);
        let resources = ["cpu", "memory", "pods", GPU];
        resources.iter().any(|resource| self.free(node, resource) < 0) || taken.keys().any(|device| *device >= present)
    }

    pub(crate) fn admits(&self, group: &GroupSpec, node: NodeId) -> bool {
        let spec = &self.nodes[&node].spec;
        let tolerated = self.nodes[&node].taints().iter().all(|taint| {
            taint.effect == TaintEffect::PreferNoSchedule || group.tolerations.iter().any(|one| one.covers(taint))
        });
        tolerated && group.node_selector.iter().all(|(key, value)| spec.labels.get(key) == Some(value))
    }

    /// The labels that name the domain `node` puts the group into: nothing for groups that require none and for nodes
    /// that lack a level's label.
    pub(crate) fn domain(&self, group: &GroupSpec, node: NodeId) -> Option<Vec<String>> {
        if group.topology.mode != TopologyMode::Required {
            return None;
        }
        let labels = &self.nodes[&node].spec.labels;
        let path: Option<Vec<String>> = LEVELS.iter().map(|level| labels.get(*level).cloned()).collect();
        let depth = LEVELS.iter().position(|level| *level == group.topology.level)?;
        path.map(|path| path[..=depth].to_vec())
    }

    /// What the jobs of `queue` itself use of `resource`.
    pub(crate) fn charged(&self, queue: &str, resource: &str) -> i64 {
        let of_job = |(id, job): (&JobId, &PlainJob)| {
            let of_group = |(at, group): (usize, &GroupSpec)| {
                let live = self.runs.iter().filter(|run| run.job == *id && usize::from(run.group) == at).count() as i64;
                let count = if job.reserved { i64::from(group.count) } else { live };
                let spares = if self.lent == Some(*id) { 0 } else { i64::from(self.spares_of(*id, at as u16)) };
                request(group).get(resource).copied().unwrap_or(0) * (count + spares)
            };
            job.spec.groups.iter().enumerate().map(of_group).sum::<i64>()
        };
        self.jobs.iter().filter(|(_, job)| job.spec.queue == queue).map(of_job).sum()
    }

    fn subtree(&self, queue: &str, resource: &str) -> i64 {
        let lent = |child: &QueueSpec| {
            let all = self.subtree(&child.name, resource);
            child.lending_limit.get(resource).map_or(all, |limit| all.min(*limit))
        };
        let own = self.queues[queue].nominal.get(resource).copied().unwrap_or(0);
        own + self.queues.values().filter(|child| child.parent == queue).map(lent).sum::<i64>()
    }

    fn local(&self, queue: &str, resource: &str) -> i64 {
        let all = self.subtree(queue, resource);
        self.queues[queue].lending_limit.get(resource).map_or(0, |limit| (all - limit).max(0))
    }

    pub(crate) fn usage(&self, queue: &str, resource: &str) -> i64 {
        let beyond = |child: &QueueSpec| (self.usage(&child.name, resource) - self.local(&child.name, resource)).max(0);
        let below: i64 = self.queues.values().filter(|child| child.parent == queue).map(beyond).sum();
        self.charged(queue, resource) + below
    }

    fn spare(&self, queue: &str, resource: &str) -> i64 {
        let spec = &self.queues[queue];
        let (subtree, usage) = (self.subtree(queue, resource), self.usage(queue, resource));
        if spec.parent.is_empty() {
            return subtree - usage;
        }
        let local = self.local(queue, resource);
        let mut above = self.spare(&spec.parent, resource);
        if let Some(limit) = spec.borrowing_limit.get(resource) {
            above = above.min(subtree - local - (usage - local).max(0) + limit);
        }
        (local - usage).max(0) + above
    }

    /// How much more of `resource` the queue may use; nothing is no limit.
    pub(crate) fn available(&self, queue: &str, resource: &str) -> Option<i64> {
        let spec = self.queues.get(queue)?;
        spec.nominal.contains_key(resource).then(|| self.spare(queue, resource))
    }

    pub(crate) fn touch(&mut self, node: NodeId, by: SessionId) {
        self.touches.push((node, self.index, by));
    }

    /// Whether anybody but `session` has changed the node after `seen`.
    pub(crate) fn moved_since(&self, node: NodeId, seen: Index, session: SessionId) -> bool {
        self.touches.iter().any(|(at, index, by)| *at == node && *index > seen && *by != session)
    }

    pub(crate) fn node_stands(&self, node: NodeId, seen: Index) -> Result<(), ConflictReason> {
        let found = self.nodes.get(&node).filter(|found| found.registered <= seen).ok_or(ConflictReason::NodeGone)?;
        let kept_away = found.cordoned || found.drain.is_some() || self.is_shrunk(node);
        let ready = self.adopts || found.health == NodeHealth::Ready && !kept_away;
        if ready { Ok(()) } else { Err(ConflictReason::NodeNotReady) }
    }
}
