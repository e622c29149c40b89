//! Answers that go on: how many there may be, since each costs the server something for as long as it lives.

use super::answer::Problem;
use axum::http::StatusCode;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The streams of one kind.
pub(super) struct Streams {
    kind: &'static str,
    limit: usize,
    room: Arc<Semaphore>,
}

/// One stream; it counts until it is dropped.
pub(super) struct OpenStream {
    kind: &'static str,
    _permit: OwnedSemaphorePermit,
}

impl Streams {
    /// Streams of `kind`, as the metrics name them, at most `limit` at once.
    pub(super) fn new(kind: &'static str, limit: usize) -> Self {
        Streams { kind, limit, room: Arc::new(Semaphore::new(limit)) }
    }

    /// Makes room for one more.
    ///
    /// # Errors
    /// When there are as many as there may be.
    pub(super) fn open(&self) -> Result<OpenStream, Problem> {
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            metrics::counter!("ohm_http_streams_refused_total", "kind" => self.kind).increment(1);
            let message = format!("{} streams of {} are open already, as many as there may be", self.limit, self.kind);
            let hint = "end some of them (`ohm logs -f`, `ohm events -f`), or ask without `follow`; \
                        what was asked is not changed by asking later";
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_streams", message, hint));
        };
        metrics::gauge!("ohm_http_streams", "kind" => self.kind).increment(1.0);
        Ok(OpenStream { kind: self.kind, _permit: permit })
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        metrics::gauge!("ohm_http_streams", "kind" => self.kind).decrement(1.0);
    }
}
