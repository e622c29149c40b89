//! `ohm logs`.

use super::Session;
use super::progress::Progress;
use super::wait::wait_for;
use crate::client::{Client, path_of};
use crate::command::{Goal, Logs};
use crate::failure::{EXIT_DONE, Failure};
use crate::output::write_out;
use std::io::Read;

/// How many bytes a line is taken to have at most when only the last lines are wanted.
const LINE_BYTES: usize = 1024;

pub(crate) fn command(session: &Session, args: &Logs) -> Result<u8, Failure> {
    if args.follow {
        let progress = Progress::start(format!("waiting for {} to start", args.name));
        wait_for(session, &args.name, Goal::Running, None)?;
        drop(progress);
    }
    let source = Source {
        job: args.name.clone(),
        group: args.group.clone(),
        task: args.task,
        stderr: args.stderr,
        follow: args.follow,
    };
    let mut stream = source.open(&session.client, args.tail.map_or(0, |lines| lines.saturating_mul(LINE_BYTES)))?;
    match args.tail {
        None => copy(&mut stream, &mut write_out)?,
        Some(lines) if args.follow => {
            // What is there already comes first and at once; of that, the last lines are wanted.
            let mut first = true;
            copy(&mut stream, &mut |piece| {
                let wanted = if std::mem::take(&mut first) { last_lines(piece, lines) } else { piece };
                write_out(wanted)
            })?;
        }
        Some(lines) => {
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).map_err(broken_off)?;
            write_out(last_lines(&bytes, lines))?;
        }
    }
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
    /// The output as a stream; only so many of the last bytes, unless that is 0.
    pub(crate) fn open(&self, client: &Client, tail_bytes: usize) -> Result<impl Read + use<>, Failure> {
        let mut query = vec![
            ("task", self.task.to_string()),
            ("stderr", self.stderr.to_string()),
            ("follow", self.follow.to_string()),
            ("tail", tail_bytes.to_string()),
        ];
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
    Failure::Failed(format!("the output broke off: {error}"))
}

/// The last `lines` lines of `bytes`.
fn last_lines(bytes: &[u8], lines: usize) -> &[u8] {
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let breaks = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    match (lines, breaks.map(|(at, _)| at + 1).nth(lines.saturating_sub(1))) {
        (0, _) => b"",
        (_, start) => &bytes[start.unwrap_or(0)..],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_cut_out() {
        for (text, lines, expected) in [
            ("a\nb\nc\n", 2, "b\nc\n"),
            ("a\nb\nc", 2, "b\nc"),
            ("a\nb\n", 5, "a\nb\n"),
            ("a\n", 1, "a\n"),
            ("a\nb\n", 0, ""),
            ("\n\n\n", 1, "\n"),
            ("", 3, ""),
        ] {
            assert_eq!(last_lines(text.as_bytes(), lines), expected.as_bytes(), "{text:?} {lines}");
        }
    }
}
