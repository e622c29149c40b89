//! One planner that plans as its profile says.

use ohm_framework::{Plan, Planner, View, Work};
use ohm_model::{Class, JobId, NodeId, SchedulingProfile};
use ohm_placement::{Config, Placer, PostFilter, plan_work};
use ohm_stdx::Prng;

/// Plans the jobs of one class as its profile says.
pub struct ProfilePlanner {
    class: Class,
    placer: Placer,
    post_filter: Option<Box<dyn PostFilter + Send>>,
}

/// The planner of `class`, with the profile that every cell has for it.
pub fn of(class: Class) -> ProfilePlanner {
    ProfilePlanner::new(SchedulingProfile::built_in(class))
}

impl ProfilePlanner {
    /// A planner that plans as `profile` says.
    pub fn new(profile: SchedulingProfile) -> Self {
        ProfilePlanner { class: profile.class, placer: Placer::new(&Config::new(profile)), post_filter: None }
    }

    /// The same planner with something to try for jobs that find no room.
    pub fn with_post_filter(self, post_filter: Box<dyn PostFilter + Send>) -> Self {
        ProfilePlanner { post_filter: Some(post_filter), ..self }
    }
}

impl Planner for ProfilePlanner {
    fn class(&self) -> Class {
        self.class
    }

    fn plan(&mut self, view: &View<'_>, work: &Work, dice: &mut Prng) -> Plan {
        let hook = self.post_filter.as_deref_mut().map(|hook| hook as &mut dyn PostFilter);
        plan_work(&mut self.placer, hook, view, work, dice)
    }

    fn changed(&mut self, view: &View<'_>, nodes: &[NodeId], _jobs: &[JobId]) {
        self.placer.changed(view, nodes);
    }

    fn reset(&mut self, view: &View<'_>) {
        self.placer.reset(view);
    }
}
