//! Cells written as text, for the tests and benchmarks of this crate and of the planners.
//!
//! ```text
//! topology main zone rack kubernetes.io/hostname
//! queue team cpu=10
//! node a cpu=8 memory=32Gi gpu=2 zone=z1 rack=r1 taint=dedicated:yes:NoSchedule cordoned
//! job train class=tas queue=team priority=5
//! group workers count=4 min=2 cpu=2 gpu=500m max=1 ports=80,443 spread elastic topology=required:rack with=x
//! + label=app:web far=app:web@zone near=app:db@rack even=app:web@rack*2   (rules about other tasks; at most 2 more)
//! + likes=app:web@zone*5 likes=app:db@rack*-2 evenly=app:web@zone   (what is only preferred)
//! + select=zone:z1 affinity=disk:ssd,nvme prefer=10:zone:z2 tolerate=dedicated
//! place train                    (plans it with the planner at hand and commits the plan)
//! nominate train a 2             (keeps room on a node for two tasks of its first group)
//! finish train 0                 (ends the run of task 0 of its first group, successfully)
//! fail train 1                   (ends the run of task 1 of its first group with code 1)
//! suspend train                  (its runs are to stop)
//! resume train
//! lose a                         (declares a node lost)
//! leave train a b                (drains a node: the first group of the job has room on another one, and is to leave)
//! shrink a cpu=2                 (the node's agent registers again with these amounts instead of its former ones)
//! wait 500                       (lets stamped time pass, in ms: back-offs end)
//! ```
//!
//! `gpu` is short for `nvidia.com/gpu`; every other word with `=` on a node that is no amount is a label; a node has
//! room for 110 pods unless it says otherwise. A line that starts with `+` goes on with the one before.

pub mod random;
mod words;

pub use words::{group, job, node};

use crate::demand_key::REFUSED;
use crate::placer::Placer;
use crate::subject::Subject;
use ohm_cell::{Applied, Cell, Overlay, runs_to_move};
use ohm_framework::{Board, Budget, Decision, Need, Planner, View, Work, WorkItem, need_of};
use ohm_model::lease::SHARDS_PER_CLASS;
use ohm_model::{
    Class, Command, Entry, Envelope, Epoch, Exit, Grain, JobId, JobSpec, Lease, NodeConclusion, NodeHealth, NodeId,
    NodeSpec, Nomination, Outcome, Purpose, Role, RunRef, RunReport, RunReportKind, Sequence, SessionId, Shard,
    StopCause, TopologySpec, Transaction, Verdict,
};
use ohm_stdx::Prng;
use std::collections::{BTreeMap, BTreeSet};
use words::{joined, queue};

/// A cell with an open session that holds every lease there is.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// The cell.
    pub cell: Cell,
    /// The session.
    pub session: SessionId,
    /// How many plans of each job are said to have collided before.
    pub attempt: u32,
    /// The jobs and nodes that have changed since somebody took them.
    pub changed: (BTreeSet<JobId>, BTreeSet<NodeId>),
    sequence: u64,
    index: u64,
    waited_ms: u64,
}

impl World {
    /// An empty cell.
    pub fn new() -> Self {
        let mut world = World { cell: Cell::new(), ..World::default() };
        let open = Command::OpenSession { nonce: 1, role: Role::Scheduler(Class::BATCH), name: "test".into() };
        match world.send(Envelope::without_session(open)) {
            Outcome::Session(session) => world.session = session,
            other => panic!("no session: {other:?}"),
        }
        world.take_lease(Lease::Health);
        for class in Class::BUILT_IN {
            (0..SHARDS_PER_CLASS).for_each(|number| world.take_lease(Lease::Shard(Shard { class, number })));
        }
        world
    }

    /// The cell that `text` describes; lines that place are planned by `planner`.
    pub fn of(text: &str, planner: &mut dyn Planner) -> Self {
        let mut world = World::new();
        world.extend(text, planner);
        world
    }

    /// Goes on with more lines.
    pub fn extend(&mut self, text: &str, planner: &mut dyn Planner) {
        let mut last: Option<JobSpec> = None;
        for line in joined(text) {
            let (head, rest) = line.split_once(' ').unwrap_or((&line, ""));
            if head == "group" {
                let job = last.as_mut().unwrap_or_else(|| panic!("a group without a job: {line}"));
                job.groups.push(group(job.class, rest));
                continue;
            }
            self.submit(last.take());
            match head {
                "job" => last = Some(job(rest)),
                _ => self.line(head, rest, planner),
            }
        }
        self.submit(last);
    }

