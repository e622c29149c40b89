//! The simplest planner there is: nodes in order, whatever fits first. It looks at every rule of the view.

#![allow(unreachable_pub)]

use ohm_cell::{Asker, Job, Room, Shape, Wish};
use ohm_framework::{
    Board, Decision, Explanation, Miss, Need, Obstacle, Plan, PlannedJob, Planner, View, Work, WorkItem,
};
use ohm_model::{Class, Grain, GroupIndex, JobId, NodeId, Placement, TaskIndex};
use ohm_stdx::Prng;
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct FirstFit {
    pub class: Class,
    /// Whether it starts where the view says, or always at the first node, to collide as often as possible.
    pub spreads: bool,
    /// What was told of each node's free processors. It is what the view says whenever a plan is asked for.
    told: BTreeMap<NodeId, i64>,
}

impl Planner for FirstFit {
    fn class(&self) -> Class {
        self.class
    }

    fn plan(&mut self, board: &mut Board<'_>, work: &Work, _dice: &mut Prng) -> Plan {
        let view = board.view();
        let seen = |node: &NodeId| (*node, free_cpu(&view, *node));
        // Of a move it is not told that the nodes that are left become free: nothing is placed there.
        if work.jobs.iter().all(|item| item.need != Need::Move) {
            assert_eq!(self.told, self.told.keys().map(seen).collect(), "the planner is told what became of each node");
        }
        let (mut plan, mut rows) = (Plan::default(), 0);
        let (cell, start) = (board.cell(), board.over().savepoint());
        for item in &work.jobs {
            let beyond = plan.examined >= work.budget.nodes || rows >= work.budget.rows;
            if beyond && !plan.decisions.is_empty() {
                break;
            }
            let before = board.over().savepoint();
            let decision = self.decide(board, item, &mut plan.examined);
            match &decision {
                Decision::Planned(planned) => rows += planned.place.len(),
                _ => board.over().roll_back(cell, before),
            }
            plan.decisions.push(decision);
        }
        board.over().roll_back(cell, start);
        plan
    }

    fn changed(&mut self, view: &View<'_>, nodes: &[NodeId], _jobs: &[JobId]) {
        self.told.extend(nodes.iter().map(|node| (*node, free_cpu(view, *node))));
    }

    fn reset(&mut self, view: &View<'_>) {
        self.told.clear();
        let nodes: Vec<NodeId> = view.cell().nodes().iter().map(|(node, _)| node).collect();
        self.changed(view, &nodes, &[]);
    }
}

/// What is free of the resource that all tests ask for.
fn free_cpu(view: &View<'_>, node: NodeId) -> i64 {
    view.cell().resources().find("cpu").map_or(0, |cpu| view.free(node, cpu))
}

impl FirstFit {
    pub fn new(class: Class, spreads: bool) -> Self {
        FirstFit { class, spreads, told: BTreeMap::new() }
    }

    fn decide(&self, board: &mut Board<'_>, item: &WorkItem, examined: &mut u64) -> Decision {
        let Some(job) = board.job(item.job) else { return Decision::Nothing(item.job) };
        let job = job.clone();
        let mut own = Vec::new();
        for group in 0..job.groups.len() {
            if job.groups[group].pending.is_empty() {
                continue;
            }
            let before = own.len();
            if let Err(explanation) = self.place_group(&board.view(), &job, group, &mut own, examined) {
                return Decision::Unplaced(explanation);
            }
            let cell = board.cell();
            for row in &own[before..] {
                board.over().place(cell, &job, row);
                board.over().charge_tasks(cell, &job, row.group, row.count);
            }
        }
        if own.is_empty() {
            return Decision::Nothing(job.id);
        }
        own.sort_by_key(|row: &Placement| (row.group, row.first));
        Decision::Planned(Box::new(PlannedJob::placing(board.view().guard(&job), Grain::PerTask, own)))
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
        let most = match quota_room(view, job, shape, of) {
            Ok(most) => most,
            Err(obstacle) => return Err(Box::new(Explanation { obstacle, ..explanation })),
        };
        let mut left: Vec<(u32, u32)> = view.pending(job, index).iter().collect();
        left.reverse();
        let slots = cell.nodes().slots() as u32;
        let start = if self.spreads { view.part().start } else { 0 };
        for node in (0..slots).map(|offset| NodeId((start + offset) % slots)) {
            *examined += 1;
            let Some(count) = room_on(view, job, index, node, &mut explanation) else { continue };
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
        if explanation.fit < of || explanation.fit == 0 { Err(Box::new(explanation)) } else { Ok(()) }
    }
}

/// How many tasks the queue lets the group have; at least `of`.
fn quota_room(view: &View<'_>, job: &Job, shape: &Shape, of: u32) -> Result<u32, Obstacle> {
    if job.spec.queue.is_empty() || !job.reserved.is_empty() {
        return Ok(u32::MAX);
    }
    let mut most = i64::from(u32::MAX);
    let Some(left) = view.quota_of(job) else { return Ok(u32::MAX) };
    for &(column, request) in &shape.charges {
        let Some(available) = left.available(column) else { continue };
        let asked = request * i64::from(of.max(1));
        if available < asked {
            let (queue, ceded) = (job.spec.queue.clone(), left.ceded(column));
            return Err(Obstacle::Quota { queue, column, asked, available, ceded });
        }
        most = most.min(available / request);
    }
    Ok(most as u32)
}

/// How many tasks fit, or nothing with the first reason counted.
fn room_on(view: &View<'_>, job: &Job, group: GroupIndex, node: NodeId, explanation: &mut Explanation) -> Option<u32> {
    let asker = Asker::of(view.cell(), job, group, Wish::Plan { moving: false, within: None })?;
    let Some(miss) = Room::miss(&asker, view.what(), node) else {
        return Some(Room::of(&asker, view.what(), node, u32::MAX).count);
    };
    if let Miss::Resource(resource) | Miss::Capacity(resource) = miss {
        let request = asker.shape.requests.iter().find(|(column, _)| *column == resource).expect("it is asked for");
        explanation.near(resource, request.1, view.free(node, resource), view.cell().nodes().name(node));
    }
    explanation.miss(miss);
    None
}
