//! How a search is made, and what it finds.

use crate::placer::Pass;
use crate::subject::Subject;
use ohm_cell::Job;
use ohm_framework::{Explanation, WorkItem};
use ohm_model::{GroupIndex, Placement};

/// How to search: what strategies vary.
#[derive(Clone, Copy, Debug)]
pub struct Seek {
    /// How many plans of the job collided before; the search spreads wider when it is not 0.
    pub attempt: u32,
    /// Whether room is nominated for the job: that room is looked at first and alone.
    pub nominated: bool,
    /// At most so many rows, once what a group needs is placed.
    pub most_rows: usize,
    /// See [`crate::amount::Amount::salt`].
    pub salt: u64,
}

impl Seek {
    /// For the job of `item`, in order; `salt` is that of the replica.
    pub fn of(item: &WorkItem, most_rows: usize, salt: u64) -> Self {
        Seek { attempt: item.attempt, nominated: item.nominated, most_rows, salt }
    }

    /// Group `group` of `job` on what `pass` sees.
    pub fn subject<'p>(&self, pass: &'p Pass<'_>, job: &'p Job, group: GroupIndex) -> Option<Subject<'p>> {
        Subject::new(pass.view(), job, group)
    }
}

/// Rows that were found for a job, all of them taken in the pass.
#[derive(Debug, Default)]
pub struct Found {
    /// The rows.
    pub rows: Vec<Placement>,
    /// Why there are no more.
    pub rest: Option<Failure>,
}

/// What a group could not be placed for.
pub type Failure = Box<Explanation>;

impl Found {
    /// Adds what was found after it, or why nothing was. Of several reasons the first counts.
    pub fn add(&mut self, placed: Result<Found, Failure>) {
        let why = match placed {
            Ok(more) => {
                self.rows.extend(more.rows);
                more.rest
            }
            Err(why) => Some(why),
        };
        self.rest = self.rest.take().or(why);
    }
}
