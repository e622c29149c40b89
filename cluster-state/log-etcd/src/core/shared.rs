//! What every part of the core works with.

use super::calls::Calls;
use super::config::EtcdConfig;
use super::keys::Keys;
use super::told::Told;
use ohm_stdx::Prng;

/// The configuration, the keys, the way to etcd and the way to the copy.
pub(super) struct Shared {
    pub(super) config: EtcdConfig,
    pub(super) keys: Keys,
    pub(super) calls: Calls,
    pub(super) told: Told,
}

impl Shared {
    pub(super) fn new(config: EtcdConfig) -> Self {
        let (keys, calls) = (Keys::new(&config.prefix), Calls::new(Prng::new(config.seed)));
        Shared { config, keys, calls, told: Told::default() }
    }

    /// The key of this server.
    pub(super) fn own_key(&self) -> String {
        self.keys.server(self.config.note.server)
    }
}
