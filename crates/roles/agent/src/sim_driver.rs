//! The runner of the simulator and of `sim` nodes: tasks are timers, and the lease is obeyed as the shim obeys it.

use crate::beats::may_start;
use crate::probes::{ProbeOrder, ProbeResult};
use crate::runner::{FoundExit, FoundRun, LeaseFile, RunnerEvent};
use crate::wanted::StartOrder;
use ohm_model::{Exit, Incarnation, JobId, OnDisconnect, RunRef};
use std::collections::{BTreeMap, BTreeSet};

/// SIGTERM, which ends a stopped run.
const SIGNAL_TERMINATE: i32 = 15;

/// How simulated tasks behave.
#[derive(Clone, Copy, Debug, Default)]
pub struct DriverConfig {
    /// How long a task takes to obey the polite signal; the kill comes after its grace in any case.
    pub stop_ms: u64,
    /// So much longer takes a task for each rank, up to three: tasks of one node don't end together.
    pub stop_spread_ms: u64,
    /// How long before the end of the lease what runs under it gets the polite signal. A shim waits as much longer as
    /// the grace of a task allows.
    pub fence_lead_ms: u64,
}

impl DriverConfig {
    /// How long a run takes to obey the polite signal.
    fn obeys_ms(&self, run: RunRef) -> u64 {
        self.stop_ms.saturating_add(self.stop_spread_ms.saturating_mul(u64::from(run.task.task.0 % 4)))
    }
}

/// What a driver is told: an agent's orders, and that time passes.
#[derive(Clone, Debug)]
pub enum DriverInput {
    /// An agent (re)connects; answered with `Found`.
    Attach,
    /// Start a run.
    Start {
        /// The registration that the order was given under.
        incarnation: Incarnation,
        /// What and how.
        wanted: StartOrder,
    },
    /// Stop a run.
    Stop {
        /// The run.
        run: RunRef,
        /// Between the polite signal and the kill.
        grace_ms: u64,
    },
    /// The tasks of a job have done their work and end by themselves.
    Finish {
        /// The job.
        job: JobId,
    },
    /// Probe a run; answered with `Probed` at once.
    Probe(ProbeOrder),
    /// Forget the end of a run.
    Forget {
        /// The run.
        run: RunRef,
    },
    /// The lease file was replaced.
    Lease(LeaseFile),
    /// Time passes.
    Tick,
}

#[derive(Clone, Debug)]
struct LiveRun {
    on_disconnect: OnDisconnect,
    grace_ms: u64,
    started_ms: u64,
    end_ms: u64,
    exit: Exit,
    /// It got the polite signal because the lease is about to end; a renewal does not save it.
    is_fenced: bool,
}

fn found(run: RunRef, live: &LiveRun) -> FoundRun {
    FoundRun { run, pid: 0, started_ms: live.started_ms, grace_ms: live.grace_ms }
}

/// Simulated tasks of one node. It plays the shim: it outlives the agent core and runs on while that is paused.
#[derive(Clone, Debug, Default)]
pub struct SimDriver {
    config: DriverConfig,
    lease: Option<LeaseFile>,
    live: BTreeMap<RunRef, LiveRun>,
    exits: BTreeMap<RunRef, Exit>,
    /// When timers of live runs ring; a run whose end moved forward has an old timer left, which is ignored.
    timers: BTreeSet<(u64, RunRef)>,
    /// Live runs that end with the lease, and those of them that were not asked to end yet.
    leased: usize,
    unfenced: usize,
}

impl SimDriver {
    /// A driver without tasks.
    pub fn new(config: DriverConfig) -> Self {
        SimDriver { config, ..SimDriver::default() }
    }

