//! Drawn transactions: plans that are right, and plans that are spoilt.

use crate::dice::NODES;
use crate::state::GPU;
use crate::world::{BATCH, PEOPLE, TAS, World};
use ohm_cell::{Job, JobState, RepairState, Standing};
use ohm_model::{
    Claim, Class, ClassId, Command, Epoch, Grain, GroupIndex, Guard, Index, JobGuard, JobId, Lease, NodeId, Nomination,
    Placement, Purpose, SessionId, StopCause, TaskIndex, Transaction,
};
use std::sync::Arc;

/// Whether more spares may be held of any group.
fn lacks_spares(job: &Job) -> bool {
    (0..job.groups.len()).any(|group| job.spares_missing(group) > 0)
}

impl World {
    pub(crate) fn commit(&mut self) -> (SessionId, Command) {
        let jobs: Vec<Arc<Job>> = self.cell.jobs().iter().cloned().collect();
        let open: Vec<Arc<Job>> = jobs.iter().filter(|job| job.state == JobState::Active).cloned().collect();
        let leaves = |job: &&Arc<Job>| self.cell.runs_to_leave(job).next().is_some();
        let leaving: Vec<Arc<Job>> = open.iter().filter(leaves).cloned().collect();
        let likely = if self.dice.chance(900) { &open } else { &jobs };
        let likely = if !leaving.is_empty() && self.dice.chance(700) { &leaving } else { likely };
        let lacking: Vec<Arc<Job>> = open.iter().filter(|job| lacks_spares(job)).cloned().collect();
        let likely = if !lacking.is_empty() && self.dice.chance(60) { &lacking } else { likely };
        let unclaimed: Vec<Arc<Job>> = open.iter().filter(|job| self.is_unclaimed(job)).cloned().collect();
        let often = if self.dwells { 700 } else { 300 };
        let likely = if !unclaimed.is_empty() && self.dice.chance(often) { &unclaimed } else { likely };
        let Some(first) = self.dice.pick(likely).cloned() else { return (PEOPLE, Command::Tick) };
        let shard = first.shard;
        let mut chosen = vec![first];
        for job in &jobs {
            if job.id != chosen[0].id && (job.shard == shard || self.dice.chance(30)) && self.dice.chance(400) {
                chosen.push(Arc::clone(job));
            }
        }
        let right = if shard.class == Class::TAS { TAS } else { BATCH };
        let session = if self.dice.chance(980) { right } else { PEOPLE };
        let epoch = self.cell.sessions().lease(Lease::Shard(shard)).epoch;
        let mut transaction = Transaction {
            shard,
            epoch: if self.dice.chance(980) { epoch } else { Epoch(epoch.0 + 1) },
            seen: Index(self.cell.applied().0.saturating_sub(self.dice.below(20).saturating_sub(15))),
            grain: [Grain::PerTask, Grain::Minimum, Grain::AllOrNothing][self.dice.below(5) as usize / 2],
            guard: if self.dice.chance(800) { Guard::Fits } else { Guard::Unchanged },
            jobs: Vec::new(),
            flavors: Vec::new(),
            evict: Vec::new(),
            place: Vec::new(),
            nominate: Vec::new(),
            reserve: Vec::new(),
            claim: Vec::new(),
            preempt: Vec::new(),
            breaks: 0,
        };
        if self.is_unclaimed(&chosen[0]) && self.dice.chance(600) {
            let job = Arc::clone(&chosen[0]);
            transaction.jobs.push(JobGuard { job: job.id, version: job.version, reserved: false });
            self.add_claims(&job, 950, &mut transaction);
            return (session, Command::Commit(transaction));
        }
        let leaves = |job: &Arc<Job>| !job.repairs.unhealthy.is_empty() && job.live() > 0;
        if chosen.iter().any(leaves) && self.dice.chance(700) {
            chosen.truncate(self.dice.between(1, 2) as usize);
            self.move_away(&chosen, &mut transaction);
            self.spoil(&mut transaction);
            return (session, Command::Commit(transaction));
        }
        if lacks_spares(&chosen[0]) && self.dice.chance(400) {
            let job = Arc::clone(&chosen[0]);
            transaction.jobs.push(JobGuard { job: job.id, version: job.version, reserved: false });
            self.add_spares(&job, 1000, &mut transaction);
            return (session, Command::Commit(transaction));
        }
        for job in &chosen {
            self.add_job(job, &mut transaction);
        }
        if chosen.iter().any(|job| job.repair_state() == RepairState::Waiting) && self.dice.chance(200) {
            self.give_up(&chosen, &mut transaction);
        }
        self.spoil(&mut transaction);
        (session, Command::Commit(transaction))
    }

