//! What the backlog asks about jobs, for it does not read the cell.

use ohm_model::JobId;

/// Who knows the jobs and the quota of their queues.
pub trait Chooser {
    /// What a job asks for now, in parts of [`crate::WHOLE`].
    fn cost_of(&self, job: JobId) -> u64;

    /// Which of the first jobs of the lines of one cohort tree is served first; they come in the order of their turns.
    /// Returns its place among them; there is at least one.
    fn first_of(&mut self, heads: &mut dyn Iterator<Item = JobId>) -> usize;

    /// The job was taken: what it asks for counts for those that are chosen from next.
    fn note_taken(&mut self, job: JobId);

    /// The part of its line that the job is in, where parts have an order, and the key of that part with what was
    /// taken.
    fn key_after(&mut self, _: JobId) -> Option<(&str, u128)> {
        None
    }
}
