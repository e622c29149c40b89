//! Judging a transaction the slow way: each task is really placed on a copy of the model, one after the other.

use crate::state::ports_meet;
use crate::state::{GPU, Phase, Plain, PlainRun, State, request};
use ohm_model::transaction::Row;
use ohm_model::{
    Amounts, ClassId, ConflictReason, Grain, Guard, HostPort, Index, JobGuard, JobId, NodeId, Placement, RunRef,
    SessionId, Shard, StopCause, Transaction,
};
use std::collections::BTreeSet;

/// What the model expects of a verdict.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) accepted: Vec<u32>,
    pub(crate) conflicts: Vec<(Row, ConflictReason)>,
}

/// What the model can't know by itself: leases, and which class number a node has.
pub(crate) trait Facts {
    fn holds_lease(&self, session: SessionId, transaction: &Transaction) -> bool;
    fn class(&self, node: NodeId) -> ClassId;
    fn resource(&self, name: &str) -> ohm_model::ResourceId;
    fn holder(&self, shard: Shard) -> Option<SessionId>;
}

impl Plain {
    /// The verdict, and the model with everything that was accepted in place.
    pub(crate) fn judge(&self, session: SessionId, transaction: &Transaction, facts: &dyn Facts) -> (Expected, Plain) {
        let mut expected = Expected { accepted: vec![0; transaction.place.len()], conflicts: Vec::new() };
        let mut jobs: Vec<JobId> = transaction.jobs.iter().map(|guard| guard.job).collect();
        jobs.sort();
        let gives_up = transaction.evict.iter().any(|(_, cause)| *cause == StopCause::RepairFailed);
        let other = transaction.place.len() + transaction.nominate.len() + transaction.reserve.len();
        let other = other + transaction.claim.len();
        let whole = match (facts.holds_lease(session, transaction), jobs.windows(2).any(|pair| pair[0] == pair[1])) {
            (false, _) => Some(ConflictReason::ShardLost),
            (true, true) => Some(ConflictReason::Malformed),
            (true, false) if gives_up && other > 0 => Some(ConflictReason::Malformed),
            (true, false) if self.is_impure_move(transaction) => Some(ConflictReason::Malformed),
            (true, false) => None,
        };
        if let Some(reason) = whole {
            expected.conflicts.push((Row::Whole, reason));
            return (expected, self.clone());
        }
        if transaction.nominate.iter().any(ohm_model::Nomination::is_move)
            || transaction.evict.iter().any(|(_, cause)| *cause == StopCause::Drained)
        {
            self.judge_move(transaction, facts, &mut expected);
            return (expected, self.clone());
        }
        for (row, (run, cause)) in transaction.evict.iter().enumerate() {
            if let Err(reason) = self.judge_eviction(transaction, *run, *cause) {
                expected.conflicts.push((Row::Evict(row as u32), reason));
            }
        }
        let mut trial = self.clone();
        trial.judge_placements(self, session, transaction, facts, &mut expected);
        let held = trial.holds.len();
        for (row, nomination) in transaction.nominate.iter().enumerate().filter(|(_, room)| !room.is_head()) {
            if nomination.is_spare() {
                let judged = trial.judge_spare(self, transaction, nomination, &expected, facts);
                judged.unwrap_or_else(|reason| expected.conflicts.push((Row::Nominate(row as u32), reason)));
                continue;
            }
            let judged = self.job_of(transaction, nomination.job).and_then(|()| {
                self.judge_not_held(nomination.job)?;
                let groups = &self.jobs[&nomination.job].spec.groups;
                let group = groups.get(usize::from(nomination.group.0)).ok_or(ConflictReason::Malformed)?;
                let sane = (1..=group.count).contains(&nomination.count);
                if sane { self.node_stands(nomination.node, transaction.seen) } else { Err(ConflictReason::Malformed) }
            });
            judged.unwrap_or_else(|reason| expected.conflicts.push((Row::Nominate(row as u32), reason)));
        }
        expected.conflicts.extend(self.judge_head(transaction));
        for (row, &job) in transaction.reserve.iter().enumerate() {
            let may = self.job_of(transaction, job).and_then(|()| self.judge_pass_one(job));
            let judged = may.and_then(|()| trial.try_reserve(job, self.ceded_by(&trial, job, facts)));
            judged.unwrap_or_else(|reason| expected.conflicts.push((Row::Reserve(row as u32), reason)));
        }
        for (row, claim) in transaction.claim.iter().enumerate() {
            let judged = self.judge_claim(transaction, (row, claim));
            judged.unwrap_or_else(|reason| expected.conflicts.push((Row::Claim(row as u32), reason)));
        }
        trial.holds.truncate(held);
        if transaction.grain == Grain::AllOrNothing && !expected.conflicts.is_empty() {
            let mut told = Vec::new();
            for (row, placement) in transaction.place.iter().enumerate() {
                if std::mem::take(&mut expected.accepted[row]) > 0 && !told.contains(&placement.job) {
                    told.push(placement.job);
                    expected.conflicts.push((Row::Place(row as u32), ConflictReason::Together));
                }
            }
            trial = self.clone();
        }
        (expected, trial)
    }

