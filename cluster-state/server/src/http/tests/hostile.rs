//! Requests that must not be answered, and ones that cannot be.

use super::world::{TOKEN, World, job, read};
use crate::handle::Unanswered;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures_util::FutureExt;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

async fn check(world: &World, headers: &[(&str, &str)], method: &str, path: &str, expected: (u16, &str)) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = world.raw(request.body(Body::empty()).unwrap()).await;
    let status = response.status().as_u16();
    let answer: Value = serde_json::from_slice(&read(response).await).unwrap_or(Value::Null);
    assert_eq!((status, answer["error"]["code"].as_str().unwrap_or("")), expected, "{method} {path} {headers:?}");
    if status >= 400 {
        assert!(!answer["error"]["message"].as_str().unwrap_or_default().is_empty(), "{answer}");
    }
}

#[tokio::test]
async fn only_those_with_the_token_are_answered() {
    let world = World::new();
    let host = ("host", "127.0.0.1:6460");
    let bearer = format!("Bearer {TOKEN}");
    let token = ("authorization", bearer.as_str());
    check(&world, &[host], "GET", "/v1/jobs", (401, "unauthorized")).await;
    check(&world, &[host], "GET", "/metrics", (401, "unauthorized")).await;
    check(&world, &[host], "GET", "/nowhere", (401, "unauthorized")).await;
    check(&world, &[host], "GET", "/healthz", (200, "")).await;
    check(&world, &[host, token], "GET", "/metrics", (200, "")).await;
    check(&world, &[host, token], "GET", "/nowhere", (404, "no_such_path")).await;
    check(&world, &[host, token], "PUT", "/v1/jobs", (415, "content_type_refused")).await;
    check(&world, &[host, token], "DELETE", "/v1/jobs", (405, "no_such_method")).await;
    check(&world, &[token], "GET", "/v1/jobs", (403, "host_refused")).await;
    check(&world, &[("host", "evil.example"), token], "GET", "/healthz", (403, "host_refused")).await;
    let origin = ("origin", "https://evil.example");
    check(&world, &[host, token, origin], "GET", "/v1/jobs", (403, "origin_refused")).await;
    check(&world, &[host, token], "POST", "/v1/jobs/a/cancel", (415, "content_type_refused")).await;
    let form = ("content-type", "text/plain");
    check(&world, &[host, token, form], "POST", "/v1/submit", (415, "content_type_refused")).await;
    assert_eq!(world.truth.lock().unwrap().commands, 0);
}

#[tokio::test]
async fn parameters_that_cannot_be_read_are_named() {
    let world = World::new();
    for (path, named) in [
        ("/v1/jobs?limit=many", "limit"),
        ("/v1/jobs?colour=red", "colour"),
        ("/v1/jobs?state=asleep", "asleep"),
        ("/v1/jobs/a/wait?for=ever", "ever"),
        ("/v1/jobs/a/logs?task=-1", "task"),
        ("/v1/events?after=x", "after"),
        ("/v1/jobs/%ff", "UTF-8"),
    ] {
        let (status, answer) = world.get(path).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}: {answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(named), "{path}: {answer}");
    }
    let (status, _) = world.get("/v1/jobs?limit=99999999999&after=%00").await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn a_replica_that_does_not_serve_is_said_so() {
    let world = World::new();
    for (failure, status, code) in [
        (Unanswered::Busy("full".into()), 503, "busy"),
        (Unanswered::Unknown("no answer".into()), 504, "unknown_outcome"),
        (Unanswered::NotServing("the disk is full".into()), 503, "not_serving"),
    ] {
        world.truth.lock().unwrap().failures = vec![failure];
        let response = world.ask("POST", "/v1/jobs/a/cancel", "application/json", Body::empty()).await;
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(response.headers().contains_key("retry-after"), status == 503);
        let answer: Value = serde_json::from_slice(&read(response).await).unwrap();
        assert_eq!(answer["error"]["code"], code);
    }
}

