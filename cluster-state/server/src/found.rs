//! What a server finds in its data folder, and how it becomes one: by founding a cell, or by joining one.
//!
//! A folder that holds a log is opened, whatever else was said. An empty one founds a cell of one server, unless it is
//! told which cell to join: then an existing server gives it a number that was never used before. So a server whose
//! disk is gone always comes back under a new number, and never as what it was. One whose log alone is gone is told by
//! the mark beside it: it founds nothing, and joins once the others have removed it.

use crate::error::ServerError;
use crate::links::AddressBook;
use crate::options::ServerOptions;
use ohm_log_raft::{FileDisk, MARK, Mark, RaftConfig, RaftLog, Remarks, Standing, stand};
use ohm_runtime::connect::connect_server;
use ohm_runtime::{data_dir, dice};
use ohm_wire::{JoinReply, JoinRequest};
use std::path::Path;
use std::time::Duration;
use tonic::Code;

/// Between two attempts to join.
const PAUSE: Duration = Duration::from_millis(500);
/// The file that holds what a joining server draws once.
const KEY: &str = "join.key";
/// The file that says that this copy is not like the others.
pub(crate) const DIVERGED: &str = "diverged";
/// The file in which a server over etcd notes who it is.
pub(crate) const ETCD_NOTE: &str = "etcd.note";

/// Who this server is.
#[derive(Clone, Debug)]
pub(crate) struct Identified {
    pub(crate) config: RaftConfig,
    /// Whether its log is to be made first.
    create: bool,
    pub(crate) cell_incarnation: u64,
}

/// Looks into the data folder, and joins a cell where that is asked for and still to be done.
pub(crate) async fn find(
    options: &ServerOptions,
    token: &str,
    book: &mut AddressBook,
) -> Result<Identified, ServerError> {
    let failed = |error: &dyn std::fmt::Display| ServerError::Replica(error.to_string());
    if options.data_dir.join(ETCD_NOTE).exists() {
        return Err(ServerError::Replica(format!(
            "{} belongs to a server over etcd: say --engine etcd, or name an empty folder",
            options.data_dir.display()
        )));
    }
    let standing = {
        data_dir::create(&options.data_dir.join("log"))?;
        let mut disk = FileDisk::open(&options.data_dir.join("log")).map_err(|error| failed(&error))?;
        let mut marks = FileDisk::open(&options.data_dir).map_err(|error| failed(&error))?;
        stand(&mut disk, &mut marks).map_err(|error| failed(&error))?
    };
    let (config, create) = match standing {
        Standing::Member(identity) => (RaftConfig::group(identity.cell, identity.member, identity.founders), false),
        Standing::Gone(mark) if options.join.is_empty() => return Err(gone(&options.data_dir, &mark)),
        Standing::New if options.join.is_empty() => (RaftConfig::single(dice::random_u64(), 1), true),
        Standing::New | Standing::Gone(_) => {
            let former = if let Standing::Gone(mark) = &standing { Some(mark) } else { None };
            let reply = join(options, token, former).await?;
            if let Some(mark) = former.filter(|mark| (mark.cell, mark.member) == (reply.cell, reply.server)) {
                return Err(gone(&options.data_dir, mark));
            }
            for known in &reply.addresses {
                book.note(known.server, &known.address);
            }
            let written = data_dir::set_cell_incarnation(&options.data_dir, reply.cell_incarnation);
            written.map_err(|error| failed(&error))?;
            (RaftConfig::group(reply.cell, reply.server, reply.founders), true)
        }
    };
    book.note(config.member, &options.advertised());
    let config = RaftConfig { seed: dice::random_u64(), ..config };
    Ok(Identified { config, create, cell_incarnation: data_dir::cell_incarnation(&options.data_dir) })
}

/// What a server does not do whose log is gone, and what can be done.
fn gone(data_dir: &Path, mark: &Mark) -> ServerError {
    let (folder, server, mark_file) = (data_dir.display(), mark.member, data_dir.join(MARK));
    ServerError::Replica(format!(
        "the log of server {server} of cell {:016x} is gone from {folder}/log, and with it how it voted and what it \
         acknowledged (entries up to {} and after): it does not start as server {server} without it. Put the files \
         back if there is a copy. If other servers have the cell: say `ohm server members remove {server}`, then \
         start this one with --join; it gets a new number. If this was the only one: `ohm server restore` puts a \
         backup into this folder, and without {} an empty cell is founded here",
        mark.cell,
        mark.index(),
        mark_file.display()
    ))
}

/// A copy that was not like the others serves no more.
pub(crate) fn refuse_diverged(data_dir: &Path) -> Result<(), ServerError> {
    let diverged = data_dir.join(DIVERGED);
    if !diverged.exists() {
        return Ok(());
    }
    let path = diverged.display();
    Err(ServerError::Replica(format!(
        "this copy of the cell differed from the others: {path} says where. Keep the folder as evidence, and start \
         another server with an empty one in its place (--join where the servers keep the log)"
    )))
}

impl Identified {
    /// Opens the log, or makes it.
    pub(crate) fn open(self, data_dir: &Path, remarks: Remarks) -> Result<RaftLog<FileDisk>, String> {
        let disk = FileDisk::open(&data_dir.join("log")).map_err(|error| error.to_string())?;
        let marks = FileDisk::open(data_dir).map_err(|error| error.to_string())?;
        let log = match self.create {
            true => RaftLog::create_marked(disk, marks, self.config, remarks),
            false => RaftLog::open_marked(disk, marks, self.config, remarks),
        };
        log.map_err(|error| error.to_string())
    }
}

/// Asks the servers of a cell for a number, until one gives it or refuses for good. `former` is of a log that is gone.
async fn join(options: &ServerOptions, token: &str, former: Option<&Mark>) -> Result<JoinReply, ServerError> {
    let key = key(&options.data_dir).map_err(|error| ServerError::Replica(error.to_string()))?;
    let (former_cell, former_server) = former.map_or((0, 0), |mark| (mark.cell, mark.member));
    let request = JoinRequest { address: options.advertised(), key, former_cell, former_server };
    for attempt in 0_usize.. {
        let address = &options.join[attempt % options.join.len()];
        let answer = match connect_server(address, token, &options.tls).await {
            Ok(mut client) => client
                .join(request.clone())
                .await
                .map_err(|status| (is_final(status.code()), status.message().to_string())),
            Err(error) => Err((false, error.to_string())),
        };
        match answer {
            Ok(reply) => {
                let reply = reply.into_inner();
                tracing::info!(server = reply.server, cell = format!("{:016x}", reply.cell), "joined");
                return Ok(reply);
            }
            Err((true, reason)) => {
                return Err(ServerError::Replica(format!("{address} does not let this server join: {reason}")));
            }
            Err((false, reason)) => tracing::warn!(address, reason, "could not join yet; trying again"),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(ServerError::Replica("no server to join".into()))
}

/// Whether asking again does not help.
fn is_final(code: Code) -> bool {
    matches!(code, Code::Unauthenticated | Code::Unimplemented | Code::InvalidArgument | Code::FailedPrecondition)
}

/// Drawn once and kept: joining that is repeated gives the same number again.
fn key(data_dir: &Path) -> std::io::Result<u64> {
    let path = data_dir.join(KEY);
    if let Ok(text) = std::fs::read_to_string(&path)
        && let Ok(key) = text.trim().parse()
    {
        return Ok(key);
    }
    let key = dice::random_u64().max(1);
    data_dir::replace(&path, 0o666, key.to_string().as_bytes())?;
    Ok(key)
}
