//! The data folder of a process: its own, private, and used by one process at a time.

use crate::dice;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The file in the state folder of a process with simulated nodes that names them, one a line.
pub const FLEET_NAMES_FILE: &str = "fleet-nodes";
/// The file that says how often the cell was restored from a backup.
const INCARNATION: &str = "incarnation";

/// Why a data folder can't be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// It can't be made, read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another process has it.
    #[error("{} is in use by another process; stop that one first, or choose another --data-dir", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The token file is not one.
    #[error("{} holds no token; remove it, and a new one is made at the next start", path.display())]
    Token {
        /// The file.
        path: PathBuf,
    },
}

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> DataDirError + '_ {
    move |source| DataDirError::Io { path: path.to_path_buf(), source }
}

/// Makes `path` with its parents, readable for its owner only.
pub fn create(path: &Path) -> Result<(), DataDirError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(at(path))
}

/// Holds the folder for this process until dropped.
#[derive(Debug)]
pub struct FolderLock {
    _lock: Flock<File>,
}

/// Makes the folder if needed and takes it for this process.
pub fn lock(path: &Path) -> Result<FolderLock, DataDirError> {
    create(path)?;
    let file_path = path.join("lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&file_path);
    let file = file.map_err(at(&file_path))?;
    let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock);
    lock.map(|lock| FolderLock { _lock: lock }).map_err(|_| DataDirError::InUse { path: path.to_path_buf() })
}

/// The token that clients of this cell must show; made on first use.
pub fn token(folder: &Path) -> Result<String, DataDirError> {
    create(folder)?;
    let path = folder.join("token");
    match read_token(&path) {
        Err(DataDirError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => make_token(&path),
        found => found,
    }
}

/// Reads a token file.
pub fn read_token(path: &Path) -> Result<String, DataDirError> {
    let mut text = String::new();
    File::open(path).and_then(|mut file| file.read_to_string(&mut text)).map_err(at(path))?;
    let token = text.trim();
    if token.len() < 16 { Err(DataDirError::Token { path: path.to_path_buf() }) } else { Ok(token.to_string()) }
}

/// How often the cell was restored from a backup, counted so that it only grows; 1 if it never was.
pub fn cell_incarnation(folder: &Path) -> u64 {
    let text = std::fs::read_to_string(folder.join(INCARNATION)).unwrap_or_default();
    text.trim().parse().unwrap_or(1)
}

/// Notes that the cell was restored.
pub fn set_cell_incarnation(folder: &Path, incarnation: u64) -> Result<(), DataDirError> {
    let path = folder.join(INCARNATION);
    replace(&path, 0o666, format!("{incarnation}\n").as_bytes()).map(drop).map_err(at(&path))
}

/// Puts `bytes` under `path`, whole and on disk, or leaves what was there: a crash shows the one or the other. The file
/// stays open at its end; `mode` is cut by the umask.
///
/// # Errors
/// When the disk does not take it.
pub fn replace(path: &Path, mode: u32, bytes: &[u8]) -> std::io::Result<File> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    // One that a crash left behind may have another mode.
    match std::fs::remove_file(&draft) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().create_new(true).write(true).mode(mode).open(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&draft, path)?;
    File::open(path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(file)
}

/// A token is there whole or not at all, whatever happens meanwhile: an empty file would have to be removed by hand.
fn make_token(path: &Path) -> Result<String, DataDirError> {
    let token = format!("{:016x}{:016x}", dice::random_u64(), dice::random_u64());
    let draft = path.with_extension(format!("{:016x}", dice::random_u64()));
    let written = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&draft).and_then(|mut file| {
        file.set_permissions(Permissions::from_mode(0o600))?;
        writeln!(file, "{token}")?;
        file.sync_all()
    });
    let made = written.and_then(|()| std::fs::hard_link(&draft, path));
    let _ = std::fs::remove_file(&draft);
    match made {
        Ok(()) => Ok(token),
        // Another process of this cell was faster.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => read_token(path),
        Err(error) => Err(at(path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_taken_once_and_its_token_stays() {
        let folder = std::env::temp_dir().join(format!("ohm-data-dir-{}", dice::random_u64()));
        let held = lock(&folder).unwrap();
        assert!(matches!(lock(&folder), Err(DataDirError::InUse { .. })));
        let made = token(&folder).unwrap();
        assert_eq!(token(&folder).unwrap(), made);
        drop(held);
        assert!(lock(&folder).is_ok());
        std::fs::write(folder.join("token"), "short").unwrap();
        assert!(matches!(token(&folder), Err(DataDirError::Token { .. })));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
