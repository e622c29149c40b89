//! Looking at the machine: free disk and memory, devices, and the operator's health-check program. What is found goes
//! to the core, which judges it.

use nix::sys::signal::{Signal, killpg};
use nix::sys::statvfs::statvfs;
use nix::unistd::Pid;
use ohm_agent::{CheckPolicy, Finding};
use ohm_model::{ConditionAction, ConditionKind, MESSAGE_CHARS_MAX};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

/// Disk and memory are looked at at least this often.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Looks in a row that decide about disk and memory.
const LOOKS: u32 = 2;
/// What a check writes beyond this is thrown away, but for its end.
const OUTPUT_BYTES_MAX: usize = 8 << 10;
/// How long output is waited for once the program has ended: a child of its own may keep the pipe open.
const OUTPUT_PATIENCE: Duration = Duration::from_millis(500);

/// What is looked at on a node, how often, and what follows.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Disk pressure below this share of free space (or of free inodes) in the file system of the agent's folder, in
    /// percent; 0 does not look.
    pub disk_percent: u64,
    /// Memory pressure below this many bytes that the kernel calls available; 0 does not look.
    pub memory_bytes: u64,
    /// A device error while this command, run by `/bin/sh`, does not exit 0.
    pub device_check: Option<String>,
    /// A device error while one of these does not exist.
    pub device_files: Vec<PathBuf>,
    /// The health check has failed while this command, run by `/bin/sh`, does not exit 0.
    pub health_check: Option<String>,
    /// Between the end of one run of a command and its next.
    pub interval: Duration,
    /// A command that runs longer is killed and counts as failed.
    pub timeout: Duration,
    /// So many results in a row decide, either way.
    pub threshold: u32,
    /// What follows, where it is not the default.
    pub actions: BTreeMap<ConditionKind, ConditionAction>,
}

impl Default for CheckOptions {
    fn default() -> Self {
        CheckOptions {
            disk_percent: 3,
            memory_bytes: 100 << 20,
            device_check: None,
            device_files: Vec::new(),
            health_check: None,
            interval: Duration::from_secs(30),
            timeout: Duration::from_secs(10),
            threshold: 3,
            actions: BTreeMap::new(),
        }
    }
}

impl CheckOptions {
    fn action(&self, kind: ConditionKind) -> ConditionAction {
        let default = match kind {
            ConditionKind::DiskPressure | ConditionKind::MemoryPressure => ConditionAction::NoNewWork,
            ConditionKind::DeviceError | ConditionKind::HealthCheckFailed => ConditionAction::Drain,
        };
        self.actions.get(&kind).copied().unwrap_or(default)
    }

    /// How the core judges what is found. Free disk is counted in thousandths; it is well again a quarter above its
    /// bound.
    pub(super) fn policies(&self) -> Vec<CheckPolicy> {
        let policy = |kind, (failures, successes), bad_below: u64| {
            let (action, good_from) = (self.action(kind), bad_below.saturating_add(bad_below / 4));
            CheckPolicy { kind, action, failures, successes, bad_below, good_from }
        };
        let (looks, times) = ((LOOKS, LOOKS), (self.threshold, self.threshold));
        let looks_at_devices = self.device_check.is_some() || !self.device_files.is_empty();
        let all = [
            (self.disk_percent > 0).then(|| policy(ConditionKind::DiskPressure, looks, self.disk_percent * 10)),
            (self.memory_bytes > 0).then(|| policy(ConditionKind::MemoryPressure, looks, self.memory_bytes)),
            looks_at_devices.then(|| policy(ConditionKind::DeviceError, times, 0)),
            self.health_check.is_some().then(|| policy(ConditionKind::HealthCheckFailed, times, 0)),
        ];
        all.into_iter().flatten().collect()
    }
}

/// What was found of what.
pub(super) type Found = (ConditionKind, Finding);