    pub(crate) fn guarded(&self, transaction: &Transaction, guard: &JobGuard) -> Result<(), ConflictReason> {
        let job = self.jobs.get(&guard.job).ok_or(ConflictReason::JobClosed)?;
        match () {
            () if job.state != State::Active => Err(ConflictReason::JobClosed),
            () if job.shard != transaction.shard => Err(ConflictReason::ShardLost),
            () if guard.reserved && !job.reserved => Err(ConflictReason::NotReserved),
            () if job.version != guard.version => Err(ConflictReason::JobChanged),
            () => Ok(()),
        }
    }

    pub(crate) fn job_of(&self, transaction: &Transaction, job: JobId) -> Result<(), ConflictReason> {
        let guard = transaction.jobs.iter().find(|guard| guard.job == job).ok_or(ConflictReason::Malformed)?;
        self.guarded(transaction, guard)
    }

    fn judge_eviction(&self, transaction: &Transaction, run: RunRef, cause: StopCause) -> Result<(), ConflictReason> {
        let Some(job) = self.jobs.get(&run.task.job) else { return Ok(()) };
        if cause == StopCause::RepairFailed {
            self.job_of(transaction, run.task.job)?;
        }
        let place = (run.task.group.0, run.task.task.0);
        let Some(task) = job.tasks.get(&place) else {
            let was_there = run.incarnation.0 <= job.floor;
            return if was_there { Ok(()) } else { Err(ConflictReason::Malformed) };
        };
        if run.incarnation.0 > task.attempts {
            return Err(ConflictReason::Malformed);
        }
        if task.phase != Phase::Live {
            return Ok(());
        }
        if run.incarnation.0 != task.incarnation {
            return Err(ConflictReason::TaskNotPending);
        }
        if transaction.jobs.iter().any(|guard| guard.job == run.task.job) {
            self.job_of(transaction, run.task.job)?;
            let id = run.task.job;
            let waits = !job.repair.lost.is_empty() && self.is_below_minimum(id) && !self.awaits_ends(id);
            return if cause != StopCause::RepairFailed || waits { Ok(()) } else { Err(ConflictReason::JobChanged) };
        }
        Err(ConflictReason::NoRight)
    }

    pub(crate) fn judge_placements(
        &mut self,
        before: &Plain,
        session: SessionId,
        transaction: &Transaction,
        facts: &dyn Facts,
        expected: &mut Expected,
    ) {
        let mut row = 0;
        for guard in &transaction.jobs {
            let first = row;
            while transaction.place.get(row).is_some_and(|placement| placement.job == guard.job) {
                row += 1;
            }
            let admitted = before.guarded(transaction, guard).and_then(|()| before.judge_admitted(guard.job));
            if let Err(reason) = admitted {
                expected.conflicts.extend((first..row).map(|row| (Row::Place(row as u32), reason)));
                continue;
            }
            self.lent = Some(guard.job);
            self.cede(before, guard.job, facts);
            let unplaced = self.clone();
            for at in first..row {
                let placement = &transaction.place[at];
                let earlier = &transaction.place[first..at];
                match self.judge_row(before, session, transaction, placement, earlier, facts) {
                    Err(reason) => expected.conflicts.push((Row::Place(at as u32), reason)),
                    Ok((count, missed)) => {
                        expected.accepted[at] = count;
                        expected.conflicts.extend(missed.map(|reason| (Row::Place(at as u32), reason)));
                    }
                }
            }
            if first < row {
                self.judge_spares_first(before, transaction, guard.job, (first, row), expected);
                self.judge_minimum(before, unplaced, transaction, guard.job, (first, row), expected);
            }
            self.lent = None;
            self.ceded.clear();
        }
        expected.conflicts.extend((row..transaction.place.len()).map(|row| {
            let row = Row::Place(row as u32);
            (row, ConflictReason::Malformed)
        }));
    }

