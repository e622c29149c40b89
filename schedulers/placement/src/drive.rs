//! One pass over a list of jobs: what every planner does, whatever class it plans for.
//!
//! A job that starts whole gets its minimum in every group or nothing; each group takes as many tasks as fit. Groups
//! are placed in order and each sees what the former took. When a group takes so much that a later one falls short,
//! the job is planned again with minimums first, and grown afterwards.

use crate::placer::{Pass, Placer};
use crate::spot::Spot;
use crate::subject::Subject;
use ohm_cell::{Job, JobState};
use ohm_framework::{Decision, Explanation, Obstacle, Plan, PlannedJob, Taken, View, Work, WorkItem};
use ohm_model::{Grain, GroupIndex, Placement, TopologyMode};
use ohm_stdx::Prng;

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
}

/// What the groups of `job` want now; nothing when a group that must start has too few waiting tasks, because some back
/// off or are over.
pub fn asks(view: &View<'_>, job: &Job) -> Option<Vec<GroupAsk>> {
    let mut asks = Vec::new();
    for (at, (state, spec)) in job.groups.iter().zip(&job.spec.groups).enumerate() {
        let group = GroupIndex(at as u16);
        let most = view.pending(job, group).len();
        let standing = state.live + view.in_flight(job.id, group);
        let least = if state.started { 0 } else { state.needed(spec).saturating_sub(standing) };
        if most < least && (job.starts_whole() || most == 0) {
            return None;
        }
        if most >= least.max(1) {
            asks.push(GroupAsk { group, least: least.max(1), most, starts: least > 0 });
        }
    }
    Some(asks)
}

/// Rows planned for a job so far, and what it takes to undo them.
#[derive(Default)]
struct Attempt {
    rows: Vec<Placement>,
    taken: Vec<Taken>,
    rest: Option<Box<Explanation>>,
}

/// What a group could not be placed for.
type Failure = Box<Explanation>;

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
        let mut driver = Driver { placer, pass: &mut pass, item: *item, most_rows, dice };
        let mut decision = driver.decide();
        if let Decision::Unplaced(why) = &decision
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

struct Driver<'a, 'v> {
    placer: &'a mut Placer,
    pass: &'a mut Pass<'v>,
    item: WorkItem,
    most_rows: usize,
    dice: &'a mut Prng,
}

