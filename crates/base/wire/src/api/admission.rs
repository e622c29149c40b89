//! Provisioning classes and admissions as the API shows them.

use super::is_default;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All provisioning classes, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProvisioningClassList {
    /// The classes.
    pub provisioning_classes: Vec<ProvisioningClassView>,
}

/// A provisioning class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProvisioningClassView {
    /// Its name.
    pub name: String,
    /// `command`, `webhook` or `sim`.
    pub provisioner: String,
    /// The command line or the URL.
    #[serde(skip_serializing_if = "is_default")]
    pub target: String,
    /// What whoever is asked is given besides.
    #[serde(skip_serializing_if = "is_default")]
    pub parameters: BTreeMap<String, String>,
    /// What follows when it fails.
    pub retry: RetryView,
    /// For how long ready nodes are kept for a job that is not placed; 0 is without end.
    pub booking_seconds: u64,
    /// After how long a pending request has failed; 0 is never.
    pub timeout_seconds: u64,
    /// How long one question may take.
    pub call_timeout_seconds: u64,
    /// Between two questions about a pending request.
    pub poll_seconds: u64,
    /// Between two questions about ready nodes; 0 is never.
    pub watch_seconds: u64,
    /// Whether the nodes that it brings are for the job that asked alone.
    pub exclusive: bool,
    /// A node that it brought and that nobody uses goes back after so long.
    pub idle_seconds: u64,
    /// The queues that name it.
    #[serde(skip_serializing_if = "is_default")]
    pub queues: Vec<String>,
    /// How many requests wait for an answer.
    pub open: u64,
}

/// How often, and after how long, a failed check is tried again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RetryView {
    /// The first wait.
    pub base_seconds: u64,
    /// What each further one is multiplied with.
    pub factor: u32,
    /// The longest.
    pub max_seconds: u64,
    /// How many times.
    pub limit: u32,
}

/// Where the admission of a job stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdmissionView {
    /// Empty for a job whose queue has no checks; `invalid`, `backOff`, `unreserved`, `checking`, `ready` or
    /// `admitted`; `held` where the stop policy of the queue keeps what waits of it from being placed,
    /// `notReady` while it waits because it was not ready in time.
    #[serde(skip_serializing_if = "is_default")]
    pub state: String,
    /// What is wrong, of an invalid one; of one that is held, which queue holds it; of one
    /// that was not ready, what happened.
    #[serde(skip_serializing_if = "is_default")]
    pub problem: String,
    /// The open round; 0 without one.
    #[serde(skip_serializing_if = "is_default")]
    pub round: u32,
    /// The quota that is reserved, by resource, with the flavor before it where there is one: `spot/cpu`.
    #[serde(skip_serializing_if = "is_default")]
    pub reserved: BTreeMap<String, String>,
    /// Who was asked in the open round.
    #[serde(skip_serializing_if = "is_default")]
    pub checks: Vec<CheckView>,
    /// When the next attempt begins, of one that waits for it.
    #[serde(skip_serializing_if = "is_default")]
    pub next_attempt_ms: u64,
    /// The check that ended the last round, if one did.
    #[serde(skip_serializing_if = "is_default")]
    pub failed_check: String,
    /// Which attempt that was.
    #[serde(skip_serializing_if = "is_default")]
    pub failed_attempt: u32,
    /// What the outside said to it.
    #[serde(skip_serializing_if = "is_default")]
    pub failed_message: String,
}

/// One check of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CheckView {
    /// The provisioning class.
    pub class: String,
    /// The flavors for which the queue has it asked; left out where it is asked for all jobs.
    #[serde(skip_serializing_if = "is_default")]
    pub on_flavors: Vec<String>,
    /// `pending` or `ready`.
    pub state: String,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// The name of the request.
    pub request: String,
    /// What the outside said last.
    #[serde(skip_serializing_if = "is_default")]
    pub message: String,
    /// Since when it is in this state.
    pub since_ms: u64,
}
