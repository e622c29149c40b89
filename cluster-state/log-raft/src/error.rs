//! Why a log cannot be opened.

use ohm_log::DiskError;
use ohm_model::Index;

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
    /// A log stood here and is gone.
    #[error(
        "the log of member {member} of cell {cell:016x} is gone, and with it how it voted and what it acknowledged up \
         to entry {index} and after: it does not come back under this number; put the files back, or replace this \
         member by a new one"
    )]
    Gone {
        /// The cell.
        cell: u64,
        /// The member.
        member: u64,
        /// Entries up to here were durable.
        index: Index,
    },
    /// The log lacks what was durable in it.
    #[error(
        "the log has lost entries that were durable: {reason}. Put the files back. Otherwise, among other servers, \
         remove this member (`ohm server members remove {member}`) and the folder of the log, then let it join anew; a \
         lone one takes a backup (`ohm server restore`, without the folder of the log), or goes on with what is left \
         once log.mark is removed"
    )]
    Short {
        /// Whose log it is.
        member: u64,
        /// What the mark says and what is there.
        reason: String,
    },
    /// The mark is of another log.
    #[error(
        "the log is of member {member} of cell {cell:016x}, log.mark beside it of member {mark_member} of cell \
         {mark_cell:016x}: put the right log back, or remove log.mark if the log is the right one"
    )]
    OtherMark {
        /// The cell of the log.
        cell: u64,
        /// The member whose log it is.
        member: u64,
        /// The cell that the mark names.
        mark_cell: u64,
        /// The member that the mark names.
        mark_member: u64,
    },
    /// The mark cannot be read.
    #[error("log.mark is damaged: {reason}; remove it if the log beside it is whole, and it is written anew")]
    MarkDamaged {
        /// What is wrong.
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
