//! Whose turn it is among the queues of one cohort tree: who has it within its own quota goes before who borrows.
//!
//! ```text
//! without fair sharing   who borrows from least far up (Kueue's borrowing level)
//! with it                a tournament from the queues up: at each cohort the child that does not borrow what the job
//!                        asks for, then the one with the smaller share; each child with its own first job added
//! equal                  by turns, as `ohm_queueing` keeps them: what was placed for its weight, then priority and age
//! ```
//! What is under way, and what was taken in the same pass, counts as used.

use crate::cost::CellSize;
use crate::flavors::{choices, may_choose};
use crate::view::View;
use ohm_cell::{Cell, HeldUsage, Job, QueueId, QuotaIf, Share, is_ordered_by_usage, usage_key};
use ohm_model::{FlavorResource, JobId};
use ohm_queueing::Chooser;
use std::collections::BTreeMap;

/// Chooses among the first jobs of queues.
pub struct Turns<'a> {
    view: View<'a>,
    size: &'a CellSize,
    /// Taken in this pass, and not charged to the tree yet.
    taken: Vec<JobId>,
    /// The quota with all that was taken; nothing before it is asked for.
    tree: Option<QuotaIf<'a>>,
    /// What jobs ask for, as far as that was worked out.
    asked: BTreeMap<JobId, Vec<(FlavorResource, i64)>>,
    /// What is under way or taken of queues whose jobs come in the order of what their subqueues have used.
    held: BTreeMap<&'a str, HeldUsage>,
}

/// What the first job of a queue asks for.
struct Head {
    queue: QueueId,
    asked: Vec<(FlavorResource, i64)>,
}

/// One that is left in the tournament: the queue or cohort, how many levels below the root it is, and its best job.
struct Contestant {
    node: QueueId,
    depth: usize,
    head: usize,
}

impl<'a> Turns<'a> {
    /// On this picture; turns are paid in parts of `size`.
    pub fn new(view: View<'a>, size: &'a CellSize) -> Self {
        Turns { view, size, taken: Vec::new(), tree: None, asked: BTreeMap::new(), held: BTreeMap::new() }
    }

    /// Where so much of a queue is under way already, by its parts.
    pub(crate) fn with_held(mut self, queue: &'a str, held: HeldUsage) -> Self {
        self.held.insert(queue, held);
        self
    }

    /// The key that the job's part of its queue has with this job, and with what was taken before.
    fn key_with(&mut self, job: &'a Job) -> u128 {
        let (cell, queue, part) = (self.cell(), job.spec.queue.as_str(), job.spec.subqueue.as_str());
        let tree = QuotaIf::over(self.view.what());
        let asked = self.ask(&tree, job);
        let held = self.held.entry(queue).or_default();
        let sums = held.entry(part.to_string()).or_default();
        for (column, amount) in asked {
            let sum = sums.entry(column).or_insert(0);
            *sum = sum.saturating_add(amount);
        }
        usage_key(cell, queue, part, held).0
    }

    fn cell(&self) -> &'a Cell {
        self.view.cell()
    }

    fn job(&self, job: JobId) -> Option<&'a Job> {
        self.cell().jobs().get(job).map(AsRef::as_ref)
    }

    /// What a job asks for of its queue, of the flavors that it would be planned with.
    fn ask(&self, tree: &QuotaIf<'a>, job: &Job) -> Vec<(FlavorResource, i64)> {
        let choice = if may_choose(job) { choices(&self.view, job, true).into_iter().next() } else { None };
        let chosen = choice.and_then(|choice| job.with_flavors(&choice.flavors));
        tree.asked(chosen.as_ref().unwrap_or(job))
    }

    fn head(&mut self, tree: &QuotaIf<'a>, job: JobId) -> Option<Head> {
        let found = self.job(job)?;
        let queue = self.cell().quota().find(&found.spec.queue)?;
        if let Some(asked) = self.asked.get(&job) {
            return Some(Head { queue, asked: asked.clone() });
        }
        let mut asked = self.ask(tree, found);
        asked.retain(|(column, _)| tree.available(queue, *column).is_some());
        self.asked.insert(job, asked.clone());
        Some(Head { queue, asked })
    }

    /// The tree with all that was taken.
    fn take_tree(&mut self) -> QuotaIf<'a> {
        let mut tree = self.tree.take().unwrap_or_else(|| QuotaIf::over(self.view.what()));
        for job in std::mem::take(&mut self.taken) {
            if let Some(head) = self.head(&tree, job) {
                tree.charge(head.queue, &head.asked, 1);
            }
        }
        tree
    }

    fn is_fair(&self) -> bool {
        self.cell().quota().scheduling().fair_sharing.is_some()
    }
}

