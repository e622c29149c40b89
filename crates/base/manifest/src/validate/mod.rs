//! The rules that a spec must keep and that need no cell to be judged. They are stated on the model's types, so that
//! whoever takes specs from elsewhere can ask, too; every violation names its field as a job file would.

mod budget;
mod findings;
mod group;
mod job;
mod names;
mod provisioning;
mod quota;
mod rest;

pub use findings::Violation;
pub use job::job;
pub use quota::{queue, resource_flavor, scheduling, subqueue};
pub use rest::{node, topology};

pub(crate) use budget::budget;
pub(crate) use provisioning::provisioning_class;
pub(crate) use rest::{namespace, priority_class, scheduling_profile, used};
