//! A full disk under the data folder: nothing is acknowledged that is not there, everybody is told why, and work goes on
//! once there is room.

use crate::cell;

use cell::http::Http;
use cell::{Cell, verify_log, wait};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const DISK_BYTES: &str = "24m";
const NODES: usize = 10;
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than the leases of the control plane: they can't be renewed on a full disk, and must be won back afterwards.
const FULL_FOR: Duration = Duration::from_secs(6);

/// A small file system of its own, which goes with this value.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None where it may not be mounted.
    fn mount(at: &Path) -> Option<SmallDisk> {
        fs::create_dir(at).unwrap();
        let options = format!("size={DISK_BYTES},mode=0700");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "ohm-test"]).arg(at).output();
        mounted.is_ok_and(|output| output.status.success()).then(|| SmallDisk(at.to_path_buf()))
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }

    /// Writes until nothing more goes in.
    fn fill(&self) {
        let mut file = File::options().create(true).append(true).open(self.ballast()).unwrap();
        for size in [1 << 20, 4096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }

    fn make_room(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: whoever still has a file open keeps that, and nothing else.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn jobs(prefix: &str, count: usize) -> String {
    let job = |number| {
        format!(
            "---\napiVersion: ohm/v1\nkind: Job\nmetadata: {{name: {prefix}-{number}}}\nspec: {{requests: {{cpu: 500m, \
             memory: 64Mi}}, command: [\"true\"], sim: {{duration: 300ms}}}}\n"
        )
    };
    (0..count).map(job).collect()
}

/// Submits once, and returns what was acknowledged and what was said.
fn submit_once(cell: &Cell, documents: &str) -> (Vec<String>, String) {
    let (status, answer) = Http::connect(cell).submit(documents.as_bytes());
    let verdicts = answer["verdicts"].as_array().unwrap().iter();
    let accepted = verdicts.filter(|verdict| verdict["verdict"] == "accepted");
    let names: Vec<String> = accepted.map(|verdict| verdict["name"].as_str().unwrap().to_string()).collect();
    assert_eq!(status == 200, names.len() == documents.matches("kind: Job").count(), "{answer}");
    (names, answer.to_string())
}

/// A cell with its data on a small disk.
fn start() -> Option<(Cell, SmallDisk)> {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&folder.path().join("disk")) else {
        println!("not tested here: needs root to mount a tmpfs");
        return None;
    };
    let data_dir = disk.0.join("data");
    Some((Cell::start_in(folder, &data_dir, &["--nodes", "0"]), disk))
}

#[test]
fn a_full_disk_stops_commits_with_a_clear_error_and_loses_nothing() {
    let Some((mut cell, disk)) = start() else { return };
    let _agent = cell.sim_agent(NODES);
    cell.wait_for_nodes(NODES);
    let server = cell.child("server").unwrap();
    let mut acknowledged = cell.submit_until_taken(&jobs("before", 30));
    disk.fill();
    let mut refusal = String::new();
    // What is under way when the disk fills up may still find room in the last page.
    for number in 0.. {
        let (names, said) = submit_once(&cell, &jobs(&format!("full-{number}"), 20));
        let was_taken = !names.is_empty();
        acknowledged.extend(names);
        if !was_taken {
            refusal = said;
            break;
        }
    }
    assert!(refusal.contains("the disk is full"), "{refusal}");
    let names: Vec<String> = cell.states().into_iter().map(|(name, _)| name).collect();
    assert!(acknowledged.iter().all(|name| names.contains(name)), "reading goes on, and all is there");
    std::thread::sleep(FULL_FOR);
    let file = cell.put("still.yaml", jobs("still", 1));
    let said = cell.ask(&["submit", &file]);
    assert!(said.code == 1 && said.out.contains("the disk is full"), "{said:?}");
    disk.make_room();
    acknowledged.extend(cell.submit_until_taken(&jobs("after", 30)));
    cell.wait_until_all_succeeded(&acknowledged, PATIENCE);
    assert_eq!(cell.child("server"), Some(server), "the server went through it");
    verify_log(&cell.stop());
}

#[test]
fn a_server_killed_on_a_full_disk_comes_back_with_everything() {
    let Some((mut cell, disk)) = start() else { return };
    let _agent = cell.sim_agent(NODES);
    cell.wait_for_nodes(NODES);
    let mut acknowledged = cell.submit_until_taken(&jobs("before", 200));
    disk.fill();
    for role in ["server", "scheduler --class batch", "health"] {
        cell.kill(role);
    }
    let mut server = None;
    wait("the server is started again", || {
        server = cell.child("server");
        server.is_some()
    });
    std::thread::sleep(FULL_FOR);
    assert_eq!(cell.child("server"), server, "it may wait for room, but not die again and again");
    disk.make_room();
    wait("the server serves again", || cell.try_json(&["status"]).is_some());
    acknowledged.extend(cell.submit_until_taken(&jobs("after", 30)));
    cell.wait_until_all_succeeded(&acknowledged, PATIENCE);
    verify_log(&cell.stop());
}
