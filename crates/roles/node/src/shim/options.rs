//! How a shim is to run.

use std::ffi::OsString;
use std::path::PathBuf;

/// How a shim is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShimOptions {
    /// Its state folder; made if it is missing, and closed to others.
    pub folder: PathBuf,
    /// Whether to put tasks into a process namespace if that is possible.
    pub wants_namespace: bool,
    /// Whether to put runs into cgroups if that is possible.
    pub wants_cgroups: bool,
    /// How long before the end of the lease the first signal may be sent at the earliest, in milliseconds: two beats.
    pub fence_lead_ms: u64,
}

impl ShimOptions {
    /// All that this machine can do.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        ShimOptions { folder: folder.into(), wants_namespace: true, wants_cgroups: true, fence_lead_ms: 2_000 }
    }

    /// The command line that gives these options: what follows the program's name, `shim` first.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["shim".into(), "--dir".into(), self.folder.clone().into()];
        arguments.extend(["--fence-lead-ms".into(), self.fence_lead_ms.to_string().into()]);
        if !self.wants_namespace {
            arguments.push("--no-namespace".into());
        }
        if !self.wants_cgroups {
            arguments.push("--no-cgroups".into());
        }
        arguments
    }
}
