//! Leases of duties and shards. They hold no time: see the cell's lease rules.

use crate::class::Class;
use serde::{Deserialize, Serialize};

/// How many shards the work of one class is cut into. A power of two, more than the replicas anybody runs.
pub const SHARDS_PER_CLASS: u16 = 16;

/// A part of the work of one class, by hash of the shard key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shard {
    /// The class of work.
    pub class: Class,
    /// 0 to [`SHARDS_PER_CLASS`] − 1.
    pub number: u16,
}

/// What can be held by one session at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Lease {
    /// The right to conclude about nodes.
    Health,
    /// The right to place the jobs of a shard.
    Shard(Shard),
    /// The right to ask for nodes and to say what came of it.
    Provisioning,
}

/// What the process behind a session does; shown to people, and used to share out the shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Role {
    /// A server, on behalf of the people and agents that talk to it.
    Server,
    /// A scheduler replica of a class.
    Scheduler(Class),
    /// A candidate for the health duty.
    Health,
    /// Anything else.
    Client,
    /// A candidate for the provisioning duty.
    Provisioner,
}
