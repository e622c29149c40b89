//! `ohm logs`.

use super::Session;
use super::progress::Progress;
use super::wait::wait_for;
use crate::client::{Client, path_of};
use crate::command::{Goal, Logs};
use crate::failure::{EXIT_DONE, Failure};
use crate::output::write_out;
use std::io::Read;

pub(crate) fn command(session: &Session, args: &Logs) -> Result<u8, Failure> {
    if args.follow {
        let progress = Progress::start(format!("waiting for {} to start", args.name));
        let answer = wait_for(session, &args.name, Goal::Running, args.timeout)?;
        drop(progress);
        if !answer.reached {
            return Err(Failure::Failed(format!("{} has not started after that time", args.name)));
        }
    }
    let source = Source {
        job: session.job(&args.name),
        group: args.group.clone(),
        task: args.task,
        stderr: args.stderr,
        follow: args.follow,
    };
    let mut stream = source.open(&session.client, args.tail)?;
    copy(&mut stream, &mut write_out)?;
    Ok(EXIT_DONE)
}

/// Which output.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) job: String,
    pub(crate) group: Option<String>,
    pub(crate) task: u32,
    pub(crate) stderr: bool,
    pub(crate) follow: bool,
}

impl Source {
    /// The output as a stream, or so many of its last lines and what comes after them.
    pub(crate) fn open(&self, client: &Client, tail_lines: Option<usize>) -> Result<impl Read + use<>, Failure> {
        let mut query = vec![
            ("task", self.task.to_string()),
            ("stderr", self.stderr.to_string()),
            ("follow", self.follow.to_string()),
        ];
        query.extend(tail_lines.map(|lines| ("tailLines", lines.to_string())));
        query.extend(self.group.clone().map(|group| ("group", group)));
        client.stream(&format!("{}/logs", path_of("jobs", &self.job)), &query)
    }
}

/// Hands every piece to `take` as it comes.
pub(crate) fn copy(stream: &mut impl Read, take: &mut impl FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => take(&buffer[..length])?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(broken_off(error)),
        }
    }
}

fn broken_off(error: std::io::Error) -> Failure {
    Failure::BrokenOff(error)
}
