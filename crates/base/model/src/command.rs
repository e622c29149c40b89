//! Everything that can be asked of a cell. One closed list: every cause of change is visible here.

use crate::budget::Budget;
use crate::condition::NodeCondition;
use crate::ids::{Epoch, Incarnation, Index, JobId, NodeId, RunRef, Sequence, SessionId};
use crate::job::JobSpec;
use crate::lease::{Lease, Role, TakeOver};
use crate::namespace::Namespace;
use crate::node::{NodeConclusion, NodeSpec};
use crate::priority::PriorityClass;
use crate::profile::SchedulingProfile;
use crate::provisioning::{CheckReport, ProvisioningClass};
use crate::queue::{QueueSpec, ResourceFlavor, Scheduling};
use crate::run::RunReport;
use crate::subqueue::Subqueue;
use crate::taint::{Taint, TaintPattern};
use crate::topology::TopologySpec;
use crate::transaction::Transaction;
use ohm_stdx::codec::{self, DecodeError};
use serde::{Deserialize, Serialize};

/// What one log entry holds: commands that were appended together, and the time their proposer stamped on them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Wall clock of the proposer in milliseconds since 1970. The cell's clock never falls; nothing safe hangs on it.
    pub stamp_ms: u64,
    /// The commands, applied in order.
    pub commands: Vec<Envelope>,
}

/// A command and what makes it happen exactly once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The sender's session; 0 for `OpenSession` and for `Tick`.
    pub session: SessionId,
    /// Its number in the session, from 1; 0 with session 0.
    pub sequence: Sequence,
    /// Every sequence below this one has been answered to the sender's satisfaction.
    pub done_below: Sequence,
    /// On whose behalf.
    pub actor: Actor,
    /// The command.
    pub command: Command,
}

/// Who wants a command done: a person or program that a server speaks for, by name. Empty where the process that holds
/// the session wants it itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor(pub String);

impl From<&str> for Actor {
    fn from(name: &str) -> Self {
        Actor(name.into())
    }
}

/// A command and who wants it done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// On whose behalf.
    pub actor: Actor,
    /// The command.
    pub command: Command,
}

/// What the process that holds the session wants itself.
impl From<Command> for Asked {
    fn from(command: Command) -> Self {
        Asked { actor: Actor::default(), command }
    }
}

