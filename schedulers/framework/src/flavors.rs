//! Which flavors a job is planned with (Kueue's flavor assigner): of each resource group of its queue the first one
//! that suits and has the quota, or the one that borrows from least far up, as the queue says.
//!
//! Better than there: what fits the quota and finds no nodes is planned with the next flavors that fit, too.

use crate::explain::Obstacle;
use crate::victims::search;
use crate::view::View;
use ohm_cell::{Cell, Job, Preemptor, QuotaIf, QuotaLeft, WhatIf, asks_unknown, flavors_by_group, no_offer};
use ohm_model::{
    FlavorChoice, FlavorFungibility, FlavorPreference, FlavorResource, GroupIndex, QueuePreemption, QueueSpec, ShapeId,
    WhenCan,
};
use std::collections::BTreeMap;

/// So many ways to take flavors are planned with before a job is said to have no room.
const CHOICES_MAX: usize = 16;

/// How a flavor, or several, would serve; the better the smaller, unless the queue prefers to stop others to borrowing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// The quota has it; borrowed from this far up.
    Fits(u32),
    /// Once jobs of other queues were stopped, and none of its own; borrowed from this far up then.
    Reclaims(u32),
    /// Once jobs were stopped, of its own queue, too.
    Preempts(u32),
    /// The queue may stop others for it, and there is nobody whom to stop would do.
    NoCandidates,
    /// The quota could have it, were less used.
    WaitsForQuota,
    /// More than the queue could ever use.
    ExceedsMaxQuota,
}

impl Mode {
    /// From how far up is borrowed, where it serves now or once others were stopped.
    fn level(self) -> Option<u32> {
        match self {
            Mode::Fits(level) | Mode::Reclaims(level) | Mode::Preempts(level) => Some(level),
            Mode::NoCandidates | Mode::WaitsForQuota | Mode::ExceedsMaxQuota => None,
        }
    }

    /// Its place in the order of a queue that prefers this.
    fn rank(self, preference: FlavorPreference) -> (u32, Mode) {
        match (preference, self.level()) {
            (FlavorPreference::PreemptionOverBorrowing, Some(level)) => (level, self),
            (FlavorPreference::PreemptionOverBorrowing, None) => (u32::MAX, self),
            (FlavorPreference::BorrowingOverPreemption, _) => (0, self),
        }
    }

    /// Whether the search for a flavor ends with one that serves so.
    fn stops_search(self, fungibility: FlavorFungibility) -> bool {
        let (borrow, preempt) = (fungibility.when_can_borrow, fungibility.when_can_preempt);
        let borrows = self.level().is_some_and(|level| level > 0);
        match self {
            Mode::NoCandidates | Mode::WaitsForQuota | Mode::ExceedsMaxQuota => false,
            Mode::Reclaims(_) | Mode::Preempts(_) if preempt == WhenCan::TryNextFlavor => false,
            _ => !borrows || borrow == WhenCan::MayStopSearch,
        }
    }

    /// Whether flavors are found, be it that others have to stop first.
    pub fn is_found(self) -> bool {
        self <= Mode::NoCandidates
    }
}

/// One way to take flavors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What each group of the job takes.
    pub flavors: Vec<FlavorChoice>,
    /// How it serves.
    pub mode: Mode,
}

impl Choice {
    /// Whether the quota has it.
    pub fn fits(&self) -> bool {
        matches!(self.mode, Mode::Fits(_))
    }

    /// The same with an offer to further groups.
    fn with(&self, job: &Job, offer: &Offer) -> Choice {
        let mut choice = self.clone();
        choice.flavors.extend(offer.shapes.iter().map(|&(group, shape)| FlavorChoice {
            job: job.id,
            group: GroupIndex(group as u16),
            shape,
        }));
        choice.mode = choice.mode.max(worst(&offer.modes));
        choice
    }

