//! Stepping a server core, and what it wants done.

use super::ServerProcess;
use crate::stage::{Down, Event, Stage};
use ohm_cell::{Cell, restore};
use ohm_log::{Alarm, Bytes, LogFailure, MemLog};
use ohm_model::{Command, ConflictReason, Entry, EventKind, Index, Lease, Outcome, Refusal};
use ohm_oracle::{Caused, Record};
use ohm_replica::{
    AppendResult, Clock, CopyEffect, Noted, Replica, ReplicaFailure, RequestId, ServerEffect, ServerInput,
};
use std::sync::Arc;

impl ServerProcess {
    pub(crate) fn step(&mut self, input: ServerInput, stage: &mut Stage) {
        let mut effects = Vec::new();
        let (now_ms, syncs, before) = (stage.now_ms(), self.syncs(), self.applied());
        let stepped = self.step_core(now_ms, input, &mut effects);
        self.look_at_stamps(stage);
        self.look_whether_caught_up(now_ms);
        self.look_at_copy(before, &effects, stage);
        let synced = self.syncs() - syncs;
        if let Some((by_ms, until_ms)) = self.slow_disk.filter(|_| synced > 0)
            && until_ms > now_ms
        {
            // The process stands in its sync, and what it says leaves afterwards.
            stage.sending_delay_ms = by_ms * synced;
            self.shell.pause(now_ms + by_ms * synced);
        }
        for effect in effects {
            self.perform(effect, stage);
        }
        stage.sending_delay_ms = 0;
        match stepped {
            Ok(()) => {}
            Err(ReplicaFailure::Log(LogFailure::Removed { .. })) => self.leave(stage),
            Err(_) if self.doomed.is_some() => self.disk_failed(stage),
            Err(failure @ ReplicaFailure::Diverged { .. }) => {
                stage.fail("P9", format!("server {} stops: {failure}", self.number + 1));
            }
            Err(failure) => stage.fail("P3", format!("server {} failed: {failure}", self.number + 1)),
        }
    }

    fn step_core(
        &mut self,
        real_ms: u64,
        input: ServerInput,
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        let own = &self.shell.clock;
        let clock = Clock { now_ms: own.boot_ms(real_ms), wall_ms: own.wall_ms(real_ms) };
        match &mut self.core {
            Some(core) => core.step(clock, input, out),
            None => Ok(()),
        }
    }

    /// An entry that was stamped may be long on its way into the log: when it was is known from here alone.
    fn look_at_stamps(&mut self, stage: &mut Stage) {
        let stamp_ms = self.core().map_or(0, |core| core.replica().submitted_ms());
        if stamp_ms != std::mem::replace(&mut self.submitted_ms, stamp_ms) && stamp_ms > 0 {
            stage.history.push(Record::Stamped { at_ms: stage.now_ms(), stamp_ms });
        }
    }

    /// A copy that is further than its entries brought it was given a snapshot.
    fn look_at_copy(&mut self, before: Index, effects: &[ServerEffect], stage: &mut Stage) {
        let Some(core) = self.core() else { return };
        let cell = core.replica().cell();
        let (applied, chain) = (cell.applied(), cell.chain());
        let last = effects.iter().rev().find_map(|effect| match effect {
            ServerEffect::Copy(CopyEffect::Applied { index, .. }) => Some(*index),
            _ => None,
        });
        if applied < before {
            return stage.fail("P3", format!("server {} went back from entry {before} to {applied}", self.number + 1));
        }
        if applied > before {
            stage.outside.duty_seen(cell.sessions().lease(Lease::Provisioning).epoch);
        }
        if applied > before && last != Some(applied) {
            if before > Index(0) {
                stage.count("snapshot sent");
            }
            stage.history.push(Record::Copied { copy: self.copy(), index: applied, chain });
        }
    }