    fn line(&mut self, head: &str, rest: &str, planner: &mut dyn Planner) {
        let words: Vec<&str> = rest.split_whitespace().collect();
        match head {
            "node" => self.register(node(rest)),
            "topology" => {
                let levels = words[1..].iter().map(|word| word.to_string()).collect();
                self.done(Command::PutTopology(TopologySpec { name: words[0].into(), levels }));
            }
            "queue" => self.done(Command::PutQueue(queue(rest))),
            "place" => {
                let (text, verdict) = self.place(words[0], planner);
                assert!(verdict.is_some_and(|verdict| verdict.conflicts.is_empty()), "place {rest}: {text}");
            }
            "nominate" => self.nominate(words[0], words[1], words[2].parse().expect("a count")),
            "finish" => self.end(words[0], words[1].parse().expect("a task"), Exit::Code(0)),
            "fail" => self.end(words[0], words[1].parse().expect("a task"), Exit::Code(1)),
            "suspend" => self.done(Command::SuspendJob { name: words[0].into() }),
            "resume" => self.done(Command::ResumeJob { name: words[0].into() }),
            "lose" => self.lose(words[0]),
            "leave" => self.leave(words[0], words[1], words[2]),
            "wait" => self.wait(words[0].parse().expect("milliseconds")),
            "shrink" => self.shrink(words[0], rest),
            _ => panic!("what is {head}?"),
        }
    }

    /// Applies one command in an entry of its own.
    pub fn apply(&mut self, command: Command) -> Outcome {
        self.sequence += 1;
        let (session, sequence) = (self.session, Sequence(self.sequence));
        self.send(Envelope::new(session, sequence, sequence, command))
    }

    fn send(&mut self, envelope: Envelope) -> Outcome {
        self.index += 1;
        let entry = Entry { stamp_ms: 1_000 + self.waited_ms + self.index, commands: vec![envelope] };
        let mut applied = Applied::default();
        self.cell.apply(ohm_model::Index(self.index), &entry, &mut applied);
        self.changed.0.extend(applied.jobs);
        self.changed.1.extend(applied.nodes);
        applied.outcomes.remove(0)
    }

    fn done(&mut self, command: Command) {
        if let Outcome::Refused(refusal) = self.apply(command) {
            panic!("{refusal}");
        }
    }

    fn take_lease(&mut self, lease: Lease) {
        self.done(Command::TakeLease { lease, epoch: Epoch(0), renewed: ohm_model::Index(0) });
    }

    /// Registers a node; the word `cordoned` among its labels cordons it.
    pub fn register(&mut self, mut spec: NodeSpec) {
        let (name, cordoned) = (spec.name.clone(), spec.labels.remove("cordoned").is_some());
        self.done(Command::RegisterNode { spec, key: 1, instance: self.index, boot: 1, alive: Vec::new() });
        if cordoned {
            self.done(Command::CordonNode { name, cordoned });
        }
    }

    /// Submits a job.
    pub fn submit(&mut self, job: Option<JobSpec>) {
        let Some(job) = job else { return };
        let outcome = self.apply(Command::SubmitJobs { jobs: vec![job] });
        assert!(format!("{outcome:?}").contains("Accepted"), "{outcome:?}");
    }

    /// The key of the job called `name`.
    pub fn job(&self, name: &str) -> JobId {
        self.cell.jobs().find(name).unwrap_or_else(|| panic!("no job is called {name}")).id
    }

    /// What `planner` decides about the job called `name`, on tables made anew.
    pub fn plan(&self, name: &str, planner: &mut dyn Planner) -> Decision {
        self.plan_all(&[name], planner).remove(0)
    }

    /// What `planner` decides about these jobs in one pass, on tables made anew.
    pub fn plan_all(&self, names: &[&str], planner: &mut dyn Planner) -> Vec<Decision> {
        self.plan_within(names, Budget::UNBOUNDED, planner)
    }

