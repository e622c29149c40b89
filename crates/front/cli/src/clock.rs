//! `ohm server believe-clock`: the operator says that a wall clock is right.

use crate::client::{Client, path_of};
use crate::failure::Failure;
use crate::globals::Globals;
use crate::output::Output;
use crate::text;
use ohm_wire::api::{ClockView, StatusView};
use std::time::{Duration, Instant};

/// How long it may take until the time of the cell shows it.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(300);

/// `ohm server believe-clock`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct BelieveClock {
    /// The server whose wall clock is right; may be left out where there is only one
    #[arg(value_name = "NUMBER")]
    number: Option<u64>,
}

const HELP: &str = "\
The cell counts deadlines, back-offs and how long finished jobs are kept in a time of its own. It goes on with clocks \
that nobody sets, and follows a wall clock that is more than 10 s ahead only when a majority of the servers shows the \
same, or when you say so here: after a boot that took longer than 10 minutes, or once a clock that was behind is set \
right. `ohm status` shows how far the clocks are ahead. What is due by then happens at once: jobs end by \
activeDeadlineSeconds, finished ones are forgotten.";

pub(crate) fn believe_clock(options: &BelieveClock, globals: &Globals) -> Result<(), Failure> {
    let (client, output) = (Client::new(globals)?, Output::new(globals));
    let status: StatusView = client.get("/v1/status", &[])?;
    let server = match (options.number, status.clocks.as_slice()) {
        (Some(number), _) => number,
        (None, [only]) => only.server,
        (None, clocks) => {
            let message = format!("name the server whose clock is right: {}", text::clocks(clocks));
            return Err(Failure::Usage(message));
        }
    };
    let (started, path) = (Instant::now(), format!("{}/believe-clock", path_of("servers", &server.to_string())));
    loop {
        let status: StatusView = client.post(&path)?;
        let is_believed = |clock: &ClockView| clock.server == server && !clock.unbelieved;
        if status.clocks.iter().any(is_believed) {
            return output.print(&status, |_| format!("{}\n", text::clocks(&status.clocks)));
        }
        if started.elapsed() > PATIENCE {
            let message = format!("time has not moved after {PATIENCE:?}: {}", text::clocks(&status.clocks));
            return Err(Failure::Failed(message));
        }
        std::thread::sleep(PAUSE);
    }
}
