//! A disk in memory that forgets as a real one does: what was not synced may be lost, torn or damaged by a crash.

use crate::disk::{Disk, DiskError, FileStatus};
use ohm_stdx::Prng;
use std::collections::BTreeMap;

/// A crash damages unsynced bytes in units of this many.
const SECTOR_BYTES: usize = 512;

/// What goes wrong in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call fails. A failed sync loses the unsynced bytes for good, whatever later syncs say.
    Failed,
    /// The first append from here on finds no room.
    Full,
}

/// A folder in memory. Every content has a durable and a pending half, and so has the list of names.
#[derive(Clone, Debug, Default)]
pub struct MemDisk {
    contents: BTreeMap<u64, Content>,
    next_content: u64,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    pending_names: Vec<NameChange>,
    calls: u64,
    syncs: u64,
    faults: BTreeMap<u64, Fault>,
    power_off_after: Option<u64>,
    capacity_bytes: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    durable_length: usize,
    /// How long it was before the last sync made it longer.
    settled_length: usize,
    /// The durable bytes from before a cut that has not been synced.
    before_cut: Option<Vec<u8>>,
    sync_failed: bool,
}

#[derive(Clone, Debug)]
enum NameChange {
    Set(String, u64),
    Remove(String),
}

impl MemDisk {
    /// An empty folder on a disk without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many calls there were, failed ones included.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// How many of them were syncs of a file.
    pub fn syncs(&self) -> u64 {
        self.syncs
    }

    /// Makes the call with this number go wrong; the first one ever has number 1.
    pub fn fail_at(&mut self, call: u64, fault: Fault) {
        self.faults.insert(call, fault);
    }

    /// How many bytes of `name` were durable before its last write: damage beyond them looks like an unfinished write.
    pub fn settled_bytes(&self, name: &str) -> u64 {
        let content = self.names.get(name).and_then(|content| self.contents.get(content));
        content.map_or(0, |content| content.settled_length.min(content.durable_length) as u64)
    }

    /// After this many calls in all, every further one fails and changes nothing, until [`MemDisk::crash`] or
    /// [`MemDisk::power_on`].
    pub fn power_off_after(&mut self, calls: u64) {
        self.power_off_after = Some(calls);
    }

    /// Takes calls again without having lost anything: it was a process that died, not the machine.
    pub fn power_on(&mut self) {
        self.power_off_after = None;
    }

    /// The disk holds at most this many bytes, or any number of them.
    pub fn set_capacity_bytes(&mut self, capacity: Option<u64>) {
        self.capacity_bytes = capacity;
    }

    /// Flips a bit of `file`, durably; false if there is no such bit.
    pub fn flip_bit(&mut self, file: &str, bit: u64) -> bool {
        let Some(content) = self.names.get(file).and_then(|id| self.contents.get_mut(id)) else { return false };
        let Some(byte) = content.bytes.get_mut((bit / 8) as usize) else { return false };
        *byte ^= 1 << (bit % 8);
        true
    }

    /// The bytes of `file`, without counting as a call.
    pub fn peek(&self, file: &str) -> Option<&[u8]> {
        Some(&self.contents.get(self.names.get(file)?)?.bytes)
    }

    /// Puts a durable `file` there, without counting as a call.
    pub fn place(&mut self, file: &str, bytes: &[u8]) {
        let content = Content { bytes: bytes.to_vec(), durable_length: bytes.len(), ..Content::default() };
        self.contents.insert(self.next_content, content);
        self.names.insert(file.into(), self.next_content);
        self.durable_names.insert(file.into(), self.next_content);
        self.next_content += 1;
    }

    /// The power goes and comes back: pending names are kept up to a random one (as a journal does) or each by chance
    /// (as a plain file system may), pending bytes are lost, kept or torn, and the injected faults are gone.
    pub fn crash(&mut self, dice: &mut Prng) {
        let journaled = dice.chance(500);
        let kept = dice.below(self.pending_names.len() as u64 + 1) as usize;
        for (place, change) in self.pending_names.drain(..).enumerate() {
            if if journaled { place < kept } else { dice.chance(500) } {
                apply(&mut self.durable_names, change);
            }
        }
        self.names = self.durable_names.clone();
        let reachable: Vec<u64> = self.names.values().copied().collect();
        self.contents.retain(|id, _| reachable.contains(id));
        self.contents.values_mut().for_each(|content| content.crash(dice));
        self.faults.clear();
        self.power_off_after = None;
    }

