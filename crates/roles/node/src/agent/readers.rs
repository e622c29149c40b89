//! Everybody who reads output of tasks on this node: one small task each, at a bounded pace.

use super::messages::{self, LogRequest};
use super::output::Output;
use crate::shim::log_folder;
use ohm_model::RunRef;
use ohm_wire::AgentUp;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep};

/// Readers at a time on one node.
const READERS_MAX: usize = 64;
/// Pieces granted at once are no more than this, whatever a message says.
const GRANT_MAX: usize = 1_024;
/// Between two looks at a file that is followed.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Between the sight of a rotated copy and the moment at which the cut behind it is surely made.
const CUT_AFTER: Duration = Duration::from_millis(50);
/// How long a follower waits for a run that is about to start.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// A reader.
struct Reader {
    run: RunRef,
    task: AbortHandle,
    /// One permit for each piece that may be sent.
    credit: Arc<Semaphore>,
    has_ended: watch::Sender<bool>,
}

/// All of them.
pub(super) struct Readers {
    folder: PathBuf,
    open: BTreeMap<u64, Reader>,
    tasks: JoinSet<()>,
}

impl Readers {
    /// Readers of what the shim with state in `folder` keeps.
    pub(super) fn new(folder: &Path) -> Self {
        Readers { folder: folder.to_path_buf(), open: BTreeMap::new(), tasks: JoinSet::new() }
    }

    /// Begins to answer `request`. A run that does not live and has a file is over; without a file it is about to
    /// start.
    pub(super) fn open(&mut self, request: LogRequest, is_live: bool, pieces: &mpsc::Sender<AgentUp>) {
        while self.tasks.try_join_next().is_some() {}
        self.open.retain(|_, reader| !reader.task.is_finished());
        if self.open.len() >= READERS_MAX {
            let reason = format!("{READERS_MAX} readers are served already; try again later");
            // If even this finds no room, the reader is told by its own patience.
            let _ = pieces.try_send(messages::log_piece(request.request, Err(reason)));
            return;
        }
        let path = log_folder(&self.folder, request.run).join(if request.is_stderr { "stderr" } else { "stdout" });
        let (has_ended, ended) = watch::channel(!is_live && path.exists());
        let credit = Arc::new(Semaphore::new(request.credit as usize));
        let way = Way { pieces: pieces.clone(), credit: Arc::clone(&credit) };
        let task = self.tasks.spawn(answer(request, path, ended, way));
        self.open.insert(request.request, Reader { run: request.run, task, credit, has_ended });
    }

    /// The reader took some pieces: so many more may be sent.
    pub(super) fn grant(&self, request: u64, pieces: u32) {
        if let Some(reader) = self.open.get(&request) {
            reader.credit.add_permits((pieces as usize).min(GRANT_MAX));
        }
    }

    /// The reader is gone.
    pub(super) fn stop(&mut self, request: u64) {
        if let Some(reader) = self.open.remove(&request) {
            reader.task.abort();
        }
    }

    /// The connection over which everybody reads is gone.
    pub(super) fn stop_all(&mut self) {
        self.open.clear();
        self.tasks.abort_all();
    }

    /// Runs of which `is_over` holds write nothing any more.
    pub(super) fn runs_ended(&self, is_over: impl Fn(RunRef) -> bool) {
        for reader in self.open.values().filter(|reader| is_over(reader.run)) {
            reader.has_ended.send_replace(true);
        }
    }
}

/// The way to the reader.
struct Way {
    pieces: mpsc::Sender<AgentUp>,
    credit: Arc<Semaphore>,
}

impl Way {
    /// Waits until the reader has room, then sends; false when nobody reads any more.
    async fn send(&self, message: AgentUp) -> bool {
        let Ok(permit) = self.credit.acquire().await else { return false };
        permit.forget();
        self.pieces.send(message).await.is_ok()
    }
}

async fn answer(request: LogRequest, path: PathBuf, ended: watch::Receiver<bool>, way: Way) {
    let last = match copy(&request, &path, ended, &way).await {
        Ok(()) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("run {} has written nothing on this node, or it is not kept any more", request.run))
        }
        Err(error) => Err(error.to_string()),
    };
    way.send(messages::log_piece(request.request, last)).await;
}

async fn copy(request: &LogRequest, path: &Path, mut ended: watch::Receiver<bool>, way: &Way) -> io::Result<()> {
    let mut output = open(request, path, &ended).await?;
    loop {
        // Asked before reading, so that what is written before the end is read after it.
        let is_over = !request.follow || *ended.borrow();
        loop {
            let read = blocking(move || (output.read(), output)).await?;
            output = read.1;
            let Some(piece) = read.0? else { break };
            if !way.send(messages::log_piece(request.request, Ok(Some(piece)))).await {
                return Ok(());
            }
        }
        if request.follow && output.is_rotated() {
            sleep(CUT_AFTER).await;
            output.move_on()?;
            continue;
        }
        if is_over {
            return Ok(());
        }
        tokio::select! { biased;
            // Without a sender the agent is ending.
            changed = ended.changed() => if changed.is_err() { return Ok(()) },
            () = sleep(LOOK_EVERY) => {}
        }
    }
}

/// Opens the output; whoever follows may come a little before the run.
async fn open(request: &LogRequest, path: &Path, ended: &watch::Receiver<bool>) -> io::Result<Output> {
    let give_up = Instant::now() + START_PATIENCE;
    loop {
        let (path, tail, follow) = (path.to_path_buf(), request.tail, request.follow);
        match blocking(move || Output::open(&path, tail, follow)).await? {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if !follow || *ended.borrow() || Instant::now() > give_up {
                    return Err(error);
                }
            }
            opened => return opened,
        }
        sleep(LOOK_EVERY).await;
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}
