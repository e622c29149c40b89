//! Draining nodes and moving tasks away from them, in the plain model.

use crate::budgets::Gone;
use crate::judge::{Expected, Facts};
use crate::life::NOBODY;
use crate::state::{Alarm, GPU, Phase, Plain, PlainHold, State, ports_meet, request};
use ohm_model::transaction::Row;
use ohm_model::{
    ConditionKind, ConflictReason, Grain, HostPort, JobId, NodeCondition, NodeId, Nomination, Placement, Purpose,
    RunRef, StopCause, TaintEffect, TopologyMode, Transaction,
};
use std::collections::{BTreeMap, BTreeSet};

impl Plain {
    pub(crate) fn drain(&mut self, id: NodeId, deadline_ms: u64, at_once: u32) {
        let deadline_ms = (deadline_ms > 0).then_some(self.now_ms + deadline_ms);
        let drain = Some((deadline_ms, at_once.max(1)));
        let former = std::mem::replace(&mut self.nodes.get_mut(&id).expect("a node").drain, drain);
        if former == drain {
            return;
        }
        self.touch(id, NOBODY);
        if let Some(due_ms) = deadline_ms {
            self.alarm(due_ms, Alarm::Drain(id));
        }
        if former.is_none() {
            self.lose_rooms_to_leave(id);
        }
    }

    pub(crate) fn undrain(&mut self, id: NodeId) {
        if self.nodes.get_mut(&id).expect("a node").drain.take().is_some() {
            self.touch(id, NOBODY);
        }
    }

    pub(crate) fn end_drain(&mut self, id: NodeId) {
        let drain = self.nodes.get(&id).and_then(|node| node.drain);
        if drain.and_then(|drain| drain.0).is_some_and(|deadline_ms| deadline_ms <= self.now_ms) {
            self.stop_where(id, StopCause::Drained, |_, _| true);
        }
    }

    /// Whether the group has to leave the node, and which condition drives it away if it is not a drain.
    pub(crate) fn driven_from(&self, job: JobId, group: u16, node: NodeId) -> Option<Option<ConditionKind>> {
        let found = self.nodes.get(&node)?;
        if found.drain.is_some() {
            return Some(None);
        }
        let job = &self.jobs[&job];
        let spec = job.filtered(job.spec.groups.get(usize::from(group))?);
        let drives = |condition: &&NodeCondition| {
            let taint = condition.taint().filter(|taint| taint.effect == TaintEffect::NoExecute);
            taint.is_some_and(|taint| !spec.tolerations.iter().any(|one| one.covers(&taint)))
        };
        found.conditions.values().find(drives).map(|condition| Some(condition.kind))
    }

    /// What each job has to leave, from nothing but the runs; called after each command.
    pub(crate) fn settle_leaving(&mut self) {
        let mut leaving: BTreeMap<JobId, BTreeMap<NodeId, Option<ConditionKind>>> = BTreeMap::new();
        let mut staying: Vec<_> = self.runs.iter().filter(|run| run.stop.is_none()).collect();
        staying.sort_by_key(|run| run.group);
        for run in staying {
            if let Some(cause) = self.driven_from(run.job, run.group, run.node) {
                leaving.entry(run.job).or_default().entry(run.node).or_insert(cause);
            }
        }
        for (id, job) in &mut self.jobs {
            let leaving = leaving.remove(id).unwrap_or_default();
            if leaving != job.leaving {
                (job.leaving, job.version) = (leaving, self.index);
            }
        }
    }

    fn room_on(&self, (job, group): (JobId, u16), node: NodeId) -> u32 {
        let of_group =
            |hold: &&PlainHold| (hold.job, hold.group, hold.node, hold.is_move()) == (job, group, node, true);
        self.holds.iter().filter(of_group).map(|hold| hold.count).sum()
    }

    pub(crate) fn is_port_held(&self, group: (JobId, u16), node: NodeId, port: HostPort) -> bool {
        let mut here = self.holds.iter().filter(|hold| hold.node == node && !hold.is_head());
        here.any(|hold| {
            let (holder, own) = (&self.jobs[&hold.job].spec, &self.jobs[&group.0].spec);
            let binds = match hold.is_spare() || hold.is_preemptor() {
                _ if hold.is_earmark() => hold.job != group.0 && !self.is_repaired_before(group, hold),
                true => hold.job != group.0 && holder.priority >= own.priority,
                false => (hold.job, hold.group) != group,
            };
            binds && holder.groups[usize::from(hold.group)].ports.iter().any(|other| ports_meet(*other, port))
        })
    }

