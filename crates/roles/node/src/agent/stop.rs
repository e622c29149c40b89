//! Telling the shim to end. It is signalled as a process of known start time, never as a bare number.

use super::AgentError;
use crate::processes::{Identity, Processes};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io;
use std::path::Path;

/// Who `pid` is; none when it is gone already.
pub(super) fn identify(pid: u32) -> Result<Option<Identity>, AgentError> {
    let processes = Processes::open().map_err(AgentError::file(Path::new("/proc")))?;
    Ok(processes.identity(pid))
}

/// Sends `signal` to the process, if it still is that one: SIGTERM gives tasks their grace, SIGQUIT none.
pub(super) fn send(identity: Identity, signal: Signal) -> io::Result<()> {
    if !Processes::open()?.is_alive(identity) {
        return Ok(());
    }
    let pid = i32::try_from(identity.pid).map_err(io::Error::other)?;
    Ok(kill(Pid::from_raw(pid), signal)?)
}
