//! What an entry caused.

use crate::apply::freed::Freed;
use ohm_model::{Class, Event, JobId, NodeId, Outcome};

/// What an entry caused. Keep one and hand it in again; `Cell::apply` clears it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// One outcome per command, in order.
    pub outcomes: Vec<Outcome>,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// Nodes whose columns, record or runs changed; may repeat.
    pub nodes: Vec<NodeId>,
    /// Jobs that changed in any way; may repeat.
    pub jobs: Vec<JobId>,
    /// What was given back.
    pub freed: Freed,
    /// The class of each transaction that was judged, in order.
    pub judged: Vec<Class>,
}
