//! A server over etcd: who it is, and the line to there.

use super::copy::{Member, Started, assemble};
use crate::error::ServerError;
use crate::found::ETCD_NOTE;
use crate::inbox::Message;
use crate::links::AddressBook;
use crate::options::ServerOptions;
use crate::rpc::CellFacts;
use ohm_log_etcd::{Connection, EtcdConfig, EtcdLog, EtcdOptions, Wake, read_note, write_note};
use ohm_log_raft::MARK;
use ohm_runtime::shutdown::Shutdown;
use ohm_runtime::{clock, dice};
use ohm_wire::api::ServerEngine;
use tokio::sync::mpsc;

pub(super) async fn start(
    options: &ServerOptions,
    wanted: &EtcdOptions,
    token: &str,
    shutdown: &Shutdown,
) -> Result<Started, ServerError> {
    let folder = &options.data_dir;
    let refused = |reason: &str| Err(ServerError::Replica(format!("{}: {reason}", folder.display())));
    if folder.join("log").exists() || folder.join(MARK).exists() {
        return refused("the folder holds a log of its own, or the mark of one: name an empty one for --engine etcd");
    }
    if !options.join.is_empty() {
        return refused("--join is for servers that keep the log themselves; over etcd every server just starts");
    }
    let note_path = folder.join(ETCD_NOTE);
    let noted = read_note(&note_path)?;
    let connection = Connection::open(wanted.clone()).await?;
    let note = connection.identify(noted, [dice::random_u64(), dice::random_u64()], clock::wall_ms()).await?;
    write_note(&note_path, &note).map_err(|error| ServerError::Replica(error.to_string()))?;
    tracing::info!(server = note.server, cell = format!("{:016x}", note.cell.cell), "over etcd");
    let facts = CellFacts {
        cell: note.cell.cell,
        server: note.server,
        founders: Vec::new(),
        cell_incarnation: note.cell.incarnation,
        engine: ServerEngine::Etcd,
    };
    let mut book = AddressBook::open(folder.join("servers"));
    book.note(note.server, &options.advertised());
    let config = EtcdConfig {
        compact: !wanted.keep_history,
        seed: dice::random_u64(),
        ..EtcdConfig::new(&wanted.prefix, note, &options.advertised(), dice::random_u64())
    };
    let runtime = tokio::runtime::Handle::current();
    let open = move |inbox: mpsc::WeakSender<Message>| {
        Ok(EtcdLog::new(config, connection.line(&runtime, note_path, wake(inbox))))
    };
    Ok(assemble(options, token, shutdown, Member { facts, book }, open))
}

/// A thread whose inbox is full is awake anyway.
fn wake(inbox: mpsc::WeakSender<Message>) -> Wake {
    Box::new(move || {
        if let Some(inbox) = inbox.upgrade() {
            let _ = inbox.try_send(Message::Wake);
        }
    })
}
