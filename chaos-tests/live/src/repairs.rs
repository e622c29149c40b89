//! What nodes took with them, and how soon it was back.

use crate::history::History;
use ohm_model::{EventKind, NodeHealth};
use ohm_oracle::Record;
use serde::Serialize;

/// Losses and repairs of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Repairs {
    /// How often a node was declared lost.
    pub nodes_lost: usize,
    /// Tasks that were lost with nodes.
    pub tasks_lost: u64,
    /// Repairs that were committed.
    pub committed: usize,
    /// Tasks that they moved.
    pub moved: u64,
    /// How long jobs took from a loss until all of it ran again, in milliseconds, shortest first.
    pub took_ms: Vec<u64>,
    /// Gangs that were evicted whole because they could not be repaired.
    pub given_up: usize,
    /// The longest time for which a job waited although it fitted, in milliseconds.
    pub longest_idle_ms: u64,
}

impl Repairs {
    /// Counts what the log tells.
    pub fn of(history: &History, longest_idle_ms: u64) -> Self {
        let mut repairs = Repairs { longest_idle_ms, ..Repairs::default() };
        for record in &history.records {
            let Record::Applied { applied, .. } = record else { continue };
            applied.events.iter().for_each(|event| repairs.note(&event.kind));
        }
        repairs.took_ms.sort_unstable();
        repairs
    }

    fn note(&mut self, kind: &EventKind) {
        match kind {
            EventKind::NodeHealth { health: NodeHealth::Lost, .. } => self.nodes_lost += 1,
            EventKind::TasksLost { tasks, .. } => self.tasks_lost += u64::from(*tasks),
            EventKind::RepairCommitted { moves, .. } => {
                self.committed += 1;
                self.moved += moves.iter().map(|one| u64::from(one.count)).sum::<u64>();
            }
            EventKind::Repaired { took_ms, .. } => self.took_ms.push(*took_ms),
            EventKind::RepairFailed { .. } => self.given_up += 1,
            _ => {}
        }
    }

    /// For people; nothing where nothing was lost.
    pub fn text(&self) -> Vec<String> {
        if self.tasks_lost == 0 {
            return Vec::new();
        }
        let Repairs { nodes_lost, tasks_lost, committed, moved, took_ms, given_up, longest_idle_ms } = self;
        let median_ms = took_ms.get(took_ms.len() / 2).copied().unwrap_or(0);
        let slowest_ms = took_ms.last().copied().unwrap_or(0);
        vec![
            format!("{tasks_lost} tasks lost, {nodes_lost} nodes declared lost, {given_up} gangs given up"),
            format!(
                "{committed} committed, {moved} tasks moved; longest wait of a job that fitted {longest_idle_ms} ms"
            ),
            format!("{} jobs whole again: median {median_ms} ms, slowest {slowest_ms} ms", took_ms.len()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_model::JobId;

    #[test]
    fn figures_are_told_when_something_was_lost() {
        let mut repairs = Repairs::default();
        assert!(repairs.text().is_empty());
        let (job, name) = (JobId(1), String::new());
        repairs.note(&EventKind::TasksLost { job, name: name.clone(), tasks: 3, standing: 1, nodes: Vec::new() });
        repairs.note(&EventKind::Repaired { job, name, tasks: 3, took_ms: 40 });
        assert!(repairs.text()[0].starts_with("3 tasks lost") && repairs.text()[2].ends_with("slowest 40 ms"));
    }
}
