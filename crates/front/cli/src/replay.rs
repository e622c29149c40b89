//! `ohm replay`: a trace of a real cluster against a running cell, judged by an independent scan.
//!
//! ```text
//! CSV ──trace──▶ nodes ──documents──▶ `ohm agent --sim` ──▶ ┐
//!                pods  ──documents──▶ course ──submit─────▶ │ the cell, through its public API
//! report ◀──outcome: settle, scan, explain──────────────────┘
//! ```
//! Invariants: whatever happens, ctrl-C included, the jobs are cancelled and forgotten, the nodes removed and the agent
//! stopped before the command ends, or it says what stayed behind; nodes and jobs that are not the replay's own are not
//! touched.

mod agent;
mod bar;
mod cell;
mod course;
mod documents;
mod figures;
mod outcome;
mod report;
mod scan;
mod speed;
mod trace;

use crate::commands::Session;
use crate::failure::{EXIT_DONE, Failure};
use crate::globals::Globals;
use crate::output::note;
use agent::SimAgent;
use bar::Bar;
use cell::CellClient;
use documents::RunName;
use figures::Conflicts;
use ohm_runtime::shutdown::Shutdown;
use ohm_wire::api::StatusView;
use report::{Report, Stages};
use speed::Speed;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process;
use std::time::{Duration, Instant};
use trace::Trace;

/// How often the nodes are looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How long no further node may become ready, and no further run end, before that counts as failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TraceFormat {
    /// The node list and pod list of Alibaba's GPU cluster trace of 2023.
    #[value(name = "alibaba-gpu-2023")]
    AlibabaGpu2023,
}

/// `ohm replay`.
#[derive(Clone, Debug, clap::Args)]
pub struct Replay {
    /// How the trace is written
    #[arg(long, value_enum)]
    pub format: TraceFormat,
    /// List of nodes
    #[arg(long, value_name = "NODES.csv")]
    pub nodes: PathBuf,
    /// List of pods
    #[arg(long, value_name = "PODS.csv")]
    pub pods: PathBuf,
    /// Only so many of the first pods
    #[arg(long, value_name = "COUNT")]
    pub limit: Option<usize>,
    /// `max`: pods arrive in the order of the file and never end; a number: at their times, divided by it
    #[arg(long, default_value = "max", value_name = "max|FACTOR")]
    pub speed: Speed,
}

/// Replays a trace; returns the exit code.
///
/// # Errors
/// A trace that cannot be read, a cell that cannot be asked, an interruption, and a pod that waits although it fits.
pub(crate) fn replay(session: &Session, globals: &Globals, args: &Replay) -> Result<u8, Failure> {
    let trace = Trace::read(&args.nodes, &args.pods, args.limit).map_err(|error| Failure::Usage(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::io("the runtime", error))?;
    let _entered = runtime.enter();
    let shutdown = Shutdown::on_signals().map_err(|error| Failure::io("signals", error))?;
    end_at_second_signal(&shutdown);
    let cell = CellClient::new(&session.client, shutdown);
    let stage = Stage { cell, run: RunName::random(), trace, registered: Cell::new(0), args };
    let before = Before { status: stage.cell.first_status()?, conflicts: stage.cell.conflicts()? };
    let mut agent = SimAgent::start(&stage.run, &documents::node_file(&stage.run, &stage.trace.nodes), globals)?;
    let played = stage.play(&before, &mut agent);
    let played = played.and_then(|report| {
        session.output.print(&report, |_| report::text(&report))?;
        if report.stuck.is_empty() { Ok(EXIT_DONE) } else { Err(Failure::Told) }
    });
    // Nothing interrupts the cleaning up but a second signal.
    let cell = CellClient::new(&session.client, Shutdown::default());
    let cleaned = clean_up(&cell, &stage, agent);
    match (played, cleaned) {
        (Ok(code), Ok(())) => Ok(code),
        (Err(failure), Ok(())) => Err(failure),
        (Ok(_), Err(failure)) => Err(failure),
        (Err(played), Err(cleaned)) => {
            note(&format!("{cleaned}"));
            Err(played)
        }
    }
}

/// Who presses ctrl-C twice does not want to wait for the cleaning up.
fn end_at_second_signal(shutdown: &Shutdown) {
    let shutdown = shutdown.clone();
    tokio::spawn(async move {
        shutdown.started().await;
        note("cancelling the replay's jobs and removing its nodes; ctrl-C again leaves them behind");
        if tokio::signal::ctrl_c().await.is_ok() {
            process::exit(i32::from(crate::failure::EXIT_FAILED));
        }
    });
}

/// What the cell was before.
struct Before {
    status: StatusView,
    conflicts: BTreeMap<String, Conflicts>,
}

/// Everything a replay plays with.
struct Stage<'s> {
    cell: CellClient<'s>,
    run: RunName,
    trace: Trace,
    /// How many nodes were seen to be there.
    registered: Cell<usize>,
    args: &'s Replay,
}

