//! P10 for heads of lines: what is promised to one is left to it, and nobody starves who could become one.

use super::owed_room::{nothing, one_task};
use super::*;
use ohm_model::transaction::{Conflict, Row};
use ohm_model::{
    ConflictReason, Grain, GroupIndex, Nomination, Purpose, SchedulingProfile, TaskIndex, Transaction, Verdict,
};

/// When heads are to start.
const START_MS: u64 = 600_000;

/// Two nodes of 4 cpu; a gang of two tasks of 4 cpu, and small jobs before and after it. Job 1 stands on node 0.
fn line() -> History {
    let mut history = History::default();
    history.node(0, node("n0", &[])).node(1, node("n1", &[]));
    let gang = |job: &mut JobSpec| {
        job.groups[0].requests = [("cpu".to_string(), 4000)].into();
        (job.groups[0].min_count, job.groups[0].elastic) = (2, false);
    };
    history.job(1, job("before", 1, |_| {})).job(0, job("gang", 2, gang));
    history.happened(vec![placed(1, 0, 1, 0)]);
    history.job(2, job("small", 2, |_| {}));
    history
}

fn rooms(job: u32, nodes: &[u32]) -> Vec<Nomination> {
    rooms_from(job, nodes, START_MS)
}

fn rooms_from(job: u32, nodes: &[u32], start_ms: u64) -> Vec<Nomination> {
    let room = |node: &u32| Nomination {
        job: JobId::new(job, 0),
        group: GroupIndex(0),
        node: NodeId(*node),
        first: TaskIndex(0),
        count: 1,
        purpose: Purpose::Head { start_ms, is_guess: false, until_ms: 3_600_000 },
    };
    nodes.iter().map(room).collect()
}

/// A job of one task that may run for so long, and takes 5 s to stop.
fn short(seconds: u64) -> JobSpec {
    let set = |job: &mut JobSpec| {
        job.active_deadline_seconds = seconds;
        job.groups[0].task.grace_ms = 5_000;
    };
    job("short", 1, set)
}

impl History {
    fn heads(&mut self, job: u32, nodes: &[u32]) -> &mut Self {
        self.committed(Transaction { nominate: rooms(job, nodes), ..nothing() }, Vec::new())
    }

    /// One room of all is refused, and all of them with it.
    fn asks_and_is_refused(&mut self, job: u32, nodes: &[u32]) -> &mut Self {
        let transaction = Transaction { nominate: rooms(job, nodes), grain: Grain::AllOrNothing, ..nothing() };
        let conflict = Conflict { row: Row::Nominate(0), reason: ConflictReason::Held, node: Some(NodeId(nodes[0])) };
        let verdict = Verdict { conflicts: vec![conflict], ..Verdict::default() };
        self.entry(Command::Commit(transaction), Outcome::Verdict(verdict), Vec::new())
    }

    /// Small jobs start and end one after the other for so many seconds.
    fn passes(&mut self, job: u32, seconds: u32) -> &mut Self {
        for _ in 0..seconds / 2 {
            self.places(job, 0, 1).happened(vec![ended(job, 0, 1, Exit::Code(1))]);
        }
        self
    }

    fn patience(&mut self, seconds: u32) -> &mut Self {
        let profile = SchedulingProfile { head_patience_seconds: seconds, ..SchedulingProfile::built_in(Class::BATCH) };
        self.entry(Command::PutSchedulingProfile(Box::new(profile)), Outcome::Done, Vec::new())
    }
}

