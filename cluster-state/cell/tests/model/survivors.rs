//! Tasks that start again in place because others of their job were placed anew.

use crate::life::NOBODY;
use crate::state::{Plain, PlainRun, State};
use ohm_model::{Exit, JobId, NodeHealth, Survivors};

impl Plain {
    /// To be asked after a commit that placed lost tasks of the job again.
    pub(crate) fn restart_survivors(&mut self, id: JobId) {
        let job = &self.jobs[&id];
        if job.spec.repair.survivors != Survivors::RestartAll || !job.repair.lost.is_empty() {
            return;
        }
        let index = self.index;
        for at in 0..self.runs.len() {
            let run = &mut self.runs[at];
            let stayed = run.job == id && run.placed < index;
            if stayed && run.stop.is_none() && !run.restart {
                run.restart = true;
                let node = run.node;
                self.touch(node, NOBODY);
            }
        }
    }

    /// Whether the end of `run` was the start of the next attempt.
    pub(crate) fn starts_again(&mut self, run: &PlainRun, exit: Exit) -> bool {
        let with_node = matches!(exit, Exit::NodeLost | Exit::Vanished | Exit::LeaseExpired | Exit::NodeShutdown);
        let is_wanted = run.restart && run.stop.is_none() && self.jobs[&run.job].state == State::Active;
        if with_node || !is_wanted || self.nodes[&run.node].health == NodeHealth::Lost {
            return false;
        }
        let (index, node, now_ms) = (self.index, run.node, self.now_ms);
        let job = self.jobs.get_mut(&run.job).expect("a job of a run");
        let task = job.tasks.get_mut(&(run.group, run.task)).expect("a task of a run");
        (task.incarnation, task.attempts, task.refusals) = (task.attempts + 1, task.attempts + 1, 0);
        let next = task.incarnation;
        let same = |other: &&mut PlainRun| (other.job, other.group, other.task) == (run.job, run.group, run.task);
        let found = self.runs.iter_mut().find(same).expect("the run itself");
        (found.incarnation, found.placed, found.started_ms, found.restart) = (next, index, None, false);
        found.placed_ms = now_ms;
        // It was told to, however it ended.
        self.ended_ms.insert(run.job, now_ms);
        self.touch(node, NOBODY);
        true
    }
}
