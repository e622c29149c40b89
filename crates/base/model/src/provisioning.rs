//! Provisioning: who is asked for nodes before a job is placed, and what comes back. Values and words are those of
//! Kueue's ProvisioningRequest.

use crate::selector::{Labels, Toleration};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most provisioning classes of a cell.
pub const PROVISIONING_CLASSES_MAX: usize = 256;
/// Most checks of one queue.
pub const ADMISSION_CHECKS_MAX: usize = 16;
/// Most parameters of a class, words of its command, labels and tolerations of an answer.
pub const PARTS_MAX: usize = 64;
/// Most bytes of one key, value, word or URL.
pub const PART_BYTES_MAX: usize = 4096;

/// A way to get nodes: a queue that names it keeps its jobs waiting, their quota reserved, until it says that they are
/// there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvisioningClass {
    /// Unique in the cell.
    pub name: String,
    /// Who is asked.
    pub provisioner: Provisioner,
    /// Handed to whoever is asked; the cell does not read them.
    pub parameters: BTreeMap<String, String>,
    /// What follows when it fails.
    pub retry: RetryPolicy,
    /// Nodes that are ready are kept so long for a job that is not placed yet; 0 is without end.
    pub booking_seconds: u64,
    /// A request that is pending for longer has failed; 0 waits for ever.
    pub timeout_seconds: u64,
    /// One question to the outside may take so long.
    pub call_timeout_seconds: u64,
    /// A request that is pending is asked about again after so long.
    pub poll_seconds: u64,
    /// Nodes that are ready are asked about again after so long, while the job has them; 0 is never.
    pub watch_seconds: u64,
    /// The nodes that it brings are for the job that asked alone, also once it is placed.
    pub exclusive: bool,
    /// A node that it has brought and that nobody uses goes back after so long.
    pub idle_seconds: u64,
}

impl ProvisioningClass {
    /// A class with the values of Kueue and no bound on how long it takes.
    pub fn of(name: impl Into<String>, provisioner: Provisioner) -> Self {
        ProvisioningClass {
            name: name.into(),
            provisioner,
            parameters: BTreeMap::new(),
            retry: RetryPolicy::default(),
            booking_seconds: 0,
            timeout_seconds: 0,
            call_timeout_seconds: 60,
            poll_seconds: 5,
            watch_seconds: 0,
            exclusive: false,
            idle_seconds: 60,
        }
    }

    /// Whether the nodes that it brings are never for others than the job that asked. Nothing of others would really
    /// run on simulated ones.
    pub fn is_exclusive(&self) -> bool {
        self.exclusive || self.provisioner == Provisioner::Sim
    }
}

/// Who brings nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Provisioner {
    /// A program, started with the request as JSON on its standard input.
    Command {
        /// Program and arguments.
        command: Vec<String>,
    },
    /// A server, to which the request is posted as JSON.
    Webhook {
        /// `http://…` or `https://…`.
        url: String,
    },
    /// Simulated nodes, added after a delay.
    Sim,
}

impl Provisioner {
    /// The name used in files and tables.
    pub fn name(&self) -> &'static str {
        match self {
            Provisioner::Command { .. } => "command",
            Provisioner::Webhook { .. } => "webhook",
            Provisioner::Sim => "sim",
        }
    }
}

/// How often, and after how long, a check that failed is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// The wait after the first failure.
    pub base_seconds: u64,
    /// What each further wait is multiplied with.
    pub factor: u32,
    /// No wait is longer.
    pub max_seconds: u64,
    /// So many times it is tried again; 0 is never.
    pub limit: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy { base_seconds: 60, factor: 2, max_seconds: 1800, limit: 3 }
    }
}

impl RetryPolicy {
    /// How long to wait after failure number `failures`, counted from 1, in milliseconds.
    pub fn wait_ms(&self, failures: u32) -> u64 {
        let grow = |wait: u64, _| wait.saturating_mul(u64::from(self.factor)).min(self.max_seconds);
        // A wait that has reached its bound, or does not grow, stays as it is.
        let steps = failures.saturating_sub(1).min(64);
        let seconds = (0..steps).fold(self.base_seconds.min(self.max_seconds), grow);
        seconds.saturating_mul(1000)
    }
}

/// What the provisioning duty says about one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckReport {
    /// Still under way; for people.
    Pending {
        /// What the outside says, possibly empty.
        message: String,
    },
    /// The nodes are there.
    Ready {
        /// Labels that the job's nodes must have besides those it asks for.
        node_selector: Labels,
        /// Taints it may stand on besides.
        tolerations: Vec<Toleration>,
        /// For people, possibly empty.
        message: String,
    },
    /// There will be none.
    Failed {
        /// Why.
        message: String,
    },
    /// They were there and are kept no longer; means nothing once the job is placed.
    BookingExpired {
        /// For people, possibly empty.
        message: String,
    },
    /// They are taken away, whatever runs there.
    CapacityRevoked {
        /// Why.
        message: String,
    },
}

impl CheckReport {
    /// What people are told.
    pub fn message(&self) -> &str {
        match self {
            CheckReport::Pending { message }
            | CheckReport::Ready { message, .. }
            | CheckReport::Failed { message }
            | CheckReport::BookingExpired { message }
            | CheckReport::CapacityRevoked { message } => message,
        }
    }
}

/// What became of a request for nodes that a repair makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestChange {
    /// The class that is asked.
    pub class: String,
    /// The number of the request among those of the job's repairs.
    pub number: u32,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// `asked`, `ready`, `retry` or `failed`.
    pub state: String,
    /// For how many lost tasks.
    pub tasks: u32,
    /// What the outside said, possibly empty.
    pub message: String,
    /// The wait before the next attempt, in milliseconds; 0 unless there is one.
    pub wait_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_bound() {
        let policy = RetryPolicy::default();
        let waits: Vec<u64> = (1..8).map(|failures| policy.wait_ms(failures) / 1000).collect();
        assert_eq!(waits, [60, 120, 240, 480, 960, 1800, 1800]);
        let huge = RetryPolicy { base_seconds: u64::MAX, factor: u32::MAX, max_seconds: u64::MAX, limit: 3 };
        assert_eq!(huge.wait_ms(u32::MAX), u64::MAX);
        assert_eq!(RetryPolicy { base_seconds: 0, ..policy }.wait_ms(3), 0);
    }
}
