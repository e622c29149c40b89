//! Which requests are answered at once, and which on what these leave: a question may be about the whole cell, and a
//! long body takes long, while whoever submits a job, cancels one, or asks whether the server lives waits for little.

use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::Method;

/// What is answered without the token.
pub(super) const HEALTH_PATH: &str = "/healthz";
/// The path of the long poll.
pub(super) const WAIT_PATH: &str = "/v1/jobs/{name}/wait";
/// Up to this length a body is read and parsed at once, which takes a fraction of a millisecond. A job takes about a
/// kilobyte.
const QUICK_BYTES_MAX: u64 = 4 << 10;

/// How soon a request is worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// At once.
    Quick,
    /// In the background.
    Background,
}

impl Pace {
    /// Of a request for `path`, as the routes write it.
    pub(super) fn of(path: Option<&str>, request: &Request) -> Self {
        let is_question = request.method() == Method::GET || request.method() == Method::HEAD;
        // Those who wait compute nothing until the end.
        let is_quick = match path {
            Some(HEALTH_PATH | WAIT_PATH) => true,
            _ if is_question => false,
            // A body that does not say how long it is may be of any length.
            _ => request.body().size_hint().upper().is_some_and(|length| length <= QUICK_BYTES_MAX),
        };
        if is_quick { Pace::Quick } else { Pace::Background }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use futures_util::stream;
    use std::convert::Infallible;

    fn check(method: Method, path: &str, body: Body, expected: Pace) {
        let request = Request::builder().method(&method).body(body).unwrap();
        assert_eq!(Pace::of(Some(path), &request), expected, "{method} {path}");
    }

    #[test]
    fn what_is_short_is_quick() {
        let bytes = |count| Body::from(vec![b'#'; count]);
        let unsaid = || Body::from_stream(stream::iter([Ok::<_, Infallible>("a: 1")]));
        check(Method::POST, "/v1/submit", bytes(1000), Pace::Quick);
        check(Method::POST, "/v1/submit", bytes(QUICK_BYTES_MAX as usize + 1), Pace::Background);
        check(Method::POST, "/v1/submit", unsaid(), Pace::Background);
        check(Method::POST, "/v1/jobs/{name}/cancel", bytes(0), Pace::Quick);
        check(Method::DELETE, "/v1/jobs/{name}", bytes(0), Pace::Quick);
        check(Method::GET, "/v1/jobs", bytes(0), Pace::Background);
        check(Method::HEAD, "/v1/jobs", bytes(0), Pace::Background);
        check(Method::GET, HEALTH_PATH, bytes(0), Pace::Quick);
        check(Method::GET, WAIT_PATH, bytes(0), Pace::Quick);
    }
}
