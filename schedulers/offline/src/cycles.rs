//! Passes as schedulers make them: of each queue the first job that waits, in the order in which queues are served.
//!
//! ```text
//! what was told to stop ends ──▶ heads of all queues ──▶ whose turn it is (`Backlog`, `Turns`) ──▶ plan and commit
//!                                                              ▲                                            │
//!                                                              └──────────────── the next one ◀─────────────┘
//! ```

use crate::settle::{Ending, Settled, note_promise, settle};
use crate::standing::Standing;
use crate::world::World;
use ohm_cell::{HeldUsage, Job, Overlay, UsageKey, usage_key};
use ohm_framework::{CellSize, Decision, Need, Turns, need_of, rank_of};
use ohm_model::{JobId, QueueingStrategy};
use ohm_queueing::{Backlog, Rank, Ticket};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

struct Passes<'a> {
    world: &'a mut World,
    jobs: &'a [Standing],
    /// Of each of those.
    settled: Vec<Settled>,
    /// The jobs that stopped for others, and for whom.
    evicted: BTreeMap<JobId, String>,
    parked: BTreeSet<JobId>,
    /// Those of this pass to whom what stops for others leaves enough.
    promised: Vec<JobId>,
    /// The first job of each queue, in one pass; who was served by how much, over all of them.
    heads: Backlog<()>,
    size: CellSize,
}

/// Makes so many passes. Returns what became of each job, and who stopped for whom.
pub(crate) fn run(world: &mut World, jobs: &[Standing], passes: u32) -> (Vec<Settled>, BTreeMap<JobId, String>) {
    let size = CellSize::of(&world.cell);
    let settled = jobs.iter().map(|_| Settled::default()).collect();
    let (evicted, parked, promised) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
    let mut all = Passes { world, jobs, settled, evicted, parked, promised, heads: Backlog::default(), size };
    let quota = all.world.cell.quota();
    for queue in quota.iter() {
        let root = quota.root(&queue.spec.name).into();
        all.heads.set_line(&queue.spec.name.as_str().into(), queue.spec.weight_milli, false, &root);
    }
    for pass in 0..passes {
        if !all.pass(pass > 0) {
            break;
        }
    }
    for (standing, settled) in jobs.iter().zip(&mut all.settled) {
        settled.is_parked = standing.job.as_ref().is_ok_and(|job| all.parked.contains(job));
    }
    (all.settled, all.evicted)
}

impl Passes<'_> {
    /// In a later pass than the first, what was told to stop has ended. Returns whether the next one may find anything
    /// else.
    fn pass(&mut self, is_later: bool) -> bool {
        if is_later && !self.world.end_all_stopping().is_empty() {
            self.parked.clear();
        }
        let parked = self.parked.len();
        self.promised.clear();
        let heads = self.first_of_each();
        for (job, (rank, _)) in &heads {
            let Some(found) = self.world.job(*job) else { continue };
            let (line, shard) = (Arc::from(found.spec.queue.as_str()), found.shard);
            // Nobody's fate says anything about another one.
            let kin = job.0.to_le_bytes().as_slice().into();
            let part = "".into();
            self.heads.put(Ticket {
                rank: *rank,
                line,
                part,
                shard,
                kin,
                starts: found.live() == 0,
                mark: found.version.0,
            });
        }
        let before = self.world.fork();
        let mut is_changed = false;
        while let Some(job) = self.take() {
            if let Some((_, at)) = heads.get(&job) {
                is_changed |= self.serve(job, *at, is_changed.then_some(&before));
            }
        }
        is_changed || self.parked.len() > parked || self.world.is_stopping()
    }

    /// The first job of each queue that waits and is not parked, with its rank and its place in the files.
    fn first_of_each(&self) -> BTreeMap<JobId, (Rank, usize)> {
        let mut first: BTreeMap<&str, ((u8, UsageKey), Rank, usize)> = BTreeMap::new();
        for (at, standing) in self.jobs.iter().enumerate() {
            let planned = standing.job.as_ref().ok().filter(|_| !standing.is_bound_pod);
            let Some(job) = planned.and_then(|job| self.world.job(*job)) else { continue };
            let need = need_of(&self.world.cell, job).filter(|need| *need != Need::Spare);
            let Some(need) = need.filter(|_| !self.parked.contains(&job.id)) else { continue };
            let rank = rank_of(job, need);
            let key = usage_key(&self.world.cell, &job.spec.queue, &job.spec.subqueue, &HeldUsage::new());
            let own = ((rank.urgency, key), rank, at);
            let known = first.entry(job.spec.queue.as_str()).or_insert(own);
            *known = own.min(*known);
        }
        first.into_values().map(|(_, rank, at)| (rank.job, (rank, at))).collect()
    }

    fn take(&mut self) -> Option<JobId> {
        let over = Overlay::default();
        let mut turns = Turns::new(self.world.view(&over), &self.size);
        self.heads.take(&mut usize::MAX.clone(), &mut turns)
    }

    /// Plans a job whose turn it is. Returns whether anything came of it. Where something was changed in this pass,
    /// `before` is the cell as it was.
    fn serve(&mut self, job: JobId, at: usize, before: Option<&World>) -> bool {
        let live = |world: &World| world.job(job).map_or(0, Job::live);
        let (stood, cost) = (live(self.world), self.cost(job));
        let mut settled = settle(self.world, job, Ending::WithThePass);
        note_promise(self.world, job, &mut settled, &mut self.promised);
        let preempts = settled.preempts.iter().map(|victim| &victim.job);
        for victim in preempts.chain(&settled.victims) {
            self.evicted.insert(*victim, self.jobs[at].spec.name.clone());
        }
        let is_served = !settled.preempts.is_empty() || live(self.world) > stood;
        if is_served {
            let fare = self.heads.depart(job, cost);
            self.heads.settle(fare, 0, 1);
        } else {
            self.heads.remove(job);
            let had_a_chance = before.is_some_and(|before| would_be_placed(&mut before.fork(), job));
            if !had_a_chance && !settled.awaits_victims && !self.is_strict(job) {
                self.parked.insert(job);
            }
        }
        let mut preempted = std::mem::take(&mut self.settled[at].preempts);
        preempted.append(&mut settled.preempts);
        settled.breaking.append(&mut self.settled[at].breaking);
        self.settled[at] = Settled { preempts: preempted, ..settled };
        is_served
    }

    fn cost(&self, job: JobId) -> u64 {
        self.size.cost_of_job(&self.world.cell, job)
    }

    fn is_strict(&self, job: JobId) -> bool {
        let queue = self.world.job(job).and_then(|job| self.world.cell.quota().get(&job.spec.queue));
        queue.is_some_and(|queue| queue.spec.queueing_strategy == QueueingStrategy::StrictFifo)
    }
}

/// Whether room and quota are found for `job` without stopping anybody.
fn would_be_placed(world: &mut World, job: JobId) -> bool {
    matches!(world.plan(job), Some(Decision::Planned(planned)) if planned.preempt.is_empty())
}
