//! An entry and what it caused, as plain facts in the order in which they came true. Events say what happened; who
//! a new node or job is stands in the command, so the two are brought together here.

use crate::history::Caused;
use crate::wanted::Wishes;
use ohm_model::transaction::Row;
use ohm_model::{
    Class, ClassKind, Command, Entry, Event, EventKind, Grain, Incarnation, JobId, JobOutcome, JobSpec, NodeId,
    NodeSpec, Outcome, QueueSpec, RolloutEvent, Sequence, SessionId, TopologySpec, Transaction, Verdict,
};
use std::collections::{BTreeMap, BTreeSet};

/// One fact.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fact<'a> {
    /// A node joined, or its agent did so again, and this is what the node is from here on; with the stamped time.
    Registered { at_ms: u64, node: NodeId, spec: &'a NodeSpec },
    /// A job is in the cell; it is endless when its class is like service.
    Submitted { job: JobId, spec: &'a JobSpec, endless: bool },
    /// A job is from here on what is said here; while it is rolled out its owner has declared something else.
    Updated { job: JobId, spec: &'a JobSpec, declared: &'a JobSpec, endless: bool },
    /// Anything else, at this stamped time.
    Happened { at_ms: u64, kind: &'a EventKind },
}

impl Fact<'_> {
    /// The node of which this changes what it is, or whether it takes work.
    pub(crate) fn changed_node(&self) -> Option<NodeId> {
        match self {
            Fact::Registered { node, .. } => Some(*node),
            Fact::Happened { kind, .. } => match kind {
                EventKind::NodeHealth { node, .. }
                | EventKind::NodeCordoned { node, .. }
                | EventKind::NodeTainted { node, .. }
                | EventKind::NodeCondition { node, .. }
                | EventKind::NodeDraining { node, .. }
                | EventKind::NodeUndrained { node, .. } => Some(*node),
                _ => None,
            },
            Fact::Submitted { .. } | Fact::Updated { .. } => None,
        }
    }
}

/// What an entry changed about the rules of the cell. No event tells of these, so their place among the facts is not
/// known.
#[derive(Debug, Default)]
pub(crate) struct Rules<'a> {
    /// Topologies that are there now.
    pub(crate) topologies: Vec<&'a TopologySpec>,
    /// Topologies that are gone.
    pub(crate) removed_topologies: Vec<&'a str>,
    /// Queues and cohorts that are as told now.
    pub(crate) queues: Vec<&'a QueueSpec>,
    /// Queues and cohorts that are gone.
    pub(crate) removed_queues: Vec<&'a str>,
}

impl Rules<'_> {
    /// Whether they put or remove this queue.
    pub(crate) fn change_queue(&self, queue: &str) -> bool {
        self.queues.iter().any(|spec| spec.name == queue) || self.removed_queues.contains(&queue)
    }
}

/// A command that was taken, with its answer.
pub(crate) type Taken<'a> = (&'a Command, &'a Outcome);

/// What an entry takes, by session, but for commands that were sent again and got the answer of the first time: `known`
/// says which have been answered.
pub(crate) fn taken<'a>(
    entry: &'a Entry,
    applied: &'a Caused,
    known: &mut BTreeSet<(SessionId, Sequence)>,
) -> Vec<(SessionId, Taken<'a>)> {
    let all = entry.commands.iter().zip(&applied.outcomes);
    let answered = all.filter(|(_, outcome)| !matches!(outcome, Outcome::Refused(_)));
    let first = answered.filter(|(envelope, _)| {
        envelope.sequence == Sequence(0) || known.insert((envelope.session, envelope.sequence))
    });
    first.map(|(envelope, outcome)| (envelope.session, (&envelope.command, outcome))).collect()
}

/// Whether the log did what this row of a transaction asks for.
pub(crate) fn is_granted(transaction: &Transaction, verdict: &Verdict, row: Row) -> bool {
    let together = transaction.grain == Grain::AllOrNothing;
    !verdict.conflicts.iter().any(|found| together || found.row == row || found.row == Row::Whole)
}

