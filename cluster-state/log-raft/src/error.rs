//! Why a log cannot be opened.

use ohm_log::DiskError;

/// Why a log was not created or opened. In all of these cases the files are as they were.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// There is nothing to open. A member that had a log here before must not start with an empty one: it could vote
    /// against what it has acknowledged.
    #[error("the folder holds no log: create one if this member is new, replace the member if it is not")]
    Empty,
    /// There is something already.
    #[error("the folder holds {file} already: open the log that is there, or take an empty folder")]
    NotEmpty {
        /// A file that is there.
        file: String,
    },
    /// The folder belongs to something else.
    #[error("{file} is no file of a log of this program: take another folder")]
    Foreign {
        /// The file that is not ours.
        file: String,
    },
    /// A newer version wrote here.
    #[error("{file} has format {found}, this version reads {known}: start the version that wrote it, or a newer one")]
    Newer {
        /// The file.
        file: String,
        /// The format found.
        found: u8,
        /// The format that would be right.
        known: u8,
    },
    /// The log is of another cell, member or group.
    #[error(
        "the folder belongs to {what} {found}, this is {what} {expected}: check the data folder and the configuration"
    )]
    Identity {
        /// Cell, member or voters.
        what: &'static str,
        /// What the folder says.
        found: String,
        /// What the configuration says.
        expected: String,
    },
    /// Something that was durable has changed, or is gone.
    #[error("{file} is damaged at byte {offset}: {reason}; restore it, or replace this member by a new one")]
    Damaged {
        /// The file.
        file: String,
        /// Where the damage begins, in bytes from the start.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
    /// The configuration cannot work.
    #[error("the configuration cannot work: {0}")]
    Configuration(String),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl OpenError {
    pub(crate) fn damaged(file: &str, offset: u64, reason: impl Into<String>) -> Self {
        OpenError::Damaged { file: file.into(), offset, reason: reason.into() }
    }
}
