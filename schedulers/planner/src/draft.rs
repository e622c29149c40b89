//! What a plan for one job has come to: what strategies read and change.

use crate::spares::{into_spares, work_in};
use ohm_cell::{Job, Savepoint, as_if_spared, is_surrounded};
use ohm_framework::{Decision, Explanation, Need, Obstacle, PlannedJob, WorkItem};
use ohm_model::{Grain, GroupIndex, NodeId, Placement};
use ohm_placement::{Bundle, Failure, Found, GroupAsk, JobSearch, Joint, Pass, Placer, Seek, Subject};
use ohm_placement::{asks, bundles};
use ohm_stdx::Prng;
use std::collections::BTreeMap;

/// On which terms a job is planned. A strategy that changes them has the list run from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Groups that start ask for their spares as well.
    pub(crate) asks_spares: bool,
    /// Lost tasks take spares of their group before anything is searched for.
    pub(crate) seats_spares: bool,
    /// The spares that the job holds are room for any of its tasks.
    pub(crate) lends_spares: bool,
}

impl Terms {
    const FIRST: Terms = Terms { asks_spares: true, seats_spares: true, lends_spares: false };
}

/// What a strategy came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It has nothing to do for this job.
    Skip,
    /// It did its part; the next one goes on.
    Next,
    /// The plan is complete.
    Complete,
    /// It found nothing.
    Failed,
    /// The list is to be run from its beginning, on these terms.
    Again(Terms),
}

/// What a job is planned with.
pub(crate) struct Desk<'a, 'v> {
    pub(crate) placer: &'a mut Placer,
    pub(crate) pass: &'a mut Pass<'v>,
    pub(crate) dice: &'a mut Prng,
}

/// What the job asks for beyond what is seated.
enum Asks {
    Unknown,
    Open(Vec<GroupAsk>),
    /// The job waits for something else, or no other order is of use.
    Closed,
}

/// What was seated up to a point.
pub(crate) struct Seats {
    taken: Savepoint,
    rows: usize,
}

/// The plan for one job, so far.
pub(crate) struct Draft<'a, 'v> {
    desk: Desk<'a, 'v>,
    job: &'a Job,
    need: Need,
    seek: Seek,
    start: Savepoint,
    pub(crate) terms: Terms,
    /// Why the job finds no room, by the last search that says so.
    why: Option<Failure>,
    /// The job with spares as further tasks of its groups, where they are asked for.
    wide: Option<Box<Job>>,
    /// How many tasks waited when they were asked for.
    waiting: u32,
    asks: Asks,
    /// In place of what is asked for: the minimums of the groups that start; the rest is placed afterwards.
    minimums: Option<Vec<GroupAsk>>,
    seated: Vec<Placement>,
    found: Found,
}

impl<'a, 'v> Draft<'a, 'v> {
    pub(crate) fn new(desk: Desk<'a, 'v>, job: &'a Job, item: WorkItem, most_rows: usize) -> Self {
        let (start, salt) = (desk.pass.savepoint(), desk.placer.salt());
        let mut draft = Draft {
            desk,
            job,
            need: item.need,
            seek: Seek::of(&item, most_rows, salt),
            start,
            terms: Terms::FIRST,
            why: None,
            wide: None,
            waiting: 0,
            asks: Asks::Unknown,
            minimums: None,
            seated: Vec::new(),
            found: Found::default(),
        };
        draft.restart();
        draft
    }

    /// Begins anew, on the terms as they are now.
    pub(crate) fn restart(&mut self) {
        self.roll_back(self.start);
        self.wide = self.seeks_spares().then(|| {
            let mut wide = as_if_spared(self.job, Job::spares_missing);
            wide.reserved.clear();
            Box::new(wide)
        });
        (self.asks, self.minimums, self.found) = (Asks::Unknown, None, Found::default());
        self.seated.clear();
        if self.terms.lends_spares {
            self.desk.pass.lend_spares(self.job);
        }
    }