    /// For how many other tasks of its own group, which are on the move, room on the node is kept from this task.
    pub(crate) fn kept_for_moving(&self, id: JobId, group: u16, node: NodeId, task: u32) -> i64 {
        if !self.jobs[&id].started[usize::from(group)] {
            return 0;
        }
        let here = self.runs.iter().filter(|run| (run.job, run.group, run.node) == (id, group, node));
        let new = here.filter(|run| run.placed == self.index).map(|run| run.task);
        let come: BTreeSet<u32> = new.chain([task]).collect();
        let of_group = |hold: &&PlainHold| (hold.job, hold.group, hold.node, hold.is_move()) == (id, group, node, true);
        let rooms = self.holds.iter().filter(of_group).flat_map(|hold| &hold.tasks);
        rooms.filter(|room| !come.contains(room)).count() as i64
    }

    /// Tasks of an accepted row that were on the move run again.
    pub(crate) fn note_moved(&mut self, placement: &Placement, count: u32) {
        let job = self.jobs.get_mut(&placement.job).expect("a job");
        let tasks = placement.first.0..placement.first.0 + count;
        let moved: Vec<u32> = tasks.filter(|task| job.moving.remove(&(placement.group.0, *task))).collect();
        self.give_rooms((placement.job, placement.group.0), &moved, Some(placement.node));
    }

    /// Each task has a room of its own.
    fn give_rooms(&mut self, (job, group): (JobId, u16), tasks: &[u32], at: Option<NodeId>) {
        let mut touched = BTreeSet::new();
        for hold in self.holds.iter_mut().filter(|hold| (hold.job, hold.group, hold.is_move()) == (job, group, true)) {
            let before = hold.tasks.len();
            hold.tasks.retain(|task| !tasks.contains(task));
            hold.count = hold.tasks.len() as u32;
            if hold.tasks.len() < before && Some(hold.node) != at {
                touched.insert(hold.node);
            }
        }
        self.holds.retain(|hold| hold.count > 0);
        touched.into_iter().for_each(|node| self.touch(node, NOBODY));
    }

    pub(crate) fn lose_rooms(&mut self, node: NodeId) {
        self.lose_rooms_where(|_, hold| hold.node == node && !hold.is_spare() && !hold.is_earmark());
    }

    /// Those for moves of groups that would have to leave the node again.
    pub(crate) fn lose_rooms_to_leave(&mut self, node: NodeId) {
        self.lose_rooms_where(|plain, hold| {
            let is_move = hold.node == node && hold.is_move();
            is_move && plain.driven_from(hold.job, hold.group, node).is_some()
        });
    }

    fn lose_rooms_where(&mut self, is_lost: impl Fn(&Plain, &PlainHold) -> bool) {
        let heads = self.holds.iter().filter(|hold| hold.is_head() && is_lost(self, hold));
        let heads: BTreeSet<JobId> = heads.map(|hold| hold.job).collect();
        heads.into_iter().for_each(|head| self.end_head(head));
        let holds = std::mem::take(&mut self.holds);
        let (gone, kept): (Vec<PlainHold>, _) = holds.into_iter().partition(|hold| is_lost(self, hold));
        self.holds = kept;
        for hold in gone.into_iter().filter(PlainHold::is_move) {
            let job = self.jobs.get_mut(&hold.job).expect("a job");
            hold.tasks.iter().for_each(|task| assert!(job.moving.remove(&(hold.group, *task))));
            self.start_waiting(hold.job);
        }
    }

    /// After an update: rooms for nothing but tasks on the move.
    pub(crate) fn settle_rooms(&mut self, id: JobId) {
        let moving = self.jobs[&id].moving.clone();
        let of_job: Vec<PlainHold> =
            self.holds.iter().filter(|hold| hold.job == id && hold.is_move()).cloned().collect();
        for hold in of_job {
            let unused = hold.tasks.iter().copied().filter(|task| !moving.contains(&(hold.group, *task)));
            self.give_rooms((id, hold.group), &unused.collect::<Vec<_>>(), None);
        }
    }

