//! A cell of our own with one session that holds every lease, and the planners of all classes over it.
//!
//! Nothing here decides: commands go through [`Cell::apply`], plans through the judgement of a commit, exactly as on a
//! server.

use crate::facts::Facts;
use ohm_cell::{Applied, Cell, Job, Overlay, READY, Run, live_runs};
use ohm_framework::preempt::plan_preemption;
use ohm_framework::{
    Board, Budget, Decision, ExpectedStart, LiveJobs, Need, PlannedJob, Planner, View, Work, WorkItem, expected_start,
    plan_move,
};
use ohm_model::lease::SHARDS_PER_CLASS;
use ohm_model::{
    Amounts, Class, Command, Entry, Envelope, Epoch, Exit, Index, JobId, JobOutcome, JobSpec, Lease, NodeConclusion,
    NodeHealth, NodeId, NodeSpec, Outcome, Refusal, ResourceId, Role, RunRef, RunReport, RunReportKind, Sequence,
    SessionId, Shard, Transaction, Verdict,
};
use ohm_planner::ProfilePlanner;
use ohm_stdx::Prng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The epoch of every lease: each is taken once.
const EPOCH: Epoch = Epoch(1);
/// So many commands travel in one entry: few enough for one entry's memory to stay small.
const ENTRY_COMMANDS: usize = 100;
/// Who a node is; offline nobody disputes it.
const KEY: u64 = 1;

/// The cell and who works on it.
pub(crate) struct World {
    pub(crate) cell: Cell,
    session: SessionId,
    sequence: u64,
    instance: u64,
    /// Stamped time. It passes only where what runs already began one after the other: nothing offline waits for it.
    now_ms: u64,
    planners: BTreeMap<Class, ProfilePlanner>,
    /// Empty between plans; kept for its memory.
    over: Overlay,
    applied: Applied,
    /// Nodes that joined with more room than they have, because of what stands on them; as they are.
    pub(crate) tight: Vec<NodeSpec>,
    /// What reports are made from; only where each node is told of.
    pub(crate) facts: Arc<Facts>,
    /// The jobs that are Pods of the cell file.
    pub(crate) bound_pods: BTreeSet<JobId>,
}

impl World {
    pub(crate) fn new() -> Self {
        let mut world = World {
            cell: Cell::new(),
            session: SessionId(0),
            sequence: 0,
            instance: 0,
            now_ms: 1,
            planners: BTreeMap::new(),
            over: Overlay::default(),
            applied: Applied::default(),
            tight: Vec::new(),
            facts: Arc::default(),
            bound_pods: BTreeSet::new(),
        };
        let open = Command::OpenSession { nonce: 1, role: Role::Client, name: "plan".into() };
        let outcomes = world.send(vec![Envelope::without_session(open)]);
        if let Some(Outcome::Session(session)) = outcomes.first() {
            world.session = *session;
        }
        world.take(Lease::Health);
        Class::BUILT_IN.into_iter().for_each(|class| world.serve(class));
        world
    }

    /// Takes the right to place the jobs of `class`.
    pub(crate) fn serve(&mut self, class: Class) {
        (0..SHARDS_PER_CLASS).for_each(|number| self.take(Lease::Shard(Shard { class, number })));
    }

    /// Takes a lease that is free, or held already.
    fn take(&mut self, lease: Lease) {
        self.apply(Command::TakeLease { lease, epoch: Epoch(0), renewed: Index(0) });
    }

    /// The same cell once more, for questions that must not change this one.
    pub(crate) fn fork(&self) -> World {
        World {
            cell: self.cell.clone(),
            session: self.session,
            sequence: self.sequence,
            instance: self.instance,
            now_ms: self.now_ms,
            planners: BTreeMap::new(),
            over: Overlay::default(),
            applied: Applied::default(),
            tight: self.tight.clone(),
            facts: Arc::clone(&self.facts),
            bound_pods: self.bound_pods.clone(),
        }
    }

    /// The next commands come a moment later.
    pub(crate) fn pass_time(&mut self) {
        self.now_ms += 1;
    }

