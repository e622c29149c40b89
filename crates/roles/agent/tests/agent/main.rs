//! One agent core and one driver, told by hand what servers would tell them.

mod probes;

use ohm_agent::{
    AgentConfig, AgentCore, AgentEffect, AgentInput, BeatAnswer, DriverConfig, DriverInput, Launch, LeaseFile,
    RunnerEvent, SimDriver, WantedRun, WantedSet,
};
use ohm_model::{
    Epoch, Exit, Incarnation, Index, JobId, NodeId, OnDisconnect, Refusal, RunRef, RunReport, RunReportKind, TaskSpec,
};
use ohm_stdx::Prng;
use std::sync::Arc;

const LEASE_MS: u64 = 10_000;

fn run(task: u32) -> RunRef {
    RunRef::new(JobId(1), 0, task, 1)
}

fn wanted(task: u32, duration_ms: u64) -> WantedRun {
    let launch = Launch {
        job_name: "job".into(),
        group_name: "workers".into(),
        count: 4,
        peers: Vec::new(),
        requests: Default::default(),
        limits: Default::default(),
        on_disconnect: OnDisconnect::Stop,
        deadline_ms: 0,
        task: TaskSpec { sim_duration_ms: duration_ms, grace_ms: 50, ..TaskSpec::default() },
    };
    WantedRun {
        run: run(task),
        started: false,
        stop: false,
        stop_delay_ms: 0,
        grace_ms_max: None,
        devices: Default::default(),
        peers: None,
        probes: None,
        ready: false,
        launch: Some(Arc::new(launch)),
    }
}

/// A node with its agent and its driver; whatever leaves the node is kept in `sent`.
struct Node {
    now_ms: u64,
    core: AgentCore,
    driver: SimDriver,
    sent: Vec<AgentEffect>,
    starts: Vec<RunRef>,
    stops: Vec<u64>,
}

impl Node {
    fn new() -> Self {
        let driver = SimDriver::new(DriverConfig { stop_ms: 20, ..DriverConfig::default() });
        let core = AgentCore::new(AgentConfig::default(), Prng::new(1));
        let mut node = Node { now_ms: 1000, core, driver, sent: Vec::new(), starts: Vec::new(), stops: Vec::new() };
        node.tell(AgentInput::Connected);
        node.drive(DriverInput::Attach);
        node
    }

    /// A node that is registered as incarnation 1 and has its first beat answered.
    fn ready() -> Self {
        let mut node = Node::new();
        node.register(1);
        node.answer_beat(1, 1);
        node
    }

    fn register(&mut self, incarnation: u32) {
        let instance = self.take_register().expect("it asks to be registered");
        self.tell(AgentInput::Registered { instance, node: NodeId(3), incarnation: Incarnation(incarnation) });
    }

    fn take_register(&mut self) -> Option<u64> {
        let found = self.sent.iter().rev().find_map(|effect| match effect {
            AgentEffect::Register { instance, .. } => Some(*instance),
            _ => None,
        });
        self.sent.clear();
        found
    }

    fn answer_beat(&mut self, incarnation: u32, epoch: u64) {
        let sequence = self.sent.iter().rev().find_map(|effect| match effect {
            AgentEffect::Beat { sequence, .. } => Some(*sequence),
            _ => None,
        });
        let answer = BeatAnswer {
            incarnation: Incarnation(incarnation),
            duty_epoch: Epoch(epoch),
            sequence: sequence.expect("a beat was sent"),
            lease_ms: LEASE_MS,
            interval_ms: 1000,
        };
        self.sent.clear();
        self.tell(AgentInput::BeatAnswer(answer));
    }

    fn want(&mut self, incarnation: u32, index: u64, runs: Vec<WantedRun>) {
        let (node_incarnation, index) = (Incarnation(incarnation), Index(index));
        self.tell(AgentInput::Wanted(WantedSet { cell_incarnation: 1, node_incarnation, index, runs }));
    }

