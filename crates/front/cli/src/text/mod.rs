//! Results as people read them: pure functions from API types to text.

mod admission;
mod amounts;
mod endpoints;
mod events;
mod explain;
mod jobs;
mod nodes;
mod plural;
mod queue;
mod queues;
mod ready;
mod rollout;
mod servers;
mod shares;
mod status;
mod style;
mod table;
mod times;
mod verdicts;
mod wrap;

pub(crate) use admission::provisioning_classes_table;
pub(crate) use endpoints::{endpoint_changes, endpoints_table};
pub(crate) use events::{event_line, story};
pub(crate) use explain::explanation;
pub(crate) use jobs::{job_line, job_over_line, job_text, jobs_table};
pub(crate) use nodes::{node_text, nodes_table};
pub(crate) use plural::counted;
pub(crate) use queue::queue_text;
pub(crate) use queues::{
    budgets_table, flavors_table, namespaces_table, priority_classes_table, profiles_table, queues_table,
    topologies_text,
};
pub(crate) use rollout::{history_table, rollout_line, rollout_text};
pub(crate) use servers::servers_table;
pub(crate) use shares::shares_table;
pub(crate) use status::{clocks, status_text};
#[cfg(test)]
pub(crate) use style::PLAIN;
pub(crate) use style::Style;
pub(crate) use verdicts::{ListedVerdict, verdict_totals, verdicts_text};
pub(crate) use wrap::wrapped;
