//! What a scheduler's own transactions in flight will take if they are accepted. Shown as taken, so that plans made
//! before the verdicts arrive don't collide with each other.

use ohm_cell::{Cell, Shape};
use ohm_model::resources::DEVICE_MILLI;
use ohm_model::{GroupIndex, JobId, NodeId, Nomination, Placement, ResourceId, RunRef, StopCause};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Sums over rows that were planned and not judged yet. Every sum that falls to zero is dropped, so an empty pipeline
/// costs nothing to look through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    nodes: BTreeMap<NodeId, NodeHold>,
    tasks: BTreeMap<(JobId, GroupIndex), Vec<(u32, u32)>>,
    quota: BTreeMap<Arc<str>, BTreeMap<ResourceId, i64>>,
    victims: BTreeSet<RunRef>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NodeHold {
    amounts: Vec<(ResourceId, i64)>,
    ports: Vec<u16>,
    devices: Vec<((ResourceId, u32), i64)>,
    groups: Vec<((JobId, GroupIndex), u32)>,
}

/// What one transaction holds: everything needed to give it back, whatever has become of its jobs meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    rows: Vec<TakenRow>,
    quota: Vec<(Arc<str>, ResourceId, i64)>,
    victims: Vec<RunRef>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct TakenRow {
    job: JobId,
    group: GroupIndex,
    node: NodeId,
    first: u32,
    count: u32,
    devices: Vec<u64>,
    shape: Arc<Shape>,
    /// Room for tasks that stand elsewhere still.
    is_room: bool,
}

impl Taken {
    /// The nodes it names; may repeat.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.rows.iter().map(|row| row.node)
    }
}

