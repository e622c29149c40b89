//! What a request names: path parts, query parameters, the caller. What cannot be read is a problem, never a panic.

use super::Shared;
use super::answer::Problem;
use crate::Unanswered;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use ohm_model::{Actor, Asked, Command, Index, Outcome, names};
use ohm_wire::api::OWNER_HEADER;
use serde::de::DeserializeOwned;

/// The name of a caller who gives none.
const OWNER_DEFAULT: &str = "unknown";

/// Query parameters; unknown ones are problems where `T` says so.
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let hint = "`/v1/openapi.json` lists the parameters of every path";
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|Query(query)| Params(query)).map_err(|error| Problem::invalid(error.body_text(), hint))
    }
}

/// The one name in a path.
pub(super) struct Name(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        path.map(|Path(name)| Name(name)).map_err(|error| Problem::invalid(error.body_text(), ""))
    }
}

/// Somebody who asks for changes, and the cell that is asked.
pub(super) struct Caller {
    pub(super) shared: Shared,
    actor: Actor,
}

impl Caller {
    /// Puts a command into the log on this caller's behalf; what is read later has seen it.
    pub(super) async fn command(&self, command: Command) -> Result<(Index, Outcome), Unanswered> {
        self.shared.cells.command(Asked { actor: self.actor.clone(), command }).await
    }
}

impl FromRequestParts<Shared> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        let caller = |name: &str| Caller { shared: shared.clone(), actor: name.into() };
        let Some(given) = parts.headers.get(OWNER_HEADER) else { return Ok(caller(OWNER_DEFAULT)) };
        let is_name = |owner: &&str| !owner.is_empty() && names::line(owner).is_ok();
        let owner = given.to_str().ok().map(str::trim).filter(is_name);
        let refused = || {
            let message = format!("the {OWNER_HEADER} header is no name");
            Problem::invalid(message, format!("1 to {} visible ASCII characters are a name", names::LINE_BYTES_MAX))
        };
        owner.map(caller).ok_or_else(refused)
    }
}
