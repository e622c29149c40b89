//! The sweep: every promise the state alone can show, checked from first principles. For tests, the simulator, `ohm log
//! verify` and the oracle. [`Cell::invariants`] costs a pass over everything; a [`Sweep`] follows the log and looks at
//! what each entry touched.

mod admission;
mod budgets;
mod claims;
mod heads;
mod jobs;
mod nodes;
mod preemptions;
mod quota;
mod ready;
mod repairs;
mod rollouts;
mod runs;
mod shapes;
mod spares;
mod start_deadlines;
mod stops;
mod subqueues;
mod sweep;
mod task_counts;
mod timers;

pub use sweep::Sweep;

use crate::cell::Cell;
use crate::check::budgets::check_budgets;
use crate::check::jobs::{check_job_promises, check_job_sums};
use crate::check::nodes::{check_listed, sweep_node};
use crate::check::preemptions::check_preemptions;
use crate::check::quota::check_quota;
use crate::check::runs::{check_kept, sweep_run};
use crate::check::shapes::check_shapes;
use crate::check::subqueues::check_subqueues;
use crate::check::task_counts::check_task_counts;
use crate::state::brought::Brought;
use crate::state::requests::direct_usage;
use crate::state::turns::Turns;
use crate::state::waiting::Waiting;

/// Every broken invariant; see [`Cell::invariants`].
pub(crate) fn broken_invariants(cell: &Cell) -> Vec<String> {
    let mut broken = Vec::new();
    let listed = cell.nodes.iter().map(|(node, record)| sweep_node(cell, node, record, &mut broken)).sum();
    check_listed(cell, listed, &mut broken);
    cell.runs.iter().for_each(|(slot, run)| sweep_run(cell, slot, run, &mut broken));
    for job in cell.jobs.iter() {
        check_job_sums(cell, job, &mut broken);
        check_job_promises(cell, job, &mut broken);
    }
    check_quota(cell, &direct_usage(cell), &mut broken);
    check_subqueues(cell, &mut broken);
    check_kept(cell, &mut broken);
    check_preemptions(cell, &mut broken);
    check_shapes(cell, &mut broken);
    check_task_counts(cell, &mut broken);
    check_budgets(cell, &mut broken);
    if cell.brought != Brought::of(&cell.nodes, &cell.jobs) {
        broken.push("the nodes that were brought and the open requests are not those that nodes and jobs say".into());
    }
    if cell.turns != Turns::of(&cell.jobs, &cell.shapes) {
        broken.push("the lines of jobs that wait to start are not those that the jobs say".into());
    }
    if cell.waiting != Waiting::of(&cell.jobs, &cell.quota) {
        broken.push("the jobs that wait in bounded queues are not those that jobs and queues say".into());
    }
    if !cell.nominations.is_consistent() {
        broken.push("the nodes on which room is kept for jobs are not those that keep it".into());
    }
    broken
}
