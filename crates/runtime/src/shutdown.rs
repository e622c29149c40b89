//! Stopping in order: one flag that SIGTERM, SIGINT or an error sets, and that everybody waits on.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

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
