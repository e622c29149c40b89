//! Stepping a server core, and what it wants done.

use super::{Connection, Down, Event, World};
use crate::links::Link;
use ohm_cell::{Cell, restore};
use ohm_log::{Alarm, Bytes, LogFailure, MemLog};
use ohm_model::{Command, ConflictReason, Entry, EventKind, Index, Outcome, Refusal};
use ohm_oracle::Record;
use ohm_replica::{AppendResult, CopyEffect, Replica, ReplicaFailure, ServerEffect, ServerInput};
use std::sync::Arc;

impl World {
    pub(crate) fn step_server(&mut self, server: usize, input: ServerInput) {
        let mut effects = Vec::new();
        let (now_ms, syncs) = (self.agenda.now_ms(), self.servers[server].syncs());
        let before = self.servers[server].applied();
        let stepped = self.servers[server].step(now_ms, input, &mut effects);
        self.servers[server].look_whether_caught_up(now_ms);
        self.look_for_snapshot(server, before, &effects);
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
        match stepped {
            Ok(()) => {}
            Err(ReplicaFailure::Log(LogFailure::Removed { .. })) => self.leave(server),
            Err(_) if self.servers[server].doomed.is_some() => self.disk_failed(server),
            Err(failure @ ReplicaFailure::Diverged { .. }) => {
                self.fail("P9", format!("server {} stops: {failure}", server + 1));
            }
            Err(failure) => self.fail("P3", format!("server {} failed: {failure}", server + 1)),
        }
    }

    /// A copy that is further than its entries brought it was given a snapshot.
    fn look_for_snapshot(&mut self, server: usize, before: Index, effects: &[ServerEffect]) {
        let Some(core) = self.servers[server].core() else { return };
        let (applied, chain) = (core.replica().cell().applied(), core.replica().cell().chain());
        let last = effects.iter().rev().find_map(|effect| match effect {
            ServerEffect::Copy(CopyEffect::Applied { index, .. }) => Some(*index),
            _ => None,
        });
        if applied < before {
            return self.fail("P3", format!("server {} went back from entry {before} to {applied}", server + 1));
        }
        if applied > before && last != Some(applied) {
            if before > Index(0) {
                self.count("snapshot sent");
            }
            self.history.push(Record::Copied { copy: self.servers[server].copy(), index: applied, chain });
        }
    }

    /// Whoever hears this answer may rely on it.
    fn acknowledge(&mut self, result: &AppendResult) {
        if let AppendResult::Committed { index, .. } = result {
            self.readers.acknowledged(*index);
        }
    }

    fn perform_server(&mut self, server: usize, effect: ServerEffect) {
        match effect {
            ServerEffect::Appended { peer, ticket, result } => {
                self.acknowledge(&result);
                self.send_down(peer.0, Down::Appended { ticket, result });
            }
            ServerEffect::Done { request, result } => {
                self.acknowledge(&result);
                if let Some((connection, request)) = self.requests.remove(&(server, request)) {
                    self.send_answer(connection, Down::Done { request, result });
                }
            }
            ServerEffect::ToAgent { peer, order } => self.send_down(peer.0, Down::Order(order)),
            ServerEffect::ToDuty { peer, beats } => self.send_down(peer.0, Down::Beats(beats)),
            ServerEffect::ToServer { to, bytes } => self.send_between(server, to, bytes),
            ServerEffect::Readable { request, result } => self.read_answered(server, request, result.is_ok()),
            ServerEffect::Copy(effect) => self.perform_copy(server, effect),
            // What came of a change shows in the members.
            ServerEffect::MembersChanged { .. } => {}
        }
    }

    fn perform_copy(&mut self, server: usize, effect: CopyEffect) {
        match effect {
            CopyEffect::ToFollower { follower, frame } => self.send_down(follower.0, Down::Frame(frame)),
            CopyEffect::Applied { index, bytes, applied, chain } => {
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
            CopyEffect::Encode { purpose, cell } => {
                let (index, pieces) = (cell.applied(), Replica::<MemLog>::encode(&cell));
                self.check_snapshot(&cell, &pieces);
                let (after_ms, starts) = (self.dice.below(30), self.servers[server].starts);
                self.agenda.after(after_ms, Event::Encoded { server, starts, purpose, index, pieces });
            }
            CopyEffect::Alarm(Alarm::TailCut { .. }) => self.count("disk write torn"),
            CopyEffect::Members(_)
            | CopyEffect::Leader { .. }
            | CopyEffect::Alarm(_)
            | CopyEffect::SnapshotSaved { .. } => {}
        }
    }

    /// The answer to a request of its own travels alone too.
    fn send_answer(&mut self, connection: u64, down: Down) {
        let Some(&Connection { victim, server, .. }) = self.connections.get(&connection) else { return };
        if self.is_cut(victim, server, false) {
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
        if to >= self.servers.len() {
            return;
        }
        if self.breaks() {
            self.count("message lost");
            return self.agenda.after(1, Event::Unreachable { from, to });
        }
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
