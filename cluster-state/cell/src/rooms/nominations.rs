//! Room kept on nodes for tasks that don't stand there: by node, and by the job that it is for. And claims: to whom
//! room is owed that is not there yet.

use crate::state::jobs::Job;
use ohm_model::{GroupIndex, Index, JobId, NodeId, Nomination, Purpose, Transaction};
use ohm_stdx::RangeSet;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Room kept for a preemptor, for tasks on the move, as a spare, for a repair, or for the head of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// For which job.
    pub job: JobId,
    /// For which group.
    pub group: u16,
    /// For how many tasks still.
    pub count: u32,
    /// Which ones, of tasks on the move and of a repair; others are not told apart.
    pub tasks: RangeSet,
    /// Its priority.
    pub priority: i32,
    /// What for.
    pub purpose: Purpose,
    /// The entry that made it; of a repair the one that took the first of its tasks.
    pub since: Index,
}

/// Room that is owed to the lost tasks of a group: what becomes free where they may be placed is kept for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenClaim {
    /// For how many tasks room was sought on all nodes; once there are more it is sought anew.
    pub sought_for: u32,
}

impl Held {
    /// Room for `count` spares of a group of `job`, as of the entry `since`.
    pub(crate) fn spare(job: &Job, group: GroupIndex, count: u32, since: Index) -> Held {
        let (priority, purpose) = (job.spec.priority, Purpose::Spare);
        Held { job: job.id, group: group.0, count, tasks: RangeSet::default(), priority, purpose, since }
    }

    /// Room for these tasks of a group, which are on the move, as of the entry `since`.
    pub(crate) fn for_moving(job: JobId, group: GroupIndex, tasks: RangeSet, since: Index) -> Held {
        let (count, priority, purpose) = (tasks.len(), i32::MAX, Purpose::Move);
        Held { job, group: group.0, count, tasks, priority, purpose, since }
    }

    /// Room for these tasks of a group, which a repair of `job` begun at `since` is to place again.
    pub(crate) fn earmark(job: &Job, group: u16, tasks: RangeSet, since: Index) -> Held {
        let (count, priority, purpose) = (tasks.len(), job.spec.priority, Purpose::Repair);
        Held { job: job.id, group, count, tasks, priority, purpose, since }
    }

    /// A room of `job`, the head of its line, as of the entry `since`.
    pub(crate) fn head(job: &Job, room: &Nomination, since: Index) -> Held {
        let (group, count, priority, purpose) = (room.group.0, room.count, job.spec.priority, room.purpose);
        Held { job: job.id, group, count, tasks: RangeSet::default(), priority, purpose, since }
    }

    /// Gives back the room of those of `tasks` that it is for.
    pub(crate) fn give_back(&mut self, tasks: &RangeSet) {
        self.tasks.remove_all(tasks);
        self.count = self.tasks.len();
    }

    /// Whether it is for tasks on the move: together these are as many as their group has on the move.
    pub fn is_move(&self) -> bool {
        self.purpose == Purpose::Move
    }

    /// Whether it is for a preemptor.
    pub fn is_preemptor(&self) -> bool {
        matches!(self.purpose, Purpose::Preemptor { .. })
    }

    /// Whether it is for the head of a line.
    pub fn is_head(&self) -> bool {
        matches!(self.purpose, Purpose::Head { .. })
    }

    /// Whether nobody needs it before `ms`, in stamped time: its job is to start later.
    pub fn starts_after(&self, ms: u64) -> bool {
        matches!(self.purpose, Purpose::Head { start_ms, .. } if ms <= start_ms)
    }

    /// Whether it is promised to a job that waits until others leave: nobody asks whether the room is there yet.
    pub fn is_promised(&self) -> bool {
        self.is_preemptor() || self.is_head()
    }

    /// When it ends by itself, in stamped time.
    pub(crate) fn ends_ms(&self) -> Option<u64> {
        match self.purpose {
            Purpose::Preemptor { expires_ms: ends_ms } | Purpose::Head { until_ms: ends_ms, .. } => Some(ends_ms),
            Purpose::Move | Purpose::Spare | Purpose::Repair => None,
        }
    }

    /// Whether the room is kept from `job`. What tasks on the move will need is nobody else's, and what a repair will
    /// need nobody's but its job's. Work of higher priority may take the rest, and so may the job that it is for: its
    /// groups start with each other or not at all.
    pub fn binds(&self, job: JobId, priority: i32) -> bool {
        self.is_move() || (self.job != job && (self.is_earmark() || self.priority >= priority))
    }

