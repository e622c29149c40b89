//! Heads of lines, from the promise: a job that has waited long enough keeps what becomes free where it is to stand.

use crate::admission::Stand;
use crate::life::NOBODY;
use crate::state::{Phase, Plain, PlainHold, PlainRun, State, request};
use crate::world::World;
use ohm_cell::{HEAD_MS_MAX, Job};
use ohm_model::transaction::Row;
use ohm_model::{
    Class, Command, ConflictReason, Exit, GroupIndex, JobId, JobSpec, NodeHealth, NodeId, Nomination, Purpose,
    SchedulingProfile, TaskIndex, Transaction,
};
use std::collections::{BTreeMap, BTreeSet};

impl Plain {
    pub(crate) fn is_head(&self, id: JobId) -> bool {
        self.holds.iter().any(|hold| hold.is_head() && hold.job == id)
    }

    fn head_start_ms(&self, id: JobId) -> Option<u64> {
        self.holds.iter().filter(|hold| hold.job == id).find_map(|hold| match hold.purpose {
            Purpose::Head { start_ms, .. } => Some(start_ms),
            _ => None,
        })
    }

    fn other_heads(&self, id: JobId) -> BTreeSet<JobId> {
        let line = |id: JobId| {
            let spec = &self.jobs[&id].spec;
            (spec.queue.clone(), spec.queue.is_empty().then_some(spec.class))
        };
        let heads = self.holds.iter().filter(|hold| hold.is_head() && hold.job != id).map(|hold| hold.job);
        heads.filter(|other| line(*other) == line(id)).collect()
    }

    fn waiting_of(&self, id: JobId, group: u16) -> u32 {
        let tasks = self.jobs[&id].tasks.iter();
        tasks.filter(|(place, task)| place.0 == group && task.phase == Phase::Pending).count() as u32
    }

    fn may_wait(&self, id: JobId) -> bool {
        self.jobs[&id].state == State::Active && matches!(self.stand(id), Stand::Free | Stand::Ready)
    }

    /// What ended by itself with 0 is no reason to wait anew.
    pub(crate) fn note_end(&mut self, run: &PlainRun, exit: Exit) {
        if exit != Exit::Code(0) || run.stop.is_some() {
            self.ended_ms.insert(run.job, self.now_ms);
        }
    }

    /// When it has waited long enough to be a head.
    pub(crate) fn patient_until_ms(&self, id: JobId) -> u64 {
        let job = &self.jobs[&id];
        let patience_ms = self.patience.get(&job.spec.class).map_or(30_000, |seconds| u64::from(*seconds) * 1000);
        let since_ms = self.ended_ms.get(&id).map_or(job.submitted_ms, |ended_ms| job.submitted_ms.max(*ended_ms));
        since_ms + patience_ms
    }

    /// The rows of a head: all of them, or none for one reason.
    pub(crate) fn judge_head(&self, transaction: &Transaction) -> Vec<(Row, ConflictReason)> {
        let rows = transaction.nominate.iter().enumerate().filter(|(_, row)| row.is_head());
        let rooms: Vec<(usize, &Nomination)> = rows.collect();
        match self.head_verdict(transaction, &rooms) {
            Ok(()) => Vec::new(),
            Err(reason) => rooms.iter().map(|(row, _)| (Row::Nominate(*row as u32), reason)).collect(),
        }
    }

