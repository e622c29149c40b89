//! One connection: whose it is, what is under way on it, since when it is quiet.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use tokio::sync::Notify;

/// How long a stranger may take until the next whole request: a header that is never finished is none.
const STRANGER_QUIET_MS_MAX: u64 = 10_000;
/// How long a connection that has shown the token may be without a request.
const KNOWN_QUIET_MS_MAX: u64 = 60_000;

/// Who speaks, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// No token was shown yet.
    Stranger,
    /// A person or program, over HTTP.
    Person,
    /// An agent, a scheduler, another server.
    Role,
}

impl Kind {
    /// How many there are.
    pub(super) const COUNT: usize = 3;
    /// All of them, by [`Kind::index`].
    pub(super) const ALL: [Kind; Kind::COUNT] = [Kind::Stranger, Kind::Person, Kind::Role];

    pub(super) fn index(self) -> usize {
        self as usize
    }

    /// As metrics call it.
    pub(super) fn name(self) -> &'static str {
        ["stranger", "person", "role"][self.index()]
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Seat {
    kind: AtomicU8,
    under_way: AtomicU32,
    /// The last request, or the end of one.
    quiet_since_ms: AtomicU64,
    gone: Notify,
}

impl Seat {
    pub(super) fn new(now_ms: u64) -> Self {
        Seat {
            kind: AtomicU8::new(0),
            under_way: AtomicU32::new(0),
            quiet_since_ms: AtomicU64::new(now_ms),
            gone: Notify::new(),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        Kind::ALL[usize::from(self.kind.load(Ordering::Relaxed)).min(Kind::COUNT - 1)]
    }

    pub(super) fn become_known(&self, kind: Kind) {
        self.kind.store(kind.index() as u8, Ordering::Relaxed);
    }

    /// A request has come, its header whole.
    pub(super) fn begin(&self, now_ms: u64) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.quiet_since_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Its answer is sent, or will never be.
    pub(super) fn end(&self, now_ms: u64) {
        self.quiet_since_ms.store(now_ms, Ordering::Relaxed);
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// Since when nothing is under way.
    pub(super) fn idle_since_ms(&self) -> Option<u64> {
        (self.under_way.load(Ordering::Relaxed) == 0).then(|| self.quiet_since_ms.load(Ordering::Relaxed))
    }

    /// How long it may still be quiet; 0 when it has to go. What a stranger leaves under way counts for nothing: it may
    /// never take its answer.
    pub(super) fn patience_ms(&self, now_ms: u64) -> u64 {
        let quiet_ms = now_ms.saturating_sub(self.quiet_since_ms.load(Ordering::Relaxed));
        match (self.kind(), self.idle_since_ms()) {
            (Kind::Stranger, _) => STRANGER_QUIET_MS_MAX.saturating_sub(quiet_ms),
            (_, Some(_)) => KNOWN_QUIET_MS_MAX.saturating_sub(quiet_ms),
            (_, None) => KNOWN_QUIET_MS_MAX,
        }
    }

    /// Tells the connection to end.
    pub(super) fn send_away(&self) {
        self.gone.notify_one();
    }

    /// Until it is told to end.
    pub(super) async fn sent_away(&self) {
        self.gone.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_have_ten_seconds_and_the_known_as_long_as_something_is_under_way() {
        let seat = Seat::new(1_000);
        assert_eq!((seat.patience_ms(1_000), seat.patience_ms(11_000)), (10_000, 0));
        seat.begin(9_000);
        assert_eq!((seat.patience_ms(11_000), seat.patience_ms(19_000)), (8_000, 0), "its answer is not taken");
        seat.become_known(Kind::Person);
        assert_eq!((seat.idle_since_ms(), seat.patience_ms(900_000)), (None, KNOWN_QUIET_MS_MAX));
        seat.end(900_000);
        assert_eq!((seat.idle_since_ms(), seat.patience_ms(960_000)), (Some(900_000), 0));
    }
}
