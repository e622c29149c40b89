//! Where a job can be reached: its tasks that are ready and are to stay so.

use crate::cell::Cell;
use crate::state::budgets::health::is_healthy;
use crate::state::jobs::Job;
use crate::state::nodes::NodeRecord;
use crate::state::runs::Run;
use ohm_model::{HostPort, StopCause};

/// A task that can be reached.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<'a> {
    /// The number of its group in the job.
    pub group: usize,
    /// Its number in the group: its rank.
    pub task: u32,
    /// The node that it stands on; the address is that of the node.
    pub node: &'a NodeRecord,
    /// The host ports that it was given there, as its own revision asked for them.
    pub ports: &'a [HostPort],
}

/// The tasks of a job that can be reached, by group and rank. Whoever is told to stop is not among them from that entry
/// on. It costs a look at each task of the job.
pub fn endpoints<'a>(cell: &'a Cell, job: &'a Job) -> impl Iterator<Item = Endpoint<'a>> {
    let groups = job.groups.iter().enumerate();
    let tasks = groups.flat_map(|(at, group)| group.tasks.iter().map(move |task| (at, task)));
    let runs = tasks.filter_map(|(at, task)| Some((at, cell.runs.get(task.run)?)));
    runs.filter(|(_, run)| is_healthy(run) && !run.restart).filter_map(|(group, run)| {
        let (node, shape) = (cell.nodes.get(run.node)?, cell.shapes.get(run.shape)?);
        Some(Endpoint { group, task: run.run.task.task.0, node, ports: &shape.ports })
    })
}

/// How long a run that is told to stop goes on before its signal, so that whoever still finds it among the endpoints is
/// served. None where nobody could, where somebody is in a hurry, and where its time is over: its node ends that by
/// itself.
pub fn stop_delay_ms(job: &Job, run: &Run) -> u64 {
    let is_due = job.grace_ms_max.is_some() || run.stop == Some(StopCause::DeadlineExceeded);
    if is_due || !run.is_ready() {
        0
    } else {
        job.content(usize::from(run.run.task.group.0), run.revision).task.stop_delay_ms
    }
}
