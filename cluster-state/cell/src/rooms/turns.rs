//! What is left to jobs that come before others of their queue: quota for what they need to start.
//!
//! Several schedulers plan one queue. Each of them puts its own jobs in order, so only those of the others are looked
//! at here: with one scheduler nothing is ceded. What a job is ceded ends with its patience (`headPatienceSeconds`),
//! unless it is the head of its line by then: one that fits nowhere does not keep back those behind it, as in a
//! BestEffortFIFO queue of Kueue, where the next one is looked at when the first has found no place.

use crate::cell::Cell;
use crate::rooms::ceded::{Ceded, Sums, Walk, add};
use crate::rooms::checks::is_checked;
use crate::rooms::grid::Grid;
use crate::rooms::heads::patient_until_ms;
use crate::rooms::order::{HeldUsage, place_of, waiting_between};
use crate::rooms::promised::promised_to_others;
use crate::state::admission::Standing;
use crate::state::jobs::Job;
use crate::state::quota::{AT_ONCE, QueueId};
use crate::state::turns::Place;
use ohm_model::{FlavorResource, JobId, Lease, SessionId, ShapeId, Shard};
use ohm_stdx::bug::{self, Bug};
use std::sync::Arc;

/// So many jobs of a line are looked at: more than schedulers have under way at once, and few enough for each decision.
const AHEAD_MAX: usize = 256;

impl Ceded {
    /// Finds what `job` leaves to others, of the quota that `over` leaves. Returns whether that may differ from what
    /// was found before.
    #[inline]
    pub(crate) fn find(&mut self, (cell, over): (&Cell, &Grid), job: &Job, queue: Option<QueueId>) -> bool {
        let promised = promised_to_others((cell, over), job, queue.filter(|_| leaves_quota(job)));
        let others = self.promised != promised;
        self.promised = promised;
        self.find_in_line((cell, over), job, queue) || others
    }

    #[inline]
    fn find_in_line(&mut self, (cell, over): (&Cell, &Grid), job: &Job, queue: Option<QueueId>) -> bool {
        let limited = queue.filter(|queue| cell.quota.at(*queue).limits_anything() && leaves_quota(job));
        let holder = limited.and_then(|_| holder_of(cell, job.shard)).filter(|_| !bug::is_planted(Bug::IgnoreTurns));
        let (Some(queue), Some(holder)) = (limited, holder) else {
            let any = self.any();
            self.clear();
            return any;
        };
        self.walk_to((cell, over), job, (queue, holder))
    }

    fn walk_to(&mut self, (cell, over): (&Cell, &Grid), job: &Job, (queue, holder): (QueueId, SessionId)) -> bool {
        let until = place_of(cell, job, &HeldUsage::new());
        let same = |walk: &Walk| (walk.queue, walk.holder) == (queue, holder) && walk.until <= until;
        let mut changed = false;
        let walked = self.walk.filter(same);
        if walked.is_none() {
            changed = self.any();
            self.clear();
        }
        // Where one scheduler has the whole line, nobody in it is looked at.
        let is_shared = || cell.turns.shards(&job.spec.queue).any(|shard| is_of_others(cell, shard, holder));
        let mut looked_at = match walked {
            Some(walk) => walk.looked_at,
            None if !is_shared() => AHEAD_MAX,
            None if is_enough_for_all((cell, over), queue, job) => return changed,
            None => 0,
        };
        let walked_to = walked.map(|walk| walk.until);
        let line = waiting_between(cell, &job.spec.queue, (walked_to, Some(until)), &HeldUsage::new());
        for other in line.take(AHEAD_MAX - looked_at) {
            looked_at += 1;
            let Some(other) = cell.jobs.get(other) else { continue };
            if is_of_others(cell, other.shard, holder)
                && is_patient(cell, other)
                && self.asks(cell, other, queue)
                && self.fits(cell, queue)
            {
                self.leave_ask();
                changed = true;
            }
        }
        self.walk = Some(Walk { queue, holder, until, looked_at });
        changed
    }

    /// Writes what `job` needs to start, of the flavors that the quota has for it; returns whether it could start now,
    /// as far as the job itself goes.
    fn asks(&mut self, cell: &Cell, job: &Job, queue: QueueId) -> bool {
        let Ceded { amounts, ask, .. } = self;
        let left = |column: FlavorResource| {
            let ceded = amounts.iter().find(|(known, _)| *known == column).map_or(0, |(_, amount)| *amount);
            cell.quota.left_over(queue, &[(column, 0)], &Grid::default())[0].saturating_sub(ceded)
        };
        asks(cell, job, ask, left)
    }

    /// Whether the quota allows what is asked, beside what others are ceded.
    fn fits(&self, cell: &Cell, queue: QueueId) -> bool {
        self.ask.chunks(AT_ONCE).all(|asked| {
            let left = cell.quota.left_over(queue, asked, &Grid::default());
            asked.iter().zip(left).all(|(&(column, ask), left)| left - self.of(column) >= ask)
        })
    }
}

/// The queues of which jobs wait to start.
pub fn waiting_queues(cell: &Cell) -> impl Iterator<Item = &str> {
    cell.turns.queues()
}