/// Looks at everything that `options` names, until nobody listens any more. `folder` is the agent's.
pub(super) async fn run(options: CheckOptions, folder: PathBuf, found: mpsc::Sender<Found>) {
    let mut loops = JoinSet::new();
    let look_interval = LOOK_INTERVAL.min(options.interval);
    for policy in options.policies() {
        let (options, folder, found) = (options.clone(), folder.clone(), found.clone());
        loops.spawn(async move {
            let interval = match policy.kind {
                ConditionKind::DiskPressure | ConditionKind::MemoryPressure => look_interval,
                ConditionKind::DeviceError | ConditionKind::HealthCheckFailed => options.interval,
            };
            loop {
                let finding = match policy.kind {
                    ConditionKind::DiskPressure => look(disk, folder.clone()).await,
                    ConditionKind::MemoryPressure => look(move |_| memory(), folder.clone()).await,
                    ConditionKind::DeviceError => devices(&options).await,
                    ConditionKind::HealthCheckFailed => {
                        command(options.health_check.as_deref().unwrap_or("true"), options.timeout).await
                    }
                };
                if found.send((policy.kind, finding)).await.is_err() {
                    return;
                }
                sleep(interval).await;
            }
        });
    }
    while loops.join_next().await.is_some() {}
    // Without checks there is nothing to say, and the listener need not know.
    found.closed().await;
}

/// A look that may be slow, in a thread of its own. What can't be read says nothing against the node.
async fn look(at: impl FnOnce(&Path) -> io::Result<Finding> + Send + 'static, folder: PathBuf) -> Finding {
    let seen = spawn_blocking(move || at(&folder)).await;
    seen.map_err(io::Error::other).and_then(|seen| seen).unwrap_or_else(|error| {
        tracing::warn!(%error, "the state of this machine can't be read");
        Finding::Good
    })
}

fn disk(folder: &Path) -> io::Result<Finding> {
    let system = statvfs(folder)?;
    let share = |free: u64, all: u64| if all == 0 { 1000 } else { (u128::from(free) * 1000 / u128::from(all)) as u64 };
    let (space, inodes) =
        (share(system.blocks_available(), system.blocks()), share(system.files_available(), system.files()));
    let (left, of) = if inodes < space { (inodes, "inodes") } else { (space, "space") };
    let words = format!("{}.{} % of the {of} of {} is free", left / 10, left % 10, folder.display());
    Ok(Finding::Left(left, words))
}

fn memory() -> io::Result<Finding> {
    let bytes = available_bytes(&std::fs::read_to_string("/proc/meminfo")?);
    let bytes = bytes.ok_or_else(|| io::Error::other("/proc/meminfo has no MemAvailable"))?;
    Ok(Finding::Left(bytes, format!("{} MiB of memory are available", bytes >> 20)))
}

fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

async fn devices(options: &CheckOptions) -> Finding {
    if let Some(missing) = options.device_files.iter().find(|file| !file.exists()) {
        return Finding::Bad(format!("{} is missing", missing.display()));
    }
    match &options.device_check {
        Some(check) => command(check, options.timeout).await,
        None => Finding::Good,
    }
}

/// Runs a check of the operator's. It has a process group of its own, which is gone when this returns.
async fn command(check: &str, patience: Duration) -> Finding {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(check).process_group(0).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Finding::Bad(format!("the check could not be started: {error}")),
    };
    let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let output = tokio::spawn(async move { tokio::join!(tail(output), tail(errors)) });
    let ended = timeout(patience, wait(&mut child, group)).await;
    if ended.is_err()
        && let Some(group) = group
    {
        // Not reaped yet, so the number is still that of this group.
        let _ = killpg(group, Signal::SIGKILL);
        let _ = child.wait().await;
    }
    let last_words = match timeout(OUTPUT_PATIENCE, output).await {
        Ok(Ok((output, errors))) => last_line(&errors).or_else(|| last_line(&output)).unwrap_or_default(),
        _ => String::new(),
    };
    let because = |what: String| Finding::Bad(if last_words.is_empty() { what } else { last_words.clone() });
    match ended {
        Ok(Ok(status)) if status.success() => Finding::Good,
        Ok(Ok(status)) => because(status.to_string()),
        Ok(Err(error)) => because(error.to_string()),
        Err(_) => Finding::Bad(format!("the check did not end within {} s", patience.as_secs_f32())),
    }
}

