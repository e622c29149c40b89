//! What fits where: tasks and slices by domain, from the nodes up.
//!
//! ```text
//! node:   tasks            = what fits on it
//! above:  tasks            = Σ of children, each cut to whole inner slices
//! slices: at their level   = tasks / size;  above it Σ of children;  below it 0
//! leader: tasks beside it  = tasks − the least that any child able to host it loses by it
//! ```
//!
//! A change of one node is carried up as a difference, so counts of a large cell are kept, not made anew.

use super::{Layers, Tree};
use std::sync::Arc;

/// What one domain takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Tasks.
    pub tasks: u64,
    /// Slices.
    pub slices: u64,
    /// Tasks beside the leader.
    pub tasks_beside: u64,
    /// Slices beside the leader.
    pub slices_beside: u64,
    /// Whether it can host the leader.
    pub hosts: bool,
    /// The weight of preferred affinity terms that its nodes meet, summed up.
    pub affinity: u64,
}

/// What changes where the leader stands in a domain, by level and offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Beside {
    tasks: Vec<Vec<u64>>,
    slices: Vec<Vec<u64>>,
    hosts: Vec<Vec<bool>>,
}

/// What fits, by level and position: over a whole tree, or over one domain of it and what is below.
#[derive(Clone, Debug)]
pub struct Counts {
    tree: Arc<Tree>,
    layers: Layers,
    /// The highest level counted.
    top: usize,
    /// Whether one domain of the top level is counted and not all.
    is_part: bool,
    /// By level: the first position counted.
    start: Vec<u32>,
    tasks: Vec<Vec<u64>>,
    slices: Vec<Vec<u64>>,
    /// Empty when no affinity is preferred.
    affinity: Vec<Vec<u64>>,
    /// Nothing while no leader is asked for.
    beside: Option<Beside>,
}

impl Counts {
    /// Counts over the whole tree, from what fits on each node by position of the node level.
    pub fn new(tree: &Arc<Tree>, layers: Layers, on_nodes: Vec<u64>) -> Self {
        let start = vec![0; tree.node_level() + 1];
        Counts::build(tree, layers, (0, false), start, on_nodes)
    }

    /// Counts over the domain at `position` of `level` alone, cut by `layers`.
    pub fn within(&self, layers: Layers, level: usize, position: u32) -> Self {
        let (tree, node_level) = (&self.tree, self.tree.node_level());
        let mut start = vec![0; node_level + 1];
        let mut range = position..position + 1;
        for (at, start) in start.iter_mut().enumerate().skip(level) {
            *start = range.start;
            range = tree.children_of(at, range);
        }
        let nodes = tree.nodes_below(level, position);
        let on_nodes = nodes.clone().map(|at| self.at(node_level, at).tasks).collect();
        let mut counts = Counts::build(tree, layers, (level, true), start, on_nodes);
        if !self.affinity.is_empty() {
            counts.set_affinities(nodes.map(|at| self.at(node_level, at).affinity).collect());
        }
        counts
    }

    fn build(
        tree: &Arc<Tree>,
        layers: Layers,
        (top, is_part): (usize, bool),
        start: Vec<u32>,
        on_nodes: Vec<u64>,
    ) -> Self {
        let node_level = tree.node_level();
        let mut counts = Counts {
            tree: Arc::clone(tree),
            layers,
            top,
            is_part,
            start,
            tasks: vec![Vec::new(); node_level + 1],
            slices: vec![Vec::new(); node_level + 1],
            affinity: Vec::new(),
            beside: None,
        };
        let cut = |tasks: &u64| tasks / counts.layers.size.max(1);
        let is_cut = counts.layers.level == node_level;
        counts.slices[node_level] = on_nodes.iter().map(|tasks| if is_cut { cut(tasks) } else { 0 }).collect();
        counts.tasks[node_level] = on_nodes;
        for level in (top..node_level).rev() {
            let (tasks, slices) = counts.sums(level, &counts.tasks[level + 1], &counts.slices[level + 1]);
            (counts.tasks[level], counts.slices[level]) = (tasks, slices);
        }
        counts
    }