impl<'v> Driver<'_, 'v> {
    fn decide(&mut self) -> Decision {
        let base = self.pass.base();
        let Some(job) = base.cell().jobs().get(self.item.job) else { return Decision::Nothing(self.item.job) };
        if job.state != JobState::Active {
            return Decision::Nothing(job.id);
        }
        let Some(asks) = asks(&self.pass.view(), job) else {
            let waiting = Obstacle::Waiting { what: "tasks whose back-off has not passed".into() };
            let of = job.spec.groups.iter().map(|group| group.min_count).sum();
            return Decision::Unplaced(Box::new(Explanation::of_obstacle(job.id, base.seen(), of, waiting)));
        };
        if asks.is_empty() {
            return Decision::Nothing(job.id);
        }
        match self.place_job(job, &asks) {
            Err(why) => Decision::Unplaced(why),
            Ok(attempt) => self.planned(job, attempt),
        }
    }

    fn planned(&self, job: &Job, mut attempt: Attempt) -> Decision {
        if attempt.rows.is_empty() {
            return match attempt.rest {
                Some(why) => Decision::Unplaced(why),
                None => Decision::Nothing(job.id),
            };
        }
        merge(&mut attempt.rows);
        let starts_now = job.starts_whole() && job.groups.iter().all(|group| !group.started);
        let grain = if starts_now { Grain::Minimum } else { Grain::PerTask };
        let mut planned = PlannedJob::placing(self.pass.base().guard(job), grain, attempt.rows);
        planned.rest = attempt.rest;
        Decision::Planned(Box::new(planned))
    }

    fn place_job(&mut self, job: &'v Job, asks: &[GroupAsk]) -> Result<Attempt, Failure> {
        let first = self.attempt(job, asks);
        let shrinkable = asks.len() > 1 && asks.iter().any(|ask| ask.starts && ask.most > ask.least);
        if first.is_ok() || !shrinkable {
            return first;
        }
        let minimum = |ask: &GroupAsk| GroupAsk { most: ask.least, ..*ask };
        let starting: Vec<GroupAsk> = asks.iter().filter(|ask| ask.starts).map(minimum).collect();
        let mut attempt = self.attempt(job, &starting)?;
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

    /// Places all asks, or for a job that starts whole nothing.
    fn attempt(&mut self, job: &'v Job, asks: &[GroupAsk]) -> Result<Attempt, Failure> {
        let mut attempt = Attempt::default();
        for bundle in bundles(job, asks) {
            let fixed = bundle.iter().any(|ask| self.fixed_key(job, &attempt.rows, ask.group).is_some());
            let placed = match bundle.as_slice() {
                [_, _, ..] if !fixed => self.place_together(job, &bundle),
                _ => self.place_apart(job, &bundle),
            };
            match placed {
                Err(why) if job.starts_whole() && bundle.iter().any(|ask| ask.starts) => {
                    self.undo(attempt);
                    return Err(why);
                }
                placed => self.note(&mut attempt, placed),
            }
        }
        Ok(attempt)
    }

    fn note(&mut self, attempt: &mut Attempt, placed: Result<Attempt, Failure>) {
        match placed {
            Ok(more) => {
                attempt.rows.extend(more.rows);
                attempt.taken.extend(more.taken);
                attempt.rest = attempt.rest.take().or(more.rest);
            }
            Err(why) => attempt.rest = attempt.rest.take().or(Some(why)),
        }
    }

    fn undo(&mut self, attempt: Attempt) {
        for taken in attempt.taken.iter().rev() {
            self.placer.give_back(self.pass, taken);
        }
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
        let mut bound = (0..job.groups.len()).filter(|other| job.domain_leader(*other) == leader);
        let placed = || {
            let row = rows.iter().find(|row| job.domain_leader(usize::from(row.group.0)) == leader)?;
            let topology = self.pass.base().cell().topologies().get(&request.topology)?;
            topology.key_of(row.node, topology.level(&request.level)?)
        };
        bound.find_map(|other| job.groups[other].domain).or_else(placed)
    }

    /// Places one group, inside the domain `key` of its level if there is one.
    fn place_group(&mut self, job: &'v Job, ask: &GroupAsk, key: Option<u32>) -> Result<Attempt, Failure> {
        let level = job.spec.groups.get(usize::from(ask.group.0)).map(|spec| spec.topology.level.as_str());
        self.place_within(job, ask, level.zip(key))
    }

    fn place_within(&mut self, job: &'v Job, ask: &GroupAsk, domain: Option<(&str, u32)>) -> Result<Attempt, Failure> {
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

    fn rows_for(
        &mut self,
        job: &'v Job,
        ask: &GroupAsk,
        domain: Option<(&str, u32)>,
    ) -> Result<Vec<Placement>, Failure> {
        let pass = &*self.pass;
        let Some(subject) = Subject::new(pass.view(), job, ask.group) else { return Ok(Vec::new()) };
        let (placer, item) = (&mut *self.placer, self.item);
        let mut spot = Spot { placer, pass, subject, ask, item, most_rows: self.most_rows, dice: self.dice };
        spot.place(domain)
    }

    /// Places groups that share a label in one domain: the smallest that takes all of them in order.
    fn place_together(&mut self, job: &'v Job, bundle: &[GroupAsk]) -> Result<Attempt, Failure> {
        let domains = self.shared_domains(job, bundle)?;
        let mut last = None;
        for (level, key) in domains {
            let mut attempt = Attempt::default();
            let failed = bundle.iter().find_map(|ask| {
                let placed = self.place_within(job, ask, Some((level, key)));
                match placed {
                    Ok(_) => {
                        self.note(&mut attempt, placed);
                        None
                    }
                    Err(why) => Some(why),
                }
            });
            match failed {
                None => return Ok(attempt),
                Some(why) => {
                    self.undo(attempt);
                    last = Some(why);
                }
            }
        }
        let mode = job.spec.groups.get(usize::from(bundle[0].group.0)).map(|spec| spec.topology.mode);
        match last {
            Some(why) if mode == Some(TopologyMode::Required) => Err(why),
            _ => self.place_apart(job, bundle),
        }
    }

    /// Each group by its own request. A group of a job that starts whole and falls short undoes the others.
    fn place_apart(&mut self, job: &'v Job, bundle: &[GroupAsk]) -> Result<Attempt, Failure> {
        let mut attempt = Attempt::default();
        for ask in bundle {
            let key = self.fixed_key(job, &attempt.rows, ask.group);
            match self.place_group(job, ask, key) {
                Err(why) if ask.starts && job.starts_whole() => {
                    self.undo(attempt);
                    return Err(why);
                }
                placed => self.note(&mut attempt, placed),
            }
        }
        Ok(attempt)
    }

    /// The domains that might take every group of the bundle, best first: all tasks before minimums only, the level
    /// asked for before those above it, less room for the largest group before more, path order at last.
    fn shared_domains(&mut self, job: &'v Job, bundle: &[GroupAsk]) -> Result<Vec<(&'v str, u32)>, Failure> {
        let cell = self.pass.base().cell();
        let mut counted = Vec::new();
        let mut site = None;
        for ask in bundle {
            let Some(subject) = Subject::new(self.pass.view(), job, ask.group) else { continue };
            let found = match self.placer.site(&subject, cell) {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                Err(obstacle) => return Err(Box::new(self.placer.explain(self.pass, &subject, ask.least, obstacle))),
            };
            counted.push((ask, self.placer.count(self.pass, &subject, &found, None)));
            site.get_or_insert(found);
        }
        let Some(site) = site else { return Ok(Vec::new()) };
        let lowest_first = if site.mode == TopologyMode::Required { site.level..=site.level } else { 0..=site.level };
        let Some((_, widest)) = counted.iter().max_by_key(|(ask, _)| ask.most) else { return Ok(Vec::new()) };
        let mut domains = Vec::new();
        for whole in [true, false] {
            for level in lowest_first.clone().rev() {
                let wanted = |ask: &GroupAsk| u64::from(if whole { ask.most } else { ask.least });
                let takes = |at: &u32| counted.iter().all(|(ask, counts)| counts.at(level, *at) >= wanted(ask));
                let mut fits: Vec<u32> = (0..site.tree.level(level).len() as u32).filter(takes).collect();
                fits.sort_by_key(|at| (widest.at(level, *at), *at));
                let label = site.topology.spec.levels.get(level).map_or("", String::as_str);
                domains.extend(fits.iter().map(|at| (label, site.tree.level(level)[*at as usize].key)));
            }
        }
        Ok(domains)
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

/// The asks in order, groups that share a label and ask for the same level of a topology put together.
fn bundles(job: &Job, asks: &[GroupAsk]) -> Vec<Vec<GroupAsk>> {
    let mut bundles: Vec<Vec<GroupAsk>> = Vec::new();
    let spec = |ask: &GroupAsk| job.spec.groups.get(usize::from(ask.group.0));
    for ask in asks {
        let joins = |bundle: &&mut Vec<GroupAsk>| {
            let (Some(own), Some(first)) = (spec(ask), bundle.first().and_then(spec)) else { return false };
            let together = matches!(own.topology.mode, TopologyMode::Required | TopologyMode::Preferred);
            together
                && !own.place_with.is_empty()
                && own.place_with == first.place_with
                && own.topology == first.topology
        };
        match bundles.iter_mut().find(joins) {
            Some(bundle) => bundle.push(*ask),
            None => bundles.push(vec![*ask]),
        }
    }
    bundles
}
