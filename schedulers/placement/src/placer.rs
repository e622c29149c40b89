//! What a planner keeps between passes: its node table, remembered scans, topology trees; and the pass itself, in which
//! every row that is planned is taken from what the next one sees.

use crate::demand::Demand;
use crate::demand_key::{DemandKey, spreads};
use crate::index::{Choice, ShapeIndex};
use crate::score::Scoring;
use crate::subject::Subject;
use crate::table::NodeTable;
use crate::topology::{Tallies, Tree};
use crate::typical::{Counted, Typical};
use crate::verdicts::Memory;
use ohm_cell::{Cell, Job, Savepoint, reserve_quota};
use ohm_framework::{Board, View};
use ohm_model::node::HOSTNAME_LABEL;
use ohm_model::{JobId, NodeId, Placement, Role, SchedulingProfile, ShapeId};
use ohm_stdx::hash;
use std::collections::BTreeMap;
use std::sync::Arc;

/// After so many collisions what counts as near-equal to the best node is not widened any more.
const SLACK_MAX: u32 = 3;
/// What nodes cost by themselves is remembered for so many pairs of shape and node at most: 64 MiB.
const ASKED_MAX: usize = 1 << 24;

/// How a planner places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which scores count, and how much.
    pub profile: SchedulingProfile,
    /// Among how many near-equal nodes is chosen by dice when several schedulers race for them; 1 always takes the
    /// best.
    pub width: u32,
    /// For how many shapes scans are remembered; the one longest unused makes room.
    pub remembered: usize,
}

impl Config {
    /// As `profile` says, with the bounds that every class has.
    pub fn new(profile: SchedulingProfile) -> Self {
        Config { profile, width: 8, remembered: 512 }
    }
}

/// One pass over a list of jobs: the picture, on which everything that the pass plans is laid.
#[derive(Debug)]
pub struct Pass<'v> {
    board: Board<'v>,
    start: Savepoint,
    examined: std::cell::Cell<u64>,
    counts: bool,
}

impl<'v> Pass<'v> {
    /// A pass that has planned nothing yet.
    pub fn new(mut board: Board<'v>) -> Self {
        let start = board.over().savepoint();
        Pass { board, start, examined: std::cell::Cell::new(0), counts: true }
    }

    /// From here on nodes are counted for explanations, or not.
    pub fn count(&mut self, counts: bool) {
        self.counts = counts;
    }

    /// Whether nodes are counted for explanations.
    pub(crate) fn counts(&self) -> bool {
        self.counts && !self.board.view().what().over.later
    }

    /// Nodes looked at so far.
    pub fn examined(&self) -> u64 {
        self.examined.get()
    }

    /// Counts nodes that were looked at.
    pub fn look_at(&self, nodes: u64) {
        self.examined.set(self.examined.get().saturating_add(nodes));
    }

    /// Marks what is planned so far: [`Placer::roll_back`] comes back to it.
    pub fn savepoint(&mut self) -> Savepoint {
        self.board.over().savepoint()
    }

    /// The copy of the cell, without what is planned.
    pub fn cell(&self) -> &'v Cell {
        self.board.cell()
    }

    /// The job, as it would be.
    pub fn job(&self, id: JobId) -> Option<&'v Job> {
        self.board.job(id)
    }

    /// The picture with everything planned so far taken.
    pub fn view(&self) -> View<'_> {
        self.board.view()
    }

    /// From now on the spares of `job` are room and quota for its own tasks, until that is rolled back.
    pub fn lend_spares(&mut self, job: &Job) {
        let cell = self.board.cell();
        self.board.over().lend_spares(cell, job);
    }

    /// Ends that, whatever was planned meanwhile.
    pub fn recall_spares(&mut self, job: &Job) {
        let cell = self.board.cell();
        self.board.over().recall_spares(cell, job);
    }

    /// From now on the quota of `job` as a whole is taken, until that is rolled back.
    pub fn reserve(&mut self, job: &Job) {
        let cell = self.board.cell();
        reserve_quota(self.board.over(), cell, job);
    }

    /// What `ask` says while `row` of `job` is laid as well.
    pub(crate) fn with_row<T>(&mut self, job: &Job, row: &Placement, ask: impl FnOnce(&Self) -> T) -> T {
        let (cell, before) = (self.board.cell(), self.savepoint());
        self.board.over().place(cell, job, row);
        let answer = ask(self);
        self.board.over().roll_back(cell, before);
        answer
    }

    /// Ends the pass: nothing of it stays on the board.
    pub fn end(mut self) {
        let cell = self.board.cell();
        self.board.over().roll_back(cell, self.start);
    }
}

/// The remembered scans by shape.
#[derive(Debug, Default)]
pub(crate) struct Indexes {
    slots: Vec<(u64, ShapeIndex)>,
    by_shape: BTreeMap<(ShapeId, bool), Vec<usize>>,
    uses: u64,
}

