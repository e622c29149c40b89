//! Snapshots: the state as a sequence of checksummed frames, and back.
//!
//! A snapshot is taken by cloning the cell (which copies only lists of chunks) and encoding the clone elsewhere, so no
//! commit waits for it. Whatever may grow large is cut into frames of a few megabytes, far below what a reader accepts;
//! the first frame states how much of each kind follows, so a cut-off snapshot is never taken for a whole one.

use crate::cell::{Cell, HealthState, VERSION};
use crate::planted;
use crate::rooms::nominations::Nominations;
use crate::state::brought::Brought;
use crate::state::budgets::book::Budgets;
use crate::state::budgets::settle::counted_with_budgets;
use crate::state::classes::{Classes, NodeClass};
use crate::state::flavors::{QuotaColumns, ResourceFlavors};
use crate::state::job_store::Jobs;
use crate::state::kept::{Kept, KeptRun};
use crate::state::namespaces::Namespaces;
use crate::state::nodes::Nodes;
use crate::state::preemptions::Preemptions;
use crate::state::priorities::PriorityClasses;
use crate::state::profiles::Profiles;
use crate::state::provisioning::ProvisioningClasses;
use crate::state::quota::{Quota, QuotaNode};
use crate::state::requests::charged_by_resource;
use crate::state::resources::ResourceNames;
use crate::state::runs::Runs;
use crate::state::sessions::Sessions;
use crate::state::shapes::Shapes;
use crate::state::subqueues::{Subqueues, UsageBook};
use crate::state::task_counts::settle::counted_anew;
use crate::state::timers::Timer;
use crate::state::topologies::{Domain, Topologies, Topology};
use crate::state::turns::Turns;
use crate::state::waiting::Waiting;
use ohm_model::{
    Budget, Index, Namespace, Outcome, PriorityClass, ProvisioningClass, ResourceFlavor, RunRef, Scheduling,
    SchedulingProfile, Sequence, SessionId, Subqueue,
};
use ohm_stdx::codec::{self, DecodeError};
use ohm_stdx::{Chunked, Slab};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The format byte of snapshot frames; a newer one is refused whole.
pub const SNAPSHOT_FORMAT: u8 = 1;

/// Why a snapshot could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// A frame is damaged, cut off or of another format.
    #[error("snapshot frame {frame}: {source}")]
    Frame {
        /// Which, from 0.
        frame: u32,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// The frames are not in the order they are written in.
    #[error("snapshot frame {frame} is out of place; the snapshot is not whole")]
    Order {
        /// Which, from 0.
        frame: u32,
    },
    /// The state needs a newer program.
    #[error("snapshot needs apply version {needed}; this program has {known}")]
    Version {
        /// What it needs.
        needed: u32,
        /// What is here.
        known: u32,
    },
}

/// A frame above this is cut in two, down to single elements.
const FRAME_BYTES: usize = 4 << 20;

#[derive(Serialize, Deserialize)]
struct Header {
    version: u32,
    applied: Index,
    now_ms: u64,
    chain: u64,
    columns: u32,
    shapes: u32,
    records: u32,
    jobs: u32,
    runs: u32,
    kept: u32,
    answers: u32,
    classes: u32,
    queues: u32,
    flavors: u32,
    priority_classes: u32,
    namespaces: u32,
    budgets: u32,
    budget_numbers: u32,
    provisioning_classes: u32,
    profiles: u32,
    subqueues: u32,
    usage_books: u32,
    /// How many domains each topology has.
    domains: Vec<u32>,
}

/// So many elements are encoded together at first.
const SLICE: usize = 256;

type Conversations = (Sessions, Nominations, Preemptions, BTreeMap<u64, Arc<Vec<Timer>>>, HealthState);
type FreeSlots = (Chunked<u32>, Chunked<u32>, Chunked<u32>);
type Answer = (SessionId, Sequence, Outcome);

struct Frame<F: FnMut(&[u8])> {
    emit: F,
    /// Whether all frames so far can be read back.
    is_readable: bool,
    buffer: Vec<u8>,
}

impl<F: FnMut(&[u8])> Frame<F> {
    fn put<T: Serialize + ?Sized>(&mut self, value: &T) {
        self.encode(value);
        self.emit();
    }

    fn encode<T: Serialize + ?Sized>(&mut self, value: &T) {
        self.buffer.clear();
        codec::encode_frame(SNAPSHOT_FORMAT, value, &mut self.buffer);
    }

    fn emit(&mut self) {
        self.is_readable &= self.buffer.len() - codec::HEADER_BYTES <= codec::BODY_BYTES_MAX;
        (self.emit)(&self.buffer);
    }