    fn tell(&mut self, input: AgentInput) {
        let mut out = Vec::new();
        self.core.step(self.now_ms, input, &mut out);
        for effect in out {
            match effect {
                AgentEffect::StartRun { incarnation, wanted } => {
                    self.starts.push(wanted.run);
                    self.drive(DriverInput::Start { incarnation, wanted });
                }
                AgentEffect::StopRun { run, grace_ms } => {
                    self.stops.push(grace_ms);
                    self.drive(DriverInput::Stop { run, grace_ms });
                }
                AgentEffect::Probe(order) => self.drive(DriverInput::Probe(order)),
                AgentEffect::ForgetRun { run } => self.drive(DriverInput::Forget { run }),
                AgentEffect::WriteLease(file) => self.drive(DriverInput::Lease(file)),
                other => self.sent.push(other),
            }
        }
    }

    fn drive(&mut self, input: DriverInput) {
        let mut events = Vec::new();
        self.driver.step(self.now_ms, input, &mut events);
        events.into_iter().for_each(|event| self.tell(AgentInput::Runner(event)));
    }

    fn pass(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now_ms += 1;
            self.drive(DriverInput::Tick);
            self.tell(AgentInput::Tick);
        }
    }

    /// Kills the agent process and starts another one; the driver lives on.
    fn restart_agent(&mut self, seed: u64) {
        self.core = AgentCore::new(AgentConfig::default(), Prng::new(seed));
        self.sent.clear();
        self.tell(AgentInput::Connected);
        self.drive(DriverInput::Attach);
    }

    /// Accepts whatever batch was sent last, and says what it held.
    fn accept_reports(&mut self, index: u64) -> Vec<RunReport> {
        let found = self.sent.iter().rev().find_map(|effect| match effect {
            AgentEffect::SendReports { batch, reports, .. } => Some((*batch, reports.clone())),
            _ => None,
        });
        self.sent.clear();
        let Some((batch, reports)) = found else { return Vec::new() };
        self.tell(AgentInput::ReportsAccepted { batch, index: Index(index) });
        reports
    }

    fn live(&self) -> Vec<RunRef> {
        self.driver.live().collect()
    }
}

fn started(task: u32) -> RunReport {
    RunReport { run: run(task), kind: RunReportKind::Started { pid: 0 } }
}

fn ended(task: u32, exit: Exit) -> RunReport {
    RunReport { run: run(task), kind: RunReportKind::Ended { exit, message: String::new() } }
}

#[test]
fn a_wanted_run_is_started_reported_and_forgotten() {
    let mut node = Node::ready();
    node.want(1, 10, vec![wanted(0, 300), wanted(1, 0)]);
    assert_eq!(node.live(), [run(0), run(1)]);
    node.pass(10);
    assert_eq!(node.accept_reports(11), [started(0), started(1)]);
    node.pass(300);
    assert_eq!(node.accept_reports(12), [ended(0, Exit::Code(0))]);
    // A set from before the report was applied still has it; it is neither started nor reported again.
    node.want(1, 11, vec![wanted(0, 300), WantedRun { started: true, ..wanted(1, 0) }]);
    node.pass(10);
    assert_eq!((node.starts.len(), node.accept_reports(13)), (2, vec![]));
    // A set that should know better is told again.
    node.want(1, 12, vec![wanted(0, 300), WantedRun { started: true, ..wanted(1, 0) }]);
    node.pass(10);
    assert_eq!((node.starts.len(), node.accept_reports(13)), (2, vec![ended(0, Exit::Code(0))]));
    node.want(1, 13, vec![WantedRun { started: true, ..wanted(1, 0) }]);
    assert_eq!((node.core.run_count(), node.live()), (1, vec![run(1)]));
}

#[test]
fn nothing_is_started_before_the_first_answer_or_after_the_lease() {
    let mut node = Node::new();
    node.register(1);
    node.want(1, 10, vec![wanted(0, 0)]);
    assert_eq!(node.live(), []);
    node.answer_beat(1, 1);
    assert_eq!(node.live(), [run(0)]);
    node.pass(10);
    assert_eq!(node.accept_reports(10), [started(0)]);
    node.pass(LEASE_MS);
    assert_eq!(node.live(), [], "unanswered beats end the lease");
    node.want(1, 11, vec![wanted(0, 0), wanted(1, 0)]);
    assert_eq!(node.live(), []);
    node.answer_beat(1, 1);
    assert_eq!(node.live(), [run(1)], "what ended with the lease is not started again");
    node.tell(AgentInput::Connected);
    assert!(node.accept_reports(12).contains(&ended(0, Exit::LeaseExpired)));
}

