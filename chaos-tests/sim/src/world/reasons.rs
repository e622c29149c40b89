//! What a person would be told about each job that waits when everything is quiet, asked as the server asks it, and
//! judged by the oracle.

use super::World;
use crate::mischief::Mischief;
use crate::planners::SpoiltPlanner;
use ohm_cell::{Cell, Job, JobState};
use ohm_framework::{Answer, Explanation, Miss, Obstacle, explain_job};
use ohm_oracle::{Broken, Reason, Why, judge_reason};

impl World {
    /// Reasons that are missing or not true.
    pub(super) fn wrong_reasons(&self) -> Vec<Broken> {
        let core = self.leader().and_then(|number| self.servers[number].core());
        let Some(cell) = core.map(|core| core.replica().cell()) else { return Vec::new() };
        let waiting = cell.jobs().iter().filter(|job| job.state == JobState::Active && job.pending() > 0);
        waiting.filter_map(|job| wrong_reason(cell, job)).collect()
    }
}

fn wrong_reason(cell: &Cell, job: &Job) -> Option<Broken> {
    let mut planner = SpoiltPlanner::new(job.spec.class, Mischief::default());
    let broken = |what: String| Some(Broken { promise: "P10", what });
    match explain_job(cell, &mut planner, job.id) {
        Answer::Waits(why) => judge_reason(cell, job, &reason(cell, &why)),
        // Whether it has fitted for long is judged apart.
        Answer::Fits { .. } | Answer::Moves { .. } | Answer::LacksSpares { .. } => None,
        // What runs, or backs off, goes first.
        Answer::NeedsNothing { .. } if job.live() > 0 || job.groups.iter().any(|group| group.backing_off > 0) => None,
        answer => broken(format!("job {} waits, and all that is said of it is {answer:?}", job.spec.name)),
    }
}

fn reason(cell: &Cell, why: &Explanation) -> Reason {
    let (mut short, mut quota) = (None, None);
    match &why.obstacle {
        Obstacle::Room | Obstacle::Domain { .. } => short = Some((why.fit, why.of)),
        Obstacle::Quota { resource, asked, available, .. } => quota = Some((*resource, *asked, *available)),
        _ => {}
    }
    Reason {
        group: why.group,
        beside: why.beside.clone(),
        text: why.to_text(cell),
        short,
        total_nodes: why.total_nodes,
        open_nodes: why.open_nodes,
        misses: why.misses.iter().map(|(miss, nodes)| (kind(miss), *nodes)).collect(),
        quota,
    }
}

fn kind(miss: &Miss) -> Why {
    match miss {
        Miss::NotReady | Miss::Cordoned | Miss::Draining => Why::Closed,
        Miss::Taint(_) | Miss::NodeSelector | Miss::Affinity => Why::Class,
        Miss::Capacity(resource) => Why::Capacity(*resource),
        Miss::Resource(resource) => Why::Resource(*resource),
        Miss::Port(port) => Why::Port(*port),
        Miss::OutsideTopology | Miss::TopologyDomain | Miss::Devices(_) | Miss::LimitPerNode | Miss::Held => Why::Other,
    }
}