    /// Makes the transaction one that gives up repairs, most often of a job that waits for one.
    fn give_up(&mut self, jobs: &[Arc<Job>], transaction: &mut Transaction) {
        transaction.evict.clear();
        for job in jobs {
            let tasks = job.groups.iter().flat_map(|group| group.tasks.iter());
            let runs = tasks.filter_map(|task| self.cell.runs().get(task.run)).map(|run| run.run);
            let runs: Vec<_> = runs.filter(|_| self.dice.chance(900)).collect();
            transaction.evict.extend(runs.into_iter().map(|run| (run, StopCause::RepairFailed)));
        }
        if self.dice.chance(950) {
            (transaction.place, transaction.nominate, transaction.reserve) = Default::default();
            transaction.claim.clear();
        }
    }

    fn add_job(&mut self, job: &Job, transaction: &mut Transaction) {
        let version = if self.dice.chance(960) { job.version } else { Index(job.version.0 - 1) };
        transaction.jobs.push(JobGuard {
            job: job.id,
            version,
            reserved: !job.reserved.is_empty() && self.dice.chance(500),
        });
        let waits = self.cell.standing(job) == Standing::Unreserved;
        let may_place = self.cell.standing(job).may_place() || self.dice.chance(50);
        for group in 0..if may_place { job.groups.len() as u16 } else { 0 } {
            let pending: Vec<(u32, u32)> = job.groups[usize::from(group)].pending.iter().collect();
            for (first, count) in pending {
                self.cover(job, group, first, count, transaction);
            }
        }
        if self.dice.chance(30) {
            let group = self.dice.below(3) as u16;
            self.cover(job, group, 0, 2, transaction);
        }
        if self.dice.chance(100) {
            let groups = job.groups.len() as u64 + u64::from(self.dice.chance(50));
            let (group, count) = (GroupIndex(self.dice.below(groups) as u16), self.dice.below(3) as u32 + 1);
            let (node, expires_ms) = (NodeId(self.dice.below(NODES) as u32), self.now_ms + self.dice.below(5_000));
            let purpose = Purpose::Preemptor { expires_ms };
            transaction.nominate.push(Nomination { job: job.id, group, node, first: TaskIndex(0), count, purpose });
        }
        self.add_spares(job, 150, transaction);
        self.add_claims(job, 400, transaction);
        self.add_head(job, 250, transaction);
        if self.dice.chance(if waits { 700 } else { 80 }) {
            transaction.reserve.push(job.id);
        }
        if self.dice.chance(250) {
            let causes = [StopCause::Preempted, StopCause::Moved, StopCause::GangRestart];
            let cause = if self.dice.chance(20) { StopCause::Drained } else { causes[self.dice.below(3) as usize] };
            transaction.evict.extend(self.run().map(|run| (run, cause)));
        }
    }

    /// Whether something of it waits to be repaired and claims no room.
    fn is_unclaimed(&self, job: &Job) -> bool {
        let mut groups = (0..job.groups.len() as u16).map(GroupIndex);
        groups.any(|group| !job.owed(group).is_empty() && self.cell.nominations().claim(job.id, group).is_none())
    }

    /// Claims of what waits to be repaired, and now and then of something else.
    fn add_claims(&mut self, job: &Job, most_often: u64, transaction: &mut Transaction) {
        for group in (0..job.groups.len() as u16).map(GroupIndex) {
            if !job.owed(group).is_empty() && self.dice.chance(most_often) {
                transaction.claim.push(Claim { job: job.id, group });
            }
        }
        if self.dice.chance(20) {
            let group = GroupIndex(self.dice.below(3) as u16);
            transaction.claim.push(Claim { job: job.id, group });
        }
    }

