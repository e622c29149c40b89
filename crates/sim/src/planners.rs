//! Temporary first fit until the planners are there.
use ohm_framework::{Decision, Explanation, Obstacle, Plan, PlannedJob, Planner, View, Work};
use ohm_model::{Class, ConflictReason, Grain, GroupIndex, JobId, NodeId, Placement, TaskIndex};
use ohm_stdx::Prng;
use ohm_cell::Scratch;
pub(crate) struct AnyPlanner(Class, Scratch);
impl AnyPlanner { pub(crate) fn new(class: Class) -> Self { AnyPlanner(class, Scratch::default()) } }
impl Planner for AnyPlanner {
    fn class(&self) -> Class { self.0 }
    fn plan(&mut self, view: &View<'_>, work: &Work, _dice: &mut Prng) -> Plan {
        let cell = view.cell();
        let mut plan = Plan::default();
        let mut used: std::collections::BTreeMap<(NodeId, ohm_model::ResourceId), i64> = Default::default();
        for item in &work.jobs {
            let Some(job) = cell.jobs().get(item.job) else { plan.decisions.push(Decision::Nothing(item.job)); continue };
            let mut rows = Vec::new();
            for (g, group) in job.groups.iter().enumerate() {
                let Some(shape) = cell.shape_of(job, g) else { continue };
                for (first, count) in view.pending(job, GroupIndex(g as u16)).iter() {
                    for task in first..first + count {
                        let found = cell.nodes().iter().find(|(node, _)| {
                            cell.nodes().is_schedulable(*node) && view.admits(group.shape, *node)
                            && shape.requests.iter().all(|(r, a)| view.free(*node, *r) - used.get(&(*node, *r)).copied().unwrap_or(0) >= *a)
                            && shape.ports.iter().all(|p| !view.port_taken(*node, *p))
                        });
                        if let Some((node, _)) = found {
                            for (r, a) in &shape.requests { *used.entry((node, *r)).or_insert(0) += a; }
                            rows.push(Placement { job: job.id, group: GroupIndex(g as u16), first: TaskIndex(task), count: 1, node, class: cell.nodes().class(node), devices: vec![] });
                        }
                    }
                }
            }
            let _ = ConflictReason::Held;
            if rows.is_empty() {
                plan.decisions.push(Decision::Unplaced(Box::new(Explanation::of_obstacle(job.id, view.seen(), 1, Obstacle::Room))));
            } else {
                plan.decisions.push(Decision::Planned(Box::new(PlannedJob::placing(view.guard(job), Grain::PerTask, rows))));
            }
        }
        plan
    }
    fn changed(&mut self, _: &View<'_>, _: &[NodeId], _: &[JobId]) {}
    fn reset(&mut self, _: &View<'_>) {}
}
