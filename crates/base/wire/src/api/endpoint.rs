//! Where the tasks of a job can be reached.

use super::is_default;
use serde::{Deserialize, Serialize};

/// Who can be reached of a job now: the tasks that are ready and are to stay so, by group and rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointList {
    /// The job.
    pub job: String,
    /// Its endpoints.
    pub endpoints: Vec<EndpointView>,
}

/// A task that can be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointView {
    /// Its group.
    pub group: String,
    /// Its rank in the group.
    pub task: u32,
    /// The node that it runs on.
    pub node: String,
    /// The node's address, as its tasks know it as `OHM_NODE_IP`; empty where the node told none.
    #[serde(skip_serializing_if = "is_default")]
    pub address: String,
    /// Its host ports there: `8080`, `53/UDP`, `10.0.0.1:80`.
    #[serde(skip_serializing_if = "is_default")]
    pub ports: Vec<String>,
}
