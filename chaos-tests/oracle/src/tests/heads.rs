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
    let room = |node: &u32| Nomination {
        job: JobId::new(job, 0),
        group: GroupIndex(0),
        node: NodeId(*node),
        first: TaskIndex(0),
        count: 1,
        purpose: Purpose::Head { start_ms: START_MS, is_guess: false, until_ms: 3_600_000 },
    };
    nodes.iter().map(room).collect()
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
        let short = |job: &mut JobSpec| {
            job.active_deadline_seconds = seconds;
            job.groups[0].task.grace_ms = 5_000;
        };
        history.job(9, job("short", 1, short)).heads(0, &[0, 1]).places(9, 0, 1);
        history
    };
    let now_ms = in_time(1).index * 1000;
    let left = (START_MS - now_ms - 5_000) / 1000;
    assert!(in_time(left).broken().is_empty(), "it has ended when the head is to start");
    assert_eq!(in_time(left + 1).broken(), ["P10"], "it may not have ended by then");
    let mut urgent = line();
    urgent.job(9, job("urgent", 1, |job| job.priority = 1)).heads(0, &[0, 1]);
    assert!(urgent.places(9, 0, 1).broken().is_empty(), "it is more important");
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
