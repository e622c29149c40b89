//! Snapshots on their way to other members and from them: piece by piece, never as one message.
//!
//! ```text
//!  leader                                   member that fell behind
//!  piece 0, 1, 2, 3 ─────────────────────▶  appended to a file of its own and synced
//!      ◀───────────────────── More(offset)
//!  piece 4 …                                the last one: the file is read back and checked as a whole
//!      ◀──────────────────────────── Whole  only then raft hears of it, and what was there is given up
//! ```
//! A lost piece or answer costs a repetition; a receiver that starts anew begins with the first piece; a sender that is
//! no leader any more forgets it all, and the next one starts from its own snapshot.

use crate::config::RaftConfig;
use crate::inbox::{Heard, Inbox};
use crate::members::Membership;
use crate::message::{self, Piece, PieceAnswer, Taken, Word};
use crate::record::Position;
use crate::snapshots::{self, Snapshot};
use bytes::Bytes;
use ohm_log::{Disk, DiskError, LogEvent, LogFailure};
use protobuf::Message as _;
use raft::SnapshotStatus;
use raft::eraftpb::Message;
use std::collections::BTreeMap;

/// Pieces that may be on their way to one member.
const PIECES_MAX: u64 = 4;
/// Without an answer for so long, pieces are sent again.
const REPEAT_MS: u64 = 500;
/// Without an answer for so long, the transfer is given up; raft begins another one when the member is back.
const GIVE_UP_MS: u64 = 5_000;

/// All snapshots on their way.
#[derive(Default)]
pub(crate) struct Transfers {
    outgoing: BTreeMap<u64, Outgoing>,
    incoming: Option<Incoming>,
    /// A snapshot that came whole, until raft has decided about it.
    arrived: Option<Snapshot>,
}

struct Outgoing {
    position: Position,
    /// The start of the file as the receiver gets it: marked as received.
    head: Bytes,
    total: u64,
    sent: u64,
    acknowledged: u64,
    announcement: Vec<u8>,
    sent_ms: u64,
    heard_ms: u64,
}

struct Incoming {
    from: u64,
    position: Position,
    total: u64,
    received: u64,
}

impl Transfers {
    /// The oldest snapshot that is being sent.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.outgoing.values().map(|outgoing| outgoing.position.index).min()
    }

    /// The snapshot that arrived whole last, taken out.
    pub(crate) fn take_arrived(&mut self) -> Option<Snapshot> {
        self.arrived.take()
    }

    /// Whether one has arrived and raft has not decided about it.
    pub(crate) fn has_arrived(&self) -> bool {
        self.arrived.is_some()
    }

    /// Nothing more is sent: another member leads.
    pub(crate) fn stop_sending(&mut self) {
        self.outgoing.clear();
    }

    /// A removed member gets nothing more.
    pub(crate) fn forget(&mut self, member: u64, membership: &Membership) {
        if membership.is_removed(member) {
            self.outgoing.remove(&member);
        }
    }

    /// When there is something to send although nothing comes in.
    pub(crate) fn wake_ms(&self, now_ms: u64, piece_bytes: u64) -> Option<u64> {
        let due = |outgoing: &Outgoing| match outgoing.can_send(piece_bytes) {
            true => now_ms,
            false => outgoing.sent_ms + REPEAT_MS,
        };
        self.outgoing.values().map(due).min()
    }
}

impl Outgoing {
    fn can_send(&self, piece_bytes: u64) -> bool {
        self.sent < self.total && self.sent - self.acknowledged < PIECES_MAX * piece_bytes
    }
}

impl Transfers {
    /// Raft wants a snapshot sent: `announcement` says which and to whom.
    pub(crate) fn begin(
        &mut self,
        disk: &mut impl Disk,
        now_ms: u64,
        announcement: Message,
        inbox: &mut Inbox,
    ) -> Result<(), LogFailure> {
        let to = announcement.to;
        let metadata = announcement.get_snapshot().get_metadata();
        let position = Position { index: metadata.index, term: metadata.term };
        let announcement = announcement.write_to_bytes().map_err(|error| LogFailure::Engine(error.to_string()))?;
        if let Some(under_way) = self.outgoing.get_mut(&to)
            && under_way.position == position
        {
            under_way.announcement = announcement;
            (under_way.sent, under_way.heard_ms) = (under_way.acknowledged, now_ms);
            return Ok(());
        }
        let (head, total) = match snapshots::head_for_sending(disk, position.index) {
            Ok(found) => found,
            Err(_) => {
                self.outgoing.remove(&to);
                inbox.push(Heard::Snapshot(to, SnapshotStatus::Failure));
                return Ok(());
            }
        };
        let (sent_ms, heard_ms) = (now_ms, now_ms);
        let outgoing = Outgoing { position, head, total, sent: 0, acknowledged: 0, announcement, sent_ms, heard_ms };
        self.outgoing.insert(to, outgoing);
        Ok(())
    }

