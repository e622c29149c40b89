//! The cell as it would be: what planners look at before they ask for it.

use crate::apply::Applied;
use crate::apply::Tx;
use crate::apply::steps::run_end::free_room;
use crate::cell::Cell;
use crate::rooms::reads::live_slot;
use crate::state::jobs::{Job, TaskState};
use crate::state::runs::NO_RUN;
use ohm_model::{Command, JobId, RunRef};
use ohm_stdx::canary::{self, Canary};

impl Cell {
    /// A copy in which these runs of `job` were lost: their room and their quota are free, and their tasks, and no
    /// others, wait to be placed again. A planner that finds places for them here has found where they may move to.
    pub fn as_if_left(&self, id: JobId, runs: &[RunRef]) -> Cell {
        let mut cell = self.clone();
        let Some(job) = cell.jobs.get_mut(id) else { return cell };
        for group in &mut job.groups {
            (group.pending, group.lost, group.replaced) = Default::default();
        }
        for run in runs.iter().filter(|run| run.task.job == id) {
            let Some(slot) = live_slot(&cell, *run) else { continue };
            let Some(ended) = cell.runs.remove(&mut cell.nodes, slot) else { continue };
            free_room(&mut Tx::new(&mut cell, &mut Applied::default(), &Command::Tick), &ended);
            let Some(job) = cell.jobs.get_mut(id) else { continue };
            let group = &mut job.groups[usize::from(run.task.group.0)];
            let task = &mut group.tasks[run.task.task.0 as usize];
            (task.run, task.state) = (NO_RUN, TaskState::Pending);
            group.live -= 1;
            group.running -= u32::from(ended.started_ms != 0);
            group.pending.insert(run.task.task.0, 1);
            group.lost.insert(run.task.task.0, 1);
        }
        if let Some(job) = cell.jobs.get_mut(id) {
            free_domains(job);
        }
        cell
    }
}

/// A group of which nothing stays, nor of those placed with it, may go to another domain.
fn free_domains(job: &mut Job) {
    let stays = |job: &Job, at: usize| {
        let mut partners = job.partners(at).map(|other| &job.groups[other]);
        partners.any(|group| group.live > group.stopping || !group.moving.is_empty())
    };
    let free: Vec<bool> = (0..job.groups.len()).map(|at| !stays(job, at)).collect();
    for (group, free) in job.groups.iter_mut().zip(free) {
        if free || canary::sings(Canary::MoveAstray) {
            (group.domain, group.widened) = (None, false);
        }
    }
}
