//! Waiting, output and events.

use super::world::{EVENTS_MAX, World, job, read};
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use ohm_model::{Command, Exit};
use std::time::{Duration, Instant};
use tokio_stream::StreamExt;

#[tokio::test]
async fn waiting_ends_with_the_state_or_with_the_time() {
    let world = World::new();
    world.node("n1", 4);
    world.submit(&job("a", "")).await;
    let (status, answer) = world.get("/v1/jobs/a/wait?timeout=0").await;
    assert_eq!((status, &answer["reached"]), (StatusCode::OK, &false.into()));
    let started = Instant::now();
    let wait = async {
        let (_, running) = world.get("/v1/jobs/a/wait?for=running&timeout=60").await;
        let (_, finished) = world.get("/v1/jobs/a/wait?timeout=60").await;
        (running, finished)
    };
    let work = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let run = world.run("a", "n1");
        tokio::time::sleep(Duration::from_millis(20)).await;
        world.end(run, "n1", Exit::Code(0));
    };
    let ((running, finished), ()) = tokio::join!(wait, work);
    assert_eq!((&running["reached"], &running["job"]["state"]), (&true.into(), &"running".into()));
    assert_eq!((&finished["reached"], &finished["job"]["state"]), (&true.into(), &"succeeded".into()));
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(world.get("/v1/jobs/nobody/wait").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_thousand_who_wait_cost_little() {
    let world = World::new();
    world.submit(&job("a", "")).await;
    let waiters = (0..1000).map(|_| {
        let request = axum::http::Request::get("/v1/jobs/a/wait?timeout=60")
            .header("host", "localhost")
            .header("authorization", format!("Bearer {}", super::world::TOKEN));
        let router = world.router.clone();
        tokio::spawn(tower::ServiceExt::oneshot(router, request.body(Body::empty()).unwrap()))
    });
    let waiters: Vec<_> = waiters.collect();
    for round in 0..50 {
        world.submit(&job(&format!("b{round}"), "")).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    world.truth.lock().unwrap().person(Command::CancelJob { name: "a".into(), grace_ms: None });
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap().unwrap().status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn output_comes_as_it_is_written() {
    let world = World::new();
    world.node("n1", 4);
    world.submit(&job("a", ", count: 1")).await;
    let (status, answer) = world.get("/v1/jobs/a/logs").await;
    assert_eq!((status, answer["error"]["code"].as_str()), (StatusCode::CONFLICT, Some("not_started")));
    let run = world.run("a", "n1");
    let (status, answer) = world.get("/v1/jobs/a/logs").await;
    assert_eq!((status, answer["error"]["code"].as_str()), (StatusCode::BAD_GATEWAY, Some("log_unreadable")));
    world.log(run, vec![Ok(Bytes::from("one\n")), Ok(Bytes::from("two \u{fffd}\n"))]);
    let response = world.ask("GET", "/v1/jobs/a/logs?group=main&task=0", "application/json", Body::empty()).await;
    assert_eq!(response.headers()["x-content-type-options"], "nosniff");
    assert_eq!(read(response).await, "one\ntwo \u{fffd}\n".as_bytes());
    world.log(run, vec![Ok(Bytes::from("one\n")), Err("the agent went away".into())]);
    let response = world.ask("GET", "/v1/jobs/a/logs", "application/json", Body::empty()).await;
    let pieces: Vec<_> = response.into_body().into_data_stream().collect().await;
    assert_eq!((pieces.len(), pieces[1].is_err()), (2, true));
    for (path, named) in [("a/logs?task=1", "its tasks are 0 to 0"), ("a/logs?group=x", "its groups are main")] {
        let (status, answer) = world.get(&format!("/v1/jobs/{path}")).await;
        assert_eq!((status, answer["error"]["hint"].as_str()), (StatusCode::NOT_FOUND, Some(named)));
    }
}

#[tokio::test]
async fn events_come_as_a_page_and_as_a_stream() {
    let world = World::new();
    world.node("n1", 4);
    world.submit(&job("a", "")).await;
    world.submit(&job("b", "")).await;
    let run = world.run("a", "n1");
    world.end(run, "n1", Exit::Code(0));
    let (_, page) = world.get("/v1/events?job=a").await;
    let events = page["events"].as_array().unwrap();
    let messages: Vec<&str> = events.iter().map(|event| event["message"].as_str().unwrap()).collect();
    assert_eq!(
        messages,
        [
            "job a submitted",
            "task 0 of a placed on n1",
            "job a is running",
            "task 0 of a runs on n1",
            "task 0 of a on n1 ended: exit 0",
            "job a is succeeded",
        ]
    );
    let (_, last) = world.get("/v1/events?limit=1").await;
    assert_eq!(last["events"].as_array().unwrap().len(), 1);
    assert_eq!(last["next"], page["next"]);
    let path = format!("/v1/events?follow=true&after={}", page["next"]);
    let response = world.ask("GET", &path, "application/json", Body::empty()).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut stream = response.into_body().into_data_stream();
    world.submit(&job("c", "")).await;
    let piece = tokio::time::timeout(Duration::from_secs(10), stream.next()).await.unwrap().unwrap().unwrap();
    let text = String::from_utf8(piece.to_vec()).unwrap();
    assert!(text.contains("event: jobSubmitted") && text.contains("job c submitted"), "{text}");
    assert!(text.contains("id: "), "{text}");
}

#[tokio::test]
async fn a_reader_is_told_what_it_missed() {
    let world = World::new();
    world.node("n1", 4);
    let (_, page) = world.get("/v1/events").await;
    let next = page["next"].as_u64().unwrap();
    let response = world.ask("GET", &format!("/v1/events?follow=true&after={next}"), "", Body::empty()).await;
    let mut stream = response.into_body().into_data_stream();
    // All of it happens before the stream looks again.
    let cordon = |number: usize| Command::CordonNode { name: "n1".into(), cordoned: number.is_multiple_of(2) };
    (0..EVENTS_MAX + 7).for_each(|number| drop(world.truth.lock().unwrap().person(cordon(number))));
    let piece = tokio::time::timeout(Duration::from_secs(10), stream.next()).await.unwrap().unwrap().unwrap();
    let text = String::from_utf8(piece.to_vec()).unwrap();
    assert!(text.contains("event: dropped") && !text.contains("id: "), "{text}");
    let message = format!("dropped 7 events since entry {next}: this server no longer has them");
    assert!(text.contains(&message) && text.contains("\"count\":7"), "{text}");
    let (_, page) = world.get(&format!("/v1/events?after={next}")).await;
    let first = &page["events"][0];
    assert_eq!((&first["kind"], &first["index"]), (&"dropped".into(), &next.into()));
    let (_, page) = world.get("/v1/events").await;
    assert_eq!(page["events"][0]["kind"], "nodeCordoned", "whoever asks for the last events misses none");
}

#[tokio::test]
async fn streams_are_bounded_and_give_their_room_back() {
    let world = World::with(|options| (options.event_streams_max, options.log_streams_max) = (1, 0));
    world.node("n1", 4);
    world.submit(&job("a", "")).await;
    world.run("a", "n1");
    let (status, answer) = world.get("/v1/jobs/a/logs").await;
    assert_eq!((status, &answer["error"]["code"]), (StatusCode::SERVICE_UNAVAILABLE, &"too_many_streams".into()));
    let follow = || world.ask("GET", "/v1/events?follow=true", "", Body::empty());
    let first = follow().await;
    assert_eq!((first.status(), follow().await.status()), (StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE));
    assert_eq!(world.get("/v1/events").await.0, StatusCode::OK, "a page is no stream");
    drop(first);
    tokio::time::timeout(Duration::from_secs(10), async {
        while follow().await.status() != StatusCode::OK {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn output_of_a_removed_node_is_gone_although_its_slot_is_used_again() {
    let world = World::new();
    world.node("n1", 4);
    world.submit(&job("a", ", retries: 3")).await;
    let run = world.run("a", "n1");
    world.end(run, "n1", Exit::Code(1));
    assert_eq!(world.send("DELETE", "/v1/nodes/n1", "application/json", b"").await.0, StatusCode::NO_CONTENT);
    world.node("n2", 4);
    let (status, answer) = world.get("/v1/jobs/a/logs?task=0").await;
    assert_eq!((status, answer["error"]["code"].as_str()), (StatusCode::GONE, Some("node_gone")));
    assert_eq!(world.get("/v1/jobs/a").await.1["state"], "pending", "the job goes on");
}
