//! Stopping in order: one flag that SIGTERM, SIGINT or an error sets, and that everybody waits on.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How often a child looks whether its parent is still there.
const ORPHAN_LOOK: std::time::Duration = std::time::Duration::from_millis(500);

/// The flag; clones share it.
#[derive(Clone, Debug)]
pub struct Shutdown {
    sender: watch::Sender<bool>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Shutdown { sender: watch::channel(false).0 }
    }
}

impl Shutdown {
    /// A flag that SIGTERM and SIGINT set.
    pub fn on_signals() -> std::io::Result<Self> {
        let shutdown = Shutdown::default();
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let flag = shutdown.clone();
        tokio::spawn(async move {
            tokio::select! { biased; _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
            flag.start();
        });
        Ok(shutdown)
    }

    /// Sets the flag when the process that `OHM_PARENT` names is not the parent any more: who was started by `ohm up`
    /// does not outlive it, whatever ended it.
    pub fn on_orphaned(&self) {
        let parent = std::env::var("OHM_PARENT").ok().and_then(|parent| parent.parse::<u32>().ok());
        let Some(parent) = parent else { return };
        let flag = self.clone();
        tokio::spawn(async move {
            while std::os::unix::process::parent_id() == parent {
                tokio::time::sleep(ORPHAN_LOOK).await;
            }
            flag.start();
        });
    }

    /// Sets the flag.
    pub fn start(&self) {
        self.sender.send_replace(true);
    }

    /// Whether the flag is set.
    pub fn is_started(&self) -> bool {
        *self.sender.borrow()
    }

    /// Waits until the flag is set.
    pub async fn started(&self) {
        let mut receiver = self.sender.subscribe();
        // The sender lives in self, so waiting can't fail.
        let _ = receiver.wait_for(|started| *started).await;
    }
}
