//! The real disk: files in a folder. This is the one place of the crate that touches the operating system.

use ohm_log::{Disk, DiskError, FileStatus};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The machine, or this process, has as many files open as it may; the same numbers on every Unix.
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// A folder on a real disk. Only one process at a time may write to it.
#[derive(Debug)]
pub struct FileDisk {
    folder: PathBuf,
    /// The folder itself, opened: it is synced, and it carries the lock.
    handle: File,
    writable: bool,
    open: BTreeMap<String, Grown<File>>,
    failed: bool,
}

/// A file that grows at its end.
#[derive(Debug)]
struct Grown<F> {
    file: F,
    length: u64,
}

/// What growing needs of a file; tests put a full disk behind it.
trait Tail: Write {
    fn cut(&self, length: u64) -> io::Result<()>;
}

impl Tail for File {
    fn cut(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

impl<F: Tail> Grown<F> {
    /// Writes all of `bytes`, or cuts off what was written of them.
    fn grow(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.file.write_all(bytes) {
            Ok(()) => {
                self.length += bytes.len() as u64;
                Ok(())
            }
            Err(error) if shortage(&error).is_some() => match self.file.cut(self.length) {
                Ok(()) => Err(error),
                Err(cut) => Err(io::Error::other(format!("{error}; the part written could not be cut off: {cut}"))),
            },
            Err(error) => Err(error),
        }
    }
}

impl FileDisk {
    /// Opens `folder` for writing, makes it if it is not there, and locks it against other processes.
    pub fn open(folder: &Path) -> Result<Self, DiskError> {
        let failed = |operation| move |error| failure(operation, folder, &error);
        if !folder.exists() {
            let missing: Vec<&Path> = folder.ancestors().take_while(|ancestor| !ancestor.exists()).collect();
            fs::create_dir_all(folder).map_err(failed("create"))?;
            for made in missing {
                let parent = made.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
                File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed("sync the folder of"))?;
            }
        }
        let disk = Self::read_only(folder)?;
        disk.handle.try_lock().map_err(|error| match error {
            fs::TryLockError::WouldBlock => {
                failure("lock", folder, &io::Error::other("another process has it open; stop that one first"))
            }
            fs::TryLockError::Error(error) => failure("lock", folder, &error),
        })?;
        Ok(FileDisk { writable: true, ..disk })
    }

    /// Opens `folder` for reading: nothing is locked, and every call that writes fails.
    pub fn read_only(folder: &Path) -> Result<Self, DiskError> {
        let handle = File::open(folder).map_err(|error| failure("open", folder, &error))?;
        let is_folder = handle.metadata().map_err(|error| failure("open", folder, &error))?.is_dir();
        if !is_folder {
            return Err(failure("open", folder, &io::Error::from(ErrorKind::NotADirectory)));
        }
        Ok(FileDisk { folder: folder.into(), handle, writable: false, open: BTreeMap::new(), failed: false })
    }

    fn path(&self, file: &str) -> Result<PathBuf, DiskError> {
        let plain = !file.is_empty() && !file.contains(['/', '\\', '\0']) && file != "." && file != "..";
        match plain {
            true => Ok(self.folder.join(file)),
            false => Err(failure("use", Path::new(file), &io::Error::other("a plain file name is needed"))),
        }
    }

    /// Refuses to go on after a failure: what is durable is unknown, and a second attempt could hide it.
    fn begin(&self, operation: &'static str, file: &str) -> Result<PathBuf, DiskError> {
        let path = self.path(file)?;
        let refuse = |reason: &str| Err(failure(operation, &path, &io::Error::other(reason)));
        if self.failed {
            return refuse("the disk failed before; start again");
        }
        if !self.writable {
            return refuse("the folder is open for reading only");
        }
        Ok(path)
    }

    /// Sorts errors into those that change nothing and those that end it.
    fn end<T>(&mut self, operation: &'static str, file: &str, result: io::Result<T>) -> Result<T, DiskError> {
        result.map_err(|error| match (error.kind(), shortage(&error)) {
            (ErrorKind::NotFound, _) => DiskError::NotFound { file: file.into() },
            (_, Some(reason)) if operation == "append" => DiskError::Full { file: file.into(), reason },
            _ => {
                self.failed = true;
                failure(operation, &self.folder.join(file), &error)
            }
        })
    }

    /// Why nothing was read. That changes nothing: the next call may go through.
    fn unread(&self, operation: &'static str, file: &str, error: &io::Error) -> DiskError {
        match (error.kind(), shortage(error)) {
            (ErrorKind::NotFound, _) => DiskError::NotFound { file: file.into() },
            (_, Some(reason)) => DiskError::Full { file: file.into(), reason },
            _ => failure(operation, &self.folder.join(file), error),
        }
    }

    fn grown(&mut self, file: &str, path: &Path, create: bool) -> io::Result<&mut Grown<File>> {
        if !self.open.contains_key(file) {
            let handle = OpenOptions::new().append(true).create(create).open(path)?;
            let length = handle.metadata()?.len();
            self.open.insert(file.into(), Grown { file: handle, length });
        }
        self.open.get_mut(file).ok_or_else(|| io::Error::from(ErrorKind::NotFound))
    }

    fn read_at(path: &Path, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        let left = file.metadata()?.len().saturating_sub(offset);
        let mut bytes = Vec::with_capacity(usize::try_from(left).unwrap_or(usize::MAX).min(length));
        file.take(length as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn statuses(folder: &Path) -> io::Result<Vec<FileStatus>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_file() {
                let name = entry.file_name().to_string_lossy().into_owned();
                files.push(FileStatus { name, bytes: metadata.len() });
            }
        }
        files.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(files)
    }
}

impl Disk for FileDisk {
    fn list(&mut self) -> Result<Vec<FileStatus>, DiskError> {
        Self::statuses(&self.folder).map_err(|error| self.unread("list", "", &error))
    }