    /// A piece of a column, in as many frames as it takes.
    fn put_slice<T: Serialize>(&mut self, slice: &[T]) {
        self.encode(slice);
        if self.buffer.len() <= FRAME_BYTES + codec::HEADER_BYTES || slice.len() < 2 {
            return self.emit();
        }
        let (front, back) = slice.split_at(slice.len() / 2);
        self.put_slice(front);
        self.put_slice(back);
    }

    fn put_all<T: Serialize>(&mut self, elements: impl Iterator<Item = T>) {
        let elements: Vec<T> = elements.collect();
        elements.chunks(SLICE).for_each(|slice| self.put_slice(slice));
    }
}

/// Writes the state, frame by frame; see [`Cell::snapshot`].
pub(crate) fn write_snapshot(cell: &Cell, emit: impl FnMut(&[u8])) -> bool {
    let mut frame = Frame { emit, is_readable: true, buffer: Vec::new() };
    let nodes = &cell.nodes;
    frame.put(&Header {
        version: cell.version,
        applied: cell.applied,
        now_ms: cell.now_ms,
        chain: cell.chain,
        columns: nodes.columns().count() as u32,
        shapes: cell.shapes.slab().slots() as u32,
        records: nodes.slots() as u32,
        jobs: cell.jobs.slab().slots() as u32,
        runs: cell.runs.slab().slots() as u32,
        kept: cell.kept.len() as u32,
        answers: cell.sessions.answers().count() as u32,
        classes: cell.classes.slots() as u32,
        queues: cell.quota.iter().len() as u32,
        flavors: cell.quota.flavors.iter().len() as u32,
        priority_classes: cell.priority_classes.iter().len() as u32,
        namespaces: cell.namespaces.iter().len() as u32,
        budgets: cell.budgets.len() as u32,
        budget_numbers: cell.budgets.numbers(),
        provisioning_classes: cell.provisioning_classes.iter().len() as u32,
        profiles: cell.profiles.iter().len() as u32,
        subqueues: cell.subqueues.iter().len() as u32,
        usage_books: cell.subqueues.books().len() as u32,
        domains: cell.topologies.iter().map(|topology| topology.domains.len() as u32).collect(),
    });
    frame.put(&(&cell.resources, &cell.quota.columns, &cell.quota.scheduling));
    frame.put_all(cell.classes.parts());
    frame.put_all(cell.quota.iter());
    frame.put_all(cell.quota.flavors.iter());
    frame.put_all(cell.priority_classes.iter());
    frame.put_all(cell.namespaces.iter());
    frame.put_all(cell.budgets.iter().map(|(number, budget)| (number, &**budget)));
    frame.put_all(cell.provisioning_classes.iter().map(|class| &**class));
    frame.put_all(cell.profiles.iter().map(|profile| &**profile));
    frame.put_all(cell.subqueues.iter());
    frame.put_all(cell.subqueues.books());
    for topology in cell.topologies.iter() {
        frame.put(&**topology);
        frame.put_all(topology.domains.iter());
    }
    frame.put(&(&cell.sessions, &cell.nominations, &cell.preemptions, &cell.timers, &cell.health));
    frame.put(nodes);
    frame.put(&(cell.shapes.slab().free(), cell.jobs.slab().free(), cell.runs.slab().free()));
    nodes.amounts().for_each(|column| frame.put(column));
    cell.shapes.slab().slices().for_each(|chunk| frame.put_slice(chunk));
    nodes.records().slices().for_each(|chunk| frame.put_slice(chunk));
    cell.jobs.slab().slices().for_each(|chunk| frame.put_slice(chunk));
    cell.runs.slab().slices().for_each(|chunk| frame.put_slice(chunk));
    frame.put_all(cell.kept.iter());
    let answers: Vec<_> = cell.sessions.answers().collect();
    answers.chunks(16).for_each(|answers| frame.put_slice(answers));
    frame.is_readable
}

struct Frames<'a> {
    rest: &'a [u8],
    read: u32,
}

impl Frames<'_> {
    fn next<T: DeserializeOwned>(&mut self) -> Result<T, RestoreError> {
        let (value, taken) = codec::decode_frame(SNAPSHOT_FORMAT, self.rest)
            .map_err(|source| RestoreError::Frame { frame: self.read, source })?;
        self.rest = &self.rest[taken..];
        self.read += 1;
        Ok(value)
    }

    /// A column of `length` elements, from as many frames as it was cut into.
    fn column<T: Clone + DeserializeOwned>(&mut self, length: u32) -> Result<Chunked<T>, RestoreError> {
        let mut column = Chunked::default();
        while column.len() < length as usize {
            let piece: Vec<T> = self.next()?;
            if piece.is_empty() || column.len() + piece.len() > length as usize {
                return Err(RestoreError::Order { frame: self.read });
            }
            piece.into_iter().for_each(|value| column.push(value));
        }
        Ok(column)
    }

    fn list<T: Clone + DeserializeOwned>(&mut self, length: u32) -> Result<Vec<T>, RestoreError> {
        Ok(self.column(length)?.iter().cloned().collect())
    }

    fn topologies(&mut self, domains: &[u32]) -> Result<Topologies, RestoreError> {
        let mut topologies = Topologies::default();
        for &domains in domains {
            let topology: Topology = self.next()?;
            topologies.put(topology.with_domains(self.list::<Domain>(domains)?));
        }
        Ok(topologies)
    }

    fn columns(&mut self, count: u32) -> Result<Vec<Chunked<i64>>, RestoreError> {
        (0..count).map(|_| self.next()).collect()
    }
}

