//! Where the tasks of a job can be reached.

use super::world::{World, job};
use axum::body::{Body, BodyDataStream};
use axum::http::StatusCode;
use ohm_model::{Command, Exit};
use serde_json::{Value, json};
use std::time::Duration;
use tokio_stream::StreamExt;

/// The endpoint of task 0 of a job with port 8080, on n1.
fn of_task_0() -> Value {
    json!({"group": "main", "task": 0, "node": "n1", "address": "127.1.0.1", "ports": ["8080"]})
}

async fn listed(world: &World) -> Value {
    world.get("/v1/jobs/a/endpoints").await.1["endpoints"].take()
}

#[tokio::test]
async fn a_task_is_an_endpoint_from_its_start_until_it_is_told_to_stop() {
    let world = World::new();
    world.node("n1", 4);
    world.submit(&job("a", ", ports: [8080]")).await;
    assert_eq!(listed(&world).await, json!([]));
    let run = world.run("a", "n1");
    assert_eq!(listed(&world).await, json!([of_task_0()]));
    world.truth.lock().unwrap().person(Command::CancelJob { name: "a".into(), grace_ms: None });
    assert_eq!(listed(&world).await, json!([]), "it runs on until its grace is over, and is left alone meanwhile");
    world.end(run, "n1", Exit::Code(0));
    assert_eq!(listed(&world).await, json!([]));
}

#[tokio::test]
async fn endpoints_of_one_group_are_asked_for_by_its_name() {
    let world = World::new();
    world.node("n1", 4);
    world.submit(&job("a", ", ports: [8080]")).await;
    world.run("a", "n1");
    let (_, answer) = world.get("/v1/jobs/a/endpoints?group=main").await;
    assert_eq!(answer, json!({"job": "a", "endpoints": [of_task_0()]}));
    let (status, answer) = world.get("/v1/jobs/a/endpoints?group=side").await;
    assert_eq!((status, &answer["error"]["hint"]), (StatusCode::NOT_FOUND, &json!("its groups are main")));
    let (status, answer) = world.get("/v1/jobs/b/endpoints").await;
    assert_eq!((status, &answer["error"]["code"]), (StatusCode::NOT_FOUND, &json!("not_found")));
}

/// The list in the next message of a stream.
async fn next(stream: &mut BodyDataStream) -> Value {
    let piece = tokio::time::timeout(Duration::from_secs(10), stream.next()).await.unwrap().unwrap().unwrap();
    let text = String::from_utf8(piece.to_vec()).unwrap();
    assert!(text.contains("event: endpoints\n") && text.contains("id: "), "{text}");
    let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    serde_json::from_str::<Value>(data).unwrap()["endpoints"].take()
}

#[tokio::test]
async fn a_stream_has_the_list_and_each_list_after_it() {
    let world = World::new();
    world.node("n1", 4);
    world.submit(&job("a", ", ports: [8080]")).await;
    let response = world.ask("GET", "/v1/jobs/a/endpoints?follow=true", "", Body::empty()).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut stream = response.into_body().into_data_stream();
    assert_eq!(next(&mut stream).await, json!([]));
    // What changes nothing about it is not told.
    world.submit(&job("b", "")).await;
    let run = world.run("a", "n1");
    assert_eq!(next(&mut stream).await, json!([of_task_0()]));
    world.end(run, "n1", Exit::Code(0));
    assert_eq!(next(&mut stream).await, json!([]));
    // The next job of this name is followed, too.
    assert_eq!(world.send("DELETE", "/v1/jobs/a", "", b"").await.0, StatusCode::NO_CONTENT);
    world.submit(&job("a", ", ports: [9090]")).await;
    world.run("a", "n1");
    assert_eq!(next(&mut stream).await[0]["ports"], json!(["9090"]));
}

#[tokio::test]
async fn streams_are_bounded_by_themselves() {
    let world = World::with(|options| (options.endpoint_streams_max, options.event_streams_max) = (1, 0));
    world.submit(&job("a", "")).await;
    let follow = || world.ask("GET", "/v1/jobs/a/endpoints?follow=true", "", Body::empty());
    let first = follow().await;
    assert_eq!((first.status(), follow().await.status()), (StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE));
    assert_eq!(world.get("/v1/jobs/a/endpoints").await.0, StatusCode::OK, "a list is no stream");
}