    /// The names of the flavors, each once.
    pub fn names(&self, cell: &Cell) -> String {
        let shapes = self.flavors.iter().filter_map(|choice| cell.shapes().get(choice.shape));
        let columns = shapes.flat_map(|shape| &shape.charges).map(|(column, _)| *column);
        let mut names: Vec<&str> = columns.map(|column| cell.quota().columns().flavor(column)).collect();
        names.retain(|name| !name.is_empty());
        names.sort_unstable();
        names.dedup();
        names.join(" and ")
    }
}

/// Whether groups of `job` may take one of several flavors now, or have one that is not offered any more.
pub fn may_choose(job: &Job) -> bool {
    let is_open = |group: &ohm_cell::Group| {
        group.offers.len() > 1 || group.offers.first().is_some_and(|offer| *offer != group.shape)
    };
    job.groups.iter().any(is_open) && job.may_choose_flavors()
}

/// Why no flavor can serve `job`, if none suits one of its groups.
pub fn flavor_obstacle(cell: &Cell, job: &Job) -> Option<Obstacle> {
    (0..job.groups.len()).find_map(|at| {
        let why = no_offer(cell, job, at)?;
        Some(Obstacle::NoFlavor { queue: job.spec.queue.clone(), group: GroupIndex(at as u16), why })
    })
}

/// The ways in which `job` may take flavors, the one to be planned with first first. `whole` is whether all of its
/// tasks are asked for at once; else what it needs to start will do where the whole fits nowhere.
pub fn choices(view: &View<'_>, job: &Job, whole: bool) -> Vec<Choice> {
    let Some(left) = view.quota_of(job) else { return Vec::new() };
    let Some(queue) = view.cell().quota().get(&job.spec.queue).map(|queue| &queue.spec) else { return Vec::new() };
    let all = |at: usize| job.spec.groups[at].count;
    let least = |at: usize| job.groups[at].needed(&job.spec.groups[at]);
    let mut search = Search { what: view.what(), cell: view.cell(), queue, left: &left, job, used: BTreeMap::new() };
    let mut found = search.choices(&all);
    if whole || (0..job.groups.len()).all(|at| all(at) == least(at)) {
        return found;
    }
    // Where the whole finds no room, its beginning may.
    let smaller = search.choices(&least);
    if !found.first().is_some_and(Choice::fits) && smaller.first().is_some_and(Choice::fits) {
        return smaller;
    }
    for choice in smaller.into_iter().filter(Choice::fits) {
        if !found.iter().any(|known| known.flavors == choice.flavors) {
            found.push(choice);
        }
    }
    found
}

struct Search<'a> {
    what: WhatIf<'a>,
    cell: &'a Cell,
    queue: &'a QueueSpec,
    left: &'a QuotaLeft<'a>,
    job: &'a Job,
    /// What the groups before take.
    used: BTreeMap<FlavorResource, i64>,
}

/// One offer for groups that are placed together: the shape of each.
#[derive(Clone, Debug)]
struct Offer {
    shapes: Vec<(usize, ShapeId)>,
    /// By resource group of the queue: the flavor and how it serves.
    modes: Vec<(String, Mode)>,
}