    /// Counts a call and says whether it may do its work.
    fn begin(&mut self, operation: &'static str, file: &str) -> Result<(), DiskError> {
        self.calls += 1;
        let failed = |reason: &str| DiskError::Failed { operation, file: file.into(), reason: reason.into() };
        if self.power_off_after.is_some_and(|calls| self.calls > calls) {
            return Err(failed("the power is off"));
        }
        match self.faults.range(..=self.calls).next().map(|(&call, &fault)| (call, fault)) {
            Some((call, Fault::Failed)) => {
                self.faults.remove(&call);
                Err(failed("injected fault"))
            }
            Some((call, Fault::Full)) if operation == "append" => {
                self.faults.remove(&call);
                Err(DiskError::full(file))
            }
            _ => Ok(()),
        }
    }

    fn content(&mut self, file: &str) -> Result<&mut Content, DiskError> {
        let id = self.names.get(file).ok_or_else(|| DiskError::NotFound { file: file.into() })?;
        self.contents.get_mut(id).ok_or_else(|| DiskError::NotFound { file: file.into() })
    }

    fn change_name(&mut self, change: NameChange) {
        apply(&mut self.names, change.clone());
        self.pending_names.push(change);
    }

    /// How many bytes all files have together.
    pub fn used_bytes(&self) -> u64 {
        self.names.values().filter_map(|id| self.contents.get(id)).map(|content| content.bytes.len() as u64).sum()
    }
}

impl Content {
    fn cut(&mut self, length: usize) {
        if length < self.durable_length {
            self.before_cut.get_or_insert_with(|| self.bytes[..self.durable_length].to_vec());
            self.durable_length = length;
        }
        self.bytes.truncate(length);
    }

    fn crash(&mut self, dice: &mut Prng) {
        if let Some(before) = self.before_cut.take()
            && dice.chance(500)
        {
            self.bytes = before;
            self.durable_length = self.bytes.len();
        }
        let pending = self.bytes.len() - self.durable_length;
        let (kept, damaged_permille) = match dice.below(4) {
            0 => (0, 0),
            1 => (pending, 0),
            _ => (dice.below(pending as u64 + 1) as usize, [0, 1, 300][dice.below(3) as usize]),
        };
        self.bytes.truncate(self.durable_length + kept);
        let mut start = self.durable_length;
        while start < self.bytes.len() {
            let end = ((start / SECTOR_BYTES + 1) * SECTOR_BYTES).min(self.bytes.len());
            if dice.chance(damaged_permille) {
                let zeroed = dice.chance(500);
                self.bytes[start..end].iter_mut().for_each(|byte| *byte = if zeroed { 0 } else { dice.u64() as u8 });
            }
            start = end;
        }
        self.durable_length = self.bytes.len();
        self.sync_failed = false;
    }
}

fn apply(names: &mut BTreeMap<String, u64>, change: NameChange) {
    match change {
        NameChange::Set(name, content) => {
            names.retain(|_, other| *other != content);
            names.insert(name, content);
        }
        NameChange::Remove(name) => {
            names.remove(&name);
        }
    }
}

impl Disk for MemDisk {
    fn list(&mut self) -> Result<Vec<FileStatus>, DiskError> {
        self.begin("list", ".")?;
        let length = |id| self.contents.get(id).map_or(0, |content| content.bytes.len() as u64);
        Ok(self.names.iter().map(|(name, id)| FileStatus { name: name.clone(), bytes: length(id) }).collect())
    }

    fn read(&mut self, file: &str, offset: u64, length: usize) -> Result<Vec<u8>, DiskError> {
        self.begin("read", file)?;
        let bytes = &self.content(file)?.bytes;
        let start = usize::try_from(offset).map_or(bytes.len(), |offset| offset.min(bytes.len()));
        Ok(bytes[start..bytes.len().min(start.saturating_add(length))].to_vec())
    }

    fn append(&mut self, file: &str, bytes: &[u8]) -> Result<(), DiskError> {
        self.begin("append", file)?;
        if self.capacity_bytes.is_some_and(|capacity| self.used_bytes() + bytes.len() as u64 > capacity) {
            return Err(DiskError::full(file));
        }
        if !self.names.contains_key(file) {
            self.contents.insert(self.next_content, Content::default());
            self.change_name(NameChange::Set(file.into(), self.next_content));
            self.next_content += 1;
        }
        self.content(file)?.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self, file: &str) -> Result<(), DiskError> {
        self.syncs += 1;
        let off = self.power_off_after.is_some_and(|calls| self.calls >= calls);
        let begun = self.begin("sync", file);
        let content = self.content(file)?;
        content.sync_failed |= begun.is_err() && !off;
        begun?;
        if !content.sync_failed {
            if content.bytes.len() > content.durable_length {
                content.settled_length = content.durable_length;
            }
            content.durable_length = content.bytes.len();
            content.before_cut = None;
        }
        Ok(())
    }

