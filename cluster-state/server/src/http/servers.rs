//! The group of servers: who belongs to it, who leads, who is to leave.

use super::answer::{Answer, Problem, json, stamped};
use super::params::Name;
use super::shared::Shared;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use ohm_log::MemberChange;
use ohm_wire::api::{ServerEngine, ServerList, ServerRole, ServerView};

pub(super) async fn list(State(shared): State<Shared>) -> Answer {
    let applied = *shared.cells.applied().borrow();
    let known = shared.cells.servers().await?;
    let view = |server: u64, role| ServerView {
        server,
        role,
        leads: known.leader == Some(server),
        here: known.here == server,
        address: known.addresses.get(&server).cloned().unwrap_or_default(),
    };
    let voters = known.members.voters.iter().map(|server| view(*server, ServerRole::Voter));
    let learners = known.members.learners.iter().map(|server| view(*server, ServerRole::Learner));
    let servers = voters.chain(learners).collect();
    Ok(json(applied, &ServerList { servers, removed: known.members.removed.clone(), engine: known.engine }))
}

pub(super) async fn remove(State(shared): State<Shared>, Name(name): Name) -> Answer {
    let member = number(&name)?;
    refuse_with_etcd(&shared, "a server leaves when it is stopped, and its number is never used again").await?;
    shared.cells.change_members(MemberChange::Remove { member }).await?.map_err(|failure| match failure.again {
        true => Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", failure.reason, "try again in a moment"),
        false => Problem::new(StatusCode::CONFLICT, "not_possible", failure.reason, ""),
    })?;
    let applied = *shared.cells.applied().borrow();
    Ok(stamped(applied, StatusCode::NO_CONTENT.into_response()))
}

/// Answers at once; who leads shows in the list a little later.
pub(super) async fn transfer(State(shared): State<Shared>, Name(name): Name) -> Answer {
    let to = number(&name)?;
    refuse_with_etcd(&shared, "every server takes commands; nobody leads").await?;
    let known = shared.cells.servers().await?;
    if !known.members.voters.contains(&to) {
        let message = format!("{to} does not vote, so it can't lead");
        return Err(Problem::new(
            StatusCode::CONFLICT,
            "not_possible",
            message,
            "`ohm server members list` shows who does",
        ));
    }
    shared.cells.transfer(Some(to)).await?;
    list(State(shared)).await
}

/// Answers at once; what time it is then shows in the status a little later.
pub(super) async fn believe_clock(State(shared): State<Shared>, Name(name): Name) -> Answer {
    let server = number(&name)?;
    let known = shared.cells.servers().await?;
    if !known.time.iter().flat_map(|time| &time.offsets_ms).any(|(of, _)| *of == server) {
        let message = format!("the wall clock of server {server} is not known here");
        let hint = "`ohm status` shows the clocks of the servers that were heard in the last 10 s";
        return Err(Problem::new(StatusCode::CONFLICT, "not_possible", message, hint));
    }
    shared.cells.believe_clock(server).await?;
    super::overview::status(State(shared)).await
}

/// What is done about a group of servers has no meaning where etcd orders the log.
async fn refuse_with_etcd(shared: &Shared, instead: &str) -> Result<(), Problem> {
    match shared.cells.servers().await?.engine {
        ServerEngine::Raft => Ok(()),
        ServerEngine::Etcd => {
            let message = "the log of this cell is kept by etcd, its servers are peers".to_string();
            Err(Problem::new(StatusCode::CONFLICT, "not_possible", message, instead))
        }
    }
}

fn number(name: &str) -> Result<u64, Problem> {
    name.parse().map_err(|_| Problem::invalid(format!("\"{name}\" is no server"), "servers have numbers"))
}
