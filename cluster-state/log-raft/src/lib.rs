//! Engine one of the log: a raft group inside of the servers, on the `raft` crate and a write-ahead log of our own.
//!
//! ```text
//!   appends ─▶ leader ──entries──▶ followers ─▶ each: one sync, then the answer ─▶ committed on a majority
//!                └──── snapshot in pieces, checked as a whole ───▶ a member that fell behind the trim
//! ```
//! Code map: [`RaftLog`] (the core: `raft_log`, `exchange`, `settle`) and its parts: `inbox`, `appends`, `reads`
//! (linearizable ones), `changes` (of members), `transfers` (snapshots on their way) · `members` (who votes),
//! `group` (who is heard of) · `wal`, `record`, `replay` (segments) · `snapshots` · `identity`, `recovery` (what a
//! folder holds, and how it is opened) · `mark`, `marked` (what stands beside a folder, should it be lost) · `storage`
//! (what raft reads) · `message` (what members send) · [`Archive`] (reading without a process) · [`FileDisk`] (the real
//! disk).
//!
//! How several members work together:
//! - Pre-vote and check-quorum are on, time-outs are drawn from the seed in [`RaftConfig`]: a run can be repeated, and
//!   a member that comes back disturbs nobody. A leader that stops hands over first.
//! - Entries leave in batches before the leader's own sync, many messages ahead of the answers (pipelined), bounded by
//!   messages and bytes on both sides.
//! - Every member knows the founders of the group; every change since is an entry, and snapshots carry the sum of them.
//!   One change at a time, by one member at a time. A new one learns first, and the leader lets it vote once it has
//!   caught up. Numbers are never used twice: whoever lost its disk comes back under another one. A member whose log is
//!   gone refuses to be what its [`Mark`] says it was, and a leader refuses a key whose member had a log.
//! - A log that ends before its mark is not opened: what was acknowledged would be lost without a word.
//! - A removed member is told by whomever it turns to, and ends.
//! - A read asks a majority whether the leader still leads, never a clock; all that wait share one question.
//! - Snapshots travel in pieces that are answered one by one, repeated when lost, and checked as a whole before raft
//!   hears of them; until then everything is as it was. A snapshot that is being sent is not removed, nor what follows
//!   it.
//!
//! Invariants:
//! - Nothing is acknowledged, to clients or to other members, before it was synced; appends that were handed in
//!   together are synced together.
//! - A torn tail is cut. Damage before it, a gap, a foreign or a newer file stop the open with an error that names
//!   file and offset, and nothing is changed.
//! - After a failed sync nothing is tried again. A full disk is no failure: nothing is lost and work goes on later.
//! - No clock, no socket, no thread, no dice of its own in here but [`FileDisk`], which is the one part that touches
//!   the system.
#![forbid(unsafe_code)]

mod appends;
mod archive;
mod changes;
mod config;
mod error;
mod exchange;
mod file_disk;
mod group;
mod identity;
mod inbox;
mod mark;
mod marked;
mod members;
mod message;
mod raft_log;
mod reads;
mod record;
mod recovery;
mod remark;
mod replay;
mod settle;
mod snapshots;
mod storage;
mod transfers;
mod wal;

pub use archive::{Archive, open_marked_read_only, open_read_only};
pub use config::RaftConfig;
pub use error::OpenError;
pub use file_disk::FileDisk;
pub use identity::{Folder, Identity, inspect};
pub use mark::{MARK, Mark, Standing, stand};
pub use raft_log::{RaftLog, RaftStatus};
pub use remark::{Listener, Remarks, Weight};
