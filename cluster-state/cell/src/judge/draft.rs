//! The quota tree as it would stand after the rows accepted so far: a draft of the few queues a transaction touches,
//! each loaded once, so that judging a row looks up no names.

use crate::quota::{Level, Quota, USAGE_MAX};
use crate::resources::ResourceNames;
use ohm_model::ResourceId;
use std::collections::BTreeMap;

/// Usage of the queues of one transaction and of the cohorts above them.
#[derive(Debug, Default)]
pub(super) struct QuotaDraft {
    nodes: Vec<DraftNode>,
    by_name: BTreeMap<String, u32>,
    last: u32,
}

#[derive(Debug)]
struct DraftNode {
    name: String,
    parent: Option<u32>,
    columns: Vec<Level>,
}

impl QuotaDraft {
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.by_name.clear();
    }

    /// The handle of `queue`, with everything above it loaded.
    pub(super) fn open(&mut self, quota: &Quota, resources: &ResourceNames, queue: &str) -> u32 {
        if self.nodes.get(self.last as usize).is_none_or(|node| node.name != queue) {
            self.last = self.load(quota, resources, queue, 0);
        }
        self.last
    }

    fn load(&mut self, quota: &Quota, resources: &ResourceNames, name: &str, depth: usize) -> u32 {
        if let Some(&known) = self.by_name.get(name) {
            return known;
        }
        let found = quota.get(name);
        let parent = found.map(|node| node.spec.parent.as_str()).filter(|parent| !parent.is_empty());
        let parent = parent.filter(|_| depth < crate::quota::DEPTH_MAX);
        let parent = parent.map(|parent| self.load(quota, resources, parent, depth + 1));
        let columns = (0..resources.len() as u16).map(|column| match found {
            Some(node) => node.level(resources.name(ResourceId(column))),
            None => Level::default(),
        });
        self.nodes.push(DraftNode { name: name.to_string(), parent, columns: columns.collect() });
        let handle = (self.nodes.len() - 1) as u32;
        self.by_name.insert(name.to_string(), handle);
        handle
    }

    /// How much more of `resource` the queue may use. Where nothing limits it, what sums can still hold.
    pub(super) fn available(&self, queue: u32, resource: ResourceId) -> i64 {
        let (spare, room_in_sums) = self.spare(queue, resource);
        let limited = self.level(queue, resource).is_some_and(|level| level.limited);
        if limited { spare.min(room_in_sums) } else { room_in_sums }
    }

    fn spare(&self, at: u32, resource: ResourceId) -> (i64, i64) {
        let above = self.nodes[at as usize].parent.map(|parent| self.spare(parent, resource));
        let Some(level) = self.level(at, resource) else { return (0, USAGE_MAX) };
        let room_in_sums = (USAGE_MAX - level.usage).min(above.map_or(USAGE_MAX, |(_, room)| room));
        (level.spare(above.map(|(spare, _)| spare)), room_in_sums)
    }

    fn level(&self, at: u32, resource: ResourceId) -> Option<&Level> {
        self.nodes[at as usize].columns.get(usize::from(resource.0))
    }

    /// Adds `amount` to the usage of the queue and whatever passes its own to those above; negative gives back.
    pub(super) fn charge(&mut self, queue: u32, resource: ResourceId, amount: i64) {
        let (mut at, mut amount) = (Some(queue), amount);
        while let Some(here) = at
            && amount != 0
        {
            let node = &mut self.nodes[here as usize];
            let Some(level) = node.columns.get_mut(usize::from(resource.0)) else { return };
            amount = level.charge(amount);
            at = node.parent;
        }
    }
}
