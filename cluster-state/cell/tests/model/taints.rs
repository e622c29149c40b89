//! Taints that people put on nodes, and how long they are tolerated, in the plain model.

use crate::life::NOBODY;
use crate::state::{Alarm, Plain, PlainNode, PlainRun};
use ohm_model::{Command, NodeId, StopCause, Taint, TaintEffect, TaintPattern, Toleration, TolerationOperator};

/// Whether a toleration speaks of the taint.
fn speaks_of(one: &Toleration, taint: &Taint) -> bool {
    let anything = one.operator == TolerationOperator::Exists;
    let key = one.key == taint.key || (anything && one.key.is_empty());
    let number = |text: &str| text.parse::<i64>().ok();
    let value = match one.operator {
        TolerationOperator::Exists => true,
        TolerationOperator::Equal => one.value == taint.value,
        TolerationOperator::Gt => number(&taint.value) > number(&one.value) && number(&one.value).is_some(),
        TolerationOperator::Lt => number(&taint.value).is_some() && number(&taint.value) < number(&one.value),
    };
    key && value && one.effect.is_none_or(|effect| effect == taint.effect)
}

impl PlainNode {
    /// The taints of the node itself that drive away.
    fn driving(&self) -> impl Iterator<Item = &Taint> {
        self.spec.taints.iter().chain(&self.put).filter(|taint| taint.effect == TaintEffect::NoExecute)
    }
}

impl Plain {
    /// When the node's own taints drive the run away, in stamped time.
    pub(crate) fn leaves_at(&self, run: &PlainRun) -> Option<u64> {
        let (node, job) = (&self.nodes[&run.node], &self.jobs[&run.job]);
        let tolerations = job.filtered(self.group_of(run)).tolerations;
        let due = |taint: &Taint| match tolerations.iter().find(|one| speaks_of(one, taint)) {
            None => Some(0),
            Some(first) => {
                let came_ms = node.since.get(taint).copied().unwrap_or(self.now_ms).max(run.placed_ms);
                first.toleration_seconds.map(|seconds| if seconds == 0 { 0 } else { came_ms + seconds * 1000 })
            }
        };
        node.driving().filter_map(due).min()
    }

    pub(crate) fn stop_repelled(&mut self, node: NodeId) {
        let is_due = |plain: &Plain, run: &PlainRun| plain.leaves_at(run).is_some_and(|due_ms| due_ms <= plain.now_ms);
        if self.nodes.contains_key(&node) {
            self.stop_where(node, StopCause::Moved, is_due);
        }
    }

    /// Rings when the next run there has to leave.
    pub(crate) fn watch_tolerations(&mut self, node: NodeId) {
        if !self.nodes.contains_key(&node) {
            return;
        }
        let staying = self.runs_on(node).filter(|run| run.stop.is_none());
        let due = staying.filter_map(|run| self.leaves_at(run)).filter(|due_ms| *due_ms > self.now_ms).min();
        due.into_iter().for_each(|due_ms| self.alarm(due_ms, Alarm::Toleration(node)));
    }

    /// Since when nodes have what they have now; called after each command.
    pub(crate) fn date_taints(&mut self) {
        for node in self.nodes.values_mut() {
            let taints = node.taints();
            node.since.retain(|taint, _| taints.contains(taint));
            taints.into_iter().for_each(|taint| _ = node.since.entry(taint).or_insert(self.now_ms));
        }
    }

    /// Whether the command was taken.
    pub(crate) fn follow_taint(&mut self, command: &Command) -> bool {
        match command {
            Command::TaintNode { name, taint } => self.find_node(name).is_some_and(|node| self.taint(node, taint)),
            Command::UntaintNode { name, pattern } => {
                self.find_node(name).is_some_and(|node| self.untaint(node, pattern))
            }
            _ => false,
        }
    }

    fn taint(&mut self, id: NodeId, taint: &Taint) -> bool {
        let node = self.nodes.get_mut(&id).expect("a node");
        let mut own = node.spec.taints.iter().chain(&node.put);
        if own.any(|known| known.key == taint.key && known.effect == taint.effect) {
            return false;
        }
        node.put.push(taint.clone());
        self.touch(id, NOBODY);
        self.stop_repelled(id);
        self.watch_tolerations(id);
        true
    }

    fn untaint(&mut self, id: NodeId, pattern: &TaintPattern) -> bool {
        let node = self.nodes.get_mut(&id).expect("a node");
        let before = node.put.len();
        node.put.retain(|taint| !pattern.matches(taint));
        let some = node.put.len() < before;
        if some {
            self.touch(id, NOBODY);
            self.stop_repelled(id);
            self.watch_tolerations(id);
        }
        some
    }
}
