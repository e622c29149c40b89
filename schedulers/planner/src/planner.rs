//! One planner that plans as its profile says.

use crate::draft::Desk;
use crate::pipeline::Pipeline;
use ohm_framework::{Decision, Plan, Planner, View, Work};
use ohm_model::{Class, JobId, NodeId, SchedulingProfile};
use ohm_placement::{Config, Placer};
use ohm_stdx::Prng;

/// Plans the jobs of one class as its profile says.
#[derive(Debug)]
pub struct ProfilePlanner {
    class: Class,
    pub(crate) pipeline: Pipeline,
    /// The craft, with what it remembers between passes.
    pub placer: Placer,
}

/// The planner of `class`, with the profile that every cell has for it.
pub fn of(class: Class) -> ProfilePlanner {
    ProfilePlanner::new(SchedulingProfile::built_in(class))
}

impl ProfilePlanner {
    /// A planner that plans as `profile` says.
    pub fn new(profile: SchedulingProfile) -> Self {
        ProfilePlanner::with(&Config::new(profile))
    }

    /// The same with other bounds than every class has.
    pub fn with(config: &Config) -> Self {
        let class = config.profile.class;
        ProfilePlanner { class, pipeline: Pipeline::new(class.name(), &[]), placer: Placer::new(config) }
    }
}

impl Planner for ProfilePlanner {
    fn class(&self) -> Class {
        self.class
    }

    fn plan(&mut self, view: &View<'_>, work: &Work, dice: &mut Prng) -> Plan {
        let mut pass = self.placer.begin(view);
        let (mut plan, mut rows) = (Plan::default(), 0);
        for item in &work.jobs {
            let spent = pass.examined() >= work.budget.nodes || rows >= work.budget.rows;
            if spent && !plan.decisions.is_empty() {
                break;
            }
            let most_rows = work.budget.rows.saturating_sub(rows).max(1);
            let desk = Desk { placer: &mut self.placer, pass: &mut pass, dice };
            let decision = self.pipeline.decide(desk, item, most_rows);
            if let Decision::Planned(planned) = &decision {
                rows += planned.place.len();
            }
            pass.look_at(1);
            plan.decisions.push(decision);
        }
        plan.examined = pass.examined();
        plan
    }

    fn changed(&mut self, view: &View<'_>, nodes: &[NodeId], _jobs: &[JobId]) {
        self.placer.changed(view, nodes);
    }

    fn reset(&mut self, view: &View<'_>) {
        self.placer.reset(view);
    }
}