    pub(crate) fn end_room(&mut self, id: JobId, place: (u16, u32), incarnation: u32) {
        let Some(job) = self.jobs.get(&id).filter(|job| job.moving.contains(&place)) else { return };
        let task = &job.tasks[&place];
        if task.phase == Phase::Live || task.incarnation != incarnation {
            return;
        }
        if job.moving.iter().any(|place| job.tasks[place].phase == Phase::Live) {
            return self.alarm(self.now_ms + 60_000, Alarm::Room(id, place.0, place.1, incarnation));
        }
        self.jobs.get_mut(&id).expect("a job").moving.remove(&place);
        self.give_rooms((id, place.0), &[place.1], None);
        self.start_waiting(id);
    }

    /// Whether it moves tasks and does anything else.
    pub(crate) fn is_impure_move(&self, transaction: &Transaction) -> bool {
        let causes: BTreeSet<bool> = transaction.evict.iter().map(|(_, cause)| *cause == StopCause::Drained).collect();
        let rooms: BTreeSet<bool> = transaction.nominate.iter().map(Nomination::is_move).collect();
        let moves = causes.contains(&true) || rooms.contains(&true);
        let more = causes.contains(&false) || rooms.contains(&false);
        let others = transaction.place.len() + transaction.reserve.len() + transaction.claim.len();
        moves && (more || others > 0 || transaction.grain != Grain::AllOrNothing)
    }

    pub(crate) fn judge_move(&self, transaction: &Transaction, facts: &dyn Facts, expected: &mut Expected) {
        let (mut leaving, mut gone): (Vec<(JobId, u16, u32)>, _) = (Vec::new(), Gone::new());
        for (row, (run, _)) in transaction.evict.iter().enumerate() {
            let judged = self.judge_departure(transaction, *run, &mut leaving);
            if let Err(reason) = judged.and_then(|()| self.judge_budget(*run, &mut gone)) {
                expected.conflicts.push((Row::Evict(row as u32), reason));
            }
        }
        let (mut named, mut domains) = (Vec::new(), BTreeMap::new());
        for (row, room) in transaction.nominate.iter().enumerate() {
            match self.judge_room(transaction, room, (&leaving, &named), &mut domains, facts) {
                Ok(()) => named.push(*room),
                Err(reason) => expected.conflicts.push((Row::Nominate(row as u32), reason)),
            }
        }
    }

    fn judge_departure(
        &self,
        transaction: &Transaction,
        run: RunRef,
        leaving: &mut Vec<(JobId, u16, u32)>,
    ) -> Result<(), ConflictReason> {
        let (id, group, index) = (run.task.job, run.task.group.0, run.task.task.0);
        self.job_of(transaction, id)?;
        let job = &self.jobs[&id];
        let Some(task) = job.tasks.get(&(group, index)) else {
            return if run.incarnation.0 <= job.floor { Ok(()) } else { Err(ConflictReason::Malformed) };
        };
        if run.incarnation.0 > task.incarnation {
            return Err(ConflictReason::Malformed);
        }
        if task.phase != Phase::Live {
            return Ok(());
        }
        if run.incarnation.0 < task.incarnation {
            return Err(ConflictReason::TaskNotPending);
        }
        let live = self.runs.iter().find(|run| (run.job, run.group, run.task) == (id, group, index)).expect("a run");
        if live.stop.is_some() {
            return Ok(());
        }
        if self.driven_from(id, group, live.node).is_none() {
            return Err(ConflictReason::Malformed);
        }
        let at_once = self.nodes[&live.node].drain.map_or(1, |(_, at_once)| at_once);
        if !leaving.contains(&(id, group, index)) {
            leaving.push((id, group, index));
        }
        let names = |row: &Nomination| {
            (row.job, row.group.0) == (id, group) && (row.first.0..row.first.0 + row.count).contains(&index)
        };
        if !transaction.nominate.iter().any(names) {
            return Err(ConflictReason::NotReserved);
        }
        let repair = &job.repair;
        let told: BTreeSet<(u16, u32)> =
            leaving.iter().filter(|(job, ..)| *job == id).map(|(_, group, task)| (*group, *task)).collect();
        let under_way: BTreeSet<_> =
            job.moving.iter().chain(&repair.lost).chain(&repair.replaced).chain(&told).collect();
        let under_way = under_way.into_iter().filter(|place| place.0 == group).count();
        let paced = job.endless && under_way > at_once as usize;
        if paced { Err(ConflictReason::LimitReached) } else { Ok(()) }
    }

