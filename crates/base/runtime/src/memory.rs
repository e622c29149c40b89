//! How the C library gives memory back to the system.
//!
//! What is as long as this or longer has pages of its own, which go back when it is freed. Left to itself glibc takes
//! the longest piece that was ever freed for that bound, up to 32 MiB: after the first long body all others, and the
//! entries they become, lie among what stays, and nothing goes back. Only the environment a program starts with can say
//! that without unsafe code.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What glibc reads its settings from.
const VARIABLE: &str = "GLIBC_TUNABLES";
const SETTING: &str = "glibc.malloc.mmap_threshold";
/// Where glibc begins by itself.
const BYTES: usize = 128 << 10;
/// This program, whatever became of its file.
const SELF: &str = "/proc/self/exe";

/// Starts this program anew, as the same process, with the bound fixed; returns where that was done already, or whoever
/// started it says another bound. To be called before anything else is done.
pub fn give_back() {
    let Some(settings) = settings(env::var_os(VARIABLE).as_deref()) else { return };
    let mut words = env::args_os();
    let name = words.next().unwrap_or_else(|| "ohm".into());
    // By its name, so that it is still called by that.
    let program = env::current_exe().ok().filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from(SELF));
    let error = Command::new(program).arg0(name).args(words).env(VARIABLE, settings).exec();
    eprintln!(
        "warning: memory will be kept longer than needed: {} can't be started again: {error}",
        Path::new(SELF).display()
    );
}

/// The settings with the bound; none where they have one.
fn settings(given: Option<&OsStr>) -> Option<OsString> {
    let given = given.unwrap_or_default();
    if given.to_string_lossy().contains(SETTING) {
        return None;
    }
    let mut settings = given.to_os_string();
    if !settings.is_empty() {
        settings.push(":");
    }
    settings.push(format!("{SETTING}={BYTES}"));
    Some(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_set_stays() {
        let set = |given: &str| settings(Some(OsStr::new(given))).map(|set| set.into_string().unwrap());
        let ours = "glibc.malloc.mmap_threshold=131072";
        assert_eq!(settings(None).unwrap(), OsStr::new(ours));
        assert_eq!(set("").unwrap(), ours);
        assert_eq!(set("glibc.malloc.check=1").unwrap(), format!("glibc.malloc.check=1:{ours}"));
        assert_eq!(set(ours), None, "once is enough");
        assert_eq!(set("glibc.malloc.mmap_threshold=4096"), None);
    }
}
