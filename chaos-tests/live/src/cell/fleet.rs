//! The simulated nodes of a cell: what they are, and which of them are down.

use crate::error::LiveError;
use crate::scenario::{RACKS_PER_BLOCK, Shape};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

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

/// Where the process of the simulated nodes looks for those that are to be down.
#[derive(Debug)]
pub(super) struct Marks {
    folder: PathBuf,
}

impl Marks {
    /// The marks of the cell in `folder`.
    pub(super) fn of(folder: &Path) -> Self {
        Marks { folder: folder.join("fleet").join("down") }
    }

    pub(super) fn put(&self, nodes: &[String]) -> Result<(), LiveError> {
        let failed = |error| LiveError::Io(self.folder.display().to_string(), error);
        fs::create_dir_all(&self.folder).map_err(failed)?;
        nodes.iter().try_for_each(|node| fs::write(self.folder.join(node), "").map_err(failed))
    }

    pub(super) fn take_away(&self, nodes: &[String]) {
        // What is not there any more is up already.
        nodes.iter().for_each(|node| drop(fs::remove_file(self.folder.join(node))));
    }

    pub(super) fn take_all_away(&self) {
        let marks = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        marks.for_each(|mark| drop(fs::remove_file(mark.path())));
    }
}
