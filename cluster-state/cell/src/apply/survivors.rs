//! Jobs whose tasks start again together when a repair has placed some of them anew: those that stayed end and start
//! again in place. Their room is never given away, nothing is charged, and whatever stops them for good goes before.

use super::Applied;
use crate::cell::Cell;
use crate::state::jobs::JobState;
use crate::state::repairs::RepairState;
use crate::state::runs::{NO_RUN, Run};
use ohm_model::{EventKind, Exit, Incarnation, JobId, NodeHealth, SessionId, StopCause, Survivors};
use ohm_stdx::canary::{self, Canary};

impl Cell {
    /// Everything that was lost is placed again: by its policy, what stayed is to start again.
    pub(super) fn restart_survivors(&mut self, id: JobId, applied: &mut Applied) {
        let Some(job) = self.jobs.get(id).filter(|_| !canary::sings(Canary::RestartNobody)) else { return };
        if job.spec.repair.survivors != Survivors::RestartAll || job.repair_state() == RepairState::Waiting {
            return;
        }
        let name = job.spec.name.clone();
        let slots =
            job.groups.iter().flat_map(|group| group.tasks.iter()).map(|task| task.run).filter(|run| *run != NO_RUN);
        let slots: Vec<u32> = slots.collect();
        let placed = self.applied;
        let mut tasks = 0;
        for slot in slots {
            // What this very entry has placed knows the others' places.
            let stayed = |run: &&mut Run| run.stop.is_none() && !run.restart && run.placed < placed;
            let Some(run) = self.runs.slab.get_mut(slot).filter(stayed) else { continue };
            run.restart = true;
            tasks += 1;
            let node = run.node;
            self.nodes.touch(node, self.applied, SessionId(0));
            applied.nodes.push(node);
        }
        if tasks > 0 {
            self.tell(applied, EventKind::SurvivorsRestart { job: id, name, tasks });
        }
    }

    /// The run in `slot` ended; whether it started again where it was. What ended with its node, or is to stop, does
    /// not.
    pub(super) fn restart_in_place(&mut self, slot: u32, exit: Exit, message: &str, applied: &mut Applied) -> bool {
        let by_itself = exit.is_charged() || exit == Exit::NeverStarted;
        let Some(run) = self.runs.get(slot).filter(|run| run.restart && run.stop.is_none() && by_itself) else {
            return false;
        };
        let (id, group, index, node) = (run.run.task.job, run.run.task.group.0, run.run.task.task.0, run.node);
        let active = self.jobs.get(id).is_some_and(|job| job.state == JobState::Active);
        let stands = self.nodes.get(node).is_some_and(|record| record.health != NodeHealth::Lost);
        if !active || !stands {
            return false;
        }
        let ended = Run { stop: Some(StopCause::Restarted), ..run.clone() };
        self.tell_ended(&ended, exit, applied);
        let past = self.past_run(&ended, exit, message);
        let (placed, placed_ms) = (self.applied, self.now_ms);
        let Some(job) = self.jobs.get_mut(id) else { return false };
        job.remember(past);
        let found = &mut job.groups[usize::from(group)];
        found.running -= u32::from(ended.started_ms != 0);
        let task = &mut found.tasks[index as usize];
        task.attempts = Incarnation(task.attempts.0 + 1);
        task.incarnation = task.attempts;
        (task.exit, task.refusals) = (Some(exit), 0);
        task.failures += u32::from(canary::sings(Canary::ChargeRestarts));
        let incarnation = task.incarnation;
        if let Some(run) = self.runs.slab.get_mut(slot) {
            run.run.incarnation = incarnation;
            (run.placed, run.placed_ms, run.started_ms, run.pid, run.restart) = (placed, placed_ms, 0, 0, false);
        }
        self.nodes.touch(node, self.applied, SessionId(0));
        applied.nodes.push(node);
        applied.jobs.push(id);
        self.tell(applied, EventKind::Placed { job: id, group, first: index, count: 1, node });
        true
    }
}