    fn perform(&mut self, effect: ServerEffect, stage: &mut Stage) {
        match effect {
            ServerEffect::Appended { peer, ticket, result } => {
                acknowledge(&result, stage);
                stage.send_down(peer.0, Down::Appended { ticket, result });
            }
            ServerEffect::Done { request, result } => {
                acknowledge(&result, stage);
                if let Some((connection, request)) = self.requests.remove(&request) {
                    stage.send_answer(connection, Down::Done { request, result });
                }
            }
            ServerEffect::ToAgent { peer, order } => stage.send_down(peer.0, Down::Order(order)),
            ServerEffect::ToDuty { peer, beats } => stage.send_down(peer.0, Down::Beats(beats)),
            ServerEffect::ToServer { to, bytes } => stage.send_between(self.number, to as usize - 1, bytes),
            ServerEffect::Readable { request, result } => self.read_answered(request, result.is_ok(), stage),
            ServerEffect::Copy(effect) => self.perform_copy(effect, stage),
            // What came of a change shows in the members.
            ServerEffect::MembersChanged { .. } | ServerEffect::DutyRefused { .. } => {}
        }
    }

    fn perform_copy(&mut self, effect: CopyEffect, stage: &mut Stage) {
        match effect {
            CopyEffect::ToFollower { follower, frame } => stage.send_down(follower.0, Down::Frame(frame)),
            CopyEffect::Applied { index, bytes, applied, chain } => {
                stage.report.entries += 1;
                let Ok(entry) = Entry::decode(&bytes) else { return };
                count_conflicts(&entry, &applied, stage);
                let applied = Caused { outcomes: applied.outcomes, events: applied.events };
                stage.history.push(Record::Applied {
                    at_ms: stage.agenda.now_ms(),
                    copy: self.copy(),
                    index,
                    entry: Arc::new(entry),
                    applied: Arc::new(applied),
                    chain,
                });
            }
            CopyEffect::Encode { purpose, cell } => {
                let (index, pieces) = (cell.applied(), Replica::<MemLog>::encode(&cell));
                check_snapshot(&cell, &pieces, stage);
                let (after_ms, server, starts) = (stage.dice.below(30), self.number, self.shell.starts);
                stage.agenda.after(after_ms, Event::Encoded { server, starts, purpose, index, pieces });
            }
            CopyEffect::Time(word) => self.noted = word.note.map_or(self.noted, Noted::ThisBoot),
            CopyEffect::Alarm(Alarm::TailCut { .. }) => stage.count("disk write torn"),
            CopyEffect::Members(_)
            | CopyEffect::Leader { .. }
            | CopyEffect::Alarm(_)
            | CopyEffect::SnapshotSaved { .. } => {}
        }
    }

    /// Its copy is far enough for a read, or it cannot tell.
    fn read_answered(&mut self, request: RequestId, is_readable: bool, stage: &mut Stage) {
        let Some(least) = stage.readers.answered(self.number, request) else { return };
        if !is_readable {
            return;
        }
        stage.report.reads += 1;
        let (server, applied) = (self.number + 1, self.applied());
        if applied < least {
            stage.fail("P3", format!("server {server} answers a read at entry {applied}, {least} was acknowledged"));
        }
    }
}

/// Whoever hears this answer may rely on it.
fn acknowledge(result: &AppendResult, stage: &mut Stage) {
    if let AppendResult::Committed { index, .. } = result {
        stage.readers.acknowledged(*index);
    }
}

fn count_conflicts(entry: &Entry, applied: &ohm_cell::Applied, stage: &mut Stage) {
    let mut count = |reason: ConflictReason, times: u32| {
        *stage.report.conflicts.entry(reason.name()).or_insert(0) += u64::from(times);
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
fn check_snapshot(cell: &Cell, pieces: &[Bytes], stage: &mut Stage) {
    let whole: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
    match restore(&whole) {
        Ok(restored) if restored.digest() != cell.digest() || restored.chain() != cell.chain() => {
            stage.fail("P9", format!("the snapshot at {} restores to another state", cell.applied()));
        }
        Ok(_) => {}
        Err(error) => stage.fail("P9", format!("a snapshot does not restore: {error}")),
    }
}
