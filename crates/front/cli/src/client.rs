//! The public HTTP API, asked. One method per way of asking; what is asked is the commands' matter.

use crate::answers::read_visible;
use crate::failure::Failure;
use crate::globals::{Globals, OutputFormat};
use nix::unistd::{Uid, User};
use ohm_runtime::recorder::{Happened, Recorder};
use ohm_runtime::tls::TlsError;
use ohm_wire::api::{ErrorAnswer, OWNER_HEADER, SubmitAnswer};
use serde::de::DeserializeOwned;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use ureq::http::{Request, Response};
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, AsSendBody, Body, SendBody};

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a server may take until its answer begins: longer than the longest wait.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(360);
/// How long one of several servers may take to say that it is there.
const ALIVE_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest answer that is kept in memory.
const ANSWER_BYTES_MAX: u64 = 512 << 20;

/// A server and the right to ask it.
#[derive(Clone)]
pub(crate) struct Client {
    agent: Agent,
    servers: Arc<Vec<String>>,
    /// Which of them is asked now.
    current: Arc<AtomicUsize>,
    token: Option<String>,
    owner: String,
    /// Answers are for people.
    is_shown: bool,
}

/// Query parameters.
pub(crate) type Query<'q> = &'q [(&'q str, String)];

impl Client {
    pub(crate) fn new(globals: &Globals) -> Result<Self, Failure> {
        let servers: Vec<String> =
            globals.server.split(',').map(|server| server.trim().trim_end_matches('/').to_string()).collect();
        for server in &servers {
            if !server.starts_with("http://") && !server.starts_with("https://") {
                let message = format!("--server {server}: must begin with http:// or https://");
                return Err(Failure::Usage(message));
            }
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .tls_config(tls(globals)?)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(ANSWER_TIMEOUT))
            .user_agent(concat!("ohm/", env!("CARGO_PKG_VERSION")));
        let is_local = ["//127.", "//localhost", "//[::1]"]
            .iter()
            .any(|local| servers.iter().all(|server| server.contains(local)));
        // Nobody's proxy leads to this machine's own loopback.
        let config = if is_local { config.proxy(None) } else { config };
        let (servers, current) = (Arc::new(servers), Arc::default());
        let (agent, token, owner) = (config.build().new_agent(), globals.token()?, owner());
        Ok(Client { agent, servers, current, token, owner, is_shown: globals.output == OutputFormat::Table })
    }

    /// The server that is asked now.
    fn server(&self) -> &str {
        &self.servers[self.current.load(Ordering::Relaxed) % self.servers.len()]
    }

    /// Goes on to the next server that answers, where there are several. What is sent afterwards may still be lost with
    /// it; then the next command finds another one.
    fn choose(&self) {
        for _ in 1..self.servers.len() {
            let asked = self.agent.get(format!("{}/healthz", self.server()));
            let patient = asked.config().timeout_global(Some(ALIVE_TIMEOUT)).build();
            if patient.call().is_ok_and(|answer| answer.status().is_success()) {
                return;
            }
            self.current.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The answer to a question.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str, query: Query<'_>) -> Result<T, Failure> {
        self.ask(path, query, |response| self.read(response))
    }

    /// Asks, and takes out of the answer what is wanted. When the server goes away before that, the next one is asked.
    fn ask<T>(
        &self,
        path: &str,
        query: Query<'_>,
        take: impl Fn(Response<Body>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let target = target(path, query);
        let once = || {
            let response = self.send("GET", &target, "application/json", SendBody::none())?;
            take(good(response, self.server())?)
        };
        let mut answer = once();
        for _ in 1..self.servers.len() {
            if !matches!(answer, Err(Failure::Unreachable { .. })) {
                break;
            }
            self.current.fetch_add(1, Ordering::Relaxed);
            answer = once();
        }
        answer
    }

    /// The answer to an order without content.
    pub(crate) fn post<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let response = self.send("POST", path, "application/json", SendBody::none())?;
        self.read(good(response, self.server())?)
    }

    /// The answer to an order with content.
    pub(crate) fn post_json<T: DeserializeOwned>(&self, path: &str, body: &serde_json::Value) -> Result<T, Failure> {
        let response = self.send("POST", path, "application/json", body.to_string())?;
        self.read(good(response, self.server())?)
    }

    /// Removes something.
    pub(crate) fn delete(&self, path: &str) -> Result<(), Failure> {
        good(self.send("DELETE", path, "application/json", SendBody::none())?, self.server()).map(drop)
    }

    /// The answer to a question, as it comes.
    pub(crate) fn stream(&self, path: &str, query: Query<'_>) -> Result<impl Read + use<>, Failure> {
        self.ask(path, query, |response| Ok(response.into_body().into_reader()))
    }

    /// Submits documents. Verdicts come back whatever they are.
    pub(crate) fn submit(
        &self,
        body: impl AsSendBody,
        content_type: &str,
        query: Query<'_>,
    ) -> Result<SubmitAnswer, Failure> {
        let mut recorder = Recorder::from_environment("client", "client");
        // Who was told that his job is in the cell is on record only if the answer names it.
        let query = if recorder.is_on() { &[] } else { query };
        let mut response = self.send("POST", &target("/v1/submit", query), content_type, body)?;
        let status = response.status();
        let bytes = self.read_bytes(&mut response)?;
        let answer: SubmitAnswer = match read_visible::<ErrorAnswer>(&bytes) {
            Ok(answer) if !status.is_success() => return Err(Failure::Refused(answer.error)),
            _ => self.decode(&bytes)?,
        };
        if recorder.is_on() {
            for job in answer.acknowledged_jobs() {
                recorder.write(|| Happened::Acknowledged { job: job.to_string() });
            }
        }
        Ok(answer)
    }

    fn send(
        &self,
        method: &str,
        target: &str,
        content_type: &str,
        body: impl AsSendBody,
    ) -> Result<Response<Body>, Failure> {
        self.choose();
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{target}", self.server()))
            .header("content-type", content_type)
            .header(OWNER_HEADER, &self.owner);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(body);
        let request = request.map_err(|error| Failure::Usage(format!("--server {}: {error}", self.server())))?;
        self.agent.run(request).map_err(|error| self.unreachable(&error))
    }

    fn read<T: DeserializeOwned>(&self, mut response: Response<Body>) -> Result<T, Failure> {
        let bytes = self.read_bytes(&mut response)?;
        self.decode(&bytes)
    }

    /// Reads an answer, or a message of a stream.
    pub(crate) fn decode<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, Failure> {
        let decoded = if self.is_shown { read_visible(bytes) } else { serde_json::from_slice(bytes) };
        decoded.map_err(|error| self.unreadable(&error))
    }

    fn read_bytes(&self, response: &mut Response<Body>) -> Result<Vec<u8>, Failure> {
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        body.read_to_vec().map_err(|error| self.unreachable(&error))
    }

    fn unreachable(&self, error: &ureq::Error) -> Failure {
        let reason = match error {
            ureq::Error::Io(error) => error.to_string(),
            ureq::Error::ConnectionFailed => "the connection failed".to_string(),
            ureq::Error::HostNotFound => "no such host".to_string(),
            other => other.to_string(),
        };
        Failure::Unreachable { server: self.server().to_string(), reason }
    }

    fn unreadable(&self, error: &serde_json::Error) -> Failure {
        Failure::Unreadable { server: self.server().to_string(), reason: error.to_string() }
    }
}

/// Whom this process believes (the authorities of the web unless a file names others), and what it shows.
fn tls(globals: &Globals) -> Result<TlsConfig, Failure> {
    let wrong = |error: TlsError| Failure::Usage(error.to_string());
    let files = globals.tls();
    let mut config = TlsConfig::builder();
    if let Some(ca) = files.read_ca().map_err(wrong)? {
        config = config.root_certs(RootCerts::new_with_certs(&certificates(&ca)));
    }
    if let Some(shown) = files.read_shown().map_err(wrong)? {
        let key = PrivateKey::from_pem(&shown.key).map_err(|error| Failure::Usage(format!("--tls-key: {error}")))?;
        config = config.client_cert(Some(ClientCert::new_with_certs(&certificates(&shown.certificate), key)));
    }
    Ok(config.build())
}

fn certificates(pem: &[u8]) -> Vec<Certificate<'static>> {
    let certificate = |item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    };
    parse_pem(pem).filter_map(certificate).collect()
}

/// Who this process runs for, as its jobs say it.
fn owner() -> String {
    let user = User::from_uid(Uid::effective()).ok().flatten().map(|user| user.name);
    let user = user.or_else(|| std::env::var("USER").ok());
    let user = user.filter(|user| !user.is_empty() && user.bytes().all(|byte| byte.is_ascii_graphic()));
    user.unwrap_or_else(|| format!("uid-{}", Uid::effective()))
}

/// `response`, unless it says no.
fn good(mut response: Response<Body>, server: &str) -> Result<Response<Body>, Failure> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let text = response.body_mut().with_config().limit(1 << 20).lossy_utf8(true).read_to_string().unwrap_or_default();
    match read_visible::<ErrorAnswer>(text.as_bytes()) {
        Ok(answer) => Err(Failure::Refused(answer.error)),
        Err(_) => {
            let first = text.lines().next().unwrap_or_default();
            let reason = format!("status {status}: {}", first.chars().take(100).collect::<String>());
            Err(Failure::Unreadable { server: server.to_string(), reason })
        }
    }
}

fn target(path: &str, query: Query<'_>) -> String {
    let mut target = path.to_string();
    for (number, (name, value)) in query.iter().enumerate() {
        let sign = if number == 0 { '?' } else { '&' };
        target.push_str(&format!("{sign}{name}={}", encode(value)));
    }
    target
}

/// The path of one thing: `/v1/jobs/NAME`.
pub(crate) fn path_of(kind: &str, name: &str) -> String {
    format!("/v1/{kind}/{}", encode(name))
}

/// `text` as part of an address: all but unreserved characters as `%XX`.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests;