#[test]
fn nothing_is_started_when_the_fence_is_about_to_act() {
    let mut node = Node::ready();
    node.pass(LEASE_MS - 2_000);
    node.want(1, 10, vec![wanted(0, 0)]);
    assert_eq!((node.live(), node.starts.len()), (vec![], 0), "two beats before the end of the lease");
    node.answer_beat(1, 1);
    assert_eq!(node.live(), [run(0)], "it waited for the next lease");
}

#[test]
fn a_driver_asks_before_the_lease_ends_and_starts_nothing_then() {
    let config = DriverConfig { stop_ms: 20, fence_lead_ms: 2_000, ..DriverConfig::default() };
    let mut driver = SimDriver::new(config);
    let mut step = |now_ms, input| {
        let mut events = Vec::new();
        driver.step(now_ms, input, &mut events);
        events
    };
    let start = |task, duration_ms| DriverInput::Start {
        incarnation: Incarnation(1),
        wanted: wanted(task, duration_ms).order().unwrap(),
    };
    let lease = |deadline_ms| DriverInput::Lease(LeaseFile { deadline_ms, since_ms: 0, incarnation: Incarnation(1) });
    step(1_000, lease(11_000));
    for (task, duration_ms) in [(0, 0), (1, 8_000), (2, 8_010)] {
        assert_eq!(step(1_000, start(task, duration_ms)), [RunnerEvent::Started { run: run(task), pid: 0 }]);
    }
    let refused = RunnerEvent::Exited { run: run(3), exit: Exit::NeverStarted };
    let own = RunnerEvent::Exited { run: run(1), exit: Exit::Code(0) };
    assert_eq!(step(9_000, start(3, 0)), [own, refused], "what ended before it was asked ended by itself");
    step(9_005, lease(21_000));
    let ended = |task| RunnerEvent::Exited { run: run(task), exit: Exit::LeaseExpired };
    assert_eq!(step(9_030, DriverInput::Tick), [ended(2), ended(0)], "no renewal saves who was asked");
    assert_eq!(step(9_031, start(4, 0)), [RunnerEvent::Started { run: run(4), pid: 0 }]);
}

#[test]
fn old_indices_and_sets_of_other_registrations_change_nothing() {
    let mut node = Node::ready();
    node.want(1, 10, vec![wanted(0, 0)]);
    node.want(1, 9, vec![]);
    node.want(0, 50, vec![]);
    assert_eq!(node.live(), [run(0)]);
    node.want(1, 11, vec![]);
    node.pass(20);
    assert_eq!(node.live(), [], "a newer set without it stops it");
    node.want(2, 12, vec![]);
    assert_eq!(node.sent.last(), Some(&AgentEffect::Superseded));
    node.sent.clear();
    node.pass(3000);
    assert_eq!(node.sent, [], "a superseded agent is silent");
}

#[test]
fn a_stop_wish_is_obeyed_and_its_end_reported() {
    let mut node = Node::ready();
    node.want(1, 10, vec![wanted(0, 0)]);
    node.pass(10);
    node.accept_reports(11);
    let stop = |task| WantedRun { stop: true, ..wanted(task, 0) };
    node.want(1, 12, vec![stop(0), stop(1)]);
    node.pass(50);
    assert_eq!(node.live(), []);
    let reports = node.accept_reports(13);
    assert_eq!(reports, [ended(1, Exit::NeverStarted)]);
    node.pass(50);
    assert_eq!(node.accept_reports(14), [ended(0, Exit::Signal(15))]);
    assert_eq!(node.starts, [run(0)]);
}

#[test]
fn a_shorter_grace_hurries_what_stops_already() {
    let mut node = Node::ready();
    node.want(1, 10, vec![wanted(0, 0)]);
    node.pass(10);
    node.accept_reports(11);
    let stop = |grace_ms_max| WantedRun { stop: true, grace_ms_max, ..wanted(0, 0) };
    node.want(1, 12, vec![stop(None)]);
    node.want(1, 13, vec![stop(Some(60))]);
    assert_eq!(node.stops, [50], "a longer one changes nothing");
    node.want(1, 14, vec![stop(Some(0))]);
    node.want(1, 15, vec![stop(Some(0))]);
    assert_eq!(node.stops, [50, 0]);
}