    /// The same within a budget.
    pub fn plan_within(&self, names: &[&str], budget: Budget, planner: &mut dyn Planner) -> Vec<Decision> {
        let mut over = Overlay::default();
        let mut board = Board::new(&self.cell, &mut over, self.session);
        planner.reset(&board.view());
        let jobs = names.iter().map(|name| self.item(name)).collect();
        planner.plan(&mut board, &Work { jobs, budget }, &mut Prng::new(1)).decisions
    }

    /// The job called `name` as work.
    pub fn item(&self, name: &str) -> WorkItem {
        let job = self.job(name);
        let need = self.cell.jobs().get(job).and_then(|job| need_of(&self.cell, job)).unwrap_or(Need::Start);
        let nominated = self.cell.nominations().nominates(job);
        WorkItem { job, need, attempt: self.attempt, nominated, counted: true }
    }

    /// Plans a job and commits the plan; says what was decided, and what the log said.
    pub fn place(&mut self, name: &str, planner: &mut dyn Planner) -> (String, Option<Verdict>) {
        let decision = self.plan(name, planner);
        let text = self.text(&decision);
        (text, self.commit(&decision))
    }

    /// Commits what was decided, if anything was.
    pub fn commit(&mut self, decision: &Decision) -> Option<Verdict> {
        let transaction = self.transaction(decision)?;
        match self.apply(Command::Commit(transaction)) {
            Outcome::Verdict(verdict) => Some(verdict),
            other => panic!("{other:?}"),
        }
    }

    /// What was decided, as a transaction.
    pub fn transaction(&self, decision: &Decision) -> Option<Transaction> {
        let Decision::Planned(planned) = decision else { return None };
        let shard = self.cell.jobs().get(planned.job.job)?.shard;
        Some(Transaction {
            guard: planned.guard,
            jobs: vec![planned.job],
            flavors: planned.flavors.clone(),
            evict: planned.evict.clone(),
            place: planned.place.clone(),
            nominate: planned.nominate.clone(),
            reserve: if planned.reserve { vec![planned.job.job] } else { Vec::new() },
            preempt: planned.preempt.clone(),
            breaks: planned.breaks,
            ..Transaction::empty(shard, Epoch(1), self.cell.applied(), planned.grain)
        })
    }

    /// A decision in words: `workers 0-3 on a, 4 on b (devices 1 2)`, or why not.
    pub fn text(&self, decision: &Decision) -> String {
        let planned = match decision {
            Decision::Nothing(_) => return "nothing to do".into(),
            Decision::Unplaced(why) => return why.to_text(&self.cell),
            Decision::Planned(planned) => planned,
        };
        let mut lines: Vec<String> = Vec::new();
        let mut group = None;
        for row in &planned.place {
            let job = self.cell.jobs().get(row.job).map(|job| &job.spec.groups[usize::from(row.group.0)]);
            let tasks = match row.count {
                1 => row.first.to_string(),
                count => format!("{}-{}", row.first, row.first.0 + count - 1),
            };
            let mut part = format!("{tasks} on {}", self.cell.nodes().name(row.node));
            if row.devices.iter().any(|mask| *mask != 0) {
                let masks = row.devices.iter().map(|mask| format!("{mask:b}")).collect::<Vec<_>>();
                part += &format!(" [{}]", masks.join(" "));
            }
            if group == Some(row.group)
                && let Some(line) = lines.last_mut()
            {
                *line += &format!(", {part}");
            } else {
                lines.push(format!("{} {part}", job.map_or("?", |group| &group.name)));
            }
            group = Some(row.group);
        }
        for room in planned.nominate.iter().filter(|room| room.is_spare()) {
            lines.push(format!("{} spare on {}", room.count, self.cell.nodes().name(room.node)));
        }
        if planned.reserve {
            lines.push("reserves".into());
        }
        if let Some(why) = &planned.rest {
            lines.push(format!("rest: {}", why.to_text(&self.cell)));
        }
        lines.join("\n")
    }

    fn nominate(&mut self, name: &str, node: &str, count: u32) {
        let purpose = Purpose::Preemptor { expires_ms: u64::MAX };
        self.reserve(name, node, (count, purpose), Grain::PerTask, Vec::new());
    }

