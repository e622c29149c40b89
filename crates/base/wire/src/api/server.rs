//! The servers of the cell.

use super::is_default;
use serde::{Deserialize, Serialize};

/// The answer to `GET /v1/servers`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerList {
    /// Those that belong to the cell.
    pub servers: Vec<ServerView>,
    /// Numbers of those that were removed; they are never used again.
    #[serde(skip_serializing_if = "is_default")]
    pub removed: Vec<u64>,
    /// What keeps their log.
    pub engine: ServerEngine,
}

/// What keeps the log of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerEngine {
    /// The servers themselves, as a raft group.
    #[default]
    Raft,
    /// An etcd; the servers are peers, and nobody leads.
    Etcd,
}

/// One server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerView {
    /// Its number.
    pub server: u64,
    /// Whether it votes.
    pub role: ServerRole,
    /// Whether it leads.
    pub leads: bool,
    /// Whether it is the one that answers.
    pub here: bool,
    /// Where it listens; empty when that is not known.
    pub address: String,
}

/// What a server does in the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ServerRole {
    /// Its disk counts for the majority.
    #[default]
    Voter,
    /// It receives everything, and votes as soon as it has caught up.
    Learner,
}
