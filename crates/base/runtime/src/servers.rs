//! The servers of a cell, tried in turn until one answers, and again whenever it is lost.

use crate::connect::{Client, ConnectError, connect};
use crate::data_dir;
use crate::dice;
use crate::tls::TlsFiles;
use ohm_stdx::Prng;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;
use tonic::transport::Endpoint;

/// The pause after the first failure; it doubles with each further one.
const PAUSE_MS_MIN: u64 = 50;
/// No pause is longer.
const PAUSE_MS_MAX: u64 = 2_000;
/// A connection that held this long did not fail at once: the next attempt needs no pause.
const HELD: Duration = Duration::from_secs(5);

/// Where the cell's token comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TokenSource {
    /// None is shown.
    #[default]
    None,
    /// This very text.
    Text(String),
    /// The file of that path, read before each attempt: a cell that is being made writes it a little later.
    File(PathBuf),
}

/// Where the servers of a cell are, and what they want to see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Servers {
    /// `http://host:port` or `https://host:port` each, at least one.
    pub addresses: Vec<String>,
    /// What is shown to them.
    pub token: TokenSource,
    /// What is shown and believed where the address is `https://`.
    pub tls: TlsFiles,
}

/// Connects to one server after the other, for the life of a process.
#[derive(Debug)]
pub struct Dialer {
    servers: Servers,
    next: usize,
    failures: u32,
    connected: Option<Instant>,
    dice: Prng,
}

impl Dialer {
    /// A dialer that begins with the first address.
    ///
    /// # Errors
    /// When there is no address, or one that is none.
    pub fn new(servers: Servers) -> Result<Self, ConnectError> {
        if servers.addresses.is_empty() {
            return Err(ConnectError::NoAddress);
        }
        if let Some(bad) = servers.addresses.iter().find(|address| Endpoint::from_shared(address.to_string()).is_err())
        {
            return Err(ConnectError::Address(bad.clone()));
        }
        Ok(Dialer { servers, next: 0, failures: 0, connected: None, dice: dice::dice() })
    }

    /// Connects to the next server that answers, however long that takes. Called again, the last connection is taken
    /// for lost. Gives the address too.
    pub async fn dial(&mut self) -> (Client, String) {
        match self.connected.take() {
            Some(since) if since.elapsed() >= HELD => self.failures = 0,
            Some(_) => self.failures += 1,
            None => {}
        }
        loop {
            tokio::time::sleep(self.pause()).await;
            let address = self.servers.addresses[self.next % self.servers.addresses.len()].clone();
            self.next = self.next.wrapping_add(1);
            match self.attempt(&address).await {
                Ok(client) => {
                    self.connected = Some(Instant::now());
                    return (client, address);
                }
                Err(reason) => self.note_failure(&reason),
            }
        }
    }

    async fn attempt(&self, address: &str) -> Result<Client, String> {
        let read;
        let token = match &self.servers.token {
            TokenSource::None => None,
            TokenSource::Text(token) => Some(token.as_str()),
            TokenSource::File(path) => {
                read = data_dir::read_token(path).map_err(|error| error.to_string())?;
                Some(read.as_str())
            }
        };
        connect(address, token, &self.servers.tls).await.map_err(|error| error.to_string())
    }

    /// Said once per outage; the rest is for those who look closely.
    fn note_failure(&mut self, reason: &str) {
        match self.failures {
            0 => tracing::warn!("{reason}; trying again until one does"),
            _ => tracing::debug!(failures = self.failures, "{reason}"),
        }
        self.failures = self.failures.saturating_add(1);
    }

    /// Nothing before the first attempt; then longer and longer, a little at random so that not all come back at once.
    fn pause(&mut self) -> Duration {
        if self.failures == 0 {
            return Duration::ZERO;
        }
        let pause_ms = (PAUSE_MS_MIN << (self.failures - 1).min(8)).min(PAUSE_MS_MAX);
        Duration::from_millis(pause_ms / 2 + self.dice.below(pause_ms / 2 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialer(addresses: &[&str]) -> Result<Dialer, ConnectError> {
        let addresses = addresses.iter().map(ToString::to_string).collect();
        Dialer::new(Servers { addresses, ..Servers::default() })
    }

    #[test]
    fn what_is_no_address_is_said_before_anything_is_tried() {
        assert!(matches!(dialer(&[]), Err(ConnectError::NoAddress)));
        assert!(matches!(dialer(&["http://127.0.0.1:1", "not an address"]), Err(ConnectError::Address(_))));
    }

    #[test]
    fn pauses_grow_to_a_bound() {
        let mut dialer = dialer(&["http://127.0.0.1:1"]).unwrap();
        assert_eq!(dialer.pause(), Duration::ZERO);
        dialer.failures = 1;
        assert!(dialer.pause() <= Duration::from_millis(PAUSE_MS_MIN));
        dialer.failures = u32::MAX;
        let pause = dialer.pause();
        assert!(pause >= Duration::from_millis(PAUSE_MS_MAX / 2) && pause <= Duration::from_millis(PAUSE_MS_MAX));
    }
}
