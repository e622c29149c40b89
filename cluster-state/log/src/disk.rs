//! The disk as eight calls over named files in one folder, so that every fault of a disk can be injected.
//!
//! The rules that every implementation keeps, and that its callers count on:
//! - Bytes survive a crash once `sync` of their file has returned; before that any part of them may be lost or torn.
//! - Names (new, renamed, removed) survive a crash once `sync_folder` has returned.
//! - After an [`DiskError::Failed`] nothing more is known: no call is repeated, the process ends.
//! - An `append` that finds no room, or no descriptor, leaves the file as it was ([`DiskError::Full`]), so work goes on
//!   later.

use std::cell::RefCell;
use std::rc::Rc;

/// A folder of files.
pub trait Disk {
    /// All files, by name ascending.
    fn list(&mut self) -> Result<Vec<FileStatus>, DiskError>;

    /// Up to `length` bytes of `file` from `offset` on; fewer only at the end of the file.
    fn read(&mut self, file: &str, offset: u64, length: usize) -> Result<Vec<u8>, DiskError>;

    /// Adds `bytes` at the end of `file`, which is created if it does not exist.
    fn append(&mut self, file: &str, bytes: &[u8]) -> Result<(), DiskError>;

    /// Makes all bytes of `file` durable.
    fn sync(&mut self, file: &str) -> Result<(), DiskError>;

    /// Cuts `file` down to `length` bytes. It never grows a file.
    fn truncate(&mut self, file: &str, length: u64) -> Result<(), DiskError>;

    /// Gives `source` the name `target`, replacing what stood there.
    fn rename(&mut self, source: &str, target: &str) -> Result<(), DiskError>;

    /// Removes `file`.
    fn remove(&mut self, file: &str) -> Result<(), DiskError>;

    /// Makes new, changed and removed names durable.
    fn sync_folder(&mut self) -> Result<(), DiskError>;
}

/// A file as `list` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// Its name, without the folder.
    pub name: String,
    /// How long it is.
    pub bytes: u64,
}

/// Why a call to the disk did not do its work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// There is no such file. Nothing was changed.
    #[error("{file} is not there")]
    NotFound {
        /// The file.
        file: String,
    },
    /// There is no room, or the process is short of descriptors or memory. Nothing was changed.
    #[error("no room for {file}: {reason}; free some and it goes on")]
    Full {
        /// The file.
        file: String,
        /// What there is too little of.
        reason: String,
    },
    /// The disk failed, or failed before. What is durable is unknown from here on.
    #[error("cannot {operation} {file}: {reason}")]
    Failed {
        /// The call.
        operation: &'static str,
        /// The file, or the folder.
        file: String,
        /// The words of the system.
        reason: String,
    },
}

impl DiskError {
    /// There is no room left for `file`.
    pub fn full(file: &str) -> Self {
        DiskError::Full { file: file.into(), reason: "the disk is full".into() }
    }
}

/// Passes every call on, for owners and for handles that several parts of a simulation share.
macro_rules! forward {
    (($($generics:tt)*) $type:ty, |$disk:ident| $inner:expr) => {
        impl<$($generics)*> Disk for $type {
            fn list(&mut self) -> Result<Vec<FileStatus>, DiskError> {
                let $disk = self;
                $inner.list()
            }
            fn read(&mut self, file: &str, offset: u64, length: usize) -> Result<Vec<u8>, DiskError> {
                let $disk = self;
                $inner.read(file, offset, length)
            }
            fn append(&mut self, file: &str, bytes: &[u8]) -> Result<(), DiskError> {
                let $disk = self;
                $inner.append(file, bytes)
            }
            fn sync(&mut self, file: &str) -> Result<(), DiskError> {
                let $disk = self;
                $inner.sync(file)
            }
            fn truncate(&mut self, file: &str, length: u64) -> Result<(), DiskError> {
                let $disk = self;
                $inner.truncate(file, length)
            }
            fn rename(&mut self, source: &str, target: &str) -> Result<(), DiskError> {
                let $disk = self;
                $inner.rename(source, target)
            }
            fn remove(&mut self, file: &str) -> Result<(), DiskError> {
                let $disk = self;
                $inner.remove(file)
            }
            fn sync_folder(&mut self) -> Result<(), DiskError> {
                let $disk = self;
                $inner.sync_folder()
            }
        }
    };
}

forward!((D: Disk + ?Sized) &mut D, |disk| (**disk));
forward!((D: Disk + ?Sized) Box<D>, |disk| (**disk));
forward!((D: Disk) Rc<RefCell<D>>, |disk| disk.borrow_mut());
