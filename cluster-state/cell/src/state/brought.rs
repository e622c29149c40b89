//! Nodes that were brought for a request, and the requests that are open.
//!
//! A node says by its labels what it was brought for. While its request is open and something of the job waits to be
//! placed, a taint keeps it for the job; a node of an exclusive class keeps that taint. When nothing is on it and
//! nobody is about to use it, it goes back: see `release.rs`.

use crate::state::job_store::Jobs;
use crate::state::jobs::Job;
use crate::state::nodes::Nodes;
use ohm_model::brought::{CLASS_LABEL, REQUEST_LABEL};
use ohm_model::selector::Labels;
use ohm_model::{JobId, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a node was brought for, as its labels say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BroughtFor<'a> {
    /// The label of the request.
    pub(crate) request: &'a str,
    /// The provisioning class; empty when the node does not say.
    pub(crate) class: &'a str,
}

impl<'a> BroughtFor<'a> {
    /// What a node with these labels was brought for, if it was.
    pub(crate) fn of(labels: &'a Labels) -> Option<Self> {
        let request = labels.get(REQUEST_LABEL)?;
        Some(BroughtFor { request, class: labels.get(CLASS_LABEL).map_or("", String::as_str) })
    }
}

/// Which nodes were brought for which request, and which requests are open. Derived from nodes and jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Brought {
    nodes: Arc<BTreeMap<String, BTreeSet<NodeId>>>,
    requests: Arc<BTreeMap<String, (JobId, String)>>,
}

impl Brought {
    /// What nodes and jobs say.
    pub(crate) fn of(nodes: &Nodes, jobs: &Jobs) -> Self {
        let mut brought = Brought::default();
        nodes.iter().for_each(|(node, record)| brought.add_node(node, &record.spec.labels));
        jobs.iter().for_each(|job| brought.open(job));
        brought
    }

    /// Whether no node was brought.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// A node with these labels is there.
    pub(crate) fn add_node(&mut self, node: NodeId, labels: &Labels) {
        if let Some(brought) = BroughtFor::of(labels) {
            Arc::make_mut(&mut self.nodes).entry(brought.request.to_string()).or_default().insert(node);
        }
    }

    /// The node does not have these labels any more.
    pub(crate) fn remove_node(&mut self, node: NodeId, labels: &Labels) {
        let Some(brought) = BroughtFor::of(labels) else { return };
        let nodes = Arc::make_mut(&mut self.nodes);
        if let Some(of_request) = nodes.get_mut(brought.request) {
            of_request.remove(&node);
            if of_request.is_empty() {
                nodes.remove(brought.request);
            }
        }
    }

    /// The requests of the open round of `job` are open.
    pub(crate) fn open(&mut self, job: &Job) {
        for check in job.admission.round.iter().flat_map(|round| &round.checks) {
            Arc::make_mut(&mut self.requests).insert(check.request.clone(), (job.id, check.class.clone()));
        }
    }

    /// They are over.
    pub(crate) fn close(&mut self, job: &Job) {
        for check in job.admission.round.iter().flat_map(|round| &round.checks) {
            Arc::make_mut(&mut self.requests).remove(&check.request);
        }
    }

    /// The nodes that were brought for the request with this label.
    pub(crate) fn nodes_for(&self, request: &str) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.get(request).into_iter().flatten().copied()
    }

    /// All nodes that were brought.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.values().flatten().copied()
    }

    /// Who made the request with this label, and its class, while it is open.
    pub(crate) fn request(&self, request: &str) -> Option<(JobId, &str)> {
        self.requests.get(request).map(|(job, class)| (*job, class.as_str()))
    }
}
