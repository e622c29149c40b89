//! `ohm rollout`.

use super::Session;
use super::messages::{PAUSE, each_message};
use crate::client::path_of;
use crate::failure::{EXIT_DONE, EXIT_FAILED, Failure};
use crate::globals::OutputFormat;
use crate::output::note;
use crate::text;
use clap::{Args, Subcommand};
use ohm_wire::api::RolloutView;
use serde_json::{Value, json};

/// `ohm rollout`.
#[derive(Clone, Debug, Subcommand)]
pub enum RolloutCommand {
    /// Show how far a rollout is; the exit code is 0 when it is complete, else 1
    Status(Status),
    /// List the revisions of a job, and what changed from each to the next
    History(Service),
    /// Go back to a former revision
    Undo(Undo),
    /// Replace nothing more until `ohm rollout resume`
    Pause(Service),
    /// Let a paused rollout go on
    Resume(Service),
    /// Replace the other tasks, too: the canaries are good
    Promote(Service),
}

/// A command about one job.
#[derive(Clone, Debug, Args)]
pub struct Service {
    /// The job
    pub name: String,
}

/// `ohm rollout status`.
#[derive(Clone, Debug, Args)]
pub struct Status {
    /// The job
    pub name: String,
    /// Go on until it is complete (exit code 0), or has stalled or gone back by itself (1)
    #[arg(short, long)]
    pub watch: bool,
}

/// `ohm rollout undo`.
#[derive(Clone, Debug, Args)]
pub struct Undo {
    /// The job
    pub name: String,
    /// To this one of `ohm rollout history` [default: the last one before that was complete]
    #[arg(long, value_name = "REVISION", value_parser = clap::value_parser!(u32).range(1..))]
    pub to: Option<u32>,
    /// Go on until it is complete (exit code 0), or has stalled (1)
    #[arg(short, long)]
    pub watch: bool,
}

pub(crate) fn command(session: &Session, command: &RolloutCommand) -> Result<u8, Failure> {
    match command {
        RolloutCommand::Status(args) => {
            let path = path(session, &args.name);
            if args.watch { watch(session, &path, Watched::default()) } else { status(session, &path) }
        }
        RolloutCommand::History(args) => history(session, &path(session, &args.name)),
        RolloutCommand::Undo(args) => {
            let path = path(session, &args.name);
            let wanted = match args.to {
                Some(revision) => json!({"action": "undo", "revision": revision}),
                None => json!({"action": "undo"}),
            };
            if !args.watch {
                return change(session, &path, &wanted);
            }
            let view: RolloutView = session.client.post_json(&path, &wanted)?;
            // A revision that is gone back to may have stalled before.
            watch(session, &path, Watched { revision: view.summary.revision, ..Watched::default() })
        }
        RolloutCommand::Pause(args) => change(session, &path(session, &args.name), &json!({"action": "pause"})),
        RolloutCommand::Resume(args) => change(session, &path(session, &args.name), &json!({"action": "resume"})),
        RolloutCommand::Promote(args) => change(session, &path(session, &args.name), &json!({"action": "promote"})),
    }
}

fn path(session: &Session, name: &str) -> String {
    format!("{}/rollout", path_of("jobs", &session.job(name)))
}

fn status(session: &Session, path: &str) -> Result<u8, Failure> {
    let view: RolloutView = session.client.get(path, &[])?;
    session.output.print(&view, |style| text::rollout_text(&view, style))?;
    Ok(if view.summary.state == "complete" { EXIT_DONE } else { EXIT_FAILED })
}

fn history(session: &Session, path: &str) -> Result<u8, Failure> {
    let view: RolloutView = session.client.get(path, &[])?;
    let listed = json!({"job": view.job, "revision": view.summary.revision, "history": view.history});
    session.output.print(&listed, |style| text::history_table(&view, style))?;
    Ok(EXIT_DONE)
}

fn change(session: &Session, path: &str, wanted: &Value) -> Result<u8, Failure> {
    let view: RolloutView = session.client.post_json(path, wanted)?;
    let next = |view: &RolloutView| match view.summary.state.as_str() {
        "rolling" => format!("; `ohm rollout status -w {}` follows", view.job),
        _ => String::new(),
    };
    session.output.print(&view, |style| {
        let line = format!("{}{}", text::rollout_line(&view), next(&view));
        text::wrapped(&line, style.width, 2) + "\n"
    })?;
    Ok(EXIT_DONE)
}

/// What is known of a rollout that is followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Watched {
    /// The revision that it leads to; 0 before the first view.
    revision: u32,
    /// The one that stalled and was taken back; 0 for none.
    reverted: u32,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Complete,
    Stalled,
    Reverted(u32),
    Left,
}

