//! Runs a program to its end or to a time limit and keeps what it printed.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// How often a program with a time limit is asked whether it has ended.
const POLL_EVERY: Duration = Duration::from_millis(50);
/// How long to wait for the last output of a program that was stopped.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);

/// What became of a program.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Whether it ended by itself and well.
    pub(crate) success: bool,
    /// Whether the time limit stopped it.
    pub(crate) timed_out: bool,
    /// What it printed: output first, then errors.
    pub(crate) output: String,
}

/// A command line that runs cargo as it was called itself, without colours.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(arguments).env("CARGO_TERM_COLOR", "never").env("GIT_TERMINAL_PROMPT", "0");
    // What `cargo run` says of xtask itself: build scripts that look at it would build everything above them anew.
    for (name, _) in std::env::vars_os().filter(|(name, _)| tells_of_xtask(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
}

/// Whether cargo sets this variable to tell a program of its own package.
fn tells_of_xtask(name: &str) -> bool {
    name.starts_with("CARGO_PKG_")
        || ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_MANIFEST_LINKS"].contains(&name)
}

/// Runs a program and collects its output.
pub(crate) fn run(command: &mut Command, limit: Option<Duration>) -> Result<Ended> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {program}"))?;
    let output = child.stdout.take().map(collect);
    let errors = child.stderr.take().map(collect);
    let status = wait(&mut child, limit)?;
    let grace = status.is_none().then_some(OUTPUT_GRACE);
    let texts = [output, errors].into_iter().flatten().map(|receiver| receive(&receiver, grace));
    let output = texts.collect::<Vec<_>>().concat();
    Ok(Ended { success: status == Some(true), timed_out: status.is_none(), output })
}

/// Reads a pipe to its end on a thread of its own, so that two pipes cannot block each other.
fn collect(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // A broken pipe ends the text; the exit status tells what happened.
        let _ = pipe.read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    receiver
}

/// The text of a pipe; after a stop only for a grace, because grandchildren may hold the pipe open.
fn receive(receiver: &Receiver<Vec<u8>>, grace: Option<Duration>) -> String {
    let bytes = match grace {
        Some(grace) => receiver.recv_timeout(grace).unwrap_or_default(),
        None => receiver.recv().unwrap_or_default(),
    };
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits for the end: whether it was a success, or none if the limit came first and the program was stopped.
fn wait(child: &mut Child, limit: Option<Duration>) -> Result<Option<bool>> {
    let Some(limit) = limit else { return Ok(Some(child.wait()?.success())) };
    let started = Instant::now();
    while started.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        thread::sleep(POLL_EVERY);
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Option<Duration>) -> Ended {
        run(Command::new("sh").args(["-c", script]), limit).expect("sh is on every machine this runs on")
    }

    #[test]
    fn cargo_is_told_nothing_of_xtask() {
        assert!(["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR"].into_iter().all(tells_of_xtask));
        assert!(!["CARGO_TARGET_DIR", "CARGO_INCREMENTAL", "CARGO_PROFILE_DEV_DEBUG"].into_iter().any(tells_of_xtask));
        let removed = |command: &Command| command.get_envs().filter(|(_, value)| value.is_none()).count();
        assert!(removed(&cargo(Path::new("."), &["--version"])) > 0, "these tests run under cargo");
    }

    #[test]
    fn output_and_status_are_kept() {
        let ended = shell("echo out; echo err >&2; exit 3", None);
        assert!(!ended.success && !ended.timed_out);
        assert_eq!(ended.output, "out\nerr\n");
        assert!(shell("true", Some(Duration::from_secs(10))).success);
    }

    #[test]
    fn the_limit_stops_a_program() {
        let ended = shell("exec sleep 60", Some(Duration::from_millis(100)));
        assert!(ended.timed_out && !ended.success);
    }

    #[test]
    fn a_missing_program_is_an_error() {
        assert!(run(&mut Command::new("no-such-program-here"), None).is_err());
    }
}
