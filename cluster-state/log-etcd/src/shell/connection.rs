//! The connection to an etcd: calls out, answers in.

use super::convert;
use crate::core::Note;
use crate::core::call::{CallError, Request, Response};
use crate::core::identity::{Identity, Next};
use crate::options::{EtcdError, EtcdOptions};
use etcd_client::{Certificate, Client, ConnectOptions, KvClient, TlsOptions, WatchClient};
use std::time::Duration;

/// An answer that takes longer is not waited for.
pub(super) const CALL: Duration = Duration::from_secs(3);
/// The same for transactions: what a dead leader of etcd took with it is answered by nobody, and all of them may be
/// sent again.
const TXN: Duration = Duration::from_millis(1_500);
const CONNECT: Duration = Duration::from_secs(1);
/// A member that is silent for so long, twice, is given up: a stopped one would hold a watch for ever.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// Between two attempts of what is done before the log is opened.
const PAUSE: Duration = Duration::from_millis(500);
/// Answers may be this long: pages of entries.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A connection to an etcd, which makes itself again whenever it breaks.
#[derive(Clone)]
pub struct Connection {
    client: Client,
    kv: KvClient,
    pub(super) watch: WatchClient,
    pub(super) options: EtcdOptions,
}

impl Connection {
    /// Gets ready to talk; where etcd asks for a user, waits until that one is let in.
    ///
    /// # Errors
    /// When the options can't work. An etcd that does not answer is waited for.
    pub async fn open(options: EtcdOptions) -> Result<Self, EtcdError> {
        options.check()?;
        let connect = connect_options(&options)?;
        let client = loop {
            let attempt = Client::connect(&options.endpoints, Some(connect.clone()));
            let failed = match tokio::time::timeout(CALL, attempt).await {
                Ok(Ok(client)) => break client,
                Ok(Err(error)) => convert::error(error),
                Err(_) => CallError::Lost("it does not answer".into()),
            };
            if let CallError::Refused(reason) = failed {
                return Err(EtcdError::Refused(reason));
            }
            tracing::warn!(endpoints = ?options.endpoints, "{failed}; trying again until it does");
            tokio::time::sleep(PAUSE).await;
        };
        let kv = client.kv_client().max_decoding_message_size(ANSWER_BYTES_MAX);
        let watch = client.watch_client().max_decoding_message_size(ANSWER_BYTES_MAX);
        Ok(Connection { client, kv, watch, options })
    }

    /// Finds out which cell is there and which of its servers this one is; waits until etcd answers.
    ///
    /// # Errors
    /// When this server can't be one of that cell.
    pub async fn identify(&self, note: Option<Note>, dice: [u64; 2], wall_ms: u64) -> Result<Note, EtcdError> {
        let (mut identity, mut next) = Identity::new(&self.options.prefix, note, dice, wall_ms);
        let mut is_said = false;
        loop {
            match next.clone() {
                Next::Known(note) => return Ok(note),
                Next::Ask(request) => match self.call(request).await {
                    Ok(response) => next = identity.answer(&response)?,
                    Err(CallError::Refused(reason)) => return Err(EtcdError::Refused(reason)),
                    Err(error) => {
                        if !std::mem::replace(&mut is_said, true) {
                            tracing::warn!(endpoints = ?self.options.endpoints, "{error}; trying again until it does");
                        }
                        tokio::time::sleep(PAUSE).await;
                    }
                },
            }
        }
    }

    /// One call, answered or given up in time.
    pub(super) async fn call(&self, request: Request) -> Result<Response, CallError> {
        let patience = if matches!(request, Request::Txn(_)) { TXN } else { CALL };
        let lost = || CallError::Lost(format!("nothing within {patience:?}"));
        tokio::time::timeout(patience, self.ask(request)).await.unwrap_or_else(|_| Err(lost()))
    }

    async fn ask(&self, request: Request) -> Result<Response, CallError> {
        let (mut client, mut kv) = (self.client.clone(), self.kv.clone());
        match request {
            Request::Txn(txn) => kv.txn(convert::txn(txn)).await.map(convert::txn_response),
            Request::Range(range) => {
                let (key, options) = convert::range(range);
                kv.get(key, Some(options)).await.map(convert::range_response)
            }
            Request::Compact { revision } => {
                kv.compact(revision.cast_signed(), None).await.map(|_| Response::Compacted)
            }
            Request::Grant { ttl_s } => {
                let granted = client.lease_grant(ttl_s.cast_signed(), None).await;
                granted.map(|lease| convert::lease(lease.id(), lease.ttl()))
            }
            Request::KeepAlive { lease } => keep_alive(&mut client, lease.cast_signed()).await,
        }
        .map_err(convert::error)
    }
}

async fn keep_alive(client: &mut Client, lease: i64) -> Result<Response, etcd_client::Error> {
    let (mut keeper, mut stream) = client.lease_keep_alive(lease).await?;
    keeper.keep_alive().await?;
    let left = stream.message().await?.map_or(0, |answer| answer.ttl());
    Ok(convert::lease(lease, left))
}

/// How members are connected to.
pub(super) fn connect_options(options: &EtcdOptions) -> Result<ConnectOptions, EtcdError> {
    let mut connect = ConnectOptions::new()
        .with_connect_timeout(CONNECT)
        .with_keep_alive(KEEP_ALIVE, KEEP_ALIVE)
        .with_keep_alive_while_idle(true)
        .with_require_leader(true)
        .with_auto_token_refresh(true);
    if let (Some(user), Some(path)) = (&options.user, &options.password_file) {
        let password = std::fs::read_to_string(path);
        let password = password.map_err(|source| EtcdError::File { path: path.clone(), source })?;
        connect = connect.with_user(user, password.trim());
    }
    if let Some(ca) = options.tls.read_ca()? {
        let mut tls = TlsOptions::new().ca_certificate(Certificate::from_pem(ca));
        if let Some(shown) = options.tls.read_shown()? {
            tls = tls.identity(etcd_client::Identity::from_pem(shown.certificate, shown.key));
        }
        connect = connect.with_tls(tls);
    }
    Ok(connect)
}