impl Watched {
    /// Takes note of a view, and says whether it is the end. One that is taken back is followed until that is complete;
    /// where somebody asked for another revision, that is followed.
    fn take(&mut self, view: &RolloutView) -> Option<End> {
        let now = view.summary.revision;
        let stalled = |revision: &u32| {
            let known = view.history.iter().find(|known| known.revision == *revision);
            known.is_some_and(|known| known.state == "stalled")
        };
        if self.revision != 0 && self.revision != now && stalled(&self.revision) {
            self.reverted = self.revision;
        } else if view.reverts && self.reverted == 0 {
            let mut earlier = view.history.iter().rev().skip(1).map(|known| known.revision);
            self.reverted = earlier.find(stalled).unwrap_or(self.revision.max(1));
        }
        self.revision = now;
        match view.summary.state.as_str() {
            "complete" if self.reverted > 0 => Some(End::Reverted(self.reverted)),
            "complete" => Some(End::Complete),
            "stalled" => Some(End::Stalled),
            "left" => Some(End::Left),
            _ => None,
        }
    }
}

/// Prints how far it is whenever that changes, until it ends. A server that goes away is asked again until it is back.
fn watch(session: &Session, path: &str, mut watched: Watched) -> Result<u8, Failure> {
    let (mut last, mut end, query) = (String::new(), None, [("follow", "true".to_string())]);
    let is_table = session.output.format == OutputFormat::Table;
    loop {
        let stream = match session.client.stream(path, &query) {
            Ok(stream) => stream,
            Err(failure) if last.is_empty() || !failure.is_passing() => return Err(failure),
            Err(_) => {
                std::thread::sleep(PAUSE);
                continue;
            }
        };
        let mut printed = Ok(());
        each_message(stream, |_, data| {
            printed = session.client.decode::<RolloutView>(data.as_bytes()).and_then(|view| {
                end = watched.take(&view);
                let line = text::rollout_line(&view);
                let is_news = !is_table || line != last;
                last = line;
                let lines = |_: &_| text::wrapped(&last, session.output.style.width, 2) + "\n";
                if is_news { session.output.print_item(&view, lines) } else { Ok(()) }
            });
            printed.is_ok() && end.is_none()
        });
        printed?;
        if let Some(end) = end {
            return told(end);
        }
        note("the stream of the rollout broke off; going on");
        std::thread::sleep(PAUSE);
    }
}

/// The end, as an exit code. The last line has said the rest.
fn told(end: End) -> Result<u8, Failure> {
    match end {
        End::Complete => Ok(EXIT_DONE),
        End::Stalled | End::Left => Err(Failure::Told),
        End::Reverted(revision) => Err(Failure::Hinted {
            message: format!("revision {revision} did not come up, and was taken back"),
            hint: "`ohm job` shows how its runs ended, `ohm rollout history` what it changed".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_wire::api::{RevisionView, RolloutSummary};

    fn view(revision: u32, state: &str, history: &[(u32, &str)]) -> RolloutView {
        let known = |(revision, state): &(u32, &str)| RevisionView {
            revision: *revision,
            state: state.to_string(),
            ..RevisionView::default()
        };
        RolloutView {
            summary: RolloutSummary { revision, state: state.into(), ..RolloutSummary::default() },
            history: history.iter().map(known).collect(),
            ..RolloutView::default()
        }
    }

    #[test]
    fn a_rollout_is_followed_until_it_is_complete_or_fails() {
        let mut watched = Watched::default();
        for state in ["rolling", "paused", "waiting", "rolling"] {
            assert_eq!(watched.take(&view(2, state, &[(1, "complete"), (2, "rolling")])), None);
        }
        assert_eq!(watched.take(&view(2, "complete", &[(1, "complete"), (2, "complete")])), Some(End::Complete));
        assert_eq!(Watched::default().take(&view(2, "stalled", &[(2, "stalled")])), Some(End::Stalled));
        assert_eq!(Watched::default().take(&view(2, "left", &[(2, "left")])), Some(End::Left));
    }

    #[test]
    fn one_that_is_taken_back_fails_when_that_is_complete() {
        let back = [(2, "stalled"), (1, "rolling")];
        let mut watched = Watched::default();
        assert_eq!(watched.take(&view(2, "rolling", &[(1, "complete"), (2, "rolling")])), None);
        assert_eq!(watched.take(&view(1, "rolling", &back)), None);
        assert_eq!(watched.take(&view(1, "complete", &[(2, "stalled"), (1, "complete")])), Some(End::Reverted(2)));
        let late = RolloutView { reverts: true, ..view(1, "rolling", &back) };
        let mut watched = Watched::default();
        assert_eq!(watched.take(&late), None);
        assert_eq!(watched.take(&view(1, "complete", &[])), Some(End::Reverted(2)));
    }

    #[test]
    fn another_revision_that_somebody_asks_for_is_followed() {
        let mut watched = Watched::default();
        assert_eq!(watched.take(&view(2, "rolling", &[(1, "complete"), (2, "rolling")])), None);
        let next = [(1, "complete"), (2, "left"), (3, "complete")];
        assert_eq!(watched.take(&view(3, "complete", &next)), Some(End::Complete));
    }
}
