//! How much of the server requests may take up at once. Each kind of request has a lane of its own, so that none of
//! them turns the others away. In a lane no client has more than three quarters: there is always room for somebody
//! else.

use super::answer::Problem;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use ohm_stdx::hash;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Who asks, as far as shares go: an owner at an address. All clients of a cell have one token, so whoever gives many
/// owners has many shares.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Client {
    address: IpAddr,
    owner: Vec<u8>,
}

impl Client {
    pub(super) fn new(address: Option<IpAddr>, owner: &[u8]) -> Self {
        Client { address: address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), owner: owner.to_vec() }
    }

    /// A number for it, the same on every server.
    pub(super) fn number(&self) -> u64 {
        hash::bytes(&[self.address.to_string().as_bytes(), b" ", &self.owner].concat())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Client>().cloned().unwrap_or_else(|| Client::new(None, b"")))
    }
}

/// Room for so many at once.
#[derive(Debug)]
pub(super) struct Lane {
    limit: usize,
    all: Arc<Semaphore>,
    /// Of those who are in it; a client that is not has no semaphore.
    clients: Mutex<BTreeMap<Client, Weak<Semaphore>>>,
}

/// One place in a lane, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _of_client: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// All places are taken.
    All(usize),
    /// The client has its share.
    Share(usize),
}

impl Lane {
    pub(super) fn new(limit: usize) -> Self {
        Lane { limit, all: Arc::new(Semaphore::new(limit)), clients: Mutex::default() }
    }

    /// A place now.
    pub(super) fn try_enter(&self, client: &Client) -> Result<Place, Full> {
        let of_client = self.share_of(client).try_acquire_owned().map_err(|_| Full::Share(self.share()))?;
        let of_all = Arc::clone(&self.all).try_acquire_owned().map_err(|_| Full::All(self.limit))?;
        Ok(Place { _of_client: of_client, _of_all: of_all })
    }

    /// A place once there is one. Whoever has its share waits behind itself alone.
    pub(super) async fn enter(&self, client: &Client) -> Option<Place> {
        let of_client = self.share_of(client).acquire_owned().await.ok()?;
        let of_all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Place { _of_client: of_client, _of_all: of_all })
    }

    /// Whether nobody is in it.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.all.available_permits() == self.limit
    }

    fn share(&self) -> usize {
        (self.limit - self.limit / 4).max(1)
    }

    fn share_of(&self, client: &Client) -> Arc<Semaphore> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = clients.get(client).and_then(Weak::upgrade) {
            return share;
        }
        clients.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(self.share()));
        clients.insert(client.clone(), Arc::downgrade(&share));
        share
    }
}

impl From<Full> for Problem {
    fn from(full: Full) -> Self {
        let (message, hint) = match full {
            Full::All(limit) => {
                (format!("{limit} requests are under way already"), "nothing was done; try again in a moment")
            }
            Full::Share(share) => (
                format!("{share} requests of this owner are under way from here already, as many as one may have"),
                "nothing was done; wait for some of them",
            ),
        };
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message, hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn one_client_leaves_room_for_another() {
        let lane = Lane::new(8);
        let (ann, bob) = (Client::new(None, b"ann"), Client::new(None, b"bob"));
        let held: Vec<Place> = (0..6).map(|_| lane.try_enter(&ann).unwrap()).collect();
        assert_eq!(lane.try_enter(&ann).err(), Some(Full::Share(6)));
        assert!(lane.enter(&ann).now_or_never().is_none(), "it waits for itself");
        let other: Vec<Place> = (0..2).map(|_| lane.try_enter(&bob).unwrap()).collect();
        assert_eq!(lane.try_enter(&bob).err(), Some(Full::All(8)));
        drop((held, other));
        assert!(lane.try_enter(&bob).is_ok());
        assert_eq!(lane.clients.lock().unwrap().len(), 1, "whoever left is forgotten");
    }

    #[test]
    fn a_small_lane_can_be_one_clients() {
        for (limit, share) in [(0, 1), (1, 1), (2, 2), (3, 3), (4, 3), (64, 48)] {
            assert_eq!(Lane::new(limit).share(), share, "{limit}");
        }
        assert_eq!(Lane::new(0).try_enter(&Client::new(None, b"")).err(), Some(Full::All(0)));
    }
}