/// A wish. Applied on every copy in the same order with the same outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Opens a session. The same nonce opens the same session, whatever is retried.
    OpenSession {
        /// Drawn at random by the process.
        nonce: u64,
        /// What it does.
        role: Role,
        /// For people: host and process.
        name: String,
    },
    /// Ends the sender's session and gives back its leases.
    CloseSession,
    /// Renews the session and with it every lease it holds.
    KeepAlive,
    /// Takes a free lease, or one whose holder was not renewed since `renewed`.
    TakeLease {
        /// Which.
        lease: Lease,
        /// The epoch seen; the new one is one higher.
        epoch: Epoch,
        /// The holder's last renewal seen; must still be the last.
        renewed: Index,
    },
    /// Gives a lease back.
    ReleaseLease {
        /// Which.
        lease: Lease,
        /// The epoch it was held under.
        epoch: Epoch,
    },
    /// Registers a node, or the restart of its agent.
    RegisterNode {
        /// What it is.
        spec: NodeSpec,
        /// Drawn at random by the agent and kept in its folder: who the node is.
        key: u64,
        /// Drawn at random by each agent process: a retry is no new registration.
        instance: u64,
        /// Which boot of the machine it is, counted in the folder that holds the key: after a reboot nothing runs there
        /// any more, and what an earlier boot still had to say comes too late. Another boot is taken once the node is
        /// lost, and not before: it may be that of a copy of the machine.
        boot: u64,
        /// The runs that live there now: they have outlived the lease of the node, or only its agent.
        alive: Vec<RunRef>,
    },
    /// The health duty's conclusions about nodes that changed together. Each is taken by itself, and one that is
    /// overtaken by a newer registration is passed over. When none can be taken, the command is refused with the reason
    /// of the first.
    ConcludeNodes {
        /// The duty's epoch.
        epoch: Epoch,
        /// The conclusions.
        conclusions: Vec<NodeConclusion>,
    },
    /// The health duty is about to grant leases of this length, or grants no longer ones any more. The cell keeps it as
    /// the bound of every node lease that may be in force.
    BoundNodeLease {
        /// The duty's epoch.
        epoch: Epoch,
        /// The bound that the duty has seen; refused when it is another one by now.
        seen_ms: u64,
        /// In milliseconds; refused when it does not outlast the duty changing hands.
        lease_ms: u64,
        /// How long that takes.
        take_over: TakeOver,
    },
    /// The health duty puts off conclusions because very many nodes fell silent at once, or does so no more.
    HoldConclusions {
        /// The duty's epoch.
        epoch: Epoch,
        /// How many nodes are silent; 0 when the brake is off again.
        silent: u32,
        /// For how long at most, in milliseconds.
        brake_ms: u64,
    },
    /// Cordons or uncordons a node.
    CordonNode {
        /// By name.
        name: String,
        /// Whether new work is kept away.
        cordoned: bool,
    },
    /// Puts a taint on a node, beside those that it registers with; refused where the node has one of this key and
    /// effect.
    TaintNode {
        /// By name.
        name: String,
        /// The taint.
        taint: Taint,
    },
    /// Takes taints off a node that were put there by [`Command::TaintNode`]; refused where it has none of them.
    UntaintNode {
        /// By name.
        name: String,
        /// Which.
        pattern: TaintPattern,
    },
    /// Takes a node out of the cell; refused while it holds runs, unless it is lost.
    RemoveNode {
        /// By name.
        name: String,
    },
    /// What happened to runs on one node.
    Report {
        /// The node.
        node: NodeId,
        /// The facts, in order.
        reports: Vec<RunReport>,
    },
    /// Submits jobs, which belong to the actor; each is judged alone.
    SubmitJobs {
        /// The jobs.
        jobs: Vec<JobSpec>,
    },
    /// Ends a job for good.
    CancelJob {
        /// By name.
        name: String,
        /// What still runs of it has no more than this from the polite signal on; what its tasks ask for when absent.
        /// Said again of a job that is over, it hurries those that still stop.
        grace_ms: Option<u64>,
    },
    /// Stops a job's runs and keeps it from being placed.
    SuspendJob {
        /// By name.
        name: String,
    },
    /// Lets a suspended job be placed again.
    ResumeJob {
        /// By name.
        name: String,
    },
    /// Pauses, resumes or promotes the rollout of a service, or takes it back.
    Rollout {
        /// By name.
        name: String,
        /// What is to happen.
        action: crate::rollout::RolloutAction,
    },
    /// A scheduler's plan.
    Commit(Transaction),
    /// Adds or changes a queue or cohort.
    PutQueue(QueueSpec),
    /// Removes a queue or cohort that nothing uses.
    RemoveQueue {
        /// By name.
        name: String,
    },
    /// Adds or changes a subqueue. One that jobs name stays with its queue.
    PutSubqueue(Subqueue),
    /// Removes a subqueue that no job names.
    RemoveSubqueue {
        /// By name.
        name: String,
    },
    /// Adds a topology; the same one again is fine, another one under its name is not.
    PutTopology(TopologySpec),
    /// Removes a topology that no job uses.
    RemoveTopology {
        /// By name.
        name: String,
    },
    /// Raises the apply version, once every copy reports it.
    RaiseVersion {
        /// The new version.
        version: u32,
    },
    /// Lets stamped time pass: back-offs, deadlines, nominations, forgetting.
    Tick,
    /// Forgets a finished job before its time, which frees its name; refused while a run of it still stops.
    ForgetJob {
        /// By name.
        name: String,
    },
    /// Adds a priority class; one that is there keeps its value.
    PutPriorityClass(PriorityClass),
    /// Removes a priority class; jobs that named it keep the priority they got.
    RemovePriorityClass {
        /// By name.
        name: String,
    },
    /// Adds or replaces a namespace.
    PutNamespace(Namespace),
    /// Removes a namespace; refused while the cell knows jobs or disruption budgets in it.
    RemoveNamespace {
        /// By name.
        name: String,
    },
    /// Changes the job of this name to what is given here; answered like a submit of one job.
    UpdateJob {
        /// The whole job as it is to be.
        spec: Box<JobSpec>,
        /// Only if the job still has this version; whatever it is when left out.
        version: Option<Index>,
    },
    /// What an agent finds wrong with its node: the whole set, in place of what it said before.
    ReportConditions {
        /// The node.
        node: NodeId,
        /// The registration it speaks for; an earlier one is no longer heard.
        incarnation: Incarnation,
        /// Counts what this registration says; what comes later than a higher number says nothing any more.
        number: u64,
        /// The conditions that hold; of several of one kind the first counts.
        conditions: Vec<NodeCondition>,
    },
    /// Ends the hold-down of a node that was lost too often, and forgets how often it did.
    ReleaseNode {
        /// By name.
        name: String,
    },
    /// Adds or changes a provisioning class; requests that are under way keep what they asked for.
    PutProvisioningClass(ProvisioningClass),
    /// Removes a provisioning class that no queue and no job uses.
    RemoveProvisioningClass {
        /// By name.
        name: String,
    },
    /// What the provisioning duty says about a check of a job.
    ReportCheck {
        /// The duty's epoch.
        epoch: Epoch,
        /// The job.
        job: JobId,
        /// The round of admission that it is about; another one is not meant.
        round: u32,
        /// The check, by the name of its class.
        class: String,
        /// The number of the request that a repair has made of the class; 0 is the check itself.
        repair: u32,
        /// What it says.
        report: CheckReport,
    },
    /// Drains a node: it takes no new work, and what stands on it goes elsewhere. A node that drains already gets the
    /// new limits. Cleared by [`Command::UndrainNode`] or with the node, by nothing else.
    DrainNode {
        /// By name.
        name: String,
        /// So many milliseconds of stamped time after this entry, what still stands there is stopped, whether there is
        /// a place for it or not; 0 is never.
        deadline_ms: u64,
        /// How many tasks of one group of a service may be on the move at the same time; 0 counts as 1. Other jobs
        /// move as fast as there is room: a gang that misses one of its tasks idles anyway.
        at_once: u32,
    },
    /// Ends the drain of a node. What is on the move goes on, the rest stays.
    UndrainNode {
        /// By name.
        name: String,
    },
    /// Adds or changes the profile of a class. One for a class of an operator makes the class known; one for a built-in
    /// class takes the place of what every cell has.
    PutSchedulingProfile(Box<SchedulingProfile>),
    /// Removes a profile, and with it the class, unless it is built in. Refused while the class has unfinished jobs.
    RemoveSchedulingProfile {
        /// By name.
        name: String,
    },
    /// The provisioning duty says that these nodes were taken back by who brought them. Each leaves the cell as soon as
    /// it is lost; one that has come back to work meanwhile stays.
    ReportReleased {
        /// The duty.
        epoch: Epoch,
        /// The nodes, each with the entry since which it goes back.
        nodes: Vec<(NodeId, Index)>,
    },
    /// Adds or changes a resource flavor. What stands or is reserved keeps what it was given.
    PutResourceFlavor(Box<ResourceFlavor>),
    /// Removes a resource flavor that no queue and no cohort names.
    RemoveResourceFlavor {
        /// By name.
        name: String,
    },
    /// Says what holds for all queues of the cell.
    PutScheduling(Scheduling),
    /// Adds or changes a disruption budget. What stops already goes on.
    PutBudget(Budget),
    /// Removes a disruption budget.
    RemoveBudget {
        /// By name.
        name: String,
    },
}

