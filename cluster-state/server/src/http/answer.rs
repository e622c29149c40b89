//! What handlers return: JSON with the index it has seen, or a problem.

use crate::handle::Unanswered;
use axum::Json;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use ohm_model::{Index, JobSpec, Refusal};
use ohm_wire::api::{ApiError, ErrorAnswer, INDEX_HEADER};
use serde::Serialize;

/// A request that could not be done. Shown as `{"error": {"code", "message", "hint"}}`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", error.message)]
pub(super) struct Problem {
    /// The status of the answer.
    pub(super) status: StatusCode,
    /// What it says.
    pub(super) error: ApiError,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Problem { status, error: ApiError { code: code.into(), message: message.into(), hint: hint.into() } }
    }

    pub(super) fn no_job(name: &str) -> Self {
        let message = format!("no job is called \"{name}\"");
        let hint = "`ohm jobs` lists them; finished jobs are forgotten after their `ttlSecondsAfterFinished`";
        Problem::new(StatusCode::NOT_FOUND, "not_found", message, hint)
    }

    pub(super) fn no_group(spec: &JobSpec, name: &str) -> Self {
        let names: Vec<&str> = spec.groups.iter().map(|group| group.name.as_str()).collect();
        let message = format!("job \"{}\" has no group \"{name}\"", spec.name);
        Problem::new(StatusCode::NOT_FOUND, "not_found", message, format!("its groups are {}", names.join(", ")))
    }

    pub(super) fn no_node(name: &str) -> Self {
        let message = format!("no node is called \"{name}\"");
        Problem::new(StatusCode::NOT_FOUND, "not_found", message, "`ohm nodes` lists them")
    }

    pub(super) fn no_queue(name: &str) -> Self {
        let message = format!("no queue is called \"{name}\"");
        Problem::new(StatusCode::NOT_FOUND, "not_found", message, "`ohm queues` lists them")
    }

    pub(super) fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, "invalid", message, hint)
    }
}

impl From<Unanswered> for Problem {
    fn from(unanswered: Unanswered) -> Self {
        let message = unanswered.to_string();
        match unanswered {
            Unanswered::Busy(_) => Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "busy",
                message,
                "nothing was done; try again in a moment",
            ),
            Unanswered::Unknown(_) => {
                let hint = "submitting, cancelling, suspending and resuming again is always safe";
                Problem::new(StatusCode::GATEWAY_TIMEOUT, "unknown_outcome", message, hint)
            }
            Unanswered::NotServing(_) => {
                let hint = "wait until the server is up again, or ask another one";
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_serving", message, hint)
            }
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            Refusal::NotFound { kind, name } if kind == "job" => Problem::no_job(&name),
            Refusal::NotFound { kind, name } if kind == "node" => Problem::no_node(&name),
            Refusal::NotFound { .. } => Problem::new(StatusCode::NOT_FOUND, "not_found", message, ""),
            Refusal::NameTaken { .. } => Problem::new(StatusCode::CONFLICT, "name_taken", message, ""),
            Refusal::WrongState { .. } => Problem::new(StatusCode::CONFLICT, "wrong_state", message, ""),
            Refusal::Invalid { .. } => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", message, ""),
            Refusal::Changed { .. } => Problem::new(StatusCode::CONFLICT, "changed", message, "try again"),
            Refusal::QueueFull { .. } => Problem::new(StatusCode::CONFLICT, "queue_full", message, ""),
            Refusal::Version { .. } => {
                let hint = "upgrade every server and scheduler first";
                Problem::new(StatusCode::CONFLICT, "version", message, hint)
            }
            Refusal::SessionGone(_)
            | Refusal::Busy { .. }
            | Refusal::Acknowledged
            | Refusal::LeaseMoved { .. }
            | Refusal::Superseded { .. } => Unanswered::Busy(message).into(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(ErrorAnswer { error: self.error })).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// The result of a handler.
pub(super) type Answer = Result<Response, Problem>;

/// `body` as JSON, seen at `index`.
pub(super) fn json<T: Serialize>(index: Index, body: &T) -> Response {
    json_with(StatusCode::OK, index, body)
}

/// `body` as JSON with `status`, seen at `index`.
pub(super) fn json_with<T: Serialize>(status: StatusCode, index: Index, body: &T) -> Response {
    stamped(index, (status, Json(body)).into_response())
}

/// `response` with the header that names `index`.
pub(super) fn stamped(index: Index, mut response: Response) -> Response {
    let name = HeaderName::from_bytes(INDEX_HEADER.as_bytes());
    if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&index.0.to_string())) {
        response.headers_mut().insert(name, value);
    }
    response
}

/// The answer to a path that does not exist.
pub(super) async fn no_such_route(uri: Uri) -> Problem {
    let message = format!("no such path: {}", uri.path());
    Problem::new(StatusCode::NOT_FOUND, "no_such_path", message, "`/v1/openapi.json` lists every path")
}

/// The answer to a method that a path does not take.
pub(super) async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let message = format!("{} does not take {method}", uri.path());
    let hint = "`/v1/openapi.json` lists the methods of every path";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "no_such_method", message, hint)
}
