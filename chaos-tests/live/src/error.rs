//! Why a run has no verdict.

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LiveError {
    #[error("{0}")]
    Usage(String),
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
    #[error("starting {0}: {1}")]
    Start(String, std::io::Error),
    #[error("the log of the server: {0}")]
    Log(String),
    #[error("{0}")]
    Failed(String),
    #[error("interrupted")]
    Interrupted,
}
