//! Copies of the cell for readers. Copies are shared between requests, so that a thousand people who wait cost the
//! replica as little as one.

use crate::handle::{ReplicaHandle, Servers, Unanswered};
use crate::log_readers::LogQuery;
use crate::log_relay::LogStream;
use ohm_cell::Cell;
use ohm_log::MemberChange;
use ohm_model::{Asked, Index, Outcome};
use ohm_replica::{ChangeFailure, EventPage};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, timeout};

/// How long the replica may take to answer a question.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a command may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// A copy that nobody asked for is dropped after this long: while it lives, each first write to a chunk copies it.
const KEEP: Duration = Duration::from_millis(100);

tokio::task_local! {
    /// Whether the request under way is content with what this server knows, however old (`?stale=ok`).
    static STALE: bool;
}

/// Runs the handler of a request that is content with what this server knows, or not.
pub(super) async fn with_staleness<T>(stale: bool, handler: impl Future<Output = T>) -> T {
    STALE.scope(stale, handler).await
}

/// The copy asked for last.
struct Kept {
    since: Instant,
    cell: Arc<Cell>,
}

/// Asks the replica, in time, and shares what it answers.
pub(super) struct Cells {
    handle: ReplicaHandle,
    kept: Arc<Mutex<Option<Kept>>>,
    written: AtomicU64,
}

impl Cells {
    pub(super) fn new(handle: ReplicaHandle) -> Self {
        Cells { handle, kept: Arc::default(), written: AtomicU64::new(0) }
    }

    /// The state as of now: everything that was answered before this call, by whichever server, is in it; unless the
    /// request says that this server's own copy will do.
    pub(super) async fn now(&self) -> Result<Arc<Cell>, Unanswered> {
        if !STALE.try_with(|stale| *stale).unwrap_or(false) {
            in_time(self.handle.read()).await?;
        }
        self.here().await
    }

    /// The state of this server's copy as of now: everything that was answered here before this call is in it.
    pub(super) async fn here(&self) -> Result<Arc<Cell>, Unanswered> {
        let applied = self.handle.applied().borrow().0;
        let least = Index(applied.max(self.written.load(Ordering::Acquire)));
        self.get(|kept| kept.cell.applied() >= least).await
    }

    /// The state as it was at most `age` ago; for those who look again and again.
    pub(super) async fn recent(&self, age: Duration) -> Result<Arc<Cell>, Unanswered> {
        self.get(|kept| kept.since.elapsed() <= age).await
    }

    async fn get(&self, is_good: impl Fn(&Kept) -> bool) -> Result<Arc<Cell>, Unanswered> {
        let mut kept = self.kept.lock().await;
        if let Some(found) = kept.as_ref().filter(|found| is_good(found)) {
            return Ok(Arc::clone(&found.cell));
        }
        // The age counts from before the question: the answer cannot be older.
        let since = Instant::now();
        let cell = in_time(self.handle.cell()).await?;
        *kept = Some(Kept { since, cell: Arc::clone(&cell) });
        self.drop_later(since);
        Ok(cell)
    }

    fn drop_later(&self, since: Instant) {
        let kept = Arc::clone(&self.kept);
        tokio::spawn(async move {
            tokio::time::sleep(KEEP).await;
            let mut kept = kept.lock().await;
            if kept.as_ref().is_some_and(|kept| kept.since == since) {
                *kept = None;
            }
        });
    }

    /// Puts a command into the log; what is read later has seen it.
    pub(super) async fn command(&self, asked: Asked) -> Result<(Index, Outcome), Unanswered> {
        let answer = timeout(COMMAND_TIMEOUT, self.handle.command(asked)).await;
        let late = || Unanswered::Unknown(format!("no answer within {} s", COMMAND_TIMEOUT.as_secs()));
        let (index, outcome) = answer.map_err(|_| late())??;
        self.written.fetch_max(index.0, Ordering::AcqRel);
        Ok((index, outcome))
    }

    pub(super) async fn events_after(&self, index: Index) -> Result<EventPage, Unanswered> {
        in_time(self.handle.events_after(index)).await
    }

    pub(super) async fn read_log(&self, query: LogQuery) -> Result<Result<LogStream, String>, Unanswered> {
        in_time(self.handle.read_log(query)).await
    }

    pub(super) async fn servers(&self) -> Result<Servers, Unanswered> {
        in_time(self.handle.servers()).await
    }

    pub(super) async fn change_members(&self, change: MemberChange) -> Result<Result<u64, ChangeFailure>, Unanswered> {
        in_time(self.handle.change_members(change)).await
    }

    pub(super) async fn transfer(&self, to: Option<u64>) -> Result<(), Unanswered> {
        in_time(self.handle.transfer(to)).await
    }

    pub(super) async fn believe_clock(&self, server: u64) -> Result<(), Unanswered> {
        in_time(self.handle.believe_clock(server)).await
    }

    pub(super) fn applied(&self) -> watch::Receiver<Index> {
        self.handle.applied()
    }
}

async fn in_time<T>(answer: impl Future<Output = Result<T, Unanswered>>) -> Result<T, Unanswered> {
    let late = || Unanswered::NotServing(format!("no answer within {} s", READ_TIMEOUT.as_secs()));
    timeout(READ_TIMEOUT, answer).await.map_err(|_| late())?
}
