//! Keys with all their revisions, leases, and the guards of transactions.

use bytes::Bytes;
use ohm_log_etcd::core::call::{CallError, Guard, Op, Pair, Range, Request, Response, Txn, WatchEvent};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Store {
    revision: u64,
    compacted: u64,
    /// By key: what it became at which revision.
    history: BTreeMap<String, Vec<(u64, Option<Held>)>>,
    events: BTreeMap<u64, Vec<WatchEvent>>,
    /// By lease: its keys are gone after this.
    leases: BTreeMap<u64, (u64, u64)>,
    next_lease: u64,
}

#[derive(Clone)]
struct Held {
    pair: Pair,
    lease: u64,
}

impl Store {
    pub(crate) fn ask(&mut self, now_ms: u64, request: Request) -> Result<Response, CallError> {
        match request {
            Request::Txn(txn) => Ok(self.txn(txn)),
            Request::Range(range) => self.range(&range),
            Request::Compact { revision } if revision <= self.compacted => Err(CallError::Compacted),
            Request::Compact { revision } => {
                self.compact(revision.min(self.revision));
                Ok(Response::Compacted)
            }
            Request::Grant { ttl_s } => {
                self.next_lease += 1;
                self.leases.insert(self.next_lease, (ttl_s, now_ms + ttl_s * 1000));
                Ok(Response::Lease { lease: self.next_lease, ttl_s })
            }
            Request::KeepAlive { lease } => {
                let ttl_s = self.leases.get_mut(&lease).map_or(0, |(ttl_s, ends_ms)| {
                    *ends_ms = now_ms + *ttl_s * 1000;
                    *ttl_s
                });
                Ok(Response::Lease { lease, ttl_s })
            }
        }
    }

    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(crate) fn compact_all(&mut self) {
        self.compact(self.revision);
    }