    /// Sends the pieces that may be sent now.
    pub(crate) fn send(
        &mut self,
        disk: &mut impl Disk,
        config: &RaftConfig,
        now_ms: u64,
        inbox: &mut Inbox,
        out: &mut Vec<LogEvent>,
    ) -> Result<(), LogFailure> {
        let piece_bytes = config.batch_bytes;
        let members: Vec<u64> = self.outgoing.keys().copied().collect();
        for to in members {
            let Some(outgoing) = self.outgoing.get_mut(&to) else { continue };
            if now_ms >= outgoing.heard_ms + GIVE_UP_MS {
                self.outgoing.remove(&to);
                inbox.push(Heard::Snapshot(to, SnapshotStatus::Failure));
                continue;
            }
            if now_ms >= outgoing.sent_ms + REPEAT_MS {
                outgoing.sent = outgoing.acknowledged;
            }
            while outgoing.can_send(piece_bytes) {
                let Ok(data) = outgoing.read(disk, piece_bytes) else {
                    self.outgoing.remove(&to);
                    inbox.push(Heard::Snapshot(to, SnapshotStatus::Failure));
                    break;
                };
                let Position { index, term } = outgoing.position;
                let (offset, total, announcement) = (outgoing.sent, outgoing.total, outgoing.announcement.clone());
                let piece = Piece { from: config.member, to, index, term, offset, total, announcement };
                outgoing.sent += data.len() as u64;
                outgoing.sent_ms = now_ms;
                let bytes = message::seal(config.cell, &Word::Piece(piece, data)).map_err(LogFailure::Engine)?;
                out.push(LogEvent::Send { to, bytes });
            }
        }
        Ok(())
    }

    /// The receiver of a snapshot says how far it is; what raft must hear of it.
    pub(crate) fn take_answer(&mut self, now_ms: u64, answer: &PieceAnswer) -> Option<SnapshotStatus> {
        let position = Position { index: answer.index, term: answer.term };
        let outgoing = self.outgoing.get_mut(&answer.from)?;
        if outgoing.position != position || answer.offset > outgoing.total {
            return None;
        }
        outgoing.heard_ms = now_ms;
        match answer.taken {
            Taken::More => {
                outgoing.acknowledged = outgoing.acknowledged.max(answer.offset);
                outgoing.sent = outgoing.sent.max(outgoing.acknowledged);
            }
            Taken::Rewind => (outgoing.acknowledged, outgoing.sent) = (answer.offset, answer.offset),
            Taken::Whole => {
                self.outgoing.remove(&answer.from);
                return Some(SnapshotStatus::Finish);
            }
            Taken::Refused => {
                self.outgoing.remove(&answer.from);
                return Some(SnapshotStatus::Failure);
            }
        }
        None
    }

    /// A piece of a snapshot has come. If it is whole with that, raft must hear what comes back.
    pub(crate) fn take_piece(
        &mut self,
        disk: &mut impl Disk,
        config: &RaftConfig,
        piece: &Piece,
        data: &Bytes,
        out: &mut Vec<LogEvent>,
    ) -> Result<Option<Message>, LogFailure> {
        let (taken, offset) = match self.store_piece(disk, config, piece, data) {
            Ok(stored) => stored,
            Err(DiskError::Full { .. }) => {
                self.drop_incoming(disk)?;
                (Taken::Refused, 0)
            }
            Err(error) => return Err(error.into()),
        };
        let Piece { from, to, index, term, .. } = *piece;
        let answer = PieceAnswer { from: to, to: from, index, term, offset, taken };
        let bytes = message::seal(config.cell, &Word::PieceAnswer(answer)).map_err(LogFailure::Engine)?;
        out.push(LogEvent::Send { to: from, bytes });
        let announcement = || message::raft_message(&Bytes::copy_from_slice(&piece.announcement)).ok();
        Ok(if taken == Taken::Whole { announcement() } else { None })
    }

