//! The oracle: Ohm's promises, each in a file of its own, judged from what was asked, told, applied and really run.
//!
//! It knows the words of the log (commands, outcomes, events) and nothing of how the cell, the schedulers or the agents
//! work: it keeps its own books. The simulator and the live tier feed it the same [`Record`]s.
//!
//! Invariant: a judge only ever adds [`Broken`] promises; it never changes what it watches.

mod ailments;
mod amounts;
mod books;
mod claims;
mod earmarks;
mod facts;
mod flavors;
mod history;
mod kept;
mod p10_heads;
mod p10_ledger;
mod p10_liveness;
mod p10_reasons;
mod p10_witness;
mod p11_preemption;
mod p11_rights;
mod p11_room;
mod p11_tree;
mod p1_capacity;
mod p2_kept_runs;
mod p2_single_run;
mod p3_exactly_once;
mod p4_gangs;
mod p5_required_topology;
mod p5_slices;
mod p6_admission;
mod p6_closed_jobs;
mod p6_counts;
mod p7_budgets;
mod p7_lease_ends;
mod p7_moves;
mod p7_owed_room;
mod p7_probes;
mod p7_ready;
mod p7_real_time;
mod p7_repairs;
mod p7_restarts;
mod p7_rollouts;
mod p7_spares;
mod p7_start_deadlines;
mod p7_stop_delays;
mod p7_taints;
mod p8_brought;
mod p8_flavors;
mod p8_hard_constraints;
mod p8_held_queues;
mod p8_namespaces;
mod p8_neighbours;
mod p8_node_requests;
mod p8_quota;
mod p8_strict_order;
mod p8_turns;
mod p8_waiting_bounds;
mod p9_equal_copies;
mod quota;
mod rooms;
mod spares;
#[cfg(test)]
mod tests;
mod turns;
mod usage;
mod waiting;
mod wanted;

use ohm_model::{Command, Entry, Index, JobId, Outcome, Sequence, SessionId};
use std::collections::BTreeSet;

pub use history::{Broken, Caused, Record};
pub use p10_liveness::Stuck;
pub use p10_reasons::{KeptBack, Reason, ShortQuota, Why};

use kept::Kept;
use p8_strict_order::StrictOrder;
use p8_turns::OutOfTurn;
use p10_ledger::{Counted, Ledger};
use p11_tree::Known;

/// All judges together.
#[derive(Default)]
pub struct Oracle {
    /// The commands that have been answered: who sends one again gets the same answer, and nothing happens.
    answered: BTreeSet<(SessionId, Sequence)>,
    classes: facts::Classes,
    books: books::Books,
    capacity: p1_capacity::Capacity,
    single_run: p2_single_run::SingleRun,
    kept_runs: p2_kept_runs::KeptRuns,
    exactly_once: p3_exactly_once::ExactlyOnce,
    gangs: p4_gangs::Gangs,
    required_topology: p5_required_topology::RequiredTopology,
    slices: p5_slices::Slices,
    admissions: p6_admission::Admissions,
    closed_jobs: p6_closed_jobs::ClosedJobs,
    counts: p6_counts::Counts,
    lease_ends: p7_lease_ends::LeaseEnds,
    budgets: p7_budgets::BudgetBooks,
    moves: p7_moves::Moves,
    readinesses: p7_ready::Readinesses,
    probed: p7_probes::Probed,
    real_time: p7_real_time::RealTime,
    repairs: p7_repairs::Repairs,
    restarts: p7_restarts::Restarts,
    rollouts: p7_rollouts::RolloutBooks,
    wanted: wanted::Wanted,
    spares_first: p7_spares::SparesFirst,
    start_deadlines: p7_start_deadlines::StartDeadlines,
    stop_delays: p7_stop_delays::StopDelays,
    taints: p7_taints::Taints,
    brought: p8_brought::Brought,
    held_queues: p8_held_queues::HeldQueues,
    node_requests: p8_node_requests::NodeRequests,
    namespaces: p8_namespaces::Namespaces,
    neighbourhoods: p8_neighbours::Neighbourhoods,
    quotas: p8_quota::Quotas,
    waiting_bounds: p8_waiting_bounds::WaitingBounds,
    turns: turns::Turns,
    usage: usage::UsageBooks,
    spares: spares::Spares,
    earmarks: earmarks::Earmarks,
    owed_room: p7_owed_room::OwedRoom,
    equal_copies: p9_equal_copies::EqualCopies,
    waiting: waiting::Waiting,
    claims: claims::Claims,
    heads: p10_heads::Heads,
    preemptions: p11_preemption::Preemptions,
    broken: Vec<Broken>,
}

