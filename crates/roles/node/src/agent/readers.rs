//! Everybody who reads output of tasks on this node: one small task each, at a bounded pace.

use super::messages::{self, LogRequest};
use super::output::Output;
use crate::shim::log_folder;
use ohm_model::RunRef;
use ohm_wire::{AgentUp, NODE_READERS_MAX};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

/// How long a reader may take nothing of what is ready.
const STALL: Duration = Duration::from_secs(30);
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
    stalled: Stalled,
    has_ended: watch::Sender<bool>,
}

/// Since when a piece is ready and none may be sent; none while its reader keeps up.
type Stalled = Arc<Mutex<Option<Instant>>>;

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
        if self.open.len() >= NODE_READERS_MAX && !self.end_most_stalled(pieces) {
            let reason = format!("{NODE_READERS_MAX} readers are served already; try again later");
            // If even this finds no room, the reader is told by its own patience.
            let _ = pieces.try_send(messages::log_piece(request.request, Err(reason)));
            return;
        }
        let path = log_folder(&self.folder, request.run).join(if request.is_stderr { "stderr" } else { "stdout" });
        let (has_ended, ended) = watch::channel(!is_live && path.exists());
        let credit = Arc::new(Semaphore::new(request.credit as usize));
        let stalled = Stalled::default();
        let way = Way { pieces: pieces.clone(), credit: Arc::clone(&credit), stalled: Arc::clone(&stalled) };
        let task = self.tasks.spawn(answer(request, path, ended, way));
        self.open.insert(request.request, Reader { run: request.run, task, credit, stalled, has_ended });
    }

    /// Ends the reader that has taken nothing for the longest; false when all keep up.
    fn end_most_stalled(&mut self, pieces: &mpsc::Sender<AgentUp>) -> bool {
        let since = |reader: &Reader| *reader.stalled.lock().unwrap_or_else(PoisonError::into_inner);
        let stalled = self.open.iter().filter_map(|(request, reader)| Some((since(reader)?, *request))).min();
        let Some((_, request)) = stalled else { return false };
        self.stop(request);
        let reason = "others want to read on this node, and this reader takes nothing; read again from where you are";
        // Beyond its credit: whoever reads keeps room for one last word.
        let _ = pieces.try_send(messages::log_piece(request, Err(reason.into())));
        true
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
    stalled: Stalled,
}

impl Way {
    /// Waits until the reader has room, then sends; false when nobody reads any more.
    ///
    /// # Errors
    /// When the reader takes nothing for too long.
    async fn send(&self, message: AgentUp) -> io::Result<bool> {
        let permit = match self.credit.try_acquire() {
            Ok(permit) => Ok(permit),
            Err(_) => {
                self.set_stalled(Some(Instant::now()));
                let granted = timeout(STALL, self.credit.acquire()).await;
                self.set_stalled(None);
                let reason = || format!("ended: nothing was taken for {STALL:?}; read again from where you are");
                granted.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, reason()))?
            }
        };
        let Ok(permit) = permit else { return Ok(false) };
        permit.forget();
        Ok(self.pieces.send(message).await.is_ok())
    }

    fn set_stalled(&self, since: Option<Instant>) {
        *self.stalled.lock().unwrap_or_else(PoisonError::into_inner) = since;
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
    let has_failed = last.is_err();
    let last = messages::log_piece(request.request, last);
    // The end of the output waits like any piece of it; why it broke off is beyond the credit.
    let _ = if has_failed { way.pieces.send(last).await.is_ok() } else { way.send(last).await.is_ok() };
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
            if !way.send(messages::log_piece(request.request, Ok(Some(piece)))).await? {
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

#[cfg(test)]
mod tests {
    use super::super::output::Tail;
    use super::*;
    use ohm_model::JobId;
    use ohm_wire::agent_up;

    /// The next piece: whose it is, and why it is the last one, if it is.
    async fn next(pieces: &mut mpsc::Receiver<AgentUp>) -> (u64, String) {
        match pieces.recv().await.and_then(|message| message.kind) {
            Some(agent_up::Kind::Log(piece)) => (piece.request, piece.error),
            other => panic!("no piece: {other:?}"),
        }
    }

    #[tokio::test]
    async fn readers_that_take_nothing_make_room_for_others() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunRef::new(JobId(1), 0, 0, 1);
        let place = log_folder(folder.path(), run);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("stdout"), vec![b'x'; 1 << 20]).unwrap();
        let mut readers = Readers::new(folder.path());
        let (sender, mut pieces) = mpsc::channel(1024);
        let request =
            |request| LogRequest { request, run, is_stderr: false, follow: false, tail: Tail::All, credit: 1 };
        let count = NODE_READERS_MAX as u64;
        for number in 1..=count {
            readers.open(request(number), true, &sender);
            assert_eq!(next(&mut pieces).await, (number, String::new()));
        }
        // Each has its one piece and takes no more; the first has waited for the longest once all of them wait.
        let is_stalled = |reader: &Reader| reader.stalled.lock().unwrap().is_some();
        while !readers.open.values().all(is_stalled) {
            tokio::task::yield_now().await;
        }
        readers.open(request(count + 1), true, &sender);
        let (ended, why) = next(&mut pieces).await;
        assert!((1..=count).contains(&ended) && why.contains("takes nothing"), "{ended} {why}");
        assert_eq!(next(&mut pieces).await, (count + 1, String::new()));
        assert_eq!(readers.open.len(), NODE_READERS_MAX);
    }
}
