//! What the shim remembers: one append-only file of starts and ends for all runs.
//!
//! One file with one sync per turn of the loop, instead of a manifest and an exit record per run: at 2,000 starts per
//! second that is some hundred syncs instead of 4,000 with as many renames, and just as safe, because
//! - the **intent** to start a run is on disk before its process exists, so no crash leads to a second start;
//! - the process behind it is written right after the start but not synced: a process outlives neither the loss of
//!   power nor a crash of the kernel, and every lesser crash keeps what was written;
//! - an **end** is on disk before the agent hears of it.
//!
//! Every record is a checksummed frame, so a torn tail is found and cut. What cannot be read (damage, another version)
//! is put aside as `journal.damaged` and said as a warning; the processes it spoke of are found by their environment. A
//! file is made anew, by rename, at every start and when it has grown, with what still matters. After a failed write or
//! sync the file is never trusted again: the next commit makes a new one.

use super::protocol::EndedRun;
use crate::processes::Identity;
use ohm_model::RunRef;
use ohm_runtime::data_dir;
use ohm_stdx::codec::{self, DecodeError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const FORMAT: u8 = 1;
/// A file below this is not made anew.
const REWRITE_BYTES_MIN: u64 = 4 << 20;

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// What follows happened under this boot.
    Boot(String),
    /// The run is about to be started; from now on it may have processes.
    Intent(RunRef),
    /// The run's first process.
    Started(RunRef, Identity),
    /// The run has no processes.
    Ended(EndedRun),
    /// The end is known elsewhere.
    Forgotten(RunRef),
    /// Nothing came of the intent: there was no process, and the run may be started later.
    Withdrawn(RunRef),
}

/// What the journal of an earlier shim says.
#[derive(Debug, Default)]
pub struct Replayed {
    /// Runs that were started, or nearly, and of which no end is known.
    pub open: BTreeMap<RunRef, Option<Identity>>,
    /// Ends not yet forgotten.
    pub ended: BTreeMap<RunRef, EndedRun>,
    /// The boot it was written under.
    pub boot: String,
    /// What was wrong with it.
    pub warning: Option<String>,
}

impl Record {
    /// Appends the record as it stands in a journal.
    pub fn encode(&self, out: &mut Vec<u8>) {
        codec::encode_frame(FORMAT, self, out);
    }
}

impl Replayed {
    /// What the bytes of a journal say, up to a torn tail, or to damage: then there is a warning.
    pub fn of(bytes: &[u8]) -> Self {
        let mut replayed = Replayed::default();
        let mut at = 0;
        while at < bytes.len() {
            match codec::decode_frame::<Record>(FORMAT, &bytes[at..]) {
                Ok((record, taken)) => {
                    replayed.apply(record);
                    at += taken;
                }
                // The write that was under way when its writer died; nothing hung on it yet.
                Err(DecodeError::Short { .. }) => break,
                Err(error) => {
                    replayed.warning = Some(format!(
                        "the journal could not be read from byte {at} of {} on ({error}); it is kept as \
                         journal.damaged, and runs that only the rest spoke of are reported as unknown",
                        bytes.len()
                    ));
                    break;
                }
            }
        }
        replayed
    }

    fn apply(&mut self, record: Record) {
        match record {
            Record::Boot(boot) => self.boot = boot,
            Record::Intent(run) => drop(self.open.insert(run, None)),
            Record::Started(run, identity) => drop(self.open.insert(run, Some(identity))),
            Record::Ended(ended) => {
                self.open.remove(&ended.run);
                self.ended.insert(ended.run, ended);
            }
            Record::Forgotten(run) => drop(self.ended.remove(&run)),
            Record::Withdrawn(run) => drop(self.open.remove(&run)),
        }
    }
}

/// Reads the journal in `folder`. A missing one is an empty one; a damaged one is kept aside.
pub(super) fn replay(folder: &Path) -> io::Result<Replayed> {
    let bytes = match fs::read(folder.join("journal")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Replayed::default()),
        bytes => bytes?,
    };
    let replayed = Replayed::of(&bytes);
    if replayed.warning.is_some() {
        fs::copy(folder.join("journal"), folder.join("journal.damaged"))?;
    }
    Ok(replayed)
}

/// The journal of this shim.
#[derive(Debug)]
pub(super) struct Journal {
    folder: PathBuf,
    boot: String,
    file: Option<File>,
    buffer: Vec<u8>,
    needs_sync: bool,
    bytes: u64,
    bytes_rewritten: u64,
}

/// What a rewritten journal must say.
pub(super) trait Contents {
    /// Runs that may have processes, and which.
    fn open(&self) -> Vec<(RunRef, Option<Identity>)>;
    /// Ends not yet forgotten.
    fn ended(&self) -> &BTreeMap<RunRef, EndedRun>;
}

impl Journal {
    /// A journal that makes its file with the first commit.
    pub(super) fn new(folder: &Path, boot: String) -> Self {
        Journal {
            folder: folder.to_path_buf(),
            boot,
            file: None,
            buffer: Vec::new(),
            needs_sync: false,
            bytes: 0,
            bytes_rewritten: 0,
        }
    }

    /// Adds `record` to what the next commit writes.
    pub(super) fn push(&mut self, record: &Record) {
        self.needs_sync |= matches!(record, Record::Intent(_) | Record::Ended(_));
        record.encode(&mut self.buffer);
    }