/// The craft of placing, with everything it remembers.
#[derive(Debug)]
pub struct Placer {
    width: u32,
    remembered: usize,
    scoring: Arc<Scoring>,
    pub(crate) table: NodeTable,
    pub(crate) indexes: Indexes,
    verdicts: Memory,
    pub(crate) trees: BTreeMap<String, Arc<Tree>>,
    pub(crate) tallies: Tallies,
    /// By slot: the node's registration, and a hash of what places it in topologies.
    identities: Vec<(u32, u64)>,
    schedulers: usize,
    /// When what is typical was counted; never where no score asks for it.
    counted: Option<Counted>,
    /// See [`Placer::salt`].
    salt: u64,
    /// Nodes to read anew; empty between calls, kept for its memory.
    touched: Vec<NodeId>,
}

impl Placer {
    /// A placer that knows no cell yet: call [`Placer::reset`] first.
    pub fn new(config: &Config) -> Self {
        Placer {
            width: config.width.max(1),
            remembered: config.remembered.max(1),
            scoring: Arc::new(Scoring::new(&config.profile)),
            table: NodeTable::default(),
            indexes: Indexes::default(),
            verdicts: Memory::default(),
            trees: BTreeMap::new(),
            tallies: Tallies::default(),
            identities: Vec::new(),
            schedulers: 0,
            counted: None,
            salt: 0,
            touched: Vec::new(),
        }
    }

    /// The node table.
    pub fn table(&self) -> &NodeTable {
        &self.table
    }

    /// Reads the whole cell anew.
    pub fn reset(&mut self, view: &View<'_>) {
        self.table.rebuild(view);
        self.indexes = Indexes::default();
        self.verdicts = Memory::default();
        self.trees.clear();
        self.tallies.clear();
        self.identities.clear();
        self.counted = None;
        for (node, _) in view.cell().nodes().iter() {
            self.note_identity(view, node);
        }
    }

    /// Forgets the counts that are kept for topologies; they are made anew as they are needed.
    pub fn forget_counts(&mut self) {
        self.tallies.clear();
    }

    /// Reads these nodes anew.
    pub fn changed(&mut self, view: &View<'_>, nodes: &[NodeId]) {
        for &node in nodes {
            self.table.refresh(view, node);
            if self.note_identity(view, node) {
                self.trees.clear();
                self.tallies.clear();
            }
        }
    }

    /// Takes note of what places the node in topologies; true when that changed.
    fn note_identity(&mut self, view: &View<'_>, node: NodeId) -> bool {
        let slot = node.0 as usize;
        if self.identities.len() <= slot {
            self.identities.resize(slot + 1, (0, 0));
        }
        let record = view.cell().nodes().get(node);
        let incarnation = record.map_or(0, |record| record.incarnation.0);
        if self.identities[slot].0 == incarnation {
            return false;
        }
        let place = record.map_or(0, |record| {
            let host = record.spec.labels.get(HOSTNAME_LABEL).map_or(0, |host| hash::bytes(host.as_bytes()));
            hash::chain(host, u64::from(view.cell().nodes().class(node).0)).max(1)
        });
        let moved = self.identities[slot].1 != place;
        self.identities[slot] = (incarnation, place);
        moved
    }