    fn judge_room(
        &self,
        transaction: &Transaction,
        row: &Nomination,
        (leaving, named): (&[(JobId, u16, u32)], &[Nomination]),
        domains: &mut BTreeMap<(JobId, u16), Vec<String>>,
        facts: &dyn Facts,
    ) -> Result<(), ConflictReason> {
        let (id, group, node) = (row.job, row.group.0, row.node);
        self.job_of(transaction, id)?;
        let job = &self.jobs[&id];
        let spec = job.spec.groups.get(usize::from(group)).ok_or(ConflictReason::Malformed)?;
        if !(1..=spec.count).contains(&row.count) {
            return Err(ConflictReason::Malformed);
        }
        let told = |task: &u32| {
            transaction
                .evict
                .iter()
                .any(|(run, _)| (run.task.job, run.task.group.0, run.task.task.0) == (id, group, *task))
        };
        let tasks = row.first.0..row.first.0 + row.count;
        let same = named.iter().filter(|other| (other.job, other.group.0) == (id, group));
        let twice = |task: &u32| same.clone().any(|other| (other.first.0..other.first.0 + other.count).contains(task));
        if !tasks.clone().all(|task| told(&task)) || tasks.clone().any(|task| twice(&task)) {
            return Err(ConflictReason::Malformed);
        }
        self.node_stands(node, transaction.seen)?;
        if self.driven_from(id, group, node).is_some() {
            return Err(ConflictReason::NodeNotReady);
        }
        if !self.admits(&job.filtered(spec), node) {
            return Err(ConflictReason::NodeClassChanged);
        }
        let mut chosen = None;
        if spec.topology.mode == TopologyMode::Required {
            let domain = self.domain(spec, node).ok_or(ConflictReason::TopologyBroken)?;
            let together = |other: &u16| {
                let label = &job.spec.groups[usize::from(*other)].place_with;
                *other == group || (!spec.place_with.is_empty() && *label == spec.place_with)
            };
            let partners: Vec<u16> = (0..job.spec.groups.len() as u16).filter(together).collect();
            let leaves = |place: (u16, u32)| leaving.contains(&(id, place.0, place.1));
            let stays = self.runs.iter().any(|run| {
                run.job == id && partners.contains(&run.group) && run.stop.is_none() && !leaves((run.group, run.task))
            });
            let stays = stays || job.moving.iter().any(|place| partners.contains(&place.0));
            let fixed = match stays {
                true => partners.iter().find_map(|at| job.domain[usize::from(*at)].clone()),
                false => Some(domains.get(&(id, partners[0])).unwrap_or(&domain).clone()),
            };
            if fixed.as_ref() != Some(&domain) {
                return Err(ConflictReason::TopologyBroken);
            }
            chosen = (!stays).then_some(((id, partners[0]), domain));
        }
        (1..=row.count).try_for_each(|count| self.judge_room_fit(&Nomination { count, ..*row }, named, facts))?;
        // Only a row that is accepted binds the others to its domain.
        domains.extend(chosen);
        Ok(())
    }

