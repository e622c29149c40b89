//! Requests of people and programs: any method, path, query, headers and body, to the router that serves them.
//!
//! The input is a request as text: a line with method and target, lines of headers, an empty line, the body. What a
//! well-behaved client sends (the host, the token, a content type) is there unless the input says something else.
//! Besides that nothing panics: no answer is an internal error, an error is JSON with a code, and the cell keeps all
//! invariants.

use crate::cell::{DOCUMENTS, World};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode, header};
use ohm_cell::Cell;
use ohm_model::{Asked, Event, Index, Outcome};
use ohm_runtime::background::Background;
use ohm_server::http::{HttpOptions, router};
use ohm_server::stand_in::{StandIn, Truth};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tower::ServiceExt;

const TOKEN: &str = "of-the-fuzzer";
const LISTEN: &str = "127.0.0.1:6460";
/// Whoever waits for a job or follows events waits no longer.
const PATIENCE: Duration = Duration::from_millis(30);
/// So much of an answer is read.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// The router, and the cell as every request finds it.
struct Server {
    runtime: Runtime,
    router: Router,
    other_end: StandIn,
    world: World,
}

thread_local! {
    static SERVER: std::cell::RefCell<Server> = std::cell::RefCell::new(Server::new());
}

struct Owner(World);

impl Truth for Owner {
    fn cell(&self) -> &Cell {
        &self.0.cell
    }

    fn apply(&mut self, asked: Asked) -> (Index, Outcome, Vec<Event>) {
        let (outcome, events) = self.0.ask(asked);
        (self.0.cell.applied(), outcome, events)
    }
}

impl Server {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let (handle, other_end) = StandIn::new();
        let mut options = HttpOptions::new(LISTEN.parse().expect("an address"), Some(TOKEN.into()));
        options.body_bytes_max = 1 << 16;
        let background = Arc::new(Background::start(1).expect("threads"));
        let router = runtime.block_on(async { router(handle, background, options) });
        Server { runtime, router, other_end, world: World::new() }
    }

    /// The status and the body of the answer, as far as it comes in time.
    fn ask(&mut self, request: Request<Body>) -> (Option<(StatusCode, Vec<u8>)>, Cell) {
        let Server { runtime, router, other_end, world } = self;
        let (router, mut owner) = (router.clone(), Owner(world.clone()));
        other_end.forget();
        let answer = async {
            let response = router.oneshot(request).await.unwrap_or_else(|never| match never {});
            let status = response.status();
            let body = to_bytes(response.into_body(), ANSWER_BYTES_MAX).await;
            (status, body.map(|body| body.to_vec()).unwrap_or_default())
        };
        let answered = runtime.block_on(async {
            let mut answer = std::pin::pin!(tokio::time::timeout(PATIENCE, answer));
            loop {
                tokio::select! { biased;
                    answered = &mut answer => break answered.ok(),
                    () = other_end.answer(&mut owner) => {}
                }
            }
        });
        (answered, owner.0.cell)
    }
}

pub(crate) fn run(input: &[u8]) {
    let Some(request) = request(input) else { return };
    let told = format!("{} {}", request.method(), request.uri());
    let (answered, cell) = SERVER.with_borrow_mut(|server| server.ask(request));
    assert_eq!(cell.invariants(), Vec::<String>::new(), "after {told}");
    let Some((status, body)) = answered else { return };
    assert!(status != StatusCode::INTERNAL_SERVER_ERROR, "{told}: {}", String::from_utf8_lossy(&body));
    if status.is_client_error() && !body.is_empty() && !told.starts_with("HEAD ") {
        let value: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let has_code = value["error"]["code"].is_string() || value["documents"].is_array() || value["refused"].is_u64();
        assert!(has_code, "{told}: {status}: {}", String::from_utf8_lossy(&body));
    }
}

