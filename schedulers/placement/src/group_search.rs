//! Placing one group: quota first, then nominated room, then its topology or all nodes; and why not, if not.

use crate::amount::{Amount, Spots, tasks_of};
use crate::asks::GroupAsk;
use crate::placer::{Pass, Placer};
use crate::rows::{rows, seated};
use crate::seek::Seek;
use crate::subject::Subject;
use crate::topology::Site;
use ohm_cell::Shape;
use ohm_framework::{Explanation, Obstacle};
use ohm_model::{FlavorResource, NodeId, Placement};
use ohm_stdx::Prng;

pub(crate) struct GroupSearch<'a> {
    pub(crate) placer: &'a mut Placer,
    pub(crate) pass: &'a Pass<'a>,
    pub(crate) subject: Subject<'a>,
    pub(crate) ask: &'a GroupAsk,
    pub(crate) seek: &'a Seek,
    pub(crate) dice: &'a mut Prng,
}

impl<'a> GroupSearch<'a> {
    /// Rows for the group, or why there are none.
    pub(crate) fn place(&mut self, domain: Option<(&str, u32)>) -> Result<Vec<Placement>, Box<Explanation>> {
        let ask = *self.ask;
        let quota = quota(&self.subject, None);
        let most = quota.map_or(ask.most, |quota| ask.most.min(quota.tasks));
        if let Some(quota) = quota
            && most < ask.least
        {
            return Err(self.explain(quota.obstacle(&self.subject, ask.least)));
        }
        // What a rigid group starts without is left out for good: for want of room, never for want of rows.
        let nodes = if ask.starts && !self.subject.spec.elastic { usize::MAX } else { self.seek.most_rows };
        let amount = Amount { least: ask.least, most, nodes, attempt: self.seek.attempt, salt: self.seek.salt };
        let spots = match self.site()? {
            Some(site) => return self.seats(&site, &amount, domain),
            None => self.spots(&amount),
        };
        if tasks_of(&spots) < ask.least {
            let obstacle = self.stopping().unwrap_or(Obstacle::Room);
            let mut why = self.explain(obstacle);
            if self.subject.surroundings().is_some() {
                // Each node may take more than all of them together.
                why.fit = tasks_of(&spots);
            }
            return Err(why);
        }
        Ok(rows(&self.subject, &spots))
    }

    fn site(&mut self) -> Result<Option<Site<'a>>, Box<Explanation>> {
        let cell = self.pass.cell();
        self.placer.site(&self.subject, cell).map_err(|obstacle| self.explain(obstacle))
    }

    /// Rows for the group in its topology.
    fn seats(
        &mut self,
        site: &Site<'_>,
        amount: &Amount,
        domain: Option<(&str, u32)>,
    ) -> Result<Vec<Placement>, Box<Explanation>> {
        let domain = domain.map(|(label, key)| (site.topology.level(label).unwrap_or(site.wish.level), key));
        match self.placer.place_in_topology(self.pass, &self.subject, site, domain, amount) {
            Ok(seats) => Ok(seated(&self.subject, &seats)),
            Err(refusal) => Err(self.placer.explain_refusal(self.pass, &self.subject, refusal)),
        }
    }

    fn spots(&mut self, amount: &Amount) -> Spots {
        if self.seek.nominated {
            let nodes = self.nominated();
            let spots = self.placer.place_among(self.pass, &self.subject, &nodes, amount);
            if tasks_of(&spots) >= amount.least {
                return spots;
            }
        }
        self.placer.place_flat(self.pass, &self.subject, amount, self.dice)
    }

    fn explain(&mut self, obstacle: Obstacle) -> Box<Explanation> {
        Box::new(self.placer.explain(self.pass, &self.subject, self.ask.least, obstacle))
    }

    /// The nodes where room is promised to this group.
    fn nominated(&self) -> Vec<NodeId> {
        let (job, group) = (self.subject.job.id, self.subject.group.0);
        let kept = self.subject.view.cell().nominations().of_job(job);
        kept.filter(|(_, held)| held.is_promised() && held.group == group).map(|(node, _)| node).collect()
    }

    /// If room is kept for the group and runs there have not ended yet: how many.
    fn stopping(&self) -> Option<Obstacle> {
        let cell = self.subject.view.cell();
        let on = |node: &NodeId| cell.runs().on_node(cell.nodes(), *node).filter(|(_, run)| run.stop.is_some()).count();
        let runs: usize = self.nominated().iter().map(on).sum();
        (runs > 0).then_some(Obstacle::Stopping { runs: runs as u32 })
    }
}

/// What the queue still allows of the subject's group, beside one task of `other` if there is one; nothing when it does
/// not limit the group.
pub(crate) fn quota(subject: &Subject<'_>, other: Option<&Shape>) -> Option<QuotaRoom> {
    let job = subject.job;
    if job.spec.queue.is_empty() || !job.reserved.is_empty() {
        return None;
    }
    let quota = subject.view.quota_of(job)?;
    let rooms = subject.shape.charges.iter().filter_map(|&(column, request)| {
        let beside = other.map_or(0, |other| charge_of(other, column));
        let (left, ceded) = (quota.available(column)?, quota.ceded(column));
        let tasks = ((left - beside).max(0) / request.max(1)).min(i64::from(u32::MAX)) as u32;
        Some(QuotaRoom { tasks, column, request, beside, left, ceded })
    });
    rooms.min_by_key(|room| (room.tasks, room.column))
}

/// What one task is charged of `column`.
pub(crate) fn charge_of(shape: &Shape, column: FlavorResource) -> i64 {
    shape.charges.iter().find(|(asked, _)| *asked == column).map_or(0, |(_, request)| *request)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct QuotaRoom {
    pub(crate) tasks: u32,
    column: FlavorResource,
    request: i64,
    /// What a task placed with them asks for.
    beside: i64,
    /// What the queue may still use, beside what is `ceded`.
    left: i64,
    /// What is left to jobs before this one.
    ceded: i64,
}

impl QuotaRoom {
    pub(crate) fn obstacle(&self, subject: &Subject<'_>, tasks: u32) -> Obstacle {
        let asked = self.request.saturating_mul(i64::from(tasks)).saturating_add(self.beside);
        let queue = subject.job.spec.queue.clone();
        Obstacle::Quota { queue, column: self.column, asked, available: self.left, ceded: self.ceded }
    }
}
