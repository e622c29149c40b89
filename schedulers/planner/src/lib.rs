//! The planner of every class of work. A class is a [`ohm_model::SchedulingProfile`]: data, no code of its own.
//!
//! - **batch**: gangs, arrays and priorities. Order comes with the work: most urgent first. A gang starts with the most
//!   that fits, at least its minimum in every group, or not at all; tasks that come later (retries, growth of elastic
//!   groups) are taken one by one. A job that does not fit never keeps later ones waiting: they are tried on the room
//!   it leaves, which is backfill without reservations.
//! - **service**: tasks that run until they are stopped. Each group stands with its minimum or waits by itself, and
//!   what fits is taken task by task. Groups spread unless they ask to be packed: fewest tasks of the group on the node
//!   first, then the emptiest node; at most `maxPerNode` on one, and one per node where host ports are asked for.
//! - **tas**: gangs that care where they stand together. `required` keeps a group in one domain of a level, always;
//!   `preferred` begins at a level and goes up while nothing holds it; `unconstrained` drains the fullest leaves first.
//!   Slices stand whole inside one domain of their level, at the start and after every repair. A leader and its
//!   workers, which share a `placeWith` label, are placed as one. Ranks ascend with the path of the topology.
//!
//! What a job gets depends on its own spec (whether it starts whole, spreads, names a topology), never on its class:
//! the class says which schedulers plan it, with which profile.
//!
//! A plan is made by a list of strategies over savepoints of the pass: `strategies.rs` has the table, one small file
//! each, and `pipeline.rs` runs it. What was tried is part of every explanation.
//!
//! Invariants: no group of a gang starts below its minimum, in the plan as in the cell; groups of one job travel in one
//! transaction; no row leaves a required domain or breaks a slice, in the first plan or any later one; a repair is
//! whole or not at all; a started group keeps every task that stands; equal pictures and work give equal plans.
//!
//! Absent on purpose: the choice of victims. Preemption and reclaim will be strategies.

mod draft;
mod pipeline;
mod planner;
mod spares;
mod strategies;

pub use planner::{ProfilePlanner, of};

#[cfg(test)]
mod tests;