    fn truncate(&mut self, file: &str, length: u64) -> Result<(), DiskError> {
        self.begin("truncate", file)?;
        let content = self.content(file)?;
        let length = usize::try_from(length).map_or(content.bytes.len(), |length| length.min(content.bytes.len()));
        content.cut(length);
        Ok(())
    }

    fn rename(&mut self, source: &str, target: &str) -> Result<(), DiskError> {
        self.begin("rename", source)?;
        let id = *self.names.get(source).ok_or_else(|| DiskError::NotFound { file: source.into() })?;
        self.change_name(NameChange::Set(target.into(), id));
        Ok(())
    }

    fn remove(&mut self, file: &str) -> Result<(), DiskError> {
        self.begin("remove", file)?;
        if !self.names.contains_key(file) {
            return Err(DiskError::NotFound { file: file.into() });
        }
        self.change_name(NameChange::Remove(file.into()));
        Ok(())
    }

    fn sync_folder(&mut self) -> Result<(), DiskError> {
        self.begin("sync", ".")?;
        self.pending_names.clear();
        self.durable_names = self.names.clone();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synced_bytes_stay_and_unsynced_ones_may_go() {
        let (mut lost, mut kept, mut damaged) = (0, 0, 0);
        for seed in 0..200 {
            let mut disk = MemDisk::new();
            disk.append("a", b"durable").unwrap();
            disk.sync("a").unwrap();
            disk.sync_folder().unwrap();
            disk.append("a", &[7; 2000]).unwrap();
            disk.crash(&mut Prng::new(seed));
            let bytes = disk.peek("a").unwrap();
            assert_eq!(&bytes[..7], b"durable");
            match &bytes[7..] {
                [] => lost += 1,
                rest if rest.iter().all(|byte| *byte == 7) => kept += usize::from(rest.len() == 2000),
                _ => damaged += 1,
            }
        }
        assert!(lost > 10 && kept > 10 && damaged > 10, "{lost} {kept} {damaged}");
    }

    #[test]
    fn names_need_the_folder_to_be_synced() {
        let (mut old, mut new) = (0, 0);
        for seed in 0..50 {
            let mut disk = MemDisk::new();
            disk.place("state", b"old");
            disk.append("temporary", b"new").unwrap();
            disk.sync("temporary").unwrap();
            disk.rename("temporary", "state").unwrap();
            disk.crash(&mut Prng::new(seed));
            match disk.peek("state").unwrap() {
                b"old" => old += 1,
                bytes => new += usize::from(bytes == b"new"),
            }
        }
        assert!(old > 0 && new > 0 && old + new == 50, "{old} {new}");
    }

    #[test]
    fn an_unsynced_cut_may_come_back() {
        let mut lengths = Vec::new();
        for seed in 0..20 {
            let mut disk = MemDisk::new();
            disk.place("a", b"whole");
            disk.truncate("a", 2).unwrap();
            disk.crash(&mut Prng::new(seed));
            lengths.push(disk.peek("a").unwrap().len());
        }
        assert!(lengths.contains(&5) && lengths.contains(&2), "{lengths:?}");
    }

    #[test]
    fn injected_faults_hit_their_call() {
        let mut disk = MemDisk::new();
        disk.fail_at(2, Fault::Failed);
        disk.fail_at(4, Fault::Full);
        disk.append("a", b"1").unwrap();
        assert!(matches!(disk.sync("a"), Err(DiskError::Failed { operation: "sync", .. })));
        disk.sync("a").unwrap();
        disk.sync_folder().unwrap();
        assert_eq!(disk.append("a", b"2"), Err(DiskError::full("a")));
        disk.append("a", b"2").unwrap();
        disk.power_off_after(disk.calls());
        assert!(disk.list().is_err() && disk.append("a", b"3").is_err());
        (0..20).for_each(|seed| disk.crash(&mut Prng::new(seed)));
        assert_eq!(disk.peek("a").map(<[u8]>::len).filter(|length| *length > 2), None);
        disk.set_capacity_bytes(Some(3));
        assert!(matches!(disk.append("b", b"four"), Err(DiskError::Full { .. })));
    }

    #[test]
    fn a_sync_after_a_failed_one_keeps_nothing() {
        let mut disk = MemDisk::new();
        disk.append("a", b"1").unwrap();
        disk.sync("a").unwrap();
        disk.sync_folder().unwrap();
        disk.append("a", b"2").unwrap();
        disk.fail_at(disk.calls() + 1, Fault::Failed);
        assert!(disk.sync("a").is_err());
        disk.sync("a").unwrap();
        let gone = (0..20).any(|seed| {
            let mut crashed = disk.clone();
            crashed.crash(&mut Prng::new(seed));
            crashed.peek("a") == Some(b"1")
        });
        assert!(gone);
    }
}
