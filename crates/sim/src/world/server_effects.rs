//! Stepping a server core, and what it wants done.

use super::{Down, Event, World};
use crate::links::Link;
use ohm_cell::{Cell, restore};
use ohm_log::{Alarm, Bytes, MemLog};
use ohm_model::{Command, ConflictReason, Entry, EventKind, Outcome, Refusal};
use ohm_oracle::Record;
use ohm_replica::{Replica, ServerEffect, ServerInput};
use std::sync::Arc;

impl World {
    pub(crate) fn step_server(&mut self, server: usize, input: ServerInput) {
        let mut effects = Vec::new();
        let (now_ms, syncs) = (self.agenda.now_ms(), self.servers[server].syncs());
        let stepped = self.servers[server].step(now_ms, input, &mut effects);
        let synced = self.servers[server].syncs() - syncs;
        if let Some((by_ms, until_ms)) = self.servers[server].slow_disk.filter(|_| synced > 0)
            && until_ms > now_ms
        {
            // The process stands in its sync, and what it says leaves afterwards.
            self.sending_delay_ms = by_ms * synced;
            let paused_until_ms = &mut self.servers[server].paused_until_ms;
            *paused_until_ms = (*paused_until_ms).max(now_ms + by_ms * synced);
        }
        for effect in effects {
            self.perform_server(server, effect);
        }
        self.sending_delay_ms = 0;
        if let Err(failure) = stepped {
            match self.servers[server].doomed.is_some() {
                true => self.disk_failed(server),
                false => self.fail("P3", format!("server {} failed: {failure}", server + 1)),
            }
        }
    }

    fn perform_server(&mut self, server: usize, effect: ServerEffect) {
        match effect {
            ServerEffect::Appended { peer, ticket, result } => {
                self.send_down(peer.0, Down::Appended { ticket, result });
            }
            ServerEffect::Done { request, result } => {
                if let Some((connection, request)) = self.requests.remove(&(server, request)) {
                    self.send_answer(connection, Down::Done { request, result });
                }
            }
            ServerEffect::ToFollower { follower, frame } => self.send_down(follower.0, Down::Frame(frame)),
            ServerEffect::ToAgent { peer, order } => self.send_down(peer.0, Down::Order(order)),
            ServerEffect::ToDuty { peer, beats } => self.send_down(peer.0, Down::Beats(beats)),
            ServerEffect::Applied { index, bytes, applied, chain } => {
                self.report.entries += 1;
                let Ok(entry) = Entry::decode(&bytes) else { return };
                self.count_conflicts(&entry, &applied);
                self.history.push(Record::Applied {
                    at_ms: self.agenda.now_ms(),
                    copy: self.servers[server].copy(),
                    index,
                    entry: Arc::new(entry),
                    applied: Arc::from(applied),
                    chain,
                });
            }
            ServerEffect::Encode { purpose, cell } => {
                let (index, pieces) = (cell.applied(), Replica::<MemLog>::encode(&cell));
                self.check_snapshot(&cell, &pieces);
                let (after_ms, starts) = (self.dice.below(30), self.servers[server].starts);
                self.agenda.after(after_ms, Event::Encoded { server, starts, purpose, index, pieces });
            }
            ServerEffect::ToServer { to, bytes } => self.send_between(server, to, bytes),
            ServerEffect::Alarm(Alarm::TailCut { .. }) => self.count("disk write torn"),
            ServerEffect::Readable { .. }
            | ServerEffect::MembersChanged { .. }
            | ServerEffect::Members(_)
            | ServerEffect::Leader { .. }
            | ServerEffect::Alarm(_)
            | ServerEffect::SnapshotSaved { .. } => {}
        }
    }

    /// The answer to a request of its own travels alone too.
    fn send_answer(&mut self, connection: u64, down: Down) {
        let Some(victim) = self.connections.get(&connection).map(|known| known.victim) else { return };
        if self.is_cut(victim, false) {
            return self.break_connection(connection);
        }
        if self.network.lose_permille > 0 && self.dice.chance(self.network.lose_permille) {
            return self.count("request lost");
        }
        let way_ms = self.way_ms() + self.sending_delay_ms;
        self.agenda.after(way_ms, Event::FromServer { connection, down });
    }

    fn send_between(&mut self, from: usize, to: u64, bytes: Bytes) {
        let to = to as usize - 1;
        let (way_ms, now_ms) = (self.way_ms() + self.sending_delay_ms, self.agenda.now_ms());
        let at_ms = self.links.arrival_ms(now_ms, Link::Servers { from, to }, way_ms);
        self.agenda.at(at_ms, Event::Between { from, to, bytes });
    }

    fn count_conflicts(&mut self, entry: &Entry, applied: &ohm_cell::Applied) {
        let mut count = |reason: ConflictReason, times: u32| {
            *self.report.conflicts.entry(reason.name()).or_insert(0) += u64::from(times);
        };
        for event in &applied.events {
            if let EventKind::Conflicted { reasons, .. } = &event.kind {
                reasons.iter().for_each(|(reason, times)| count(*reason, *times));
            }
        }
        // A session that is gone is refused before its transaction is looked at.
        for (envelope, outcome) in entry.commands.iter().zip(&applied.outcomes) {
            if let (Command::Commit(_), Outcome::Refused(Refusal::SessionGone(_))) = (&envelope.command, outcome) {
                count(ConflictReason::SessionGone, 1);
            }
        }
    }

    /// A snapshot must be the state it was taken of, field by field.
    fn check_snapshot(&mut self, cell: &Cell, pieces: &[Bytes]) {
        let whole: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        match restore(&whole) {
            Ok(restored) if restored.digest() != cell.digest() || restored.chain() != cell.chain() => {
                self.fail("P9", format!("the snapshot at {} restores to another state", cell.applied()));
            }
            Ok(_) => {}
            Err(error) => self.fail("P9", format!("a snapshot does not restore: {error}")),
        }
    }
}