    fn compact(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision);
        self.events = self.events.split_off(&(revision + 1));
        for versions in self.history.values_mut() {
            let newest = versions.iter().rposition(|(at, _)| *at <= revision).unwrap_or(0);
            versions.drain(..newest);
        }
    }

    pub(crate) fn expire(&mut self, now_ms: u64) {
        let gone: Vec<u64> =
            self.leases.iter().filter(|(_, (_, ends_ms))| *ends_ms <= now_ms).map(|(lease, _)| *lease).collect();
        gone.into_iter().for_each(|lease| self.end_lease(lease));
    }

    pub(crate) fn forget_a_lease(&mut self, which: u64) {
        let count = self.leases.len() as u64;
        let lease = self.leases.keys().nth((which % count.max(1)) as usize).copied();
        lease.into_iter().for_each(|lease| self.end_lease(lease));
    }

    fn end_lease(&mut self, lease: u64) {
        self.leases.remove(&lease);
        let keys: Vec<String> =
            self.live().filter(|(_, held)| held.lease == lease).map(|(key, _)| key.clone()).collect();
        if !keys.is_empty() {
            self.revision += 1;
            keys.iter().for_each(|key| self.delete(key));
        }
    }

    fn live(&self) -> impl Iterator<Item = (&String, &Held)> {
        self.history.iter().filter_map(|(key, versions)| Some((key, versions.last()?.1.as_ref()?)))
    }

    fn at(&self, key: &str, revision: u64) -> Option<&Held> {
        let versions = self.history.get(key)?;
        versions.iter().rev().find(|(at, _)| *at <= revision)?.1.as_ref()
    }

    fn txn(&mut self, txn: Txn) -> Response {
        let holds = |guard: &Guard| match guard {
            Guard::Modified(key, revision) => self.at(key, u64::MAX).map_or(0, |held| held.pair.modified) == *revision,
            Guard::Absent(key) => self.at(key, u64::MAX).is_none(),
        };
        let succeeded = txn.guards.iter().all(holds);
        let ops = if succeeded { txn.then } else { txn.otherwise };
        // A put with a lease that is gone fails as a whole, like any other refusal of its guards.
        let is_leaseless =
            |op: &Op| matches!(op, Op::Put { lease, .. } if *lease != 0 && !self.leases.contains_key(lease));
        if ops.iter().any(is_leaseless) {
            return Response::Txn { succeeded: false, revision: self.revision, found: Vec::new() };
        }
        let writes = |op: &Op| !matches!(op, Op::Get(_));
        if ops.iter().any(writes) {
            self.revision += 1;
        }
        let mut found = Vec::new();
        for op in ops {
            match op {
                Op::Put { key, value, lease } => self.put(key, value, lease),
                Op::Get(key) => found.extend(self.at(&key, u64::MAX).map(|held| held.pair.clone())),
                Op::Delete(key, end) => {
                    let end = end.unwrap_or_else(|| format!("{key}\u{0}"));
                    let keys: Vec<String> = self
                        .live()
                        .filter(|(found, _)| **found >= key && **found < end)
                        .map(|(found, _)| found.clone())
                        .collect();
                    keys.iter().for_each(|key| self.delete(key));
                }
            }
        }
        Response::Txn { succeeded, revision: self.revision, found }
    }

    fn put(&mut self, key: String, value: Bytes, lease: u64) {
        let version = self.at(&key, u64::MAX).map_or(1, |held| held.pair.version + 1);
        let pair = Pair { key: key.clone(), value, modified: self.revision, version };
        self.events.entry(self.revision).or_default().push(WatchEvent::Put(pair.clone()));
        self.history.entry(key).or_default().push((self.revision, Some(Held { pair, lease })));
    }

    fn delete(&mut self, key: &str) {
        let event = WatchEvent::Deleted { key: key.to_string(), modified: self.revision };
        self.events.entry(self.revision).or_default().push(event);
        self.history.entry(key.to_string()).or_default().push((self.revision, None));
    }

    fn range(&self, range: &Range) -> Result<Response, CallError> {
        if range.revision != 0 && range.revision < self.compacted {
            return Err(CallError::Compacted);
        }
        let revision = if range.revision == 0 { u64::MAX } else { range.revision };
        let end = range.end.clone().unwrap_or_else(|| format!("{}\u{0}", range.key));
        let keys = self.history.range(range.key.clone()..end).map(|(key, _)| key);
        let mut pairs: Vec<Pair> =
            keys.filter_map(|key| self.at(key, revision)).map(|held| held.pair.clone()).collect();
        let limit = if range.limit == 0 { usize::MAX } else { range.limit as usize };
        let more = pairs.len() > limit;
        pairs.truncate(limit);
        Ok(Response::Range { revision: self.revision, pairs, more })
    }

    /// Events from a revision on, about so many, and the next revision.
    pub(crate) fn events(&self, prefix: &str, from: u64, deletions: bool, count: usize) -> (Vec<WatchEvent>, u64) {
        let (mut found, mut next) = (Vec::new(), from.max(self.revision + 1));
        for (revision, events) in self.events.range(from..) {
            if found.len() >= count {
                next = *revision;
                break;
            }
            let wanted = |event: &&WatchEvent| match event {
                WatchEvent::Put(pair) => pair.key.starts_with(prefix),
                WatchEvent::Deleted { key, .. } => deletions && key.starts_with(prefix),
            };
            found.extend(events.iter().filter(wanted).cloned());
        }
        (found, next)
    }

    /// As after a restore from a backup: everything since `revision` never happened.
    pub(crate) fn restore(&mut self, revision: u64) {
        self.revision = revision;
        self.events.retain(|at, _| *at <= revision);
        for versions in self.history.values_mut() {
            versions.retain(|(at, _)| *at <= revision);
        }
        self.history.retain(|_, versions| !versions.is_empty());
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// How many keys there are below a prefix.
    pub(crate) fn count(&self, prefix: &str) -> usize {
        self.live().filter(|(key, _)| key.starts_with(prefix)).count()
    }
}
