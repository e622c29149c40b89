//! Nodes that have to be left although they answer, because they are being drained or because of a condition with the
//! action `drain`, and what it means for the jobs that stand there.
//!
//! A task leaves a node like this: room for it is reserved elsewhere and it is told to stop in one transaction; when it
//! has ended it is lost by its job and placed again like anything else that was lost, where its room is. Nothing stops
//! before there is a place for it, unless the drain has a deadline and that has passed. Conditions have none; what
//! was not told to stop when its condition ends stays.
//!
//! Invariants: a job has a node among its unhealthy ones, with the cause found by [`Cell::leave_cause`], exactly while
//! a run of it that is not to stop stands there; a group has as many tasks on the move as there is room held for them.

use crate::cell::Cell;
use crate::state::conditions::StandingCondition;
use crate::state::jobs::{Group, Job};
use crate::state::nodes::{DRAINING, NodeRecord};
use crate::state::repairs::UnhealthyCause;
use crate::state::runs::{NO_RUN, Run};
use ohm_model::{ClassKind, GroupIndex, JobId, NodeId, Purpose, RunRef, ShapeId, Taint};
use ohm_stdx::canary::{self, Canary};

use std::sync::Arc;

impl Group {
    /// How many of its tasks don't run because of their nodes: those on the move, those that were lost, and those of
    /// both that are placed again and were not started yet.
    pub fn on_the_move(&self) -> u32 {
        let known = |(first, count)| self.lost.overlap(first, count) + self.replaced.overlap(first, count);
        let twice: u32 = self.moving.iter().map(known).sum();
        self.moving.len() + self.lost.len() + self.replaced.len() - twice
    }
}

impl Cell {
    /// Why tasks of `shape` have to leave `node`, if they have to. Whatever drives tasks away from a
    /// node that still answers is found here, and `settle_leaving` is called when it may have changed.
    pub fn leave_cause(&self, shape: ShapeId, node: NodeId) -> Option<UnhealthyCause> {
        if self.nodes.flags(node) & DRAINING != 0 {
            return Some(UnhealthyCause::Draining);
        }
        let mut driving = self.nodes.get(node)?.driving_conditions().peekable();
        driving.peek()?;
        let tolerations = &self.shapes.get(shape)?.tolerations;
        let blind = canary::sings(Canary::MoveTolerated);
        let tolerates = |taint: &Taint| !blind && tolerations.iter().any(|toleration| toleration.covers(taint));
        let drives = |condition: &&StandingCondition| condition.taint().is_some_and(|taint| !tolerates(&taint));
        driving.find(drives).map(|condition| UnhealthyCause::Condition(condition.kind))
    }

    /// Whether [`Cell::leave_cause`] may find anything on `node`: what is asked before the runs there are looked at.
    pub(crate) fn may_be_left(&self, node: NodeId) -> bool {
        let drives = |record: &Arc<NodeRecord>| record.driving_conditions().next().is_some();
        self.nodes.flags(node) & DRAINING != 0 || self.nodes.get(node).is_some_and(drives)
    }

    /// Why `job` has to leave `node`: the cause of the first group that has a run there which is not to stop.
    pub(crate) fn leave_cause_of(&self, job: &Job, node: NodeId) -> Option<UnhealthyCause> {
        if !self.may_be_left(node) {
            return None;
        }
        let on_node = self.runs.on_node(&self.nodes, node).map(|(_, run)| run);
        let staying = on_node.filter(|run| run.run.task.job == job.id && run.stop.is_none());
        let mut shapes: Vec<(GroupIndex, ShapeId)> = staying.map(|run| (run.run.task.group, run.shape)).collect();
        shapes.sort_unstable();
        shapes.dedup();
        shapes.into_iter().find_map(|(_, shape)| self.leave_cause(shape, node))
    }

    /// The runs of `job` that have to leave their nodes and are not told to yet, by group and task.
    pub fn runs_to_leave<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a Run> + 'a {
        let leaves_any = job.repairs.unhealthy.iter().any(|entry| entry.cause != UnhealthyCause::Lost);
        let groups = job.groups.iter().filter(move |group| leaves_any && group.live > 0);
        let runs = groups.flat_map(|group| group.tasks.iter().filter(|task| task.run != NO_RUN));
        let leaves = |run: &&Run| run.stop.is_none() && self.leave_cause(run.shape, run.node).is_some();
        runs.filter_map(|task| self.runs.get(task.run)).filter(leaves)
    }

    /// Those of them that may be told to now, as far as the pace of a service allows.
    pub fn runs_to_move(&self, job: &Job) -> Vec<RunRef> {
        let mut under_way: Vec<u32> = Vec::new();
        let mut chosen = Vec::new();
        for run in self.runs_to_leave(job) {
            if under_way.is_empty() {
                under_way = job.groups.iter().map(Group::on_the_move).collect();
            }
            let at = usize::from(run.run.task.group.0);
            let new = u32::from(!job.groups[at].replaced.contains(run.run.task.task.0, 1));
            if under_way[at].saturating_add(new) <= self.move_limit(job, run.node) {
                under_way[at] += new;
                chosen.push(run.run);
            }
        }
        chosen
    }

    /// How many tasks of a group of `job` may be on the move at the same time for one of them to leave `node`. Nothing
    /// limits a gang, which idles as long as one of its tasks is missing, nor an array, whose tasks don't need each
    /// other.
    pub fn move_limit(&self, job: &Job, node: NodeId) -> u32 {
        match job.kind {
            ClassKind::Service => self.nodes.get(node).and_then(|record| record.drain).map_or(1, |drain| drain.at_once),
            ClassKind::Batch | ClassKind::Tas => u32::MAX,
        }
    }

    /// For how many tasks of the group that are on the move there is room held on `node`.
    pub fn room_for_moving(&self, job: JobId, group: GroupIndex, node: NodeId) -> u32 {
        let on_node = self.nominations.on_node(node).iter();
        on_node.filter(|held| held.moves(job, group.0)).map(|held| held.count).sum()
    }

    /// Whether `port` of `node` is kept for tasks on the move that are not of this group, or as a spare of another job
    /// that this one may not override.
    pub fn is_port_held(&self, job: JobId, group: GroupIndex, node: NodeId, port: u16) -> bool {
        let on_node = self.nominations.on_node(node).iter();
        let priority = self.jobs.get(job).map_or(i32::MAX, |job| job.spec.priority);
        let mut others = on_node.filter(|held| match held.purpose {
            Purpose::Preemptor { .. } => false,
            _ => (held.job, held.group) != (job, group.0) && held.binds(job, priority),
        });
        others.any(|held| self.held_ports(held).contains(&port))
    }

    fn held_ports(&self, held: &crate::rooms::nominations::Held) -> &[u16] {
        let shape = self.jobs.get(held.job).and_then(|job| self.shape_of(job, usize::from(held.group)));
        shape.map_or(&[], |shape| &shape.ports)
    }

    /// Where room is held for tasks of the group that are on the move, and for how many.
    pub fn rooms_for_moving(&self, job: JobId, group: GroupIndex) -> impl Iterator<Item = (NodeId, u32)> + '_ {
        let rooms = self.nominations.of_job(job).filter(move |(_, held)| held.moves(job, group.0));
        rooms.map(|(node, held)| (node, held.count))
    }
}