#[test]
fn what_is_to_stop_runs_on_for_its_delay() {
    let mut node = Node::ready();
    node.want(1, 10, vec![wanted(0, 0), wanted(1, 0)]);
    node.pass(10);
    node.accept_reports(11);
    let stop = |task, stop_delay_ms| WantedRun { started: true, stop: true, stop_delay_ms, ..wanted(task, 0) };
    node.want(1, 12, vec![stop(0, 500), stop(1, 500)]);
    node.pass(300);
    assert_eq!((node.live(), node.stops.len()), (vec![run(0), run(1)], 0));
    node.want(1, 13, vec![stop(0, 500), stop(1, 0)]);
    assert_eq!(node.stops, [50], "a shorter delay ends it at once");
    node.pass(190);
    assert_eq!(node.stops, [50], "a longer one changes nothing");
    node.pass(20);
    assert_eq!(node.stops, [50, 50]);
    node.pass(60);
    assert_eq!(node.live(), []);
}

#[test]
fn what_is_wanted_again_or_by_nobody_waits_for_no_delay() {
    let mut node = Node::ready();
    node.want(1, 10, vec![wanted(0, 0), wanted(1, 0)]);
    node.pass(10);
    node.accept_reports(11);
    let stop = |task| WantedRun { started: true, stop: true, stop_delay_ms: 500, ..wanted(task, 0) };
    node.want(1, 12, vec![stop(0), stop(1)]);
    node.want(1, 13, vec![WantedRun { started: true, ..wanted(0, 0) }]);
    assert_eq!(node.stops, [50], "no set wants it any more");
    node.pass(600);
    assert_eq!(node.live(), [run(0)]);
    node.want(1, 14, vec![stop(0)]);
    node.pass(400);
    assert_eq!(node.live(), [run(0)], "its delay began anew");
    node.pass(200);
    assert_eq!(node.live(), []);
}

#[test]
fn a_run_without_a_description_waits_for_it() {
    let mut node = Node::ready();
    let bare = |task| WantedRun { launch: None, ..wanted(task, 0) };
    node.want(1, 10, vec![wanted(0, 0), bare(1), bare(2)]);
    node.pass(20);
    assert_eq!((node.live(), node.accept_reports(11)), (vec![run(0)], vec![started(0)]));
    let shown = WantedRun { started: true, ..bare(0) };
    node.want(1, 12, vec![shown, wanted(1, 0), WantedRun { stop: true, ..bare(2) }]);
    node.pass(20);
    assert_eq!(node.live(), [run(0), run(1)]);
    let reports = node.accept_reports(13);
    assert!(reports.contains(&ended(2, Exit::NeverStarted)), "{reports:?}");
}

#[test]
fn a_restarted_agent_adopts_what_is_wanted_and_stops_the_rest() {
    let mut node = Node::ready();
    node.want(1, 10, vec![wanted(0, 0), wanted(1, 0), wanted(2, 100)]);
    node.pass(10);
    node.accept_reports(11);
    node.pass(200);
    node.restart_agent(2);
    assert_eq!(node.live(), [run(0), run(1)]);
    // A set for the old registration, however new, says nothing to the new process.
    node.want(1, 90, vec![]);
    node.register(2);
    assert_eq!(node.live(), [run(0), run(1)]);
    let shown = |task| WantedRun { started: true, ..wanted(task, 0) };
    node.want(2, 12, vec![shown(0), shown(2), shown(3)]);
    node.pass(100);
    assert_eq!(node.live(), [run(0)]);
    let reports = node.accept_reports(13);
    assert!(reports.contains(&ended(2, Exit::Code(0))), "an end that the old process may not have told");
    node.pass(100);
    let later = node.accept_reports(14);
    assert!(reports.iter().chain(&later).any(|report| *report == ended(3, Exit::Vanished)), "{reports:?} {later:?}");
    assert_eq!(node.starts.len(), 3, "nothing is started twice");
}

