//! What is named after the folder of a shim: its cgroups, its socket, and the mark of its tasks.

use super::error::{SOCKET_PATH_BYTES_MAX, ShimError};
use std::path::{Path, PathBuf};

/// The pair that every task of this shim has in its environment.
pub(super) fn mark(folder: &Path) -> String {
    format!("OHM_SHIM={}", folder.display())
}

/// The name of the folder, in each cgroup hierarchy, that holds the groups of the shim with state in `folder`.
pub fn cgroup_name(folder: &Path) -> String {
    format!("ohm-{:016x}", ohm_stdx::hash::bytes(folder.as_os_str().as_encoded_bytes()))
}

pub(super) fn socket_path(folder: &Path) -> Result<PathBuf, ShimError> {
    let path = folder.join("shim.sock");
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX { Err(ShimError::PathTooLong { path }) } else { Ok(path) }
}