/// The format byte of log entries; a newer one is refused.
pub const ENTRY_FORMAT: u8 = 1;

impl Entry {
    /// The bytes of the entry as they stand in the log.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        codec::encode_frame(ENTRY_FORMAT, self, &mut bytes);
        bytes
    }

    /// Puts commands that were encoded one by one (with [`Envelope::encode`]) together as one entry. Gives the same
    /// bytes as [`Entry::encode`] without encoding anything twice.
    pub fn assemble<'a>(stamp_ms: u64, commands: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
        let mut body = codec::encode(&(stamp_ms, commands.len() as u64));
        commands.for_each(|command| body.extend_from_slice(command));
        let mut bytes = Vec::new();
        codec::frame(ENTRY_FORMAT, &body, &mut bytes);
        bytes
    }

    /// Reads an entry back.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (entry, taken) = codec::decode_frame(ENTRY_FORMAT, bytes)?;
        if taken != bytes.len() {
            return Err(DecodeError::Body(format!("{} bytes after the entry", bytes.len() - taken)));
        }
        Ok(entry)
    }
}

impl Envelope {
    /// The bytes of one command, for [`Entry::assemble`].
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// What the process that holds `session` wants itself, or with [`Asked`] somebody it speaks for.
    pub fn new(session: SessionId, sequence: Sequence, done_below: Sequence, asked: impl Into<Asked>) -> Self {
        let Asked { actor, command } = asked.into();
        Envelope { session, sequence, done_below, actor, command }
    }

    /// A command without a session: an opening or a tick.
    pub fn without_session(command: Command) -> Self {
        Envelope::new(SessionId(0), Sequence(0), Sequence(0), command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assembling_gives_the_bytes_of_the_whole() {
        for count in [0usize, 1, 3, 300] {
            let command = Command::CancelJob { name: "train".into(), grace_ms: None };
            let asked = Asked { actor: "ann".into(), command };
            let envelope = Envelope::new(SessionId(900), Sequence(7), Sequence(3), asked);
            let entry = Entry { stamp_ms: 1 << 41, commands: vec![envelope.clone(); count] };
            let parts = vec![envelope.encode(); count];
            let assembled = Entry::assemble(entry.stamp_ms, parts.iter().map(Vec::as_slice));
            assert_eq!(assembled, entry.encode());
            assert_eq!(Entry::decode(&assembled).unwrap(), entry);
        }
    }
}
