//! Messages between the roles: decoded as protobuf, and their payloads as what they are said to be.
//!
//! The first byte says which message it is. Besides that nothing panics: what was decoded is the same message again
//! after it was encoded, and so are its payloads.

use bytes::Bytes;
use ohm_agent::{Launch, WantedRun, WantedSet};
use ohm_cell::restore;
use ohm_model::{
    Command, Entry, Envelope, Incarnation, Index, JobId, NodeCondition, NodeSpec, OnDisconnect, Outcome, Refusal,
    RunRef, RunReport, RunReportKind, TaskSpec,
};
use ohm_wire::{
    AgentDown, AgentUp, AppendReply, AppendRequest, Beat, BeatAnswer, BeatAnswers, Beats, Committed, Conditions,
    DutyAttach, DutyDown, DutyUp, Entries, FollowReply, FollowRequest, FollowStart, IdentifyReply, JoinReply,
    JoinRequest, LogEntry, LogPiece, ReadLog, RegisterNode, Registered, Reports, ServerAddress, ServerHello,
    ServerWord, SnapshotPiece, WantedRuns, agent_down, agent_up, append_reply, duty_up, follow_reply, follow_request,
    read, server_word, window_bytes, write,
};
use prost::Message;
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;
use std::sync::Arc;

/// How each message is taken, by the first byte.
const MESSAGES: [fn(&[u8]); 13] = [
    |bytes| take(bytes, |message: AppendRequest| message.command_bytes.iter().for_each(payload::<Envelope>)),
    |bytes| take(bytes, append_reply),
    |bytes| take(bytes, |_: FollowRequest| {}),
    |bytes| take(bytes, follow_reply),
    |bytes| take(bytes, agent_up),
    |bytes| take(bytes, agent_down),
    |bytes| take(bytes, |_: DutyUp| {}),
    |bytes| take(bytes, |_: DutyDown| {}),
    |bytes| take(bytes, |_: ServerWord| {}),
    |bytes| take(bytes, |_: ReadLog| {}),
    |bytes| take(bytes, |_: JoinRequest| {}),
    |bytes| take(bytes, |_: JoinReply| {}),
    |bytes| take(bytes, |_: IdentifyReply| {}),
];

pub(crate) fn run(input: &[u8]) {
    if let Some((&kind, bytes)) = input.split_first() {
        MESSAGES[usize::from(kind) % MESSAGES.len()](bytes);
    }
}

fn take<M: Message + Default + PartialEq + Debug>(bytes: &[u8], then: impl FnOnce(M)) {
    let Ok(message) = M::decode(bytes) else { return };
    assert_eq!(M::decode(&message.encode_to_vec()[..]).as_ref(), Ok(&message), "it does not read back");
    then(message);
}

fn payload<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &Bytes) {
    if let Ok(value) = read::<T>("a payload", bytes) {
        assert_eq!(read::<T>("a payload", &write(&value)).as_ref(), Ok(&value), "it does not read back");
    }
}

fn append_reply(reply: AppendReply) {
    if let Some(append_reply::Result::Committed(committed)) = reply.result {
        committed.outcome_bytes.iter().for_each(payload::<Outcome>);
    }
}

fn follow_reply(reply: FollowReply) {
    assert!(window_bytes(&reply) < 1 << 40);
    match reply.kind {
        Some(follow_reply::Kind::Snapshot(piece)) => drop(restore(&piece.piece)),
        Some(follow_reply::Kind::Entries(entries)) => {
            entries.entries.iter().for_each(|entry| drop(Entry::decode(&entry.entry_bytes)));
        }
        None => {}
    }
}

fn agent_up(message: AgentUp) {
    match message.kind {
        Some(agent_up::Kind::Register(register)) => {
            payload::<NodeSpec>(&register.spec_bytes);
            payload::<Vec<RunRef>>(&register.alive_bytes);
        }
        Some(agent_up::Kind::Reports(reports)) => payload::<Vec<RunReport>>(&reports.reports_bytes),
        Some(agent_up::Kind::Conditions(told)) => payload::<Vec<NodeCondition>>(&told.conditions_bytes),
        _ => {}
    }
}

fn agent_down(message: AgentDown) {
    match message.kind {
        Some(agent_down::Kind::Registered(registered)) => payload::<Refusal>(&registered.refusal_bytes),
        Some(agent_down::Kind::Wanted(wanted)) => payload::<WantedSet>(&wanted.set_bytes),
        _ => {}
    }
}

