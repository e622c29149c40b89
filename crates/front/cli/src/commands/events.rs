//! `ohm events`.

use super::Session;
use crate::command::Events;
use crate::failure::{EXIT_DONE, Failure};
use crate::globals::OutputFormat;
use crate::output::note;
use crate::text::{self, Style};
use ohm_wire::api::{EventList, EventView};
use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

/// Between two attempts to go on after the stream broke off.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) fn events(session: &Session, args: &Events) -> Result<u8, Failure> {
    if args.follow {
        return follow(session, args);
    }
    let mut args = args.clone();
    let lines = args.limit;
    loop {
        let list: EventList = session.client.get("/v1/events", &query(&args))?;
        let story = text::story(&list.events);
        // Of what the story leaves out, nothing counts as a line.
        if session.output.format == OutputFormat::Table && story.len() < lines && list.events.len() >= args.limit {
            args.limit = args.limit.saturating_mul(2);
            continue;
        }
        let told = story.len().saturating_sub(lines);
        let line =
            |style: &Style| -> String { story[told..].iter().map(|event| text::event_line(event, style)).collect() };
        session.output.print(&list, line)?;
        return Ok(EXIT_DONE);
    }
}

fn query(args: &Events) -> Vec<(&'static str, String)> {
    let mut query = vec![("limit", args.limit.to_string()), ("leases", args.all.to_string())];
    query.extend(args.job.clone().map(|job| ("job", job)));
    query.extend(args.after.map(|after| ("after", after.to_string())));
    query
}

/// Prints until it is stopped. A server that goes away is asked again until it is back.
fn follow(session: &Session, args: &Events) -> Result<u8, Failure> {
    let mut args = args.clone();
    let mut connected = false;
    loop {
        let mut asked = query(&args);
        asked.push(("follow", "true".to_string()));
        match session.client.stream("/v1/events", &asked) {
            Ok(stream) => {
                connected = true;
                let seen = print_stream(session, stream)?;
                if let Some(index) = seen {
                    args.after = Some(index);
                    args.limit = usize::MAX;
                }
                note("the stream of events broke off; going on");
            }
            Err(failure) if !connected || !failure.is_passing() => return Err(failure),
            Err(_) => {}
        }
        std::thread::sleep(PAUSE);
    }
}

/// Prints events until the stream ends; returns the last entry that came whole.
fn print_stream(session: &Session, stream: impl Read) -> Result<Option<u64>, Failure> {
    let mut seen = None;
    each_message(stream, |id, data| {
        // A message of a kind that this version does not know is passed over.
        if let Ok(event) = session.client.decode::<EventView>(data.as_bytes()) {
            session.output.print_item(&event, |style| text::event_line(&event, style))?;
        }
        seen = id.or(seen);
        Ok(())
    })?;
    Ok(seen)
}

/// Calls `take` with the id and the data of every server-sent message, until the stream ends.
fn each_message(
    stream: impl Read,
    mut take: impl FnMut(Option<u64>, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (mut id, mut data) = (None, String::new());
    for line in BufReader::new(stream).lines() {
        // A stream that breaks off has ended, too.
        let Ok(line) = line else { break };
        match line.split_once(':') {
            Some(("data", rest)) => data.push_str(rest.strip_prefix(' ').unwrap_or(rest)),
            Some(("id", rest)) => id = rest.trim().parse().ok(),
            _ if line.is_empty() && !data.is_empty() => {
                take(id.take(), &data)?;
                data.clear();
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_from_a_stream() {
        let stream = ":\n\nevent: a\ndata: {\"x\":1}\nid: 7\n\ndata:two\n\n: keep alive\n\ndata: cut off";
        let mut found = Vec::new();
        each_message(stream.as_bytes(), |id, data| {
            found.push((id, data.to_string()));
            Ok(())
        })
        .unwrap();
        assert_eq!(found, [(Some(7), "{\"x\":1}".to_string()), (None, "two".to_string())]);
    }
}
