//! How a shim comes up: one per folder, with nothing left of its predecessor.

use super::beside::{Starter, run_beside};
use super::fence::Fence;
use super::folder::{cgroup_name, socket_path};
use super::ground::Ground;
use super::guard::{self, GuardStarter};
use super::journal::{self, Journal, OnlyEnded};
use super::lease::LeaseReader;
use super::oom::KernelKills;
use super::protocol::ShimInfo;
use super::runs::Runs;
use super::{PROTOCOL_VERSION, ShimError, ShimOptions, leftovers, serve};
use crate::cgroup::Cgroups;
use crate::clock;
use crate::processes::Processes;
use nix::fcntl::{Flock, FlockArg};
use ohm_runtime::data_dir;
use ohm_runtime::recorder::{Happened, Recorder};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// `ohm shim`: runs what `arguments` (those after `shim`) ask for. They are made by [`ShimOptions::arguments`], or by
/// the shim itself for its guard; people have no reason to type them.
pub fn shim_command(arguments: impl IntoIterator<Item = OsString>) -> Result<(), ShimError> {
    let mut options = ShimOptions::new("");
    let (mut is_guard, mut in_namespace) = (false, false);
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let mut value = |name: &str| arguments.next().ok_or(ShimError::Arguments(format!("{name} needs a value")));
        match argument.to_str() {
            Some("--dir") => options.folder = value("--dir")?.into(),
            Some("--fence-lead-ms") => {
                let text = value("--fence-lead-ms")?;
                let number = text.to_str().and_then(|text| text.parse().ok());
                options.fence_lead_ms = number
                    .ok_or_else(|| ShimError::Arguments(format!("--fence-lead-ms {text:?} must be a whole number")))?;
            }
            Some("--no-namespace") => options.wants_namespace = false,
            Some("--no-cgroups") => options.wants_cgroups = false,
            Some("--beside") => return run_beside(arguments),
            Some("--guard") => is_guard = true,
            Some("--in-namespace") => in_namespace = true,
            _ => return Err(ShimError::Arguments(format!("unknown argument {argument:?}"))),
        }
    }
    if options.folder.as_os_str().is_empty() {
        return Err(ShimError::Arguments("--dir FOLDER is missing".into()));
    }
    if is_guard { guard::run_guard(&options.folder, in_namespace) } else { run_shim(options) }
}

/// Runs a shim until it is told to end (SIGTERM) and all its tasks have ended. To be called on the main thread of a
/// process of its own, before any other thread is started; no thread can be started afterwards.
///
/// # Errors
/// [`ShimError::AlreadyRunning`] when the folder has a shim, and whatever keeps it from coming up. Nothing of an
/// earlier shim's tasks lives once this serves.
pub fn run_shim(options: ShimOptions) -> Result<(), ShimError> {
    // Fails only for the leader of a group, which is what we want to be.
    let _ = nix::unistd::setsid();
    let folder = prepare_folder(&options.folder)?;
    let socket = socket_path(&folder)?;
    let _lock = lock(&folder)?;
    let processes = Processes::open()?;
    let boot = clock::boot_id()?;
    write_identity(&folder, &processes, &boot)?;
    guard::wait_for_predecessor(&folder)?;
    let mut warnings = Vec::new();

    let replayed = journal::replay(&folder).map_err(|source| ShimError::file(folder.join("journal"), source))?;
    warnings.extend(replayed.warning.clone());
    leftovers::end_processes(&folder, &replayed)?;
    // Opening the groups kills what is in them, so it comes before anything is called ended.
    let cgroups = open_cgroups(&options, &folder, &mut warnings);
    let mut ended = replayed.ended.clone();
    let mut recorder = Recorder::from_environment("shim", &folder.display().to_string());
    let node = recorder.name().to_string();
    for unseen in leftovers::unseen_ends(&replayed, &boot) {
        recorder.write(|| Happened::Over { node: node.clone(), run: unseen.run });
        ended.insert(unseen.run, unseen);
    }
    let mut journal = Journal::new(&folder, boot);
    journal.commit(&OnlyEnded(&ended)).map_err(|source| ShimError::file(folder.join("journal"), source))?;

    // No thread can be started any more once children go to another process namespace.
    let fence = Fence::start(LeaseReader::open(&folder)?, options.fence_lead_ms)?;
    let (guard_starter, beside) = (GuardStarter::new(&folder)?, Starter::new()?);
    let (guard, warning) = guard_starter.start(&processes, options.wants_namespace)?;
    warnings.extend(warning);
    let lease = LeaseReader::open(&folder)?;
    let info =
        ShimInfo { version: PROTOCOL_VERSION, pid: std::process::id(), has_namespace: guard.has_namespace, warnings };
    let fence_lead_ms = options.fence_lead_ms;
    let swap_bytes = ohm_runtime::machine::swap_bytes().unwrap_or(0);
    let memory_bytes = ohm_runtime::machine::memory_bytes().map_or(u64::MAX, |bytes| bytes.saturating_add(swap_bytes));
    let mut ground = Ground {
        folder,
        processes,
        guard,
        guard_starter,
        cgroups,
        fence,
        lease,
        fence_lead_ms,
        memory_bytes,
        kernel_kills: KernelKills::default(),
        beside,
    };
    ground.look_at_memory(clock::boottime_ms());
    serve::serve(Runs::new(ground, journal, ended, recorder), info, &socket)
}

