//! `ohm endpoints`.

use super::Session;
use super::messages::{PAUSE, each_message};
use crate::client::path_of;
use crate::failure::{EXIT_DONE, Failure};
use crate::output::note;
use crate::text;
use clap::Args;
use ohm_wire::api::EndpointList;

/// `ohm endpoints`.
#[derive(Clone, Debug, Args)]
pub struct Endpoints {
    /// The job
    pub name: String,
    /// Go on: print which tasks come (`+`) and go (`-`)
    #[arg(short, long)]
    pub watch: bool,
    /// Only tasks of this group
    #[arg(long)]
    pub group: Option<String>,
}

pub(crate) fn command(session: &Session, args: &Endpoints) -> Result<u8, Failure> {
    let path = format!("{}/endpoints", path_of("jobs", &session.job(&args.name)));
    let group: Vec<_> = args.group.iter().map(|group| ("group", group.clone())).collect();
    if args.watch {
        return watch(session, &path, group);
    }
    let list: EndpointList = session.client.get(&path, &group)?;
    session.output.print(&list, |style| text::endpoints_table(&list, style))?;
    Ok(EXIT_DONE)
}

/// Prints the list and what changes until it is stopped. A server that goes away is asked again until it is back; what
/// changed meanwhile is printed then.
fn watch(session: &Session, path: &str, mut query: Vec<(&'static str, String)>) -> Result<u8, Failure> {
    query.push(("follow", "true".to_string()));
    let mut last: Option<EndpointList> = None;
    loop {
        let stream = match session.client.stream(path, &query) {
            Ok(stream) => stream,
            Err(failure) if last.is_none() || !failure.is_passing() => return Err(failure),
            Err(_) => {
                std::thread::sleep(PAUSE);
                continue;
            }
        };
        let mut printed = Ok(());
        each_message(stream, |_, data| {
            printed = session.client.decode::<EndpointList>(data.as_bytes()).and_then(|list| {
                let before = last.replace(list.clone());
                if before.as_ref() == Some(&list) {
                    return Ok(());
                }
                let before = before.unwrap_or_default();
                session.output.print_item(&list, |_| text::endpoint_changes(&before, &list))
            });
            printed.is_ok()
        });
        printed?;
        note("the stream of endpoints broke off; going on");
        std::thread::sleep(PAUSE);
    }
}
