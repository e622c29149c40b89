//! Reads that must see everything acknowledged before them, asked of any server, now and then.

use super::{Event, World};
use crate::faults::Victim;
use ohm_model::Index;
use ohm_replica::{RequestId, ServerInput};
use ohm_stdx::Prng;
use std::collections::BTreeMap;

/// Those who read.
pub(crate) struct Readers {
    /// Their own: that somebody reads changes nothing else in a run.
    dice: Prng,
    /// How far anybody was told that the log goes.
    acknowledged: Index,
    /// What each read under way must see: by server and request.
    least: BTreeMap<(usize, RequestId), Index>,
    next: u64,
}

impl Readers {
    pub(crate) fn new(dice: Prng) -> Self {
        Readers { dice, acknowledged: Index(0), least: BTreeMap::new(), next: 0 }
    }

    /// Somebody is told that an entry stands.
    pub(crate) fn acknowledged(&mut self, index: Index) {
        self.acknowledged = self.acknowledged.max(index);
    }
}

impl World {
    /// Somebody reads over one server.
    pub(super) fn read(&mut self) {
        let again_ms = self.readers.dice.between(50, self.knobs.theme.read_pause_ms());
        self.agenda.after(again_ms, Event::Read);
        let now_ms = self.agenda.now_ms();
        let is_ready = |number: &usize| {
            let server = &self.servers[*number];
            let stands_still = server.paused_until_ms > now_ms || self.held.contains_key(&Victim::Server(*number));
            server.is_up() && server.caught_up && !stands_still
        };
        let ready: Vec<usize> = (0..self.servers.len()).filter(is_ready).collect();
        let Some(&server) = self.readers.dice.pick(&ready) else { return };
        let request = RequestId(self.readers.next);
        self.readers.next += 1;
        self.readers.least.insert((server, request), self.readers.acknowledged);
        self.step_server(server, ServerInput::Read { request });
    }

    /// The server says that its copy is far enough, or that it cannot tell.
    pub(super) fn read_answered(&mut self, server: usize, request: RequestId, is_readable: bool) {
        let Some(least) = self.readers.least.remove(&(server, request)) else { return };
        let applied = self.servers[server].applied();
        if is_readable {
            self.report.reads += 1;
        }
        if is_readable && applied < least {
            let what = format!("server {} answers a read at entry {applied}, {least} was acknowledged", server + 1);
            self.fail("P3", what);
        }
    }
}
