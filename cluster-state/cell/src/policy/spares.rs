//! Spares: room for some more tasks of a group that stands, held for those it may lose.
//!
//! A spare is no task: nothing runs there. It is charged to the queue as a task is, and binds everybody of the same or
//! a lower priority but its own job: what waits of that is never kept waiting by a spare. A task that was lost, or that
//! has to leave its node, is placed where a spare is before anything is searched for, and the spare is used up.
//!
//! Invariants: only groups that have started hold spares, no more than [`Job::spares_wanted`]; each one is where a task
//! of the group may stand, inside the group's domain, and there is room for it beside everything that binds it.

use crate::cell::Cell;
use crate::rooms::nominations::Held;
use crate::state::jobs::{Job, JobState, Task};
use crate::state::nodes::{PRESENT, READY, STATE_MASK};
use ohm_model::{GroupIndex, JobId, NodeHealth, NodeId, ResourceId};
use ohm_stdx::canary::{self, Canary};

impl Job {
    /// How many spares group `group` is to have: as it asks for, but never more than it has tasks to lose.
    pub fn spares_wanted(&self, group: usize) -> u32 {
        let may = self.groups.get(group).is_some_and(|state| state.started) && !self.is_down();
        let open = self.state == JobState::Active || canary::sings(Canary::KeepSpares);
        if may && open { self.spares_at_most(group) } else { 0 }
    }

    /// The same of a group that stands, or will.
    pub fn spares_at_most(&self, group: usize) -> u32 {
        let (Some(state), Some(spec)) = (self.groups.get(group), self.spec.groups.get(group)) else { return 0 };
        let over = state.succeeded + state.failed + state.skipped;
        spec.spares.min(spec.count.saturating_sub(over))
    }

    /// How many spares group `group` lacks.
    pub fn spares_missing(&self, group: usize) -> u32 {
        let held = self.groups.get(group).map_or(0, |state| state.spares);
        self.spares_wanted(group).saturating_sub(held)
    }

    /// The job as it would be if so many more tasks of each group waited: planners find places for spares on it. Their
    /// numbers go on behind the group's tasks. A reservation covers none of them.
    pub fn as_if_spared(&self, spares: impl Fn(&Job, usize) -> u32) -> Job {
        let mut job = self.clone();
        for at in 0..job.groups.len() {
            let more = spares(self, at);
            let floor = job.floor;
            let group = &mut job.groups[at];
            if canary::sings(Canary::SpareAstray) {
                group.domain = None;
            }
            let first = group.tasks.len() as u32;
            group.tasks.resize((first + more) as usize, Task::new(floor));
            if more > 0 {
                group.pending.insert(first, more);
            }
        }
        job
    }

    /// Whether spares are to be sought now: some are missing, and no task waits to be placed, soon or now.
    pub fn seeks_spares(&self) -> bool {
        let waits = |group: &crate::state::jobs::Group| {
            let idle = group.pending.is_empty() && group.backing_off == 0;
            !(idle && group.lost.is_empty() && group.moving.is_empty() && group.leaving == 0)
        };
        (0..self.groups.len()).any(|group| self.spares_missing(group) > 0) && !self.groups.iter().any(waits)
    }
}

impl Cell {
    /// Where spares of the group are held, and for how many tasks.
    pub fn spares_of(&self, job: JobId, group: GroupIndex) -> impl Iterator<Item = (NodeId, u32)> + '_ {
        let spares = self.nominations.of_job(job).filter(move |(_, held)| held.spares(job, group.0));
        spares.map(|(node, held)| (node, held.count))
    }

    /// For how many tasks of the group there is room held as spares on `node`.
    pub fn spares_on(&self, job: JobId, group: GroupIndex, node: NodeId) -> u32 {
        let on_node = self.nominations.on_node(node).iter();
        on_node.filter(|held| held.spares(job, group.0)).map(|held| held.count).sum()
    }

    /// How much of `resource` on `node` is held as spares of `job`, of other groups than `group`.
    pub fn spares_beside(&self, job: JobId, group: GroupIndex, node: NodeId, resource: ResourceId) -> i64 {
        let on_node = self.nominations.on_node(node).iter();
        let others = on_node.filter(|held| held.is_spare() && held.job == job && held.group != group.0);
        others.map(|held| self.held_amount(held, resource)).fold(0, i64::saturating_add)
    }

    /// Why a spare may not be on `node`, whatever room there is; nothing if it may. A node that is only suspected may
    /// be back in a moment.
    pub(crate) fn spare_misplaced(&self, held: &Held, node: NodeId) -> Option<&'static str> {
        let Some(job) = self.jobs.get(held.job) else { return Some("its job is gone") };
        let group = usize::from(held.group);
        if job.state != JobState::Active && job.spares_wanted(group) == 0 {
            return Some("its job is over or suspended");
        }
        if job.spares_wanted(group) == 0 {
            return Some("its group needs it no more");
        }
        let Some(record) = self.nodes.get(node) else { return Some("its node is gone") };
        if record.health == NodeHealth::Lost {
            return Some("its node is lost");
        }
        if (self.nodes.flags(node) | READY) & STATE_MASK != PRESENT | READY {
            return Some("its node takes no work");
        }
        if !self.admits(job.groups[group].shape, node) {
            return Some("its group may not stand on the node");
        }
        let domain = job.shared_domain(group).filter(|_| !canary::sings(Canary::SpareAstray));
        let astray = domain.is_some_and(|domain| {
            job.binding_level(group).is_some() && self.domain_key(job, group, node) != Some(domain)
        });
        astray.then_some("its group stands in another domain")
    }
}
