//! The line between a log and its connection.

use super::bell::{Bell, Wake};
use super::connection::{CALL, Connection, connect_options};
use super::{note, watch};
use crate::core::Note;
use crate::core::call::{Command, Heard};
use crate::etcd_log::Line;
use crate::options::EtcdOptions;
use etcd_client::Client;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// What watches have seen and nobody has heard yet; etcd waits beyond that.
const WATCHED_MAX: usize = 64;
/// How often the note in the data folder is renewed, in milliseconds.
const NOTE_EVERY_MS: u64 = 2_000;

impl Connection {
    /// A line for the log, whose work is done on `runtime`. `note_path` is renewed now and then.
    pub fn line(self, runtime: &Handle, note_path: PathBuf, wake: Wake) -> EtcdLine {
        let (commands, queue) = mpsc::unbounded_channel();
        let (answers, answered) = mpsc::unbounded_channel();
        let (watches, watched) = mpsc::channel(WATCHED_MAX);
        let bell = Arc::new(Bell::new(wake));
        let worker = Worker { connection: self, answers, watches, bell: Arc::clone(&bell), running: BTreeMap::new() };
        runtime.spawn(worker.run(queue));
        EtcdLine { commands, answered, watched, bell, note_path, noted: None, noted_ms: 0 }
    }
}

/// Does what the core wants, everything at once.
struct Worker {
    connection: Connection,
    answers: mpsc::UnboundedSender<Heard>,
    watches: mpsc::Sender<Heard>,
    bell: Arc<Bell>,
    running: BTreeMap<u64, AbortHandle>,
}

impl Worker {
    async fn run(mut self, mut queue: mpsc::UnboundedReceiver<Command>) {
        tokio::spawn(ask_versions(self.connection.options.clone(), self.answers.clone(), Arc::clone(&self.bell)));
        while let Some(command) = queue.recv().await {
            match command {
                Command::Call(call, request) => {
                    let (connection, answers) = (self.connection.clone(), self.answers.clone());
                    let bell = Arc::clone(&self.bell);
                    tokio::spawn(async move {
                        let answer = connection.call(request).await;
                        // Nobody listens only when the log is gone.
                        let _ = answers.send(Heard::Answer(call, answer));
                        bell.ring();
                    });
                }
                Command::Watch { watch, prefix, from, deletions } => {
                    self.running.retain(|_, task| !task.is_finished());
                    let wanted = watch::Wanted { watch, prefix, from, deletions };
                    let (client, watches) = (self.connection.watch.clone(), self.watches.clone());
                    let task = tokio::spawn(watch::run(client, wanted, watches, Arc::clone(&self.bell)));
                    self.running.insert(watch, task.abort_handle());
                }
                Command::Unwatch(watch) => drop(self.running.remove(&watch).map(|task| task.abort())),
            }
        }
        self.running.values().for_each(AbortHandle::abort);
    }
}

/// Asks every member once which version it runs.
async fn ask_versions(options: EtcdOptions, answers: mpsc::UnboundedSender<Heard>, bell: Arc<Bell>) {
    let mut known = Vec::new();
    for endpoint in &options.endpoints {
        let Ok(connect) = connect_options(&options) else { return };
        let status = async {
            let mut client = Client::connect([endpoint], Some(connect)).await.ok()?;
            client.status().await.ok().map(|status| status.version().to_string())
        };
        if let Ok(Some(version)) = tokio::time::timeout(CALL, status).await
            && !known.contains(&version)
        {
            known.push(version.clone());
            let _ = answers.send(Heard::Version(version));
            bell.ring();
        }
    }
}

/// The line between a log and its connection.
pub struct EtcdLine {
    commands: mpsc::UnboundedSender<Command>,
    answered: mpsc::UnboundedReceiver<Heard>,
    watched: mpsc::Receiver<Heard>,
    bell: Arc<Bell>,
    note_path: PathBuf,
    noted: Option<Note>,
    noted_ms: u64,
}

impl Line for EtcdLine {
    fn send(&mut self, _now_ms: u64, command: Command) {
        // The worker ends only with the runtime.
        let _ = self.commands.send(command);
    }

    fn receive(&mut self, _now_ms: u64, watches: bool) -> Option<Heard> {
        // What comes from here on rings again.
        self.bell.listened();
        let answered = self.answered.try_recv().ok();
        answered.or_else(|| if watches { self.watched.try_recv().ok() } else { None })
    }

    fn keep(&mut self, now_ms: u64, note: &dyn Fn() -> Note) {
        if self.noted.is_some() && now_ms < self.noted_ms + NOTE_EVERY_MS {
            return;
        }
        self.noted_ms = now_ms;
        let note = note();
        if self.noted.as_ref() == Some(&note) {
            return;
        }
        if let Err(error) = note::write_note(&self.note_path, &note) {
            tracing::warn!(%error, "what the next start should know could not be noted");
        }
        self.noted = Some(note);
    }
}
