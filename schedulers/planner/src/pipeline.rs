//! Runs the strategies of a profile over one job, in their order.
//!
//! ```text
//!            ┌───────────── terms changed: roll back to the beginning ─────────────┐
//!            ▼                                                                     │
//! job ──▶ strategy ── failed: roll back ──▶ strategy ──▶ … ──▶ strategy ───────────┤
//!            │ complete                                                            │ none is left
//!            ▼                                                                     ▼
//!         planned                                                      unplaced, and what was tried
//! ```

use crate::draft::{Desk, Draft, Step};
use crate::strategies::Entry;
use ohm_cell::{Job, JobState, standing_as_is};
use ohm_framework::flavors::{choices, flavor_obstacle, may_choose};
use ohm_framework::{Decision, Explanation, Need, Obstacle, Tried, WorkItem, reserve_with};
use ohm_model::Strategy;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The list is run at most so often for one job. The built-in strategies change the terms fewer times.
const ROUNDS_MAX: usize = 8;

/// The strategies of a profile.
#[derive(Debug)]
pub(crate) struct Pipeline {
    profile: String,
    entries: Vec<Entry>,
    /// What explanations say of the strategies that were run: long queues are explained alike.
    told: BTreeMap<Ran, Arc<Tried>>,
}

/// How the list ended.
enum End {
    Decided(Decision),
    Again,
    NoneLeft,
}

/// The strategies that were run, by their place in the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Ran(u64);

impl Pipeline {
    /// These strategies in their order; all of them, when there are none.
    pub(crate) fn new(profile: &str, strategies: &[Strategy]) -> Self {
        let strategies = if strategies.is_empty() { &Strategy::ALL } else { strategies };
        let entries = strategies.iter().copied().map(Entry::of).collect();
        Pipeline { profile: profile.to_string(), entries, told: BTreeMap::new() }
    }

    /// Decides about the job of `item`.
    pub(crate) fn decide(&mut self, desk: Desk<'_, '_>, item: &WorkItem, most_rows: usize) -> Decision {
        let Some(job) = desk.pass.job(item.job).filter(|job| job.state == JobState::Active) else {
            return Decision::Nothing(item.job);
        };
        if let Some(obstacle) = flavor_obstacle(desk.pass.cell(), job) {
            let of = job.spec.groups.iter().map(|group| group.min_count).sum();
            let seen = desk.pass.cell().applied();
            return Decision::Unplaced(Box::new(Explanation::of_obstacle(job.id, seen, of, obstacle)));
        }
        // What moves or seeks spares has its flavors, whatever is shown to stand of it.
        if may_choose(job) && !matches!(item.need, Need::Move | Need::Spare) {
            return self.decide_flavors(desk, job, item, most_rows);
        }
        self.decide_job(desk, job, item, most_rows)
    }

    /// Plans with the flavors that the queue prefers, and where they have no room with others that fit the quota. Those
    /// that have checks to pass are reserved when it is their turn.
    fn decide_flavors(&mut self, desk: Desk<'_, '_>, job: &Job, item: &WorkItem, most_rows: usize) -> Decision {
        let Desk { placer, pass, dice } = desk;
        let (mut first, mut tried): (Option<(bool, Box<Explanation>)>, Vec<String>) = (None, Vec::new());
        for choice in choices(&pass.view(), job, false) {
            let chosen = job.with_flavors(&choice.flavors);
            let chosen = chosen.as_ref().unwrap_or(job);
            let decided = reserve_with(&pass.view(), chosen).unwrap_or_else(|| {
                let desk = Desk { placer, pass, dice };
                self.decide_job(desk, chosen, item, most_rows)
            });
            match decided {
                Decision::Planned(mut planned) => {
                    planned.flavors = choice.flavors;
                    return Decision::Planned(planned);
                }
                Decision::Unplaced(why) => {
                    tried.push(choice.names(pass.cell()));
                    let is_checked = !standing_as_is(pass.cell(), chosen).may_place();
                    let is_room = matches!(why.obstacle, Obstacle::Room | Obstacle::Domain { .. });
                    // What it lacks to be placed says more than why its checks are not asked.
                    if first.as_ref().is_none_or(|(of_checked, _)| *of_checked && !is_checked) {
                        first = Some((is_checked, why));
                    }
                    if !is_room && !is_checked && tried.len() == 1 {
                        break;
                    }
                }
                nothing => return nothing,
            }
        }
        let Some((_, mut why)) = first else { return Decision::Nothing(job.id) };
        why.flavors = tried;
        Decision::Unplaced(why)
    }

    fn decide_job(&mut self, desk: Desk<'_, '_>, job: &Job, item: &WorkItem, most_rows: usize) -> Decision {
        let seen = desk.pass.cell().applied();
        let (mut draft, mut ran) = (Draft::new(desk, job, *item, most_rows), Ran::default());
        for _ in 0..ROUNDS_MAX {
            match self.run(&mut draft, &mut ran) {
                End::Decided(decision) => return self.told(decision, ran),
                End::Again => draft.restart(),
                End::NoneLeft => break,
            }
        }
        let why = draft.give_up();
        let room = || Box::new(Explanation::of_obstacle(item.job, seen, 1, Obstacle::Room));
        self.told(Decision::Unplaced(why.unwrap_or_else(room)), ran)
    }

    /// Runs the list once.
    fn run(&self, draft: &mut Draft<'_, '_>, ran: &mut Ran) -> End {
        for (at, entry) in self.entries.iter().enumerate() {
            for _ in 0..entry.tries {
                let before = draft.savepoint();
                let step = (entry.run)(draft);
                if step == Step::Skip {
                    break;
                }
                ran.note(at);
                match step {
                    Step::Failed => draft.roll_back(before),
                    Step::Again(terms) => {
                        draft.terms = terms;
                        return End::Again;
                    }
                    Step::Complete => match draft.decision() {
                        Decision::Unplaced(why) => {
                            draft.roll_back(before);
                            draft.close(Some(why));
                        }
                        decision => {
                            draft.recall_spares();
                            return End::Decided(decision);
                        }
                    },
                    Step::Skip | Step::Next => break,
                }
            }
        }
        End::NoneLeft
    }

    /// The decision, with what was tried where something is left to explain.
    fn told(&mut self, mut decision: Decision, ran: Ran) -> Decision {
        let why = match &mut decision {
            Decision::Unplaced(why) => Some(why),
            Decision::Planned(planned) => planned.rest.as_mut(),
            Decision::Nothing(_) => None,
        };
        if let Some(why) = why {
            let told = self.told.entry(ran).or_insert_with(|| {
                let names = self.entries.iter().enumerate().filter(|(at, _)| ran.holds(*at));
                let strategies = names.map(|(_, entry)| entry.strategy).collect();
                Arc::new(Tried { profile: self.profile.clone(), strategies })
            });
            why.tried = Some(Arc::clone(told));
        }
        decision
    }
}

impl Ran {
    fn note(&mut self, at: usize) {
        self.0 |= 1 << (at % 64);
    }

    fn holds(self, at: usize) -> bool {
        self.0 >> (at % 64) & 1 == 1
    }
}