    /// The positions of `level` whose parents are counted, with the children's range in offsets of the level below.
    fn families(&self, level: usize) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        let below = self.start[level + 1] as usize;
        let first = self.start[level] as usize;
        let is_one = level == self.top && self.is_part;
        let length = if is_one { 1 } else { self.tree.level(level).len() - first };
        let last = self.tasks[level + 1].len();
        let places = self.tree.level(level)[first..first + length].iter();
        let ranges =
            places.map(move |place| place.children.start as usize - below..place.children.end as usize - below);
        ranges.take_while(move |range| range.end <= last)
    }

    /// Sums over children for each domain of `level`.
    fn sums(&self, level: usize, tasks: &[u64], slices: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let inner = self.layers.inner(level + 1);
        let mut sums = (Vec::new(), Vec::new());
        for family in self.families(level) {
            let all: u64 = match inner {
                1 => tasks[family.clone()].iter().sum(),
                _ => tasks[family.clone()].iter().map(|tasks| tasks / inner * inner).sum(),
            };
            sums.0.push(all);
            sums.1.push(self.slices_of(level, all, slices[family].iter().sum()));
        }
        sums
    }

    fn slices_of(&self, level: usize, tasks: u64, of_children: u64) -> u64 {
        match level.cmp(&self.layers.level) {
            std::cmp::Ordering::Less => of_children,
            std::cmp::Ordering::Equal => tasks / self.layers.size.max(1),
            std::cmp::Ordering::Greater => 0,
        }
    }

    /// The tree counted.
    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// How tasks are cut.
    pub fn layers(&self) -> &Layers {
        &self.layers
    }

    /// The highest level counted.
    pub fn top(&self) -> usize {
        self.top
    }

    /// The positions of `level` that are counted.
    pub fn positions(&self, level: usize) -> std::ops::Range<u32> {
        let start = self.start.get(level).copied().unwrap_or(0);
        start..start + self.tasks.get(level).map_or(0, Vec::len) as u32
    }

    /// What fits at `position` of `level`. Without a leader, everything stands beside it.
    pub fn at(&self, level: usize, position: u32) -> Count {
        let Some(offset) = self.offset(level, position) else { return Count::default() };
        let (tasks, slices) = (self.tasks[level][offset], self.slices[level][offset]);
        let affinity = self.affinity.get(level).map_or(0, |affinity| affinity[offset]);
        match &self.beside {
            None => Count { tasks, slices, tasks_beside: tasks, slices_beside: slices, hosts: true, affinity },
            Some(beside) => Count {
                tasks,
                slices,
                tasks_beside: beside.tasks[level][offset],
                slices_beside: beside.slices[level][offset],
                hosts: beside.hosts[level][offset],
                affinity,
            },
        }
    }

    /// Whether any affinity is preferred.
    pub fn has_affinity(&self) -> bool {
        !self.affinity.is_empty()
    }

    fn offset(&self, level: usize, position: u32) -> Option<usize> {
        let offset = position.checked_sub(*self.start.get(level)?)? as usize;
        (offset < self.tasks[level].len()).then_some(offset)
    }

    /// Changes what fits on one node; returns what fitted before.
    pub fn set(&mut self, position: u32, room: u64) -> u64 {
        let mut level = self.tree.node_level();
        let Some(mut offset) = self.offset(level, position) else { return 0 };
        let before = self.tasks[level][offset];
        let mut at = position;
        let (mut tasks, mut slices) = (room, self.slices_of(level, room, 0));
        loop {
            let old_tasks = std::mem::replace(&mut self.tasks[level][offset], tasks);
            let old_slices = std::mem::replace(&mut self.slices[level][offset], slices);
            if level == self.top || (old_tasks == tasks && old_slices == slices) {
                return before;
            }
            let inner = self.layers.inner(level);
            at = self.tree.level(level)[at as usize].parent;
            level -= 1;
            let Some(above) = self.offset(level, at) else { return before };
            offset = above;
            let of_children = (self.slices[level][offset] + slices).saturating_sub(old_slices);
            tasks = self.tasks[level][offset] + tasks / inner * inner - old_tasks / inner * inner;
            slices = self.slices_of(level, tasks, of_children);
        }
    }

    /// Takes note of the preferred affinity of each counted node, by offset.
    pub fn set_affinities(&mut self, on_nodes: Vec<u64>) {
        let node_level = self.tree.node_level();
        self.affinity = vec![Vec::new(); node_level + 1];
        self.affinity[node_level] = on_nodes;
        for level in (self.top..node_level).rev() {
            let sums = self.families(level).map(|family| self.affinity[level + 1][family].iter().sum()).collect();
            self.affinity[level] = sums;
        }
    }

    /// Changes the preferred affinity of one node.
    pub fn set_affinity(&mut self, position: u32, affinity: u64) {
        let (mut level, mut at) = (self.tree.node_level(), position);
        let Some(offset) = self.offset(level, position) else { return };
        let before = self.affinity[level][offset];
        while let Some(offset) = self.offset(level, at) {
            self.affinity[level][offset] = self.affinity[level][offset] + affinity - before;
            if level == self.top {
                break;
            }
            at = self.tree.level(level)[at as usize].parent;
            level -= 1;
        }
    }

    /// Counts what stays beside a leader: `on_node` says for a position of the node level what fits beside a leader
    /// there; nothing where no leader fits.
    pub fn set_leader(&mut self, on_node: impl Fn(u32) -> Option<u64>) {
        let node_level = self.tree.node_level();
        let empty = || vec![Vec::new(); node_level + 1];
        let mut beside = Beside { tasks: empty(), slices: empty(), hosts: vec![Vec::new(); node_level + 1] };
        for position in self.positions(node_level) {
            let found = on_node(position);
            let tasks = found.unwrap_or_else(|| self.at(node_level, position).tasks);
            beside.tasks[node_level].push(tasks);
            beside.slices[node_level].push(self.slices_of(node_level, tasks, 0));
            beside.hosts[node_level].push(found.is_some());
        }
        for level in (self.top..node_level).rev() {
            let inner = self.layers.inner(level + 1);
            let below = (&self.tasks[level + 1], &self.slices[level + 1]);
            let (mut tasks_here, mut slices_here, mut hosts_here) = (Vec::new(), Vec::new(), Vec::new());
            for (at, family) in self.families(level).enumerate() {
                let cut = |tasks: u64| tasks / inner * inner;
                let able = family.filter(|child| beside.hosts[level + 1][*child]);
                let losses = able.map(|child| {
                    let tasks = cut(below.0[child]).saturating_sub(cut(beside.tasks[level + 1][child]));
                    (tasks, below.1[child].saturating_sub(beside.slices[level + 1][child]))
                });
                let least = losses.fold(None, |least: Option<(u64, u64)>, loss| {
                    Some(least.map_or(loss, |least| (least.0.min(loss.0), least.1.min(loss.1))))
                });
                let (tasks, slices) = match least {
                    None => (0, 0),
                    Some((tasks, slices)) => {
                        let tasks = self.tasks[level][at] - tasks;
                        (tasks, self.slices_of(level, tasks, self.slices[level][at].saturating_sub(slices)))
                    }
                };
                tasks_here.push(tasks);
                slices_here.push(slices);
                hosts_here.push(least.is_some());
            }
            beside.tasks[level] = tasks_here;
            beside.slices[level] = slices_here;
            beside.hosts[level] = hosts_here;
        }
        self.beside = Some(beside);
    }

    /// A copy that counts what stays beside a leader.
    pub(crate) fn clone_for_leader(&self, on_node: impl Fn(&Counts, u32) -> Option<u64>) -> Self {
        let mut counts = self.clone();
        counts.set_leader(|position| on_node(self, position));
        counts
    }

    /// Whether one domain alone is counted.
    pub fn is_part(&self) -> bool {
        self.is_part
    }

    /// What fits in all that is counted.
    pub fn total(&self) -> u64 {
        self.tasks.get(self.top).map_or(0, |tasks| tasks.iter().sum())
    }

    /// How many slices of `size` the domains of `slice_level` below `position` of `level` hold.
    pub fn slices_below(&self, level: usize, position: u32, slice_level: usize, size: u64) -> u64 {
        let mut range = position..position + 1;
        for at in level..slice_level {
            range = self.tree.children_of(at, range);
        }
        range.map(|at| self.at(slice_level, at).tasks / size.max(1)).sum()
    }
}