impl Stage<'_> {
    fn play(&self, before: &Before, agent: &mut SimAgent) -> Result<Report, Failure> {
        let started = Instant::now();
        self.wait_for_nodes(before, agent)?;
        let register_ms = milliseconds(started.elapsed());
        let started = Instant::now();
        course::run(&self.cell, &self.run, &self.trace.pods, self.args.speed)?;
        let submit_ms = milliseconds(started.elapsed());
        agent.check()?;
        let rest = outcome::settle(&self.cell, &self.run, &self.trace)?;
        agent.check()?;
        let waiting: Vec<String> =
            rest.jobs.iter().filter(|job| job.state == "pending").map(|job| job.name.clone()).collect();
        let placed = rest.jobs.iter().filter(|job| job.started_ms > 0).count() as u64;
        let ended = rest.jobs.iter().filter(|job| job.is_finished()).count() as u64;
        let left_unplaced = rest.jobs.iter().filter(|job| job.is_finished() && job.started_ms == 0).count() as u64;
        let place_ms = outcome::place_ms(&rest.jobs);
        Ok(Report {
            run: self.run.as_str().to_string(),
            format: "alibaba-gpu-2023".to_string(),
            speed: self.args.speed.to_string(),
            nodes: self.trace.nodes.len() as u64,
            submitted: rest.jobs.len() as u64,
            placed,
            ended: ended - left_unplaced,
            left_unplaced,
            pending: waiting.len() as u64,
            pending_reasons: outcome::pending_reasons(&self.cell, &self.run, &self.trace, &waiting)?,
            schedulers: self.schedulers(before)?,
            stages: Stages { register_ms, submit_ms, place_ms },
            placements_per_second: placed as f64 * 1000.0 / place_ms.max(1) as f64,
            allocated: outcome::allocated(&self.trace, &rest.nodes)?,
            stuck: rest.stuck,
        })
    }

    fn wait_for_nodes(&self, before: &Before, agent: &mut SimAgent) -> Result<(), Failure> {
        let wanted = self.trace.nodes.len();
        let bar = Bar::start("registering", wanted as u64);
        let (mut most, mut since) = (0, Instant::now());
        loop {
            agent.check()?;
            let ready = self.cell.status()?.nodes.ready.saturating_sub(before.status.nodes.ready);
            bar.set(ready.min(wanted as u64));
            // Others' nodes come and go: the names are asked for once the number may be right.
            if ready >= wanted as u64 || since.elapsed() > PATIENCE {
                let nodes = self.cell.nodes(&self.run)?;
                let ready = nodes.iter().filter(|node| node.health == "ready").count();
                if ready == wanted {
                    self.registered.set(wanted);
                    return Ok(());
                }
                if since.elapsed() > PATIENCE {
                    return Err(Failure::Failed(format!(
                        "only {ready} of {wanted} nodes are ready after {PATIENCE:?}"
                    )));
                }
            }
            if ready > most {
                (most, since) = (ready, Instant::now());
            }
            self.cell.pause(LOOK)?;
        }
    }

    /// What became of the plans of every scheduler that is there, and of those that had conflicts and went away.
    fn schedulers(&self, before: &Before) -> Result<BTreeMap<String, Conflicts>, Failure> {
        let sessions = self.cell.status()?.sessions;
        let schedulers = sessions.into_iter().filter(|session| session.role.starts_with("scheduler"));
        let mut found: BTreeMap<String, Conflicts> =
            schedulers.map(|session| (session.name, Conflicts::default())).collect();
        for (name, conflicts) in self.cell.conflicts()? {
            let since = conflicts.since(before.conflicts.get(&name));
            if since != Conflicts::default() {
                found.insert(name, since);
            }
        }
        Ok(found)
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Cancels the jobs of `run`, waits until their runs have ended, stops the agent and removes the nodes. The agent goes
/// before the nodes: it would register them again.
fn clean_up(cell: &CellClient, stage: &Stage<'_>, agent: SimAgent) -> Result<(), Failure> {
    let run = &stage.run;
    let stayed = |failure: Failure| {
        Failure::Failed(format!("{failure}; jobs and nodes that begin with {} may have stayed behind", run.prefix()))
    };
    let mut jobs = cell.at_least(stage.cell.submitted(), || cell.jobs(run, None)).map_err(stayed)?;
    let all: Vec<String> = jobs.iter().map(|job| job.name.clone()).collect();
    jobs.retain(|job| !job.is_finished());
    // Those that wait go first, or they would be placed on the room that the others give back.
    jobs.sort_by_key(|job| job.state != "pending");
    let jobs: Vec<String> = jobs.into_iter().map(|job| job.name).collect();
    let bar = Bar::start("cancelling", jobs.len() as u64);
    cell.cancel(&jobs, || bar.advance(1)).map_err(stayed)?;
    drop(bar);
    let (mut least, mut since) = (u64::MAX, Instant::now());
    let nodes = loop {
        let nodes = cell.at_least(stage.registered.get(), || cell.nodes(run)).map_err(stayed)?;
        let runs = nodes.iter().map(|node| node.runs).sum();
        if runs == 0 {
            break nodes;
        }
        if runs < least {
            (least, since) = (runs, Instant::now());
        }
        if since.elapsed() > PATIENCE {
            return Err(stayed(Failure::Failed(format!("{runs} runs do not end"))));
        }
        cell.pause(LOOK).map_err(stayed)?;
    };
    let bar = Bar::start("forgetting", all.len() as u64);
    cell.forget(&all, || bar.advance(1)).map_err(stayed)?;
    drop(bar);
    drop(agent);
    let nodes: Vec<String> = nodes.into_iter().map(|node| node.name).collect();
    let bar = Bar::start("removing", nodes.len() as u64);
    cell.remove_nodes(&nodes, || bar.advance(1)).map_err(stayed)?;
    drop(bar);
    note(&format!("{} jobs cancelled and forgotten, {} nodes removed", all.len(), nodes.len()));
    Ok(())
}