fn open_cgroups(options: &ShimOptions, folder: &Path, warnings: &mut Vec<String>) -> Option<Cgroups> {
    if !options.wants_cgroups {
        warnings.push("cgroups are switched off: limits are not enforced".into());
        return None;
    }
    match Cgroups::open(&cgroup_name(folder)) {
        Ok((cgroups, warning)) => {
            warnings.extend(warning);
            Some(cgroups)
        }
        Err(error) => {
            warnings.push(format!("no cgroups ({error}): limits are not enforced"));
            None
        }
    }
}

/// Makes the folder with room for everything, open to its owner only. Gives its one true name.
fn prepare_folder(folder: &Path) -> Result<PathBuf, ShimError> {
    let failed = |source| ShimError::file(folder.to_path_buf(), source);
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    let folder = folder.canonicalize().map_err(failed)?;
    fs::set_permissions(&folder, Permissions::from_mode(0o700)).map_err(failed)?;
    for name in ["logs", "runs"] {
        let path = folder.join(name);
        DirBuilder::new().recursive(true).create(&path).map_err(|source| ShimError::file(path, source))?;
    }
    Ok(folder)
}

fn lock(folder: &Path) -> Result<Flock<File>, ShimError> {
    let path = folder.join("shim.lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|source| ShimError::file(path, source))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|_| ShimError::AlreadyRunning { folder: folder.to_path_buf() })
}

/// `DIR/shim.pid`: three words, for people and for finding a shim that does not answer.
fn write_identity(folder: &Path, processes: &Processes, boot: &str) -> Result<(), ShimError> {
    let identity = processes
        .identity(std::process::id())
        .ok_or_else(|| io::Error::other("/proc does not show this process; it must be mounted"))?;
    let line = format!("{} {} {boot}\n", identity.pid, identity.start_time_ticks);
    data_dir::replace(&folder.join("shim.pid"), 0o666, line.as_bytes())
        .map_err(|source| ShimError::file(folder.join("shim.pid"), source))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_command_lines_are_named() {
        let parse = |words: &[&str]| shim_command(words.iter().map(OsString::from)).unwrap_err().to_string();
        assert!(parse(&[]).contains("--dir"));
        assert!(parse(&["--dir"]).contains("needs a value"));
        assert!(parse(&["--fence-lead-ms", "soon"]).contains("soon"));
        assert!(parse(&["--what"]).contains("--what"));
    }
}
