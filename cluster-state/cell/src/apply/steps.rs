//! What several commands do: each step is one change of the state with all that belongs to it.

pub(crate) mod aims;
pub(crate) mod budgets;
pub(crate) mod change;
pub(crate) mod duty;
pub(crate) mod health;
pub(crate) mod holds;
pub(crate) mod job_spec;
pub(crate) mod jobs;
pub(crate) mod kept;
pub(crate) mod leaving;
pub(crate) mod names;
pub(crate) mod offers;
pub(crate) mod repairs;
pub(crate) mod revisions;
pub(crate) mod room;
pub(crate) mod rounds;
pub(crate) mod run_end;
pub(crate) mod runs;
pub(crate) mod stops;
pub(crate) mod task_counts;
