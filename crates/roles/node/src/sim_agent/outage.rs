//! Nodes of the fleet that are down on purpose: their machine is gone with all that ran on it, without a word, until it
//! boots again.
//!
//! Who wants a node down makes a file of its name in the folder `down` of the process's data folder, and removes it to
//! boot the node again; what stands in it does not matter. The files outlive the process.

use super::fleet::Fleet;
use ohm_agent::{AgentInput, DriverInput};
use ohm_runtime::recorder::Happened;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Between two looks into the folder, in milliseconds.
const LOOK_MS: u64 = 50;

/// The folder that says which nodes are to be down.
pub(super) struct Marks {
    folder: PathBuf,
    known: BTreeSet<String>,
    next_ms: u64,
}

impl Marks {
    pub(super) fn new(folder: &Path) -> Self {
        Marks { folder: folder.to_path_buf(), known: BTreeSet::new(), next_ms: 0 }
    }

    /// How long until the next look.
    pub(super) fn pause_ms(&self, now_ms: u64) -> u64 {
        self.next_ms.saturating_sub(now_ms)
    }

    /// The names of all nodes that are to be down, if it is time to look and they are others than before.
    pub(super) fn changed(&mut self, now_ms: u64) -> Option<&BTreeSet<String>> {
        if self.pause_ms(now_ms) > 0 {
            return None;
        }
        self.next_ms = now_ms + LOOK_MS;
        // Without the folder nobody has wished anything yet.
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let marks: BTreeSet<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        if marks == self.known {
            return None;
        }
        self.known = marks;
        Some(&self.known)
    }
}

impl Fleet {
    /// Makes the nodes of these names be down, and all others be up.
    pub(super) fn keep_down(&mut self, now_ms: u64, down: &BTreeSet<String>) {
        for local in 0..self.nodes.len() {
            match (self.nodes[local].is_down, down.contains(&self.nodes[local].name)) {
                (false, true) => self.go_down(now_ms, local),
                (true, false) => self.boot(now_ms, local),
                _ => {}
            }
        }
    }

    /// Whether all nodes are down.
    pub(super) fn is_down(&self) -> bool {
        self.nodes.iter().all(|node| node.is_down)
    }

    fn go_down(&mut self, now_ms: u64, local: usize) {
        // What was due before it died happened.
        self.drive(now_ms, local, DriverInput::Tick);
        let node = &mut self.nodes[local];
        for run in node.driver.live() {
            self.recorder.write_at(now_ms, Happened::Over { node: node.name.clone(), run });
        }
        tracing::info!(node = node.name, "down");
        (node.agent, node.driver) = (self.makers.agent(), self.makers.driver());
        node.is_down = true;
        self.superseded -= usize::from(std::mem::take(&mut node.is_superseded));
        if let Some(due_ms) = node.due_ms.take() {
            self.agenda.remove(&(due_ms, local));
        }
        self.by_node.retain(|_, of| *of != local);
    }

    fn boot(&mut self, now_ms: u64, local: usize) {
        let node = &mut self.nodes[local];
        node.is_down = false;
        node.boot += 1;
        tracing::info!(node = node.name, "boots");
        self.drive(now_ms, local, DriverInput::Attach);
        if self.is_connected {
            self.step(now_ms, local, AgentInput::Connected);
        }
    }
}
