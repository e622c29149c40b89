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
use crate::strategies::{Entry, TABLE};
use ohm_cell::JobState;
use ohm_framework::{Decision, Explanation, Obstacle, Tried, WorkItem};
use ohm_model::Class;

/// The list is run at most so often for one job. The built-in strategies change the terms fewer times.
const ROUNDS_MAX: usize = 8;

/// The strategies of a profile.
#[derive(Debug)]
pub(crate) struct Pipeline {
    profile: String,
    entries: Vec<&'static Entry>,
}

/// How the list ended.
enum End {
    Decided(Decision),
    Again,
    NoneLeft,
}

/// The strategies that were run, by their place in the list.
#[derive(Clone, Copy, Default)]
struct Ran(u64);

impl Pipeline {
    /// The strategies that a class has unless its profile says otherwise: all, in the order of the table.
    pub(crate) fn built_in(class: Class) -> Self {
        Pipeline { profile: class.name().to_string(), entries: TABLE.iter().collect() }
    }

    /// Decides about the job of `item`.
    pub(crate) fn decide(&self, desk: Desk<'_, '_>, item: &WorkItem, most_rows: usize) -> Decision {
        let base = desk.pass.base();
        let Some(job) = base.cell().jobs().get(item.job).filter(|job| job.state == JobState::Active) else {
            return Decision::Nothing(item.job);
        };
        let (mut draft, mut ran) = (Draft::new(desk, job, *item, most_rows), Ran::default());
        for _ in 0..ROUNDS_MAX {
            match self.run(&mut draft, &mut ran) {
                End::Decided(decision) => return self.told(decision, ran),
                End::Again => draft.restart(),
                End::NoneLeft => break,
            }
        }
        let why = draft.give_up();
        let room = || Box::new(Explanation::of_obstacle(item.job, base.seen(), 1, Obstacle::Room));
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
                        decision => return End::Decided(decision),
                    },
                    Step::Skip | Step::Next => break,
                }
            }
        }
        End::NoneLeft
    }

    /// The decision, with what was tried where something is left to explain.
    fn told(&self, mut decision: Decision, ran: Ran) -> Decision {
        let why = match &mut decision {
            Decision::Unplaced(why) => Some(why),
            Decision::Planned(planned) => planned.rest.as_mut(),
            Decision::Nothing(_) => None,
        };
        if let Some(why) = why {
            let names = self.entries.iter().enumerate().filter(|(at, _)| ran.holds(*at));
            let strategies = names.map(|(_, entry)| entry.name.into()).collect();
            why.tried = Some(Tried { profile: self.profile.clone(), strategies });
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
