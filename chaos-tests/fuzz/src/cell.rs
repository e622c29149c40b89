//! A small cell in which a little of everything is under way, for the targets that need one.

use ohm_cell::{Applied, Cell};
use ohm_manifest::{Content, parse};
use ohm_model::{
    Actor, Asked, Class, Command, Entry, Envelope, Epoch, Event, Grain, GroupIndex, Index, JobGuard, Lease, NodeSpec,
    Outcome, Placement, Role, RunRef, RunReport, RunReportKind, Sequence, SessionId, TaskIndex, Transaction,
};

/// What is in the cell from the start.
pub(crate) const DOCUMENTS: &str = include_str!("cell.yaml");
/// How many sessions are open: a server's, one of each class of schedulers, health's and a provisioner's.
pub(crate) const SESSIONS: u64 = 6;
/// How far stamped time moves from entry to entry.
const STEP_MS: u64 = 1_000;

/// A cell and whoever speaks to it.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) cell: Cell,
    sequences: [u64; SESSIONS as usize],
    pub(crate) stamp_ms: u64,
}

impl World {
    /// The cell of [`DOCUMENTS`], with four nodes in two racks, leases held and tasks that run.
    pub(crate) fn new() -> Self {
        let mut world = World { cell: Cell::new(), sequences: [0; SESSIONS as usize], stamp_ms: 1_000_000 };
        let classes = [Class::BATCH, Class::SERVICE, Class::TAS].map(Role::Scheduler);
        for (number, role) in
            [Role::Server].into_iter().chain(classes).chain([Role::Health, Role::Provisioner]).enumerate()
        {
            let command = Command::OpenSession { nonce: 100 + number as u64, role, name: format!("p{number}") };
            world.apply(&Envelope::without_session(command));
        }
        for (session, lease) in [(5, Lease::Health), (6, Lease::Provisioning)] {
            world.say(session, Command::TakeLease { lease, epoch: Epoch(0), renewed: Index(0) });
        }
        (0..4).for_each(|number| world.register(number));
        for command in documents() {
            world.say(1, command);
        }
        for job in ["array", "web", "train"] {
            world.start(job);
        }
        world
    }

    fn register(&mut self, number: u64) {
        let labels = [("rack".into(), format!("r{}", number / 2))].into();
        let capacity = [("cpu", 8000), ("memory", 16 << 30), ("pods", 20), ("nvidia.com/gpu", 4000)];
        let capacity = capacity.map(|(name, amount)| (name.to_string(), amount)).into();
        let (name, address) = (format!("n{number}"), format!("127.1.0.{number}"));
        let spec = NodeSpec { name, labels, taints: Vec::new(), capacity, address };
        self.say(1, Command::RegisterNode { spec, key: 7 + number, instance: 1, boot: 1, alive: Vec::new() });
    }

    /// Places the first tasks of a job and reports the first of them to run.
    fn start(&mut self, name: &str) {
        let job = self.cell.jobs().find(name).expect("the documents have it").clone();
        let session = 2 + Class::BUILT_IN.iter().position(|class| *class == job.spec.class).unwrap_or(0) as u64;
        let lease = Lease::Shard(job.shard);
        let state = self.cell.sessions().lease(lease);
        self.say(session, Command::TakeLease { lease, epoch: state.epoch, renewed: state.renewed });
        let node = self.cell.nodes().find("n0").expect("it was registered");
        let place = Placement {
            job: job.id,
            group: GroupIndex(0),
            first: TaskIndex(0),
            count: job.spec.groups[0].min_count,
            node,
            class: self.cell.nodes().class(node),
            devices: Vec::new(),
        };
        let epoch = Epoch(state.epoch.0 + 1);
        let transaction = Transaction {
            jobs: vec![JobGuard { job: job.id, version: job.version, reserved: false }],
            place: vec![place],
            ..Transaction::empty(job.shard, epoch, self.cell.applied(), Grain::PerTask)
        };
        let outcome = self.say(session, Command::Commit(transaction));
        assert!(
            matches!(&outcome, Outcome::Verdict(verdict) if verdict.conflicts.is_empty()),
            "{name} starts: {outcome:?}"
        );
        let run = RunRef::new(job.id, 0, 0, 1);
        let reports = vec![RunReport { run, kind: RunReportKind::Started { pid: 4711 } }];
        self.say(1, Command::Report { node, reports });
    }

    /// Says something in a session, numbered from 1, under its next number.
    pub(crate) fn say(&mut self, session: u64, command: Command) -> Outcome {
        let envelope = self.envelope(session, command);
        self.apply(&envelope)
    }

    /// A command as the holder of a session would send it next.
    pub(crate) fn envelope(&mut self, session: u64, command: Command) -> Envelope {
        let sequence = &mut self.sequences[session as usize - 1];
        *sequence += 1;
        let asked = Asked { actor: Actor("ada".into()), command };
        Envelope::new(SessionId(session), Sequence(*sequence), Sequence(*sequence), asked)
    }

    /// Does what somebody asks of a server: the outcome, and what happened.
    pub(crate) fn ask(&mut self, asked: Asked) -> (Outcome, Vec<Event>) {
        let envelope = Envelope { actor: asked.actor, ..self.envelope(1, asked.command) };
        let mut applied = self.applied(&envelope);
        (applied.outcomes.remove(0), applied.events)
    }

    /// Applies one envelope as an entry of its own.
    pub(crate) fn apply(&mut self, envelope: &Envelope) -> Outcome {
        self.applied(envelope).outcomes.remove(0)
    }

    fn applied(&mut self, envelope: &Envelope) -> Applied {
        self.stamp_ms = self.stamp_ms.saturating_add(STEP_MS);
        let entry = Entry { stamp_ms: self.stamp_ms, commands: vec![envelope.clone()] };
        let mut applied = Applied::default();
        self.cell.apply(Index(self.cell.applied().0 + 1), &entry, &mut applied);
        applied
    }
}

/// The commands that the documents are.
pub(crate) fn documents() -> Vec<Command> {
    let verdicts = parse("cell.yaml", DOCUMENTS.as_bytes()).into_iter();
    let contents = verdicts.map(|verdict| verdict.unwrap_or_else(|error| panic!("{error}")).content);
    let command = |content| match content {
        Content::Job(job) => Command::SubmitJobs { jobs: vec![*job] },
        Content::Queue(spec) => Command::PutQueue(spec),
        Content::Subqueue(spec) => Command::PutSubqueue(spec),
        Content::ResourceFlavor(flavor) => Command::PutResourceFlavor(flavor),
        Content::Scheduling(scheduling) => Command::PutScheduling(scheduling),
        Content::Topology(spec) => Command::PutTopology(spec),
        Content::PriorityClass(class) => Command::PutPriorityClass(class),
        Content::ProvisioningClass(class) => Command::PutProvisioningClass(*class),
        Content::SchedulingProfile(profile) => Command::PutSchedulingProfile(profile),
        other => panic!("{other:?} is no command"),
    };
    contents.map(command).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_little_of_everything_is_under_way() {
        let world = World::new();
        assert_eq!(world.cell.invariants(), Vec::<String>::new());
        assert_eq!(world.cell.jobs().iter().count(), 6);
        assert_eq!(world.cell.sessions().iter().count(), SESSIONS as usize);
        assert_eq!(world.cell.runs().iter().count(), 4);
    }
}
