//! `ohm plan`: the answer of the schedulers to a question on paper.
//!
//! ```text
//! documents ──Scene──▶ commands ──▶ Cell ──View──▶ planners ──plan──▶ commit ──▶ Cell ──▶ Answer
//!                      (as it stands)     └──────── once per job, in file order ────────┘
//! ```
//!
//! Nothing is planned here: a real [`ohm_cell::Cell`] is brought to what the documents say by the commands a server
//! would apply, the planners of the schedulers plan on it, and what they plan is committed through the cell's own
//! judgement before the next job is looked at.
//!
//! # What documents mean
//!
//! The cell file describes a cell: Node, Topology, Queue, Cohort, and Allocation for what runs already; as Kubernetes
//! objects Node and Pod (bound pods that have not finished stand as jobs of one task, and are never planned anew).
//! `status.used` is what others take. The job file holds the jobs to plan; where both files have a job, the job file
//! says what it is to become, so that more tasks than stand are growth and fewer are a cut from the end of the rank
//! order. Jobs of the cell file of which tasks are missing are planned, too. A node that an Allocation or a Pod names
//! and no file describes is gone; failing or draining a node that no document names is an error. A Pod of the job file
//! is a job of one task, and asks for the node that its `nodeName` says, if it says one.
//!
//! What an Allocation says stands is taken as it is, also above its quota, and whatever its flavors ask for: those that
//! it names, or else the first ones whose labels its node has. What reserved its quota first (`reservedAt`) is placed
//! first; what is being stopped (`evicting`) takes its room until another job is placed there. Jobs are as old as their
//! `creationTimestamp` says, and planned in file order all the same.
//!
//! # In passes
//!
//! With `cycles` the jobs are not planned in file order but in so many passes, each with the first job of every queue,
//! in the order in which schedulers serve queues ([`ohm_queueing`], [`ohm_framework::Turns`]). What is told to stop has
//! ended when the next pass begins, and waits again. `parked` is what would not be placed either if it had come first
//! in its pass: it is looked at again once something ends. In a StrictFIFO queue it stays `pending`.
//!
//! # Scores
//!
//! Where nodes are asked for, each one that fits has the scores that the plugins of kube-scheduler would give it, those
//! that the profile of the class counts, and their weighted sum. Planners of Ohm go by scores of their own, so what is
//! placed need not stand on the node with the largest sum. `addedAffinity` and `ignoredResources` of a profile count
//! for planners, too: they are added to its jobs before those are planned.
//!
//! # The answer as JSON
//!
//! Stable: fields are added, never renamed. `reason` is null where there is nothing to explain.
//!
//! ```text
//! jobs[]            name, outcome (placed | repaired | pending | parked | preempting | evicted), reason,
//!                   explanation[] (lines of text), expectedStart? {withinSeconds, waitsFor[]},
//!                   tried? {profile, strategies[]}, preempts[]? {job, pod?, node?, reason, violatesBudget},
//!                   nominated[]? {node, count}, tasks {asked, before, lost, after}
//! jobs[].groups[]   name, placements[] {node, count}, domains[] {values[], count}, explain?,
//!                   nodes[]? {node, fits, reason? {filter, resolvable, message}, scores? {NAME: 0..100}, total?}
//! explain           fit, of, unit (task | slice), totalNodes, unavailable? {notReady, unschedulable, notInTopology …},
//!                   excluded {resource {NAME: n}, taint {"key=value:Effect": n}, nodeSelector, affinity,
//!                   topologyDomain, port {}, limitPerNode, held}; zero counts are left out
//! before, after     nodes, nodesUsed, resources {NAME: {allocated, allocatable, percent}}
//! ignored[]         kind, name, field (its path), reason: fields of Kubernetes objects that bear on where pods go and
//!                   are not honoured; fields that bear on nothing, such as images, are left out
//! queues[]?         name, kind (Queue | Cohort), parent, weightedShare, dominantResource, flavorsUsage[] {name,
//! resources[]
//!                   {name, total, borrowed, available, potential}}
//! countFit[]?       job, copies, atLeast, reason, groups[] {name, classes[] {like, nodes, tasks, excluded}}
//! ```
//!
//! Invariants: the same question gives the same answer; a request that the cell cannot meet is `pending` with a reason
//! and never an error; what is placed was accepted by the cell.
//!
//! Absent on purpose: time. Nothing backs off, expires or finishes; that what has a deadline will be over is reckoned
//! with in `expectedStart` only.

mod admission;
mod answer;
mod copies;
mod cycles;
mod devices;
mod facts;
mod flavors;
mod names;
mod planning;
mod plugins;
mod question;
mod queues;
mod resolve;
mod rooms;
mod scores;
mod seating;
mod seats;
mod setting;
mod settle;
mod standing;
mod text;
mod verdicts;
mod world;

pub use answer::{
    Answer, ClassRoom, Copies, DomainCount, GroupAnswer, GroupRoom, IgnoredField, JobAnswer, JobOutcome, NodeCount,
    NodeMiss, NodeVerdict, StartAnswer, Taken, TaskCounts, Totals,
};
pub use question::{Addition, PlanError, Question};
pub use queues::{FlavorUsage, QueueAnswer, ResourceUsage};
pub use text::to_text;

/// An answer, and the cell that it was found on.
pub struct Planned {
    /// The answer.
    pub answer: Answer,
    /// Kept so that whoever ends next anyway need not take a large cell apart first.
    _setting: setting::Setting,
}

/// Answers `question`.
pub fn plan(question: Question) -> Result<Planned, PlanError> {
    let Question { count_fit, strict, nodes, shares, cycles, .. } = question;
    let mut scene = question::Scene::of(question)?;
    resolve::resolve(&mut scene);
    plugins::apply(&mut scene);
    if strict && !scene.ignored.is_empty() {
        return Err(PlanError::Ignored(scene.ignored));
    }
    let mut setting = setting::of(scene)?;
    let jobs = planning::plan_all(&mut setting, cycles, nodes);
    let after = setting.rooms.totals(&setting.world);
    let counted = setting.jobs.iter().filter(|standing| standing.asked);
    let count_fit = count_fit.then(|| counted.map(|job| copies::count(&setting.world, &job.spec)).collect());
    let answer = Answer {
        jobs,
        before: setting.before.clone(),
        after,
        queues: shares.then(|| queues::of(&setting.world.cell)),
        count_fit,
        ignored: std::mem::take(&mut setting.ignored),
    };
    Ok(Planned { answer, _setting: setting })
}