impl Chooser for Turns<'_> {
    fn cost_of(&self, job: JobId) -> u64 {
        self.size.cost_of_job(self.cell(), job)
    }

    fn note_taken(&mut self, job: JobId) {
        if self.job(job).is_some_and(|job| !job.spec.queue.is_empty()) {
            self.taken.push(job);
        }
    }

    fn key_after(&mut self, job: JobId) -> Option<(&str, u128)> {
        let job = self.job(job).filter(|job| is_ordered_by_usage(self.cell(), &job.spec.queue))?;
        Some((&job.spec.subqueue, self.key_with(job)))
    }

    fn first_of(&mut self, heads: &mut dyn Iterator<Item = JobId>) -> usize {
        let mut tree = self.take_tree();
        let (mut found, mut best) = (Vec::new(), None);
        let is_fair = self.is_fair();
        for (at, job) in heads.enumerate() {
            let head = self.head(&tree, job);
            let level = head.as_ref().map_or(0, |head| level(&tree, head));
            // Nobody goes before the first one for whom nothing is borrowed.
            if level == 0 && head.as_ref().is_none_or(|head| !is_fair || borrows_nothing(self.cell(), &mut tree, head))
            {
                self.tree = Some(tree);
                return at;
            }
            if best.is_none_or(|(known, _)| level < known) {
                best = Some((level, at));
            }
            found.extend(head.map(|head| (at, head)));
        }
        let chosen = if is_fair { tournament(self.cell(), &mut tree, &found) } else { None };
        self.tree = Some(tree);
        chosen.or(best.map(|(_, at)| at)).unwrap_or(0)
    }
}

/// From how far up the queue borrows for its first job.
fn level(tree: &QuotaIf<'_>, head: &Head) -> u32 {
    let levels = head.asked.iter().map(|&(column, amount)| tree.borrowing_level(head.queue, column, amount));
    levels.max().unwrap_or(0)
}

/// Whether neither the queue nor any cohort above it has a share once the job is placed.
fn borrows_nothing(cell: &Cell, tree: &mut QuotaIf<'_>, head: &Head) -> bool {
    let mut path = std::iter::successors(Some(head.queue), |at| cell.quota().above(*at));
    path.all(|node| with_head(tree, head, node) == (false, Share::default()))
}

/// The place of the job that wins; nothing where nobody is there.
fn tournament(cell: &Cell, tree: &mut QuotaIf<'_>, heads: &[(usize, Head)]) -> Option<usize> {
    let depth = |queue: QueueId| std::iter::successors(cell.quota().above(queue), |at| cell.quota().above(*at)).count();
    let mut left: Vec<Contestant> = heads
        .iter()
        .enumerate()
        .map(|(head, (_, found))| Contestant { node: found.queue, depth: depth(found.queue), head })
        .collect();
    let mut deepest = left.iter().map(|contestant| contestant.depth).max()?;
    while deepest > 0 {
        let (here, others): (Vec<_>, Vec<_>) = left.into_iter().partition(|contestant| contestant.depth == deepest);
        left = others;
        let mut winners: Vec<(QueueId, (bool, Share, usize))> = Vec::new();
        for Contestant { node, head, .. } in here {
            let Some(above) = cell.quota().above(node) else { continue };
            let (borrows, share) = with_head(tree, &heads[head].1, node);
            let standing = (borrows, share, head);
            match winners.iter_mut().find(|(cohort, _)| *cohort == above) {
                Some((_, known)) if standing < *known => *known = standing,
                Some(_) => {}
                None => winners.push((above, standing)),
            }
        }
        deepest -= 1;
        left.extend(winners.into_iter().map(|(node, (_, _, head))| Contestant { node, depth: deepest, head }));
    }
    let head = left.into_iter().map(|contestant| contestant.head).min()?;
    Some(heads[head].0)
}

/// Whether `node` borrows of what the job asks for once it has it, and its share then.
fn with_head(tree: &mut QuotaIf<'_>, head: &Head, node: QueueId) -> (bool, Share) {
    tree.charge(head.queue, &head.asked, 1);
    let borrows = head.asked.iter().any(|(column, _)| tree.beyond_own(node, *column) > 0);
    let share = tree.share(node);
    tree.charge(head.queue, &head.asked, -1);
    (borrows, share)
}
