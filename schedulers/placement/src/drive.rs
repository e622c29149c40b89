//! One pass over a list of jobs: what every planner does, whatever class it plans for.
//!
//! A job that starts whole gets its minimum in every group or nothing; each group takes as many tasks as fit. Groups
//! are placed in order and each sees what the former took. When a group takes so much that a later one falls short,
//! the job is planned again with minimums first, and grown afterwards; and if that fails too, with the group that fell
//! short before the others.

use crate::moved::moved_rows;
use crate::placer::{Pass, Placer};
use crate::spared::into_spares;
use crate::spot::{Spot, request_of};
use crate::subject::Subject;
use crate::together::{bundles, pair};
use ohm_cell::{Job, JobState};
use ohm_framework::{Decision, Explanation, Need, Obstacle, Plan, PlannedJob, Taken, View, Work, WorkItem};
use ohm_model::{Grain, GroupIndex, GroupSpec, Placement, TopologyMode};
use ohm_stdx::Prng;
use ohm_stdx::canary::{self, Canary};

/// What is tried for a job that finds no room: preemption, reclaim. The hook between filters and the next job.
pub trait PostFilter {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Makes a decision about a job that could not be placed for the reason given, or leaves it unplaced.
    fn unplaced(
        &mut self,
        placer: &mut Placer,
        pass: &mut Pass<'_>,
        job: &Job,
        why: &Explanation,
        dice: &mut Prng,
    ) -> Option<Decision>;
}

/// In how many other orders of equally good places groups that took each other's room are tried.
const SHUFFLES: u32 = 4;

/// What one group wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupAsk {
    /// The group.
    pub group: GroupIndex,
    /// Fewer than this are of no use.
    pub least: u32,
    /// All that wait.
    pub most: u32,
    /// Whether the group has not started: then `least` is its minimum.
    pub starts: bool,
    /// Whether the group stands below its minimum in a gang that does not stand without it.
    pub is_short: bool,
}

/// What the groups of `job` want now, or what the job waits for by itself: the end of runs that are to stop, because
/// what still stands does not count ([`Job::is_down`]), or back-offs, because a group that must start has too few
/// waiting tasks.
pub fn asks(view: &View<'_>, job: &Job) -> Result<Vec<GroupAsk>, Obstacle> {
    let waits = |what: &str| Obstacle::Waiting { what: what.into() };
    if job.is_down() && job.live() > 0 {
        return Err(waits("its former runs to stop"));
    }
    let (mut asks, mut backs_off) = (Vec::new(), false);
    for (at, (state, spec)) in job.groups.iter().zip(&job.spec.groups).enumerate() {
        let group = GroupIndex(at as u16);
        let most = view.pending(job, group).len();
        let standing = state.live_within_count() + view.in_flight(job.id, group);
        let missing = state.needed(spec).saturating_sub(standing);
        let least = match (state.started, standing) {
            (true, _) => 0,
            (false, 0) => whole_slices(spec, missing),
            (false, _) => missing,
        };
        backs_off |= most < least;
        if most >= least.max(1) {
            // A gang is repaired whole: half of a repair holds room for nothing, and may leave no domain for the rest.
            let repairs = state.started && job.starts_whole();
            let useful = if repairs { missing.min(most) } else { least };
            let is_short = repairs && missing > 0;
            asks.push(GroupAsk { group, least: useful.max(1), most, starts: least > 0, is_short });
        }
    }
    // Groups of a job that starts whole wait for each other; those of others stand by themselves.
    if backs_off && (job.starts_whole() || asks.is_empty()) {
        return Err(waits("tasks whose back-off has not passed"));
    }
    Ok(asks)
}

/// `tasks` raised to whole slices of the group: fewer would be of no use, because what is left of them never stands.
fn whole_slices(spec: &GroupSpec, tasks: u32) -> u32 {
    let size = spec.slices().first().map_or(1, |slice| slice.size.max(1));
    tasks.div_ceil(size).saturating_mul(size).min(spec.count)
}

