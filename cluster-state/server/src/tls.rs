//! The port, encrypted, with certificates that are renewed without a restart.

use ohm_runtime::tls::{TlsError, TlsFiles};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How often the files are looked at.
const RENEWED_EVERY: Duration = Duration::from_secs(10);

/// Why a server can't serve with its certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsServeError {
    /// The files can't be used.
    #[error(transparent)]
    Files(#[from] TlsError),
    /// Certificates can't be asked for without a certificate.
    #[error("--tls-client-auth needs --tls-cert, --tls-key and --tls-ca")]
    NothingToAskFor,
    /// The certificate and its key don't fit, or the CA is none.
    #[error("the certificate can't be used: {0}")]
    Unusable(String),
}

/// How connections are taken, now and after the files have changed.
pub(crate) struct Settings {
    files: TlsFiles,
    client_auth: bool,
    config: Arc<ServerConfig>,
}

/// How connections are taken; `None` when nothing is encrypted.
pub(crate) fn settings(files: &TlsFiles, client_auth: bool) -> Result<Option<Settings>, TlsServeError> {
    match read(files, client_auth)? {
        Some(config) => Ok(Some(Settings { files: files.clone(), client_auth, config: Arc::new(config) })),
        None if client_auth => Err(TlsServeError::NothingToAskFor),
        None => Ok(None),
    }
}

fn read(files: &TlsFiles, client_auth: bool) -> Result<Option<ServerConfig>, TlsServeError> {
    let Some(shown) = files.read_shown()? else { return Ok(None) };
    let unusable = |error: rustls::Error| TlsServeError::Unusable(error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(unusable)?;
    let builder = match client_auth {
        false => builder.with_no_client_auth(),
        true => {
            let ca = files.read_ca()?.ok_or(TlsServeError::NothingToAskFor)?;
            let mut roots = RootCertStore::empty();
            for certificate in certificates(&ca)? {
                roots.add(certificate).map_err(unusable)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| TlsServeError::Unusable(error.to_string()))?)
        }
    };
    let key = PrivateKeyDer::from_pem_slice(&shown.key).map_err(|error| not_pem(&error))?;
    let mut config = builder.with_single_cert(certificates(&shown.certificate)?, key).map_err(unusable)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Some(config))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsServeError> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|error| not_pem(&error))
}

fn not_pem(error: &pem::Error) -> TlsServeError {
    TlsServeError::Unusable(error.to_string())
}

/// What encrypts connections, with the certificate of the moment.
pub(crate) struct Encryption {
    config: watch::Receiver<Arc<ServerConfig>>,
    /// Ends with this.
    _renewal: JoinSet<()>,
}

impl Encryption {
    /// Looks for renewed files from now on.
    pub(crate) fn start(settings: Settings) -> Self {
        let (renewed, config) = watch::channel(settings.config.clone());
        let mut renewal = JoinSet::new();
        renewal.spawn(renew(settings, renewed));
        Encryption { config, _renewal: renewal }
    }

    /// `stream`, encrypted; none when the peer can't, or not in time.
    pub(crate) async fn shake_hands(&self, stream: TcpStream, peer: IpAddr) -> Option<TlsStream<TcpStream>> {
        let acceptor = TlsAcceptor::from(self.config.borrow().clone());
        match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err(error)) => tracing::debug!(%peer, %error, "no handshake"),
            Err(_) => tracing::debug!(%peer, "no handshake in time"),
        }
        None
    }
}

/// Looks at the files again and again. What can't be used changes nothing: the old certificate goes on.
async fn renew(settings: Settings, renewed: watch::Sender<Arc<ServerConfig>>) {
    let contents = |files: &TlsFiles| (files.read_ca().ok(), files.read_shown().ok());
    let mut known = contents(&settings.files);
    loop {
        tokio::time::sleep(RENEWED_EVERY).await;
        let now = contents(&settings.files);
        if now == known {
            continue;
        }
        known = now;
        match read(&settings.files, settings.client_auth) {
            Ok(Some(config)) => {
                tracing::info!("the certificate was renewed");
                renewed.send_replace(Arc::new(config));
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the new certificate can't be used; the old one goes on"),
        }
    }
}
