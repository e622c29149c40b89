//! What keeps the log: the servers themselves, or an etcd. Either way the same thread owns the copy.

mod copy;
#[cfg(feature = "etcd")]
mod etcd;

pub(crate) use copy::Started;

use crate::error::ServerError;
use crate::found;
use crate::links::AddressBook;
use crate::options::ServerOptions;
use crate::rpc::CellFacts;
use copy::{Member, assemble};
use ohm_log_raft::{Listener, Remarks, Weight};
use ohm_runtime::data_dir;
use ohm_runtime::shutdown::Shutdown;
use ohm_wire::api::ServerEngine;

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
    let facts = CellFacts { cell, server, founders, cell_incarnation, engine: ServerEngine::Raft };
    let folder = options.data_dir.clone();
    let open = move |_| {
        data_dir::create(&folder.join("log")).map_err(|error| error.to_string())?;
        identified.open(&folder, Remarks::to(Tracing))
    };
    Ok(assemble(options, token, shutdown, Member { facts, book }, open))
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
