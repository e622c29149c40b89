//! A folder, a shim, and short words for what the tests do.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ohm_model::{JobId, RunRef};
use ohm_node::clock::boottime_ms;
use ohm_node::processes::Processes;
use ohm_node::shim::{
    EndedRun, Event, LeaseFile, LiveRun, NodeLease, Request, RunSpec, ShimClient, ShimCommand, ShimOptions,
};
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(40);

pub(crate) type Test = (&'static str, fn(Setup));

/// Which means of the machine the shim may use.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) namespace: bool,
    pub(crate) cgroups: bool,
}

pub(crate) const SETUPS: [Setup; 4] = [
    Setup { namespace: true, cgroups: true },
    Setup { namespace: true, cgroups: false },
    Setup { namespace: false, cgroups: true },
    Setup { namespace: false, cgroups: false },
];

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |has| if has { "with" } else { "without" };
        write!(f, "{} namespace, {} cgroups", word(self.namespace), word(self.cgroups))
    }
}

pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) client: ShimClient,
    pub(crate) lease: LeaseFile,
    pub(crate) setup: Setup,
    pub(crate) processes: Processes,
    runtime: tokio::runtime::Runtime,
}

impl World {
    /// A shim with a lease of an hour.
    pub(crate) fn new(setup: Setup) -> World {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let lease = LeaseFile::open(folder.path()).unwrap();
        let client = runtime.block_on(command(folder.path().into(), setup).start_or_find()).unwrap();
        if setup.namespace && !client.info.has_namespace {
            println!("not tested here: process namespace ({:?})", client.info.warnings);
        }
        let world = World { folder, client, lease, setup, processes: Processes::open().unwrap(), runtime };
        world.lease_for(3_600_000);
        world
    }

    pub(crate) fn lease_for(&self, ms: u64) -> u64 {
        let deadline_ms = boottime_ms() + ms;
        self.lease.write(NodeLease { deadline_ms, since_ms: 0, incarnation: 1 }).unwrap();
        deadline_ms
    }

    /// Connects anew, as an agent does that was restarted.
    pub(crate) fn reconnect(&mut self) {
        let command = command(self.folder.path().into(), self.setup);
        self.client = self.runtime.block_on(command.start_or_find()).unwrap();
    }

    pub(crate) fn send(&mut self, requests: &[Request]) {
        self.runtime.block_on(self.client.send(requests)).unwrap();
    }

    pub(crate) fn start(&mut self, task: u32, spec: RunSpec) {
        self.send(&[Request::Start { run: run(task), spec }]);
    }

    /// Starts a shell script and waits until it runs.
    pub(crate) fn start_script(&mut self, task: u32, script: &str) -> LiveRun {
        self.start(task, shell(script));
        self.started(task)
    }

    pub(crate) fn next(&mut self) -> Event {
        self.runtime.block_on(async { tokio::time::timeout(PATIENCE, self.client.next()).await.unwrap().unwrap() })
    }

    /// The next event that `wanted` makes something of; others are passed over.
    pub(crate) fn find<T>(&mut self, wanted: impl Fn(Event) -> Option<T>) -> T {
        loop {
            if let Some(found) = wanted(self.next()) {
                return found;
            }
        }
    }

    pub(crate) fn started(&mut self, task: u32) -> LiveRun {
        self.find(|event| match event {
            Event::Started(live) if live.run == run(task) => Some(live),
            Event::Exited(ended) if ended.run == run(task) => panic!("ended instead: {ended:?}"),
            Event::StartRefused { reason, .. } => panic!("refused: {reason}"),
            _ => None,
        })
    }

    pub(crate) fn exited(&mut self, task: u32) -> EndedRun {
        self.find(|event| match event {
            Event::Exited(ended) if ended.run == run(task) => Some(ended),
            _ => None,
        })
    }

    /// Asks for the list and gathers its parts.
    pub(crate) fn list(&mut self) -> (Vec<LiveRun>, Vec<EndedRun>) {
        self.send(&[Request::List]);
        self.listed()
    }

    pub(crate) fn listed(&mut self) -> (Vec<LiveRun>, Vec<EndedRun>) {
        let (mut live, mut ended) = (Vec::new(), Vec::new());
        loop {
            if let Event::Listed { live: more_live, ended: more_ended, is_last } = self.next() {
                live.extend(more_live);
                ended.extend(more_ended);
                if is_last {
                    return (live, ended);
                }
            }
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What `task` has written to its standard output so far.
    pub(crate) fn output(&self, task: u32) -> String {
        let folder = ohm_node::shim::log_folder(self.folder.path(), run(task));
        std::fs::read_to_string(folder.join("stdout")).unwrap_or_default()
    }

    /// Waits until the output of `task` holds `text`.
    pub(crate) fn wait_for_output(&self, task: u32, text: &str) {
        wait_until(&format!("output {text:?} of {task}"), || self.output(task).contains(text));
    }

    pub(crate) fn is_alive(&self, live: LiveRun) -> bool {
        self.processes
            .is_alive(ohm_node::processes::Identity { pid: live.pid, start_time_ticks: live.start_time_ticks })
    }

    /// How many processes on this machine have the word `text` in their command line; tests use unlikely sleep times.
    pub(crate) fn count(&self, text: &str) -> usize {
        let text = text.to_owned() + &suffix();
        let has_word = |entry: &std::fs::DirEntry| {
            // An ended process has an empty command line.
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == text.as_bytes())
        };
        std::fs::read_dir("/proc").unwrap().flatten().filter(has_word).count()
    }

    pub(crate) fn kill_shim(&mut self) {
        kill_hard(self.client.info.pid);
    }
}

impl Drop for World {
    /// No test leaves processes behind.
    fn drop(&mut self) {
        kill_hard(self.client.info.pid);
        wait_until("the guard's end", || {
            let lock = std::fs::File::open(self.path("guard.lock")).unwrap();
            nix::fcntl::Flock::lock(lock, nix::fcntl::FlockArg::LockExclusiveNonblock).is_ok()
        });
        let mark = format!("OHM_SHIM={}", self.folder.path().display());
        wait_until("the tasks' end", || {
            let (found, has_unseen) = self.processes.with_environment(&mark).unwrap();
            for identity in &found {
                self.processes.kill_verified(*identity);
            }
            found.is_empty() && !has_unseen
        });
        // Empties and removes the groups.
        let _ = ohm_node::cgroup::Cgroups::open(&ohm_node::shim::cgroup_name(self.folder.path()));
    }
}

pub(crate) fn command(folder: PathBuf, setup: Setup) -> ShimCommand {
    let options =
        ShimOptions { wants_namespace: setup.namespace, wants_cgroups: setup.cgroups, ..ShimOptions::new(folder) };
    ShimCommand::this_program(options).unwrap()
}

pub(crate) fn run(task: u32) -> RunRef {
    RunRef::new(JobId(3), 1, task, 2)
}

pub(crate) fn shell(script: &str) -> RunSpec {
    RunSpec::new(["/bin/sh", "-c", &unique(script)])
}

/// Gives every `sleep 7NN` of a script a time that no other run of these tests uses, so that [`World::count`] counts
/// only our own.
fn unique(script: &str) -> String {
    let mut parts = script.split("sleep 7");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "sleep 7" + &part[..2] + &suffix() + &part[2..])
}

fn suffix() -> String {
    format!(".{:08}", std::process::id())
}

pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn kill_hard(pid: u32) {
    let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
}