    fn judge_room_fit(&self, row: &Nomination, named: &[Nomination], facts: &dyn Facts) -> Result<(), ConflictReason> {
        let (id, group, node) = (row.job, row.group.0, row.node);
        let spec = &self.jobs[&id].spec.groups[usize::from(group)];
        let spec_of = |row: &Nomination| &self.jobs[&row.job].spec.groups[usize::from(row.group.0)];
        let here = || named.iter().filter(|other| other.node == node);
        let own = self.room_on((id, group), node);
        let mut order: Vec<(String, i64)> = request(spec).into_iter().collect();
        order.sort_by_key(|(name, _)| facts.resource(name));
        for (resource, amount) in &order {
            if self.free(node, resource) < amount * i64::from(row.count) {
                return Err(ConflictReason::NodeFull(facts.resource(resource)));
            }
        }
        for (resource, amount) in &order {
            let of_row =
                |row: &Nomination| request(spec_of(row)).get(resource).copied().unwrap_or(0) * i64::from(row.count);
            let named = here().map(of_row).sum::<i64>();
            let owed = self.owed_to_later((id, group), node).map(|hold| self.asked_by(hold, resource)).sum::<i64>();
            let held = self.held_from((id, group), true, node, resource) + amount * i64::from(own) + named + owed;
            if self.free(node, resource) - held < amount * i64::from(row.count) {
                return Err(ConflictReason::Held);
            }
        }
        let taken = |port: &&HostPort| {
            let by_run =
                self.occupants(node).any(|run| self.group_of(run).ports.iter().any(|other| ports_meet(*other, **port)));
            let owed = |hold: &PlainHold| {
                self.jobs[&hold.job].spec.groups[usize::from(hold.group)]
                    .ports
                    .iter()
                    .any(|other| ports_meet(*other, **port))
            };
            let by_hold = own > 0
                || self.is_port_held((id, group), node, **port)
                || self.owed_to_later((id, group), node).any(owed);
            by_run || by_hold || here().any(|row| spec_of(row).ports.iter().any(|other| ports_meet(*other, **port)))
        };
        let missed = spec.ports.iter().find(taken).or(spec.ports.first().filter(|_| row.count > 1));
        if let Some(port) = missed {
            return Err(ConflictReason::PortTaken(*port));
        }
        let same = here().filter(|other| (other.job, other.group.0) == (id, group));
        let coming = own + same.map(|row| row.count).sum::<u32>() + row.count;
        let standing = self.occupants(node).filter(|run| (run.job, run.group) == (id, group)).count() as u32;
        if spec.max_per_node > 0 && standing + coming > spec.max_per_node {
            return Err(ConflictReason::LimitReached);
        }
        let gpu = spec.requests.get(GPU).copied().unwrap_or(0);
        let (present, taken) = self.devices(node);
        if gpu > 0 && present > 0 {
            let free = (0..present).map(|device| 1000 - taken.get(&device).copied().unwrap_or(0));
            let fit: i64 = match gpu < 1000 {
                true => free.map(|milli| milli / gpu).sum(),
                false => free.filter(|milli| *milli == 1000).count() as i64 / (gpu / 1000),
            };
            if fit < i64::from(coming) {
                return Err(ConflictReason::NodeFull(facts.resource(GPU)));
            }
        }
        Ok(())
    }

    /// Does what was granted: the runs stop, and there is room for as many as really do.
    pub(crate) fn move_away(&mut self, transaction: &Transaction) {
        let mut left: BTreeSet<(JobId, u16, u32)> = BTreeSet::new();
        for (run, cause) in &transaction.evict {
            let (id, group, task) = (run.task.job, run.task.group.0, run.task.task.0);
            let named = |one: &&mut crate::state::PlainRun| {
                (one.job, one.group, one.task, one.incarnation) == (id, group, task, run.incarnation.0)
            };
            let Some(live) = self.runs.iter_mut().find(named).filter(|live| live.stop.is_none()) else { continue };
            live.stop = Some(*cause);
            let node = live.node;
            self.touch(node, NOBODY);
            left.insert((id, group, task));
            self.jobs.get_mut(&id).expect("a job").moving.insert((group, task));
        }
        for row in &transaction.nominate {
            let (job, group, node, since) = (row.job, row.group.0, row.node, self.index);
            let tasks: BTreeSet<u32> =
                (row.first.0..row.first.0 + row.count).filter(|task| left.contains(&(job, group, *task))).collect();
            if tasks.is_empty() {
                continue;
            }
            let count = tasks.len() as u32;
            let same =
                |hold: &&mut PlainHold| (hold.job, hold.group, hold.node, hold.is_move()) == (job, group, node, true);
            self.use_spares((job, group), node, count);
            match self.holds.iter_mut().find(same) {
                Some(hold) => {
                    hold.tasks.extend(tasks);
                    hold.count = hold.tasks.len() as u32;
                }
                None => {
                    self.holds.push(PlainHold { job, group, node, count, tasks, purpose: Purpose::Move, since });
                }
            }
            self.touch(node, NOBODY);
        }
    }

    pub(crate) fn is_active(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|job| job.state == State::Active)
    }
}