impl Oracle {
    /// Takes one record. Records come in the order of real time.
    pub fn watch(&mut self, record: &Record) {
        if let Record::Applied { at_ms, index, entry, applied, copy, chain } = record {
            // Copies apply the same entries; the books are kept once, by whichever copy is first.
            if self.equal_copies.watch(copy, *index, *chain, &mut self.broken) {
                self.judge_entry((*index, *at_ms), entry, applied);
            }
        }
        if let Record::Copied { copy, index, chain } = record {
            self.equal_copies.watch(copy, *index, *chain, &mut self.broken);
        }
        if let Record::ClocksMoved { .. } = record {
            self.real_time.clocks_moved();
        }
        if let Record::Stamped { at_ms, stamp_ms } = record {
            self.real_time.stamped(*at_ms, *stamp_ms);
        }
        self.single_run.watch(record, &mut self.broken);
        self.lease_ends.began(record, &mut self.broken);
        self.kept_runs.watch(record);
        self.probed.watch_lives(record);
        self.exactly_once.watch(record, &mut self.broken);
    }

    fn judge_entry(&mut self, (index, at_ms): (Index, u64), entry: &Entry, applied: &Caused) {
        let by_session = facts::taken(entry, applied, &mut self.answered);
        let taken: Vec<facts::Taken<'_>> = by_session.iter().map(|(_, taken)| *taken).collect();
        let mut out_of_turn = OutOfTurn::before(entry.stamp_ms, &by_session, &self.ledger());
        let mut strict_order = StrictOrder::before(entry.stamp_ms, &by_session, &self.ledger());
        self.turns.entry_begins(&by_session);
        let room_before = self.owed_room.before(&self.ledger(), &taken);
        let rules = facts::rules(&taken);
        self.note_queues(&taken, &rules);
        self.books.rule(&rules);
        self.admissions.entry_begins(&taken, &rules, &self.books);
        self.note_commits(&taken);
        let wishes = self.wanted.entry_begins(&taken, applied);
        let facts = facts::facts(&taken, (applied, &wishes), &mut self.classes);
        self.note_restarts(at_ms, &taken, &facts);
        let broken = &mut self.broken;
        self.real_time.entry((index, at_ms, entry.stamp_ms), &taken, &facts, broken);
        self.namespaces.entry(index, &taken, &facts, broken);
        self.admissions.reports(index, &taken, &facts, broken);
        self.repairs.entry_begins();
        self.owed_room.entry_begins(index, &taken, (&self.books, &self.repairs));
        self.taints.entry_begins(&facts);
        self.moves.entry_begins(index, &taken, &self.books, broken);
        self.spares.entry_begins(&rules);
        self.neighbourhoods.entry_begins(&taken);
        self.waiting.entry_begins(entry.stamp_ms, &taken);
        self.claims.entry_begins((index, self.waiting.now_ms), &taken, &self.books);
        self.heads.entry_begins(&taken);
        self.preemptions.entry_begins(&taken, &rules);
        self.spares_first.entry_begins(&taken, &self.spares, &self.books);
        for fact in facts {
            let broken = &mut self.broken;
            self.books.note(&fact);
            self.waiting.note(&fact, &self.books);
            self.turns.note((index, self.waiting.now_ms), &fact);
            out_of_turn.note(&fact);
            strict_order.note(&fact);
            self.heads.note(&fact, (&self.books, &self.repairs, &self.claims));
            self.held_queues.watch(index, &fact, (&self.books, &self.claims), broken);
            self.claims.note(&fact);
            self.capacity.watch(index, &fact, &self.books, broken);
            self.gangs.watch(&fact);
            self.required_topology.watch(index, &fact, (&self.books, &self.repairs), broken);
            self.slices.watch(index, &fact, &self.books, broken);
            self.moves.watch(index, &fact, (&self.books, &self.admissions), broken);
            self.repairs.watch(index, &fact, &self.books, broken);
            self.taints.watch(index, &fact, (&self.books, &self.admissions), broken);
            self.judge_restarts(index, &fact);
            self.counts.watch(index, &fact, &self.books, &mut self.broken);
            self.lease_ends.watch(index, &fact, &mut self.broken);
            self.admissions.watch(index, &fact, &self.books, &rules, &mut self.broken);
            self.judge_places(index, &fact, &rules);
            let broken = &mut self.broken;
            self.node_requests.watch(index, &fact, &self.books, broken);
            self.judge_queues(index, &fact, &rules);
            self.judge_preemption(index, &fact);
            let broken = &mut self.broken;
            self.spares.watch(index, &fact, (&self.books, &self.admissions), broken);
            self.spares_first.watch(index, &fact, &self.books);
            self.note_owed(index, &fact);
        }
        self.entry_over(index, (&taken, &rules), applied);
        let broken = &mut self.broken;
        self.closed_jobs.watch(index, applied, broken);
        self.exactly_once.applied(index, entry, applied, broken);
        self.judge_from_all_books(index, &room_before, &out_of_turn);
        let found = strict_order.judge(index, &self.ledger());
        self.broken.extend(found);
        self.admissions.flavors.settled();
    }

