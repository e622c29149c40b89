//! Who may ask: the token, and nothing that a web page could send by itself.
//!
//! A page in somebody's browser can reach a server on that person's machine. It cannot read the token, and beyond that:
//! a name that was rebound to 127.0.0.1 shows in the Host header; a foreign page shows in the Origin header; and a
//! content type that no form can send makes the browser ask first, which is never allowed.

use super::answer::Problem;
use super::cells::with_staleness;
use super::lanes::Client;
use super::options::HttpOptions;
use super::pace::{HEALTH_PATH, Pace, WAIT_PATH};
use super::shared::Shared;
use crate::connections::{Full, Guest, Kind, network_of};
use crate::token::same_bytes;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ohm_model::names::LINE_BYTES_MAX;
use ohm_wire::api::OWNER_HEADER;
use std::net::IpAddr;

/// The path whose bodies are long.
const SUBMIT_PATH: &str = "/v1/submit";

/// What a body may be. None of them can be sent by a form.
const CONTENT_TYPES: [&str; 8] = [
    "application/json",
    "application/yaml",
    "application/x-yaml",
    "text/yaml",
    "text/x-yaml",
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
];

/// Turns away what may not ask, counts what may.
pub(super) async fn admit(State(shared): State<Shared>, mut request: Request, next: Next) -> Response {
    let stale = take_stale(&mut request);
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_string());
    let verdict = judge(&shared.options, request.method(), request.uri(), request.headers());
    let verdict = verdict.and_then(|()| recognise(&request));
    let lane = match path.as_deref() {
        // Whoever asks whether the server lives must not be told that others ask, too.
        Some(HEALTH_PATH) => None,
        // Those who wait long wait among themselves: they never turn a submit or a cancel away.
        Some(WAIT_PATH) => Some(&shared.waits),
        // Who submits waits among themselves, too: a body may take its time.
        Some(SUBMIT_PATH) => Some(&shared.submits),
        _ => Some(&shared.requests),
    };
    let client = client_of(&request);
    // Who may not ask takes no place.
    let place = verdict.and_then(|()| Ok(lane.map(|lane| lane.try_enter(&client)).transpose()?));
    let response = match place {
        Err(problem) => problem.into_response(),
        Ok(_place) => {
            let pace = Pace::of(path.as_deref(), &request);
            request.extensions_mut().insert(client);
            let answer = with_staleness(stale, next.run(request));
            match pace {
                Pace::Quick => answer.await,
                Pace::Background => shared.background.run(answer).await.unwrap_or_else(failed),
            }
        }
    };
    let path = path.unwrap_or_else(|| "other".to_string());
    let status = response.status().as_u16().to_string();
    metrics::counter!("ohm_http_requests_total", "path" => path, "status" => status).increment(1);
    response
}

fn failed() -> Response {
    let hint = "this is a mistake in Ohm; what was asked may have been done or not";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "answering failed", hint).into_response()
}

/// Whoever has shown the token is no stranger any more.
fn recognise(request: &Request) -> Result<(), Problem> {
    let guest = request.extensions().get::<Guest>().filter(|_| request.uri().path() != HEALTH_PATH);
    guest.map_or(Ok(()), |guest| guest.recognise(Kind::Person)).map_err(|Full| {
        let message = "as many connections of clients are open as there may be, and none of them is idle";
        let hint = "nothing was done; end some that wait or follow, or try again in a moment";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_connections", message, hint)
    })
}

/// Takes `stale=ok`, which every question may carry, out of the query. What changes something looks at nothing stale.
fn take_stale(request: &mut Request) -> bool {
    let is_question = request.method() == Method::GET || request.method() == Method::HEAD;
    let Some(query) = request.uri().query().filter(|_| is_question) else { return false };
    let is_stale = |pair: &&str| *pair == "stale=ok";
    if !query.split('&').any(|pair| is_stale(&pair)) {
        return false;
    }
    let rest: Vec<&str> = query.split('&').filter(|pair| !is_stale(pair)).collect();
    let (path, rest) = (request.uri().path(), rest.join("&"));
    let target = if rest.is_empty() { path.to_string() } else { format!("{path}?{rest}") };
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = target.parse().ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    true
}

/// Whose share a request counts against.
fn client_of(request: &Request) -> Client {
    let address = request.extensions().get::<Guest>().map(|guest| network_of(guest.address()));
    let owner = request.headers().get(OWNER_HEADER).map(HeaderValue::as_bytes).unwrap_or_default();
    // A longer one is refused where it is read.
    Client::new(address, &owner[..owner.len().min(LINE_BYTES_MAX)])
}

/// Whether a request may be answered.
pub(super) fn judge(options: &HttpOptions, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    judge_host(options, uri, headers)?;
    judge_origin(headers)?;
    if uri.path() == HEALTH_PATH {
        return Ok(());
    }
    judge_token(options.token.as_deref(), headers)?;
    if method == Method::POST || method == Method::PUT || method == Method::PATCH {
        judge_content_type(headers)?;
    }
    Ok(())
}

fn judge_host(options: &HttpOptions, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let header = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = header.or_else(|| uri.authority().map(|authority| authority.as_str())).unwrap_or_default();
    let name = host_name(host);
    let is_ours = match name.parse::<IpAddr>() {
        // A bare address never comes from a rebound name; a server that listens everywhere has many of them.
        Ok(address) => {
            let listen = options.listen.ip();
            address.is_loopback() || address == listen || listen.is_unspecified()
        }
        Err(_) => {
            name.eq_ignore_ascii_case("localhost") || options.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(name))
        }
    };
    if is_ours {
        return Ok(());
    }
    let message = format!("the Host header names \"{}\", which is not this server", shown(name));
    let hint = "use the address the server listens on, or one of the names it was given";
    Err(Problem::new(StatusCode::FORBIDDEN, "host_refused", message, hint))
}

