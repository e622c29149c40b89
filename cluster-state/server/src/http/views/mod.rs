//! The cell as the API shows it: pure functions from a copy of the cell to the types of `ohm_wire::api`.

mod admission;
mod budgets;
mod causes;
mod endpoints;
mod events;
mod heads;
mod health;
mod jobs;
mod node_requests;
mod nodes;
mod owed;
mod preemption;
mod profiles;
mod queues;
mod ready;
mod rollout;
mod sessions;
mod status;
mod subqueues;
mod words;

pub(super) use admission::provisioning_classes;
pub(super) use budgets::budget_list;
pub(super) use causes::causes;
pub(super) use endpoints::endpoint_list;
pub(super) use events::{Names, event, is_event_of};
pub(super) use heads::{head_text, heads_text};
pub(super) use health::health_text;
pub(super) use jobs::{TaskWindow, job, job_summary};
pub(super) use node_requests::{node_requests, node_requests_text};
pub(super) use nodes::{node_detail, node_summary};
pub(super) use owed::{held_for_repairs, held_text, owed, owed_text};
pub(super) use profiles::{profiles, replicas};
pub(super) use queues::{namespaces, priority_classes, queue, queues, resource_flavors, scheduling, topologies};
pub(super) use rollout::{rollout, rollout_text};
pub(super) use status::status;
pub(super) use subqueues::subqueues;
