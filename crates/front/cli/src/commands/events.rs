//! `ohm events`.

use super::Session;
use super::messages::{PAUSE, each_message};
use crate::client::Client;
use crate::command::Events;
use crate::failure::{EXIT_DONE, Failure};
use crate::globals::OutputFormat;
use crate::output::note;
use crate::text::{self, Style};
use ohm_wire::api::{EventList, EventView};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::time::Instant;

/// Events that may wait to be printed.
const HEARD_MAX: usize = 1024;

pub(crate) fn events(session: &Session, args: &Events) -> Result<u8, Failure> {
    let mut args = Events { job: args.job.as_ref().map(|job| session.job(job)), ..args.clone() };
    if args.follow {
        return follow(session, &args);
    }
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

/// What is heard of the stream.
enum Heard {
    Event(String),
    BrokeOff,
    Failed(Failure),
}

/// Prints until it is stopped or the time is up. A server that goes away is asked again until it is back.
fn follow(session: &Session, args: &Events) -> Result<u8, Failure> {
    let (sender, heard) = mpsc::sync_channel(HEARD_MAX);
    let (client, asked, started) = (session.client.clone(), args.clone(), Instant::now());
    // A read ends with the next message only, so it has a thread of its own; that one ends with the process.
    std::thread::spawn(move || hear(&client, asked, &sender));
    loop {
        let next = match args.timeout {
            None => heard.recv().ok(),
            Some(timeout) => match heard.recv_timeout(timeout.saturating_sub(started.elapsed())) {
                Err(RecvTimeoutError::Timeout) => return Ok(EXIT_DONE),
                next => next.ok(),
            },
        };
        match next {
            // A message of a kind that this version does not know is passed over.
            Some(Heard::Event(data)) => {
                if let Ok(event) = session.client.decode::<EventView>(data.as_bytes()) {
                    session.output.print_item(&event, |style| text::event_line(&event, style))?;
                }
            }
            Some(Heard::BrokeOff) => note("the stream of events broke off; going on"),
            Some(Heard::Failed(failure)) => return Err(failure),
            None => return Ok(EXIT_DONE),
        }
    }
}

/// Reads streams of events, one after the other, until nobody listens.
fn hear(client: &Client, mut args: Events, heard: &SyncSender<Heard>) {
    let mut connected = false;
    loop {
        let mut asked = query(&args);
        asked.push(("follow", "true".to_string()));
        let told = match client.stream("/v1/events", &asked) {
            Ok(stream) => {
                connected = true;
                let mut seen = None;
                let listens = each_message(stream, |id, data| {
                    seen = id.or(seen);
                    heard.send(Heard::Event(data.to_string())).is_ok()
                });
                if let Some(index) = seen {
                    args.after = Some(index);
                    args.limit = usize::MAX;
                }
                listens && heard.send(Heard::BrokeOff).is_ok()
            }
            Err(failure) if !connected || !failure.is_passing() => {
                let _ = heard.send(Heard::Failed(failure));
                false
            }
            Err(_) => true,
        };
        if !told {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}
