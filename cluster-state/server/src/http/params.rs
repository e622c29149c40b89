//! What a request names: path parts, query parameters, the owner. What cannot be read is a problem, never a panic.

use super::answer::Problem;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use ohm_wire::api::OWNER_HEADER;
use serde::de::DeserializeOwned;

/// Longest owner.
const OWNER_BYTES_MAX: usize = 253;
/// The owner of jobs whose submitter names none.
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

/// On whose behalf jobs are submitted.
pub(super) struct Owner(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Owner {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Some(given) = parts.headers.get(OWNER_HEADER) else { return Ok(Owner(OWNER_DEFAULT.to_string())) };
        let is_name = |owner: &&str| !owner.is_empty() && owner.len() <= OWNER_BYTES_MAX;
        let owner = given.to_str().ok().map(str::trim).filter(is_name);
        let refused = || {
            let message = format!("the {OWNER_HEADER} header is no name");
            Problem::invalid(message, format!("1 to {OWNER_BYTES_MAX} visible ASCII characters are a name"))
        };
        owner.map(|owner| Owner(owner.to_string())).ok_or_else(refused)
    }
}