    /// Its place among room kept for repairs: the most important repair goes first, then the oldest.
    pub(crate) fn turn(&self) -> Turn {
        (Reverse(self.priority), self.since, self.job)
    }

    /// Whether the room is kept from waiting tasks of the group. Its own room for tasks on the move is counted with its
    /// tasks.
    pub(crate) fn binds_tasks(&self, (job, group): (JobId, GroupIndex), priority: i32) -> bool {
        (self.job, self.group) != (job, group.0) && self.binds(job, priority)
    }

    /// Whether ports of the room are kept from waiting tasks and from moves: those of a head are not.
    pub(crate) fn holds_ports(&self) -> bool {
        !self.is_head()
    }

    /// Whether it is a spare of its group.
    pub fn is_spare(&self) -> bool {
        self.purpose == Purpose::Spare
    }

    /// Whether it is for a repair that claims it.
    pub fn is_earmark(&self) -> bool {
        self.purpose == Purpose::Repair
    }

    /// Whether it is for a repair of this group.
    pub(crate) fn earmarks(&self, job: JobId, group: u16) -> bool {
        self.is_earmark() && (self.job, self.group) == (job, group)
    }

    /// Whether it is a spare of this group.
    pub(crate) fn spares(&self, job: JobId, group: u16) -> bool {
        self.is_spare() && (self.job, self.group) == (job, group)
    }

    /// Whether it is for tasks of this group that are on the move.
    pub(crate) fn moves(&self, job: JobId, group: u16) -> bool {
        self.is_move() && (self.job, self.group) == (job, group)
    }
}

/// The order of repairs: by priority, then by age.
pub(crate) type Turn = (Reverse<i32>, Index, JobId);

/// All room that is kept, and to whom room is owed. What it is for says which nodes it is on, so that nothing walks
/// over the room of others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct Nominations {
    by_node: ByNode,
    by_job: BTreeSet<(JobId, NodeId)>,
    /// How many of them are spares.
    spares: usize,
    /// The heads of lines, and how many of them are theirs.
    heads: BTreeMap<JobId, usize>,
    claims: Claims,
}

type ByNode = BTreeMap<NodeId, Vec<Held>>;
type Claims = BTreeMap<(JobId, u16), OpenClaim>;
type Stored = (ByNode, Claims);

impl From<Stored> for Nominations {
    fn from((by_node, claims): Stored) -> Self {
        let of_node = |(node, on_node): (&NodeId, &Vec<Held>)| {
            let node = *node;
            on_node.iter().map(move |held| (held.job, node)).collect::<Vec<_>>()
        };
        let by_job = by_node.iter().flat_map(of_node).collect();
        let spares = by_node.values().flatten().filter(|held| held.is_spare()).count();
        let mut heads = BTreeMap::new();
        for held in by_node.values().flatten().filter(|held| held.is_head()) {
            *heads.entry(held.job).or_default() += 1;
        }
        Nominations { by_node, by_job, spares, heads, claims }
    }
}

impl From<Nominations> for Stored {
    fn from(nominations: Nominations) -> Self {
        (nominations.by_node, nominations.claims)
    }
}

impl Nominations {
    /// What is kept on `node`, oldest first.
    pub fn on_node(&self, node: NodeId) -> &[Held] {
        self.by_node.get(&node).map_or(&[], Vec::as_slice)
    }

    /// What is kept for `job`, by node.
    pub fn of_job(&self, job: JobId) -> impl DoubleEndedIterator<Item = (NodeId, &Held)> {
        let nodes = self.by_job.range((job, NodeId(0))..=(job, NodeId(u32::MAX))).map(|(_, node)| *node);
        let of_job = move |(_, held): &(NodeId, &Held)| held.job == job;
        nodes.flat_map(|node| self.on_node(node).iter().map(move |held| (node, held))).filter(of_job)
    }

    /// Whether room is promised to `job`.
    pub fn nominates(&self, job: JobId) -> bool {
        self.of_job(job).any(|(_, held)| held.is_promised())
    }

    /// The jobs for which room is kept as for heads of their lines.
    pub fn heads(&self) -> impl Iterator<Item = JobId> {
        self.heads.keys().copied()
    }

    /// Whether room is kept for `job` as for the head of its line.
    pub fn is_head(&self, job: JobId) -> bool {
        self.heads.contains_key(&job)
    }

