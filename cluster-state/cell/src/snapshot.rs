//! Snapshots: the state as a sequence of checksummed frames, and back.
//!
//! A snapshot is taken by cloning the cell (which copies only lists of chunks) and encoding the clone elsewhere, so no
//! commit waits for it. Frames hold at most a few hundred jobs or runs each; the first one states how many follow, so a
//! cut-off snapshot is never taken for a whole one.

use crate::apply::Timer;
use crate::cell::{Cell, VERSION};
use crate::classes::Classes;
use crate::jobs::{Jobs, Nominations};
use crate::nodes::Nodes;
use crate::quota::Quota;
use crate::resources::ResourceNames;
use crate::runs::Runs;
use crate::sessions::Sessions;
use crate::shapes::Shapes;
use crate::topologies::Topologies;
use ohm_model::Index;
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

#[derive(Serialize, Deserialize)]
struct Header {
    version: u32,
    applied: Index,
    now_ms: u64,
    chain: u64,
    record_chunks: u32,
    job_chunks: u32,
    run_chunks: u32,
}

type Rules = (ResourceNames, Classes, Shapes, Quota, Topologies);
type Conversations = (Sessions, Nominations, BTreeMap<u64, Arc<Vec<Timer>>>);
type FreeSlots = (Chunked<u32>, Chunked<u32>);

impl Cell {
    /// Writes the state, frame by frame.
    pub fn snapshot(&self, mut emit: impl FnMut(&[u8])) {
        let mut buffer = Vec::new();
        let mut put = |body: Vec<u8>| {
            buffer.clear();
            codec::frame(SNAPSHOT_FORMAT, &body, &mut buffer);
            emit(&buffer);
        };
        put(codec::encode(&Header {
            version: self.version,
            applied: self.applied,
            now_ms: self.now_ms,
            chain: self.chain,
            record_chunks: self.nodes.records.chunks() as u32,
            job_chunks: self.jobs.slab.slices().count() as u32,
            run_chunks: self.runs.slab.slices().count() as u32,
        }));
        put(codec::encode(&(&self.resources, &self.classes, &self.shapes, &self.quota, &self.topologies)));
        put(codec::encode(&(&self.sessions, &self.nominations, &self.timers)));
        put(codec::encode(&self.nodes));
        put(codec::encode(&(self.jobs.slab.free(), self.runs.slab.free())));
        self.nodes.records.slices().for_each(|chunk| put(codec::encode(chunk)));
        self.jobs.slab.slices().for_each(|chunk| put(codec::encode(chunk)));
        self.runs.slab.slices().for_each(|chunk| put(codec::encode(chunk)));
    }

    /// The whole snapshot as one byte string.
    pub fn snapshot_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.snapshot(|frame| bytes.extend_from_slice(frame));
        bytes
    }
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

    fn column<T: Clone + DeserializeOwned>(&mut self, chunks: u32) -> Result<Chunked<T>, RestoreError> {
        let mut column = Chunked::default();
        for _ in 0..chunks {
            let chunk = self.next()?;
            column.push_chunk(chunk).map_err(|_| RestoreError::Order { frame: self.read })?;
        }
        Ok(column)
    }
}

/// The cell that `bytes` is a snapshot of. Nothing is taken from a snapshot that is not whole.
pub fn restore(bytes: &[u8]) -> Result<Cell, RestoreError> {
    let mut frames = Frames { rest: bytes, read: 0 };
    let header: Header = frames.next()?;
    if header.version > VERSION {
        return Err(RestoreError::Version { needed: header.version, known: VERSION });
    }
    let (resources, classes, shapes, quota, topologies): Rules = frames.next()?;
    let (sessions, nominations, timers): Conversations = frames.next()?;
    let mut nodes: Nodes = frames.next()?;
    let (free_jobs, free_runs): FreeSlots = frames.next()?;
    nodes.records = frames.column(header.record_chunks)?;
    let jobs = Slab::from_parts(frames.column(header.job_chunks)?, free_jobs);
    let runs = Slab::from_parts(frames.column(header.run_chunks)?, free_runs);
    let (Some(jobs), Some(runs), true) = (jobs, runs, frames.rest.is_empty()) else {
        return Err(RestoreError::Order { frame: frames.read });
    };
    let mut jobs = Jobs { slab: jobs, ..Jobs::default() };
    for (_, job) in jobs.slab.iter() {
        jobs.by_name.insert(&job.spec.name, job.id);
    }
    let names: Vec<_> = nodes.iter().map(|(node, record)| (node, Arc::clone(&record.spec))).collect();
    for (node, spec) in names {
        nodes.by_name.insert(&spec.name, node);
    }
    Ok(Cell {
        applied: header.applied,
        now_ms: header.now_ms,
        version: header.version,
        chain: header.chain,
        resources,
        classes,
        shapes,
        nodes,
        jobs,
        runs: Runs { slab: runs },
        topologies,
        quota,
        sessions,
        nominations,
        timers,
        ..Cell::default()
    })
}
