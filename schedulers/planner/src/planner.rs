//! One planner that plans as its profile says.

use crate::draft::Desk;
use crate::pipeline::Pipeline;
use ohm_framework::{Board, Decision, Plan, PlannedJob, Planner, View, Work};
use ohm_model::{Class, JobId, NodeId, SchedulingProfile};
use ohm_placement::{Config, Pass, Placer};
use ohm_stdx::Prng;
use std::sync::Arc;

/// Plans the jobs of one class as its profile says.
#[derive(Debug)]
pub struct ProfilePlanner {
    profile: Arc<SchedulingProfile>,
    /// Whether it takes the profile that the cell holds.
    follows: bool,
    pub(crate) pipeline: Pipeline,
    /// The craft, with what it remembers between passes.
    pub placer: Placer,
}

/// The planner of `class`. It plans by the profile that the cell has for it when it is reset.
pub fn of(class: Class) -> ProfilePlanner {
    ProfilePlanner { follows: true, ..ProfilePlanner::new(SchedulingProfile::built_in(class)) }
}

impl ProfilePlanner {
    /// What it plans by.
    pub fn profile(&self) -> &SchedulingProfile {
        &self.profile
    }

    /// A planner that plans as `profile` says, whatever the cell holds.
    pub fn new(profile: SchedulingProfile) -> Self {
        ProfilePlanner::with(&Config::new(profile))
    }

    /// The same with other bounds than every class has.
    pub fn with(config: &Config) -> Self {
        let profile = Arc::new(config.profile.clone());
        let pipeline = Pipeline::new(&profile.name, &profile.strategies);
        ProfilePlanner { profile, follows: false, pipeline, placer: Placer::new(config) }
    }
}

impl Planner for ProfilePlanner {
    fn class(&self) -> Class {
        self.profile.class
    }

    fn plan(&mut self, board: &mut Board<'_>, work: &Work, dice: &mut Prng) -> Plan {
        let mut pass = self.placer.begin(board.lend());
        let (mut plan, mut rows) = (Plan::default(), 0);
        for item in &work.jobs {
            let spent = pass.examined() >= work.budget.nodes || rows >= work.budget.rows;
            if spent && !plan.decisions.is_empty() {
                break;
            }
            let most_rows = work.budget.rows.saturating_sub(rows).max(1);
            pass.count(item.counted);
            let desk = Desk { placer: &mut self.placer, pass: &mut pass, dice };
            let decision = self.pipeline.decide(desk, item, most_rows);
            if let Decision::Planned(planned) = &decision {
                rows += planned.place.len();
                reserve(&mut pass, planned);
            }
            pass.look_at(1);
            plan.decisions.push(decision);
        }
        plan.examined = pass.examined();
        pass.end();
        plan
    }

    fn changed(&mut self, view: &View<'_>, nodes: &[NodeId], _jobs: &[JobId]) {
        self.placer.changed(view, nodes);
    }

    /// A class without a profile has no jobs: what was planned by last stays until there is one again.
    fn reset(&mut self, view: &View<'_>) {
        let held = view.cell().profiles().of(self.profile.class).filter(|_| self.follows);
        if let Some(held) = held.filter(|held| *held != self.profile) {
            *self = ProfilePlanner { follows: true, ..ProfilePlanner::new((*held).clone()) };
        }
        self.placer.reset(view);
    }
}

/// Lays the quota that a plan reserves on the board, where its rows are.
fn reserve(pass: &mut Pass<'_>, planned: &PlannedJob) {
    if let Some(job) = pass.job(planned.job.job).filter(|_| planned.reserve) {
        let chosen = job.with_flavors(&planned.flavors);
        pass.reserve(chosen.as_ref().unwrap_or(job));
    }
}
