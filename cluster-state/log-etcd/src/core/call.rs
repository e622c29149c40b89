//! The few words of etcd that this engine uses, as data.

use bytes::Bytes;

/// The name of a call, drawn by the core; comes back with its answer.
pub type CallId = u64;

/// What etcd is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Several operations at once, if every guard holds.
    Txn(Txn),
    /// Keys and values, linearizable.
    Range(Range),
    /// Forget what was overwritten or deleted up to this revision.
    Compact {
        /// The revision.
        revision: u64,
    },
    /// A new lease.
    Grant {
        /// How long it lasts, in seconds.
        ttl_s: u64,
    },
    /// Renew a lease.
    KeepAlive {
        /// Which.
        lease: u64,
    },
}

/// Keys from `key` up to `end`, or `key` alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first key.
    pub key: String,
    /// The first key that is not wanted any more.
    pub end: Option<String>,
    /// As of this revision; 0 is the newest.
    pub revision: u64,
    /// At most so many; 0 is all.
    pub limit: u64,
}

/// One transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// What must hold.
    pub guards: Vec<Guard>,
    /// Done if it does.
    pub then: Vec<Op>,
    /// Done if it does not.
    pub otherwise: Vec<Op>,
}

/// One condition of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The key was last changed at this revision; 0: it is not there.
    Modified(String, u64),
    /// The key is not there.
    Absent(String),
}

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Write a value; with a lease other than 0 it goes with it.
    Put {
        /// The key.
        key: String,
        /// The value.
        value: Bytes,
        /// The lease, or 0.
        lease: u64,
    },
    /// Read one key.
    Get(String),
    /// Delete from the first key up to the second one, or the first alone.
    Delete(String, Option<String>),
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Bytes,
    /// The revision of its last change.
    pub modified: u64,
    /// How often it was written since it was created.
    pub version: u64,
}

/// What etcd answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// To a transaction.
    Txn {
        /// Whether the guards held.
        succeeded: bool,
        /// The revision after it.
        revision: u64,
        /// What its `Get`s found.
        found: Vec<Pair>,
    },
    /// To a range.
    Range {
        /// The newest revision.
        revision: u64,
        /// What was found, by key.
        pairs: Vec<Pair>,
        /// There is more than the limit.
        more: bool,
    },
    /// To a compaction.
    Compacted,
    /// To a grant or a renewal: 0 seconds are left of a lease that is gone.
    Lease {
        /// Which.
        lease: u64,
        /// What is left of it.
        ttl_s: u64,
    },
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// It may have happened, or not.
    #[error("no answer from etcd: {0}")]
    Lost(String),
    /// The revision asked for is compacted away.
    #[error("the revision is compacted away")]
    Compacted,
    /// The quota of etcd is used up: it takes no more writes.
    #[error("etcd has no space left: raise its quota, or compact and defragment it, then disarm its alarm")]
    NoSpace,
    /// It was refused, and will be every time.
    #[error("etcd refuses: {0}")]
    Refused(String),
}

/// What a watch has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// A key was written.
    Put(Pair),
    /// A key was deleted, or went with its lease.
    Deleted {
        /// The key.
        key: String,
        /// When.
        modified: u64,
    },
}

/// What the core wants of the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Answered exactly once by [`Heard::Answer`].
    Call(CallId, Request),
    /// From this revision on, everything below `prefix`, until it ends or is stopped.
    Watch {
        /// Comes back with what it sees.
        watch: u64,
        /// The beginning of the keys.
        prefix: String,
        /// The first revision.
        from: u64,
        /// Deletions, too.
        deletions: bool,
    },
    /// Nobody listens to this watch any more.
    Unwatch(u64),
}

/// What the shell tells the core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// To a call.
    Answer(CallId, Result<Response, CallError>),
    /// A watch has seen this, in the order of revisions.
    Watched(u64, Vec<WatchEvent>),
    /// A watch is over.
    WatchEnded {
        /// Which.
        watch: u64,
        /// Because its revision is compacted away.
        compacted: bool,
        /// Why, in words.
        reason: String,
    },
    /// The version that a member of etcd runs.
    Version(String),
}

impl Range {
    /// One key as it is now.
    pub fn one(key: String) -> Self {
        Range { key, end: None, revision: 0, limit: 0 }
    }

    /// All keys that begin with `prefix`.
    pub fn below(prefix: &str, revision: u64) -> Self {
        Range { key: prefix.into(), end: Some(after_prefix(prefix)), revision, limit: 0 }
    }
}

/// The first key that does not begin with `prefix` any more, which is not empty and ends in ASCII.
pub fn after_prefix(prefix: &str) -> String {
    let mut end = prefix.to_string();
    let last = end.pop().unwrap_or('\u{0}');
    end.push(char::from_u32(last as u32 + 1).unwrap_or(last));
    end
}