/// The cell that `bytes` is a snapshot of. Nothing is taken from a snapshot that is not whole.
pub fn restore(bytes: &[u8]) -> Result<Cell, RestoreError> {
    let mut frames = Frames { rest: bytes, read: 0 };
    let header: Header = frames.next()?;
    if header.version > VERSION {
        return Err(RestoreError::Version { needed: header.version, known: VERSION });
    }
    let (resources, columns, scheduling): (ResourceNames, QuotaColumns, Scheduling) = frames.next()?;
    let classes = frames.list::<(Option<NodeClass>, u32)>(header.classes)?;
    let queues = frames.list::<QuotaNode>(header.queues)?;
    let flavors = ResourceFlavors::from_flavors(frames.list::<ResourceFlavor>(header.flavors)?.into_iter());
    let quota = Quota::from_parts(queues, columns, flavors, scheduling);
    let priority_classes = frames.list::<PriorityClass>(header.priority_classes)?;
    let namespaces = frames.list::<Namespace>(header.namespaces)?;
    let budgets = Budgets::from_parts(frames.list::<(u32, Budget)>(header.budgets)?, header.budget_numbers);
    let provisioning_classes = frames.list::<ProvisioningClass>(header.provisioning_classes)?;
    let profiles = frames.list::<SchedulingProfile>(header.profiles)?;
    let subqueues = frames.list::<Subqueue>(header.subqueues)?;
    let subqueues = Subqueues::from_parts(subqueues, frames.list::<(String, UsageBook)>(header.usage_books)?);
    let topologies = frames.topologies(&header.domains)?;
    let (mut sessions, nominations, preemptions, timers, health): Conversations = frames.next()?;
    let nodes: Nodes = frames.next()?;
    let (free_shapes, free_jobs, free_runs): FreeSlots = frames.next()?;
    let amounts = (frames.columns(header.columns)?, frames.columns(header.columns)?);
    let shapes = Slab::from_parts(frames.column(header.shapes)?, free_shapes);
    let nodes = nodes.with_parts(amounts, frames.column(header.records)?);
    let jobs = Slab::from_parts(frames.column(header.jobs)?, free_jobs);
    let runs = Slab::from_parts(frames.column(header.runs)?, free_runs);
    let kept = frames.list::<(RunRef, KeptRun)>(header.kept)?;
    let answers: Chunked<Answer> = frames.column(header.answers)?;
    let parts = (nodes, shapes, jobs, runs, frames.rest.is_empty());
    let (Some(nodes), Some(shapes), Some(jobs), Some(runs), true) = parts else {
        return Err(RestoreError::Order { frame: frames.read });
    };
    let answers = answers.iter().filter(|_| planted::restores_answers());
    answers.for_each(|(session, sequence, outcome)| sessions.remember(*session, *sequence, outcome.clone()));
    let (jobs, shapes) = (Jobs::from_slab(jobs), Shapes::from_slab(shapes));
    let (brought, turns, waiting) = (Brought::of(&nodes, &jobs), Turns::of(&jobs, &shapes), Waiting::of(&jobs, &quota));
    let cell = Cell {
        applied: header.applied,
        now_ms: header.now_ms,
        version: header.version,
        chain: header.chain,
        resources,
        classes: Classes::from_parts(classes.into_iter()),
        shapes,
        nodes,
        jobs,
        runs: Runs::from_slab(runs),
        topologies,
        quota,
        priority_classes: PriorityClasses::from_classes(priority_classes.into_iter()),
        namespaces: Namespaces::from_namespaces(namespaces.into_iter()),
        budgets,
        provisioning_classes: ProvisioningClasses::from_classes(provisioning_classes.into_iter()),
        profiles: Profiles::from_profiles(profiles.into_iter()),
        subqueues,
        sessions,
        nominations,
        preemptions,
        timers,
        health,
        kept: Kept::from_runs(kept.into_iter()),
        brought,
        turns,
        waiting,
        ..Cell::default()
    };
    let charged = if cell.subqueues.keep_any() { charged_by_resource(&cell) } else { Vec::new() };
    Ok(counted_with_budgets(counted_anew(Cell { subqueues: cell.subqueues.clone().with_charged(charged), ..cell })))
}
