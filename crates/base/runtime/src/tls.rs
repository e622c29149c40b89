//! Certificates in PEM files: what this process shows, and whom it believes. They are read anew whenever a connection
//! is made, so that a renewed certificate needs no restart.

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// Where the certificates of a process are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates of those who vouch for the other side.
    pub ca: Option<PathBuf>,
    /// The certificate this process shows, with those that lead from it to its CA.
    pub certificate: Option<PathBuf>,
    /// The key of that certificate.
    pub key: Option<PathBuf>,
}

/// Why certificates can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can't be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file holds something else.
    #[error("{} holds no {what} in PEM", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What should be there.
        what: &'static str,
    },
    /// One of two files that belong together is missing.
    #[error("{given} was given without {missing}; they belong together")]
    Half {
        /// The option that was given.
        given: &'static str,
        /// The one that was not.
        missing: &'static str,
    },
    /// Nobody is believed.
    #[error("an https:// address needs --tls-ca FILE, the certificate of whoever vouches for the servers")]
    NoCa,
}

/// A certificate and its key, as they stand in their files.
#[derive(Clone, PartialEq, Eq)]
pub struct Shown {
    /// The certificate and those that lead to its CA, in PEM.
    pub certificate: Vec<u8>,
    /// Its key, in PEM.
    pub key: Vec<u8>,
}

impl std::fmt::Debug for Shown {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Shown { .. }")
    }
}

impl TlsFiles {
    /// The certificates of the CA in PEM, if a file of them is named.
    ///
    /// # Errors
    /// When it can't be read, or holds no certificate.
    pub fn read_ca(&self) -> Result<Option<Vec<u8>>, TlsError> {
        self.ca.as_deref().map(read_certificates).transpose()
    }

    /// What this process shows, if files of it are named.
    ///
    /// # Errors
    /// When only one of the two is named, one can't be read, or holds something else.
    pub fn read_shown(&self) -> Result<Option<Shown>, TlsError> {
        match (&self.certificate, &self.key) {
            (None, None) => Ok(None),
            (Some(_), None) => Err(TlsError::Half { given: "--tls-cert", missing: "--tls-key" }),
            (None, Some(_)) => Err(TlsError::Half { given: "--tls-key", missing: "--tls-cert" }),
            (Some(certificate), Some(key)) => {
                let shown = Shown { certificate: read_certificates(certificate)?, key: read(key)? };
                match PrivateKeyDer::from_pem_slice(&shown.key) {
                    Ok(_) => Ok(Some(shown)),
                    Err(_) => Err(TlsError::Pem { path: key.clone(), what: "private key" }),
                }
            }
        }
    }

    /// How a client of our RPC goes about it.
    ///
    /// # Errors
    /// When the files are not usable, or there is no CA.
    pub(crate) fn client(&self) -> Result<ClientTlsConfig, TlsError> {
        let ca = self.read_ca()?.ok_or(TlsError::NoCa)?;
        let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca));
        Ok(match self.read_shown()? {
            Some(shown) => config.identity(Identity::from_pem(shown.certificate, shown.key)),
            None => config,
        })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read { path: path.to_path_buf(), source })
}

fn read_certificates(path: &Path) -> Result<Vec<u8>, TlsError> {
    let pem = read(path)?;
    let mut certificates = CertificateDer::pem_slice_iter(&pem).peekable();
    if certificates.peek().is_none() || certificates.any(|certificate| certificate.is_err()) {
        return Err(TlsError::Pem { path: path.to_path_buf(), what: "certificate" });
    }
    Ok(pem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(files: &TlsFiles) -> String {
        match files.client() {
            Ok(_) => "fine".to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_is_wrong_with_the_files_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| Some(folder.path().join(name));
        std::fs::write(folder.path().join("words.pem"), "no certificate\n").unwrap();
        assert!(said(&TlsFiles::default()).contains("--tls-ca FILE"));
        assert!(said(&TlsFiles { ca: path("none.pem"), ..TlsFiles::default() }).contains("none.pem: No such file"));
        let words = said(&TlsFiles { ca: path("words.pem"), ..TlsFiles::default() });
        assert!(words.ends_with("words.pem holds no certificate in PEM"), "{words}");
        let half = TlsFiles { key: path("key.pem"), ..TlsFiles::default() }.read_shown().unwrap_err();
        assert_eq!(half.to_string(), "--tls-key was given without --tls-cert; they belong together");
    }
}
