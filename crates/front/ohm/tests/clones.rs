//! A copy of a node's folder on a second machine: only one of the two is ever the node, and nothing runs twice. Tasks
//! keep diaries.

use crate::cell;

use cell::diary::{self, assert_one_at_a_time, lives_of};
use cell::tasks::{identity, node, process};
use cell::{Cell, Killed, verify_log, wait};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const NODE: &str = "b1-r1-h1";

/// A second agent with the words of the first one, and a copy of its key in a folder of its own.
fn clone(cell: &Cell) -> Killed {
    let folder = cell.path("clone");
    let key = PathBuf::from(cell.data_dir()).join("nodes").join(NODE).join("node-key");
    fs::create_dir_all(folder.join("nodes").join(NODE)).unwrap();
    fs::copy(key, folder.join("nodes").join(NODE).join("node-key")).unwrap();
    let words = cell.child(&format!("agent --name {NODE}")).unwrap().arguments();
    let mut words: Vec<&str> = words.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "--data-dir").unwrap();
    let folder = folder.display().to_string();
    words[at + 1] = &folder;
    let mut command = Command::new(cell.path("ohm"));
    command.args(words).stdout(File::create(cell.path("clone.log")).unwrap());
    command.stderr(File::create(cell.path("clone.err")).unwrap());
    Killed::of(command.spawn().unwrap())
}

fn said(cell: &Cell, files: &[PathBuf]) -> String {
    let own = [cell.path("clone.log"), cell.path("clone.err")];
    let files = if files.is_empty() { &own } else { files };
    files.iter().map(|file| fs::read_to_string(file).unwrap_or_default()).collect()
}

#[test]
fn of_a_node_and_its_copy_one_is_acknowledged_at_a_time() {
    let mut cell = Cell::start(&["--shape", "1x1x2", "--node-lease-ms", "7000", "--duty-lease-ms", "1500"]);
    cell.wait_for_nodes(2);
    cell.submit(&diary::job(&cell, "work", "retries: 0, count: 2, minCount: 1, maxPerNode: 1"));
    let before = cell.wait_for_tasks("work");
    let processes: Vec<_> = before.iter().map(process).collect();
    let registration = |cell: &Cell| cell.json(&["node", "show", NODE])["incarnation"].clone();
    let first = registration(&cell);
    let original = cell.child(&format!("agent --name {NODE}")).unwrap();
    let _clone = clone(&cell);
    wait("the copy is refused and told what to do", || {
        let said = said(&cell, &[]);
        said.contains("not registered") && said.contains("remove the file `node-key`")
    });
    // Long enough that it has asked again, and that whatever it could do to the original has been done.
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!((registration(&cell), cell.child(&format!("agent --name {NODE}"))), (first.clone(), Some(original)));
    let identities = |tasks: &[serde_json::Value]| tasks.iter().map(identity).collect::<Vec<_>>();
    assert_eq!(identities(&cell.wait_for_tasks("work")), identities(&before));
    assert!(processes.iter().all(|process| process.is_alive()));

    // The original dies. Once it is lost, and not before, the copy may be the node.
    let moved = before.iter().position(|task| node(task) == NODE).unwrap();
    cell.ask(&["chaos", "node-down", NODE]).good();
    wait("the task runs on the copy", || lives_of(&cell, "work", moved).len() == 2);
    let taken = registration(&cell);
    assert_ne!(taken, first);
    cell.ask(&["chaos", "node-up", NODE]).good();
    let log = PathBuf::from(cell.data_dir()).join("logs").join(format!("{NODE}.log"));
    wait("the original is refused", || said(&cell, std::slice::from_ref(&log)).contains("not registered"));
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(registration(&cell), taken);
    let after = cell.wait_for_tasks("work");
    assert!(after.iter().all(|task| task["failures"] == 0), "not charged: {after:?}");
    for task in 0..2 {
        let lives = lives_of(&cell, "work", task);
        assert_one_at_a_time(&lives);
        assert_eq!(lives.len(), if task == moved { 2 } else { 1 });
    }
    diary::let_end(&cell);
    cell.wait_until_all_succeeded(&["work".to_string()], cell::SOON);
    verify_log(&cell.stop());
}
