use super::*;
use ohm_agent::{BeatAnswer, Launch, WantedRun, WantedSet};
use ohm_model::{Epoch, Exit, Incarnation, Index, JobId, OnDisconnect, RunRef, RunReport, RunReportKind, TaskSpec};
use ohm_runtime::recorder::{self, Happened};
use ohm_wire::{agent_up, read};
use std::sync::Arc;

fn spec(number: usize) -> NodeSpec {
    let (labels, taints, capacity) = Default::default();
    NodeSpec { name: format!("node-{number}"), labels, taints, capacity, address: String::new() }
}

fn fleet(nodes: usize) -> Fleet {
    let specs = (0..nodes).map(spec).collect();
    let mut fleet = Fleet::new(
        specs,
        NodeIdentity { key: 1, boot: 1 },
        &AgentConfig::default(),
        DriverConfig::default(),
        Prng::new(1),
        Recorder::default(),
    );
    fleet.attach(0);
    fleet
}

/// Answers like a server: every registration at once, every beat at once.
fn answer(fleet: &mut Fleet, now_ms: u64, reports: &mut Vec<RunReport>) -> usize {
    let mut registered = 0;
    for message in fleet.take_messages() {
        match message.kind {
            Some(agent_up::Kind::Register(register)) => {
                let (node, incarnation) = (NodeId(1000 + register.local as u32), Incarnation(1));
                let input = AgentInput::Registered { instance: register.instance, node, incarnation };
                fleet.take(now_ms, Order::Local { local: register.local, node, input });
                registered += 1;
            }
            Some(agent_up::Kind::Beats(beats)) => {
                let answer = |beat: Beat| {
                    let (incarnation, duty_epoch) = (Incarnation(beat.incarnation), Epoch(1));
                    let (sequence, lease_ms, interval_ms) = (beat.sequence, 10_000, 1_000);
                    let answer = BeatAnswer { incarnation, duty_epoch, sequence, lease_ms, interval_ms };
                    (NodeId(beat.node), answer)
                };
                fleet.take(now_ms, Order::Answers(beats.beats.into_iter().map(answer).collect()));
            }
            Some(agent_up::Kind::Reports(batch)) => {
                reports.extend(read::<Vec<RunReport>>("reports", &batch.reports_bytes).unwrap());
                let input = AgentInput::ReportsAccepted { batch: batch.batch, index: Index(9) };
                fleet.take(now_ms, Order::Node { node: NodeId(batch.node), input });
            }
            Some(agent_up::Kind::Log(_) | agent_up::Kind::Conditions(_)) | None => {}
        }
    }
    registered
}

fn wanted(run: RunRef) -> WantedSet {
    let task = TaskSpec { sim_duration_ms: 500, ..TaskSpec::default() };
    let launch = Launch {
        job_name: "job".into(),
        group_name: "main".into(),
        count: 1,
        peers: Vec::new(),
        requests: BTreeMap::new(),
        limits: BTreeMap::new(),
        on_disconnect: OnDisconnect::Stop,
        deadline_ms: 0,
        task,
    };
    let run = WantedRun {
        run,
        started: false,
        stop: false,
        stop_delay_ms: 0,
        grace_ms_max: None,
        devices: BTreeMap::new(),
        peers: None,
        probes: None,
        ready: false,
        launch: Some(Arc::new(launch)),
    };
    WantedSet { cell_incarnation: 1, node_incarnation: Incarnation(1), index: Index(5), runs: vec![run] }
}

