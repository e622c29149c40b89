//! What an operator should see.

use ohm_model::Index;

/// What an operator should know about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Alarm {
    /// Appends wait until there is room again.
    #[error("{reason}: no room for {file}, appends wait until there is some again")]
    DiskFull {
        /// The file that could not grow.
        file: String,
        /// What there is too little of.
        reason: String,
    },
    /// There is room again.
    #[error("there is room on the disk again")]
    DiskRoom,
    /// A write was cut short by a crash. None of it had been acknowledged.
    #[error("{bytes} bytes of an unfinished write were cut from the end of {file}")]
    TailCut {
        /// The file.
        file: String,
        /// How many bytes were cut.
        bytes: u64,
    },
    /// A snapshot cannot be read; an older one and the entries after it took its place.
    #[error("snapshot {file} is damaged at byte {offset}: an older one was used; move this one away")]
    SnapshotDamaged {
        /// The file.
        file: String,
        /// Where the damage begins.
        offset: u64,
    },
    /// The engine is a process of its own, and of a version with known faults.
    #[error("etcd {version} has known faults that can show stale or missing entries: update it to {wanted}")]
    OldEngine {
        /// The version that runs.
        version: String,
        /// The first safe one.
        wanted: String,
    },
    /// The engine is a process of its own, and does not answer.
    #[error("etcd does not answer, and nothing is ordered until it does: {reason}")]
    EngineLost {
        /// What the last attempt said.
        reason: String,
    },
    /// The engine answers again.
    #[error("etcd answers again")]
    EngineBack,
    /// The engine has left out entries; they are read again.
    #[error("the watch of etcd left out {missing} entries or more before {at}: they are read again")]
    EventsMissed {
        /// How many, if it says so.
        missing: u64,
        /// The entry that showed it.
        at: Index,
    },
}
