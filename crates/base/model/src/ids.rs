//! Integer names. Inside the cell everything is a dense integer; the names people chose live at the edge.

use ohm_stdx::define_id;
use serde::{Deserialize, Serialize};

define_id!(
    /// A position in the ordered log. Indices rise and may skip; 0 is before the first entry.
    Index(u64)
);
define_id!(
    /// A slot in the node columns. A slot is used again after its node is removed, so a late reader compares the node's
    /// `registered` index with the index it has seen.
    NodeId(u32)
);
define_id!(
    /// A job: slot in the low 32 bits, the slot's generation in the high ones, so that a key is never used again.
    JobId(u64)
);
define_id!(
    /// A group's position in its job.
    GroupIndex(u16)
);
define_id!(
    /// A task's position in its group, from 0; also its rank there.
    TaskIndex(u32)
);
define_id!(
    /// Which attempt at a task, or which registration of a node; from 1.
    Incarnation(u32)
);
define_id!(
    /// A session, numbered from 1 in the order of opening, never used again. 0 is no session.
    SessionId(u64)
);
define_id!(
    /// A command's number within its session, from 1.
    Sequence(u64)
);
define_id!(
    /// How often a lease has changed hands; late writers carry an old one.
    Epoch(u64)
);
define_id!(
    /// A class of nodes with equal labels and taints.
    ClassId(u32)
);
define_id!(
    /// A shape: the placement-relevant part of a group, shared by all equal groups.
    ShapeId(u32)
);
define_id!(
    /// A resource name's column number.
    ResourceId(u16)
);
define_id!(
    /// One resource of one flavor, in which quota is counted: a column of the quota tree.
    FlavorResource(u16)
);
define_id!(
    /// A topology domain; one tree node.
    DomainId(u32)
);

impl JobId {
    /// The key of generation `generation` of `slot`.
    pub fn new(slot: u32, generation: u32) -> Self {
        JobId(u64::from(generation) << 32 | u64::from(slot))
    }

    /// The slot in the job slab.
    pub fn slot(self) -> u32 {
        self.0 as u32
    }

    /// The generation of the slot.
    pub fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// One task of one group of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskRef {
    /// The job.
    pub job: JobId,
    /// The group within the job.
    pub group: GroupIndex,
    /// The task within the group.
    pub task: TaskIndex,
}

/// One attempt at one task. Evictions, reports and manifests name it; other incarnations are not meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunRef {
    /// The task.
    pub task: TaskRef,
    /// The attempt, from 1.
    pub incarnation: Incarnation,
}

impl RunRef {
    /// The run from its plain numbers.
    pub fn new(job: JobId, group: u16, task: u32, incarnation: u32) -> Self {
        RunRef {
            task: TaskRef { job, group: GroupIndex(group), task: TaskIndex(task) },
            incarnation: Incarnation(incarnation),
        }
    }
}

impl std::fmt::Display for RunRef {
    /// `job.group.task.incarnation` in plain numbers: short, unique, and fit for a file name.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}.{}", self.task.job, self.task.group, self.task.task, self.incarnation)
    }
}
