//! The connection to a real etcd: words of the core in, words of etcd out. No decisions here.

mod archive;
mod convert;
mod note;
mod watch;

pub use archive::Archive;
pub use note::{read_note, write_note};

use crate::core::Note;
use crate::core::call::{CallError, Command, Heard, Request, Response};
use crate::core::identity::{Identity, Next};
use crate::etcd_log::Line;
use crate::options::{EtcdError, EtcdOptions};
use etcd_client::{Certificate, Client, ConnectOptions, KvClient, TlsOptions, WatchClient};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// An answer that takes longer is not waited for.
const CALL: Duration = Duration::from_secs(3);
/// The same for transactions: what a dead leader of etcd took with it is answered by nobody, and all of them may be
/// sent again.
const TXN: Duration = Duration::from_millis(1_500);
const CONNECT: Duration = Duration::from_secs(1);
/// A member that is silent for so long, twice, is given up: a stopped one would hold a watch for ever.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// Between two attempts of what is done before the log is opened.
const PAUSE: Duration = Duration::from_millis(500);
/// Answers may be this long: pages of entries.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// What watches have seen and nobody has heard yet; etcd waits beyond that.
const WATCHED_MAX: usize = 64;
/// How often the note in the data folder is renewed, in milliseconds.
const NOTE_EVERY_MS: u64 = 2_000;

/// Called whenever there is something to hear.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// A connection to an etcd, which makes itself again whenever it breaks.
#[derive(Clone)]
pub struct Connection {
    client: Client,
    kv: KvClient,
    watch: WatchClient,
    options: EtcdOptions,
}

impl Connection {
    /// Gets ready to talk; where etcd asks for a user, waits until that one is let in.
    ///
    /// # Errors
    /// When the options can't work. An etcd that does not answer is waited for.
    pub async fn open(options: EtcdOptions) -> Result<Self, EtcdError> {
        options.check()?;
        let connect = connect_options(&options)?;
        let client = loop {
            let attempt = Client::connect(&options.endpoints, Some(connect.clone()));
            let failed = match tokio::time::timeout(CALL, attempt).await {
                Ok(Ok(client)) => break client,
                Ok(Err(error)) => convert::error(error),
                Err(_) => CallError::Lost("it does not answer".into()),
            };
            if let CallError::Refused(reason) = failed {
                return Err(EtcdError::Refused(reason));
            }
            tracing::warn!(endpoints = ?options.endpoints, "{failed}; trying again until it does");
            tokio::time::sleep(PAUSE).await;
        };
        let kv = client.kv_client().max_decoding_message_size(ANSWER_BYTES_MAX);
        let watch = client.watch_client().max_decoding_message_size(ANSWER_BYTES_MAX);
        Ok(Connection { client, kv, watch, options })
    }

    /// Finds out which cell is there and which of its servers this one is; waits until etcd answers.
    ///
    /// # Errors
    /// When this server can't be one of that cell.
    pub async fn identify(&self, note: Option<Note>, dice: [u64; 2], wall_ms: u64) -> Result<Note, EtcdError> {
        let (mut identity, mut next) = Identity::new(&self.options.prefix, note, dice, wall_ms);
        let mut is_said = false;
        loop {
            match next.clone() {
                Next::Known(note) => return Ok(note),
                Next::Ask(request) => match self.call(request).await {
                    Ok(response) => next = identity.answer(&response)?,
                    Err(CallError::Refused(reason)) => return Err(EtcdError::Refused(reason)),
                    Err(error) => {
                        if !std::mem::replace(&mut is_said, true) {
                            tracing::warn!(endpoints = ?self.options.endpoints, "{error}; trying again until it does");
                        }
                        tokio::time::sleep(PAUSE).await;
                    }
                },
            }
        }
    }

    /// One call, answered or given up in time.
    async fn call(&self, request: Request) -> Result<Response, CallError> {
        let patience = if matches!(request, Request::Txn(_)) { TXN } else { CALL };
        let lost = || CallError::Lost(format!("nothing within {patience:?}"));
        tokio::time::timeout(patience, self.ask(request)).await.unwrap_or_else(|_| Err(lost()))
    }

    async fn ask(&self, request: Request) -> Result<Response, CallError> {
        let (mut client, mut kv) = (self.client.clone(), self.kv.clone());
        match request {
            Request::Txn(txn) => kv.txn(convert::txn(txn)).await.map(convert::txn_response),
            Request::Range(range) => {
                let (key, options) = convert::range(range);
                kv.get(key, Some(options)).await.map(convert::range_response)
            }
            Request::Compact { revision } => {
                kv.compact(revision.cast_signed(), None).await.map(|_| Response::Compacted)
            }
            Request::Grant { ttl_s } => {
                let granted = client.lease_grant(ttl_s.cast_signed(), None).await;
                granted.map(|lease| convert::lease(lease.id(), lease.ttl()))
            }
            Request::KeepAlive { lease } => keep_alive(&mut client, lease.cast_signed()).await,
        }
        .map_err(convert::error)
    }

    /// A line for the log, whose work is done on `runtime`. `note_path` is renewed now and then.
    pub fn line(self, runtime: &Handle, note_path: PathBuf, wake: Wake) -> EtcdLine {
        let (commands, queue) = mpsc::unbounded_channel();
        let (answers, answered) = mpsc::unbounded_channel();
        let (watches, watched) = mpsc::channel(WATCHED_MAX);
        let bell = Arc::new(Bell { is_rung: AtomicBool::new(false), wake });
        let worker = Worker { connection: self, answers, watches, bell: Arc::clone(&bell), running: BTreeMap::new() };
        runtime.spawn(worker.run(queue));
        EtcdLine { commands, answered, watched, bell, note_path, noted: None, noted_ms: 0 }
    }
}

async fn keep_alive(client: &mut Client, lease: i64) -> Result<Response, etcd_client::Error> {
    let (mut keeper, mut stream) = client.lease_keep_alive(lease).await?;
    keeper.keep_alive().await?;
    let left = stream.message().await?.map_or(0, |answer| answer.ttl());
    Ok(convert::lease(lease, left))
}

fn connect_options(options: &EtcdOptions) -> Result<ConnectOptions, EtcdError> {
    let mut connect = ConnectOptions::new()
        .with_connect_timeout(CONNECT)
        .with_keep_alive(KEEP_ALIVE, KEEP_ALIVE)
        .with_keep_alive_while_idle(true)
        .with_require_leader(true)
        .with_auto_token_refresh(true);
    if let (Some(user), Some(path)) = (&options.user, &options.password_file) {
        let password = std::fs::read_to_string(path);
        let password = password.map_err(|source| EtcdError::File { path: path.clone(), source })?;
        connect = connect.with_user(user, password.trim());
    }
    if let Some(ca) = options.tls.read_ca()? {
        let mut tls = TlsOptions::new().ca_certificate(Certificate::from_pem(ca));
        if let Some(shown) = options.tls.read_shown()? {
            tls = tls.identity(etcd_client::Identity::from_pem(shown.certificate, shown.key));
        }
        connect = connect.with_tls(tls);
    }
    Ok(connect)
}

/// Wakes whoever listens, once until it has listened.
struct Bell {
    is_rung: AtomicBool,
    wake: Wake,
}

impl Bell {
    fn ring(&self) {
        if !self.is_rung.swap(true, Ordering::AcqRel) {
            (self.wake)();
        }
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
        self.bell.is_rung.store(false, Ordering::Release);
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
        if let Err(error) = write_note(&self.note_path, &note) {
            tracing::warn!(%error, "what the next start should know could not be noted");
        }
        self.noted = Some(note);
    }
}
