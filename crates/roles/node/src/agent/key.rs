//! Who a node is: a random number in its data folder, drawn once, and how often its machine was booted since. Without
//! them a restarted agent would be a stranger that took the name of a living node, and nobody could tell what a machine
//! said before it was booted from what it says now.

use super::AgentError;
use ohm_runtime::{data_dir, dice};
use ohm_stdx::hash;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const FILE_NAME: &str = "node-key";

/// Who a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeIdentity {
    /// Drawn once.
    pub(crate) key: u64,
    /// Which boot this is, from 1.
    pub(crate) boot: u64,
}

/// The identity of a machine: as [`load_or_make`], but its boots also differ from those that a copy of the folder
/// counts. The copy is on another file or, on another machine, in another boot; what both count is in the upper half.
///
/// # Errors
/// As there.
pub(super) fn of_machine(folder: &Path, boot_id: u64) -> Result<NodeIdentity, AgentError> {
    let place = fs::metadata(folder).map_err(AgentError::file(folder))?;
    let life = hash::chain(hash::chain(boot_id, place.dev()), place.ino());
    let NodeIdentity { key, boot } = load_or_make(folder, life)?;
    Ok(NodeIdentity { key, boot: boot << 32 | life & u64::from(u32::MAX) })
}

/// The identity in `folder` during the boot called `boot_id`; made, and on disk when this returns, if there is none.
///
/// # Errors
/// [`AgentError::Key`] when the file holds something else: a new key would make the cell refuse the node, or forget
/// what runs on it, so a person decides. [`AgentError::File`] when it can't be read or written.
pub(crate) fn load_or_make(folder: &Path, boot_id: u64) -> Result<NodeIdentity, AgentError> {
    let path = folder.join(FILE_NAME);
    let known = match fs::read_to_string(&path) {
        Ok(text) => Some(parse(&text).ok_or_else(|| AgentError::Key { path: path.clone() })?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(AgentError::file(&path)(error)),
    };
    let identity = match known {
        Some((identity, of)) if of == boot_id => return Ok(identity),
        Some((NodeIdentity { key, boot }, _)) => NodeIdentity { key, boot: boot.saturating_add(1) },
        None => NodeIdentity { key: dice::random_u64(), boot: 1 },
    };
    let text = format!("{:016x} {} {boot_id:016x}\n", identity.key, identity.boot);
    data_dir::replace(&path, 0o600, text.as_bytes()).map_err(AgentError::file(&path))?;
    Ok(identity)
}

fn parse(text: &str) -> Option<(NodeIdentity, u64)> {
    let [key, boot, boot_id] = text.split_whitespace().collect::<Vec<_>>().try_into().ok()?;
    let hex = |word| u64::from_str_radix(word, 16).ok();
    Some((NodeIdentity { key: hex(key)?, boot: boot.parse().ok()? }, hex(boot_id)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_counts_other_boots_than_the_original() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let original = of_machine(first.path(), 7).unwrap();
        assert_eq!(of_machine(first.path(), 7).unwrap(), original);
        fs::copy(first.path().join(FILE_NAME), second.path().join(FILE_NAME)).unwrap();
        let copy = of_machine(second.path(), 7).unwrap();
        assert!(copy.key == original.key && copy.boot > original.boot);
        let rebooted = of_machine(first.path(), 8).unwrap();
        assert!(rebooted.boot > original.boot && rebooted.boot != copy.boot);
    }

    #[test]
    fn a_key_is_drawn_once_boots_are_counted_and_damage_is_not_papered_over() {
        let folder = tempfile::tempdir().unwrap();
        let load = |boot_id| load_or_make(folder.path(), boot_id);
        let first = load(7).unwrap();
        assert_eq!((first.boot, load(7).unwrap()), (1, first));
        assert_eq!(load(3).unwrap(), NodeIdentity { boot: 2, ..first });
        assert_eq!(load(7).unwrap(), NodeIdentity { boot: 3, ..first });
        fs::write(folder.path().join(FILE_NAME), "what?").unwrap();
        assert!(matches!(load(7), Err(AgentError::Key { .. })));
    }
}
