//! Answers that go on: how many there may be, since each costs the server something for as long as it lives.

use super::answer::Problem;
use super::lanes::{Client, Full, Lane, Place};
use axum::http::StatusCode;

/// The streams of one kind.
pub(super) struct Streams {
    kind: &'static str,
    lane: Lane,
}

/// One stream; it counts until it is dropped.
pub(super) struct OpenStream {
    kind: &'static str,
    _place: Place,
}

impl Streams {
    /// Streams of `kind`, as the metrics name them, at most `limit` at once.
    pub(super) fn new(kind: &'static str, limit: usize) -> Self {
        Streams { kind, lane: Lane::new(limit) }
    }

    /// Makes room for one more of `client`.
    ///
    /// # Errors
    /// When there are as many as there may be, at all or of one client.
    pub(super) fn open(&self, client: &Client) -> Result<OpenStream, Problem> {
        let refused = |full| {
            metrics::counter!("ohm_http_streams_refused_total", "kind" => self.kind).increment(1);
            let kind = self.kind;
            let message = match full {
                Full::All(limit) => format!("{limit} streams of {kind} are open already, as many as there may be"),
                Full::Share(share) => {
                    format!("{share} streams of {kind} of this owner are open from here, as many as one may have")
                }
            };
            let hint = "end some of them (`ohm logs -f`, `ohm events -f`, `ohm endpoints -w`, `ohm rollout status -w`), or ask \
                        without `follow`; what was asked is not changed by asking later";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_streams", message, hint)
        };
        let place = self.lane.try_enter(client).map_err(refused)?;
        metrics::gauge!("ohm_http_streams", "kind" => self.kind).increment(1.0);
        Ok(OpenStream { kind: self.kind, _place: place })
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        metrics::gauge!("ohm_http_streams", "kind" => self.kind).decrement(1.0);
    }
}
