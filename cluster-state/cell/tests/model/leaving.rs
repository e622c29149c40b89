//! Transactions that move tasks away from nodes, as they are drawn.

use crate::state::request;
use crate::world::World;
use ohm_cell::Job;
use ohm_model::{
    ClassKind, Command, Grain, GroupIndex, Index, JobGuard, NodeId, Nomination, Purpose, RunRef, StopCause, TaskIndex,
    Transaction,
};
use std::collections::BTreeMap;
use std::sync::Arc;

impl World {
    pub(crate) fn drain(&mut self) -> Command {
        let mut name = format!("n{}", self.dice.below(5));
        let nodes = self.cell.nodes();
        let draining: Vec<String> = nodes
            .iter()
            .filter(|(_, record)| record.drain.is_some())
            .map(|(_, record)| record.spec.name.clone())
            .collect();
        // Nothing is placed where too many drain.
        if self.dice.chance(50 + 350 * draining.len() as u64) {
            return Command::UndrainNode { name: self.dice.pick(&draining).cloned().unwrap_or(name) };
        }
        let busy: Vec<String> = nodes
            .iter()
            .filter(|(node, _)| nodes.run_count(*node) > 0)
            .map(|(_, record)| record.spec.name.clone())
            .collect();
        if let Some(busy) = self.dice.pick(&busy) {
            name.clone_from(busy);
        }
        let deadline_ms = if self.dice.chance(300) { self.dice.between(1, 20_000) } else { 0 };
        Command::DrainNode { name, deadline_ms, at_once: self.dice.below(3) as u32 }
    }

    /// A transaction that moves what has to leave: most of it, and most often with room for it.
    pub(crate) fn move_away(&mut self, jobs: &[Arc<Job>], transaction: &mut Transaction) {
        let all_or_nothing = self.dice.chance(980);
        transaction.grain = if all_or_nothing { Grain::AllOrNothing } else { transaction.grain };
        for job in jobs {
            let version = if self.dice.chance(980) { job.version } else { Index(job.version.0 - 1) };
            transaction.jobs.push(JobGuard { job: job.id, version, reserved: false });
            let runs: Vec<RunRef> = self.cell.runs_to_leave(job).map(|run| run.run).collect();
            let paced = job.kind == ClassKind::Service && self.dice.chance(800);
            let mut told: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
            for run in runs {
                let told = told.entry(run.task.group.0).or_default();
                if self.dice.chance(if paced && !told.is_empty() { 100 } else { 950 }) {
                    told.push(run.task.task.0);
                    transaction.evict.push((run, StopCause::Drained));
                }
            }
            for (group, tasks) in told {
                self.rooms(job, group, tasks, transaction);
            }
        }
        if self.dice.chance(60) {
            let job = jobs[0].id;
            let stray = self.cell.runs().iter().map(|(_, run)| run.run).collect::<Vec<_>>();
            transaction.evict.extend(self.dice.pick(&stray).map(|run| (*run, StopCause::Drained)));
            if self.dice.chance(300) && self.plain.is_active(job) {
                transaction.reserve.push(job);
            }
        }
    }

    fn rooms(&mut self, job: &Job, group: u16, mut tasks: Vec<u32>, transaction: &mut Transaction) {
        tasks.sort_unstable();
        if self.dice.chance(60) {
            tasks.push(self.dice.below(12) as u32);
        } else if self.dice.chance(40) {
            tasks.pop();
        }
        while !tasks.is_empty() {
            let node = self.node_for_room(job, group, transaction);
            let first = tasks[0];
            let run = tasks.iter().zip(first..).take_while(|(task, next)| *task == next).count();
            let taken = self.dice.between(1, run as u64) as u32;
            let taken = if self.dice.chance(500) { taken.min(1) } else { taken };
            let until = Purpose::Preemptor { expires_ms: self.now_ms + 1 };
            let purpose = if self.dice.chance(990) { Purpose::Move } else { until };
            transaction.nominate.push(Nomination {
                job: job.id,
                group: GroupIndex(group),
                node,
                first: TaskIndex(first),
                count: taken,
                purpose,
            });
            tasks.drain(..taken as usize);
        }
    }

    /// Most often in the domain that the group stands in.
    fn node_for_room(&mut self, job: &Job, group: u16, transaction: &Transaction) -> NodeId {
        let spec = &job.spec.groups[usize::from(group)];
        let domain = self.plain.jobs[&job.id].domain[usize::from(group)].clone();
        let inside = |node: &NodeId| domain.is_none() || self.plain.domain(spec, *node) == domain;
        let likely: Vec<NodeId> = self.plain.nodes.keys().copied().collect();
        let named = |node: &NodeId| transaction.nominate.iter().filter(|row| row.node == *node).count();
        let free = |node: &NodeId| {
            let fits = |(name, amount): (&String, &i64)| self.plain.free(*node, name) >= *amount;
            named(node) == 0
                && self.plain.admits(spec, *node)
                && self.plain.node_stands(*node, Index(u64::MAX)).is_ok()
                && request(spec).iter().all(fits)
        };
        let likely: Vec<NodeId> = likely.into_iter().filter(|node| inside(node) && free(node)).collect();
        if likely.is_empty() || self.dice.chance(80) {
            return self.node_for(job, group, transaction);
        }
        self.dice.pick(&likely).copied().unwrap_or_default()
    }
}