impl Holds {
    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.tasks.is_empty() && self.quota.is_empty() && self.victims.is_empty()
    }

    /// Holds what the rows will take; rows of jobs or groups that do not exist take nothing. Hand what comes back to
    /// [`Holds::give_back`].
    pub fn take(&mut self, cell: &Cell, place: &[Placement], evict: &[(RunRef, StopCause)]) -> Taken {
        let mut taken = Taken::default();
        for placement in place {
            let Some(job) = cell.jobs().get(placement.job) else { continue };
            let Some(shape) = cell.shape_of(job, usize::from(placement.group.0)) else { continue };
            let row = TakenRow {
                job: placement.job,
                group: placement.group,
                node: placement.node,
                first: placement.first.0,
                count: placement.count,
                devices: placement.devices.clone(),
                shape: Arc::clone(shape),
                is_room: false,
            };
            self.add_row(&row);
            if !job.spec.queue.is_empty() && job.reserved.is_empty() {
                self.charge(&job.spec.queue, (&row.shape.requests, row.count), &mut taken.quota);
            }
            taken.rows.push(row);
        }
        for (run, _) in evict {
            if self.victims.insert(*run) {
                taken.victims.push(*run);
            }
        }
        taken
    }

    /// Holds the quota that `jobs` will have reserved, beyond what runs of them already, and adds it to `taken`.
    pub fn reserve(&mut self, cell: &Cell, jobs: &[JobId], taken: &mut Taken) {
        for job in jobs.iter().filter_map(|job| cell.jobs().get(*job)) {
            if job.spec.queue.is_empty() || !job.reserved.is_empty() {
                continue;
            }
            let missing = cell.missing_request(job).into_iter().filter(|(_, amount)| *amount > 0);
            self.charge(&job.spec.queue, (&missing.collect::<Vec<_>>(), 1), &mut taken.quota);
        }
    }

    /// Holds the room that tasks on the move will have reserved and that will be spares, and adds it to `taken`.
    pub fn take_rooms(&mut self, cell: &Cell, rooms: &[Nomination], taken: &mut Taken) {
        for room in rooms.iter().filter(|room| room.is_move() || room.is_spare()) {
            let Some(job) = cell.jobs().get(room.job) else { continue };
            let Some(shape) = cell.shape_of(job, usize::from(room.group.0)) else { continue };
            let row = TakenRow {
                job: room.job,
                group: room.group,
                node: room.node,
                first: 0,
                count: room.count,
                devices: Vec::new(),
                shape: Arc::clone(shape),
                is_room: true,
            };
            self.add_row(&row);
            if room.is_spare() && !job.spec.queue.is_empty() {
                self.charge(&job.spec.queue, (&row.shape.requests, row.count), &mut taken.quota);
            }
            taken.rows.push(row);
        }
    }

    /// Gives back what a transaction held.
    pub fn give_back(&mut self, taken: &Taken) {
        for row in &taken.rows {
            self.drop_row(row);
        }
        for (queue, resource, amount) in &taken.quota {
            if let Some(sums) = self.quota.get_mut(queue) {
                let sum = sums.entry(*resource).or_insert(0);
                *sum -= amount;
                sums.retain(|_, sum| *sum != 0);
                if sums.is_empty() {
                    self.quota.remove(queue);
                }
            }
        }
        for run in &taken.victims {
            self.victims.remove(run);
        }
    }

    /// How much of `resource` is held on `node`.
    pub fn amount(&self, node: NodeId, resource: ResourceId) -> i64 {
        self.nodes.get(&node).map_or(0, |hold| find(&hold.amounts, &resource))
    }

    /// Whether a port is held on `node`.
    pub fn has_port(&self, node: NodeId, port: u16) -> bool {
        self.nodes.get(&node).is_some_and(|hold| hold.ports.contains(&port))
    }

    /// How many thousandths of a device are held.
    pub fn device(&self, node: NodeId, resource: ResourceId, device: u32) -> i64 {
        self.nodes.get(&node).map_or(0, |hold| find(&hold.devices, &(resource, device)))
    }

    /// How many tasks of a group are on their way to `node`.
    pub fn on_node(&self, job: JobId, group: GroupIndex, node: NodeId) -> u32 {
        let hold = self.nodes.get(&node);
        hold.map_or(0, |hold| hold.groups.iter().find(|(key, _)| *key == (job, group)).map_or(0, |(_, count)| *count))
    }

    /// The tasks of a group that are under way, as (first, count).
    pub fn tasks(&self, job: JobId, group: GroupIndex) -> impl Iterator<Item = (u32, u32)> + use<'_> {
        self.tasks.get(&(job, group)).into_iter().flatten().copied()
    }

    /// How much of `resource` is held of the quota of each queue.
    pub fn quota(&self, resource: ResourceId) -> impl Iterator<Item = (&str, i64)> + use<'_> {
        let of = move |sums: &BTreeMap<ResourceId, i64>| sums.get(&resource).copied();
        self.quota.iter().filter_map(move |(queue, sums)| Some((queue.as_ref(), of(sums)?)))
    }

    /// Whether a transaction under way stops this run.
    pub fn is_victim(&self, run: RunRef) -> bool {
        self.victims.contains(&run)
    }

    /// Nodes on which something is held, ascending.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<'_> {
        self.nodes.keys().copied()
    }

    fn add_row(&mut self, row: &TakenRow) {
        let hold = self.nodes.entry(row.node).or_default();
        for &(resource, request) in &row.shape.requests {
            add(&mut hold.amounts, resource, request.saturating_mul(i64::from(row.count)));
        }
        hold.ports.extend(&row.shape.ports);
        each_device(row, |device, milli| add(&mut hold.devices, device, milli));
        match hold.groups.iter_mut().find(|(key, _)| *key == (row.job, row.group)) {
            Some((_, count)) => *count = count.saturating_add(row.count),
            None => hold.groups.push(((row.job, row.group), row.count)),
        }
        if !row.is_room {
            self.tasks.entry((row.job, row.group)).or_default().push((row.first, row.count));
        }
    }

    fn drop_row(&mut self, row: &TakenRow) {
        if let Some(tasks) = self.tasks.get_mut(&(row.job, row.group)).filter(|_| !row.is_room) {
            if let Some(at) = tasks.iter().position(|tasks| *tasks == (row.first, row.count)) {
                tasks.swap_remove(at);
            }
            if tasks.is_empty() {
                self.tasks.remove(&(row.job, row.group));
            }
        }
        let Some(hold) = self.nodes.get_mut(&row.node) else { return };
        for &(resource, request) in &row.shape.requests {
            add(&mut hold.amounts, resource, -request.saturating_mul(i64::from(row.count)));
        }
        for port in &row.shape.ports {
            if let Some(at) = hold.ports.iter().position(|held| held == port) {
                hold.ports.swap_remove(at);
            }
        }
        each_device(row, |device, milli| add(&mut hold.devices, device, -milli));
        if let Some(at) = hold.groups.iter().position(|(key, _)| *key == (row.job, row.group)) {
            hold.groups[at].1 = hold.groups[at].1.saturating_sub(row.count);
            if hold.groups[at].1 == 0 {
                hold.groups.swap_remove(at);
            }
        }
        if *hold == NodeHold::default() {
            self.nodes.remove(&row.node);
        }
    }

    fn charge(
        &mut self,
        queue: &str,
        (requests, count): (&[(ResourceId, i64)], u32),
        charged: &mut Vec<(Arc<str>, ResourceId, i64)>,
    ) {
        let queue = match self.quota.get_key_value(queue) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::from(queue),
        };
        let sums = self.quota.entry(Arc::clone(&queue)).or_default();
        for &(resource, request) in requests {
            let amount = request.saturating_mul(i64::from(count));
            *sums.entry(resource).or_insert(0) += amount;
            charged.push((Arc::clone(&queue), resource, amount));
        }
    }
}

/// Calls `note` with every device that a task of the row takes, and how much of it.
fn each_device(row: &TakenRow, mut note: impl FnMut((ResourceId, u32), i64)) {
    let width = row.shape.devices.len();
    for (at, mask) in row.devices.iter().enumerate().take(width * row.count as usize) {
        let (resource, request) = row.shape.devices[at % width];
        for device in (0..64).filter(|device| mask >> device & 1 == 1) {
            note((resource, device), request.min(DEVICE_MILLI));
        }
    }
}

/// Adds to the sum under `key` and drops it at zero. The lists hold what one node has under way: a few entries.
fn add<K: PartialEq>(sums: &mut Vec<(K, i64)>, key: K, amount: i64) {
    match sums.iter().position(|(known, _)| *known == key) {
        Some(at) => {
            sums[at].1 += amount;
            if sums[at].1 == 0 {
                sums.swap_remove(at);
            }
        }
        None => sums.push((key, amount)),
    }
}

fn find<K: PartialEq>(sums: &[(K, i64)], key: &K) -> i64 {
    sums.iter().find(|(known, _)| known == key).map_or(0, |(_, sum)| *sum)
}