    fn send(&mut self, commands: Vec<Envelope>) -> Vec<Outcome> {
        let index = Index(self.cell.applied().0 + 1);
        let entry = Entry { stamp_ms: self.now_ms, commands };
        self.cell.apply(index, &entry, &mut self.applied);
        if !self.planners.is_empty() {
            let over = Overlay::default();
            let view = View::new(&self.cell, &over, self.session);
            for planner in self.planners.values_mut() {
                planner.changed(&view, &self.applied.nodes, &self.applied.jobs);
            }
        }
        std::mem::take(&mut self.applied.outcomes)
    }

    /// Applies commands in order, many to an entry; one outcome for each.
    pub(crate) fn apply_all(&mut self, commands: Vec<Command>) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(commands.len());
        let mut commands = commands.into_iter().peekable();
        while commands.peek().is_some() {
            let envelopes = commands.by_ref().take(ENTRY_COMMANDS).map(|command| {
                self.sequence += 1;
                let sequence = Sequence(self.sequence);
                Envelope::new(self.session, sequence, sequence, command)
            });
            let envelopes = envelopes.collect();
            outcomes.extend(self.send(envelopes));
        }
        outcomes
    }

    pub(crate) fn apply(&mut self, command: Command) -> Outcome {
        self.apply_all(vec![command]).pop().unwrap_or(Outcome::Done)
    }

    /// Applies a command that may be refused.
    pub(crate) fn try_apply(&mut self, command: Command) -> Result<(), Refusal> {
        match self.apply(command) {
            Outcome::Refused(refusal) => Err(refusal),
            _ => Ok(()),
        }
    }

    /// The registration of a node, or of its next agent.
    pub(crate) fn registration(&mut self, spec: NodeSpec) -> Command {
        self.instance += 1;
        Command::RegisterNode { spec, key: KEY, instance: self.instance, boot: KEY, alive: Vec::new() }
    }

    pub(crate) fn conclude(&mut self, name: &str, health: NodeHealth) {
        let Some(node) = self.cell.nodes().find(name) else { return };
        let Some(incarnation) = self.cell.nodes().get(node).map(|record| record.incarnation) else { return };
        self.apply(Command::ConcludeNodes {
            epoch: EPOCH,
            conclusions: vec![NodeConclusion { node, incarnation, health }],
        });
    }

    pub(crate) fn submit(&mut self, spec: JobSpec) -> Result<JobId, Refusal> {
        match self.apply(Command::SubmitJobs { jobs: vec![spec] }) {
            Outcome::Jobs(mut outcomes) => match outcomes.pop() {
                Some(JobOutcome::Accepted(job) | JobOutcome::Unchanged(job) | JobOutcome::Updated(job)) => Ok(job),
                Some(JobOutcome::Refused(refusal)) => Err(refusal),
                None => Err(Refusal::NotFound { kind: "job".into(), name: String::new() }),
            },
            Outcome::Refused(refusal) => Err(refusal),
            _ => Err(Refusal::NotFound { kind: "job".into(), name: String::new() }),
        }
    }

    pub(crate) fn job(&self, job: JobId) -> Option<&Job> {
        self.cell.jobs().get(job).map(AsRef::as_ref)
    }

    /// What the planner of the job's class decides about it now; nothing when it needs nothing.
    pub(crate) fn plan(&mut self, job: JobId) -> Option<Decision> {
        let found = self.cell.jobs().get(job)?;
        let class = found.spec.class;
        let mut board = Board::new(&self.cell, &mut self.over, self.session);
        let planner = self.planners.entry(class).or_insert_with(|| {
            let mut planner = ohm_planner::of(class);
            planner.reset(&board.view());
            planner
        });
        let need = planner.need(&self.cell, found)?;
        let nominated = self.cell.nominations().nominates(job);
        let (item, mut dice) = (WorkItem { job, need, attempt: 0, nominated, counted: true }, Prng::new(0));
        let (decision, nodes) = match need {
            Need::Move => {
                let (decision, nodes) = plan_move(planner, &mut board, item, &mut dice);
                (Some(decision), nodes)
            }
            Need::Repair | Need::Start | Need::Grow | Need::Spare => {
                let work = Work { jobs: vec![item], budget: Budget::UNBOUNDED };
                let mut decisions = planner.plan(&mut board, &work, &mut dice).decisions;
                let mut looked_at = Vec::new();
                if let [Decision::Unplaced(why)] = &decisions[..] {
                    let found =
                        plan_preemption(planner, &mut board, item, (why, &mut LiveJobs::of(&self.cell)), &mut dice);
                    looked_at = found.nodes;
                    decisions = found.planned.map_or(decisions, |planned| vec![Decision::Planned(Box::new(planned))]);
                }
                let rows = decisions.iter().filter_map(|decision| match decision {
                    Decision::Planned(planned) => Some((&planned.place, &planned.nominate)),
                    _ => None,
                });
                let nodes = rows.flat_map(|(place, nominate)| {
                    place.iter().map(|row| row.node).chain(nominate.iter().map(|row| row.node))
                });
                let nodes = nodes.chain(looked_at).collect();
                (decisions.into_iter().find(|decision| decision.job() == job), nodes)
            }
        };
        // A planner may have lowered its own numbers for rows it returned; committed or not, they are read again.
        planner.changed(&board.view(), &nodes, &[job]);
        decision
    }

    /// By when a job that finds no room would, if nothing else came before it.
    pub(crate) fn expected_start(&mut self, job: JobId) -> Option<ExpectedStart> {
        let found = self.cell.jobs().get(job)?;
        let planner = self.planners.get_mut(&found.spec.class)?;
        let need = planner.need(&self.cell, found).filter(|need| matches!(need, Need::Start | Need::Grow))?;
        let mut board = Board::new(&self.cell, &mut self.over, self.session);
        let nominated = self.cell.nominations().nominates(job);
        let item = WorkItem { job, need, attempt: 0, nominated, counted: true };
        let (found, nodes) = expected_start(planner, &mut board, item, &mut Prng::new(0));
        planner.changed(&board.view(), &nodes.into_iter().collect::<Vec<_>>(), &[job]);
        found
    }

    /// How long it is until then, in whole seconds.
    pub(crate) fn seconds_until(&self, at_ms: u64) -> u64 {
        at_ms.saturating_sub(self.cell.now_ms()).div_ceil(1000)
    }

    /// Commits a plan: the log's own judgement decides what of it stands.
    pub(crate) fn commit(&mut self, planned: &PlannedJob) -> Option<Verdict> {
        let mut jobs = vec![planned.job];
        jobs.extend(&planned.others);
        let transaction = Transaction {
            shard: self.cell.jobs().get(planned.job.job)?.shard,
            epoch: EPOCH,
            seen: self.cell.applied(),
            grain: planned.grain,
            guard: planned.guard,
            jobs,
            flavors: planned.flavors.clone(),
            evict: planned.evict.clone(),
            preempt: planned.preempt.clone(),
            breaks: planned.breaks,
            place: planned.place.clone(),
            nominate: planned.nominate.clone(),
            reserve: if planned.reserve { vec![planned.job.job] } else { Vec::new() },
            claim: Vec::new(),
        };
        match self.apply(Command::Commit(transaction)) {
            Outcome::Verdict(verdict) => Some(verdict),
            _ => None,
        }
    }

    /// Lets those runs end that are to stop since the last entry and that `ends` names, as their agents would report.
    /// Returns the job of each.
    pub(crate) fn end_stopping(&mut self, ends: impl Fn(RunRef) -> bool) -> Vec<JobId> {
        let mut nodes = self.applied.nodes.clone();
        nodes.sort();
        nodes.dedup();
        let on_node = |node: NodeId| self.cell.runs().on_node(self.cell.nodes(), node);
        let stopping = nodes.into_iter().flat_map(on_node);
        let stopping = stopping.filter(|(_, run)| run.stop.is_some() && ends(run.run));
        let runs: Vec<_> = stopping.map(|(_, run)| (run.node, run.run)).collect();
        self.end(runs)
    }

    /// Whether any run is told to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.cell.runs().iter().any(|(_, run)| run.stop.is_some())
    }

    /// Lets every run end that is told to stop. Returns the job of each.
    pub(crate) fn end_all_stopping(&mut self) -> Vec<JobId> {
        let stopping = self.cell.runs().iter().map(|(_, run)| run).filter(|run| run.stop.is_some());
        let runs: Vec<_> = stopping.map(|run| (run.node, run.run)).collect();
        self.end(runs)
    }

    /// What a scheduler sees of the cell while nothing of its own is under way.
    pub(crate) fn view<'a>(&'a self, over: &'a Overlay) -> View<'a> {
        View::new(&self.cell, over, self.session)
    }

    /// Lets the tasks of `job` that were placed again run and be ready, as their agents would report: then the next
    /// ones may move.
    pub(crate) fn start_replaced(&mut self, job: JobId) {
        let Some(found) = self.job(job) else { return };
        let placed = found.groups.iter().flat_map(|group| {
            let tasks = group.replaced.values();
            tasks.filter_map(|task| self.cell.runs().get(group.tasks.get(task as usize)?.run))
        });
        let start = |run: &Run| {
            let ready = RunReportKind::Ready { ready: true, number: 1, message: String::new() };
            let kinds = [RunReportKind::Started { pid: 1 }, ready];
            let reports = kinds.into_iter().map(|kind| RunReport { run: run.run, kind }).collect();
            Command::Report { node: run.node, reports }
        };
        let commands: Vec<Command> = placed.map(start).collect();
        self.apply_all(commands);
    }

    /// Lets all tasks of `job` that stand run, as their agents would report.
    pub(crate) fn start_all(&mut self, job: JobId) {
        let Some(found) = self.job(job) else { return };
        let commands: Vec<Command> = live_runs(&self.cell, found).map(start).collect();
        self.apply_all(commands);
    }

    /// Ends runs without any fault of theirs. Returns the job of each.
    pub(crate) fn end(&mut self, runs: Vec<(NodeId, RunRef)>) -> Vec<JobId> {
        let jobs: Vec<JobId> = runs.iter().map(|(_, run)| run.task.job).collect();
        let report = |(node, run)| {
            let kind = RunReportKind::Ended { exit: Exit::Vanished, message: String::new() };
            Command::Report { node, reports: vec![RunReport { run, kind }] }
        };
        self.apply_all(runs.into_iter().map(report).collect());
        if !jobs.is_empty() && !self.tight.is_empty() {
            self.tighten();
        }
        jobs
    }

    /// What runs take on a node, by resource.
    pub(crate) fn taken(&self, node: NodeId) -> Amounts {
        let (nodes, names) = (self.cell.nodes(), self.cell.resources());
        let columns = (0..names.len() as u16).map(ResourceId);
        let amounts = columns
            .map(|column| (names.name(column).to_string(), nodes.capacity(node, column) - nodes.free(node, column)));
        amounts.filter(|(_, amount)| *amount > 0).collect()
    }

    /// Nodes that held more than they have give up what is not held any more.
    fn tighten(&mut self) {
        for spec in self.tight.clone() {
            let nodes = self.cell.nodes();
            let Some(node) = nodes.find(&spec.name).filter(|node| nodes.flags(*node) & READY != 0) else { continue };
            let mut capacity = spec.capacity.clone();
            at_least(&mut capacity, &self.taken(node));
            if nodes.get(node).is_some_and(|record| record.spec.capacity != capacity) {
                let command = self.registration(NodeSpec { capacity, ..spec });
                self.apply(command);
            }
        }
    }
}

/// What the agent of a run says once it runs.
fn start(run: &Run) -> Command {
    let reports = vec![RunReport { run: run.run, kind: RunReportKind::Started { pid: 1 } }];
    Command::Report { node: run.node, reports }
}

/// Raises every amount to that of `floor`.
pub(crate) fn at_least(room: &mut Amounts, floor: &Amounts) {
    for (name, amount) in floor {
        let entry = room.entry(name.clone()).or_insert(0);
        *entry = (*entry).max(*amount);
    }
}
