//! Stopping in order: one flag that SIGTERM, SIGINT or an error sets, and that everybody waits on.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How often a child looks whether its parent is still there.
const ORPHAN_LOOK: std::time::Duration = std::time::Duration::from_millis(500);

/// How urgently the process is to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    #[default]
    None,
    /// In order, with all the time that takes.
    Started,
    /// Somebody asked twice: without waiting for anything that can be cut short.
    Hurried,
}

/// The flag; clones share it.
#[derive(Clone, Debug)]
pub struct Shutdown {
    sender: watch::Sender<Urgency>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Shutdown { sender: watch::channel(Urgency::None).0 }
    }
}

impl Shutdown {
    /// A flag that SIGTERM and SIGINT set; the second one is taken for haste.
    pub fn on_signals() -> std::io::Result<Self> {
        let shutdown = Shutdown::default();
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let flag = shutdown.clone();
        tokio::spawn(async move {
            for urgency in [Urgency::Started, Urgency::Hurried] {
                tokio::select! { biased; _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
                flag.raise(urgency);
            }
        });
        Ok(shutdown)
    }

    /// Sets the flag when the process that `OHM_PARENT` names is not the parent any more: who was started by `ohm up`
    /// does not outlive it, whatever ended it. So does the end of the process that `OHM_ELDER` names, whoever is the
    /// parent: simulated nodes of a provisioner outlive that, but not the cell.
    pub fn on_orphaned(&self) {
        let process = |name: &str| std::env::var(name).ok().and_then(|process| process.parse::<u32>().ok());
        if let Some(elder) = process("OHM_ELDER") {
            let flag = self.clone();
            tokio::spawn(async move {
                while std::path::Path::new(&format!("/proc/{elder}")).exists() {
                    tokio::time::sleep(ORPHAN_LOOK).await;
                }
                flag.start();
            });
        }
        let Some(parent) = process("OHM_PARENT") else { return };
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
        self.raise(Urgency::Started);
    }

    fn raise(&self, urgency: Urgency) {
        self.sender.send_if_modified(|now| std::mem::replace(now, urgency.max(*now)) < urgency);
    }

    /// Whether the flag is set.
    pub fn is_started(&self) -> bool {
        *self.sender.borrow() >= Urgency::Started
    }

    /// Whether stopping is urgent: a second signal came.
    pub fn is_hurried(&self) -> bool {
        *self.sender.borrow() == Urgency::Hurried
    }

    /// Waits until the flag is set.
    pub async fn started(&self) {
        self.reached(Urgency::Started).await;
    }

    /// Waits until stopping is urgent.
    pub async fn hurried(&self) {
        self.reached(Urgency::Hurried).await;
    }

    async fn reached(&self, urgency: Urgency) {
        let mut receiver = self.sender.subscribe();
        // The sender lives in self, so waiting can't fail.
        let _ = receiver.wait_for(|now| *now >= urgency).await;
    }
}
