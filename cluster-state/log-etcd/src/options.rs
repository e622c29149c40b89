//! Which etcd, and how to be let in.

use ohm_runtime::tls::{TlsError, TlsFiles};
use std::path::PathBuf;

/// How an etcd is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdOptions {
    /// `http://host:port` or `https://host:port` each: members of one etcd.
    pub endpoints: Vec<String>,
    /// All keys of the cell begin with this.
    pub prefix: String,
    /// Files for TLS.
    pub tls: TlsFiles,
    /// Who to be, where etcd asks for it.
    pub user: Option<String>,
    /// The file with that user's password.
    pub password_file: Option<PathBuf>,
    /// Leave the history alone: other users of this etcd want it.
    pub keep_history: bool,
}

/// Why an etcd can't be used.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// The options do not go together.
    #[error("{0}")]
    Options(String),
    /// A file can't be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A certificate or a key can't be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// What the folder notes about its cell is damaged or of a newer version.
    #[error("{}: {reason}", path.display())]
    Note {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// This server can't be one of the cell that is there.
    #[error(transparent)]
    Identity(#[from] crate::core::identity::IdentityError),
    /// Etcd lets nobody in like this.
    #[error("etcd refuses: {0}")]
    Refused(String),
}

impl EtcdOptions {
    /// An etcd without TLS and users.
    pub fn new(endpoints: Vec<String>, prefix: &str) -> Self {
        EtcdOptions { endpoints, prefix: prefix.into(), ..EtcdOptions::default() }
    }

    /// Says what can't work, before anything is tried.
    ///
    /// # Errors
    /// With what would be right.
    pub fn check(&self) -> Result<(), EtcdError> {
        let wrong = |text: String| Err(EtcdError::Options(text));
        if self.endpoints.is_empty() {
            return wrong("--engine etcd needs to know where etcd is: --etcd http://HOST:2379,…".into());
        }
        let is_url = |url: &&String| url.starts_with("http://") || url.starts_with("https://");
        if let Some(other) = self.endpoints.iter().find(|url| !is_url(url)) {
            return wrong(format!("--etcd {other}: must be like http://HOST:2379 or https://HOST:2379"));
        }
        let secure = self.endpoints.iter().filter(|url| url.starts_with("https://")).count();
        if secure > 0 && secure < self.endpoints.len() {
            return wrong("--etcd: either all endpoints are https or none".into());
        }
        match (secure > 0, &self.tls.ca) {
            (true, None) => return wrong("--etcd https://… needs --etcd-ca FILE, the authority to believe".into()),
            (false, Some(_)) => return wrong("--etcd-ca is for https endpoints; --etcd names http".into()),
            _ => {}
        }
        if self.tls.certificate.is_some() != self.tls.key.is_some() {
            return wrong("--etcd-cert and --etcd-key go together".into());
        }
        if self.tls.certificate.is_some() && secure == 0 {
            return wrong("--etcd-cert is for https endpoints; --etcd names http".into());
        }
        if self.user.is_some() != self.password_file.is_some() {
            return wrong("--etcd-user and --etcd-password-file go together".into());
        }
        let prefix = self.prefix.trim_end_matches('/');
        let is_plain = |character: char| character.is_ascii_graphic();
        if prefix.is_empty() || !prefix.starts_with('/') || !prefix.chars().all(is_plain) {
            return wrong(format!("--etcd-prefix {}: must be like /ohm", self.prefix));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(change: impl FnOnce(&mut EtcdOptions)) -> String {
        let mut options = EtcdOptions::new(vec!["http://a:2379".into()], "/ohm");
        change(&mut options);
        options.check().err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn what_can_not_work_is_said_with_what_would() {
        assert_eq!(said(|_| {}), "");
        for (text, expected) in [
            (said(|options| options.endpoints.clear()), "--etcd http://HOST:2379"),
            (said(|options| options.endpoints[0] = "a:2379".into()), "must be like"),
            (said(|options| options.endpoints.push("https://b:2379".into())), "either all"),
            (said(|options| options.endpoints[0] = "https://b:2379".into()), "--etcd-ca FILE"),
            (said(|options| options.tls.ca = Some("ca.pem".into())), "is for https"),
            (said(|options| options.tls.key = Some("key.pem".into())), "go together"),
            (said(|options| options.user = Some("ohm".into())), "--etcd-password-file"),
            (said(|options| options.prefix = "/".into()), "must be like /ohm"),
            (said(|options| options.prefix = "ohm".into()), "must be like /ohm"),
        ] {
            assert!(text.contains(expected), "{text:?} should contain {expected:?}");
        }
    }
}
