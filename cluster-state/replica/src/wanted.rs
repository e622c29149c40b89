//! What a node should run, worked out from the cell: the whole set, each time.

use ohm_agent::{Launch, WantedRun, WantedSet};
use ohm_cell::{Cell, Job, Run};
use ohm_model::{JobId, NodeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Launch descriptions by group, made once and shared by all runs of it.
#[derive(Debug, Default)]
pub struct Launches {
    by_group: BTreeMap<(JobId, u16), Arc<Launch>>,
}

/// So many descriptions are kept; beyond that they are made anew when needed.
const KEPT_MAX: usize = 10_000;

impl Launches {
    /// Forgets the descriptions of `job`: its placements, and so its peers, changed.
    pub fn forget(&mut self, job: JobId) {
        let groups: Vec<(JobId, u16)> = self.by_group.range((job, 0)..=(job, u16::MAX)).map(|(key, _)| *key).collect();
        groups.iter().for_each(|key| drop(self.by_group.remove(key)));
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.by_group.clear();
    }

    /// The set of runs that `cell` wants on `node`; nothing when the node is not there.
    pub fn wanted(&mut self, cell: &Cell, node: NodeId, cell_incarnation: u64) -> Option<WantedSet> {
        let record = cell.nodes().get(node)?;
        let mut runs: Vec<WantedRun> =
            cell.runs().on_node(cell.nodes(), node).filter_map(|(_, run)| self.wanted_run(cell, run)).collect();
        runs.sort_by_key(|wanted| wanted.run);
        Some(WantedSet { cell_incarnation, node_incarnation: record.incarnation, index: cell.applied(), runs })
    }

    fn wanted_run(&mut self, cell: &Cell, run: &Run) -> Option<WantedRun> {
        let (job, group) = (cell.jobs().get(run.run.task.job)?, run.run.task.group.0);
        let shape = cell.shape_of(job, usize::from(group))?;
        let masks = run.devices.iter().flat_map(|masks| masks.iter());
        let name = |resource| cell.resources().name(resource).to_string();
        let devices = shape.devices.iter().zip(masks).map(|((resource, _), mask)| (name(*resource), *mask)).collect();
        Some(WantedRun {
            run: run.run,
            started: run.started_ms != 0,
            stop: run.stop.is_some(),
            devices,
            launch: self.launch(cell, job, group),
        })
    }

    fn launch(&mut self, cell: &Cell, job: &Job, group: u16) -> Arc<Launch> {
        if self.by_group.len() > KEPT_MAX {
            self.by_group.clear();
        }
        let make = || Arc::new(describe(cell, job, usize::from(group)));
        Arc::clone(self.by_group.entry((job.id, group)).or_insert_with(make))
    }
}

fn describe(cell: &Cell, job: &Job, group: usize) -> Launch {
    let spec = &job.spec.groups[group];
    let address = |run: u32| {
        let record = cell.runs().get(run).and_then(|run| cell.nodes().get(run.node));
        record.map_or_else(String::new, |record| record.spec.address.clone())
    };
    let deadline_ms = match job.spec.active_deadline_seconds {
        0 => 0,
        seconds => job.started_ms.saturating_add(seconds.saturating_mul(1000)),
    };
    Launch {
        job_name: job.spec.name.clone(),
        group_name: spec.name.clone(),
        count: spec.count,
        peers: job.groups[group].tasks.iter().map(|task| address(task.run)).collect(),
        requests: spec.requests.clone(),
        on_disconnect: job.spec.on_disconnect,
        deadline_ms,
        task: spec.task.clone(),
    }
}