/// Waits for the check itself; what it left behind in its group is ended before its number is free again.
async fn wait(child: &mut Child, group: Option<Pid>) -> io::Result<ExitStatus> {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};
    if let Some(group) = group {
        let exited = move || waitid(Id::Pid(group), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
        spawn_blocking(exited).await.map_err(io::Error::other)??;
        let _ = killpg(group, Signal::SIGKILL);
    }
    child.wait().await
}

/// The end of what can be read.
async fn tail(pipe: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let (mut kept, mut piece) = (Vec::new(), [0; 4096]);
    let Some(mut pipe) = pipe else { return kept };
    while let Ok(length @ 1..) = pipe.read(&mut piece).await {
        kept.extend_from_slice(&piece[..length]);
        let excess = kept.len().saturating_sub(OUTPUT_BYTES_MAX);
        kept.drain(..excess);
    }
    kept
}

/// The last line with something on it, as far as the cell keeps it.
fn last_line(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(line.chars().filter(|character| !character.is_control()).take(MESSAGE_CHARS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(check: &str) -> Finding {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(command(check, Duration::from_millis(700)))
    }

    #[test]
    fn a_check_says_why_in_its_last_line() {
        assert_eq!(found("exit 0"), Finding::Good);
        assert_eq!(found("echo first; echo 'link down '; echo; exit 3"), Finding::Bad("link down".into()));
        assert_eq!(found("echo fine; echo 'fan 2 stands' >&2; exit 1"), Finding::Bad("fan 2 stands".into()));
        assert_eq!(found("exit 4"), Finding::Bad("exit status: 4".into()));
        assert_eq!(found("no-such-program-here 2>/dev/null"), Finding::Bad("exit status: 127".into()));
    }

    #[test]
    fn a_check_that_hangs_is_killed_with_all_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("alive");
        let late = format!("(sleep 1.5; echo late > {}) & sleep 60", file.display());
        assert_eq!(found(&late), Finding::Bad("the check did not end within 0.7 s".into()));
        // One that ends and leaves something behind holds nobody up either.
        assert_eq!(found(&format!("(sleep 1.5; echo late > {}) & exit 0", file.display())), Finding::Good);
        std::thread::sleep(Duration::from_millis(1_700));
        assert!(!file.exists(), "what a check started outlived it");
    }

    #[test]
    fn the_machine_can_be_read() {
        assert_eq!(available_bytes("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(available_bytes("MemTotal: 9 kB\n"), None);
        assert!(matches!(memory().unwrap(), Finding::Left(bytes, _) if bytes > 0));
        let Finding::Left(share, words) = disk(Path::new("/tmp")).unwrap() else { panic!("an amount") };
        assert!(share <= 1000 && words.contains("% of the"), "{words}");
    }

    #[test]
    fn what_is_not_asked_for_is_not_judged() {
        let kinds = |options: &CheckOptions| options.policies().iter().map(|policy| policy.kind).collect::<Vec<_>>();
        let mut options = CheckOptions { disk_percent: 0, ..CheckOptions::default() };
        assert_eq!(kinds(&options), [ConditionKind::MemoryPressure]);
        options.health_check = Some("true".into());
        options.device_files = vec!["/dev/null".into()];
        options.actions.insert(ConditionKind::HealthCheckFailed, ConditionAction::Note);
        assert_eq!(kinds(&options).len(), 3);
        assert_eq!(options.policies()[2].action, ConditionAction::Note);
        assert_eq!(options.policies()[1].action, ConditionAction::Drain);
    }
}