/// The job of `queue` that waits to start, is none of those that `is_own` says, has a scheduler, and finds the quota
/// that it needs. Only the first of them is looked at, as far as it is among the first of the queue.
pub fn waits_elsewhere(cell: &Cell, queue: &str, is_own: impl Fn(Shard) -> bool) -> Option<JobId> {
    if cell.turns.shards(queue).all(&is_own) {
        return None;
    }
    let job = first_in_line(cell, queue, None).find(|job| !is_own(job.shard))?;
    let (at, mut ceded) = (cell.quota.find(queue)?, Ceded::default());
    let may_start = holder_of(cell, job.shard).is_some() && ceded.asks(cell, job, at) && ceded.fits(cell, at);
    may_start.then_some(job.id)
}

/// Whether jobs of its queue that wait to start, and are none of those that `is_own` says, come before `job`: so many
/// of them, or with what they need the quota has nothing left for it. However long they have waited: this is for
/// whoever orders jobs, who learns whether the others make use of it.
pub fn others_come_first(cell: &Cell, job: &Job, is_own: impl Fn(Shard) -> bool, many: usize) -> bool {
    let Some(queue) = cell.quota.find(&job.spec.queue) else { return false };
    let others = first_in_line(cell, &job.spec.queue, Some(place_of(cell, job, &HeldUsage::new())));
    let (mut ceded, mut count) = (Ceded::default(), 0);
    for other in others.filter(|other| !is_own(other.shard) && holder_of(cell, other.shard).is_some()) {
        count += 1;
        if count >= many {
            return true;
        }
        if ceded.asks(cell, other, queue) && ceded.fits(cell, queue) {
            ceded.leave_ask();
        }
    }
    ceded.any() && ceded.asks(cell, job, queue) && !ceded.fits(cell, queue)
}

/// The first jobs of `queue` that wait to start, in order, before `until`.
fn first_in_line<'a>(
    cell: &'a Cell,
    queue: &str,
    until: Option<Place>,
) -> impl Iterator<Item = &'a Arc<Job>> + use<'a> {
    waiting_between(cell, queue, (None, until), &HeldUsage::new()).take(AHEAD_MAX).filter_map(|job| cell.jobs.get(job))
}

/// Whether `job` waits to start, and the quota has what all that do in its queue ask for: then none of them leaves
/// anything to others.
fn is_enough_for_all((cell, over): (&Cell, &Grid), at: QueueId, job: &Job) -> bool {
    if !cell.turns.contains(job) {
        return false;
    }
    cell.turns.asked(&job.spec.queue).chunks(AT_ONCE).all(|asked| {
        let mut columns = [(FlavorResource(0), 0); AT_ONCE];
        columns.iter_mut().zip(asked).for_each(|(to, (column, _))| to.0 = *column);
        let left = cell.quota.left_over(at, &columns[..asked.len()], over);
        asked.iter().zip(left).all(|((_, asked), left)| i128::from(left) >= *asked)
    })
}

/// What is repaired, moves, or has its quota goes before all that waits to start.
fn leaves_quota(job: &Job) -> bool {
    job.reserved.is_empty() && job.groups.iter().all(|group| group.lost.is_empty() && group.moving.is_empty())
}

fn holder_of(cell: &Cell, shard: Shard) -> Option<SessionId> {
    cell.sessions.lease(Lease::Shard(shard)).holder
}

/// Whether another session than `holder` plans the jobs of the shard.
fn is_of_others(cell: &Cell, shard: Shard, holder: SessionId) -> bool {
    holder_of(cell, shard).is_some_and(|other| other != holder)
}

/// Whether the job, which waits to start, is still ceded something.
fn is_patient(cell: &Cell, job: &Job) -> bool {
    cell.now_ms < patient_until_ms(cell, job) || cell.nominations.is_head(job.id)
}

/// Writes what `job` needs to start, of each group by the first offer of which the quota has enough `left`, else by the
/// first one; returns whether it could start now, as far as the job itself goes.
fn asks(cell: &Cell, job: &Job, ask: &mut Sums, left: impl Fn(FlavorResource) -> i64) -> bool {
    ask.clear();
    let whole = match cell.standing(job) {
        Standing::Free => false,
        Standing::Unreserved => true,
        _ => return false,
    };
    let queue = cell.quota.get(&job.spec.queue).filter(|_| !job.stands());
    for (group, spec) in job.groups.iter().zip(&job.spec.groups) {
        let needed = if whole { spec.count } else { group.needed(spec) };
        if !whole && group.pending.len() < needed {
            if job.starts_whole() {
                return false;
            }
            continue;
        }
        let offers = group.offers();
        let is_left = |shape: &&ShapeId| {
            let mut charges = cell.shapes.get(**shape).into_iter().flat_map(|shape| &shape.charges);
            charges.all(|&(column, one)| {
                let asked = ask.iter().find(|(known, _)| *known == column).map_or(0, |(_, amount)| *amount);
                asked.saturating_add(one.saturating_mul(i64::from(needed))) <= left(column)
            })
        };
        let offer = if offers.len() > 1 { offers.iter().find(is_left) } else { None };
        let Some(&offer) = offer.or(offers.first()) else { continue };
        let Some(shape) = cell.shapes.get(offer) else { continue };
        // What checks are asked for is reserved as a whole.
        let is_checked = || queue.is_some_and(|queue| is_checked(cell, &queue.spec, offer));
        let needed = if !whole && is_checked() { spec.count } else { needed };
        shape.charges.iter().for_each(|&(column, one)| add(ask, column, one.saturating_mul(i64::from(needed))));
    }
    !ask.is_empty()
}