#[test]
fn what_is_promised_to_a_head_is_left_to_it() {
    assert_eq!(line().heads(0, &[0, 1]).places(2, 0, 1).broken(), ["P10"]);
    assert!(line().heads(0, &[0]).places(2, 0, 1).broken().is_empty(), "nothing is promised there");
    assert!(!line().heads(0, &[0, 1, 1]).places(0, 0, 1).broken().contains(&"P10"), "it is its own");
    let mut refused = line();
    let place = vec![one_task(2, 0, 1)];
    refused.asks_and_is_refused(0, &[0, 1]);
    assert!(refused.places(2, 0, 1).broken().is_empty(), "it was not granted");
    let same_entry = Transaction { place, nominate: rooms(0, &[0, 1]), ..nothing() };
    assert!(line().committed(same_entry, vec![placed(2, 0, 1, 1)]).broken().is_empty(), "it was placed before");
    let mut repair = line();
    repair.places(2, 0, 1).places(2, 1, 0).happened(vec![ended(2, 0, 1, Exit::NodeLost)]).heads(0, &[0, 1]);
    assert_eq!(repair.places(2, 0, 1).broken(), [""; 0], "a repair passes");
    let mut other_group = line();
    let two_groups = job("two-groups", 1, |job| {
        let side =
            GroupSpec { name: "side".into(), requests: [("memory".to_string(), 1)].into(), ..job.groups[0].clone() };
        job.groups.push(side);
    });
    other_group.job(9, two_groups).heads(0, &[0, 1]);
    let side = EventKind::Placed { job: JobId::new(9, 0), group: 1, first: 0, count: 1, node: NodeId(0) };
    assert!(!other_group.happened(vec![side]).broken().contains(&"P10"), "it asks for none of what is promised");
    let mut over = line();
    over.heads(0, &[0, 1]);
    let (name, reason) = ("gang".into(), "its time is over".into());
    over.happened(vec![EventKind::HeadOver { job: JobId::new(0, 0), name, reason }]);
    assert!(over.places(2, 0, 1).broken().is_empty(), "it is the head no more");
    let in_time = |seconds: u64| {
        let mut history = line();
        history.job(9, short(seconds)).heads(0, &[0, 1]).places(9, 0, 1);
        history
    };
    let now_ms = in_time(1).index * 1000;
    let left = (START_MS - now_ms - 5_000) / 1000;
    assert!(in_time(left).broken().is_empty(), "it has ended when the head is to start");
    assert_eq!(in_time(left + 1).broken(), ["P10"], "it may not have ended by then");
    let sooner = |seconds: u64| {
        let mut history = in_time(left);
        history.job(8, JobSpec { name: "later".into(), ..short(seconds) });
        let nominate = rooms_from(0, &[0, 1], START_MS - 30_000);
        history.committed(Transaction { nominate, ..nothing() }, Vec::new()).places(8, 0, 1);
        history
    };
    assert_eq!(sooner(left - 60).broken(), [""; 0], "planned anew beside what runs there, it leaves time for that");
    assert_eq!(sooner(left - 20).broken(), ["P10"], "it may not have ended by the new start");
    let mut urgent = line();
    urgent.job(9, job("urgent", 1, |job| job.priority = 1)).heads(0, &[0, 1]);
    assert!(urgent.places(9, 0, 1).broken().is_empty(), "it is more important");
}

#[test]
fn whoever_runs_in_a_heads_room_gets_no_more_time_than_that_without_the_head_ending() {
    let raised = |first: u64, then: u64, is_over: bool| {
        let mut history = line();
        history.job(9, short(first)).heads(0, &[0, 1]).places(9, 0, 1);
        let over = || EventKind::HeadOver { job: JobId::new(0, 0), name: "gang".into(), reason: String::new() };
        history.update(9, short(then), is_over.then(over).into_iter().collect());
        history
    };
    assert_eq!(raised(60, 120, false).broken(), [""; 0], "it has ended by then");
    assert_eq!(raised(60, 600, false).broken(), ["P10"]);
    assert_eq!(raised(60, 0, false).broken(), ["P10"], "it has no end any more");
    assert_eq!(raised(60, 600, true).broken(), [""; 0], "the head is planned anew");
    let placed_ms = raised(1, 2, false).index * 1000 - 1000;
    let last = (START_MS - placed_ms - 5_000) / 1000;
    assert_eq!(raised(last - 2, 900, false).broken(), ["P10"]);
    assert_eq!(raised(last - 1, 900, false).broken(), [""; 0], "it was counted on by nobody");
    assert_eq!(raised(600, 700, false).broken(), ["P10"], "it took the room");
}

#[test]
fn what_passes_a_head_excuses_nobody_beside_it() {
    let beside = |before: u32| {
        let mut history = line();
        history.job(9, job("urgent", before, |job| job.priority = 1)).job(8, job("late", 1, |_| {}));
        history.heads(0, &[0, 1]);
        let place = (0..before).map(|task| one_task(9, task, 1)).chain([one_task(8, 0, 1)]).collect();
        let facts = vec![placed(9, 0, before, 1), placed(8, 0, 1, 1)];
        history.committed(Transaction { place, ..nothing() }, facts).broken()
    };
    assert_eq!(beside(1), ["P10"], "of four processors it takes one beside the urgent one");
}

#[test]
fn who_is_passed_over_for_long_is_the_head_of_its_line() {
    assert_eq!(line().patience(4).passes(2, 40).broken(), ["P10"], "once");
    assert!(line().patience(4).passes(2, 26).broken().is_empty(), "not for long");
    assert!(line().patience(20).passes(2, 40).broken().is_empty(), "it is to be patient");
    assert!(line().patience(4).heads(0, &[0]).passes(2, 40).broken().is_empty(), "it is the head");
    assert!(line().patience(4).passes(1, 40).broken().is_empty(), "what starts was due before it");
    let mut lasting = line();
    lasting.job(8, job("service", 1, |job| job.class = Class::SERVICE)).happened(vec![placed(8, 0, 1, 1)]);
    assert!(lasting.patience(4).passes(2, 40).broken().is_empty(), "it finds no room in time");
    let mut other = line();
    other.job(8, job("other", 1, |job| job.class = Class::TAS));
    assert!(other.patience(4).passes(8, 40).broken().is_empty(), "another line");
}
