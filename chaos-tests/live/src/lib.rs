//! Live chaos: a whole cell of real processes, real faults, and the oracle's verdict on what was recorded.
//!
//! ```text
//!  scenario ──▶ timeline ──▶ run ── kills, pauses, cuts, fills ──▶ processes ──▶ records ┐
//!                             └─ clients submit, and write what they are told ─▶ records ┼▶ history ──▶ verdict
//!                                                  tasks write that they live ─▶ signs   │
//!                                                      the server's log, replayed ───────┘
//! ```
//! Scenario, timeline, history, outage and verdict are pure; the rest is processes, signals and sockets.
//!
//! Invariants: nobody is believed who could be asked twice (the log is replayed, tasks write for themselves, ends are
//! recorded after they happened and beginnings before); what the machine can't do is said; evidence of a broken promise
//! is kept.

mod cell;
mod client;
mod disk;
mod entries;
mod error;
mod etcd;
mod evidence;
pub mod history;
pub mod outage;
mod process;
mod proxy;
pub mod repairs;
mod replay;
pub mod report;
mod run;
pub mod scenario;
pub mod starts;
pub mod timeline;
pub mod verdict;

use error::LiveError;
use ohm_runtime::shutdown::Shutdown;
use report::Report;
use scenario::Scenario;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use timeline::Timeline;

/// Everything held.
const EXIT_HELD: u8 = 0;
/// A promise broke, or the run could not be finished.
const EXIT_BROKEN: u8 = 1;
/// The command was used wrongly.
const EXIT_USAGE: u8 = 2;

/// `ohm chaos live`.
#[derive(Clone, Debug, clap::Args)]
pub struct Live {
    /// What the cell is made of, what goes through it and what goes wrong
    #[arg(long, value_name = "FILE")]
    scenario: PathBuf,
    /// Repeat the scenario, or cut it off, so that nothing new begins after this time, such as 90s or 10min
    #[arg(long = "for", value_name = "TIME", value_parser = scenario::duration_ms)]
    for_ms: Option<u64>,
    /// What the scenario leaves to chance follows from this
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Keep everything in this folder, which must be new or empty
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// How the report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Runs a scenario against a cell of real processes that it starts itself.
pub fn live(options: &Live, form: Form) -> ExitCode {
    let code = match perform(options) {
        Ok(report) => {
            match form {
                Form::Text => print!("{}", report.text()),
                Form::Json => println!("{:#}", report.json()),
            }
            if report.is_good() { EXIT_HELD } else { EXIT_BROKEN }
        }
        Err(error) => {
            eprintln!("error: {error}");
            if matches!(error, LiveError::Usage(_)) { EXIT_USAGE } else { EXIT_BROKEN }
        }
    };
    ExitCode::from(code)
}

fn perform(options: &Live) -> Result<Report, LiveError> {
    let file = options.scenario.display().to_string();
    let text = fs::read_to_string(&options.scenario).map_err(|error| LiveError::Usage(format!("{file}: {error}")))?;
    let scenario = Scenario::parse(&text).map_err(|error| LiveError::Usage(format!("{file}: {error}")))?;
    let name = options.scenario.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let folder = Folder::new(options.keep.as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| LiveError::Io("the runtime".into(), error))?;
    let shutdown = runtime.block_on(async { Shutdown::on_signals() });
    let shutdown = shutdown.map_err(|error| LiveError::Io("signals".into(), error))?;
    let timeline = Timeline::new(&scenario, options.for_ms, options.seed);
    let outcome = run::run(&scenario, &name, timeline, folder.path(), &shutdown);
    runtime.shutdown_background();
    match outcome {
        Ok(mut report) => {
            report.seed = options.seed;
            report.evidence = folder.finish(!report.is_good()).map(|kept| kept.display().to_string());
            Ok(report)
        }
        Err(error) => {
            let is_worth = !matches!(error, LiveError::Interrupted | LiveError::Usage(_));
            if let Some(kept) = folder.finish(is_worth) {
                eprintln!("everything is kept in {}", kept.display());
            }
            Err(error)
        }
    }
}

/// Where a run happens.
enum Folder {
    /// Named by whoever runs it: kept.
    Named(PathBuf),
    /// Of our own: kept only as evidence.
    Own(tempfile::TempDir),
}

impl Folder {
    fn new(keep: Option<&Path>) -> Result<Self, LiveError> {
        let Some(path) = keep else {
            let own = tempfile::Builder::new().prefix("ohm-chaos-").tempdir();
            return own.map(Folder::Own).map_err(|error| LiveError::Io("a temporary folder".into(), error));
        };
        let failed = |error| LiveError::Usage(format!("--keep {}: {error}", path.display()));
        fs::create_dir_all(path).map_err(failed)?;
        match fs::read_dir(path).map_err(failed)?.next() {
            Some(_) => Err(LiveError::Usage(format!("--keep {}: must be new or empty", path.display()))),
            // Shims know their folders by their true names.
            None => Ok(Folder::Named(path.canonicalize().map_err(failed)?)),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Folder::Named(path) => path,
            Folder::Own(own) => own.path(),
        }
    }

    /// Where everything is kept, if it is.
    fn finish(self, is_evidence: bool) -> Option<PathBuf> {
        match self {
            Folder::Named(path) => Some(path),
            Folder::Own(own) if is_evidence => Some(own.keep()),
            Folder::Own(_) => None,
        }
    }
}