    /// Rows for a range of tasks, cut at random places.
    fn cover(&mut self, job: &Job, group: u16, mut first: u32, count: u32, transaction: &mut Transaction) {
        let end = first + count;
        while first < end {
            let node = self.node_for(job, group, transaction);
            let taken: u32 = transaction.place.iter().filter(|row| row.node == node).map(|row| row.count).sum();
            let room = self.room(job, group, node).saturating_sub(taken);
            if room == 0 && self.dice.chance(800) {
                return;
            }
            let room = if self.dice.chance(900) { room.max(1) } else { end - first };
            let count = self.dice.between(1, u64::from(room.min(end - first))) as u32;
            if self.dice.chance(950) {
                let placement = self.placement(job, group, first, count, node);
                transaction.place.push(placement);
            }
            first += count;
        }
    }

    /// A node that may fit, most often in the domain of the row before.
    pub(crate) fn node_for(&mut self, job: &Job, group: u16, transaction: &Transaction) -> NodeId {
        if let Some(node) = self.spare_for(job, group) {
            return node;
        }
        let slots: Vec<NodeId> = self.cell.nodes().iter().map(|(node, _)| node).collect();
        let mut likely: Vec<NodeId> = slots.iter().copied().filter(|node| self.room(job, group, *node) > 0).collect();
        if let Some(last) = transaction.place.last().filter(|row| row.job == job.id)
            && self.dice.chance(800)
        {
            let topology = self.cell.topologies().get("default").expect("the topology").clone();
            likely.retain(|node| topology.key_of(*node, 1) == topology.key_of(last.node, 1));
        }
        let likely = if likely.is_empty() || self.dice.chance(100) { slots } else { likely };
        let node = self.dice.pick(&likely).copied().unwrap_or_default();
        if self.dice.chance(990) { node } else { NodeId(self.dice.below(8) as u32) }
    }

    fn placement(&mut self, job: &Job, group: u16, first: u32, count: u32, node: NodeId) -> Placement {
        let known = self.cell.nodes().class(node);
        let class = if self.dice.chance(990) { known } else { ClassId(known.0 + 1) };
        let gpu = job.spec.groups.get(usize::from(group)).and_then(|group| group.requests.get(GPU)).copied();
        let devices = (0..if gpu.is_some_and(|amount| amount > 0) { count } else { 0 }).map(|_| {
            let wide = gpu.is_some_and(|amount| amount > 1000);
            let masks: &[u64] = if wide { &[0b11, 0b110, 0b101, 0b11, 0b111] } else { &[1, 2, 1, 2, 4] };
            masks[self.dice.below(masks.len() as u64) as usize]
        });
        let mut devices: Vec<u64> = devices.collect();
        if self.dice.chance(5) {
            devices.push(1);
        }
        let (group, first) = (GroupIndex(group), TaskIndex(first));
        Placement { job: job.id, group, first, count, node, class, devices }
    }

    /// How many tasks of the group would fit by what the node has free.
    pub(crate) fn room(&self, job: &Job, group: u16, node: NodeId) -> u32 {
        let Some(shape) = self.cell.shape_of(job, usize::from(group)) else { return 0 };
        let nodes = self.cell.nodes();
        let may_stand = nodes.is_schedulable(node) && self.cell.admits(job.groups[usize::from(group)].shape, node);
        let limits = shape.requests.iter().map(|(column, amount)| (nodes.free(node, *column) / amount).max(0) as u32);
        if may_stand { limits.min().unwrap_or(0) } else { 0 }
    }

    /// Now and then something that no sane planner writes.
    fn spoil(&mut self, transaction: &mut Transaction) {
        match self.dice.below(120) {
            0 => self.dice.shuffle(&mut transaction.place),
            1 => transaction.jobs.extend(transaction.jobs.first().copied()),
            2 => drop(transaction.jobs.pop()),
            3 => transaction.place.extend(transaction.place.first().cloned()),
            4 => transaction.jobs.push(JobGuard { job: JobId(u64::MAX), version: Index(1), reserved: false }),
            5 => {
                if let Some(row) = transaction.place.first_mut() {
                    let (first, count) = (self.dice.below(7) as u32, u32::MAX - self.dice.below(3) as u32);
                    (row.first, row.count) = (TaskIndex(first), count);
                }
            }
            6 => {
                if let Some(row) = transaction.place.last_mut() {
                    (row.count, row.first) = (self.dice.below(2) as u32, TaskIndex(u32::MAX));
                }
            }
            7 => transaction.jobs.reverse(),
            _ => {}
        }
    }
}