    /// The runs that live, after a step at the present moment.
    pub fn live(&self) -> impl Iterator<Item = RunRef> + '_ {
        self.live.keys().copied()
    }

    /// Whether a run lives, after a step at the present moment.
    pub fn is_live(&self, run: RunRef) -> bool {
        self.live.contains_key(&run)
    }

    /// The lease as it was written last.
    pub fn lease(&self) -> Option<LeaseFile> {
        self.lease
    }

    /// The live runs that must end with the lease.
    pub fn leased(&self) -> impl Iterator<Item = RunRef> + '_ {
        self.live.iter().filter(|(_, live)| live.on_disconnect == OnDisconnect::Stop).map(|(&run, _)| run)
    }

    /// How long it takes until the lease ends what is started at `now_ms`; 0 when that would be asked to end at once.
    pub fn fence_in_ms(&self, now_ms: u64) -> u64 {
        self.lease.map_or(0, |lease| lease.deadline_ms.saturating_sub(now_ms.saturating_add(self.config.fence_lead_ms)))
    }

    /// The next moment at which something ends by itself, or is asked to.
    pub fn due_ms(&self) -> Option<u64> {
        let timer_ms = self.timers.first().map(|(at_ms, _)| *at_ms);
        let lead_ms = if self.unfenced > 0 { self.config.fence_lead_ms } else { 0 };
        let fence_ms = self.lease.filter(|_| self.leased > 0).map(|lease| lease.deadline_ms.saturating_sub(lead_ms));
        timer_ms.into_iter().chain(fence_ms).min()
    }

    /// Takes one input at `now_ms` of the node's boot-time clock.
    pub fn step(&mut self, now_ms: u64, input: DriverInput, out: &mut Vec<RunnerEvent>) {
        // What ended before this input ended before it, however late this step is.
        self.ring(now_ms, out);
        if self.lease.is_some_and(|lease| lease.deadline_ms <= now_ms) {
            self.fence(now_ms, u64::MAX, out);
        } else if self.fence_in_ms(now_ms) == 0 {
            self.ask_to_end(now_ms);
            self.ring(now_ms, out);
        }
        match input {
            DriverInput::Attach => self.attach(out),
            DriverInput::Start { incarnation, wanted } => self.start(now_ms, incarnation, &wanted, out),
            DriverInput::Stop { run, grace_ms } => self.stop(now_ms, run, grace_ms, out),
            DriverInput::Finish { job } => self.finish(now_ms, job, out),
            DriverInput::Probe(order) => self.probe(now_ms, &order, out),
            DriverInput::Forget { run } => drop(self.exits.remove(&run)),
            DriverInput::Lease(file) => {
                if self.lease.is_none_or(|lease| lease.deadline_ms < file.deadline_ms) {
                    self.lease = Some(file);
                    self.fence(now_ms, file.since_ms, out);
                }
            }
            DriverInput::Tick => {}
        }
    }

    fn attach(&self, out: &mut Vec<RunnerEvent>) {
        let live = self.live.iter().map(|(&run, live)| found(run, live));
        let exits = self.exits.iter().map(|(&run, &exit)| FoundExit { run, exit, message: String::new() });
        out.push(RunnerEvent::Found { lease: self.lease, live: live.collect(), exits: exits.collect() });
    }

    fn start(&mut self, now_ms: u64, incarnation: Incarnation, wanted: &StartOrder, out: &mut Vec<RunnerEvent>) {
        let run = wanted.run;
        if let Some(&exit) = self.exits.get(&run) {
            return out.push(RunnerEvent::Exited { run, exit });
        }
        if self.live.contains_key(&run) {
            return out.push(RunnerEvent::Started { run, pid: 0 });
        }
        // Late orders are not obeyed: the cell may have placed the task elsewhere by now.
        let lead_ms = self.config.fence_lead_ms;
        let may_start =
            |lease: LeaseFile| may_start(now_ms, lease.deadline_ms, lead_ms) && lease.incarnation <= incarnation;
        if !self.lease.is_some_and(may_start) {
            self.exits.insert(run, Exit::NeverStarted);
            return out.push(RunnerEvent::Exited { run, exit: Exit::NeverStarted });
        }
        let task = &wanted.launch.task;
        let end_ms = match task.sim_duration_ms {
            0 => u64::MAX,
            duration_ms => now_ms.saturating_add(duration_ms),
        };
        let (on_disconnect, grace_ms) = (wanted.launch.on_disconnect, task.grace_ms);
        let exit = Exit::Code(task.sim_exit_code);
        let live = LiveRun { on_disconnect, grace_ms, started_ms: now_ms, end_ms, exit, is_fenced: false };
        self.live.insert(run, live);
        self.leased += usize::from(on_disconnect == OnDisconnect::Stop);
        self.unfenced += usize::from(on_disconnect == OnDisconnect::Stop);
        if end_ms != u64::MAX {
            self.timers.insert((end_ms, run));
        }
        out.push(RunnerEvent::Started { run, pid: 0 });
    }

    fn stop(&mut self, now_ms: u64, run: RunRef, grace_ms: u64, out: &mut Vec<RunnerEvent>) {
        match (self.live.get_mut(&run), self.exits.get(&run)) {
            (Some(live), _) => {
                let end_ms = now_ms.saturating_add(self.config.obeys_ms(run).min(grace_ms));
                if end_ms < live.end_ms {
                    (live.end_ms, live.exit) = (end_ms, Exit::Signal(SIGNAL_TERMINATE));
                    self.timers.insert((end_ms, run));
                }
                self.ring(now_ms, out);
            }
            (None, Some(&exit)) => out.push(RunnerEvent::Exited { run, exit }),
            (None, None) => {
                self.exits.insert(run, Exit::NeverStarted);
                out.push(RunnerEvent::Exited { run, exit: Exit::NeverStarted });
            }
        }
    }

    /// A live run answers by its age, whether it is asked to end or not; of any other nothing is said.
    fn probe(&self, now_ms: u64, order: &ProbeOrder, out: &mut Vec<RunnerEvent>) {
        let ProbeOrder { run, kind, number, .. } = *order;
        let Some(live) = self.live.get(&run) else { return };
        let age_ms = now_ms.saturating_sub(live.started_ms);
        let result = match order.probes.sim.answers(kind, age_ms) {
            true => ProbeResult::Success,
            false => ProbeResult::Failure(format!("simulated, {age_ms} ms after its start")),
        };
        out.push(RunnerEvent::Probed { run, kind, number, result });
    }

    fn finish(&mut self, now_ms: u64, job: JobId, out: &mut Vec<RunnerEvent>) {
        for (run, live) in self.live.iter_mut().filter(|(run, _)| run.task.job == job) {
            live.end_ms = live.end_ms.min(now_ms);
            self.timers.insert((live.end_ms, *run));
        }
        self.ring(now_ms, out);
    }

    fn ring(&mut self, now_ms: u64, out: &mut Vec<RunnerEvent>) {
        while let Some(&(at_ms, run)) = self.timers.first() {
            if at_ms > now_ms {
                return;
            }
            self.timers.pop_first();
            if let Some(exit) = self.live.get(&run).filter(|live| live.end_ms <= now_ms).map(|live| live.exit) {
                self.end(run, exit, out);
            }
        }
    }

    /// Asks the leased runs to end, since the lease is about to.
    fn ask_to_end(&mut self, now_ms: u64) {
        if self.unfenced == 0 {
            return;
        }
        let is_due = |live: &&mut LiveRun| live.on_disconnect == OnDisconnect::Stop && !live.is_fenced;
        for (run, live) in self.live.iter_mut().map(|(run, live)| (*run, live)).filter(|(_, live)| is_due(live)) {
            let asked_ms = now_ms.saturating_add(self.config.obeys_ms(run).min(live.grace_ms));
            (live.is_fenced, live.exit) = (true, Exit::LeaseExpired);
            live.end_ms = live.end_ms.min(asked_ms);
            self.timers.insert((live.end_ms, run));
        }
        self.unfenced = 0;
    }

    /// Ends the leased runs that were started before `since_ms`; all of them once the lease has ended.
    fn fence(&mut self, now_ms: u64, since_ms: u64, out: &mut Vec<RunnerEvent>) {
        let ended = self.lease.is_none_or(|lease| lease.deadline_ms <= now_ms);
        if self.leased == 0 {
            return;
        }
        let is_fenced =
            |live: &LiveRun| live.on_disconnect == OnDisconnect::Stop && (ended || live.started_ms < since_ms);
        let fenced: Vec<RunRef> = self.live.iter().filter(|(_, live)| is_fenced(live)).map(|(&run, _)| run).collect();
        for run in fenced {
            self.end(run, Exit::LeaseExpired, out);
        }
    }

    fn end(&mut self, run: RunRef, exit: Exit, out: &mut Vec<RunnerEvent>) {
        if let Some(live) = self.live.remove(&run) {
            self.leased -= usize::from(live.on_disconnect == OnDisconnect::Stop);
            self.unfenced -= usize::from(live.on_disconnect == OnDisconnect::Stop && !live.is_fenced);
            self.exits.insert(run, exit);
            out.push(RunnerEvent::Exited { run, exit });
        }
    }
}
