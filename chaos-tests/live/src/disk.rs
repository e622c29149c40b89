//! A small file system of its own under the server's data.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Mounted until it goes.
pub(crate) struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// Mounts a tmpfs of this size.
    ///
    /// # Errors
    /// Why the machine does not let us.
    pub(crate) fn mount(folder: &Path, bytes: u64) -> Result<Self, String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let options = format!("size={bytes},mode=0700");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "ohm-chaos"]).arg(folder).output();
        match mounted {
            Ok(output) if output.status.success() => Ok(SmallDisk { folder: folder.to_path_buf() }),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_string()),
            Err(error) => Err(format!("mount: {error}")),
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }

    /// Writes until not one byte more goes in.
    pub(crate) fn fill(&self) -> io::Result<()> {
        let mut file = File::options().create(true).append(true).open(self.ballast())?;
        for size in [1 << 20, 4096, 1] {
            let chunk = vec![0; size];
            while file.write_all(&chunk).is_ok() {}
        }
        Ok(())
    }

    /// Gives the room back; nothing where it was never taken.
    pub(crate) fn make_room(&self) {
        let _ = fs::remove_file(self.ballast());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: whoever still has a file open keeps that, and nothing else.
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}
