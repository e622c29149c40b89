//! What lines get when there is less room than work: shares by weight, of what is placed.

use ohm_model::{Class, Index, JobId, ResourceId, Shard};
use ohm_queueing::{Backlog, Blocker, Chooser, Fare, Rank, Ticket, WHOLE};
use ohm_stdx::Prng;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A cell with so many cpus, a backlog, and what runs.
struct Cell {
    dice: Prng,
    jobs: Backlog<&'static str>,
    free: u64,
    cpus: u64,
    /// Line and size of each job.
    sizes: BTreeMap<JobId, (usize, u64)>,
    /// Until which step a job runs.
    runs: Vec<(u64, JobId)>,
    /// Plans whose verdict comes with the next step.
    flights: Vec<(JobId, Option<Fare>)>,
    /// Of a hundred plans so many are refused.
    refused: u64,
    lines: Vec<Arc<str>>,
    /// What was started of each line, in cpus.
    started: Vec<u64>,
    next: u64,
}

/// A job costs what it asks for; nobody goes before another line's turn.
struct Sizes<'a> {
    cpus: u64,
    sizes: &'a BTreeMap<JobId, (usize, u64)>,
}

impl Chooser for Sizes<'_> {
    fn cost_of(&self, job: JobId) -> u64 {
        WHOLE / self.cpus * self.sizes[&job].1
    }

    fn first_of(&mut self, _: &mut dyn Iterator<Item = JobId>) -> usize {
        0
    }

    fn note_taken(&mut self, _: JobId) {}
}

impl Cell {
    fn new(seed: u64, cpus: u64, weights: &[u32]) -> Self {
        let lines: Vec<Arc<str>> = (0..weights.len()).map(|line| Arc::from(format!("line-{line}"))).collect();
        let mut jobs = Backlog::default();
        lines
            .iter()
            .zip(weights)
            .for_each(|(line, weight)| jobs.set_line(line, u64::from(*weight) * 1000, false, &"root".into()));
        Cell {
            dice: Prng::new(seed),
            jobs,
            free: cpus,
            cpus,
            sizes: BTreeMap::new(),
            runs: Vec::new(),
            flights: Vec::new(),
            refused: 0,
            started: vec![0; lines.len()],
            lines,
            next: 0,
        }
    }

    /// `count` jobs of `size` cpus each.
    fn submit(&mut self, line: usize, count: u64, size: u64) {
        for _ in 0..count {
            self.next += 1;
            self.sizes.insert(JobId(self.next), (line, size));
            self.put(JobId(self.next));
        }
    }

    fn put(&mut self, job: JobId) {
        let (line, size) = self.sizes[&job];
        let rank = Rank { urgency: 2, priority: Reverse(0), submitted: Index(job.0), job };
        let kin = format!("{line} {size}").into_bytes().into();
        let shard = Shard { class: Class::BATCH, number: 0 };
        self.jobs.put(Ticket {
            rank,
            line: Arc::clone(&self.lines[line]),
            part: "".into(),
            shard,
            kin,
            starts: true,
            mark: 0,
        });
    }

    fn take(&mut self) -> Option<JobId> {
        self.jobs.take(&mut usize::MAX.clone(), &mut Sizes { cpus: self.cpus, sizes: &self.sizes })
    }

    /// As a scheduler does: takes what there is, plans it in that order, and so on until nobody is left to look at.
    fn plan(&mut self, now: u64) {
        loop {
            let pass: Vec<JobId> = std::iter::from_fn(|| self.take()).take(64).collect();
            if pass.is_empty() {
                return assert!(!self.jobs.has_ready(), "somebody is ready and nobody is taken");
            }
            for job in pass {
                let (line, size) = self.sizes[&job];
                if size > self.free {
                    self.jobs.park(job, Blocker::Room { resource: ResourceId(0), asked: size as i64 }, "full");
                    continue;
                }
                self.free -= size;
                let fare = self.jobs.depart(job, WHOLE / self.cpus * size);
                if self.dice.below(100) < self.refused {
                    self.flights.push((job, fare));
                    continue;
                }
                self.jobs.settle(fare, 0, 1);
                self.started[line] += size;
                self.runs.push((now + 8 + self.dice.below(5), job));
            }
        }
    }