    fn leave(&mut self, name: &str, from: &str, to: &str) {
        self.done(Command::DrainNode { name: from.into(), deadline_ms: 0, at_once: u32::MAX });
        let runs = runs_to_move(&self.cell, self.cell.jobs().find(name).expect("a job"));
        let evict: Vec<_> = runs.into_iter().map(|run| (run, StopCause::Drained)).collect();
        self.reserve(name, to, (evict.len() as u32, Purpose::Move), Grain::AllOrNothing, evict);
        let job = self.cell.jobs().find(name).expect("a job");
        assert!(!job.groups[0].moving.is_empty(), "the log takes no move of {name} from {from} to {to}");
    }

    fn reserve(
        &mut self,
        name: &str,
        node: &str,
        (count, purpose): (u32, Purpose),
        grain: Grain,
        evict: Vec<(RunRef, StopCause)>,
    ) {
        let job = self.cell.jobs().find(name).unwrap_or_else(|| panic!("no job is called {name}")).clone();
        let node = self.cell.nodes().find(node).expect("a node");
        let group = ohm_model::GroupIndex(0);
        let first = evict.iter().map(|(run, _)| run.task.task).min().unwrap_or_default();
        let guard = View::new(&self.cell, &Overlay::default(), self.session).guard(&job);
        let transaction = Transaction {
            jobs: vec![guard],
            evict,
            nominate: vec![Nomination { job: job.id, group, node, first, count, purpose }],
            ..Transaction::empty(job.shard, Epoch(1), self.cell.applied(), grain)
        };
        self.done(Command::Commit(transaction));
    }

    fn wait(&mut self, wait_ms: u64) {
        self.waited_ms += wait_ms;
        self.send(Envelope::without_session(Command::Tick));
    }

    fn shrink(&mut self, name: &str, rest: &str) {
        let record = self.cell.nodes().find(name).and_then(|node| self.cell.nodes().get(node)).expect("a node");
        let mut spec = (*record.spec).clone();
        let amounts = node(rest).capacity;
        spec.capacity.extend(amounts.into_iter().filter(|(key, _)| key != "pods"));
        self.register(spec);
    }

    fn end(&mut self, name: &str, task: usize, exit: Exit) {
        let job = self.cell.jobs().find(name).expect("a job");
        let slot = job.groups[0].tasks[task].run;
        let run = self.cell.runs().get(slot).expect("a live run");
        let (node, run) = (run.node, run.run);
        let kind = RunReportKind::Ended { exit, message: String::new() };
        self.done(Command::Report { node, reports: vec![RunReport { run, kind }] });
    }

    fn lose(&mut self, name: &str) {
        let node = self.cell.nodes().find(name).expect("a node");
        let incarnation = self.cell.nodes().get(node).expect("a record").incarnation;
        self.done(Command::ConcludeNodes {
            epoch: Epoch(1),
            conclusions: vec![NodeConclusion { node, incarnation, health: NodeHealth::Lost }],
        });
    }
}

/// Whether the fast scan lets each node take a task of the subject's group. Nodes that are asked one by one are left
/// out.
pub fn scanned(placer: &mut Placer, subject: &Subject<'_>) -> BTreeMap<NodeId, bool> {
    let (slot, _) = placer.index(subject);
    let (table, index) = placer.parts(slot);
    let nodes = subject.view.cell().nodes().iter().map(|(node, _)| node).filter(|node| !table.is_singled(*node));
    let takes = |node: NodeId| {
        let open = index.demand.kind_cost(table.kind(node)) != REFUSED;
        (node, open && index.demand.fits(table, &subject.view, node))
    };
    nodes.map(takes).collect()
}

/// Asserts what `planner` decides about the last job of `text`, and that the log takes every row of it.
pub fn check(planner: &mut dyn Planner, text: &str, expected: &str) {
    let mut world = World::of(text, planner);
    let jobs: Vec<String> = joined(text).filter_map(|line| line.strip_prefix("job ").map(String::from)).collect();
    let name = jobs.last().and_then(|job| job.split_whitespace().next()).expect("a job").to_string();
    let (found, verdict) = world.place(&name, planner);
    let expected = joined(expected).collect::<Vec<_>>().join("\n");
    assert_eq!(found, expected, "\nfor\n{text}");
    if let Some(verdict) = verdict {
        assert_eq!(verdict.conflicts, [], "the log refuses\n{found}\nfor\n{text}");
    }
}
