//! A real etcd of one or more members, each a process on ports of its own, with its data in a folder that goes with it.

use ohm_log_etcd::cluster;
use ohm_runtime::ports::free_addresses;
use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long members may take until they answer.
const STARTING: Duration = Duration::from_secs(60);

#[allow(dead_code)] // Each test uses its part of this.
pub(crate) struct Etcd {
    folder: TempDir,
    members: Vec<Member>,
    is_over: AtomicBool,
}

struct Member {
    client: SocketAddr,
    arguments: Vec<String>,
    log: PathBuf,
    child: Mutex<Option<Child>>,
}

#[allow(dead_code)] // Each test uses its part of this.
impl Etcd {
    pub(crate) fn start(count: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut clients = free_addresses(2 * count).unwrap();
        let peers = clients.split_off(count);
        let name = |number: usize| format!("m{number}");
        let url = |address: &SocketAddr| format!("http://{address}");
        let names: Vec<String> = (0..count).map(name).collect();
        let peer_urls: Vec<String> = peers.iter().map(url).collect();
        let cluster = cluster(names.iter().map(String::as_str).zip(peer_urls.iter().map(String::as_str)));
        let member = |(number, client): (usize, &SocketAddr)| {
            let (data_dir, client_url) = (folder.path().join(&names[number]), url(client));
            let (name, peer_url) = (names[number].as_str(), peer_urls[number].as_str());
            let known = ohm_log_etcd::Member { name, data_dir: &data_dir, client_url: &client_url, peer_url };
            let mut arguments = known.arguments(&cluster);
            arguments.extend(["--log-outputs".to_string(), "stderr".to_string()]);
            let log = folder.path().join(format!("{name}.log"));
            Member { client: *client, arguments, log, child: Mutex::new(None) }
        };
        let members: Vec<Member> = clients.iter().enumerate().map(member).collect();
        let etcd = Etcd { folder, members, is_over: AtomicBool::new(false) };
        etcd.members.iter().for_each(Member::spawn);
        etcd.members.iter().for_each(Member::wait);
        etcd
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.members.iter().map(|member| format!("http://{}", member.client)).collect()
    }

    /// Kills a member without a word.
    pub(crate) fn kill(&self, member: usize) {
        self.members[member].kill();
    }

    /// Starts a killed member again, with what it had.
    pub(crate) fn start_again(&self, member: usize) {
        self.members[member].spawn();
    }

    /// Kills one member after the other and starts it again, until told to stop: how many.
    pub(crate) fn kill_one_after_another(&self, every: Duration) -> usize {
        let mut killed = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(every / 2);
            let member = &self.members[killed % self.members.len()];
            member.kill();
            std::thread::sleep(every / 2);
            member.spawn();
            member.wait();
            killed += 1;
        }
        killed
    }

    pub(crate) fn stop_killing(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Member {
    fn spawn(&self) {
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        let mut command = Command::new("etcd");
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        *self.child.lock().unwrap() = Some(command.spawn().unwrap());
    }

    fn wait(&self) {
        let started = Instant::now();
        while TcpStream::connect(self.client).is_err() {
            assert!(started.elapsed() < STARTING, "etcd does not listen: see {}", self.log.display());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn kill(&self) {
        if let Some(mut child) = self.child.lock().unwrap().take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.members.iter().for_each(Member::kill);
    }
}