/// What classes are like. A class of which no profile was submitted is built in.
#[derive(Debug, Default)]
pub(crate) struct Classes(BTreeMap<Class, ClassKind>);

impl Classes {
    fn is_endless(&self, class: Class) -> bool {
        self.0.get(&class).copied().or(class.built_in()) == Some(ClassKind::Service)
    }
}

/// The facts of one entry.
pub(crate) fn facts<'a>(
    taken: &[Taken<'a>],
    (applied, wishes): (&'a Caused, &'a Wishes),
    classes: &mut Classes,
) -> Vec<Fact<'a>> {
    let mut nodes: BTreeMap<Incarnation, &NodeSpec> = BTreeMap::new();
    let mut jobs: BTreeMap<JobId, (&JobSpec, bool)> = BTreeMap::new();
    for (command, outcome) in taken {
        match (command, outcome) {
            (Command::PutSchedulingProfile(profile), Outcome::Done) => {
                classes.0.insert(profile.class, profile.like);
            }
            (Command::RegisterNode { spec, .. }, Outcome::Node { incarnation, .. }) => {
                nodes.entry(*incarnation).or_insert(spec);
            }
            (Command::SubmitJobs { jobs: specs, .. }, Outcome::Jobs(outcomes)) => {
                for (spec, outcome) in specs.iter().zip(outcomes) {
                    if let JobOutcome::Accepted(job) = outcome {
                        jobs.entry(*job).or_insert((spec, classes.is_endless(spec.class)));
                    }
                }
            }
            _ => {}
        }
    }
    let fact = |event: &'a Event| match &event.kind {
        EventKind::NodeRegistered { node, incarnation, .. } => match nodes.get(incarnation) {
            Some(spec) => Fact::Registered { at_ms: event.at_ms, node: *node, spec },
            None => Fact::Happened { at_ms: event.at_ms, kind: &event.kind },
        },
        EventKind::JobSubmitted { job, .. } => match jobs.get(job) {
            Some(&(spec, endless)) => Fact::Submitted { job: *job, spec, endless },
            None => Fact::Happened { at_ms: event.at_ms, kind: &event.kind },
        },
        kind => Fact::Happened { at_ms: event.at_ms, kind },
    };
    let mut facts = Vec::with_capacity(applied.events.len());
    for (at, event) in applied.events.iter().enumerate() {
        if let Some((job, wish)) = job_of(&event.kind).zip(wishes.get(&at)) {
            let (spec, declared) = (&wish.wanted, &wish.declared);
            facts.push(Fact::Updated { job, spec, declared, endless: classes.is_endless(spec.class) });
        }
        // The change of a job is told by what it is from there on.
        if !matches!(event.kind, EventKind::JobUpdated { .. }) {
            facts.push(fact(event));
        }
    }
    facts
}

/// The job that an event changes.
fn job_of(kind: &EventKind) -> Option<JobId> {
    match kind {
        EventKind::JobUpdated { job, .. } | EventKind::Rollout(RolloutEvent { job, .. }) => Some(*job),
        _ => None,
    }
}

/// The changes of rules in one entry.
pub(crate) fn rules<'a>(taken: &[Taken<'a>]) -> Rules<'a> {
    let mut rules = Rules::default();
    for (command, outcome) in taken {
        match (command, outcome) {
            (Command::PutTopology(spec), Outcome::Done) => rules.topologies.push(spec),
            (Command::RemoveTopology { name }, Outcome::Done) => rules.removed_topologies.push(name),
            (Command::PutQueue(spec), Outcome::Done) => rules.queues.push(spec),
            (Command::RemoveQueue { name }, Outcome::Done) => rules.removed_queues.push(name),
            _ => {}
        }
    }
    rules
}
