//! The members of an etcd, each a process that is struck like any other; and the log as it stands there.

use crate::entries::Entries;
use crate::error::LiveError;
use crate::process::{Process, Program};
use ohm_log_etcd::{Member, cluster};
use ohm_runtime::ports::free_addresses;
use std::path::Path;

/// No rank that is ever stopped: the log is judged while its members run, and they go with the cell.
const UNTIL_THE_END: u8 = u8::MAX;

/// Starts the members; where they listen.
pub(crate) fn start(folder: &Path, count: usize, processes: &mut Vec<Process>) -> Result<Vec<String>, LiveError> {
    let addresses = free_addresses(2 * count).map_err(|error| LiveError::Io("free ports".into(), error))?;
    let mut clients: Vec<String> = addresses.iter().map(|address| format!("http://{address}")).collect();
    let peers = clients.split_off(count);
    let names: Vec<String> = (1..=count).map(|number| format!("etcd-{number}")).collect();
    let cluster = cluster(names.iter().map(String::as_str).zip(peers.iter().map(String::as_str)));
    for (name, (client_url, peer_url)) in names.iter().zip(clients.iter().zip(&peers)) {
        let member = Member { name, data_dir: &folder.join(name), client_url, peer_url };
        let program = Program {
            name: name.clone(),
            path: Some("etcd"),
            rank: UNTIL_THE_END,
            arguments: member.arguments(&cluster),
            log: folder.join("logs").join(format!("{name}.log")),
            records: folder.join("records"),
            has_timers: true,
        };
        processes.push(Process::start(program)?);
    }
    Ok(clients)
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