/// Rows planned for a job so far, and what it takes to undo them.
#[derive(Default)]
pub(crate) struct Attempt {
    pub(crate) rows: Vec<Placement>,
    pub(crate) taken: Vec<Taken>,
    pub(crate) rest: Option<Box<Explanation>>,
}

/// What a group could not be placed for.
pub(crate) type Failure = Box<Explanation>;

/// Plans every job of `work` in order, as far as its budget goes.
pub fn plan_work(
    placer: &mut Placer,
    mut post_filter: Option<&mut dyn PostFilter>,
    view: &View<'_>,
    work: &Work,
    dice: &mut Prng,
) -> Plan {
    let mut pass = placer.begin(view);
    let (mut plan, mut rows) = (Plan::default(), 0);
    for item in &work.jobs {
        let spent = pass.examined() >= work.budget.nodes || rows >= work.budget.rows;
        if spent && !plan.decisions.is_empty() {
            break;
        }
        let most_rows = work.budget.rows.saturating_sub(rows).max(1);
        let mut driver = Driver { placer, pass: &mut pass, item: *item, most_rows, salt: 0, dice };
        let mut decision = driver.decide();
        if item.need != Need::Spare
            && let Decision::Unplaced(why) = &decision
            && let Some(hook) = post_filter.as_deref_mut()
            && let Some(job) = view.cell().jobs().get(item.job)
            && let Some(other) = hook.unplaced(placer, &mut pass, job, why, dice)
        {
            decision = other;
        }
        if let Decision::Planned(planned) = &decision {
            rows += planned.place.len();
        }
        pass.look_at(1);
        plan.decisions.push(decision);
    }
    plan.examined = pass.examined();
    plan
}

pub(crate) struct Driver<'a, 'v> {
    pub(crate) placer: &'a mut Placer,
    pub(crate) pass: &'a mut Pass<'v>,
    item: WorkItem,
    most_rows: usize,
    /// See [`crate::flat::Amount::salt`].
    pub(crate) salt: u64,
    dice: &'a mut Prng,
}

