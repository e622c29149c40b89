//! Which servers run, as their leases tell.

use super::call::{Range, Request, Response, WatchEvent};
use super::calls::Purpose;
use super::shared::Shared;
use ohm_log::{LogEvent, Members};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Peers {
    listing: bool,
    watch: Option<u64>,
    known: BTreeMap<u64, String>,
    told: Option<Members>,
}

impl Peers {
    /// Whether `watch` is the one of the servers.
    pub(super) fn watches(&self, watch: u64) -> bool {
        self.watch == Some(watch)
    }

    /// The watch has ended: another one begins.
    pub(super) fn watch_ended(&mut self) {
        self.watch = None;
    }

    pub(super) fn tick(&mut self, now_ms: u64, is_held: bool, shared: &mut Shared) {
        if is_held && self.watch.is_none() && !self.listing && shared.calls.may_send(now_ms) {
            self.listing = true;
            let range = Range::below(&shared.keys.servers(), 0);
            shared.calls.call(Purpose::ListServers, Request::Range(range));
        }
    }

    pub(super) fn listed(&mut self, answer: Option<Response>, shared: &mut Shared) {
        self.listing = false;
        let Some(Response::Range { revision, pairs, .. }) = answer else { return };
        self.known.clear();
        for pair in pairs {
            self.note(&pair.key, &pair.value, shared);
        }
        self.watch = Some(shared.calls.watch(shared.keys.servers(), revision.saturating_add(1), true));
        self.tell(shared);
    }

    fn note(&mut self, key: &str, value: &[u8], shared: &Shared) {
        if let Some(number) = shared.keys.number_of(key) {
            self.known.insert(number, String::from_utf8_lossy(value).into_owned());
        }
    }

    pub(super) fn watched(&mut self, events: Vec<WatchEvent>, shared: &mut Shared) {
        for event in events {
            match event {
                WatchEvent::Put(pair) => self.note(&pair.key, &pair.value, shared),
                WatchEvent::Deleted { key, .. } => {
                    if let Some(number) = shared.keys.number_of(&key) {
                        self.known.remove(&number);
                    }
                }
            }
        }
        self.tell(shared);
    }

    fn tell(&mut self, shared: &mut Shared) {
        let own = shared.config.note.server;
        let mut addresses = self.known.clone();
        // Between two sessions this server is not in the list, and still the one that it is.
        addresses.entry(own).or_insert_with(|| shared.config.address.clone());
        let members = Members { voters: addresses.keys().copied().collect(), addresses, ..Members::default() };
        if self.told.as_ref() != Some(&members) {
            self.told = Some(members.clone());
            shared.told.tell(LogEvent::Members(members));
        }
    }
}
