//! Jobs whose tasks start again together when a repair has placed some of them anew: those that stayed end and start
//! again in place. Their room is never given away, nothing is charged, and whatever stops them for good goes before.

use crate::apply::Tx;
use crate::state::repairs::RepairState;
use crate::state::runs::{NO_RUN, Run};
use ohm_model::{EventKind, JobId, Survivors};

/// Everything that was lost is placed again: by its policy, what stayed is to start again.
pub(crate) fn restart_survivors(tx: &mut Tx<'_>, id: JobId) {
    let job = tx.job(id);
    if job.spec.repair.survivors != Survivors::RestartAll || job.repair_state() == RepairState::Waiting {
        return;
    }
    let name = job.spec.name.clone();
    let slots =
        job.groups.iter().flat_map(|group| group.tasks.iter()).map(|task| task.run).filter(|run| *run != NO_RUN);
    let slots: Vec<u32> = slots.collect();
    let placed = tx.index();
    let mut tasks = 0;
    for slot in slots {
        // What this very entry has placed knows the others' places.
        let stayed = |run: &Run| run.stop.is_none() && !run.restart && run.placed < placed;
        let run = tx.run_mut(slot);
        if !stayed(run) {
            continue;
        }
        run.restart = true;
        tasks += 1;
        let node = run.node;
        tx.touch_node(node);
    }
    if tasks > 0 {
        tx.tell(EventKind::SurvivorsRestart { job: id, name, tasks });
    }
}