#[test]
fn the_fence_needs_no_agent() {
    let mut node = Node::ready();
    let mut keep = wanted(1, 0);
    Arc::make_mut(keep.launch.as_mut().unwrap()).on_disconnect = OnDisconnect::Keep;
    node.want(1, 10, vec![wanted(0, 0), keep]);
    let mut events = Vec::new();
    node.driver.step(node.now_ms + LEASE_MS, DriverInput::Tick, &mut events);
    assert_eq!(events, [RunnerEvent::Exited { run: run(0), exit: Exit::LeaseExpired }]);
    assert_eq!(node.live(), [run(1)]);
}

#[test]
fn a_driver_that_slept_over_a_deadline_still_ends_what_should_have_ended() {
    let mut node = Node::ready();
    node.want(1, 10, vec![wanted(0, 0)]);
    let mut events = Vec::new();
    let file = LeaseFile { deadline_ms: 40_000, since_ms: 30_000, incarnation: Incarnation(2) };
    node.driver.step(1500, DriverInput::Lease(file), &mut events);
    assert_eq!(events, [RunnerEvent::Exited { run: run(0), exit: Exit::LeaseExpired }]);
    events.clear();
    let late = DriverInput::Start { incarnation: Incarnation(1), wanted: wanted(5, 0).order().unwrap() };
    node.driver.step(30_001, late, &mut events);
    assert_eq!(
        events,
        [RunnerEvent::Exited { run: run(5), exit: Exit::NeverStarted }],
        "an order of an older registration"
    );
}

#[test]
fn a_lost_node_registers_anew_and_keeps_nothing_that_is_not_wanted() {
    let mut node = Node::ready();
    let mut keep = wanted(1, 0);
    Arc::make_mut(keep.launch.as_mut().unwrap()).on_disconnect = OnDisconnect::Keep;
    node.want(1, 10, vec![wanted(0, 0), keep]);
    node.tell(AgentInput::Disconnected);
    node.pass(LEASE_MS + 1000);
    node.tell(AgentInput::Connected);
    node.tell(AgentInput::RegistrationEnded { incarnation: Incarnation(1) });
    let alive = node.sent.iter().rev().find_map(|effect| match effect {
        AgentEffect::Register { alive, .. } => Some(alive.clone()),
        _ => None,
    });
    assert_eq!(alive, Some(vec![run(1)]), "the cell may want it to live on");
    node.register(2);
    assert_eq!(node.live(), [run(1)]);
    node.want(2, 30, vec![wanted(2, 0)]);
    node.pass(50);
    assert_eq!(node.live(), [], "no answered beat of the new registration, so no start");
    node.answer_beat(2, 1);
    assert_eq!(node.live(), [run(2)]);
}

#[test]
fn the_second_agent_of_a_name_is_told_and_tries_on() {
    let mut node = Node::new();
    let instance = node.take_register().unwrap();
    let refusal = Refusal::NameTaken { kind: "node".into(), name: "a".into(), hint: "choose another name".into() };
    node.tell(AgentInput::RegisterRefused { instance, refusal: refusal.clone() });
    assert_eq!(node.sent, [AgentEffect::RegisterRefused(refusal)]);
    node.pass(2001);
    assert_eq!(node.take_register(), Some(instance));
    node.tell(AgentInput::RegisterRefused { instance, refusal: Refusal::Superseded { incarnation: Incarnation(9) } });
    assert_eq!(node.sent, [AgentEffect::Superseded]);
}

#[test]
fn a_lost_order_is_given_again_and_a_lost_task_is_not() {
    let mut node = Node::ready();
    node.want(1, 10, vec![wanted(0, 0), wanted(1, 0)]);
    // The runner dies with its tasks and comes back; the order for a third run was lost with it.
    node.driver = SimDriver::new(DriverConfig::default());
    let file = LeaseFile { deadline_ms: 11_000, since_ms: 1000, incarnation: Incarnation(1) };
    node.driver.step(node.now_ms, DriverInput::Lease(file), &mut Vec::new());
    node.drive(DriverInput::Attach);
    node.pass(1200);
    assert_eq!(node.live(), []);
    let reports = node.accept_reports(12);
    assert!(reports.contains(&ended(0, Exit::Vanished)) && reports.contains(&ended(1, Exit::Vanished)), "{reports:?}");
    assert_eq!(node.starts.len(), 2);
}
