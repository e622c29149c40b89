//! How many tasks a selector means in each domain of a node label: what rules about other tasks ask for. Counts move
//! with each run, so that no rule walks over runs. Everything here is derived from the shapes, jobs, nodes and runs of
//! the cell, and is empty while no group asks for anything of the tasks around it.
//!
//! ```text
//! Shape ──asks──▶ Asks ──▶ Counter (whom × ground) ──▶ by domain: tasks
//! group ──has──▶ Marks (namespace, labels) ──▶ the counters that count it, the anti-affinities that mean it
//! Ground (node label × which nodes count): the domain of each node
//! ```

pub(crate) mod asks;
pub(crate) mod counter;
pub(crate) mod counts;
pub(crate) mod fill;
pub(crate) mod ground;
mod marks;
pub(crate) mod settle;