impl<'v> Driver<'_, 'v> {
    fn decide(&mut self) -> Decision {
        let base = self.pass.base();
        let Some(job) = base.cell().jobs().get(self.item.job) else { return Decision::Nothing(self.item.job) };
        if job.state != JobState::Active {
            return Decision::Nothing(job.id);
        }
        if self.item.need == Need::Spare {
            return self.seek_spares(job);
        }
        let decision = self.decide_about(job, true);
        if !matches!(decision, Decision::Unplaced(_)) || job.groups.iter().all(|group| group.spares == 0) {
            return decision;
        }
        // Rather without spares than waiting: first beside what sits where spares are, as the log wants it.
        self.pass.lend_spares(true);
        let mut lent = self.decide_about(job, true);
        if !matches!(lent, Decision::Planned(_)) {
            lent = self.decide_about(job, false);
        }
        self.pass.lend_spares(false);
        if matches!(lent, Decision::Nothing(_)) { decision } else { lent }
    }

    fn decide_about(&mut self, job: &Job, seats_spared: bool) -> Decision {
        let base = self.pass.base();
        let mut moved = self.seat_moved(job);
        if seats_spared {
            self.seat_spared(job, &mut moved);
        }
        let asks = match asks(&self.pass.view(), job) {
            Ok(asks) => asks,
            Err(waiting) => {
                self.undo(moved);
                let of = job.spec.groups.iter().map(|group| group.min_count).sum();
                return Decision::Unplaced(Box::new(Explanation::of_obstacle(job.id, base.seen(), of, waiting)));
            }
        };
        if asks.is_empty() {
            return if moved.rows.is_empty() { Decision::Nothing(job.id) } else { self.planned(job, moved) };
        }
        let whole = job.starts_whole() && asks.iter().any(|ask| ask.starts || ask.is_short);
        match self.place_with_spares(job, &asks) {
            Err(why) if moved.rows.is_empty() || whole => {
                self.undo(moved);
                Decision::Unplaced(why)
            }
            placed => {
                let mut attempt = moved;
                self.note(&mut attempt, placed);
                self.planned(job, attempt)
            }
        }
    }

    /// Places what was on the move where its rooms are.
    fn seat_moved(&mut self, job: &Job) -> Attempt {
        let mut attempt = Attempt::default();
        for at in (0..job.groups.len()).filter(|at| !job.groups[*at].moving.is_empty()) {
            let Some(subject) = Subject::new(self.pass.view(), job, GroupIndex(at as u16)) else { continue };
            let Ok(site) = self.placer.site(&subject, self.pass.base().cell()) else { continue };
            let rows = moved_rows(&subject, site.as_ref());
            if !rows.is_empty() {
                attempt.taken.push(self.placer.take(self.pass, &rows));
                attempt.rows.extend(rows);
            }
        }
        attempt
    }

    pub(crate) fn planned(&self, job: &Job, mut attempt: Attempt) -> Decision {
        if attempt.rows.is_empty() {
            return match attempt.rest {
                Some(why) => Decision::Unplaced(why),
                None => Decision::Nothing(job.id),
            };
        }
        merge(&mut attempt.rows);
        let starts_now = job.starts_whole() && job.groups.iter().all(|group| !group.started);
        let grain = if starts_now { Grain::Minimum } else { Grain::PerTask };
        let (rows, mut nominate) = into_spares(job, attempt.rows);
        // How ports and devices of spares add up, the log knows better than a search for one more task does.
        nominate.retain(|row| self.pass.base().cell().takes_spare(row));
        if rows.is_empty() && nominate.is_empty() {
            let room = || Box::new(Explanation::of_obstacle(job.id, self.pass.base().seen(), 1, Obstacle::Room));
            return Decision::Unplaced(attempt.rest.unwrap_or_else(room));
        }
        let mut planned = PlannedJob::placing(self.pass.base().guard(job), grain, rows);
        planned.nominate = nominate;
        planned.rest = attempt.rest;
        Decision::Planned(Box::new(planned))
    }

    pub(crate) fn place_job(&mut self, job: &Job, asks: &[GroupAsk]) -> Result<Attempt, Failure> {
        let first = self.attempt(job, asks);
        let shrinkable = asks.len() > 1 && asks.iter().any(|ask| ask.starts && ask.most > ask.least);
        if first.is_ok() || !shrinkable {
            return first.or_else(|why| self.attempt_otherwise(job, asks, why));
        }
        let minimum = |ask: &GroupAsk| GroupAsk { most: ask.least, ..*ask };
        let starting: Vec<GroupAsk> = asks.iter().filter(|ask| ask.starts).map(minimum).collect();
        let mut attempt = self.attempt(job, &starting).or_else(|why| self.attempt_otherwise(job, &starting, why))?;
        for ask in asks {
            let placed: u32 = attempt.rows.iter().filter(|row| row.group == ask.group).map(|row| row.count).sum();
            let more = GroupAsk { least: 1, most: ask.most - placed.min(ask.most), ..*ask };
            if more.most == 0 {
                continue;
            }
            let key = self.fixed_key(job, &attempt.rows, ask.group);
            let grown = self.place_group(job, &more, key);
            let lasting = !ask.starts || job.spec.groups[usize::from(ask.group.0)].elastic;
            // What a rigid group starts without is left out for good: nothing waits, nothing needs a reason.
            if grown.is_ok() || lasting {
                self.note(&mut attempt, grown);
            }
        }
        Ok(attempt)
    }

    /// Places all asks in order, or for a job that starts whole nothing.
    fn attempt(&mut self, job: &Job, asks: &[GroupAsk]) -> Result<Attempt, Failure> {
        self.attempt_bundles(job, bundles(job, asks))
    }

    /// Tries again what failed with `why`: the group that found no room before the others, then, if others had been
    /// given places, with equally good places in another order. Packing is not solved by this, only most of it.
    fn attempt_otherwise(&mut self, job: &Job, asks: &[GroupAsk], why: Failure) -> Result<Attempt, Failure> {
        if let Some(found) = self.attempt_hardest_first(job, asks, why.group) {
            return Ok(found);
        }
        // No order makes a quota larger.
        if why.beside.is_empty() || matches!(why.obstacle, Obstacle::Quota { .. }) {
            return Err(why);
        }
        for _ in 0..SHUFFLES {
            self.salt = self.dice.u64() | 1;
            let found = self.attempt(job, asks);
            self.salt = 0;
            if found.is_ok() {
                return found;
            }
        }
        Err(why)
    }

    /// The same, but with `group`, which found no room behind the others, before them. Nothing if it stood there.
    fn attempt_hardest_first(&mut self, job: &Job, asks: &[GroupAsk], group: GroupIndex) -> Option<Attempt> {
        let mut bundles = bundles(job, asks);
        let at = bundles.iter().position(|bundle| bundle.iter().any(|ask| ask.group == group)).filter(|at| *at > 0)?;
        bundles[..=at].rotate_right(1);
        self.attempt_bundles(job, bundles).ok()
    }

    fn attempt_bundles(&mut self, job: &Job, bundles: Vec<Vec<GroupAsk>>) -> Result<Attempt, Failure> {
        let mut attempt = Attempt::default();
        for bundle in bundles {
            let fixed = bundle.iter().any(|ask| self.fixed_key(job, &attempt.rows, ask.group).is_some());
            let placed = match bundle.as_slice() {
                [_, _, ..] if !fixed => match pair(job, &bundle) {
                    Some((leader, workers)) => self.place_pair(job, &leader, &workers),
                    None => self.place_together(job, &bundle),
                },
                _ => self.place_apart(job, &bundle),
            };
            match placed {
                Err(why) if job.starts_whole() && bundle.iter().any(|ask| ask.starts || ask.is_short) => {
                    return Err(self.undo_all(job, attempt, why));
                }
                placed => self.note(&mut attempt, placed),
            }
        }
        Ok(attempt)
    }

    pub(crate) fn note(&mut self, attempt: &mut Attempt, placed: Result<Attempt, Failure>) {
        match placed {
            Ok(more) => {
                attempt.rows.extend(more.rows);
                attempt.taken.extend(more.taken);
                attempt.rest = attempt.rest.take().or(more.rest);
            }
            Err(why) => attempt.rest = attempt.rest.take().or(Some(why)),
        }
    }

    pub(crate) fn undo(&mut self, attempt: Attempt) {
        for taken in attempt.taken.iter().rev() {
            self.placer.give_back(self.pass, taken);
        }
    }

    /// Undoes what was planned before a group failed. The job is told of all that it asks for at once, and of all that
    /// is left of its queue for that; where room is what is missing, that room for the others was counted as taken.
    pub(crate) fn undo_all(&mut self, job: &Job, attempt: Attempt, mut why: Failure) -> Failure {
        let cell = self.pass.base().cell();
        for row in &attempt.rows {
            if row.group != why.group && !why.beside.contains(&row.group) {
                why.beside.push(row.group);
            }
            if let Obstacle::Quota { resource, asked, available, .. } = &mut why.obstacle {
                let shape = cell.shape_of(job, usize::from(row.group.0));
                let planned = shape.map_or(0, |shape| request_of(shape, *resource)).saturating_mul(row.count.into());
                *asked = asked.saturating_add(planned);
                *available = available.saturating_add(planned);
            }
        }
        self.undo(attempt);
        why
    }

    /// The required domain that a group is bound to: by live tasks of it or of the groups it is placed with, or by
    /// rows of this plan.
    fn fixed_key(&self, job: &Job, rows: &[Placement], group: GroupIndex) -> Option<u32> {
        let at = usize::from(group.0);
        let request = &job.spec.groups.get(at)?.topology;
        if request.mode != TopologyMode::Required {
            return None;
        }
        let leader = job.domain_leader(at);
        let placed = || {
            let row = rows.iter().find(|row| job.domain_leader(usize::from(row.group.0)) == leader)?;
            let topology = self.pass.base().cell().topologies().get(&request.topology)?;
            topology.key_of(row.node, topology.level(job.binding_level(at)?.1)?)
        };
        job.shared_domain(at).or_else(placed)
    }

    /// Places one group, inside the domain `key` of the level that binds it if there is one. A repair that finds no
    /// room there goes as far as the job's policy lets it.
    fn place_group(&mut self, job: &Job, ask: &GroupAsk, key: Option<u32>) -> Result<Attempt, Failure> {
        let at = usize::from(ask.group.0);
        let level = job.binding_level(at).map(|(_, level)| level);
        let placed = self.place_within(job, ask, level.zip(key));
        match (placed, self.wider(job, at, key)) {
            (Err(why), Some(domain)) => {
                let domain = Some(domain).filter(|_| !canary::sings(Canary::WidenTooFar));
                self.place_within(job, ask, domain).map_err(|_| why)
            }
            (placed, _) => placed,
        }
    }

    /// The domain around the one with `key` up to which a repair of the group may go.
    fn wider<'j>(&self, job: &'j Job, group: usize, key: Option<u32>) -> Option<(&'j str, u32)> {
        let (wide, (name, level)) = (job.widening_level(group)?, job.binding_level(group)?);
        let topology = self.pass.base().cell().topologies().get(name)?;
        Some((wide, topology.key_above(topology.level(level)?, key?, topology.level(wide)?)?))
    }

    pub(crate) fn place_within(
        &mut self,
        job: &Job,
        ask: &GroupAsk,
        domain: Option<(&str, u32)>,
    ) -> Result<Attempt, Failure> {
        let rows = self.rows_for(job, ask, domain)?;
        let taken = self.placer.take(self.pass, &rows);
        let placed: u32 = rows.iter().map(|row| row.count).sum();
        let elastic = job.spec.groups.get(usize::from(ask.group.0)).is_some_and(|spec| spec.elastic);
        let mut rest = None;
        if placed < ask.most && (!ask.starts || elastic) {
            // Asked for on what is left now, the missing tasks say themselves what they miss.
            let missing = GroupAsk { least: 1, most: ask.most - placed, starts: false, ..*ask };
            rest = self.rows_for(job, &missing, domain).err();
        }
        Ok(Attempt { rows, taken: vec![taken], rest })
    }

    fn rows_for(&mut self, job: &Job, ask: &GroupAsk, domain: Option<(&str, u32)>) -> Result<Vec<Placement>, Failure> {
        let pass = &*self.pass;
        let Some(subject) = Subject::new(pass.view(), job, ask.group) else { return Ok(Vec::new()) };
        let (placer, item) = (&mut *self.placer, self.item);
        let mut spot =
            Spot { placer, pass, subject, ask, item, most_rows: self.most_rows, salt: self.salt, dice: self.dice };
        spot.place(domain)
    }

    /// Each group by its own request. A group of a job that starts whole and falls short undoes the others.
    pub(crate) fn place_apart(&mut self, job: &Job, bundle: &[GroupAsk]) -> Result<Attempt, Failure> {
        let mut attempt = Attempt::default();
        for ask in bundle {
            let key = self.fixed_key(job, &attempt.rows, ask.group);
            match self.place_group(job, ask, key) {
                Err(why) if (ask.starts || ask.is_short) && job.starts_whole() => {
                    return Err(self.undo_all(job, attempt, why));
                }
                placed => self.note(&mut attempt, placed),
            }
        }
        Ok(attempt)
    }
}

/// Sorts rows by group and task, and makes one of two that go on with each other on one node.
fn merge(rows: &mut Vec<Placement>) {
    rows.sort_by_key(|row| (row.group, row.first));
    rows.dedup_by(|next, row| {
        let joins = next.group == row.group && next.node == row.node && next.first.0 == row.first.0 + row.count;
        if joins {
            row.count += next.count;
            row.devices.append(&mut next.devices);
        }
        joins
    });
}
