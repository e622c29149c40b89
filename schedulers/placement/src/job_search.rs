//! One search for places for the groups of one job, as its arguments say. A search that fails leaves nothing taken.
//!
//! Groups are placed in the order they are handed in and each sees what the former took. What else is tried when that
//! fails is the planner's to say.

use crate::asks::GroupAsk;
use crate::bundle::{Bundle, pair};
use crate::group_search::{GroupSearch, charge_of};
use crate::placer::{Pass, Placer};
use crate::seek::{Failure, Found, Seek};
use ohm_cell::{Job, Savepoint};
use ohm_framework::Obstacle;
use ohm_model::{GroupIndex, Placement, TopologyMode};
use ohm_stdx::Prng;
use ohm_stdx::bug::{self, Bug};

/// One search for the groups of one job.
pub struct JobSearch<'a, 'v> {
    /// The craft, with what it remembers.
    pub placer: &'a mut Placer,
    /// The pass, in which every row that is found is taken.
    pub pass: &'a mut Pass<'v>,
    /// The job.
    pub job: &'a Job,
    /// How to search.
    pub seek: Seek,
    /// Chooses among near equals where several schedulers race.
    pub dice: &'a mut Prng,
}

impl<'a> JobSearch<'a, '_> {
    /// Places all bundles in their order. A job that starts whole gets what starts, or what its repair lacks, whole or
    /// nothing at all.
    pub fn place(&mut self, bundles: &[Bundle]) -> Result<Found, Failure> {
        let (mut found, before) = (Found::default(), self.pass.savepoint());
        for bundle in bundles {
            let fixed = bundle.iter().any(|ask| self.fixed_key(&found.rows, ask.group).is_some());
            let placed = match bundle.as_slice() {
                [_, _, ..] if !fixed => match pair(self.job, bundle) {
                    Some((leader, workers)) => self.place_pair(&leader, &workers),
                    None => self.place_together(bundle),
                },
                _ => self.place_apart(bundle),
            };
            match placed {
                Err(why) if self.job.starts_whole() && bundle.iter().any(|ask| ask.starts || ask.is_short) => {
                    return Err(self.undo(before, &found, why));
                }
                placed => found.add(placed),
            }
        }
        Ok(found)
    }

    /// Places more tasks of one group, in the domain that its tasks or `rows` bind it to.
    pub fn grow(&mut self, ask: &GroupAsk, rows: &[Placement]) -> Result<Found, Failure> {
        let key = self.fixed_key(rows, ask.group);
        self.place_group(ask, key)
    }

    /// Undoes what was planned before a group failed. The job is told of all that it asks for at once, and of all that
    /// is left of its queue for that; where room is what is missing, that room for the others was counted as taken.
    pub(crate) fn undo(&mut self, before: Savepoint, found: &Found, mut why: Failure) -> Failure {
        let cell = self.pass.cell();
        for row in &found.rows {
            if row.group != why.group && !why.beside.contains(&row.group) {
                why.beside.push(row.group);
            }
            if let Obstacle::Quota { column, asked, available, .. } = &mut why.obstacle {
                let shape = cell.shape_of(self.job, usize::from(row.group.0));
                let planned = shape.map_or(0, |shape| charge_of(shape, *column)).saturating_mul(row.count.into());
                *asked = asked.saturating_add(planned);
                *available = available.saturating_add(planned);
            }
        }
        self.placer.roll_back(self.pass, before);
        why
    }

    /// The required domain that a group is bound to: by live tasks of it or of the groups it is placed with, or by
    /// rows of this plan.
    fn fixed_key(&self, rows: &[Placement], group: GroupIndex) -> Option<u32> {
        let job = self.job;
        let at = usize::from(group.0);
        let request = &job.spec.groups.get(at)?.topology;
        if request.mode != TopologyMode::Required {
            return None;
        }
        let leader = job.domain_leader(at);
        let placed = || {
            let row = rows.iter().find(|row| job.domain_leader(usize::from(row.group.0)) == leader)?;
            let topology = self.pass.cell().topologies().get(&request.topology)?;
            topology.key_of(row.node, topology.level(job.binding_level(at)?.1)?)
        };
        job.shared_domain(at).or_else(placed)
    }

    /// Places one group, inside the domain `key` of the level that binds it if there is one. A repair that finds no
    /// room there goes as far as the job's policy lets it.
    fn place_group(&mut self, ask: &GroupAsk, key: Option<u32>) -> Result<Found, Failure> {
        let at = usize::from(ask.group.0);
        let level = self.job.binding_level(at).map(|(_, level)| level);
        let placed = self.place_within(ask, level.zip(key));
        match (placed, self.wider(at, key)) {
            (Err(why), Some(domain)) => {
                let domain = Some(domain).filter(|_| !bug::is_planted(Bug::WidenTooFar));
                self.place_within(ask, domain).map_err(|_| why)
            }
            (placed, _) => placed,
        }
    }

    /// The domain around the one with `key` up to which a repair of the group may go.
    fn wider(&self, group: usize, key: Option<u32>) -> Option<(&'a str, u32)> {
        let (wide, (name, level)) = (self.job.widening_level(group)?, self.job.binding_level(group)?);
        let topology = self.pass.cell().topologies().get(name)?;
        Some((wide, topology.key_above(topology.level(level)?, key?, topology.level(wide)?)?))
    }

    pub(crate) fn place_within(&mut self, ask: &GroupAsk, domain: Option<(&str, u32)>) -> Result<Found, Failure> {
        let rows = self.rows_for(ask, domain)?;
        self.placer.take(self.pass, self.job, &rows);
        let placed: u32 = rows.iter().map(|row| row.count).sum();
        let elastic = self.job.spec.groups.get(usize::from(ask.group.0)).is_some_and(|spec| spec.elastic);
        let mut rest = None;
        if placed < ask.most && (!ask.starts || elastic) {
            // Asked for on what is left now, the missing tasks say themselves what they miss.
            let missing = GroupAsk { least: 1, most: ask.most - placed, starts: false, ..*ask };
            rest = self.rows_for(&missing, domain).err();
        }
        Ok(Found { rows, rest })
    }

    fn rows_for(&mut self, ask: &GroupAsk, domain: Option<(&str, u32)>) -> Result<Vec<Placement>, Failure> {
        let pass = &*self.pass;
        let Some(subject) = self.seek.subject(pass, self.job, ask.group) else { return Ok(Vec::new()) };
        let (placer, seek) = (&mut *self.placer, &self.seek);
        GroupSearch { placer, pass, subject, ask, seek, dice: self.dice }.place(domain)
    }

    /// Each group by its own request. A group of a job that starts whole and falls short undoes the others.
    pub(crate) fn place_apart(&mut self, bundle: &[GroupAsk]) -> Result<Found, Failure> {
        let (mut found, before) = (Found::default(), self.pass.savepoint());
        for ask in bundle {
            let key = self.fixed_key(&found.rows, ask.group);
            match self.place_group(ask, key) {
                Err(why) if (ask.starts || ask.is_short) && self.job.starts_whole() => {
                    return Err(self.undo(before, &found, why));
                }
                placed => found.add(placed),
            }
        }
        Ok(found)
    }
}
