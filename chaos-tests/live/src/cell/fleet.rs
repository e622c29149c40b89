//! The simulated nodes of a cell: what they are, and which of them are down.

use super::Cell;
use crate::LiveError;
use crate::scenario::{RACKS_PER_BLOCK, Shape};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

const BLOCK: &str = "topology.ohm/block";
pub(super) const RACK: &str = "topology.ohm/rack";

/// Simulated nodes as documents. Those in racks hold two of our tasks each, so that a gang needs many of them.
pub(super) fn documents(shape: &Shape) -> String {
    let mut text = String::new();
    for (rack, nodes) in shape.racks().into_iter().enumerate() {
        let (labels, cpu) = match shape.nodes_per_rack {
            Some(_) => (format!(", {BLOCK}: block-{}, {RACK}: rack-{rack}", rack / RACKS_PER_BLOCK), "200m"),
            None => (String::new(), "1"),
        };
        for number in nodes {
            let name = Shape::simulated_name(number);
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "---\napiVersion: ohm/v1\nkind: Node\nmetadata: {{name: {name}, labels: {{pool: simulated{labels}}}}}\n\
                 status: {{capacity: {{cpu: {cpu}, memory: 1Gi, pods: 20}}}}"
            );
        }
    }
    text
}

/// The levels that the racks belong to.
pub(super) fn topology() -> Value {
    let levels = [BLOCK, RACK, "kubernetes.io/hostname"].map(|label| json!({ "nodeLabel": label }));
    json!({
        "apiVersion": "ohm/v1",
        "kind": "Topology",
        "metadata": { "name": "default" },
        "spec": { "levels": levels },
    })
}

impl Cell {
    /// Where the process of the simulated nodes looks for those that are to be down.
    fn marks(&self) -> PathBuf {
        self.folder.join("fleet").join("down")
    }

    pub(super) fn mark_down(&self, nodes: &[String]) -> Result<(), LiveError> {
        let marks = self.marks();
        let failed = |error| LiveError::Io(marks.display().to_string(), error);
        fs::create_dir_all(&marks).map_err(failed)?;
        nodes.iter().try_for_each(|node| fs::write(marks.join(node), "").map_err(failed))
    }

    pub(super) fn mark_up(&self, nodes: &[String]) {
        // What is not there any more is up already.
        nodes.iter().for_each(|node| drop(fs::remove_file(self.marks().join(node))));
    }

    pub(super) fn mark_all_up(&self) {
        let marks = fs::read_dir(self.marks()).into_iter().flatten().flatten();
        marks.for_each(|mark| drop(fs::remove_file(mark.path())));
    }
}