    fn judge_row(
        &mut self,
        before: &Plain,
        session: SessionId,
        transaction: &Transaction,
        placement: &Placement,
        earlier: &[Placement],
        facts: &dyn Facts,
    ) -> Result<(u32, Option<ConflictReason>), ConflictReason> {
        let (job, group) = (before.jobs[&placement.job].clone(), placement.group.0);
        let spec = job.spec.groups.get(usize::from(group)).ok_or(ConflictReason::Malformed)?;
        let pending = |first: u32, count: u32| {
            (u64::from(first)..u64::from(first) + u64::from(count)).all(|task| {
                let task = u32::try_from(task).ok().and_then(|task| job.tasks.get(&(group, task)));
                task.is_some_and(|task| task.phase == Phase::Pending)
            })
        };
        let next = earlier.iter().filter(|row| row.group == placement.group).fold(0, |next, row| {
            let sound = row.count > 0 && row.first.0 >= next && pending(row.first.0, row.count);
            if sound { row.first.0 + row.count } else { next }
        });
        if placement.count == 0 || placement.first.0 < next {
            return Err(ConflictReason::Malformed);
        }
        if !pending(placement.first.0, placement.count) {
            return Err(ConflictReason::TaskNotPending);
        }
        let mut tasks = placement.first.0..placement.first.0 + placement.count;
        if !before.adopts && tasks.any(|task| before.keeps_back(placement.job, (group, task))) {
            return Err(ConflictReason::QueueHeld);
        }
        let width = usize::from(spec.requests.get(GPU).is_some_and(|amount| *amount > 0));
        if placement.devices.len() != placement.count as usize * width {
            return Err(ConflictReason::Malformed);
        }
        before.node_stands(placement.node, transaction.seen)?;
        if transaction.guard == Guard::Unchanged && before.moved_since(placement.node, transaction.seen, session) {
            return Err(ConflictReason::NodeChanged);
        }
        let admitted =
            || facts.class(placement.node) == placement.class && before.admits(&job.filtered(spec), placement.node);
        if !before.adopts && !admitted() {
            return Err(ConflictReason::NodeClassChanged);
        }
        self.judge_domain(placement.job, group, placement.node)?;
        if !before.adopts {
            self.judge_near((placement.job, group), placement.node)?;
        }
        for at in 0..placement.count {
            let mask = placement.devices.get(at as usize).copied();
            if let Err(reason) = self.try_place(placement, placement.first.0 + at, mask, at > 0, facts) {
                return Ok((at, Some(reason)));
            }
        }
        Ok((placement.count, None))
    }

    fn judge_domain(&self, job: JobId, group: u16, node: NodeId) -> Result<(), ConflictReason> {
        let found = &self.jobs[&job];
        let spec = &found.spec.groups[usize::from(group)];
        if spec.topology.mode != ohm_model::TopologyMode::Required {
            return Ok(());
        }
        let domain = self.domain(spec, node).ok_or(ConflictReason::TopologyBroken)?;
        let together = |other: usize| {
            other == usize::from(group)
                || (!spec.place_with.is_empty() && found.spec.groups[other].place_with == spec.place_with)
        };
        let mut others = (0..found.spec.groups.len()).filter(|other| together(*other));
        let leaves = others.any(|other| found.domain[other].as_ref().is_some_and(|fixed| *fixed != domain));
        if leaves { Err(ConflictReason::TopologyBroken) } else { Ok(()) }
    }

