//! What keeps the log: the servers themselves, or an etcd. Either way the same thread owns the copy.

use crate::found;
use crate::handle::ReplicaHandle;
use crate::links::{AddressBook, Introduction, Links};
use crate::metrics::Meter;
use crate::replica_thread::{self, Inbox, Message, Place};
use crate::rpc::CellFacts;
use crate::run::{ServerError, ServerOptions};
use ohm_cell::Cell;
use ohm_log::{Log, MemLog};
use ohm_log_raft::{Listener, Remarks, Weight};
use ohm_replica::{Replica, ReplicaConfig, ReplicaFailure, ServerConfig, ServerCore};
use ohm_runtime::shutdown::Shutdown;
use ohm_runtime::{data_dir, dice};
use ohm_wire::api::ServerEngine;
use std::path::Path;
use tokio::sync::{mpsc, oneshot};

#[cfg(feature = "etcd")]
mod etcd;

/// A running copy, and what others should know of it.
pub(crate) struct Started {
    pub(crate) handle: ReplicaHandle,
    pub(crate) inbox: Inbox,
    /// Why it ended, if it does before it is told to.
    pub(crate) failed: oneshot::Receiver<String>,
    pub(crate) facts: CellFacts,
}

/// Finds out who this server is, and starts the thread that owns its copy.
pub(crate) async fn start(options: &ServerOptions, token: &str, shutdown: &Shutdown) -> Result<Started, ServerError> {
    match &options.etcd {
        None => over_raft(options, token, shutdown).await,
        #[cfg(feature = "etcd")]
        Some(wanted) => etcd::start(options, wanted, token, shutdown).await,
        #[cfg(not(feature = "etcd"))]
        Some(_) => Err(ServerError::Replica(NOT_BUILT.into())),
    }
}

#[cfg(not(feature = "etcd"))]
const NOT_BUILT: &str = "this ohm was built without etcd; build it with `cargo build --features etcd`, which takes protoc \
                         and the protobuf includes (Debian: protobuf-compiler libprotobuf-dev)";

async fn over_raft(options: &ServerOptions, token: &str, shutdown: &Shutdown) -> Result<Started, ServerError> {
    let mut book = AddressBook::open(options.data_dir.join("servers"));
    let identified = found::find(options, token, &mut book).await?;
    let config = &identified.config;
    let (cell, founders, server) = (config.cell, config.founders.clone(), config.member);
    let cell_incarnation = identified.cell_incarnation;
    let facts = CellFacts { cell, founders, cell_incarnation, engine: ServerEngine::Raft };
    let log_dir = options.data_dir.join("log");
    let open = move |_| {
        data_dir::create(&log_dir).map_err(|error| error.to_string())?;
        identified.open(&log_dir, Remarks::to(Tracing))
    };
    Ok(assemble(options, token, shutdown, Member { server, facts, book }, open))
}

/// This server among the others.
struct Member {
    server: u64,
    facts: CellFacts,
    book: AddressBook,
}

fn assemble<L: Log + 'static>(
    options: &ServerOptions,
    token: &str,
    shutdown: &Shutdown,
    member: Member,
    open: impl FnOnce(mpsc::WeakSender<Message>) -> Result<L, String> + Send + 'static,
) -> Started {
    let Member { server, facts, book } = member;
    let CellFacts { cell, cell_incarnation, engine, .. } = facts;
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
    let open = move |inbox| {
        let name = format!("server {server} ({})", std::process::id());
        let server = ServerConfig { name, cell_incarnation, resend_ms: 500, server };
        Ok(ServerCore::new(Replica::new(open(inbox)?, config), server, dice::dice()))
    };
    let runtime = tokio::runtime::Handle::current();
    let link = move |inbox| Links::new(introduction, book, runtime, inbox);
    let evidence_dir = options.data_dir.clone();
    let failure = move |failure: &ReplicaFailure, cell: &Cell| keep_evidence(&evidence_dir, failure, cell);
    let place = Place { server, cell_incarnation, engine };
    let (handle, inbox, failed) = replica_thread::start(open, link, failure, place, Meter::default(), shutdown.clone());
    Started { handle, inbox, failed, facts }
}

/// What the raft crate has to say goes to the log of the process.
struct Tracing;

impl Listener for Tracing {
    fn remark(&self, weight: Weight, text: &str) {
        match weight {
            Weight::Info => tracing::debug!(target: "raft", "{text}"),
            Weight::Warning => tracing::info!(target: "raft", "{text}"),
            Weight::Error => tracing::error!(target: "raft", "{text}"),
        }
    }
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
