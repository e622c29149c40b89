//! Processes of this machine: found, watched and signalled.

use std::fs;
use std::process::Command;

/// One process, told apart from a later one with the same number by its start time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    started: u64,
}

impl Process {
    /// The process with this number; none when there is none, or only its remains.
    pub fn find(pid: u32) -> Option<Process> {
        let fields = fields_of(pid)?;
        let started = fields.get(19)?.parse().ok()?;
        (!matches!(fields.first()?.as_str(), "Z" | "X")).then_some(Process { pid, started })
    }

    pub fn is_alive(&self) -> bool {
        Process::find(self.pid).as_ref() == Some(self)
    }

    /// Its command line behind the program.
    pub fn arguments(&self) -> String {
        let words = fs::read_to_string(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default().replace('\0', " ");
        words.split_once(' ').map_or_else(String::new, |(_, rest)| rest.to_string())
    }

    /// How much memory it has, in MiB.
    pub fn memory_mib(&self) -> u64 {
        self.status_mib("VmRSS:")
    }

    /// The most it ever had, in MiB.
    pub fn peak_memory_mib(&self) -> u64 {
        self.status_mib("VmHWM:")
    }

    fn status_mib(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() >> 10
    }

    /// Stops it until [`Process::go_on`].
    pub fn freeze(&self) {
        signal(self.pid, "STOP");
    }

    pub fn go_on(&self) {
        signal(self.pid, "CONT");
    }

    /// Ends it without a word, and waits until it has ended.
    pub fn kill(&self) {
        signal(self.pid, "KILL");
        super::wait(&format!("{} is dead", self.pid), || !self.is_alive());
    }
}

/// The fields of `/proc/PID/stat` from the state on.
fn fields_of(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.split_whitespace().map(String::from).collect())
}

/// The live children of a process.
pub fn children_of(parent: u32) -> Vec<Process> {
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| fields_of(*pid).is_some_and(|fields| fields.get(1) == Some(&parent.to_string()));
    pids.filter(is_child).filter_map(Process::find).collect()
}

/// Sends a signal, by its name.
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().unwrap();
    assert!(sent.success(), "kill -{name} {pid}");
}