#[tokio::test]
async fn too_many_requests_at_once_are_turned_away() {
    let world = World::with(|options| options.requests_max = 0);
    let (status, answer) = world.get("/v1/jobs").await;
    assert_eq!((status, answer["error"]["code"].as_str()), (StatusCode::SERVICE_UNAVAILABLE, Some("busy")));
}

#[tokio::test]
async fn bodies_that_do_not_end_leave_room_for_the_rest() {
    let world = World::with(|options| options.requests_max = 4);
    world.submit(&job("a", "")).await;
    let endless = || Body::from_stream(futures_util::stream::pending::<Result<bytes::Bytes, std::io::Error>>());
    let submits = (0..8).map(|_| Box::pin(world.ask("POST", "/v1/submit", "application/yaml", endless())));
    let mut submits: Vec<_> = submits.collect();
    let answered = submits.iter_mut().filter_map(|submit| submit.as_mut().now_or_never());
    let refused = answered.filter(|answer| answer.status() == StatusCode::SERVICE_UNAVAILABLE).count();
    assert_eq!(refused, 6, "two of them wait for their bodies");
    assert_eq!(world.get("/v1/jobs").await.0, StatusCode::OK);
    let cancelled = world.send("POST", "/v1/jobs/a/cancel", "application/json", b"").await;
    assert_eq!(cancelled.0, StatusCode::OK);
    drop(submits);
    world.submit(&job("b", "")).await;
}

#[tokio::test]
async fn one_client_leaves_room_for_others() {
    let world = World::with(|options| options.requests_max = 8);
    let endless = || Body::from_stream(futures_util::stream::pending::<Result<bytes::Bytes, std::io::Error>>());
    let submit = |owner: &str, body: Body| {
        let request = Request::post("/v1/submit").header("host", "localhost").header("ohm-owner", owner);
        let request = request.header("authorization", format!("Bearer {TOKEN}"));
        Box::pin(world.raw(request.header("content-type", "application/yaml").body(body).unwrap()))
    };
    let mut submits: Vec<_> = (0..8).map(|_| submit("ann", endless())).collect();
    let answered = submits.iter_mut().filter_map(|submit| submit.as_mut().now_or_never());
    let refused = answered.filter(|answer| answer.status() == StatusCode::SERVICE_UNAVAILABLE).count();
    assert_eq!(refused, 5, "three of four places are one client's");
    let answer = submit("bob", Body::from(job("a", ""))).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let answer = submit("ann", Body::from(job("b", ""))).await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    let answer: Value = serde_json::from_slice(&read(answer).await).unwrap();
    assert!(answer["error"]["message"].as_str().unwrap().contains("of this owner"), "{answer}");
}

/// Questions may be about the whole cell, and there may be any number of them.
#[tokio::test]
async fn a_job_is_submitted_and_cancelled_while_questions_wait() {
    let world = World::new();
    let (release, held) = std::sync::mpsc::channel::<()>();
    let (began, beginning) = tokio::sync::oneshot::channel();
    let background = Arc::clone(&world.background);
    let busy = tokio::spawn(async move {
        background
            .run(async move {
                let _ = began.send(());
                let _ = held.recv();
            })
            .await
    });
    beginning.await.unwrap();
    let question = world.get("/v1/jobs");
    tokio::pin!(question);
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut question).await.is_err());
    let comment = format!("# {}\n", "x".repeat(8 << 10));
    let long = job("b", "") + &comment;
    let long = world.submit(&long);
    tokio::pin!(long);
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut long).await.is_err(), "long for a job");
    assert_eq!(world.submit(&job("a", "")).await.0, StatusCode::OK);
    let cancelled = world.send("POST", "/v1/jobs/a/cancel", "application/json", b"").await;
    assert_eq!(cancelled.0, StatusCode::OK, "{}", cancelled.1);
    assert_eq!(world.send("GET", "/healthz", "", b"").await.0, StatusCode::OK);
    drop(release);
    busy.await.unwrap();
    assert_eq!(question.await.0, StatusCode::OK);
    assert_eq!(long.await.0, StatusCode::OK);
}