    fn read(&mut self, file: &str, offset: u64, length: usize) -> Result<Vec<u8>, DiskError> {
        let path = self.path(file)?;
        Self::read_at(&path, offset, length).map_err(|error| self.unread("read", file, &error))
    }

    fn append(&mut self, file: &str, bytes: &[u8]) -> Result<(), DiskError> {
        let path = self.begin("append", file)?;
        let grown = self.grown(file, &path, true).and_then(|grown| grown.grow(bytes));
        self.end("append", file, grown)
    }

    fn sync(&mut self, file: &str) -> Result<(), DiskError> {
        let path = self.begin("sync", file)?;
        let synced = self.grown(file, &path, false).and_then(|grown| grown.file.sync_data());
        self.end("sync", file, synced)
    }

    fn truncate(&mut self, file: &str, length: u64) -> Result<(), DiskError> {
        let path = self.begin("truncate", file)?;
        let cut = self.grown(file, &path, false).and_then(|grown| {
            grown.length = grown.length.min(length);
            grown.file.set_len(grown.length)
        });
        self.end("truncate", file, cut)
    }

    fn rename(&mut self, source: &str, target: &str) -> Result<(), DiskError> {
        let (from, to) = (self.begin("rename", source)?, self.begin("rename", target)?);
        self.open.remove(source);
        self.open.remove(target);
        self.end("rename", source, fs::rename(from, to))
    }

    fn remove(&mut self, file: &str) -> Result<(), DiskError> {
        let path = self.begin("remove", file)?;
        self.open.remove(file);
        self.end("remove", file, fs::remove_file(path))
    }

