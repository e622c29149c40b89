//! What can go wrong with a command, and which exit code says so.

use crate::answers::visible_lines;
use crate::terminal::stderr_width;
use crate::text::wrapped;
use ohm_wire::api::ApiError;
use std::io;

/// It was done.
pub const EXIT_DONE: u8 = 0;
/// It failed.
pub const EXIT_FAILED: u8 = 1;
/// The command was used wrongly.
pub const EXIT_USAGE: u8 = 2;
/// No server could be reached.
pub const EXIT_UNREACHABLE: u8 = 3;

/// Why a command did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It was used wrongly.
    #[error("{0}")]
    Usage(String),
    /// No server could be reached.
    #[error("no server answers at {server}: {reason}")]
    Unreachable {
        /// The address.
        server: String,
        /// Why.
        reason: String,
    },
    /// The server said no.
    #[error("{}", .0.message)]
    Refused(ApiError),
    /// The server's answer is none of this API's.
    #[error("the answer of {server} cannot be read: {reason}")]
    Unreadable {
        /// The address.
        server: String,
        /// Why.
        reason: String,
    },
    /// A file or stream failed.
    #[error("{what}: {source}")]
    Io {
        /// Which, as a phrase.
        what: String,
        /// Why.
        source: io::Error,
    },
    /// A stream of the server ended in its midst.
    #[error("the output broke off: {0}")]
    BrokenOff(io::Error),
    /// The work was done and its result is bad.
    #[error("{0}")]
    Failed(String),
    /// It failed, and there is something to be done about it.
    #[error("{message}")]
    Hinted {
        /// What happened.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The result is bad, and everything about it has been printed.
    #[error("failed")]
    Told,
}

impl Failure {
    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Self {
        Failure::Io { what: what.into(), source }
    }

    /// The exit code that says so.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) => EXIT_USAGE,
            Failure::Unreachable { .. } => EXIT_UNREACHABLE,
            // Whoever reads our output has seen enough.
            _ if self.is_broken_pipe() => EXIT_DONE,
            _ => EXIT_FAILED,
        }
    }

    /// What to do next; possibly empty.
    pub fn hint(&self) -> String {
        match self {
            Failure::Unreachable { reason, .. } => hint_on_connecting(reason).to_string(),
            Failure::Refused(error) => error.hint.clone(),
            Failure::Hinted { hint, .. } => hint.clone(),
            Failure::Unreadable { .. } => "is this the address of an Ohm server of the same version?".to_string(),
            Failure::Usage(_) | Failure::Io { .. } | Failure::BrokenOff(_) | Failure::Failed(_) | Failure::Told => {
                String::new()
            }
        }
    }

    /// Whether the same request may do better in a moment, and sending it again is safe.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Failure::Unreachable { .. } => true,
            Failure::Refused(error) => matches!(error.code.as_str(), "busy" | "not_serving" | "unknown_outcome"),
            _ => false,
        }
    }

    /// Whether a stream that failed so may be opened again where it broke off.
    pub(crate) fn may_go_on(&self) -> bool {
        let is_gone_agent = |error: &ApiError| error.code == "log_unreadable";
        let may_come_back = matches!(self, Failure::Refused(error) if is_gone_agent(error));
        self.is_passing() || may_come_back || matches!(self, Failure::BrokenOff(_))
    }

    fn is_broken_pipe(&self) -> bool {
        matches!(self, Failure::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Says it on stderr.
    pub(crate) fn report(&self, color: bool) {
        if self.is_broken_pipe() || matches!(self, Failure::Told) {
            return;
        }
        let (red, cyan, plain) = if color { ("\x1b[1;31m", "\x1b[1;36m", "\x1b[0m") } else { ("", "", "") };
        let width = stderr_width();
        let told = |color: &str, word: &str, text: &str| {
            let lines = wrapped(&format!("{word}: {}", visible_lines(text)), width, 0);
            eprintln!("{color}{word}:{plain}{}", &lines[word.len() + 1..]);
        };
        told(red, "error", &self.to_string());
        let hint = self.hint();
        if !hint.is_empty() {
            told(cyan, "hint", &hint);
        }
    }
}

/// What to do when the connection failed for this reason, in the words of rustls and ureq.
fn hint_on_connecting(reason: &str) -> &'static str {
    if reason.contains("peer certificate") {
        "name the certificate of whoever vouches for the servers with --tls-ca, and a server by a name that its own \
         certificate holds"
    } else if reason.contains("CertificateRequired") {
        "this cell lets nobody in who shows no certificate: --tls-cert and --tls-key (`ohm tls create NAME` makes one)"
    } else if reason.contains("invalid HTTP version") {
        "what listens there may be encrypted: try https://"
    } else {
        "start a cell with `ohm up`, or name a running one with --server or OHM_SERVER (such as http://127.0.0.1:6460)"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_say_what_kind_of_failure_it_is() {
        let unreachable = Failure::Unreachable { server: "http://x".into(), reason: "refused".into() };
        assert_eq!(unreachable.to_string(), "no server answers at http://x: refused");
        assert!(unreachable.hint().contains("ohm up"));
        for (failure, code) in [
            (unreachable, EXIT_UNREACHABLE),
            (Failure::Usage("no".into()), EXIT_USAGE),
            (Failure::Refused(ApiError::default()), EXIT_FAILED),
            (Failure::Told, EXIT_FAILED),
            (Failure::io("writing", io::ErrorKind::BrokenPipe.into()), EXIT_DONE),
            (Failure::io("writing", io::ErrorKind::StorageFull.into()), EXIT_FAILED),
        ] {
            assert_eq!(failure.exit_code(), code, "{failure:?}");
        }
    }
}
