//! The members of an etcd, each a process that is struck like any other; and the log as it stands there.

use crate::LiveError;
use crate::process::{Process, Program};
use crate::replay::Entries;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

/// No rank that is ever stopped: the log is judged while its members run, and they go with the cell.
const UNTIL_THE_END: u8 = u8::MAX;

/// Starts the members; where they listen.
pub(crate) fn start(folder: &Path, count: usize, processes: &mut Vec<Process>) -> Result<Vec<String>, LiveError> {
    let addresses = |count: usize| -> Result<Vec<SocketAddr>, std::io::Error> {
        let listeners: Result<Vec<_>, _> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
        listeners?.iter().map(TcpListener::local_addr).collect()
    };
    let io = |error| LiveError::Io("free ports".into(), error);
    let (clients, peers) = (addresses(count).map_err(io)?, addresses(count).map_err(io)?);
    let name = |number: usize| format!("etcd-{}", number + 1);
    let cluster: Vec<String> =
        peers.iter().enumerate().map(|(number, peer)| format!("{}=http://{peer}", name(number))).collect();
    for (number, (client, peer)) in clients.iter().zip(&peers).enumerate() {
        let (client, peer) = (format!("http://{client}"), format!("http://{peer}"));
        let pairs = [
            ("--name", name(number)),
            ("--data-dir", folder.join(name(number)).display().to_string()),
            ("--listen-client-urls", client.clone()),
            ("--advertise-client-urls", client),
            ("--listen-peer-urls", peer.clone()),
            ("--initial-advertise-peer-urls", peer),
            ("--initial-cluster", cluster.join(",")),
            ("--logger", "zap".to_string()),
        ];
        let program = Program {
            name: name(number),
            path: Some("etcd"),
            rank: UNTIL_THE_END,
            arguments: pairs.into_iter().flat_map(|(flag, value)| [flag.to_string(), value]).collect(),
            log: folder.join("logs").join(format!("{}.log", name(number))),
            records: folder.join("records"),
            has_timers: true,
        };
        processes.push(Process::start(program)?);
    }
    Ok(clients.iter().map(|client| format!("http://{client}")).collect())
}

/// Every entry of the log, and the index of the snapshot before them if there is one.
#[cfg(feature = "etcd")]
pub(crate) fn entries(endpoints: &[String]) -> Result<Entries, LiveError> {
    let failed = |error: &dyn std::fmt::Display| LiveError::Log(error.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| failed(&error))?;
    let options = ohm_log_etcd::EtcdOptions::new(endpoints.to_vec(), "/ohm");
    let archive = runtime.block_on(async {
        let connection = ohm_log_etcd::Connection::open(options).await.map_err(|error| failed(&error))?;
        connection.archive().await.map_err(|error| failed(&error))
    })?;
    Ok((archive.snapshot.map(|(index, _)| index), archive.entries))
}

/// Every entry of the log, which this program can't read.
#[cfg(not(feature = "etcd"))]
pub(crate) fn entries(_endpoints: &[String]) -> Result<Entries, LiveError> {
    Err(LiveError::Usage("this ohm was built without etcd: build it with `cargo build --features etcd`".into()))
}