    fn sync_folder(&mut self) -> Result<(), DiskError> {
        self.begin("sync", "folder")?;
        let synced = self.handle.sync_all();
        self.end("sync the names in", "", synced)
    }
}

/// What there is too little of, if that is all that is wrong: room, descriptors, memory. It passes.
fn shortage(error: &io::Error) -> Option<String> {
    match (error.kind(), error.raw_os_error()) {
        (ErrorKind::StorageFull | ErrorKind::QuotaExceeded, _) => Some("the disk is full".into()),
        (ErrorKind::OutOfMemory, _) | (_, Some(ENFILE | EMFILE)) => Some(error.to_string()),
        _ => None,
    }
}

fn failure(operation: &'static str, path: &Path, error: &io::Error) -> DiskError {
    DiskError::Failed { operation, file: path.display().to_string(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// A file on a disk with room for ten bytes.
    #[derive(Default)]
    struct Cramped {
        bytes: RefCell<Vec<u8>>,
        cut_fails: bool,
    }

    impl Write for Cramped {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let room = 10 - self.bytes.borrow().len();
            match room.min(bytes.len()).min(3) {
                0 => Err(ErrorKind::StorageFull.into()),
                taken => {
                    self.bytes.borrow_mut().extend_from_slice(&bytes[..taken]);
                    Ok(taken)
                }
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Tail for Cramped {
        fn cut(&self, length: u64) -> io::Result<()> {
            match self.cut_fails {
                true => Err(ErrorKind::ReadOnlyFilesystem.into()),
                false => {
                    self.bytes.borrow_mut().truncate(length as usize);
                    Ok(())
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_cut_off_again() {
        let mut grown = Grown { file: Cramped::default(), length: 0 };
        grown.grow(b"1234567").unwrap();
        assert!(shortage(&grown.grow(b"abcdefg").unwrap_err()).is_some());
        assert_eq!(*grown.file.bytes.borrow(), b"1234567");
        grown.grow(b"890").unwrap();
        assert_eq!(*grown.file.bytes.borrow(), b"1234567890");
        grown.length = 7;
        grown.file.cut_fails = true;
        assert_eq!(shortage(&grown.grow(b"x").unwrap_err()), None, "a part that stays is a failure, not a full disk");
    }

    #[test]
    fn too_few_descriptors_end_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = FileDisk::open(folder.path()).unwrap();
        for number in [ENFILE, EMFILE] {
            let short = disk.end::<()>("append", "a", Err(io::Error::from_raw_os_error(number)));
            assert!(matches!(short, Err(DiskError::Full { .. })), "{short:?}");
        }
        disk.append("a", b"x").unwrap();
        let failed = disk.end::<()>("append", "a", Err(io::Error::from_raw_os_error(5)));
        assert!(matches!(failed, Err(DiskError::Failed { .. })), "{failed:?}");
        assert!(disk.append("a", b"x").is_err(), "after a failure nothing is tried again");
    }

    #[test]
    fn the_calls_do_what_they_say() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new").join("data");
        let mut disk = FileDisk::open(&path).unwrap();
        disk.append("a", b"hello").unwrap();
        disk.append("a", b" world").unwrap();
        disk.sync("a").unwrap();
        disk.truncate("a", 7).unwrap();
        disk.append("a", b"!").unwrap();
        assert_eq!(disk.read("a", 4, 100).unwrap(), b"o w!");
        disk.rename("a", "b").unwrap();
        disk.append("a", b"").unwrap();
        disk.sync_folder().unwrap();
        let status = |name: &str, bytes| FileStatus { name: name.into(), bytes };
        assert_eq!(disk.list().unwrap(), [status("a", 0), status("b", 8)]);
        disk.remove("a").unwrap();
        assert_eq!(disk.remove("a"), Err(DiskError::NotFound { file: "a".into() }));
        assert_eq!(disk.read("a", 0, 1), Err(DiskError::NotFound { file: "a".into() }));
        assert!(matches!(disk.append("../b", b"x"), Err(DiskError::Failed { .. })));
    }

    #[test]
    fn one_process_writes_and_others_may_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = FileDisk::open(folder.path()).unwrap();
        disk.append("a", b"x").unwrap();
        let second = FileDisk::open(folder.path()).unwrap_err();
        assert!(second.to_string().contains("another process"), "{second}");
        let mut reader = FileDisk::read_only(folder.path()).unwrap();
        assert_eq!(reader.read("a", 0, 9).unwrap(), b"x");
        assert!(reader.append("a", b"y").is_err() && reader.remove("a").is_err());
        drop(disk);
        FileDisk::open(folder.path()).unwrap();
        assert!(FileDisk::read_only(&folder.path().join("a")).is_err(), "a file is no folder");
    }
}
