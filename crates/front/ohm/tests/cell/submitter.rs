//! Somebody who submits jobs one after the other, whatever happens to the servers, and keeps count of what was accepted.

use super::Cell;
use super::http::Http;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// One submitter; it runs on a thread of its own until it is stopped.
pub struct Submitter {
    patience: Duration,
    moves_on: bool,
    is_stopped: AtomicBool,
    told: Mutex<Told>,
}

/// What it was told, and the longest time in which it was told nothing good.
#[derive(Default)]
struct Told {
    accepted: Vec<String>,
    last: Option<Instant>,
    longest: Duration,
}

impl Submitter {
    /// Stays with a server for as long as that one answers within `patience`.
    pub fn staying(patience: Duration) -> Self {
        Submitter { patience, moves_on: false, is_stopped: AtomicBool::default(), told: Mutex::default() }
    }

    /// Goes to the next server with each job.
    #[cfg(feature = "etcd")]
    pub fn moving_on(patience: Duration) -> Self {
        Submitter { moves_on: true, ..Self::staying(patience) }
    }

    /// Submits until it is stopped.
    pub fn run(&self, cell: &Cell) {
        let urls = cell.urls();
        let listens: Vec<&str> = urls.split(',').map(|url| url.strip_prefix("http://").unwrap()).collect();
        let (mut number, mut turn) = (0, 0);
        let mut http: Option<Http> = None;
        while !self.is_stopped.load(Ordering::Relaxed) {
            let name = format!("job-{number}");
            let job = format!(
                "apiVersion: ohm/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec: {{requests: {{cpu: 100m}}, command: [\"true\"], \
                 sim: {{duration: 200ms}}}}\n"
            );
            if http.is_none() {
                turn += 1;
                http = Http::try_connect(cell, listens[turn % listens.len()], self.patience);
            }
            match http.as_mut().and_then(|http| http.try_submit(job.as_bytes())) {
                // Accepted now, or by an attempt whose answer was lost: the name makes it one and the same.
                Some(200) => {
                    self.note(name);
                    number += 1;
                    if self.moves_on {
                        http = None;
                        sleep(Duration::from_millis(10));
                    }
                }
                Some(_) if !self.moves_on => sleep(Duration::from_millis(20)),
                _ => {
                    http = None;
                    sleep(Duration::from_millis(20));
                }
            }
        }
    }

    fn note(&self, name: String) {
        let mut told = self.told.lock().unwrap();
        let now = Instant::now();
        let silent = told.last.map_or(Duration::ZERO, |last| now - last);
        told.longest = told.longest.max(silent);
        told.last = Some(now);
        told.accepted.push(name);
    }

    /// Silences count from now on.
    pub fn forget_silences(&self) {
        self.told.lock().unwrap().longest = Duration::ZERO;
    }

    /// The longest silence that has ended since.
    pub fn longest_silence(&self) -> Duration {
        self.told.lock().unwrap().longest
    }

    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// The names of the jobs that were accepted.
    pub fn accepted(self) -> Vec<String> {
        self.told.into_inner().unwrap().accepted
    }
}
