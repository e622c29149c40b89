//! What goes through a cell.

use ohm_model::Class;

/// Where jobs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// On nodes with real processes.
    Real,
    /// On nodes whose tasks are timers.
    Simulated,
}

impl Pool {
    /// The value of the label `pool` of its nodes.
    pub fn name(self) -> &'static str {
        match self {
            Pool::Real => "real",
            Pool::Simulated => "simulated",
        }
    }
}

/// Jobs that come one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// How many.
    pub jobs: usize,
    /// Of which class.
    pub class: Class,
    /// Where they run.
    pub pool: Pool,
    /// How many come in a second.
    pub per_second: u64,
    /// Fewest and most tasks of one job.
    pub tasks: (usize, usize),
    /// How long a task runs, in milliseconds; without a time until its job is cancelled: when all such jobs are whole
    /// after everything was healed.
    pub task_ms: Option<u64>,
    /// Where the tasks of a job stand.
    pub stands: Stands,
    /// What becomes of a job that lost nodes, if it says so.
    pub repair: Option<Repair>,
}

/// Where the tasks of a job stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// Anywhere.
    Anywhere,
    /// All of them in one rack, on a node each.
    InRack,
    /// In one block, and each so many of them in one rack, by rank.
    InSlices(usize),
}

/// What becomes of a gang that lost nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// It is evicted whole where there is no room at once.
    FailsFast,
    /// It waits for room so long, in milliseconds.
    Waits(u64),
    /// It leaves its rack for the block around it.
    Widens,
}

impl Load {
    /// When the job of this number is sent, in milliseconds.
    pub fn at_ms(&self, number: usize) -> u64 {
        number as u64 * 1000 / self.per_second
    }

    /// How many tasks the job of this number has: all sizes in turn, in whole slices.
    pub fn tasks_of(&self, number: usize) -> usize {
        let tasks = self.tasks.0 + number % (self.tasks.1 - self.tasks.0 + 1);
        if let Stands::InSlices(size) = self.stands { tasks.next_multiple_of(size) } else { tasks }
    }
}
