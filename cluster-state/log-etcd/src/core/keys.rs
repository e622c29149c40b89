//! Where things are in etcd.
//!
//! ```text
//! PREFIX/log/cell                       who this cell is
//! PREFIX/log/entry/PROPOSER/SEQUENCE    one entry; its index is the revision at which it was written
//! PREFIX/log/head                       rewritten with every entry: its version counts them
//! PREFIX/log/pointer                    the newest snapshot
//! PREFIX/log/trim                       which entries are gone
//! PREFIX/snapshot/ID/CHUNK              the bytes of a snapshot
//! PREFIX/saving                         held by the server that saves a snapshot
//! PREFIX/number/NUMBER                  the numbers of servers, each used once
//! PREFIX/server/NUMBER                  a server that runs, as long as its lease does
//! ```
//! Everything below `log` comes through one watch, and so in one order.

/// The keys of one cell.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
}

/// Which entry: the process that wrote it, and its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryId {
    pub(crate) proposer: u64,
    pub(crate) sequence: u64,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Keys { prefix: prefix.trim_end_matches('/').to_string() }
    }

    fn of(&self, rest: &str) -> String {
        format!("{}/{rest}", self.prefix)
    }

    pub(crate) fn log(&self) -> String {
        self.of("log/")
    }

    pub(crate) fn cell(&self) -> String {
        self.of("log/cell")
    }

    pub(crate) fn entries(&self) -> String {
        self.of("log/entry/")
    }

    pub(crate) fn entry(&self, id: EntryId) -> String {
        format!("{}{:016x}/{:016x}", self.entries(), id.proposer, id.sequence)
    }

    pub(crate) fn entry_of(&self, key: &str) -> Option<EntryId> {
        let (proposer, sequence) = key.strip_prefix(&self.entries())?.split_once('/')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok().filter(|_| text.len() == 16);
        Some(EntryId { proposer: number(proposer)?, sequence: number(sequence)? })
    }

    pub(crate) fn head(&self) -> String {
        self.of("log/head")
    }

    pub(crate) fn pointer(&self) -> String {
        self.of("log/pointer")
    }

    pub(crate) fn trim(&self) -> String {
        self.of("log/trim")
    }

    pub(crate) fn snapshots(&self) -> String {
        self.of("snapshot/")
    }

    pub(crate) fn snapshot(&self, id: &str) -> String {
        format!("{}{id}/", self.snapshots())
    }

    pub(crate) fn chunk(&self, id: &str, number: usize) -> String {
        format!("{}{number:08}", self.snapshot(id))
    }

    pub(crate) fn saving(&self) -> String {
        self.of("saving")
    }

    pub(crate) fn numbers(&self) -> String {
        self.of("number/")
    }

    pub(crate) fn number(&self, server: u64) -> String {
        format!("{}{server:08}", self.numbers())
    }

    pub(crate) fn servers(&self) -> String {
        self.of("server/")
    }

    pub(crate) fn server(&self, server: u64) -> String {
        format!("{}{server:08}", self.servers())
    }

    /// The number at the end of a key below [`Keys::numbers`] or [`Keys::servers`].
    pub(crate) fn number_of(&self, key: &str) -> Option<u64> {
        key.rsplit('/').next()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::call::after_prefix;

    #[test]
    fn entries_are_found_by_their_key_and_sort_by_their_count() {
        let keys = Keys::new("/ohm/one/");
        let id = |sequence| EntryId { proposer: 7, sequence };
        assert_eq!(keys.entry_of(&keys.entry(id(300))), Some(id(300)));
        assert!(keys.entry(id(9)) < keys.entry(id(10)) && keys.entry(id(10)).starts_with("/ohm/one/log/entry/"));
        for other in [keys.head(), keys.pointer(), keys.entries(), format!("{}7/9", keys.entries())] {
            assert_eq!(keys.entry_of(&other), None, "{other}");
        }
        assert_eq!(keys.number_of(&keys.server(12)), Some(12));
        assert_eq!(after_prefix("/ohm/"), "/ohm0");
    }
}
