//! A cell of real processes for tests: started by `ohm up`, asked by the command line, killed by signal.
#![allow(unreachable_pub)]

pub mod diary;
pub mod http;
pub mod misuse;
pub mod processes;
pub mod submitter;
pub mod tasks;

use ohm_runtime::ports::free_addresses;
use processes::{Process, children_of, signal};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const OHM: &str = env!("CARGO_BIN_EXE_ohm");
/// How long anything that should happen soon may take on a slow machine.
pub const SOON: Duration = Duration::from_secs(60);
/// One cell at a time: a dozen processes each would only slow each other down.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A running cell with its own folder and port.
pub struct Cell {
    folder: tempfile::TempDir,
    data_dir: PathBuf,
    listen: String,
    words: Vec<String>,
    /// How many files each of its processes may have open, if that is bounded.
    files: Option<u32>,
    up: Child,
    /// How often `ohm up` was started.
    starts: usize,
    _turn: MutexGuard<'static, ()>,
}

/// What a command said.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    fn of(mut command: Command) -> Said {
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code().unwrap_or(-1);
        Said { code, out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// Everything it said, when it did what it should.
    pub fn good(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        format!("{}{}", self.out, self.err)
    }
}

/// Runs `ohm` with these words and returns what it printed; it must succeed.
pub fn ohm(words: &[&str]) -> String {
    let mut command = Command::new(OHM);
    command.args(words);
    Said::of(command).good()
}

/// Replays the log in `data_dir`, which no server has open: every invariant must have held.
pub fn verify_log(data_dir: &str) -> String {
    let report = ohm(&["log", "verify", "--data-dir", data_dir]);
    assert!(report.contains("every invariant held at every index"), "{report}");
    report
}

/// Waits until it is `done`.
pub fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < SOON, "not in {SOON:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Documents of simulated nodes that soon are full.
pub fn small_nodes(count: usize, cpu: usize) -> String {
    let node = |number| {
        format!(
            "---\napiVersion: ohm/v1\nkind: Node\nmetadata: {{name: small-{number}}}\nstatus: {{capacity: {{cpu: {cpu}, \
             memory: 8Gi, pods: 20}}}}\n"
        )
    };
    (0..count).map(node).collect()
}

impl Cell {
    /// Starts `ohm up` with these further words and waits until it serves.
    pub fn start(words: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = folder.path().join("data");
        Self::start_in(folder, &data_dir, words)
    }

    /// The same with its data somewhere particular.
    pub fn start_in(folder: tempfile::TempDir, data_dir: &Path, words: &[&str]) -> Self {
        Self::start_bounded(folder, data_dir, words, None)
    }