    fn head_verdict(&self, transaction: &Transaction, rooms: &[(usize, &Nomination)]) -> Result<(), ConflictReason> {
        let Some((_, first)) = rooms.first() else { return Ok(()) };
        for (_, room) in rooms {
            self.job_of(transaction, room.job)?;
            self.judge_not_held(room.job)?;
            let groups = &self.jobs[&room.job].spec.groups;
            let spec = groups.get(usize::from(room.group.0)).ok_or(ConflictReason::Malformed)?;
            if room.count == 0 || room.count > spec.count {
                return Err(ConflictReason::Malformed);
            }
            self.node_stands(room.node, transaction.seen)?;
        }
        let places = transaction.place.iter().any(|row| row.job == first.job);
        if places || rooms.iter().any(|(_, room)| room.job != first.job || room.purpose != first.purpose) {
            return Err(ConflictReason::Malformed);
        }
        let (id, job) = (first.job, &self.jobs[&first.job]);
        if !self.may_wait(id) || (0..job.spec.groups.len() as u16).all(|group| self.waiting_of(id, group) == 0) {
            return Err(ConflictReason::TaskNotPending);
        }
        let Purpose::Head { start_ms, until_ms, .. } = first.purpose else { return Err(ConflictReason::Malformed) };
        let may = match self.head_start_ms(id) {
            Some(former_ms) => start_ms < former_ms,
            None => self.now_ms >= self.patient_until_ms(id),
        };
        if !may {
            return Err(ConflictReason::LimitReached);
        }
        if self.other_heads(id).iter().any(|other| self.jobs[other].spec.priority >= job.spec.priority) {
            return Err(ConflictReason::Held);
        }
        if start_ms > until_ms || until_ms <= self.now_ms || until_ms > self.now_ms + HEAD_MS_MAX {
            return Err(ConflictReason::LimitReached);
        }
        let mut asked: BTreeMap<u16, u32> = BTreeMap::new();
        for (_, room) in rooms {
            let spec = &job.spec.groups[usize::from(room.group.0)];
            if !self.admits(&job.filtered(spec), room.node) {
                return Err(ConflictReason::NodeClassChanged);
            }
            *asked.entry(room.group.0).or_default() += room.count;
            if asked[&room.group.0] > self.waiting_of(id, room.group.0) {
                return Err(ConflictReason::TaskNotPending);
            }
            let mut kept: BTreeMap<String, i64> = BTreeMap::new();
            let priority = |id: JobId| self.jobs[&id].spec.priority;
            let binds = |hold: &&PlainHold| {
                let outranks = hold.is_earmark() || priority(hold.job) >= priority(id);
                hold.node == room.node && (hold.is_move() || (hold.job != id && outranks))
            };
            let others = self.holds.iter().filter(binds).map(|hold| (hold.job, hold.group, hold.count));
            let own = rooms.iter().filter(|(_, other)| other.node == room.node);
            let own = own.map(|(_, other)| (id, other.group.0, other.count));
            for (job, group, count) in others.chain(own) {
                let Some(spec) = self.jobs[&job].spec.groups.get(usize::from(group)) else { continue };
                let amounts = request(spec).into_iter();
                amounts.for_each(|(name, amount)| *kept.entry(name).or_default() += amount * i64::from(count));
            }
            let capacity = &self.nodes[&room.node].spec.capacity;
            if kept.iter().any(|(name, sum)| *sum > capacity.get(name).copied().unwrap_or(0)) {
                return Err(ConflictReason::Held);
            }
        }
        Ok(())
    }

    /// Keeps what was accepted of the rows of a head.
    pub(crate) fn make_head(&mut self, rows: &[Nomination]) {
        let Some(first) = rows.first() else { return };
        self.other_heads(first.job).into_iter().for_each(|other| self.end_head(other));
        self.end_head(first.job);
        for row in rows {
            let (job, group, node, count, purpose) = (row.job, row.group.0, row.node, row.count, row.purpose);
            let same =
                |hold: &&mut PlainHold| hold.is_head() && (hold.job, hold.group, hold.node) == (job, group, node);
            match self.holds.iter_mut().find(same) {
                Some(known) => known.count += count,
                None => {
                    let (tasks, since) = (BTreeSet::new(), self.index);
                    self.holds.push(PlainHold { job, group, node, count, tasks, purpose, since });
                }
            }
            self.touch(node, NOBODY);
            if let Purpose::Head { until_ms, .. } = purpose {
                self.alarm(until_ms, crate::state::Alarm::Hold(node));
            }
        }
        self.heads_made += 1;
    }

    pub(crate) fn end_head(&mut self, id: JobId) {
        self.clear_holds_of(id, PlainHold::is_head);
    }

    pub(crate) fn end_heads_on(&mut self, node: NodeId, which: impl Fn(&PlainHold) -> bool) {
        let on_node = self.holds.iter().filter(|hold| hold.is_head() && hold.node == node && which(hold));
        let heads: BTreeSet<JobId> = on_node.map(|hold| hold.job).collect();
        heads.into_iter().for_each(|head| self.end_head(head));
    }

    /// Whoever can't use all that is kept for it keeps nothing.
    pub(crate) fn settle_heads(&mut self) {
        let heads: BTreeSet<JobId> = self.holds.iter().filter(|hold| hold.is_head()).map(|hold| hold.job).collect();
        for id in heads {
            let mut kept: BTreeMap<u16, u32> = BTreeMap::new();
            let rooms = self.holds.iter().filter(|hold| hold.is_head() && hold.job == id);
            rooms.for_each(|hold| *kept.entry(hold.group).or_default() += hold.count);
            let (job, waits) = (&self.jobs[&id], self.may_wait(id));
            let waits = waits && kept.iter().all(|(group, count)| self.waiting_of(id, *group) >= *count);
            let takes = |hold: &PlainHold| {
                let node = &self.nodes[&hold.node];
                let open = node.health == NodeHealth::Ready && !node.cordoned && node.drain.is_none();
                let group = &job.spec.groups[usize::from(hold.group)];
                open && !self.is_shrunk(hold.node) && self.admits(&job.filtered(group), hold.node)
            };
            let usable = waits && self.holds.iter().filter(|hold| hold.is_head() && hold.job == id).all(takes);
            if !usable {
                self.end_head(id);
            }
        }
    }