/// `host` without its port and brackets.
fn host_name(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

fn shown(text: &str) -> String {
    text.chars().take(100).filter(|character| !character.is_control()).collect()
}

fn judge_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let cross_site = headers.get("sec-fetch-site").is_some_and(|site| site != "none" && site != "same-origin");
    if !headers.contains_key(header::ORIGIN) && !cross_site {
        return Ok(());
    }
    let message = "this request comes from a web page";
    let hint = "pages may not use this API; use `ohm`, or any client that sends no Origin header";
    Err(Problem::new(StatusCode::FORBIDDEN, "origin_refused", message, hint))
}

fn judge_token(token: Option<&str>, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(token) = token else { return Ok(()) };
    let hint = "send `Authorization: Bearer TOKEN`; the token is in the file `token` of the server's data \
                folder, which `ohm` finds with --token-file, OHM_TOKEN or --data-dir";
    let Some(given) = headers.get(header::AUTHORIZATION) else {
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "a token is needed", hint));
    };
    let given = given.as_bytes();
    let bearer = given.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
    if bearer && same_bytes(&given[7..], token.as_bytes()) {
        return Ok(());
    }
    Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "the token is wrong", hint))
}

fn judge_content_type(headers: &HeaderMap) -> Result<(), Problem> {
    let given = content_type(headers);
    if CONTENT_TYPES.contains(&given.as_str()) {
        return Ok(());
    }
    let message = match given.as_str() {
        "" => "the request has no content type".to_string(),
        given => format!("the content type \"{}\" is not taken", shown(given)),
    };
    let hint =
        "send `Content-Type: application/json`, `application/yaml` or `application/x-ndjson`, also without a body";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content_type_refused", message, hint))
}

/// The content type in lower case, without parameters; empty without one.
pub(super) fn content_type(headers: &HeaderMap) -> String {
    let given = headers.get(header::CONTENT_TYPE).and_then(|given| given.to_str().ok()).unwrap_or_default();
    given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(listen: &str, headers: &[(&str, &str)], method: Method, expected: &str) {
        let mut options = HttpOptions::new(listen.parse().unwrap(), Some("secret".into()));
        options.hosts.push("ohm.example.com".into());
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(header::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        let verdict = judge(&options, &method, &"/v1/jobs".parse().unwrap(), &map);
        assert_eq!(verdict.map_or_else(|problem| problem.error.code, |()| "ok".into()), expected, "{headers:?}");
    }

    const TOKEN: (&str, &str) = ("authorization", "Bearer secret");

    #[test]
    fn hosts_are_judged_by_name() {
        for (listen, host, expected) in [
            ("127.0.0.1:6460", "127.0.0.1:6460", "ok"),
            ("127.0.0.1:6460", "localhost:9", "ok"),
            ("127.0.0.1:6460", "LOCALHOST", "ok"),
            ("127.0.0.1:6460", "[::1]:6460", "ok"),
            ("127.0.0.1:6460", "ohm.example.com", "ok"),
            ("127.0.0.1:6460", "evil.example:6460", "host_refused"),
            ("127.0.0.1:6460", "127.0.0.1.evil.example", "host_refused"),
            ("127.0.0.1:6460", "10.0.0.7:6460", "host_refused"),
            ("10.0.0.7:6460", "10.0.0.7:6460", "ok"),
            ("0.0.0.0:6460", "10.0.0.7:6460", "ok"),
            ("0.0.0.0:6460", "evil.example", "host_refused"),
            ("127.0.0.1:6460", "", "host_refused"),
        ] {
            check(listen, &[("host", host), TOKEN], Method::GET, expected);
        }
    }

    #[test]
    fn pages_and_strangers_are_turned_away() {
        let host = ("host", "localhost");
        check("127.0.0.1:1", &[host], Method::GET, "unauthorized");
        check("127.0.0.1:1", &[host, ("authorization", "Bearer secreT")], Method::GET, "unauthorized");
        check("127.0.0.1:1", &[host, ("authorization", "Bearer secretsecret")], Method::GET, "unauthorized");
        check("127.0.0.1:1", &[host, ("authorization", "Bearer ")], Method::GET, "unauthorized");
        check("127.0.0.1:1", &[host, ("authorization", "Basic secret")], Method::GET, "unauthorized");
        check("127.0.0.1:1", &[host, ("authorization", "bearer secret")], Method::GET, "ok");
        check("127.0.0.1:1", &[host, TOKEN, ("origin", "http://localhost")], Method::GET, "origin_refused");
        check("127.0.0.1:1", &[host, TOKEN, ("sec-fetch-site", "cross-site")], Method::GET, "origin_refused");
        check("127.0.0.1:1", &[host, TOKEN], Method::POST, "content_type_refused");
        for (content_type, expected) in [
            ("text/plain", "content_type_refused"),
            ("application/x-www-form-urlencoded", "content_type_refused"),
            ("multipart/form-data; boundary=x", "content_type_refused"),
            ("Application/JSON; charset=utf-8", "ok"),
            ("application/yaml", "ok"),
        ] {
            check("127.0.0.1:1", &[host, TOKEN, ("content-type", content_type)], Method::POST, expected);
        }
    }
}
