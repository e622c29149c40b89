//! Groups that share a `placeWith` label: a leader with its workers, placed as one; or more groups in one domain.

use crate::amount::Amount;
use crate::asks::GroupAsk;
use crate::group_search::quota;
use crate::job_search::JobSearch;
use crate::rows::rows;
use crate::seek::{Failure, Found};
use crate::topology::{Counts, Refusal};
use ohm_framework::{Explanation, Obstacle};
use ohm_model::{NodeId, Placement, TopologyMode};
use std::cmp::Reverse;
use std::collections::BTreeMap;

impl<'v> JobSearch<'_, 'v> {
    /// Places a leader and its workers as one; why not holds for both.
    pub(crate) fn place_pair(&mut self, one: &GroupAsk, many: &GroupAsk) -> Result<Found, Failure> {
        self.seat_pair(one, many).map_err(|mut why| {
            why.partner = Some(if why.group == one.group { many.group } else { one.group });
            why
        })
    }

    fn seat_pair(&mut self, one: &GroupAsk, many: &GroupAsk) -> Result<Found, Failure> {
        let (job, seek) = (self.job, self.seek);
        let beside = self.room_beside_held(one, many);
        let (leader_rows, spots) = {
            let pass = &*self.pass;
            let leader = seek.subject(pass, job, one.group);
            let workers = seek.subject(pass, job, many.group);
            let (Some(leader), Some(workers)) = (leader, workers) else { return Ok(Found::default()) };
            let cell = pass.cell();
            let room = quota(&workers, Some(leader.shape));
            let most = room.map_or(many.most, |room| many.most.min(room.tasks));
            if let Some(room) = room.filter(|_| most < many.least) {
                let obstacle = room.obstacle(&workers, many.least);
                return Err(Box::new(self.placer.explain(pass, &workers, many.least, obstacle)));
            }
            let mut sites = Vec::new();
            for (subject, ask) in [(&leader, one), (&workers, many)] {
                match self.placer.site(subject, cell) {
                    Ok(site) => sites.extend(site),
                    Err(why) => return Err(Box::new(self.placer.explain(pass, subject, ask.least, why))),
                }
            }
            let Some(site) = sites.pop() else { return Ok(Found::default()) };
            let amount = Amount { least: many.least, most, nodes: usize::MAX, attempt: 0, salt: seek.salt };
            match self.placer.place_pair(pass, (&leader, &workers), &beside, &site, &amount) {
                Ok((node, spots)) => (rows(&leader, &[(node, 1)]), spots),
                Err(refusal) => return Err(self.placer.explain_refusal(pass, &workers, refusal)),
            }
        };
        self.placer.take(self.pass, self.job, &leader_rows);
        let worker_rows: Vec<Placement> = match seek.subject(self.pass, job, many.group) {
            Some(workers) => rows(&workers, &spots),
            None => Vec::new(),
        };
        self.placer.take(self.pass, self.job, &worker_rows);
        let rows = leader_rows.into_iter().chain(worker_rows).collect();
        Ok(Found { rows, rest: None })
    }

    /// How many workers fit beside their leader on each node with held room that takes the leader. Whose the held room
    /// is follows from all that is laid there, so the leader is laid and the rules are asked.
    fn room_beside_held(&mut self, one: &GroupAsk, many: &GroupAsk) -> BTreeMap<NodeId, u32> {
        let (job, seek, mut beside) = (self.job, self.seek, BTreeMap::new());
        for node in self.placer.table.singled() {
            let leader = seek.subject(self.pass, job, one.group).filter(|leader| leader.room(node) > 0);
            let Some(row) = leader.and_then(|leader| rows(&leader, &[(node, 1)]).pop()) else { continue };
            let room = self.pass.with_row(job, &row, |pass| {
                seek.subject(pass, job, many.group).map_or(0, |workers| workers.room(node))
            });
            beside.insert(node, room);
        }
        beside
    }

    /// Places groups that share a label in one domain: the smallest that takes all of them in order.
    pub(crate) fn place_together(&mut self, bundle: &[GroupAsk]) -> Result<Found, Failure> {
        let domains = self.shared_domains(bundle)?;
        let mut best: Option<(u32, Failure)> = None;
        for (level, key) in domains {
            let (mut found, before) = (Found::default(), self.pass.savepoint());
            let mut placed = 0;
            let failed = bundle.iter().find_map(|ask| match self.place_within(ask, Some((level, key))) {
                Ok(more) => {
                    placed += more.rows.iter().map(|row| row.count).sum::<u32>();
                    found.add(Ok(more));
                    None
                }
                Err(why) => Some(why),
            });
            let Some(why) = failed else { return Ok(found) };
            let why = self.undo(before, &found, why);
            let takes = placed + why.fit * why.slice;
            if best.as_ref().is_none_or(|(most, _)| takes > *most) {
                best = Some((takes, why));
            }
        }
        let mode = self.job.spec.groups.get(usize::from(bundle[0].group.0)).map(|spec| spec.topology.mode);
        match best {
            Some((_, why)) if mode == Some(TopologyMode::Required) => Err(self.told_of_all_domains(why)),
            _ => self.place_apart(bundle),
        }
    }

    /// `why` no domain takes a bundle, found inside the best one, with nodes counted over all of them.
    fn told_of_all_domains(&mut self, why: Failure) -> Failure {
        let Some(subject) = self.seek.subject(self.pass, self.job, why.group) else { return why };
        let cell = self.pass.cell();
        let (Obstacle::Domain { .. }, Ok(Some(site))) = (&why.obstacle, self.placer.site(&subject, cell)) else {
            return why;
        };
        let fence = site.fence(site.wish.level, None);
        let Explanation { obstacle, fit, of, slice, beside, .. } = *why;
        let mut told = self.placer.explain_refusal(self.pass, &subject, Refusal { obstacle, fence, fit, of, slice });
        told.beside = beside;
        told
    }

    /// The domains that might take every group of the bundle, best first: all tasks before minimums only, the level
    /// asked for before those above it, less room for the largest group before more, path order at last. When no domain
    /// of a required level takes its share of every group, the one that takes most: what it lacks is the reason.
    fn shared_domains(&mut self, bundle: &[GroupAsk]) -> Result<Vec<(&'v str, u32)>, Failure> {
        let cell = self.pass.cell();
        let mut counted: Vec<(&GroupAsk, Counts)> = Vec::new();
        let mut site = None;
        for ask in bundle {
            let Some(subject) = self.seek.subject(self.pass, self.job, ask.group) else { continue };
            let found = match self.placer.site(&subject, cell) {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                Err(obstacle) => return Err(Box::new(self.placer.explain(self.pass, &subject, ask.least, obstacle))),
            };
            let loan = self.placer.borrow_counts(self.pass, &subject, &found);
            counted.push((ask, loan.counts().clone()));
            self.placer.return_counts(loan);
            site.get_or_insert(found);
        }
        let Some(site) = site else { return Ok(Vec::new()) };
        let level = site.wish.level;
        let lowest_first = match site.wish.mode {
            TopologyMode::Required => level..=level,
            TopologyMode::Preferred => 0..=level,
            _ => return Ok(Vec::new()),
        };
        let Some((_, widest)) = counted.iter().max_by_key(|(ask, _)| ask.most) else { return Ok(Vec::new()) };
        let mut domains = Vec::new();
        for whole in [true, false] {
            for level in lowest_first.clone().rev() {
                let wanted = |ask: &GroupAsk| u64::from(if whole { ask.most } else { ask.least });
                let takes = |at: &u32| counted.iter().all(|(ask, counts)| counts.at(level, *at).tasks >= wanted(ask));
                let mut fits: Vec<u32> = (0..site.tree.level(level).len() as u32).filter(takes).collect();
                fits.sort_by_key(|at| (widest.at(level, *at).tasks, *at));
                let label = site.topology.spec.levels.get(level).map_or("", String::as_str);
                domains.extend(fits.iter().map(|at| (label, site.tree.level(level)[*at as usize].key)));
            }
        }
        if domains.is_empty() && site.wish.mode == TopologyMode::Required {
            let takes = |at: &u32| {
                let parts = counted.iter().map(|(ask, counts)| counts.at(level, *at).tasks.min(ask.least.into()));
                (parts.sum::<u64>(), Reverse(*at))
            };
            let best = (0..site.tree.level(level).len() as u32).max_by_key(takes);
            let label = site.topology.spec.levels.get(level).map_or("", String::as_str);
            domains.extend(best.map(|at| (label, site.tree.level(level)[at as usize].key)));
        }
        Ok(domains)
    }
}