    /// Whether the job, placed now, has been over for 2 s when the head is to start, however slowly it stops.
    pub(crate) fn is_gone_before(&self, id: JobId, head: &PlainHold) -> bool {
        self.is_gone_under(&self.jobs[&id].spec, id, head)
    }

    fn is_gone_under(&self, spec: &JobSpec, id: JobId, head: &PlainHold) -> bool {
        let Purpose::Head { start_ms, .. } = head.purpose else { return false };
        let slowest_ms = spec.groups.iter().map(|group| group.task.grace_ms).max().unwrap_or(0);
        let lasts_ms = u128::from(spec.active_deadline_seconds) * 1000 + u128::from(slowest_ms) + 2_000;
        let begins_ms = self.jobs[&id].first_placed_ms.unwrap_or(self.now_ms);
        spec.active_deadline_seconds > 0 && u128::from(begins_ms) + lasts_ms <= u128::from(start_ms)
    }

    /// Where the job stands in the room of a head and was over in time, and is not any more, that head ends.
    pub(crate) fn end_heads_outstayed(&mut self, id: JobId, old: &JobSpec) {
        let runs = self.runs.iter().filter(|run| run.job == id && run.stop.is_none());
        let nodes: BTreeSet<NodeId> = runs.map(|run| run.node).collect();
        let is_outstayed = |hold: &&PlainHold| {
            let was_gone = nodes.contains(&hold.node) && self.is_gone_under(old, id, hold);
            hold.is_head() && hold.job != id && was_gone && !self.is_gone_before(id, hold)
        };
        let heads: BTreeSet<JobId> = self.holds.iter().filter(is_outstayed).map(|hold| hold.job).collect();
        heads.into_iter().for_each(|head| self.end_head(head));
    }

    /// Whether the row is of tasks that heads have to let pass: on the move, or repaired.
    pub(crate) fn goes_before_heads(&self, (id, group): (JobId, u16), first: u32) -> bool {
        let job = &self.jobs[&id];
        let lost = job.repair.lost.iter().any(|place| place.0 == group);
        let mut waits = job.tasks.iter().filter(|(place, task)| place.0 == group && task.phase == Phase::Pending);
        job.moving.contains(&(group, first)) || (lost && waits.all(|(place, _)| job.repair.lost.contains(place)))
    }
}

impl World {
    /// Jobs of most histories wait for a short time before they may be heads.
    pub(crate) fn impatient(seed: u64) -> Vec<Command> {
        let profile = |class| {
            let head_patience_seconds = [0, 1, 60][(seed % 3) as usize];
            SchedulingProfile { head_patience_seconds, ..SchedulingProfile::built_in(class) }
        };
        let classes = Class::BUILT_IN.into_iter().filter(|_| !seed.is_multiple_of(4));
        classes.map(|class| Command::PutSchedulingProfile(Box::new(profile(class)))).collect()
    }

    /// Rooms for a head, sound more often than not.
    pub(crate) fn add_head(&mut self, job: &Job, permille: u64, transaction: &mut Transaction) {
        if job.pending() == 0 || !self.dice.chance(permille) {
            return;
        }
        if self.dice.chance(900) {
            transaction.place.clear();
        }
        let until_ms = self.now_ms + if self.dice.chance(30) { HEAD_MS_MAX + 1 } else { 1 + self.dice.below(40_000) };
        let latest_ms = until_ms + u64::from(self.dice.chance(30));
        let start_ms = if self.dice.chance(300) { self.now_ms } else { latest_ms };
        let purpose = Purpose::Head { start_ms, is_guess: self.dice.chance(500), until_ms };
        for (at, group) in job.groups.iter().enumerate() {
            let more = u64::from(self.dice.chance(30));
            let mut left = (u64::from(group.pending.len()) + more) as u32;
            while left > 0 && self.dice.chance(800) {
                let count = (1 + self.dice.below(u64::from(left)) as u32).min(left);
                let open = self.cell.nodes().iter().map(|(node, _)| node);
                let open: Vec<NodeId> = open.filter(|node| self.cell.nodes().is_schedulable(*node)).collect();
                let any = NodeId(self.dice.below(crate::dice::NODES) as u32);
                let (node, first) = (self.dice.pick(&open).copied().unwrap_or(any), TaskIndex(0));
                let group = GroupIndex(at as u16);
                transaction.nominate.push(Nomination { job: job.id, group, node, first, count, purpose });
                left -= count;
            }
        }
    }
}