#[test]
fn a_task_runs_on_one_of_many_nodes_and_its_end_is_reported() {
    let nodes = CONNECTS_PER_TURN * 2 + 1;
    let folder = tempfile::tempdir().unwrap();
    let (mut fleet, mut reports, mut registered) = (fleet(nodes), Vec::new(), 0);
    fleet.recorder = Recorder::open(folder.path(), "fleet", "fleet").unwrap();
    fleet.connected(0);
    let run = RunRef::new(JobId(1), 0, 0, 1);
    let mut now_ms = 0;
    while now_ms < 2_000 {
        now_ms = fleet.due_ms().unwrap().max(now_ms + 1);
        fleet.turn(now_ms);
        let count = answer(&mut fleet, now_ms, &mut reports);
        assert!(count <= CONNECTS_PER_TURN, "registrations come in bunches");
        registered += count;
        if registered == nodes && reports.is_empty() {
            fleet.take(now_ms, Order::Node { node: NodeId(1003), input: AgentInput::Wanted(wanted(run)) });
        }
    }
    assert_eq!(registered, nodes);
    let kinds: Vec<&RunReportKind> = reports.iter().map(|report| &report.kind).collect();
    let ended = RunReportKind::Ended { exit: Exit::Code(0), message: String::new() };
    assert_eq!(kinds, [&RunReportKind::Started { pid: 0 }, &ended]);
    assert!(fleet.agenda.len() <= nodes, "one place per node");
    let path = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let lines = recorder::read(&path).unwrap();
    let node = || "node-3".to_string();
    assert_eq!(lines[1].what, Happened::Began { node: node(), run, keeps: false, fence_in_ms: 9_950 });
    assert_eq!(lines[2].what, Happened::Over { node: node(), run });
    assert_eq!((lines.len(), lines[2].at_ms - lines[1].at_ms), (3, 500));
}

#[test]
fn a_turn_costs_what_is_due_and_an_outage_quiets_the_agenda() {
    let (mut fleet, mut reports) = (fleet(10), Vec::new());
    assert_eq!(fleet.due_ms(), None, "nothing to do without a server");
    fleet.connected(0);
    for now_ms in 0..50 {
        fleet.turn(now_ms);
        answer(&mut fleet, now_ms, &mut reports);
    }
    let due_ms = fleet.due_ms().unwrap();
    fleet.turn(due_ms - 1);
    assert!(fleet.take_messages().is_empty(), "before its time nothing is done");
    fleet.disconnected(due_ms);
    assert_eq!(fleet.due_ms(), None);
    fleet.take(due_ms, Order::Node { node: NodeId(77), input: AgentInput::Tick });
    fleet.take(due_ms, Order::Local { local: u64::MAX, node: NodeId(0), input: AgentInput::Tick });
    assert!(fleet.take_messages().is_empty(), "what is not ours is passed over");
}

#[test]
fn keys_follow_from_the_names() {
    let (first, second) = (fleet(2), fleet(3));
    let keys = |fleet: &Fleet| fleet.nodes.iter().map(|node| node.key).collect::<Vec<_>>();
    assert_eq!(keys(&first), keys(&second)[..2]);
    assert_ne!(keys(&first)[0], keys(&first)[1]);
}

#[test]
fn a_node_that_is_down_is_silent_and_its_tasks_are_over_until_it_boots_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (mut fleet, mut reports) = (fleet(3), Vec::new());
    fleet.recorder = Recorder::open(folder.path(), "fleet", "fleet").unwrap();
    fleet.connected(0);
    let turn = |fleet: &mut Fleet, reports: &mut Vec<RunReport>, now_ms| {
        fleet.turn(now_ms);
        answer(fleet, now_ms, reports)
    };
    let registered: usize = (0..100).map(|now_ms| turn(&mut fleet, &mut reports, now_ms)).sum();
    assert_eq!(registered, 3);
    let (node, run, former) = (NodeId(1001), RunRef::new(JobId(1), 0, 0, 1), fleet.nodes[1].boot);
    fleet.take(100, Order::Node { node, input: AgentInput::Wanted(wanted(run)) });
    fleet.keep_down(200, &["node-1".to_string(), "node-7".to_string()].into());
    fleet.take(210, Order::Node { node, input: AgentInput::Wanted(wanted(RunRef::new(JobId(1), 0, 1, 1))) });
    fleet.take_messages();
    let late = (201..3_000).map(|now_ms| turn(&mut fleet, &mut reports, now_ms)).sum::<usize>();
    assert_eq!((late, reports.len()), (0, 0), "nothing is heard of it");
    assert!(fleet.agenda.iter().all(|(_, local)| *local != 1));
    fleet.keep_down(3_000, &BTreeSet::new());
    let again: usize = (3_000..3_100).map(|now_ms| turn(&mut fleet, &mut reports, now_ms)).sum();
    assert_eq!((again, fleet.nodes[1].boot), (1, former + 1), "it registers after another boot");
    let path = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let over = recorder::read(&path).unwrap().pop().unwrap();
    assert_eq!((over.at_ms, over.what), (200, Happened::Over { node: "node-1".into(), run }));
}
