//! `ohm wait`, and waiting in other commands.

use super::Session;
use super::progress::Progress;
use crate::client::path_of;
use crate::command::{Goal, Wait};
use crate::failure::{EXIT_DONE, EXIT_FAILED, Failure};
use crate::text;
use ohm_wire::api::{JobSummary, WaitAnswer};
use std::time::{Duration, Instant};

/// The longest single question; the server answers before.
const QUESTION_SECONDS: u64 = 60;
/// For how long a server that was there is asked again when it does not answer.
pub(crate) const OUTAGE_MAX: Duration = Duration::from_secs(120);
pub(crate) const PAUSE: Duration = Duration::from_millis(500);

pub(crate) fn command(session: &Session, args: &Wait) -> Result<u8, Failure> {
    let progress = Progress::start(format!("waiting until {} is {}", args.name, args.goal.name()));
    let answer = wait_for(session, &session.job(&args.name), args.goal, args.timeout)?;
    drop(progress);
    session.output.print(&answer, |style| text::wrapped(&text::job_line(&answer.job), style.width, 2))?;
    if !answer.reached {
        return Err(Failure::Failed(format!("{} is not {} after that time", args.name, args.goal.name())));
    }
    let bad = answer.job.is_finished() && answer.job.state != "succeeded";
    Ok(if bad { EXIT_FAILED } else { EXIT_DONE })
}

/// The job as it is now.
pub(crate) fn look(session: &Session, name: &str) -> Result<JobSummary, Failure> {
    let path = format!("{}/wait", path_of("jobs", name));
    let answer: WaitAnswer = session.client.get(&path, &[("timeout", "0".to_string())])?;
    Ok(answer.job)
}

/// Waits until the job has come to `goal`, at most `limit`. An outage of the server is waited through, once it has
/// answered.
pub(crate) fn wait_for(
    session: &Session,
    name: &str,
    goal: Goal,
    limit: Option<Duration>,
) -> Result<WaitAnswer, Failure> {
    let path = format!("{}/wait", path_of("jobs", name));
    let started = Instant::now();
    let mut answered: Option<Instant> = None;
    loop {
        let left = limit.map(|limit| limit.saturating_sub(started.elapsed()));
        // Whole seconds only: the last part of one is asked about with a question that ends a little late.
        let seconds = left.map_or(QUESTION_SECONDS, |left| left.as_millis().div_ceil(1000) as u64);
        // The first question is answered at once: after that an outage is known from a wrong address.
        let seconds = if answered.is_none() { 0 } else { seconds };
        let query = [("for", goal.name().to_string()), ("timeout", seconds.min(QUESTION_SECONDS).to_string())];
        match session.client.get::<WaitAnswer>(&path, &query) {
            Ok(answer) if answer.reached || left.is_some_and(|left| left.is_zero()) => return Ok(answer),
            Ok(_) => answered = Some(Instant::now()),
            Err(failure) => {
                let in_time = answered.is_some_and(|answered| answered.elapsed() < OUTAGE_MAX);
                let over = left.is_some_and(|left| left.is_zero());
                if !failure.is_passing() || !in_time || over {
                    return Err(failure);
                }
                std::thread::sleep(PAUSE);
            }
        }
    }
}
