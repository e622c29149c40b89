//! P1: no commit takes a node over its capacity. Books: what each node said it has, what each placed task asked for.

use crate::books::Books;
use crate::facts::Fact;
use crate::history::Broken;
use crate::rooms::users_of_ports;
use ohm_model::{Amounts, EventKind, GroupSpec, HostPort, Index, NodeId, resources};
use std::collections::BTreeMap;

#[derive(Default)]
struct Node {
    capacity: Amounts,
    used: Amounts,
    ports: BTreeMap<HostPort, u32>,
}

/// The books of all nodes and jobs.
#[derive(Default)]
pub(crate) struct Capacity {
    nodes: BTreeMap<NodeId, Node>,
}

impl Capacity {
    /// Judges one fact; `books` knows of it already.
    pub(crate) fn watch(&mut self, index: Index, fact: &Fact<'_>, books: &Books, broken: &mut Vec<Broken>) {
        match *fact {
            Fact::Registered { node, spec, .. } => {
                self.nodes.entry(node).or_default().capacity = spec.capacity.clone();
            }
            // What stands of an updated job asks for the same as before.
            Fact::Submitted { .. } | Fact::Updated { .. } => {}
            Fact::Happened { kind, .. } => match *kind {
                EventKind::Placed { job, group, first, count, node } => {
                    for made in (first..first + count).filter_map(|task| books.made_of(job, group, task)) {
                        self.take(made, node, 1);
                    }
                    // What starts again in place takes what it has given back.
                    if !(first..first + count).all(|task| books.has_restarted(job, group, task)) {
                        self.check(index, node, broken);
                    }
                }
                EventKind::Ended { job, group, task, node, .. } => {
                    books.made_of(job, group, task).into_iter().for_each(|made| self.take(made, node, -1));
                }
                _ => {}
            },
        }
    }

    fn take(&mut self, spec: &GroupSpec, node: NodeId, count: i64) {
        let Some(node) = self.nodes.get_mut(&node) else { return };
        for (resource, amount) in &spec.requests {
            *node.used.entry(resource.clone()).or_insert(0) += amount * count;
        }
        *node.used.entry(resources::PODS.to_string()).or_insert(0) += count;
        for port in &spec.ports {
            let users = node.ports.entry(*port).or_insert(0);
            *users = users.saturating_add_signed(count as i32);
        }
    }

    /// A node that just received work must have room for all it holds, also one that shrank before.
    fn check(&self, index: Index, node: NodeId, broken: &mut Vec<Broken>) {
        let Some(found) = self.nodes.get(&node) else {
            return broken.push(Broken::new("P1", format!("entry {index} places on node {node}, never registered")));
        };
        for (resource, used) in &found.used {
            let capacity = found.capacity.get(resource).copied().unwrap_or(0);
            if *used > capacity {
                let what = format!("entry {index}: node {node} holds {used} {resource} of {capacity}");
                broken.push(Broken::new("P1", what));
            }
        }
        if let Some((port, users)) = users_of_ports(&found.ports).find(|(_, users)| *users > 1) {
            broken.push(Broken::new("P1", format!("entry {index}: port {port} of node {node} has {users} users")));
        }
    }
}
