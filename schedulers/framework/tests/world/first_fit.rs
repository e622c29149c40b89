//! The simplest planner there is: nodes in order, whatever fits first. It looks at every rule of the view.

#![allow(unreachable_pub)]

use ohm_cell::{Cell, Job, Shape};
use ohm_framework::{Decision, Explanation, Holds, Miss, Obstacle, Plan, PlannedJob, Planner, View, Work, WorkItem};
use ohm_model::{Class, Grain, GroupIndex, JobId, NodeId, Placement, ResourceId, TaskIndex};
use ohm_stdx::Prng;

#[derive(Debug)]
pub struct FirstFit {
    pub class: Class,
    /// Whether it starts where the view says, or always at the first node, to collide as often as possible.
    pub spreads: bool,
}

impl Planner for FirstFit {
    fn class(&self) -> Class {
        self.class
    }

    fn plan(&mut self, view: &View<'_>, work: &Work, _dice: &mut Prng) -> Plan {
        let mut plan = Plan::default();
        let (mut pass, mut rows) = (Holds::default(), 0);
        for item in &work.jobs {
            let beyond = plan.examined >= work.budget.nodes || rows >= work.budget.rows;
            if beyond && !plan.decisions.is_empty() {
                break;
            }
            let decision = self.decide(&view.over(&pass), item, &mut plan.examined);
            if let Decision::Planned(planned) = &decision {
                rows += planned.place.len();
                pass.take(view.cell(), &planned.place, &[]);
            }
            plan.decisions.push(decision);
        }
        plan
    }

    fn changed(&mut self, _view: &View<'_>, _nodes: &[NodeId], _jobs: &[JobId]) {}

    fn reset(&mut self, _view: &View<'_>) {}
}

impl FirstFit {
    fn decide(&self, view: &View<'_>, item: &WorkItem, examined: &mut u64) -> Decision {
        let Some(job) = view.cell().jobs().get(item.job) else { return Decision::Nothing(item.job) };
        let mut own = Vec::new();
        for group in 0..job.groups.len() {
            if job.groups[group].pending.is_empty() {
                continue;
            }
            if let Err(explanation) = self.place_group(view, job, group, &mut own, examined) {
                return Decision::Unplaced(explanation);
            }
        }
        if own.is_empty() {
            return Decision::Nothing(job.id);
        }
        Decision::Planned(Box::new(PlannedJob::placing(view.guard(job), Grain::PerTask, own)))
    }

    fn place_group(
        &self,
        view: &View<'_>,
        job: &Job,
        group: usize,
        own: &mut Vec<Placement>,
        examined: &mut u64,
    ) -> Result<(), Box<Explanation>> {
        let cell = view.cell();
        let (state, spec) = (&job.groups[group], &job.spec.groups[group]);
        let shape = cell.shape_of(job, group).expect("a group has a shape");
        let index = GroupIndex(group as u16);
        let of = if state.started { 1 } else { state.needed(spec).saturating_sub(state.live) };
        let mut explanation = Explanation::of_obstacle(job.id, view.seen(), of, Obstacle::Room);
        (explanation.group, explanation.total_nodes) = (index, cell.nodes().len() as u32);
        let most = match quota_room(view, job, shape, own, of) {
            Ok(most) => most,
            Err(obstacle) => return Err(Box::new(Explanation { obstacle, ..explanation })),
        };
        let mut left: Vec<(u32, u32)> = view.pending(job, index).iter().collect();
        left.reverse();
        let mut pass = Holds::default();
        pass.take(cell, own, &[]);
        let slots = cell.nodes().slots() as u32;
        let start = if self.spreads { view.start().0 } else { 0 };
        for node in (0..slots).map(|offset| NodeId((start + offset) % slots)) {
            *examined += 1;
            let Some(count) = room_on(view, &pass, job, index, shape, node, &mut explanation) else { continue };
            explanation.open_nodes += 1;
            let mut count = count.min(most - explanation.fit);
            while count > 0
                && let Some((first, waiting)) = left.pop()
            {
                let now = count.min(waiting);
                let (class, first) = (cell.nodes().class(node), TaskIndex(first));
                own.push(Placement { job: job.id, group: index, first, count: now, node, class, devices: Vec::new() });
                explanation.fit += now;
                count -= now;
                if now < waiting {
                    left.push((first.0 + now, waiting - now));
                }
            }
            if left.is_empty() || explanation.fit >= most {
                break;
            }
        }
        own.sort_by_key(|row| (row.group, row.first));
        if explanation.fit < of || explanation.fit == 0 { Err(Box::new(explanation)) } else { Ok(()) }
    }
}

/// How many tasks the queue lets the group have; at least `of`.
fn quota_room(view: &View<'_>, job: &Job, shape: &Shape, own: &[Placement], of: u32) -> Result<u32, Obstacle> {
    if job.spec.queue.is_empty() || !job.reserved.is_empty() {
        return Ok(u32::MAX);
    }
    let taken = |resource: ResourceId| -> i64 {
        let of_row = |row: &Placement| {
            let shape = view.cell().shape_of(job, usize::from(row.group.0)).expect("a group has a shape");
            let request = shape.requests.iter().find(|(column, _)| *column == resource);
            request.map_or(0, |(_, amount)| amount * i64::from(row.count))
        };
        own.iter().map(of_row).sum()
    };
    let mut most = i64::from(u32::MAX);
    for &(resource, request) in &shape.requests {
        let Some(available) = view.quota_available(&job.spec.queue, resource) else { continue };
        let available = available - taken(resource);
        let asked = request * i64::from(of.max(1));
        if available < asked {
            return Err(Obstacle::Quota { queue: job.spec.queue.clone(), resource, asked, available });
        }
        most = most.min(available / request);
    }
    Ok(most as u32)
}

/// How many tasks fit, or nothing with the first reason counted.
fn room_on(
    view: &View<'_>,
    pass: &Holds,
    job: &Job,
    group: GroupIndex,
    shape: &Shape,
    node: NodeId,
    explanation: &mut Explanation,
) -> Option<u32> {
    let cell: &Cell = view.cell();
    let record = cell.nodes().get(node)?;
    let miss = if !cell.nodes().is_schedulable(node) {
        Some(Miss::NotReady)
    } else if let Err(miss) = shape.admits(&record.spec.labels, &record.taints) {
        Some(miss.into())
    } else {
        shape.ports.iter().find(|port| view.port_taken(node, **port)).map(|port| Miss::Port(*port))
    };
    if let Some(miss) = miss {
        explanation.miss(miss);
        return None;
    }
    let mut count = if shape.ports.is_empty() { i64::from(u32::MAX) } else { 1 };
    for &(resource, request) in &shape.requests {
        let free = view.free_for(job, group, node, resource) - pass.amount(node, resource);
        if free < request {
            explanation.miss(Miss::Resource(resource));
            explanation.near(resource, request, free, cell.nodes().name(node));
            return None;
        }
        count = count.min(free / request);
    }
    if shape.max_per_node > 0 {
        count = count.min(i64::from(shape.max_per_node) - i64::from(view.standing_on(job.id, group, node)));
        if count <= 0 {
            explanation.miss(Miss::LimitPerNode);
            return None;
        }
    }
    Some(count as u32)
}