    /// The job.
    pub(crate) fn job(&self) -> &'a Job {
        self.job
    }

    /// Whether rules about other tasks keep groups of the job away from nodes.
    pub(crate) fn is_surrounded(&self) -> bool {
        is_surrounded(self.desk.pass.cell(), self.job)
    }

    /// Whether spares are sought and nothing else.
    pub(crate) fn seeks_spares(&self) -> bool {
        self.need == Need::Spare
    }

    /// Whether spares are planned as further tasks.
    pub(crate) fn asks_spares(&self) -> bool {
        self.wide.is_some()
    }

    /// Why the job found no room so far.
    pub(crate) fn why(&self) -> Option<&Explanation> {
        self.why.as_deref()
    }

    /// Whether a group found no room where others of the job had taken theirs. No other packing makes a quota larger.
    pub(crate) fn lacks_room_beside_others(&self) -> bool {
        self.why().is_some_and(|why| !why.beside.is_empty() && !matches!(why.obstacle, Obstacle::Quota { .. }))
    }

    /// Whether tasks were seated.
    pub(crate) fn has_seated(&self) -> bool {
        !self.seated.is_empty()
    }

    /// Whether tasks wait that are not seated.
    pub(crate) fn still_waits(&self) -> bool {
        let view = self.desk.pass.view();
        (0..self.job.groups.len()).any(|at| !view.pending(self.job, GroupIndex(at as u16)).is_empty())
    }

    /// What is seated so far.
    pub(crate) fn seats(&mut self) -> Seats {
        Seats { taken: self.savepoint(), rows: self.seated.len() }
    }

    /// What was seated since `before` is not.
    pub(crate) fn unseat(&mut self, before: Seats) {
        self.roll_back(before.taken);
        self.seated.truncate(before.rows);
    }

    pub(crate) fn savepoint(&mut self) -> Savepoint {
        self.desk.pass.savepoint()
    }

    pub(crate) fn roll_back(&mut self, savepoint: Savepoint) {
        self.desk.placer.roll_back(self.desk.pass, savepoint);
    }

    /// Another number each time.
    pub(crate) fn dice(&mut self) -> u64 {
        self.desk.dice.u64()
    }

    /// The rows that `rows_of` has for group `at` of the job, taken before anything is searched for. True if there are
    /// some. `nodes` are those it is about; they are handed over in the order of the group's topology.
    pub(crate) fn seat(
        &mut self,
        at: usize,
        lends_spares: bool,
        nodes: impl FnOnce(&Subject<'_>) -> Vec<(NodeId, u32)>,
        rows_of: impl FnOnce(&Subject<'_>, Vec<(NodeId, u32)>) -> Vec<Placement>,
    ) -> bool {
        let before = self.desk.pass.savepoint();
        if lends_spares && !self.terms.lends_spares {
            self.desk.pass.lend_spares(self.job);
        }
        let rows = self.rows_at(at, nodes, rows_of);
        self.desk.placer.roll_back(self.desk.pass, before);
        if rows.is_empty() {
            return false;
        }
        self.desk.placer.take(self.desk.pass, self.job, &rows);
        self.seated.extend(rows);
        true
    }

    fn rows_at(
        &mut self,
        at: usize,
        nodes: impl FnOnce(&Subject<'_>) -> Vec<(NodeId, u32)>,
        rows_of: impl FnOnce(&Subject<'_>, Vec<(NodeId, u32)>) -> Vec<Placement>,
    ) -> Vec<Placement> {
        let Some(subject) = self.seek.subject(self.desk.pass, self.job, GroupIndex(at as u16)) else {
            return Vec::new();
        };
        let mut nodes = nodes(&subject);
        if nodes.is_empty() || !self.desk.placer.sort_by_path(&subject, &mut nodes) {
            return Vec::new();
        }
        rows_of(&subject, nodes)
    }

    /// What is asked for beyond what is seated; nothing where no search is of use any more.
    pub(crate) fn asks(&mut self) -> Option<&[GroupAsk]> {
        if matches!(self.asks, Asks::Unknown) {
            let view = self.desk.pass.view();
            match asks(&view, self.wide.as_deref().unwrap_or(self.job)) {
                Ok(asks) => self.asks = Asks::Open(asks),
                // Spares wait for whatever the job waits for.
                Err(_) if self.seeks_spares() => self.asks = Asks::Open(Vec::new()),
                Err(waiting) => {
                    let of = self.job.spec.groups.iter().map(|group| group.min_count).sum();
                    let seen = self.desk.pass.cell().applied();
                    self.close(Some(Box::new(Explanation::of_obstacle(self.job.id, seen, of, waiting))));
                }
            }
        }
        if let Asks::Open(asks) = &self.asks { Some(asks) } else { None }
    }

    /// Asks for so many spares of each group as well, if the job as a whole can be asked for then.
    pub(crate) fn ask_spares(&mut self, spares: impl Fn(&Job, usize) -> u32) -> bool {
        let wide = as_if_spared(self.job, spares);
        let Ok(asks) = asks(&self.desk.pass.view(), &wide) else { return false };
        let view = self.desk.pass.view();
        let waiting = |at: usize| view.pending(self.job, GroupIndex(at as u16)).len();
        self.waiting = (0..self.job.groups.len()).map(waiting).sum();
        (self.wide, self.asks) = (Some(Box::new(wide)), Asks::Open(asks));
        true
    }

    /// From now on `minimums` are searched for, and the rest of what is asked afterwards.
    pub(crate) fn ask_minimums(&mut self, minimums: Vec<GroupAsk>) {
        self.minimums = Some(minimums);
    }

    /// What is to be searched for now, in the order of the groups; nothing where no search is of use any more.
    pub(crate) fn bundles(&mut self) -> Option<Vec<Bundle>> {
        self.asks()?;
        let Asks::Open(asks) = &self.asks else { return None };
        let wanted = self.minimums.as_ref().unwrap_or(asks);
        Some(bundles(self.wide.as_deref().unwrap_or(self.job), wanted))
    }

    /// No other order is of use.
    pub(crate) fn close(&mut self, why: Option<Failure>) {
        self.asks = Asks::Closed;
        self.why = why.or(self.why.take());
    }

    /// Searches for `bundles` in this order; `salt` orders what is equally good, in place of this replica's own order.
    pub(crate) fn search(&mut self, bundles: &[Bundle], salt: Option<u64>) -> Result<Step, Failure> {
        let seek = Seek { salt: salt.unwrap_or(self.seek.salt), ..self.seek };
        let found = self.job_search(seek).place(bundles)?;
        Ok(self.complete(found))
    }

    /// Searches for the least of all groups that start or repair, side by side.
    pub(crate) fn search_jointly(&mut self) -> Step {
        let Some(asks) = self.asks() else { return Step::Skip };
        let needed = asks.iter().filter(|ask| ask.starts || ask.is_short);
        let minimums: Vec<GroupAsk> = needed.map(|ask| GroupAsk { most: ask.least, ..*ask }).collect();
        if minimums.len() < 2 {
            return Step::Skip;
        }
        self.ask_minimums(minimums.clone());
        let seek = self.seek;
        match self.job_search(seek).place_jointly(&minimums) {
            Joint::Found(found) => self.complete(found),
            Joint::NoPlaces => {
                self.close(None);
                Step::Failed
            }
            Joint::Unknown => Step::Failed,
        }
    }

    /// The plan is what was found, and what else fits where minimums were searched for.
    fn complete(&mut self, found: Found) -> Step {
        self.found = self.grow(found);
        if self.asks_spares() && !self.seeks_spares() {
            if work_in(self.job, &self.found.rows) < self.waiting {
                // A job goes short for no spares: no other order is looked for before it is planned without them.
                self.close(None);
                return Step::Failed;
            }
            self.found.rest = None;
        }
        Step::Complete
    }

    /// Takes note of why the job finds no room.
    pub(crate) fn fails_for(&mut self, why: Failure) -> Step {
        self.why = Some(why);
        Step::Failed
    }

    /// Leaves it at what was seated: the rest waits for what was found out.
    pub(crate) fn keep_seated(&mut self) {
        self.found = Found { rows: Vec::new(), rest: self.why.take() };
    }

    /// Ends without a plan.
    pub(crate) fn give_up(&mut self) -> Option<Failure> {
        self.roll_back(self.start);
        self.why.take()
    }

    fn job_search(&mut self, seek: Seek) -> JobSearch<'_, 'v> {
        let job = self.wide.as_deref().unwrap_or(self.job);
        JobSearch { placer: self.desk.placer, pass: self.desk.pass, job, seek, dice: self.desk.dice }
    }

    /// Adds to the minimums what else fits.
    fn grow(&mut self, mut found: Found) -> Found {
        let Asks::Open(asks) = &self.asks else { return found };
        if self.minimums.is_none() {
            return found;
        }
        for ask in asks.clone() {
            let rows = found.rows.iter().filter(|row| row.group == ask.group);
            let placed: u32 = rows.map(|row| row.count).sum();
            let more = GroupAsk { least: 1, most: ask.most - placed.min(ask.most), ..ask };
            if more.most == 0 {
                continue;
            }
            let seek = self.seek;
            let grown = self.job_search(seek).grow(&more, &found.rows);
            let lasting = !ask.starts || self.job.spec.groups[usize::from(ask.group.0)].elastic;
            // What a rigid group starts without is left out for good: nothing waits, nothing needs a reason.
            if grown.is_ok() || lasting {
                found.add(grown);
            }
        }
        found
    }

    /// What was lent to the job is no room for the next one.
    pub(crate) fn recall_spares(&mut self) {
        self.desk.pass.recall_spares(self.job);
    }

    /// What comes of the plan as it is.
    pub(crate) fn decision(&mut self) -> Decision {
        let (mut rows, Found { rows: found, rest }) =
            (std::mem::take(&mut self.seated), std::mem::take(&mut self.found));
        rows.extend(found);
        let job = self.job;
        if rows.is_empty() {
            return rest.map_or(Decision::Nothing(job.id), Decision::Unplaced);
        }
        let cell = self.desk.pass.cell();
        // What stands beside what hangs on who came first.
        if !(self.is_surrounded() && ascends(&rows)) {
            rows.sort_by_key(|row| (row.group, row.first));
        }
        merge(&mut rows);
        let starts_now = job.starts_whole() && job.groups.iter().all(|group| !group.started);
        let grain = if starts_now { Grain::Minimum } else { Grain::PerTask };
        let (rows, mut nominate) = into_spares(job, rows);
        // How ports and devices of spares add up, the log knows better than a search for one more task does.
        nominate.retain(|row| cell.takes_spare(job, row));
        if rows.is_empty() && nominate.is_empty() {
            let room = || Box::new(Explanation::of_obstacle(job.id, cell.applied(), 1, Obstacle::Room));
            return Decision::Unplaced(rest.unwrap_or_else(room));
        }
        let mut planned = PlannedJob::placing(self.desk.pass.view().guard(job), grain, rows);
        planned.nominate = nominate;
        planned.rest = rest;
        Decision::Planned(Box::new(planned))
    }
}

/// Whether the tasks of each group ascend.
fn ascends(rows: &[Placement]) -> bool {
    let mut next = BTreeMap::new();
    rows.iter().all(|row| {
        let former = next.insert(row.group, row.first.0 + row.count);
        former.is_none_or(|former| former <= row.first.0)
    })
}

/// Makes one row of two that go on with each other on one node.
fn merge(rows: &mut Vec<Placement>) {
    rows.dedup_by(|next, row| {
        let joins = next.group == row.group && next.node == row.node && next.first.0 == row.first.0 + row.count;
        if joins {
            row.count += next.count;
            row.devices.append(&mut next.devices);
        }
        joins
    });
}