    /// Places one task, if everything has room for it.
    fn try_place(
        &mut self,
        placement: &Placement,
        task: u32,
        mask: Option<u64>,
        same_row: bool,
        facts: &dyn Facts,
    ) -> Result<(), ConflictReason> {
        let (id, group, node) = (placement.job, placement.group.0, placement.node);
        let job = self.jobs[&id].clone();
        let spec = &job.spec.groups[usize::from(group)];
        let passes = self.goes_before_heads((id, group), placement.first.0);
        self.try_amounts((id, group, task), passes, node, facts)?;
        let taken = |port: &&HostPort| {
            let held = !self.adopts && self.is_port_held((id, group), node, **port);
            held || self
                .occupants(node)
                .any(|run| self.group_of(run).ports.iter().any(|other| ports_meet(*other, **port)))
        };
        // A second task of one row misses the first port, another row the first one that is taken.
        let missed = if same_row { spec.ports.first() } else { spec.ports.iter().find(taken) };
        if let Some(port) = missed {
            return Err(ConflictReason::PortTaken(*port));
        }
        let standing = self.occupants(node).filter(|run| run.job == id && run.group == group).count();
        if spec.max_per_node > 0 && standing >= spec.max_per_node as usize {
            return Err(ConflictReason::LimitReached);
        }
        if !self.adopts {
            self.judge_apart((id, group), node)?;
        }
        let gpu = spec.requests.get(GPU).copied().unwrap_or(0);
        if let Some(mask) = mask.filter(|_| gpu > 0) {
            self.try_devices(node, gpu, mask, facts)?;
        }
        let domain = self.domain(spec, node);
        let incarnation = job.tasks[&(group, task)].attempts + 1;
        let masks = mask.into_iter().collect();
        let placed = self.index;
        self.runs.push(PlainRun {
            job: id,
            group,
            task,
            incarnation,
            node,
            placed,
            placed_ms: self.now_ms,
            stop: None,
            restart: false,
            started_ms: None,
            masks,
        });
        let job = self.jobs.get_mut(&id).expect("a job");
        let found = job.tasks.get_mut(&(group, task)).expect("a task");
        (found.phase, found.incarnation, found.attempts) = (Phase::Live, incarnation, incarnation);
        found.stood = true;
        if domain.is_some() {
            job.domain[usize::from(group)] = domain;
        }
        Ok(())
    }

    /// Whether every amount of one task is free, not held for others, and within the quota.
    fn try_amounts(
        &self,
        (id, group, task): (JobId, u16, u32),
        passes: bool,
        node: NodeId,
        facts: &dyn Facts,
    ) -> Result<(), ConflictReason> {
        let job = &self.jobs[&id];
        let spec = &job.spec.groups[usize::from(group)];
        let mut order: Vec<(String, i64)> = request(spec).into_iter().collect();
        order.sort_by_key(|(name, _)| facts.resource(name));
        for (resource, amount) in &order {
            let free = self.free(node, resource);
            if free < *amount {
                return Err(ConflictReason::NodeFull(facts.resource(resource)));
            }
        }
        for (resource, amount) in order.iter().filter(|_| !self.adopts) {
            let others = self.held_from((id, group), passes, node, resource);
            let kept = amount * self.kept_for_moving(id, group, node, task);
            if self.free(node, resource) - others - kept < *amount {
                return Err(ConflictReason::Held);
            }
        }
        for (resource, amount) in &order {
            let available = self.available(&job.spec.queue, resource).filter(|_| !job.reserved);
            if available.is_some_and(|available| available - self.ceded(resource) < *amount) {
                return Err(ConflictReason::QuotaExceeded);
            }
        }
        Ok(())
    }

    fn try_devices(&self, node: NodeId, request: i64, mask: u64, facts: &dyn Facts) -> Result<(), ConflictReason> {
        let (present, taken) = self.devices(node);
        let (wanted, each) = if request < 1000 { (1, request) } else { (request / 1000, 1000) };
        let named: Vec<u32> = (0..64).filter(|device| mask & (1 << device) != 0).collect();
        if named.len() as i64 != wanted || named.iter().any(|device| *device >= present) {
            return Err(ConflictReason::Malformed);
        }
        let full = |device: &u32| 1000 - taken.get(device).copied().unwrap_or(0) < each;
        if named.iter().any(full) { Err(ConflictReason::NodeFull(facts.resource(GPU))) } else { Ok(()) }
    }

