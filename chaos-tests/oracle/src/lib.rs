//! The oracle: Ohm's promises, each in a file of its own, judged from what was asked, told, applied and really run.
//!
//! It knows the words of the log (commands, outcomes, events) and nothing of how the cell, the schedulers or the agents
//! work: it keeps its own books. The simulator and the live tier feed it the same [`Record`]s.
//!
//! Invariant: a judge only ever adds [`Broken`] promises; it never changes what it watches.

mod history;
mod p10_liveness;
mod p1_capacity;
mod p2_single_run;
mod p3_exactly_once;
mod p4_gangs;
mod p6_closed_jobs;
mod p9_equal_copies;

pub use history::{Broken, Record};
pub use p10_liveness::{Stuck, stuck_jobs};

/// All judges together.
#[derive(Default)]
pub struct Oracle {
    capacity: p1_capacity::Capacity,
    single_run: p2_single_run::SingleRun,
    exactly_once: p3_exactly_once::ExactlyOnce,
    gangs: p4_gangs::Gangs,
    closed_jobs: p6_closed_jobs::ClosedJobs,
    equal_copies: p9_equal_copies::EqualCopies,
    broken: Vec<Broken>,
}

impl Oracle {
    /// Takes one record. Records come in the order of real time.
    pub fn watch(&mut self, record: &Record) {
        if let Record::Applied { index, entry, applied, copy, chain, .. } = record {
            // Copies apply the same entries; the books are kept once, by whichever copy is first.
            if self.equal_copies.watch(copy, *index, *chain, &mut self.broken) {
                self.capacity.watch(*index, entry, applied, &mut self.broken);
                self.gangs.watch(*index, entry, applied, &mut self.broken);
                self.closed_jobs.watch(*index, applied, &mut self.broken);
                self.exactly_once.applied(*index, entry, applied, &mut self.broken);
            }
        }
        if let Record::Copied { copy, index, chain } = record {
            self.equal_copies.watch(copy, *index, *chain, &mut self.broken);
        }
        self.single_run.watch(record, &mut self.broken);
        self.exactly_once.watch(record, &mut self.broken);
    }

    /// Judges what can only be judged when everything is quiet again.
    pub fn finish(&mut self) {
        self.exactly_once.finish(&mut self.broken);
    }

    /// Every broken promise so far.
    pub fn broken(&self) -> &[Broken] {
        &self.broken
    }
}
