//! Spares: seating what was lost where they are, and telling spares from work in what was planned.
//!
//! A spare is planned as one more task behind those of its group, so whatever holds of a task's place holds of it too.

use crate::drive::{self, Attempt, Driver, Failure, GroupAsk};
use crate::rows::seated;
use crate::subject::Subject;
use crate::topology::{Seats, Site};
use ohm_cell::Job;
use ohm_framework::{Decision, Explanation, Obstacle, View};
use ohm_model::{GroupIndex, NodeId, Nomination, Placement, Purpose};
use ohm_stdx::canary::{self, Canary};
use std::collections::BTreeMap;

impl Driver<'_, '_> {
    /// Places for the spares that `job` lacks, and nothing else.
    pub(crate) fn seek_spares(&mut self, job: &Job) -> Decision {
        let base = self.pass.base();
        let mut wide = job.as_if_spared(Job::spares_missing);
        wide.reserved.clear();
        let asks = match drive::asks(&self.pass.view(), &wide) {
            Ok(asks) if !asks.is_empty() => asks,
            _ => return Decision::Nothing(job.id),
        };
        match self.place_job(&wide, &asks) {
            Ok(attempt) if !attempt.rows.is_empty() => self.planned(job, attempt),
            Ok(Attempt { rest: Some(why), .. }) | Err(why) => Decision::Unplaced(why),
            Ok(_) => Decision::Unplaced(Box::new(Explanation::of_obstacle(job.id, base.seen(), 1, Obstacle::Room))),
        }
    }

    /// Places what was lost where spares of its group are.
    pub(crate) fn seat_spared(&mut self, job: &Job, attempt: &mut Attempt) {
        for at in (0..job.groups.len()).filter(|at| job.groups[*at].spares > 0 && !job.groups[*at].lost.is_empty()) {
            let view = self.pass.view().lending_spares(true);
            let Some(subject) = Subject::new(view, job, GroupIndex(at as u16)) else { continue };
            let Ok(site) = self.placer.site(&subject, self.pass.base().cell()) else { continue };
            let rows = spared_rows(&subject, site.as_ref());
            if !rows.is_empty() {
                attempt.taken.push(self.placer.take(self.pass, &rows));
                attempt.rows.extend(rows);
            }
        }
    }

    /// Places a job that starts together with its spares, so that its domain has room for both; without them where that
    /// would leave work out.
    pub(crate) fn place_with_spares(&mut self, job: &Job, asks: &[GroupAsk]) -> Result<Attempt, Failure> {
        let starts = |at: usize| asks.iter().any(|ask| ask.starts && usize::from(ask.group.0) == at);
        let spares = |job: &Job, at: usize| if starts(at) { job.spares_at_most(at) } else { 0 };
        if (0..job.groups.len()).all(|at| spares(job, at) == 0) {
            return self.place_job(job, asks);
        }
        let wide = job.as_if_spared(spares);
        if let Ok(asks) = drive::asks(&self.pass.view(), &wide)
            && let Ok(attempt) = self.place_job(&wide, &asks)
        {
            if all_work_placed(&self.pass.base(), job, &attempt.rows) {
                return Ok(Attempt { rest: None, ..attempt });
            }
            self.undo(attempt);
        }
        self.place_job(job, asks)
    }
}

/// Rows for the lost tasks of the subject's group that spares are held for. The subject's picture lends spares.
pub(crate) fn spared_rows(subject: &Subject<'_>, site: Option<&Site<'_>>) -> Vec<Placement> {
    let at = usize::from(subject.group.0);
    let Some(group) = subject.job.groups.get(at) else { return Vec::new() };
    if !group.started || canary::sings(Canary::SpareUnused) {
        return Vec::new();
    }
    let mut pending = subject.view.pending(subject.job, subject.group);
    group.moving.iter().for_each(|(first, count)| pending.remove(first, count));
    let tasks = group.lost.iter().flat_map(|(first, count)| first..first + count);
    let tasks: Vec<u32> = tasks.filter(|task| pending.contains(*task, 1)).collect();
    let mut spares: Vec<(NodeId, u32)> = subject.view.cell().spares_of(subject.job.id, subject.group).collect();
    if let Some(site) = site {
        spares.sort_by_key(|(node, _)| site.tree.position(*node));
    }
    let usable = |(node, count): (NodeId, u32)| {
        let room = if subject.is_in_domain(node) { subject.room(node).min(count) } else { 0 };
        std::iter::repeat_n(node, room as usize)
    };
    let nodes = spares.into_iter().flat_map(usable);
    let bound: Vec<(u32, NodeId)> = tasks.iter().copied().zip(nodes).collect();
    // Where nothing binds the group to the domain of its spares, the rest of it may be better off in another one.
    let job = subject.job;
    let is_free = job.binding_level(at).is_some() && job.shared_domain(at).is_none();
    let waiting: u32 = job.partners(at).map(|other| job.groups[other].pending.len()).sum();
    if bound.is_empty() || (is_free && (bound.len() as u32) < waiting) {
        return Vec::new();
    }
    seated(subject, &Seats { bound, free: Vec::new() })
}

/// Whether every task of `job` that waits has its place in `rows`.
pub(crate) fn all_work_placed(view: &View<'_>, job: &Job, rows: &[Placement]) -> bool {
    let waiting: u32 = (0..job.groups.len()).map(|at| view.pending(job, GroupIndex(at as u16)).len()).sum();
    rows.iter().map(|row| split(job, row).0).sum::<u32>() == waiting
}

/// How many of the row's tasks are work, and how many spares.
fn split(job: &Job, row: &Placement) -> (u32, u32) {
    let end = job.groups.get(usize::from(row.group.0)).map_or(0, |group| group.tasks.len() as u32);
    let work = end.saturating_sub(row.first.0).min(row.count);
    (work, row.count - work)
}

/// The rows of tasks that `job` has, and room for those that it has not.
pub(crate) fn into_spares(job: &Job, rows: Vec<Placement>) -> (Vec<Placement>, Vec<Nomination>) {
    let mut rooms: BTreeMap<(GroupIndex, NodeId), u32> = BTreeMap::new();
    let mut placed = Vec::with_capacity(rows.len());
    for mut row in rows {
        let (work, spares) = split(job, &row);
        if spares > 0 {
            *rooms.entry((row.group, row.node)).or_insert(0) += spares;
            let width = row.devices.len() / row.count.max(1) as usize;
            row.devices.truncate(width * work as usize);
            row.count = work;
        }
        if work > 0 {
            placed.push(row);
        }
    }
    let room = |((group, node), count)| Nomination { job: job.id, group, node, count, purpose: Purpose::Spare };
    (placed, rooms.into_iter().map(room).collect())
}
