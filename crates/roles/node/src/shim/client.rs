//! The agent's side: finds the shim or starts it, and talks to it.

use super::folder::socket_path;
use super::protocol::{EVENT_BYTES_MAX, Event, PROTOCOL_VERSION, Request, ShimInfo};
use super::wire::{FrameReader, write_frame};
use super::{ShimError, ShimOptions};
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, sleep, timeout};

/// How long a shim may take to answer, which includes ending what its predecessor left.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long one connection may take to be greeted before another try.
const GREETING: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(10);
/// How much of the shim's log is shown when it does not come up.
const HINT_BYTES_MAX: usize = 600;

/// How to start a shim.
#[derive(Clone, Debug)]
pub struct ShimCommand {
    /// The program that knows `shim`: as a rule the agent's own.
    pub program: PathBuf,
    /// The options of the shim.
    pub options: ShimOptions,
}

impl ShimCommand {
    /// This very program as a shim.
    ///
    /// # Errors
    /// When the kernel does not say which program runs here.
    pub fn this_program(options: ShimOptions) -> io::Result<Self> {
        Ok(ShimCommand { program: this_program()?, options })
    }

    /// Connects to the shim in charge, or starts one and connects to that. The connection begins with
    /// [`Event::Listed`].
    ///
    /// # Errors
    /// [`ShimError::Unresponsive`] when no shim answers in 30 s: it is stopped, or cannot come up; its log is
    /// `shim.log`.
    pub async fn start_or_find(&self) -> Result<ShimClient, ShimError> {
        let folder = &self.options.folder;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|source| ShimError::file(folder.clone(), source))?;
        let end = Instant::now() + PATIENCE;
        let mut child: Option<tokio::process::Child> = None;
        loop {
            match timeout(GREETING, ShimClient::connect(folder)).await {
                Ok(Ok(client)) => return Ok(client),
                // Nobody listens. A shim that loses the race for the lock ends at once, and another has won it.
                Ok(Err(ShimError::Connection(_))) => {
                    if child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None))) {
                        child = Some(self.spawn()?);
                    }
                }
                // It died, or is dying, while we talked to it.
                Ok(Err(ShimError::Closed | ShimError::Cut)) | Err(_) => {}
                Ok(Err(error)) => return Err(error),
            }
            if Instant::now() > end {
                let patience_ms = PATIENCE.as_millis() as u64;
                return Err(ShimError::Unresponsive { folder: folder.clone(), patience_ms, hint: hint(folder) });
            }
            sleep(RETRY).await;
        }
    }

    fn spawn(&self) -> Result<tokio::process::Child, ShimError> {
        let path = self.options.folder.join("shim.log");
        let log = || OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let failed = |source| ShimError::file(path.clone(), source);
        let mut command = tokio::process::Command::new(&self.program);
        command
            .args(self.options.arguments())
            .stdin(Stdio::null())
            .stdout(log().map_err(failed)?)
            .stderr(log().map_err(failed)?)
            .kill_on_drop(false);
        command.spawn().map_err(|source| ShimError::file(self.program.clone(), source))
    }
}

/// The end of the shim's log, for an error message.
fn hint(folder: &Path) -> String {
    let text = std::fs::read(folder.join("shim.log")).unwrap_or_default();
    let tail = String::from_utf8_lossy(&text[text.len().saturating_sub(HINT_BYTES_MAX)..]).trim().to_owned();
    if tail.is_empty() { String::new() } else { format!("; its log ends: {tail}") }
}

/// A connection to a shim.
#[derive(Debug)]
pub struct ShimClient {
    /// What the shim said about itself.
    pub info: ShimInfo,
    sender: ShimSender,
    events: ShimEvents,
}

/// The sending half.
#[derive(Debug)]
pub struct ShimSender {
    write_half: OwnedWriteHalf,
    buffer: Vec<u8>,
}

/// The hearing half.
#[derive(Debug)]
pub struct ShimEvents {
    reader: FrameReader<OwnedReadHalf>,
}

impl ShimClient {
    /// Connects to the shim in charge of `folder`.
    ///
    /// # Errors
    /// [`ShimError::Connection`] when none listens, [`ShimError::Refused`] when it speaks another version.
    pub async fn connect(folder: &Path) -> Result<Self, ShimError> {
        let stream = UnixStream::connect(socket_path(folder)?).await.map_err(ShimError::Connection)?;
        let (read_half, write_half) = stream.into_split();
        let mut sender = ShimSender { write_half, buffer: Vec::new() };
        let mut events = ShimEvents { reader: FrameReader::new(read_half, EVENT_BYTES_MAX) };
        sender.send(&[Request::Hello { version: PROTOCOL_VERSION }]).await?;
        match events.next().await? {
            Event::Hello(info) => Ok(ShimClient { info, sender, events }),
            found => Err(ShimError::Unexpected { found: format!("{found:?}"), expected: "Hello" }),
        }
    }

    /// Sends requests, in one write.
    ///
    /// # Errors
    /// As [`ShimSender::send`].
    pub async fn send(&mut self, requests: &[Request]) -> Result<(), ShimError> {
        self.sender.send(requests).await
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// As [`ShimEvents::next`].
    pub async fn next(&mut self) -> Result<Event, ShimError> {
        self.events.next().await
    }

    /// The two halves, for two tasks.
    pub fn split(self) -> (ShimSender, ShimEvents) {
        (self.sender, self.events)
    }
}

impl ShimSender {
    /// Sends requests, in one write. Not to be dropped half way: the connection would be torn.
    ///
    /// # Errors
    /// [`ShimError::FrameTooLong`] for a request above 2 MiB, in which case nothing was sent; [`ShimError::Connection`]
    /// when the shim is gone.
    pub async fn send(&mut self, requests: &[Request]) -> Result<(), ShimError> {
        self.buffer.clear();
        for request in requests {
            write_frame(request, &mut self.buffer)?;
        }
        self.write_half.write_all(&self.buffer).await.map_err(ShimError::Connection)
    }
}

impl ShimEvents {
    /// Waits for the next event. May be dropped while waiting; nothing is lost.
    ///
    /// # Errors
    /// [`ShimError::Closed`] when the shim is gone, [`ShimError::Refused`] when it did not like us.
    pub async fn next(&mut self) -> Result<Event, ShimError> {
        match self.reader.next().await? {
            Some(Event::Refused { reason }) => Err(ShimError::Refused(reason)),
            Some(event) => Ok(event),
            None => Err(ShimError::Closed),
        }
    }

    /// An event that has arrived already, if there is one: for taking many at a time.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn ready(&mut self) -> Result<Option<Event>, ShimError> {
        match self.reader.buffered()? {
            Some(Event::Refused { reason }) => Err(ShimError::Refused(reason)),
            event => Ok(event),
        }
    }
}

/// The program that runs here, also when its file was replaced by a newer one meanwhile.
///
/// # Errors
/// When the kernel does not say which program runs here.
pub(super) fn this_program() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    Ok(if path.exists() { path } else { PathBuf::from("/proc/self/exe") })
}