    /// Begins a pass. Whether other schedulers race for the same nodes is looked up once here.
    pub fn begin<'v>(&mut self, board: Board<'v>) -> Pass<'v> {
        let schedulers = board.cell().sessions().iter().filter(|(_, found)| matches!(found.role, Role::Scheduler(_)));
        self.schedulers = schedulers.count();
        self.salt = salt_of(&board);
        self.count_typical(board.cell());
        Pass::new(board)
    }

    /// Counts what is typical anew if a score asks for it and the cell has changed enough.
    fn count_typical(&mut self, cell: &Cell) {
        if !self.scoring.asks_typical() || self.counted.is_some_and(|counted| !counted.is_outdated(cell)) {
            return;
        }
        self.counted = Some(Counted::now(cell));
        let typical = Typical::of(cell);
        if typical != *self.scoring.typical() {
            self.scoring = Arc::new(self.scoring.with_typical(typical));
            self.table.void_scans();
        }
    }

    /// Orders domains that are equally good, each replica of a class in its own way, so that they fill different ones.
    /// It is 0, by path, where one scheduler plans the class.
    pub fn salt(&self) -> u64 {
        self.salt
    }

    /// How to choose among equals for a job whose plans were refused `attempt` times: wider each time.
    pub(crate) fn choice(&self, view: &View<'_>, attempt: u32) -> Choice {
        let width = if self.schedulers > 1 { self.width } else { 1 };
        let wider = if attempt == 0 { width } else { width.max(2) << attempt.min(5) };
        let slack = attempt.min(SLACK_MAX);
        Choice { part: view.part(), width: wider.min(64), slack }
    }

    /// Takes planned rows of `job` from what the pass sees from now on.
    pub fn take(&mut self, pass: &mut Pass<'_>, job: &Job, rows: &[Placement]) {
        let cell = pass.board.cell();
        for row in rows {
            pass.board.over().place(cell, job, row);
            pass.board.over().charge_tasks(cell, job, row.group, row.count);
        }
        self.touched.clear();
        self.touched.extend(rows.iter().map(|row| row.node));
        self.refresh(pass);
    }

    /// Gives back what was taken after `savepoint`, the last first.
    pub fn roll_back(&mut self, pass: &mut Pass<'_>, savepoint: Savepoint) {
        self.touched.clear();
        self.touched.extend(pass.board.over().nodes_since(savepoint));
        let cell = pass.board.cell();
        pass.board.over().roll_back(cell, savepoint);
        self.refresh(pass);
    }

    /// Reads the touched nodes anew.
    fn refresh(&mut self, pass: &Pass<'_>) {
        self.touched.dedup();
        for node in &self.touched {
            self.table.refresh(&pass.view(), *node);
        }
    }

    /// The remembered scan of the subject's shape, up to date; and how many nodes that took.
    pub(crate) fn index(&mut self, subject: &Subject<'_>) -> (usize, u64) {
        self.table.fit_columns(&subject.view);
        let slot = self.indexes.find(subject).unwrap_or_else(|| self.remember(subject));
        let (used, index) = &mut self.indexes.slots[slot];
        self.indexes.uses += 1;
        *used = self.indexes.uses;
        let demand = &mut index.demand;
        if index.epoch != self.table.epoch() || !demand.describes(subject.shape) {
            let key = demand.key.clone();
            let (verdicts, costs) = self.verdicts.of(&subject.view, subject.shape, &key, &self.scoring);
            *index = ShapeIndex::new(Demand::new(key, subject.shape, costs, verdicts, &self.table), &self.table);
        } else if !demand.knows(&subject.view) {
            demand.learn(self.verdicts.of(&subject.view, subject.shape, &demand.key, &self.scoring).0);
        }
        let scanned = index.sync(&self.table);
        (slot, scanned)
    }

    fn remember(&mut self, subject: &Subject<'_>) -> usize {
        let key = DemandKey::of(subject.shape_id, subject.spec);
        let (verdicts, costs) = self.verdicts.of(&subject.view, subject.shape, &key, &self.scoring);
        let demand = Demand::new(key, subject.shape, costs, verdicts, &self.table);
        let asked_max = if demand.asks_nodes() { ASKED_MAX / self.table.slots().max(1) } else { usize::MAX };
        self.indexes.insert(ShapeIndex::new(demand, &self.table), self.remembered.min(asked_max).max(1))
    }

    /// The remembered scan in `slot`, with the table it is about.
    pub(crate) fn parts(&mut self, slot: usize) -> (&NodeTable, &mut ShapeIndex) {
        (&self.table, &mut self.indexes.slots[slot].1)
    }
}

impl Indexes {
    fn find(&self, subject: &Subject<'_>) -> Option<usize> {
        let slots = self.by_shape.get(&(subject.shape_id, spreads(subject.spec)))?;
        let same = |slot: &&usize| self.slots[**slot].1.demand.key.is(subject.shape_id, subject.spec);
        slots.iter().find(same).copied()
    }

    fn insert(&mut self, index: ShapeIndex, most: usize) -> usize {
        let key = (index.demand.key.shape, index.demand.key.spreads);
        let slot = if self.slots.len() < most {
            self.slots.push((0, index));
            self.slots.len() - 1
        } else {
            let oldest = self.slots.iter().enumerate().min_by_key(|(_, (used, _))| *used).map_or(0, |(slot, _)| slot);
            let former = &self.slots[oldest].1.demand.key;
            let former = (former.shape, former.spreads);
            if let Some(slots) = self.by_shape.get_mut(&former) {
                slots.retain(|slot| *slot != oldest);
                if slots.is_empty() {
                    self.by_shape.remove(&former);
                }
            }
            self.slots[oldest] = (0, index);
            oldest
        };
        self.by_shape.entry(key).or_default().push(slot);
        slot
    }
}

fn salt_of(board: &Board<'_>) -> u64 {
    let (sessions, own) = (board.cell().sessions(), board.view().session());
    match sessions.get(own).map(|session| session.role) {
        Some(Role::Scheduler(class)) if board.cell().replicas(class).nth(1).is_some() => hash::mix(own.0) | 1,
        _ => 0,
    }
}
