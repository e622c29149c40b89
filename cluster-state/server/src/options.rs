//! How a server is started.

use ohm_log_etcd::EtcdOptions;
use ohm_runtime::tls::TlsFiles;
use std::net::SocketAddr;
use std::path::PathBuf;

/// How a server is started.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where its log and snapshots are.
    pub data_dir: PathBuf,
    /// The address of its one port.
    pub listen: SocketAddr,
    /// Listen on an address that others can reach although nothing is encrypted.
    pub insecure: bool,
    /// What it shows to whoever connects and to other servers, and whom it believes; without a certificate nothing is
    /// encrypted.
    pub tls: TlsFiles,
    /// Only those who show a certificate of the CA get in.
    pub tls_client_auth: bool,
    /// Where other servers and clients reach it; the listening address when absent.
    pub advertise: Option<String>,
    /// Servers of the cell to join, if the data folder is empty; without any, an empty folder founds a cell.
    pub join: Vec<String>,
    /// Snapshot after so many entries; the default when absent.
    pub snapshot_every_entries: Option<u64>,
    /// The etcd that orders the log; the servers do it themselves without one.
    pub etcd: Option<EtcdOptions>,
}

impl ServerOptions {
    /// Where others reach this server.
    pub(crate) fn advertised(&self) -> String {
        let scheme = if self.tls.certificate.is_some() { "https" } else { "http" };
        self.advertise.clone().unwrap_or_else(|| format!("{scheme}://{}", self.listen))
    }
}