/// One of each message, all fields set.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let seed = |kind: u8, bytes: Vec<u8>| [&[kind], &bytes[..]].concat();
    let name = || "n0".to_string();
    let command = Envelope::without_session(Command::Tick);
    let entry = Entry { stamp_ms: 5, commands: vec![command.clone()] };
    let committed = Committed { index: 9, outcome_bytes: vec![write(&Outcome::Done)] };
    let committed = Some(append_reply::Result::Committed(committed));
    let start = FollowStart { from: 3, apply_version: 1, name: name(), cell_incarnation: 1 };
    let piece = ohm_cell::Cell::new().snapshot_bytes().into();
    let piece = SnapshotPiece { index: 0, piece, last: true, cell_incarnation: 1 };
    let entries = Entries { entries: vec![LogEntry { index: 1, entry_bytes: entry.encode().into() }] };
    let duty_up = |kind| DutyUp { kind: Some(kind) }.encode_to_vec();
    let (node, incarnation, sequence, lease_ms) = (1, 2, 3, 30_000);
    let beats = Beats { beats: vec![Beat { node, incarnation, sequence }] };
    let answer = BeatAnswer { node, incarnation, sequence, duty_epoch: 1, interval_ms: 1_000, lease_ms };
    let hello = ServerHello { cell: 7, server: 1, address: "http://127.0.0.1:6460".into() };
    let words = [server_word::Kind::Hello(hello), server_word::Kind::Parcel(Bytes::from_static(&[2, 1, 0]))];
    let read = ReadLog { request: 1, job: 1 << 32, follow: true, credit: 8, tail_lines: Some(3), ..ReadLog::default() };
    let addresses = vec![ServerAddress { server: 1, address: "http://127.0.0.1:6460".into() }];
    let join = JoinReply { cell: 7, server: 4, founders: vec![1, 2, 3], addresses, cell_incarnation: 1 };
    let mut seeds = vec![
        seed(0, AppendRequest { ticket: 1, command_bytes: vec![command.encode().into()] }.encode_to_vec()),
        seed(1, AppendReply { ticket: 1, result: committed }.encode_to_vec()),
        seed(2, FollowRequest { kind: Some(follow_request::Kind::Start(start)) }.encode_to_vec()),
        seed(3, FollowReply { kind: Some(follow_reply::Kind::Snapshot(piece)) }.encode_to_vec()),
        seed(3, FollowReply { kind: Some(follow_reply::Kind::Entries(entries)) }.encode_to_vec()),
        seed(6, duty_up(duty_up::Kind::Attach(DutyAttach { session: 1, nonce: 2 }))),
        seed(6, duty_up(duty_up::Kind::Answers(BeatAnswers { answers: vec![answer] }))),
        seed(7, DutyDown { beats: Some(beats.clone()) }.encode_to_vec()),
        seed(9, read.encode_to_vec()),
        seed(10, JoinRequest { address: name(), key: 5, former_cell: 1, former_server: 2 }.encode_to_vec()),
        seed(11, join.encode_to_vec()),
        seed(12, IdentifyReply { cell: 7, server: 1, instance: 9 }.encode_to_vec()),
    ];
    seeds.extend(words.map(|kind| seed(8, ServerWord { kind: Some(kind) }.encode_to_vec())));
    seeds.extend(agents_up(beats).into_iter().map(|kind| seed(4, AgentUp { kind: Some(kind) }.encode_to_vec())));
    seeds.extend(
        agents_down(answer, read).into_iter().map(|kind| seed(5, AgentDown { kind: Some(kind) }.encode_to_vec())),
    );
    seeds
}

fn agents_up(beats: Beats) -> Vec<agent_up::Kind> {
    let run = RunRef::new(JobId::new(0, 1), 0, 0, 1);
    let capacity = [("cpu".to_string(), 8000), ("pods".into(), 10)].into();
    let (labels, taints, address) = (Default::default(), Vec::new(), "127.1.0.1".into());
    let spec = NodeSpec { name: "n0".into(), labels, taints, capacity, address };
    let (key, instance, boot) = (7, 1, 1);
    let reports = vec![RunReport { run, kind: RunReportKind::Started { pid: 4711 } }];
    vec![
        agent_up::Kind::Register(RegisterNode {
            local: 0,
            spec_bytes: write(&spec),
            key,
            instance,
            boot,
            alive_bytes: write(&vec![run]),
        }),
        agent_up::Kind::Beats(beats),
        agent_up::Kind::Reports(Reports { node: 0, batch: 1, reports_bytes: write(&reports) }),
        agent_up::Kind::Conditions(Conditions {
            node: 0,
            incarnation: 1,
            number: 2,
            conditions_bytes: write(&Vec::<NodeCondition>::new()),
        }),
        agent_up::Kind::Log(LogPiece { request: 1, data: Bytes::from_static(b"x"), last: true, error: String::new() }),
    ]
}

fn agents_down(answer: BeatAnswer, read: ReadLog) -> Vec<agent_down::Kind> {
    let run = RunRef::new(JobId::new(0, 1), 0, 0, 1);
    let task = TaskSpec { command: vec!["work".into()], ..TaskSpec::default() };
    let launch = Launch {
        job_name: "a".into(),
        group_name: "main".into(),
        count: 1,
        peers: vec!["127.1.0.1".into()],
        requests: Default::default(),
        limits: Default::default(),
        on_disconnect: OnDisconnect::Stop,
        deadline_ms: 0,
        task,
    };
    let (launch, devices) = (Some(Arc::new(launch)), Default::default());
    let run = WantedRun {
        run,
        started: false,
        stop: false,
        stop_delay_ms: 0,
        grace_ms_max: None,
        devices,
        peers: None,
        probes: None,
        ready: false,
        launch,
    };
    let set = WantedSet { cell_incarnation: 1, node_incarnation: Incarnation(1), index: Index(5), runs: vec![run] };
    vec![
        agent_down::Kind::Registered(Registered {
            local: 0,
            instance: 1,
            node: 0,
            incarnation: 1,
            refusal_bytes: write(&Refusal::Acknowledged),
        }),
        agent_down::Kind::Wanted(WantedRuns { node: 0, set_bytes: write(&set) }),
        agent_down::Kind::Answers(BeatAnswers { answers: vec![answer] }),
        agent_down::Kind::ReadLog(read),
        agent_down::Kind::StopLog(1),
    ]
}
