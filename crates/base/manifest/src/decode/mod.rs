//! From trees to documents. Every function here takes a place in a tree, gives back what stands there, and reports
//! what is wrong to the [`Context`] instead of stopping: one look at the errors of a document shows all of them.

mod arguments;
mod budget;
mod cell;
mod group;
mod job;
mod neighbours;
mod ports;
mod preemption;
mod probes;
mod profile;
mod provisioning;
mod quota;
mod selectors;
mod strategy;
mod value;

pub(crate) use budget::{budget, pod_disruption_budget};
pub(crate) use cell::{PREEMPTION_POLICIES, allocation, node, priority_class, topology};
pub(crate) use group::span_ms;
pub(crate) use job::{RECONCILE, REPAIR_POLICIES, SURVIVORS, job, name_of_job};
pub(crate) use neighbours::{label_selector, neighbours};
pub(crate) use ports::on_node;
pub(crate) use preemption::scheduling;
pub(crate) use probes::probes;
pub(crate) use profile::scheduling_profile;
pub(crate) use provisioning::provisioning_class;
pub(crate) use quota::{cohort, local_queue, queue, resource_flavor, subqueue};
pub(crate) use selectors::{node_affinity, toleration};
pub(crate) use strategy::{bounds, times};
pub(crate) use value::{At, Context, Fields};