    /// Writes what was pushed, and syncs it if an intent or an end is among it. `contents` must include what was
    /// pushed: it is what a new file gets when the old one failed or has grown.
    pub(super) fn commit(&mut self, contents: &impl Contents) -> io::Result<()> {
        if self.buffer.is_empty() && self.file.is_some() {
            return Ok(());
        }
        let has_grown = self.bytes > REWRITE_BYTES_MIN && self.bytes > 2 * self.bytes_rewritten;
        let done = match self.file.take() {
            Some(mut file) if !has_grown => self.append(&mut file).map(|()| file),
            _ => self.rewrite(contents),
        };
        // A failed file stays away, so that the next commit makes a new one with all there is to say.
        self.file = Some(done?);
        self.buffer.clear();
        self.needs_sync = false;
        Ok(())
    }

    fn append(&mut self, file: &mut File) -> io::Result<()> {
        file.write_all(&self.buffer)?;
        self.bytes += self.buffer.len() as u64;
        if self.needs_sync { file.sync_data() } else { Ok(()) }
    }

    fn rewrite(&mut self, contents: &impl Contents) -> io::Result<File> {
        let mut bytes = Vec::new();
        Record::Boot(self.boot.clone()).encode(&mut bytes);
        for (run, identity) in contents.open() {
            let record = identity.map_or(Record::Intent(run), |identity| Record::Started(run, identity));
            record.encode(&mut bytes);
        }
        for ended in contents.ended().values() {
            Record::Ended(ended.clone()).encode(&mut bytes);
        }
        let file = data_dir::replace(&self.folder.join("journal"), 0o666, &bytes)?;
        self.bytes = bytes.len() as u64;
        self.bytes_rewritten = self.bytes;
        Ok(file)
    }
}

/// The contents of a shim that has no runs yet: what its predecessor left, all of it ended.
pub(super) struct OnlyEnded<'a>(pub(super) &'a BTreeMap<RunRef, EndedRun>);

impl Contents for OnlyEnded<'_> {
    fn open(&self) -> Vec<(RunRef, Option<Identity>)> {
        Vec::new()
    }

    fn ended(&self) -> &BTreeMap<RunRef, EndedRun> {
        self.0
    }
}

/// Runs among `forgotten` of which an end is known.
pub(super) fn forgettable(forgotten: Vec<RunRef>, ended: &BTreeMap<RunRef, EndedRun>) -> BTreeSet<RunRef> {
    forgotten.into_iter().filter(|run| ended.contains_key(run)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::protocol::{Cause, End};
    use super::*;
    use crate::cgroup::MemoryKill;
    use ohm_model::JobId;

    fn run(task: u32) -> RunRef {
        RunRef::new(JobId(7), 0, task, 1)
    }

    fn ended(task: u32) -> EndedRun {
        EndedRun {
            run: run(task),
            end: End::Code(3),
            memory_kill: MemoryKill::None,
            at_boottime_ms: 5,
            cause: Cause::Own,
        }
    }

    const IDENTITY: Identity = Identity { pid: 40, start_time_ticks: 99 };

    fn written() -> (tempfile::TempDir, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::new(folder.path(), "boot".into());
        let ends = BTreeMap::from([(run(0), ended(0))]);
        journal.commit(&OnlyEnded(&ends)).unwrap();
        for record in [
            Record::Intent(run(1)),
            Record::Intent(run(2)),
            Record::Started(run(2), IDENTITY),
            Record::Intent(run(3)),
            Record::Ended(ended(3)),
            Record::Forgotten(run(0)),
            Record::Intent(run(4)),
            Record::Withdrawn(run(4)),
        ] {
            journal.push(&record);
        }
        journal.commit(&OnlyEnded(&ends)).unwrap();
        let bytes = fs::read(folder.path().join("journal")).unwrap();
        (folder, bytes)
    }

    #[test]
    fn a_later_shim_reads_what_was_committed() {
        let (folder, _) = written();
        let replayed = replay(folder.path()).unwrap();
        assert_eq!(replayed.open, BTreeMap::from([(run(1), None), (run(2), Some(IDENTITY))]));
        assert_eq!(replayed.ended, BTreeMap::from([(run(3), ended(3))]));
        assert_eq!((replayed.boot.as_str(), replayed.warning), ("boot", None));
    }

    #[test]
    fn a_torn_tail_is_cut_and_damage_is_put_aside() {
        let (folder, bytes) = written();
        let path = folder.path().join("journal");
        for end in 0..bytes.len() {
            fs::write(&path, &bytes[..end]).unwrap();
            assert_eq!(replay(folder.path()).unwrap().warning, None, "cut at {end}");
        }
        let mut damaged = bytes.clone();
        *damaged.last_mut().unwrap() ^= 1;
        fs::write(&path, &damaged).unwrap();
        let replayed = replay(folder.path()).unwrap();
        assert!(replayed.warning.unwrap().contains("journal.damaged"));
        assert_eq!(replayed.ended, BTreeMap::from([(run(3), ended(3))]), "what comes before is kept");
        assert!(replayed.open.contains_key(&run(4)), "the damaged record itself is not believed");
        assert_eq!(fs::read(folder.path().join("journal.damaged")).unwrap(), damaged);
    }

    #[test]
    fn a_failed_file_is_never_trusted_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::new(folder.path(), "boot".into());
        let none = BTreeMap::new();
        journal.commit(&OnlyEnded(&none)).unwrap();
        // A read-only handle stands for a disk that refuses.
        journal.file = Some(File::open(folder.path().join("journal")).unwrap());
        journal.push(&Record::Ended(ended(1)));
        let ends = BTreeMap::from([(run(1), ended(1))]);
        assert!(journal.commit(&OnlyEnded(&ends)).is_err());
        journal.commit(&OnlyEnded(&ends)).unwrap();
        assert_eq!(replay(folder.path()).unwrap().ended, ends);
    }
}
