//! What goes into an agent core and what comes out of it: one closed list each.

use crate::beats::BeatAnswer;
use crate::conditions::Finding;
use crate::probes::ProbeOrder;
use crate::runner::{LeaseFile, RunnerEvent};
use crate::wanted::{PeersNotice, StartOrder, WantedSet};
use ohm_model::{ConditionKind, Incarnation, Index, NodeCondition, NodeId, Refusal, RunRef, RunReport};
use std::sync::Arc;

/// What an agent core is told.
#[derive(Clone, Debug)]
pub enum AgentInput {
    /// A server can be reached.
    Connected,
    /// No server can be reached.
    Disconnected,
    /// The node is registered, by the `Register` with this instance.
    Registered {
        /// Which attempt.
        instance: u64,
        /// The node's slot.
        node: NodeId,
        /// The registration.
        incarnation: Incarnation,
    },
    /// The cell refuses the registration.
    RegisterRefused {
        /// Which attempt.
        instance: u64,
        /// Why.
        refusal: Refusal,
    },
    /// The cell does not count on this registration any more (the node was declared lost, or removed): register anew.
    RegistrationEnded {
        /// Which registration.
        incarnation: Incarnation,
    },
    /// What the cell wants here.
    Wanted(WantedSet),
    /// The health duty answered a beat.
    BeatAnswer(BeatAnswer),
    /// The runner has something to say.
    Runner(RunnerEvent),
    /// A check of the node found something.
    Checked {
        /// What would be wrong.
        kind: ConditionKind,
        /// What it found.
        finding: Finding,
    },
    /// A batch of reports was applied, or a set of conditions.
    ReportsAccepted {
        /// Which batch.
        batch: u64,
        /// The entry that applied it.
        index: Index,
    },
    /// Time passes.
    Tick,
}

/// What an agent core wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEffect {
    /// Register the node; key, boot id and node description are the shell's.
    Register {
        /// Names this attempt and all its repetitions.
        instance: u64,
        /// The runs that live here: of those that the cell gave up with the node, it lets some live on.
        alive: Vec<RunRef>,
    },
    /// For people: the cell does not want this node, for example because its name is taken. It is tried again.
    RegisterRefused(Refusal),
    /// A sign of life, to be relayed to the health duty.
    Beat {
        /// The node.
        node: NodeId,
        /// The registration.
        incarnation: Incarnation,
        /// Its number.
        sequence: u64,
        /// When, on the own clock; for people and histories only.
        sent_ms: u64,
    },
    /// To the runner: start this run, unless the lease file is of a later registration by then.
    StartRun {
        /// The registration it is started under.
        incarnation: Incarnation,
        /// What and how.
        wanted: StartOrder,
    },
    /// To the runner: stop this run, politely first.
    StopRun {
        /// The run.
        run: RunRef,
        /// Between the polite signal and the kill.
        grace_ms: u64,
    },
    /// To the runner: the peers of this run are these from now on.
    TellPeers {
        /// The run.
        run: RunRef,
        /// They, and the signal that tells of them.
        notice: Arc<PeersNotice>,
    },
    /// To the runner: probe a run; answered by [`RunnerEvent::Probed`].
    Probe(ProbeOrder),
    /// To the runner: the end of this run needs no record any more.
    ForgetRun {
        /// The run.
        run: RunRef,
    },
    /// To the log: what happened to runs.
    SendReports {
        /// Comes back with the acceptance.
        batch: u64,
        /// The node.
        node: NodeId,
        /// The facts, in order.
        reports: Vec<RunReport>,
    },
    /// To the log: all that is wrong with the node, in place of what was said before.
    SendConditions {
        /// Comes back with the acceptance, like a batch's.
        number: u64,
        /// The node.
        node: NodeId,
        /// The registration.
        incarnation: Incarnation,
        /// The whole set.
        conditions: Vec<NodeCondition>,
    },
    /// Replace the lease file.
    WriteLease(LeaseFile),
    /// A newer agent process is registered for this node: this one must end. Its runs go on under the other.
    Superseded,
}
