//! A cell of real processes for tests: started by `ohm up`, asked by the command line, killed by signal.

use serde_json::Value;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const OHM: &str = env!("CARGO_BIN_EXE_ohm");
/// How long anything that should happen soon may take on a slow machine.
const SOON: Duration = Duration::from_secs(60);

/// A running cell with its own folder and port.
pub struct Cell {
    folder: tempfile::TempDir,
    server: String,
    up: Child,
}

/// Runs `ohm` with these words and returns what it printed; it must succeed.
pub fn ohm(words: &[&str]) -> String {
    let output = Command::new(OHM).args(words).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "ohm {words:?}: {text}");
    text
}

impl Cell {
    /// Starts `ohm up` with these further words and waits until it serves.
    pub fn start(words: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let listen = format!("127.0.0.1:{port}");
        let up = Command::new(OHM)
            .args(["up", "--listen", &listen, "--data-dir"])
            .arg(folder.path())
            .args(words)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let cell = Cell { folder, server: format!("http://{listen}"), up };
        cell.wait("the server serves", || cell.try_json(&["status"]).is_some());
        cell
    }

    fn data_dir(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// A process with `count` simulated nodes; ends with the returned guard.
    pub fn sim_agent(&self, count: usize) -> Killed {
        let folder = self.folder.path().join("sim");
        let token: PathBuf = self.folder.path().join("token");
        let child = Command::new(OHM)
            .args(["agent", "--sim", &count.to_string(), "--server", &self.server])
            .arg("--token-file")
            .arg(token)
            .arg("--data-dir")
            .arg(folder)
            .stderr(Stdio::null())
            .spawn();
        Killed(child.unwrap())
    }

    /// Runs a client command with `-o json`; nothing when it failed, as it may while the server is down.
    fn try_json(&self, words: &[&str]) -> Option<Value> {
        let output = Command::new(OHM)
            .args(words)
            .args(["-o", "json", "--server", &self.server, "--data-dir", &self.data_dir()])
            .output()
            .unwrap();
        let good = output.status.success() || words[0] == "submit";
        serde_json::from_slice(&output.stdout).ok().filter(|_| good)
    }

    fn wait(&self, what: &str, mut done: impl FnMut() -> bool) {
        let started = Instant::now();
        while !done() {
            assert!(started.elapsed() < SOON, "not in {SOON:?}: {what}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until so many nodes are ready.
    pub fn wait_for_nodes(&self, count: usize) {
        self.wait("the nodes are ready", || {
            let answer = self.try_json(&["nodes"]).unwrap_or_default();
            let nodes = answer["nodes"].as_array().cloned().unwrap_or_default();
            nodes.iter().filter(|node| node["health"] == "ready").count() == count
        });
    }

    /// Submits until every document was accepted, now or by an attempt before whose answer was lost; returns the names.
    pub fn submit_until_taken(&self, documents: &str) -> Vec<String> {
        let file = self.folder.path().join("submit.yaml");
        std::fs::write(&file, documents).unwrap();
        let mut names = Vec::new();
        self.wait("the jobs are taken", || {
            let Some(answer) = self.try_json(&["submit", file.to_str().unwrap()]) else { return false };
            let Some(verdicts) = answer["verdicts"].as_array() else { return false };
            let taken = |verdict: &&Value| matches!(verdict["verdict"].as_str(), Some("accepted" | "unchanged"));
            let found = verdicts.iter().filter(taken).filter_map(|verdict| verdict["name"].as_str());
            names = found.map(String::from).collect();
            names.len() == documents.matches("kind: Job").count()
        });
        names
    }

    /// Kills the child of `ohm up` whose arguments begin with `role`, without a word.
    pub fn kill(&self, role: &str) {
        let pid = self.child(role);
        if let Some(pid) = pid {
            assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
        }
    }

    fn child(&self, role: &str) -> Option<u32> {
        let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.into_iter().find(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
            let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ");
            parent == Some(self.up.id()) && words.split_once(' ').is_some_and(|(_, rest)| rest.starts_with(role))
        })
    }

    /// Waits until every one of these jobs has succeeded.
    pub fn wait_until_all_succeeded(&self, names: &[String], patience: Duration) {
        let started = Instant::now();
        let mut open = names.to_vec();
        while !open.is_empty() {
            let answer = self.try_json(&["jobs", "--limit", "10000"]).unwrap_or_default();
            let jobs = answer["jobs"].as_array().cloned().unwrap_or_default();
            let succeeded = |name: &String| jobs.iter().any(|job| job["name"] == **name && job["state"] == "succeeded");
            let lost = |name: &&String| !jobs.is_empty() && !jobs.iter().any(|job| job["name"] == ***name);
            assert_eq!(open.iter().find(lost), None, "an acknowledged job is gone");
            open.retain(|name| !succeeded(name));
            assert!(started.elapsed() < patience, "{} jobs did not end: {:?}", open.len(), open.first());
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Stops the cell in order and returns its folder, which lives as long as this value.
    pub fn stop(&mut self) -> String {
        let pid = self.up.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let started = Instant::now();
        while self.up.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < SOON, "ohm up does not stop");
            std::thread::sleep(Duration::from_millis(50));
        }
        self.data_dir()
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        if self.up.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = Command::new("kill").args(["-TERM", &self.up.id().to_string()]).status();
            let _ = self.up.wait();
        }
    }
}

/// A process that is killed when its guard goes.
pub struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
