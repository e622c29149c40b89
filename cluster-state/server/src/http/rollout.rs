//! `/v1/jobs/{name}/rollout`: how far the rollout of a service is, as one answer or a stream, and what somebody wants
//! of it.

use super::answer::{Answer, Problem, json};
use super::control;
use super::followed::{self, Seen};
use super::lanes::Client;
use super::messages;
use super::params::{Caller, Name, Params};
use super::shared::Shared;
use super::views;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use ohm_cell::{Cell, Job};
use ohm_model::{Command, Refusal, RolloutAction};
use ohm_wire::api::{RolloutSummary, RolloutView};
use serde::Deserialize;

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RolloutQuery {
    #[serde(default)]
    follow: bool,
}

pub(super) async fn show(
    State(shared): State<Shared>,
    client: Client,
    Name(name): Name,
    Params(query): Params<RolloutQuery>,
    headers: HeaderMap,
) -> Answer {
    let cell = shared.cells.now().await?;
    let seen = Seen { view: views::rollout(&cell, service(&cell, &name)?), index: cell.applied() };
    // Whoever follows keeps no copy of the cell: it would make writers copy what they touch.
    drop(cell);
    if !messages::are_asked_for(query.follow, &headers) {
        return Ok(json(seen.index, &seen.view));
    }
    let open = shared.rollout_streams.open(&client)?;
    let look = |cell: &Cell, seen: &RolloutView| view_of(cell, &seen.job);
    Ok(followed::follow(&shared.cells, seen, "rollout", open, look))
}

/// What somebody wants of a rollout.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Pause,
    Resume,
    Promote,
    Undo,
}

/// The body of a request for it.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    action: Action,
    #[serde(default)]
    revision: Option<u32>,
}

impl Wanted {
    fn read(body: &[u8]) -> Result<RolloutAction, Problem> {
        let hint = "send {\"action\": \"pause\"}, \"resume\", \"promote\", or \"undo\" with or without a \"revision\"";
        let wanted: Wanted =
            serde_json::from_slice(body).map_err(|error| Problem::invalid(format!("the body: {error}"), hint))?;
        Ok(match (wanted.action, wanted.revision) {
            (Action::Undo, revision) => RolloutAction::Undo { revision },
            (_, Some(_)) => return Err(Problem::invalid("only `undo` takes a revision", hint)),
            (Action::Pause, None) => RolloutAction::Pause,
            (Action::Resume, None) => RolloutAction::Resume,
            (Action::Promote, None) => RolloutAction::Promote,
        })
    }
}

pub(super) async fn change(caller: Caller, Name(name): Name, body: Bytes) -> Answer {
    let action = Wanted::read(&body)?;
    control::perform(&caller, Command::Rollout { name: name.clone(), action }).await?;
    let cell = caller.shared.cells.now().await?;
    Ok(json(cell.applied(), &views::rollout(&cell, service(&cell, &name)?)))
}

fn service<'c>(cell: &'c Cell, name: &str) -> Result<&'c Job, Problem> {
    let job = cell.jobs().find(name).ok_or_else(|| Problem::no_job(name))?;
    if !job.kind.rolls() {
        let (kind, hint) = ("job".into(), "rollouts are for services; `ohm job` shows the others".into());
        return Err(Refusal::WrongState { kind, name: name.into(), state: "no service".into(), hint }.into());
    }
    Ok(job)
}

/// The rollout of the job that has this name now; of one that is forgotten it is said that it is.
fn view_of(cell: &Cell, name: &str) -> RolloutView {
    service(cell, name).map_or_else(
        |_| {
            let message = "it is no longer in the cell".to_string();
            let summary = RolloutSummary { state: "left".into(), message, ..RolloutSummary::default() };
            RolloutView { job: name.to_string(), summary, ..RolloutView::default() }
        },
        |job| views::rollout(cell, job),
    )
}
