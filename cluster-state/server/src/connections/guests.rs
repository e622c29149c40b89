//! Every connection as those who serve it know it.

use super::room::{Full, Limits, Room};
use super::seat::{Kind, Seat};
use ohm_runtime::clock::boot_ms;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often it is said at most that connections are pushed out.
const SAID_EVERY_MS: u64 = 60_000;

/// All connections of a server.
pub(super) struct Connections {
    room: Mutex<Room>,
    said_ms: Mutex<Option<u64>>,
}

impl Connections {
    pub(super) fn new(limits: Limits) -> Self {
        Connections { room: Mutex::new(Room::new(limits)), said_ms: Mutex::new(None) }
    }

    /// A connection from `address` was accepted; it counts until the guest is dropped.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Guest {
        let seat = Arc::new(Seat::new(boot_ms()));
        let (id, evicted) = self.change(|room| room.enter(address, Arc::clone(&seat)));
        self.push_out(evicted, address);
        Guest(Arc::new(Place { id, address, seat, connections: Arc::clone(self) }))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Room) -> T) -> T {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut room);
        for kind in Kind::ALL {
            metrics::gauge!("ohm_connections", "kind" => kind.name()).set(room.count(kind) as f64);
        }
        changed
    }

    fn push_out(&self, evicted: Option<Arc<Seat>>, by: IpAddr) {
        let Some(evicted) = evicted else { return };
        metrics::counter!("ohm_connections_pushed_out_total", "kind" => evicted.kind().name()).increment(1);
        evicted.send_away();
        let now_ms = boot_ms();
        let mut said_ms = self.said_ms.lock().unwrap_or_else(PoisonError::into_inner);
        if said_ms.is_none_or(|said_ms| said_ms + SAID_EVERY_MS <= now_ms) {
            *said_ms = Some(now_ms);
            let kind = evicted.kind().name();
            tracing::warn!(%by, kind, "too many connections: new ones push out the oldest without a token, or idle");
        }
    }
}

struct Place {
    id: u64,
    address: IpAddr,
    seat: Arc<Seat>,
    connections: Arc<Connections>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let id = self.id;
        self.connections.change(|room| room.leave(id));
    }
}

/// One connection, for those who serve it: each request carries it among its extensions.
#[derive(Clone)]
pub(crate) struct Guest(Arc<Place>);

impl Guest {
    /// It has shown the token, as `kind`.
    ///
    /// # Errors
    /// When there are as many of the kind as there may be, and all of them are busy.
    pub(crate) fn recognise(&self, kind: Kind) -> Result<(), Full> {
        let Place { id, address, seat, connections } = &*self.0;
        if seat.kind() < kind {
            let evicted = connections.change(|room| room.recognise(*id, kind))?;
            connections.push_out(evicted, *address);
        }
        Ok(())
    }

    /// Where it comes from.
    pub(crate) fn address(&self) -> IpAddr {
        self.0.address
    }

    /// Until it has to end: pushed out, or quiet for too long.
    pub(super) async fn over(&self) {
        let seat = &self.0.seat;
        let quiet = async {
            loop {
                let patience_ms = seat.patience_ms(boot_ms());
                if patience_ms == 0 {
                    return;
                }
                // Somebody who was known may be looked at late, a stranger never.
                tokio::time::sleep(Duration::from_millis(patience_ms)).await;
            }
        };
        tokio::select! { biased;
            () = seat.sent_away() => {}
            () = quiet => {}
        }
    }

    /// A request is under way until what this gives is dropped.
    pub(super) fn begin(&self) -> UnderWay {
        self.0.seat.begin(boot_ms());
        UnderWay(Arc::clone(&self.0.seat))
    }

    pub(super) fn is_stranger(&self) -> bool {
        self.0.seat.kind() == Kind::Stranger
    }
}

/// One request.
pub(super) struct UnderWay(Arc<Seat>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.end(boot_ms());
    }
}
