//! What each built-in class does with its jobs, cases of the shared craft as text, and properties against brute force.

mod batch;
mod cases;
mod checks;
mod exact;
mod fixed;
mod flavors;
mod joint;
mod neighbours;
mod packing;
mod pipeline;
mod preemption;
mod preemption_budgets;
mod preemption_nodes;
mod preemption_partial;
mod preemption_queues;
mod preemption_room;
mod preferences;
mod properties;
mod scores;
mod service;
mod slices;
mod spares;
mod tas;
mod topologies;

use crate::{ProfilePlanner, of};
use ohm_model::Class;
use ohm_placement::fixture;

/// A planner that knows no cell yet.
fn fresh() -> ProfilePlanner {
    of(Class::BATCH)
}

/// The same for the jobs of a class.
fn fresh_of(class: &str) -> ProfilePlanner {
    of(class.parse().expect("a class"))
}

fn check(text: &str, expected: &str) {
    fixture::check(&mut fresh(), text, expected);
}
