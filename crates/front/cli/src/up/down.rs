//! Nodes that are kept down on purpose: one file for each in the data folder of the cell, written by `ohm chaos` and
//! looked at by `ohm up`. The files outlive both, so that a node stays down until somebody brings it up again.

use crate::failure::Failure;
use crate::globals::Globals;
use ohm_runtime::data_dir::{self, FLEET_NAMES_FILE};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// `ohm chaos node-down` and `node-up`.
#[derive(Clone, Debug, clap::Args)]
pub struct ChaosNode {
    /// The node's name
    #[arg(value_name = "NODE")]
    name: String,
}

/// Marks a node of the cell that `ohm up` runs, or a simulated one of a fleet that keeps its state in the data folder,
/// as down, or as up again.
pub(crate) fn mark(node: &ChaosNode, is_down: bool, globals: &Globals) -> Result<(), Failure> {
    let folder = globals.data_dir();
    let name = &node.name;
    let is_known = !name.contains('/') && name != ".." && folder.join("nodes").join(name).is_dir();
    if !is_known && !is_simulated(&folder, name) {
        let nodes = folder.join("nodes");
        return Err(Failure::Failed(format!("`ohm up` has no node {name}: see {}", nodes.display())));
    }
    let marks = folder.join("down");
    data_dir::create(&marks).map_err(|error| Failure::Failed(error.to_string()))?;
    let mark = marks.join(name);
    let done = if is_down { fs::write(&mark, "") } else { remove(&mark) };
    done.map_err(|error| Failure::io(mark.display().to_string(), error))?;
    println!("node {name} is {}", if is_down { "down" } else { "up" });
    Ok(())
}

/// Whether a fleet that keeps its state in `folder` has a node of this name.
fn is_simulated(folder: &Path, name: &str) -> bool {
    let fleets = fs::read_dir(folder.join("nodes")).into_iter().flatten().flatten();
    let mut lists = fleets.filter_map(|fleet| fs::read_to_string(fleet.path().join(FLEET_NAMES_FILE)).ok());
    lists.any(|names| names.lines().any(|known| known == name))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether the node called `name` is to be down.
pub(super) fn is_down(folder: &Path, name: &str) -> bool {
    folder.join("down").join(name).exists()
}

/// The shim of the node called `name`, if it runs. With it its tasks die.
pub(super) fn shim_of(folder: &Path, name: &str) -> Option<u32> {
    let shims: PathBuf = folder.join("nodes").join(name).join("shim");
    let text = fs::read_to_string(shims.join("shim.pid")).ok()?;
    let pid: u32 = text.split_whitespace().next()?.parse().ok()?;
    // The number may be somebody else's by now.
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let wanted = shims.display().to_string();
    arguments.split(|byte| *byte == 0).any(|word| word == wanted.as_bytes()).then_some(pid)
}