    fn judge_minimum(
        &mut self,
        before: &Plain,
        unplaced: Plain,
        transaction: &Transaction,
        id: JobId,
        (first, end): (usize, usize),
        expected: &mut Expected,
    ) {
        let job = &before.jobs[&id];
        let runs_of = |group: u16| before.runs.iter().filter(move |run| run.job == id && run.group == group);
        let groups = 0..job.spec.groups.len() as u16;
        let is_down = job.whole() && groups.clone().all(|group| runs_of(group).all(|run| run.stop.is_some()));
        let accepted = |group: u16, expected: &Expected| -> u32 {
            let rows = (first..end).filter(|row| transaction.place[*row].group.0 == group);
            rows.map(|row| expected.accepted[row]).sum()
        };
        let tasks_of = |row: usize| {
            let placement = &transaction.place[row];
            let tasks = placement.first.0..placement.first.0 + expected.accepted[row];
            tasks.map(move |task| (placement.group.0, task))
        };
        let placed: BTreeSet<(u16, u32)> = (first..end).flat_map(tasks_of).collect();
        let half = job.half_repaired(&placed);
        let is_repair = job.whole() && !before.adopts && !job.repair.lost.is_disjoint(&placed);
        let is_short = |group: &u16| {
            let driven = if is_repair { before.driven_out(id, *group) } else { 0 };
            let half = job.started[usize::from(*group)] && (half.contains(group) || driven > 0);
            let bound = !job.started[usize::from(*group)] || is_down || transaction.grain == Grain::Minimum;
            let within = |run: &&PlainRun| run.task < job.spec.groups[usize::from(*group)].count;
            let stands = (runs_of(*group).filter(within).count() as u32).saturating_sub(driven);
            let live = if is_down { 0 } else { stands };
            let tried = job.whole() || accepted(*group, expected) > 0;
            (bound || half) && tried && live + accepted(*group, expected) < job.needed(*group)
        };
        let short: Vec<u16> = groups.filter(is_short).collect();
        if short.is_empty() {
            return;
        }
        let fallen = |row: usize| job.whole() || short.contains(&transaction.place[row].group.0);
        // Everything of this job is taken back, then what may stay is put back.
        let placed = std::mem::replace(self, unplaced);
        let mut told = Vec::new();
        let mut rows: Vec<usize> = (first..end).collect();
        if !job.whole() {
            rows.sort_by_key(|row| transaction.place[*row].group);
        }
        for row in rows.into_iter().filter(|row| fallen(*row)) {
            let group = if job.whole() { 0 } else { transaction.place[row].group.0 };
            if std::mem::take(&mut expected.accepted[row]) > 0 && !told.contains(&group) {
                told.push(group);
                expected.conflicts.push((Row::Place(row as u32), ConflictReason::GangShort));
            }
        }
        if !job.whole() {
            let stays = |run: &&PlainRun| run.placed < self.index || run.job != id || !short.contains(&run.group);
            let kept: Vec<PlainRun> = placed.runs.iter().filter(stays).cloned().collect();
            let mut merged = placed.jobs[&id].clone();
            for (&(group, task), state) in &mut merged.tasks {
                if short.contains(&group) {
                    *state = job.tasks[&(group, task)].clone();
                }
            }
            for group in &short {
                merged.domain[usize::from(*group)] = job.domain[usize::from(*group)].clone();
            }
            self.runs = kept;
            self.jobs.insert(id, merged);
        }
    }

    fn try_reserve(&mut self, id: JobId, ceded: Amounts) -> Result<(), ConflictReason> {
        let job = &self.jobs[&id];
        if job.reserved {
            return Ok(());
        }
        let queue = job.spec.queue.clone();
        let mut reserved = self.clone();
        reserved.jobs.get_mut(&id).expect("a job").reserved = true;
        let over = |resource: &&str| {
            let growth = reserved.whole_charge(&queue, resource) - self.whole_charge(&queue, resource);
            self.available(&queue, resource)
                .is_some_and(|available| available - ceded.get(*resource).unwrap_or(&0) < growth)
        };
        // A quota that was cut below its use keeps nobody back who asks for nothing of it.
        let asked = |resource: &&&str| job.spec.groups.iter().any(|group| request(group).contains_key(**resource));
        if ["cpu", "memory", "pods", GPU].iter().filter(asked).any(over) {
            return Err(ConflictReason::QuotaExceeded);
        }
        reserved.jobs.get_mut(&id).expect("a job").version = Index(self.index.0);
        *self = reserved;
        Ok(())
    }

    fn whole_charge(&self, queue: &str, resource: &str) -> i64 {
        self.queues.get(queue).map_or(0, |_| self.charged(queue, resource))
    }
}