    /// When `job` is to start, in stamped time, if room is kept for it as for the head of its line.
    pub fn head_start_ms(&self, job: JobId) -> Option<u64> {
        if !self.is_head(job) {
            return None;
        }
        self.of_job(job).find_map(|(_, held)| match held.purpose {
            Purpose::Head { start_ms, .. } => Some(start_ms),
            _ => None,
        })
    }

    /// Whether any head of a line has room kept for it.
    pub(crate) fn has_heads(&self) -> bool {
        !self.heads.is_empty()
    }

    /// Whether room is kept as a spare anywhere.
    pub(crate) fn has_spares(&self) -> bool {
        self.spares > 0
    }

    /// The claim of a group.
    pub fn claim(&self, job: JobId, group: GroupIndex) -> Option<&OpenClaim> {
        self.claims.get(&(job, group.0))
    }

    /// All claims, by job and group.
    pub fn claims(&self) -> impl Iterator<Item = ((JobId, u16), &OpenClaim)> {
        self.claims.iter().map(|(of, claim)| (*of, claim))
    }

    /// The claims of `job`, by group.
    pub(crate) fn claims_of(&self, job: JobId) -> impl Iterator<Item = (u16, &OpenClaim)> {
        self.claims.range((job, 0)..=(job, u16::MAX)).map(|((_, group), claim)| (*group, claim))
    }

    /// Whether room is owed to anybody.
    pub(crate) fn has_claims(&self) -> bool {
        !self.claims.is_empty()
    }

    pub(crate) fn put_claim(&mut self, of: (JobId, u16), claim: OpenClaim) {
        self.claims.insert(of, claim);
    }

    pub(crate) fn end_claim(&mut self, of: (JobId, u16)) {
        self.claims.remove(&of);
    }

    /// Everything, by node.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Held)> {
        self.by_node.iter().flat_map(|(node, on_node)| on_node.iter().map(move |held| (*node, held)))
    }

    /// On how many nodes room is kept.
    pub fn nodes(&self) -> usize {
        self.by_node.len()
    }

    /// Whether no room is kept anywhere.
    pub fn is_empty(&self) -> bool {
        self.by_node.is_empty()
    }

    /// Adds to what is kept on `node` for the same group and purpose.
    pub(crate) fn add(&mut self, node: NodeId, held: Held) {
        self.by_job.insert((held.job, node));
        let on_node = self.by_node.entry(node).or_default();
        let key = |held: &Held| (held.job, held.group, held.purpose);
        match on_node.iter_mut().find(|known| key(known) == key(&held)) {
            Some(known) => {
                known.count += held.count;
                held.tasks.iter().for_each(|(first, count)| known.tasks.insert(first, count));
            }
            None => {
                self.spares += usize::from(held.is_spare());
                if held.is_head() {
                    *self.heads.entry(held.job).or_default() += 1;
                }
                on_node.push(held);
            }
        }
    }

    /// Keeps of the room on `node` what passes; `keep` may make it less. Returns how many ended.
    pub(crate) fn retain(&mut self, node: NodeId, mut keep: impl FnMut(&mut Held) -> bool) -> usize {
        let Some(on_node) = self.by_node.get_mut(&node) else { return 0 };
        let mut ended = Vec::new();
        on_node.retain_mut(|held| {
            let stays = keep(held);
            if !stays {
                self.spares -= usize::from(held.is_spare());
                if held.is_head()
                    && let Some(rooms) = self.heads.get_mut(&held.job)
                {
                    *rooms -= 1;
                }
                ended.push(held.job);
            }
            stays
        });
        self.heads.retain(|_, rooms| *rooms > 0);
        for job in &ended {
            if !on_node.iter().any(|held| held.job == *job) {
                self.by_job.remove(&(*job, node));
            }
        }
        if on_node.is_empty() {
            self.by_node.remove(&node);
        }
        ended.len()
    }

    /// Whether the two sides tell the same.
    pub(crate) fn is_consistent(&self) -> bool {
        *self == Nominations::from((self.by_node.clone(), self.claims.clone()))
    }
}

/// The tasks that rows of a move name room for, by group.
pub(crate) fn rooms_named(transaction: &Transaction) -> BTreeMap<(JobId, u16), RangeSet> {
    let mut named: BTreeMap<(JobId, u16), RangeSet> = BTreeMap::new();
    for row in transaction.nominate.iter().filter(|row| row.is_move()) {
        let first = row.first.0;
        named.entry((row.job, row.group.0)).or_default().insert(first, row.count.min(u32::MAX - first));
    }
    named
}
