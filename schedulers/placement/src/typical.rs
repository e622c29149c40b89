//! What the cell is typically asked for: the requests for devices of all jobs that wait or run, and which part of their
//! tasks asks for each. It says what devices that stay free will be good for.
//!
//! It is counted anew once the cell has changed by so much, never with every job: each time, what scans have found is
//! void. The same cell gives the same counts.

use ohm_cell::{Cell, JobState, Shape};
use ohm_model::{Index, ShapeId};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Of so many requests at most: those of the most tasks.
const REQUESTS_MAX: usize = 64;
/// What parts are counted in.
const PARTS: u64 = 1024;
/// Counted anew after so many entries of the log.
const ENTRIES: u64 = 1024;

/// One request for devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypicalRequest {
    /// What one task asks for.
    pub shape: Arc<Shape>,
    /// Its number, by which the cell knows which nodes it may go to.
    pub number: ShapeId,
    /// How many of 1024 tasks ask for it; 1 at least.
    pub parts: u64,
}

/// The requests for devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Typical {
    /// The requests, those of the most tasks first.
    pub requests: Vec<TypicalRequest>,
}

impl Typical {
    /// As `cell` is now.
    pub fn of(cell: &Cell) -> Self {
        if cell.shapes().iter().all(|shape| shape.devices.is_empty()) {
            return Typical::default();
        }
        let mut tasks: BTreeMap<ShapeId, u64> = BTreeMap::new();
        for job in cell.jobs().iter().filter(|job| !matches!(job.state, JobState::Finished(_))) {
            for (group, spec) in job.groups.iter().zip(&job.spec.groups) {
                *tasks.entry(group.shape).or_insert(0) += u64::from(spec.count);
            }
        }
        let shapes = tasks.into_iter().filter_map(|(number, tasks)| Some((number, tasks, cell.shapes().get(number)?)));
        let mut shapes: Vec<_> = shapes.filter(|(_, _, shape)| !shape.devices.is_empty()).collect();
        shapes.sort_by_key(|(number, tasks, _)| (Reverse(*tasks), *number));
        shapes.truncate(REQUESTS_MAX);
        let all = shapes.iter().fold(0u64, |sum, (_, tasks, _)| sum.saturating_add(*tasks)).max(1);
        let request = |(number, tasks, shape): (ShapeId, u64, &Arc<Shape>)| {
            let parts = u128::from(tasks) * u128::from(PARTS) / u128::from(all);
            TypicalRequest { shape: Arc::clone(shape), number, parts: (parts as u64).max(1) }
        };
        Typical { requests: shapes.into_iter().map(request).collect() }
    }

    /// The parts of all requests together.
    pub fn parts(&self) -> u64 {
        self.requests.iter().map(|request| request.parts).sum()
    }
}

/// When the requests were counted last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    applied: Index,
    jobs: usize,
}

impl Counted {
    pub(crate) fn now(cell: &Cell) -> Self {
        Counted { applied: cell.applied(), jobs: cell.jobs().len() }
    }

    /// Whether the cell has changed so much since: a quarter of its jobs came or went, or its log has gone on for long.
    pub(crate) fn is_outdated(&self, cell: &Cell) -> bool {
        let moved = cell.jobs().len().abs_diff(self.jobs);
        moved.saturating_mul(4) > self.jobs || cell.applied().0.saturating_sub(self.applied.0) >= ENTRIES
    }
}