    /// What is kept for repairs.
    fn note_owed(&mut self, index: Index, fact: &facts::Fact<'_>) {
        self.earmarks.note(index, fact, &mut self.broken);
        self.owed_room.note(fact, &self.books, &self.repairs);
    }

    /// What may start again in place, what nodes say of their probes, and who waits for what leaves, before an entry.
    fn note_restarts(&mut self, at_ms: u64, taken: &[facts::Taken<'_>], facts: &[facts::Fact<'_>]) {
        self.restarts.entry_begins(taken, facts);
        self.probed.entry_begins(taken);
        self.stop_delays.entry_begins(at_ms, taken, &self.books);
    }

    /// Whether what starts again in place, what is told of probes, and when who leaves is stopped, is right.
    fn judge_restarts(&mut self, index: Index, fact: &facts::Fact<'_>) {
        let broken = &mut self.broken;
        self.restarts.watch(index, fact, (&self.books, &self.repairs), broken);
        self.probed.watch(index, fact, &self.books, broken);
        self.stop_delays.watch(index, fact, &self.books, broken);
    }

    /// What queues keep back before an entry.
    fn note_queues(&mut self, taken: &[facts::Taken<'_>], rules: &facts::Rules<'_>) {
        let mut held_queues = std::mem::take(&mut self.held_queues);
        held_queues.before(taken, rules, &self.ledger());
        self.held_queues = held_queues;
        self.waiting_bounds.before(taken, &self.books);
    }

    /// Whether nodes take what is placed on them.
    fn judge_places(&mut self, index: Index, fact: &facts::Fact<'_>, rules: &facts::Rules<'_>) {
        let (known, broken) = ((&self.books, &self.admissions), &mut self.broken);
        p8_hard_constraints::watch(index, fact, known, broken);
        self.neighbourhoods.watch(index, fact, known, broken);
        self.brought.watch((index, self.waiting.now_ms), fact, known, rules, broken);
    }

    /// What queues give to whom, and for how long jobs wait for it.
    fn judge_queues(&mut self, index: Index, fact: &facts::Fact<'_>, rules: &facts::Rules<'_>) {
        let broken = &mut self.broken;
        self.quotas.watch(index, fact, &self.books, rules, broken);
        self.waiting_bounds.watch(index, fact, rules, (&self.books, self.quotas.tree()), broken);
        p8_flavors::watch(index, fact, (&self.books, &self.admissions.flavors, &self.quotas), broken);
        self.start_deadlines.watch((index, self.waiting.now_ms), fact, &self.books, broken);
        let known = (&self.books, &self.waiting, self.quotas.tree());
        self.readinesses.watch(index, fact, known, rules, broken);
    }

    /// Whom others stop.
    fn judge_preemption(&mut self, index: Index, fact: &facts::Fact<'_>) {
        self.budgets.watch(index, fact, &self.books, &mut self.broken);
        self.rollouts.watch(index, fact, &self.books, &mut self.broken);
        let (books, waiting, turns) = (&self.books, &self.waiting, &self.turns);
        let (admissions, quotas, neighbourhoods) = (&self.admissions, &self.quotas, &self.neighbourhoods);
        let known = Known { books, waiting, turns, admissions, quotas, neighbourhoods };
        let kept = Kept { claims: &self.claims, spares: &self.spares, earmarks: &self.earmarks };
        self.preemptions.watch(index, fact, (known, kept), &mut self.broken);
    }

    fn entry_over(&mut self, index: Index, (taken, rules): (&[facts::Taken<'_>], &facts::Rules<'_>), applied: &Caused) {
        let broken = &mut self.broken;
        self.kept_runs.entry(index, taken, applied, &self.books, broken);
        self.gangs.entry_over(index, &self.books, broken);
        self.required_topology.entry_over(index, &self.books, broken);
        self.slices.entry_over(index, &self.books, broken);
        self.waiting_bounds.entry_over(index, (taken, rules), self.quotas.tree(), broken);
        self.quotas.entry_over(index, rules, &self.books, broken);
        self.usage.entry_over(self.waiting.now_ms, taken, (&self.books, &self.quotas));
        let known = (&self.books, &self.waiting, self.quotas.tree());
        self.held_queues.entry_over(index, rules, known, broken);
        self.readinesses.entry_over(index, known, rules, broken);
        self.start_deadlines.entry_over(index, (&self.books, &self.waiting, &self.claims), broken);
        self.spares.entry_over(index, (&self.books, &self.admissions), broken);
        self.spares_first.entry_over(index, &self.spares, &self.books, broken);
        self.node_requests.entry_over(index, (&self.books, &self.admissions), broken);
        let (books, waiting, turns) = (&self.books, &self.waiting, &self.turns);
        let (admissions, quotas, neighbourhoods) = (&self.admissions, &self.quotas, &self.neighbourhoods);
        let known = Known { books, waiting, turns, admissions, quotas, neighbourhoods };
        self.preemptions.entry_over(index, known, broken);
        self.admissions.entry_over(rules);
        self.counts.entry_over(index, &self.books, broken);
        self.restarts.entry_over(index, &self.books, broken);
        self.probed.entry_over(index, &self.books, broken);
        self.taints.entry_over((index, self.waiting.now_ms), (&self.books, &self.admissions), broken);
        self.earmarks.entry_over((index, self.waiting.now_ms), (&self.books, &self.repairs), broken);
    }

    fn judge_from_all_books(&mut self, index: Index, room_before: &p7_owed_room::Fits, out_of_turn: &OutOfTurn) {
        let mut heads = std::mem::take(&mut self.heads);
        let mut found = self.owed_room.judge(index, &self.ledger(), room_before);
        found.extend(out_of_turn.judge(index, &self.ledger()));
        found.extend(heads.judge(index, &self.ledger()));
        self.heads = heads;
        self.broken.extend(found);
    }

    fn note_commits(&mut self, taken: &[facts::Taken<'_>]) {
        self.budgets.entry_begins(taken);
        for (command, outcome) in taken {
            if let (Command::Commit(transaction), Outcome::Verdict(verdict)) = (command, outcome) {
                self.quotas.commit(transaction, verdict);
                self.admissions.commit(transaction, verdict, &self.books);
            }
        }
    }

    /// Judges what can only be judged when everything is quiet again.
    pub fn finish(&mut self) {
        self.exactly_once.finish(&mut self.broken);
        p6_counts::finish(&self.books, &mut self.broken);
        self.kept_runs.finish(&self.books, &mut self.broken);
        self.restarts.finish(&self.books, &mut self.broken);
        self.probed.finish(&self.books, &mut self.broken);
        self.rollouts.finish(&self.books, &mut self.broken);
    }

    /// P10: every job that waits now although it fits by itself and its queue has room for it.
    pub fn stuck_jobs(&self) -> Vec<Stuck> {
        p10_liveness::stuck_jobs(&self.ledger())
    }

    /// P10: what is not true about the reason that a job was given for waiting.
    pub fn judge_reason(&self, job: JobId, reason: &Reason) -> Option<Broken> {
        p10_reasons::judge_reason(&self.ledger(), job, reason)
    }

    fn ledger(&self) -> Ledger<'_> {
        Ledger {
            books: &self.books,
            waiting: &self.waiting,
            claims: &self.claims,
            admissions: &self.admissions,
            brought: &self.brought,
            repairs: &self.repairs,
            required_topology: &self.required_topology,
            spares: &self.spares,
            neighbourhoods: &self.neighbourhoods,
            earmarks: &self.earmarks,
            quotas: &self.quotas,
            turns: &self.turns,
            usage: &self.usage,
            preemptions: &self.preemptions,
            budgets: &self.budgets,
            rollouts: &self.rollouts,
            counted: Counted::default(),
        }
    }

    /// Every broken promise so far.
    pub fn broken(&self) -> &[Broken] {
        &self.broken
    }
}