impl Search<'_> {
    /// The groups are served one after the other, each beside what those before it take.
    fn choices(&mut self, count: &dyn Fn(usize) -> u32) -> Vec<Choice> {
        let none = Choice { flavors: Vec::new(), mode: Mode::Fits(0) };
        // Each with what it takes, and how far it is from what is preferred.
        let mut choices = vec![(0usize, none, BTreeMap::new())];
        for at in (0..self.job.groups.len()).filter(|at| self.job.domain_leader(*at) == *at) {
            let mut wider = Vec::new();
            for (far, choice, used) in choices {
                self.used = used;
                for (step, offer) in self.ordered(at, count).into_iter().enumerate() {
                    let mut used = self.used.clone();
                    add(self.cell, &mut used, &offer.shapes, count);
                    wider.push((far + step, choice.with(self.job, &offer), used));
                }
            }
            wider.sort_by_key(|(far, ..)| *far);
            wider.truncate(CHOICES_MAX);
            choices = wider;
        }
        let mut choices: Vec<Choice> = choices.into_iter().map(|(_, choice, _)| choice).collect();
        match choices.first().is_some_and(Choice::fits) {
            true => choices.retain(Choice::fits),
            // Where the best does not fit, it says why; nothing else is of use.
            false => choices.truncate(1),
        }
        choices
    }

    /// The offers to group `at` and its partners, the preferred one first.
    fn ordered(&self, at: usize, count: &dyn Fn(usize) -> u32) -> Vec<Offer> {
        let mut offers = self.offers(at, count);
        let Some(preferred) = self.preferred(&offers) else { return offers };
        let first = offers.remove(preferred);
        offers.retain(|offer| matches!(worst(&offer.modes), Mode::Fits(_)));
        offers.sort_by_key(|offer| match self.queue.flavor_fungibility.when_can_borrow {
            WhenCan::MayStopSearch => Mode::Fits(0),
            WhenCan::TryNextFlavor => worst(&offer.modes),
        });
        offers.insert(0, first);
        offers
    }

    /// All offers, in the order of the queue: for each partner one that agrees with those of the partners before it.
    fn offers(&self, at: usize, count: &dyn Fn(usize) -> u32) -> Vec<Offer> {
        let mut found = vec![(vec![None; self.queue.resource_groups.len()], Vec::new())];
        for group in self.job.partners(at) {
            let mut wider = Vec::new();
            for (flavors, shapes) in &found {
                for &shape in self.job.groups[group].offers() {
                    let content = self.cell.shapes().get(shape);
                    let own = content.map(|shape| flavors_by_group(self.cell, self.queue, shape)).unwrap_or_default();
                    if let Some(flavors) = agreed(flavors, &own) {
                        wider.push((flavors, [&shapes[..], &[(group, shape)]].concat()));
                    }
                }
            }
            found = wider;
        }
        let offer = |(_, shapes): (_, Vec<(usize, ShapeId)>)| Offer { modes: self.modes(&shapes, count), shapes };
        self.drop_unknown(&mut found);
        found.into_iter().map(offer).collect()
    }

    /// Forgets the offers with which nobody could be asked, where there are others: they would hide what could serve.
    fn drop_unknown<T>(&self, found: &mut Vec<(T, Vec<(usize, ShapeId)>)>) {
        let may_be_asked =
            |shapes: &[(usize, ShapeId)]| !shapes.iter().any(|(_, shape)| asks_unknown(self.cell, self.queue, *shape));
        if found.iter().any(|(_, shapes)| may_be_asked(shapes)) {
            found.retain(|(_, shapes)| may_be_asked(shapes));
        }
    }

    /// Of each resource group the flavor that Kueue would take; the offer that has them all.
    fn preferred(&self, offers: &[Offer]) -> Option<usize> {
        let (groups, fungibility) = (offers.first()?.modes.len(), self.queue.flavor_fungibility);
        let mut wanted: Vec<&str> = Vec::new();
        for group in 0..groups {
            let mut best: Option<&(String, Mode)> = None;
            for offer in offers {
                let found = &offer.modes[group];
                let rank = |(_, mode): &(String, Mode)| mode.rank(fungibility.preference);
                if best.is_none_or(|best| rank(found) < rank(best)) {
                    best = Some(found);
                }
                if found.1.stops_search(fungibility) {
                    break;
                }
            }
            wanted.extend(best.map(|(flavor, _)| flavor.as_str()));
        }
        let has_all = |offer: &Offer| offer.modes.iter().map(|(flavor, _)| flavor.as_str()).eq(wanted.iter().copied());
        let best = || offers.iter().enumerate().min_by_key(|(at, offer)| (worst(&offer.modes), *at)).map(|(at, _)| at);
        offers.iter().position(has_all).or_else(best)
    }

    /// How the shapes together serve, by resource group.
    fn modes(&self, shapes: &[(usize, ShapeId)], count: &dyn Fn(usize) -> u32) -> Vec<(String, Mode)> {
        let mut asked: BTreeMap<FlavorResource, i64> = BTreeMap::new();
        add(self.cell, &mut asked, shapes, count);
        let columns = self.cell.quota().columns();
        let mut modes = Vec::new();
        for group in &self.queue.resource_groups {
            let covers = |column: FlavorResource| group.covers(self.cell.resources().name(columns.resource(column)));
            let of_group = asked.iter().filter(|(column, _)| covers(**column));
            let (mut flavor, mut mode) = (String::new(), Mode::Fits(0));
            for (&column, &amount) in of_group {
                flavor = columns.flavor(column).to_string();
                mode = mode.max(self.mode(column, amount));
            }
            modes.push((flavor, mode));
        }
        modes
    }

    fn mode(&self, column: FlavorResource, amount: i64) -> Mode {
        let amount = amount.saturating_add(self.used.get(&column).copied().unwrap_or(0));
        if amount > self.left.potential(column) {
            return Mode::ExceedsMaxQuota;
        }
        match self.left.available(column) {
            Some(left) if left < amount => self.mode_by_preemption(column, amount),
            _ => Mode::Fits(self.left.borrowing_level(column, amount)),
        }
    }

    /// How it would serve once others were stopped for this column alone: the search for all of them together may find
    /// more to stop, or nobody.
    fn mode_by_preemption(&self, column: FlavorResource, amount: i64) -> Mode {
        let mut tree = QuotaIf::promised_over(self.what.cell, self.what.over, self.job);
        let asked = vec![(column, amount)];
        let Some(preemptor) = Preemptor::asking(self.cell, self.job, &tree, asked).filter(Preemptor::may_stop_any)
        else {
            return Mode::WaitsForQuota;
        };
        // Where nobody may be stopped, nobody is sought.
        let victims = match self.queue.preemption == QueuePreemption::default() {
            true => Vec::new(),
            false => search(self.what, &preemptor, &mut tree),
        };
        let jobs: Vec<&Job> = victims.iter().filter_map(|victim| Some(&**self.cell.jobs().get(victim.job)?)).collect();
        jobs.iter().for_each(|job| tree.stop(job));
        let level = tree.borrowing_level(preemptor.queue(), column, amount);
        match jobs.iter().any(|job| job.spec.queue == self.queue.name) {
            _ if jobs.is_empty() => Mode::NoCandidates,
            true => Mode::Preempts(level),
            false => Mode::Reclaims(level),
        }
    }
}

/// The flavors of both, by resource group; nothing where they are different ones for the same.
fn agreed<'c>(some: &[Option<&'c str>], others: &[Option<&'c str>]) -> Option<Vec<Option<&'c str>>> {
    let pairs = some.iter().zip(others);
    pairs
        .map(|(one, other)| if one.is_some() && other.is_some() && one != other { None } else { Some(one.or(*other)) })
        .collect()
}

fn worst(modes: &[(String, Mode)]) -> Mode {
    modes.iter().map(|(_, mode)| *mode).max().unwrap_or(Mode::Fits(0))
}

fn add(
    cell: &Cell,
    sums: &mut BTreeMap<FlavorResource, i64>,
    shapes: &[(usize, ShapeId)],
    count: &dyn Fn(usize) -> u32,
) {
    for &(group, shape) in shapes {
        for &(column, one) in cell.shapes().get(shape).iter().flat_map(|shape| &shape.charges) {
            let sum = sums.entry(column).or_insert(0);
            *sum = sum.saturating_add(one.saturating_mul(i64::from(count(group))));
        }
    }
}
