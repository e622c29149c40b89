//! The running copy of a server, whatever keeps the log.

use crate::found;
use crate::handle::ReplicaHandle;
use crate::inbox::{Inbox, Message};
use crate::links::{AddressBook, Introduction, Links};
use crate::log_relay::LogRelay;
use crate::metrics::Meter;
use crate::options::ServerOptions;
use crate::replica_thread::{self, Place};
use crate::rpc::CellFacts;
use crate::time_file::TimeFile;
use ohm_cell::Cell;
use ohm_log::{Log, MemLog};
use ohm_replica::{Replica, ReplicaConfig, ReplicaFailure, ServerConfig, ServerCore};
use ohm_runtime::dice;
use ohm_runtime::shutdown::Shutdown;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// A running copy, and what others should know of it.
pub(crate) struct Started {
    pub(crate) handle: ReplicaHandle,
    pub(crate) inbox: Inbox,
    /// Why it ended, if it does before it is told to.
    pub(crate) failed: oneshot::Receiver<String>,
    pub(crate) facts: CellFacts,
}

/// This server among the others.
pub(super) struct Member {
    pub(super) facts: CellFacts,
    pub(super) book: AddressBook,
}

/// Starts the thread that owns the copy of `member`, over the log that `open` gives.
pub(super) fn assemble<L: Log + 'static>(
    options: &ServerOptions,
    token: &str,
    shutdown: &Shutdown,
    member: Member,
    open: impl FnOnce(mpsc::WeakSender<Message>) -> Result<L, String> + Send + 'static,
) -> Started {
    let Member { facts, book } = member;
    let CellFacts { cell, server, cell_incarnation, engine, .. } = facts;
    let introduction = Introduction {
        cell,
        server,
        address: options.advertised(),
        token: token.to_string(),
        tls: options.tls.clone(),
    };
    let mut config = ReplicaConfig::default();
    if let Some(entries) = options.snapshot_every_entries {
        config.snapshot_every_entries = entries;
    }
    let time_file = TimeFile::open(&options.data_dir);
    let noted = time_file.noted();
    let open = move |inbox| {
        let name = format!("server {server} ({})", std::process::id());
        let server = ServerConfig { name, cell_incarnation, resend_ms: 500, server };
        Ok(ServerCore::new(Replica::new(open(inbox)?, config).with_time(noted), server, dice::dice()))
    };
    let runtime = tokio::runtime::Handle::current();
    let link = move |inbox| Links::new(introduction, book, runtime, inbox);
    let evidence_dir = options.data_dir.clone();
    let failure = move |failure: &ReplicaFailure, cell: &Cell| keep_evidence(&evidence_dir, failure, cell);
    let place = Place { server, cell_incarnation, engine, time_file };
    let (relay, meter) = (Arc::new(LogRelay::new(token, &options.tls)), Meter::default());
    let (handle, inbox, failed) = replica_thread::start(open, link, failure, place, relay, meter, shutdown.clone());
    Started { handle, inbox, failed, facts }
}

/// A copy that differs from the others is of use only to whoever looks for the reason: its state and the words are
/// kept, and the folder serves no more.
fn keep_evidence(data_dir: &Path, failure: &ReplicaFailure, cell: &Cell) {
    if !matches!(failure, ReplicaFailure::Diverged { .. }) {
        return;
    }
    let pieces = Replica::<MemLog>::encode(cell).concat();
    let kept = std::fs::write(data_dir.join("diverged.cell"), pieces)
        .and_then(|()| std::fs::write(data_dir.join(found::DIVERGED), format!("{failure}\n")));
    if let Err(error) = kept {
        tracing::error!(%error, "the evidence could not be written");
    }
}