    /// The same, each process with at most so many open files.
    pub fn start_bounded(folder: tempfile::TempDir, data_dir: &Path, words: &[&str], files: Option<u32>) -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        // Each server of the cell takes the next port.
        let listen = free_addresses(5).unwrap()[0].to_string();
        // A copy, so that a build meanwhile does not pull the program away.
        fs::copy(OHM, folder.path().join("ohm")).unwrap();
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        let up = spawn_up(folder.path(), data_dir, &listen, &words, files);
        let cell = Cell { folder, data_dir: data_dir.to_path_buf(), listen, words, files, up, starts: 1, _turn: turn };
        cell.wait_until_up();
        cell
    }

    /// Starts the cell again that [`Cell::stop`] has stopped.
    pub fn start_again(&mut self) {
        self.up = spawn_up(self.folder.path(), &self.data_dir, &self.listen, &self.words, self.files);
        self.starts += 1;
        self.wait_until_up();
    }

    /// Waits until `ohm up` has started everything: from then on it starts again what dies.
    fn wait_until_up(&self) {
        self.wait_until_serving();
        let starts = self.starts;
        wait("ohm up is through", || self.up_log().matches("ctrl-C stops the cell").count() == starts);
    }

    pub fn wait_until_serving(&self) {
        wait("the server serves", || self.try_json(&["status"]).is_some());
    }

    pub fn data_dir(&self) -> String {
        self.data_dir.display().to_string()
    }

    /// Where all servers listen.
    pub fn urls(&self) -> String {
        let asked = self.words.iter().position(|word| word == "--servers");
        let count: u16 = asked.and_then(|place| self.words.get(place + 1)?.parse().ok()).unwrap_or(1);
        let (host, port) = self.listen.rsplit_once(':').unwrap();
        let port: u16 = port.parse().unwrap();
        let urls: Vec<String> = (0..count).map(|number| format!("http://{host}:{}", port + number)).collect();
        urls.join(",")
    }

    /// What `ohm up` has said so far.
    pub fn up_log(&self) -> String {
        fs::read_to_string(self.path("up.log")).unwrap()
    }

    /// Where the server listens.
    pub fn listen(&self) -> &str {
        &self.listen
    }

    pub fn token(&self) -> String {
        fs::read_to_string(self.data_dir.join("token")).unwrap().trim().to_string()
    }

    /// A place for a file of the test.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file with this content; its path.
    pub fn put(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    /// A process with `sim` (a count, or a file) simulated nodes; ends with the returned guard.
    pub fn sim_agent(&self, sim: impl ToString) -> Killed {
        let child = Command::new(self.path("ohm"))
            .args(["agent", "--sim", &sim.to_string(), "--server", &self.urls()])
            .arg("--token-file")
            .arg(self.data_dir.join("token"))
            .arg("--data-dir")
            .arg(self.path("sim"))
            .stderr(File::create(self.path("sim.log")).unwrap())
            .spawn();
        Killed(child.unwrap())
    }

    /// Runs a command of this cell; `words` may not hold `--`.
    pub fn ask(&self, words: &[&str]) -> Said {
        self.ask_with(words, &[])
    }

    /// Runs a command of this cell with what stands behind `--`.
    pub fn ask_with(&self, words: &[&str], rest: &[&str]) -> Said {
        let mut command = Command::new(self.path("ohm"));
        command.args(words).args(["--server", &self.urls(), "--data-dir", &self.data_dir()]);
        if !rest.is_empty() {
            command.arg("--").args(rest);
        }
        Said::of(command)
    }

    /// Runs a client command with `-o json`; nothing when it failed, as it may while the server is down.
    pub fn try_json(&self, words: &[&str]) -> Option<Value> {
        let said = self.ask(&[words, &["-o", "json"]].concat());
        let good = said.code == 0 || words[0] == "submit";
        serde_json::from_str(&said.out).ok().filter(|_| good)
    }

    /// Runs a client command with `-o json`, which must succeed.
    pub fn json(&self, words: &[&str]) -> Value {
        let text = self.ask(&[words, &["-o", "json"]].concat());
        assert_eq!(text.code, 0, "{words:?}: {text:?}");
        serde_json::from_str(&text.out).unwrap()
    }

    /// Waits until so many nodes are ready.
    pub fn wait_for_nodes(&self, count: usize) {
        wait("the nodes are ready", || {
            let answer = self.try_json(&["nodes"]).unwrap_or_default();
            let nodes = answer["nodes"].as_array().cloned().unwrap_or_default();
            nodes.iter().filter(|node| node["health"] == "ready").count() == count
        });
    }

    /// Submits documents, of which all must be accepted.
    pub fn submit(&self, documents: &str) {
        let file = self.put("submit.yaml", documents);
        let answer = self.json(&["submit", &file]);
        assert_eq!(answer["accepted"], documents.matches("kind: Job").count(), "{answer}");
    }

    /// Submits until every document was accepted, now or by an attempt before whose answer was lost; returns the names.
    pub fn submit_until_taken(&self, documents: &str) -> Vec<String> {
        let file = self.put("submit.yaml", documents);
        let mut names = Vec::new();
        wait("the jobs are taken", || {
            let Some(answer) = self.try_json(&["submit", &file]) else { return false };
            let Some(verdicts) = answer["verdicts"].as_array() else { return false };
            let taken = |verdict: &&Value| matches!(verdict["verdict"].as_str(), Some("accepted" | "unchanged"));
            let found = verdicts.iter().filter(taken).filter_map(|verdict| verdict["name"].as_str());
            names = found.map(String::from).collect();
            names.len() == documents.matches("kind: Job").count()
        });
        names
    }

    /// The tasks of the first group of a job; empty while nobody answers.
    pub fn tasks(&self, job: &str) -> Vec<Value> {
        let answer = self.try_json(&["job", job]).unwrap_or_default();
        answer["groups"][0]["tasks"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until all tasks of the job are reported to run, and returns them.
    pub fn wait_for_tasks(&self, job: &str) -> Vec<Value> {
        let mut tasks = Vec::new();
        wait(&format!("{job} runs"), || {
            tasks = self.tasks(job);
            !tasks.is_empty() && tasks.iter().all(|task| task["state"] == "running" && task["pid"].is_u64())
        });
        tasks
    }

    /// Kills the child of `ohm up` whose arguments begin with `role`, without a word.
    pub fn kill(&self, role: &str) {
        if let Some(process) = self.child(role) {
            signal(process.pid, "KILL");
        }
    }

    /// The child of `ohm up` whose arguments begin with `role`.
    pub fn child(&self, role: &str) -> Option<Process> {
        children_of(self.up.id()).into_iter().find(|child| child.arguments().starts_with(role))
    }

    /// The process of `ohm up`.
    pub fn up_pid(&self) -> u32 {
        self.up.id()
    }

    /// The shim of a node of `ohm up`.
    pub fn shim(&self, node: &str) -> Option<Process> {
        let path = self.data_dir.join("nodes").join(node).join("shim/shim.pid");
        Process::find(fs::read_to_string(path).ok()?.split(' ').next()?.trim().parse().ok()?)
    }

    /// Waits until every one of these jobs has succeeded.
    pub fn wait_until_all_succeeded(&self, names: &[String], patience: Duration) {
        let started = Instant::now();
        let mut open = names.to_vec();
        while !open.is_empty() {
            let states = self.states();
            let lost = |name: &&String| !states.is_empty() && !states.iter().any(|(known, _)| known == *name);
            assert_eq!(open.iter().find(lost), None, "an acknowledged job is gone");
            open.retain(|name| !states.contains(&(name.clone(), "succeeded".to_string())));
            assert!(started.elapsed() < patience, "{} jobs did not end: {:?}", open.len(), open.first());
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// The names of all jobs with their states; empty when nobody answers.
    pub fn states(&self) -> std::collections::BTreeSet<(String, String)> {
        let answer = self.try_json(&["jobs", "--limit", "1000000"]).unwrap_or_default();
        let jobs = answer["jobs"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        jobs.iter().map(|job| (text(&job["name"]), text(&job["state"]))).collect()
    }

    /// Stops the cell in order and returns its folder, which lives as long as this value.
    pub fn stop(&mut self) -> String {
        signal(self.up.id(), "TERM");
        let up = &mut self.up;
        wait("ohm up stops", || up.try_wait().unwrap().is_some());
        self.data_dir()
    }
}

fn spawn_up(folder: &Path, data_dir: &Path, listen: &str, words: &[String], files: Option<u32>) -> Child {
    let log = File::options().create(true).append(true).open(folder.join("up.log")).unwrap();
    let mut command = match files {
        None => Command::new(folder.join("ohm")),
        Some(files) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", "ulimit -n $0; exec \"$@\"", &files.to_string()]).arg(folder.join("ohm"));
            shell
        }
    };
    command.args(["up", "--listen", listen, "--data-dir"]).arg(data_dir).args(words);
    command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

impl Drop for Cell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let logs = fs::read_dir(self.data_dir.join("logs")).into_iter().flatten().filter_map(Result::ok);
            for log in logs.map(|entry| entry.path()).chain([self.path("up.log"), self.path("sim.log")]) {
                let text = fs::read_to_string(&log).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                eprintln!("--- {}\n{}", log.display(), lines[lines.len().saturating_sub(8)..].join("\n"));
            }
        }
        if self.up.try_wait().is_ok_and(|ended| ended.is_none()) {
            signal(self.up.id(), "TERM");
            if std::thread::panicking() {
                // A test that failed may have left agents frozen: they are not waited for.
                std::thread::sleep(Duration::from_secs(1));
                signal(self.up.id(), "TERM");
            }
            let _ = self.up.wait();
        }
    }
}

/// A process that is killed when its guard goes.
pub struct Killed(Child);

impl Killed {
    pub fn of(child: Child) -> Self {
        Killed(child)
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