fn request(input: &[u8]) -> Option<Request<Body>> {
    let end = input.windows(2).position(|pair| pair == b"\n\n").unwrap_or(input.len());
    let (head, body) = (std::str::from_utf8(&input[..end]).ok()?, input.get(end + 2..).unwrap_or_default());
    let mut lines = head.lines();
    let (method, target) = lines.next()?.split_once(' ')?;
    let mut request = Request::builder().method(method.parse::<Method>().ok()?).uri(target);
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        request = request.header(name, value);
    }
    let mut request = request.body(Body::from(body.to_vec())).ok()?;
    let token = format!("Bearer {TOKEN}");
    for (name, value) in
        [(header::HOST, LISTEN), (header::AUTHORIZATION, token.as_str()), (header::CONTENT_TYPE, "application/yaml")]
    {
        request.headers_mut().entry(name).or_insert_with(|| value.parse().expect("a value of a header"));
    }
    Some(request)
}

/// One request for each route, with every parameter, and bodies in each language.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    const QUESTIONS: [&str; 22] = [
        "GET /v1/jobs?state=running&class=batch&queue=research&owner=ada&limit=2&after=array",
        "GET /v1/jobs/array?tasks=2&firstTask=1",
        "GET /v1/jobs/array/wait?for=running&timeout=1",
        "GET /v1/jobs/waits/explain?stale=ok",
        "GET /v1/jobs/array/logs?group=main&task=0&stderr=true&follow=false&tail=10&tailLines=2",
        "GET /v1/nodes?limit=1&after=n0",
        "GET /v1/nodes/n0?runs=1",
        "GET /v1/servers",
        "GET /v1/backup",
        "GET /v1/queues",
        "GET /v1/priority-classes",
        "GET /v1/provisioning-classes",
        "GET /v1/profiles",
        "GET /v1/topologies",
        "GET /v1/events?after=1&limit=3&job=array&leases=false",
        "GET /v1/events?follow=true\nlast-event-id: 3\naccept: text/event-stream",
        "GET /v1/status",
        "GET /v1/openapi.json",
        "GET /metrics",
        "GET /healthz",
        "HEAD /v1/jobs/array\norigin: http://example.org",
        "GET /v1/jobs/%61rray\nhost: example.org",
    ];
    const ORDERS: [&str; 20] = [
        "POST /v1/jobs/array/cancel?graceSeconds=5\nohm-owner: ada",
        "POST /v1/jobs/array/scale?count=9&group=main",
        "POST /v1/jobs/array/suspend",
        "POST /v1/jobs/late/resume",
        "DELETE /v1/jobs/array",
        "POST /v1/nodes/n0/cordon",
        "POST /v1/nodes/n0/uncordon",
        "POST /v1/nodes/n0/taint?taint=work=disk:NoExecute",
        "POST /v1/nodes/n0/untaint?taint=work:NoExecute",
        "POST /v1/nodes/n0/drain?deadlineMs=1000&atOnce=2",
        "POST /v1/nodes/n0/undrain",
        "POST /v1/nodes/n0/release",
        "DELETE /v1/nodes/n3",
        "DELETE /v1/servers/2",
        "POST /v1/servers/1/lead",
        "DELETE /v1/queues/research",
        "DELETE /v1/priority-classes/high",
        "DELETE /v1/provisioning-classes/more",
        "DELETE /v1/profiles/gpus",
        "DELETE /v1/topologies/racks",
    ];
    let job =
        "{\"apiVersion\": \"ohm/v1\", \"kind\": \"Job\", \"metadata\": {\"name\": \"a\"}, \"spec\": {\"count\": 2}}\n";
    let mut bodies = vec![
        format!("POST /v1/submit?verdicts=refused\ncontent-type: application/json\n\n{job}"),
        format!("POST /v1/submit?replace=true\ncontent-type: application/x-ndjson\n\n{job}{job}"),
        format!("POST /v1/submit?update=true\ncontent-type: application/yaml; charset=utf-8\n\n{job}"),
    ];
    bodies.extend(DOCUMENTS.split("---\n").map(|document| format!("POST /v1/submit?verdicts=all\n\n{document}")));
    let lines = QUESTIONS.iter().chain(&ORDERS).map(|line| format!("{line}\n\n"));
    lines.chain(bodies).map(String::into_bytes).collect()
}
