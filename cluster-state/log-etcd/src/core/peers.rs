//! Which servers run, as their leases tell.

use super::EtcdCore;
use super::call::{Command, Range, Request, Response, WatchEvent};
use super::calls::Purpose;
use ohm_log::{LogEvent, Members};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Peers {
    listing: bool,
    pub(super) watch: Option<u64>,
    known: BTreeMap<u64, String>,
    told: Option<Members>,
}

impl EtcdCore {
    pub(super) fn tick_peers(&mut self, now_ms: u64) {
        if self.session.is_held() && self.peers.watch.is_none() && !self.peers.listing && self.may_send(now_ms) {
            self.peers.listing = true;
            let range = Range::below(&self.keys.servers(), 0);
            self.call(Purpose::ListServers, Request::Range(range));
        }
    }

    pub(super) fn servers_listed(&mut self, answer: Option<Response>) {
        self.peers.listing = false;
        let Some(Response::Range { revision, pairs, .. }) = answer else { return };
        self.peers.known.clear();
        for pair in pairs {
            self.note_server(&pair.key, &pair.value);
        }
        let watch = self.next_watch;
        self.next_watch += 1;
        self.peers.watch = Some(watch);
        let prefix = self.keys.servers();
        self.commands.push(Command::Watch { watch, prefix, from: revision + 1, deletions: true });
        self.tell_members();
    }

    fn note_server(&mut self, key: &str, value: &[u8]) {
        if let Some(number) = self.keys.number_of(key) {
            self.peers.known.insert(number, String::from_utf8_lossy(value).into_owned());
        }
    }

    pub(super) fn peers_watched(&mut self, events: Vec<WatchEvent>) {
        for event in events {
            match event {
                WatchEvent::Put(pair) => self.note_server(&pair.key, &pair.value),
                WatchEvent::Deleted { key, .. } => {
                    if let Some(number) = self.keys.number_of(&key) {
                        self.peers.known.remove(&number);
                    }
                }
            }
        }
        self.tell_members();
    }

    fn tell_members(&mut self) {
        let own = self.config.note.server;
        let mut addresses = self.peers.known.clone();
        // Between two sessions this server is not in the list, and still the one that it is.
        addresses.entry(own).or_insert_with(|| self.config.address.clone());
        let members = Members { voters: addresses.keys().copied().collect(), addresses, ..Members::default() };
        if self.peers.told.as_ref() != Some(&members) {
            self.peers.told = Some(members.clone());
            self.tell(LogEvent::Members(members));
        }
    }
}