    fn step(&mut self, now: u64) {
        let before = self.free;
        for (job, fare) in std::mem::take(&mut self.flights) {
            self.put(job);
            self.free += self.sizes[&job].1;
            self.jobs.settle(fare, 1, 1);
        }
        let (over, runs) = std::mem::take(&mut self.runs).into_iter().partition(|(until, _)| *until <= now);
        self.runs = runs;
        let over: Vec<(u64, JobId)> = over;
        self.free += over.iter().map(|(_, job)| self.sizes[job].1).sum::<u64>();
        if self.free > before {
            self.jobs.wake_room(ResourceId(0), self.free as i64);
        }
        self.plan(now);
    }
}

/// That `started` stands as `weights` do, to one in twenty.
#[track_caller]
fn assert_shares(started: &[u64], weights: &[u32], what: &str) {
    let (all, of): (u64, u32) = (started.iter().sum(), weights.iter().sum());
    for (line, weight) in started.iter().zip(weights) {
        let due = all * u64::from(*weight) / u64::from(of);
        assert!(line.abs_diff(due) * 20 <= due, "{what}: {started:?} for weights {weights:?}");
    }
}

#[test]
fn parked_jobs_of_two_lines_start_by_weight() {
    for seed in 0..50 {
        let mut cell = Cell::new(seed, 20, &[3, 1]);
        cell.submit(1, 200, 1);
        cell.submit(0, 200, 1);
        (0..90).for_each(|now| cell.step(now));
        assert!(cell.started.iter().sum::<u64>() > 150, "{:?}", cell.started);
        assert!(cell.started[0] < 200, "there is always work of both");
        assert_shares(&cell.started, &[3, 1], &format!("seed {seed}"));
    }
}

#[test]
fn a_share_is_one_of_what_is_taken_and_not_of_jobs() {
    for seed in 0..20 {
        let mut cell = Cell::new(seed, 40, &[1, 1, 2]);
        cell.submit(0, 2000, 1);
        cell.submit(1, 500, 4);
        cell.submit(2, 1000, 2);
        (0..250).for_each(|now| cell.step(now));
        assert_shares(&cell.started, &[1, 1, 2], &format!("seed {seed}"));
    }
}

#[test]
fn refused_plans_cost_nothing() {
    for seed in 0..20 {
        let mut cell = Cell::new(seed, 20, &[3, 1]);
        cell.refused = 40;
        cell.submit(0, 400, 1);
        cell.submit(1, 400, 1);
        (0..150).for_each(|now| cell.step(now));
        assert_shares(&cell.started, &[3, 1], &format!("seed {seed}"));
    }
}

#[test]
fn many_lines_of_one_job_at_a_time_keep_their_shares() {
    // Each line has only as many jobs at a time as its share of the cell, and is without a ready one most of the time.
    let weights = [4, 3, 2, 1];
    let mut cell = Cell::new(7, 10, &weights);
    (0..4).for_each(|line| cell.submit(line, 600, 1));
    (0..500).for_each(|now| cell.step(now));
    assert_shares(&cell.started, &weights, "many");
}

#[test]
fn what_kept_a_line_back_is_made_up_for_by_one_whole_cell_at_most() {
    let mut cell = Cell::new(1, 20, &[1, 1]);
    // Larger than the cell: its line has work all the time, and nothing of it is ever placed.
    cell.submit(0, 1, 21);
    cell.submit(1, 4000, 1);
    (0..800).for_each(|now| cell.step(now));
    assert_eq!(cell.started[0], 0);
    let before = cell.started[1];
    assert!(before > 1000, "{before}");
    cell.submit(0, 4000, 1);
    (800..1000).for_each(|now| cell.step(now));
    let (late, other) = (cell.started[0], cell.started[1] - before);
    assert!(late > other && late <= other + 22, "{late} and {other}");
}
