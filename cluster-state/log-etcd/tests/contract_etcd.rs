//! The contract of the log, kept over a real etcd that the test starts.

use crate::current;
use crate::process;

use current::{Clock, Current};
use ohm_log::contract::{self, Engine};
use ohm_log_etcd::{Connection, EtcdConfig, EtcdLine, EtcdLog, EtcdOptions, read_note};
use process::Etcd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// How long a poll waits for etcd if there is nothing to tell.
const WAIT: Duration = Duration::from_millis(4);

/// Real time, which passes until etcd has something to say.
struct RealTime {
    began: Instant,
    rung: Receiver<()>,
}

impl Clock for RealTime {
    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn pass(&mut self) {
        let _ = self.rung.recv_timeout(WAIT);
    }
}

type Server = Current<EtcdLog<EtcdLine>, RealTime>;

struct OverEtcd<'a> {
    etcd: &'a Etcd,
    runtime: &'a Runtime,
    folder: PathBuf,
    prefix: String,
    seed: u64,
    starts: u64,
}

impl<'a> OverEtcd<'a> {
    fn new(etcd: &'a Etcd, runtime: &'a Runtime, seed: u64, number: u64) -> Self {
        let folder = etcd.folder().join(format!("servers-{number}"));
        std::fs::create_dir_all(&folder).unwrap();
        OverEtcd { etcd, runtime, folder, prefix: format!("/contract-{number}"), seed, starts: 0 }
    }

    fn open(&mut self, note_path: &Path) -> Server {
        self.starts += 1;
        let options = EtcdOptions::new(self.etcd.urls(), &self.prefix);
        let opened = self.runtime.block_on(async {
            let connection = Connection::open(options).await.unwrap();
            let dice = [self.seed + 1, self.starts + 7];
            let note = connection.identify(read_note(note_path).unwrap(), dice, 1_000).await.unwrap();
            (connection, note)
        });
        let (connection, note) = opened;
        let (bell, rung) = channel();
        let wake = Box::new(move || {
            let _ = bell.send(());
        });
        let line = connection.line(self.runtime.handle(), note_path.to_path_buf(), wake);
        let config = EtcdConfig::new(&self.prefix, note, "http://127.0.0.1:1", self.starts);
        Current::new(EtcdLog::new(config, line), RealTime { began: Instant::now(), rung })
    }
}

impl Engine for OverEtcd<'_> {
    type Log = Server;

    fn start(&mut self) -> Server {
        let path = self.folder.join("one");
        self.open(&path)
    }

    fn stop(&mut self, log: Server) {
        drop(log);
    }

    fn start_another(&mut self) -> Option<Server> {
        let path = self.folder.join("another");
        Some(self.open(&path))
    }
}

#[test]
#[cfg_attr(not(etcd_installed), ignore = "no etcd here: `apt-get install etcd-server`")]
fn a_real_etcd_keeps_the_contract() {
    let etcd = Etcd::start(1);
    let runtime = Runtime::new().unwrap();
    let mut number = 0;
    contract::check(0..2, |seed| {
        number += 1;
        OverEtcd::new(&etcd, &runtime, seed, number)
    });
}

#[test]
#[cfg_attr(not(etcd_installed), ignore = "no etcd here: `apt-get install etcd-server`")]
fn three_members_keep_the_contract_while_they_die() {
    let etcd = Etcd::start(3);
    let runtime = Runtime::new().unwrap();
    let mut number = 100;
    std::thread::scope(|scope| {
        let killing = scope.spawn(|| etcd.kill_one_after_another(Duration::from_secs(4)));
        contract::check(7..8, |seed| {
            number += 1;
            OverEtcd::new(&etcd, &runtime, seed, number)
        });
        etcd.stop_killing();
        assert!(killing.join().unwrap() > 2, "too few members died to say anything");
    });
}