    fn store_piece(
        &mut self,
        disk: &mut impl Disk,
        config: &RaftConfig,
        piece: &Piece,
        data: &Bytes,
    ) -> Result<(Taken, u64), DiskError> {
        let position = Position { index: piece.index, term: piece.term };
        let is_same = |incoming: &Incoming| {
            (incoming.from, incoming.position, incoming.total) == (piece.from, position, piece.total)
        };
        if !self.incoming.as_ref().is_some_and(is_same) {
            if piece.offset != 0 {
                return Ok((Taken::Rewind, 0));
            }
            self.drop_incoming(disk)?;
            self.incoming = Some(Incoming { from: piece.from, position, total: piece.total, received: 0 });
        }
        let Some(incoming) = &mut self.incoming else { return Ok((Taken::Rewind, 0)) };
        if piece.offset > incoming.received {
            return Ok((Taken::Rewind, incoming.received));
        }
        if piece.offset < incoming.received || data.is_empty() {
            return Ok((Taken::More, incoming.received));
        }
        if incoming.received + data.len() as u64 > incoming.total {
            self.drop_incoming(disk)?;
            return Ok((Taken::Refused, 0));
        }
        snapshots::append_received(disk, data)?;
        incoming.received += data.len() as u64;
        if incoming.received < incoming.total {
            return Ok((Taken::More, incoming.received));
        }
        let total = incoming.total;
        self.incoming = None;
        Ok(match self.check_arrived(disk, config, piece, position)? {
            true => (Taken::Whole, total),
            false => (Taken::Refused, 0),
        })
    }

    /// Whether the snapshot that came whole is what it was announced to be. What was there before stays until raft says
    /// so, after this.
    fn check_arrived(
        &mut self,
        disk: &mut impl Disk,
        config: &RaftConfig,
        piece: &Piece,
        position: Position,
    ) -> Result<bool, DiskError> {
        let founders = &config.founders;
        let is_announced = |snapshot: &Snapshot| {
            let announced = message::raft_message(&Bytes::copy_from_slice(&piece.announcement)).ok();
            announced.is_some_and(|announced| {
                let metadata = announced.get_snapshot().get_metadata();
                let members = snapshot.header.membership(founders).conf_state();
                (announced.from, announced.to) == (piece.from, piece.to)
                    && announced.get_msg_type() == raft::eraftpb::MessageType::MsgSnapshot
                    && (metadata.index, metadata.term) == (position.index, position.term)
                    && metadata.get_conf_state().voters == members.voters
                    && metadata.get_conf_state().learners == members.learners
            })
        };
        match snapshots::read_received(disk)? {
            Ok(snapshot)
                if snapshot.header.cell == config.cell
                    && snapshot.header.position() == position
                    && snapshot.header.received
                    && is_announced(&snapshot) =>
            {
                self.arrived = Some(snapshot);
                Ok(true)
            }
            _ => {
                snapshots::remove_received(disk)?;
                Ok(false)
            }
        }
    }

    /// Raft has not taken the snapshot that came.
    pub(crate) fn give_up_arrived(&mut self, disk: &mut impl Disk) -> Result<(), DiskError> {
        match self.arrived.take() {
            Some(_) => snapshots::remove_received(disk),
            None => Ok(()),
        }
    }

    fn drop_incoming(&mut self, disk: &mut impl Disk) -> Result<(), DiskError> {
        self.incoming = None;
        self.arrived = None;
        snapshots::remove_received(disk)
    }
}

impl Outgoing {
    fn read(&self, disk: &mut (impl Disk + ?Sized), piece_bytes: u64) -> Result<Bytes, DiskError> {
        let length = piece_bytes.min(self.total - self.sent);
        if self.sent < self.head.len() as u64 {
            let start = self.sent as usize;
            return Ok(self.head.slice(start..self.head.len().min(start + length as usize)));
        }
        let data = snapshots::read_range(disk, self.position.index, self.sent, length as usize)?;
        match data.is_empty() {
            true => Err(DiskError::NotFound { file: crate::identity::snapshot_file(self.position.index) }),
            false => Ok(data),
        }
    }
}
