//! Who a node is: a random number in its data folder, drawn once. Without it a restarted agent would be a stranger that
//! took the name of a living node.

use super::AgentError;
use ohm_runtime::{data_dir, dice};
use std::fs;
use std::io;
use std::path::Path;

const FILE_NAME: &str = "node-key";

/// The key in `folder`; made, and on disk when this returns, if there is none.
///
/// # Errors
/// [`AgentError::Key`] when the file holds something else: a new key would make the cell refuse the node, or forget
/// what runs on it, so a person decides. [`AgentError::File`] when it can't be read or written.
pub(crate) fn load_or_make(folder: &Path) -> Result<u64, AgentError> {
    let path = folder.join(FILE_NAME);
    match fs::read_to_string(&path) {
        Ok(text) => u64::from_str_radix(text.trim(), 16).map_err(|_| AgentError::Key { path }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = dice::random_u64();
            data_dir::replace(&path, 0o600, format!("{key:016x}\n").as_bytes()).map_err(AgentError::file(&path))?;
            Ok(key)
        }
        Err(error) => Err(AgentError::file(&path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_drawn_once_and_damage_is_not_papered_over() {
        let folder = tempfile::tempdir().unwrap();
        let key = load_or_make(folder.path()).unwrap();
        assert_eq!(load_or_make(folder.path()).unwrap(), key);
        fs::write(folder.path().join(FILE_NAME), "what?").unwrap();
        assert!(matches!(load_or_make(folder.path()), Err(AgentError::Key { .. })));
    }
}
