//! Rollouts of services.

use super::world::World;
use axum::body::{Body, BodyDataStream};
use axum::http::StatusCode;
use ohm_cell::TaskState;
use ohm_model::{Exit, RunRef};
use serde_json::{Value, json};
use std::time::Duration;
use tokio_stream::StreamExt;

/// A service of two tasks that is made of `command`.
fn web(command: &str, strategy: &str) -> String {
    let strategy = format!("strategy: {{maxSurge: 1, maxUnavailable: 0{strategy}}}");
    format!(
        "apiVersion: ohm/v1\nkind: Job\nmetadata: {{name: web}}\n\
         spec: {{class: service, count: 2, command: [{command}], {strategy}}}\n"
    )
}

/// A world in which both tasks run.
async fn running(strategy: &str) -> World {
    let world = World::new();
    world.node("n1", 8);
    let (_, answer) = world.submit(&web("one", strategy)).await;
    assert_eq!(answer["accepted"], 1, "{answer}");
    for task in [0, 1] {
        world.place("web", (task, 1), "n1");
    }
    world
}

async fn update(world: &World, document: &str) -> Value {
    world.send("POST", "/v1/submit?update=true", "application/yaml", document.as_bytes()).await.1
}

async fn seen(world: &World) -> Value {
    world.get("/v1/jobs/web/rollout").await.1
}

async fn ask(world: &World, body: Value) -> (StatusCode, Value) {
    world.send("POST", "/v1/jobs/web/rollout", "application/json", body.to_string().as_bytes()).await
}

/// What stops ends, and what waits is placed; whether there was something to do.
fn step(world: &World) -> bool {
    let (stopping, waiting) = {
        let truth = world.truth.lock().unwrap();
        let group = &truth.cell.jobs().find("web").unwrap().groups[0];
        let runs = group.tasks.iter().filter_map(|task| truth.cell.runs().get(task.run));
        let stopping: Vec<RunRef> = runs.filter(|run| run.stop.is_some()).map(|run| run.run).collect();
        (stopping, group.tasks.iter().position(|task| task.state == TaskState::Pending))
    };
    stopping.iter().for_each(|run| world.end(*run, "n1", Exit::Signal(15)));
    if let Some(task) = waiting {
        world.place("web", (task as u32, 1), "n1");
    }
    !stopping.is_empty() || waiting.is_some()
}

fn go_on(world: &World) {
    assert!((0..50).any(|_| !step(world)), "it never ends");
}

#[tokio::test]
async fn it_is_told_how_far_a_rollout_is_and_what_was_before() {
    let world = running("").await;
    let first = seen(&world).await;
    assert_eq!((&first["state"], &first["revision"]), (&"complete".into(), &1.into()), "{first}");
    assert_eq!(first["history"].as_array().unwrap().len(), 1);
    let answer = update(&world, &web("two", "")).await;
    let note = answer["verdicts"][0]["note"].as_str().unwrap();
    assert!(note.contains("ohm rollout status -w web"), "{answer}");
    let rolling = seen(&world).await;
    assert_eq!((&rolling["state"], &rolling["revision"]), (&"rolling".into(), &2.into()), "{rolling}");
    let group = &rolling["groups"][0];
    assert_eq!(
        (&group["count"], &group["surge"], &group["old"], &group["waiting"]),
        (&2.into(), &1.into(), &2.into(), &1.into())
    );
    assert_eq!(rolling["history"][1]["changed"], json!(["spec.groups[0].command"]));
    assert_eq!(rolling["history"][1]["owner"], "ada");
    go_on(&world);
    let complete = seen(&world).await;
    assert_eq!((&complete["state"], &complete["groups"][0]["updatedAvailable"]), (&"complete".into(), &2.into()));
    assert_eq!(complete["message"], "every task is of revision 2");
    assert_eq!(complete["groups"][0]["surge"], 0);
}

#[tokio::test]
async fn a_job_is_shown_as_it_was_asked_for_whatever_is_wanted_for_the_moment() {
    let world = running("").await;
    update(&world, &web("two", "")).await;
    let (_, job) = world.get("/v1/jobs/web").await;
    let group = &job["spec"]["spec"]["groups"][0];
    assert_eq!((&group["count"], &group["command"]), (&2.into(), &json!(["two"])), "{job}");
    assert_eq!((&job["tasks"]["total"], &job["tasks"]["pending"]), (&2.into(), &1.into()));
    assert_eq!(job["rollout"]["state"], "rolling");
    let revisions: Vec<&Value> =
        job["groups"][0]["tasks"].as_array().unwrap().iter().map(|task| &task["revision"]).collect();
    assert_eq!(revisions, [&json!(1), &json!(1), &Value::Null]);
    let (status, scaled) = world.send("POST", "/v1/jobs/web/scale?count=3", "application/json", b"").await;
    assert_eq!((status, &scaled["tasks"]["total"]), (StatusCode::OK, &3.into()), "{scaled}");
    let (_, job) = world.get("/v1/jobs/web").await;
    let group = &job["spec"]["spec"]["groups"][0];
    assert_eq!((&group["count"], &group["command"]), (&3.into(), &json!(["two"])), "{job}");
    let again = update(&world, &web("two", "").replace("count: 2", "count: 3")).await;
    assert_eq!(again["unchanged"], 1, "{again}");
    let (_, waited) = world.get("/v1/jobs/web/wait?for=ready&timeout=0").await;
    assert_eq!(waited["reached"], true, "{waited}");
    go_on(&world);
    assert_eq!(seen(&world).await["groups"][0]["updatedAvailable"], 3);
}

#[tokio::test]
async fn a_rollout_is_paused_resumed_and_undone() {
    let world = running("").await;
    let (_, early) = ask(&world, json!({"action": "pause"})).await;
    assert_eq!(early["state"], "complete", "{early}");
    assert!(early["message"].as_str().unwrap().contains("the next revision waits"), "{early}");
    update(&world, &web("two", "")).await;
    let (status, paused) = ask(&world, json!({"action": "pause"})).await;
    assert_eq!((status, &paused["state"]), (StatusCode::OK, &"paused".into()), "{paused}");
    assert!(paused["message"].as_str().unwrap().contains("ohm rollout resume web"));
    let (_, resumed) = ask(&world, json!({"action": "resume"})).await;
    assert_eq!(resumed["state"], "rolling");
    go_on(&world);
    let (_, back) = ask(&world, json!({"action": "undo"})).await;
    assert_eq!((&back["state"], &back["revision"]), (&"rolling".into(), &1.into()), "{back}");
    go_on(&world);
    assert_eq!(seen(&world).await["message"], "every task is of revision 1");
    let (_, forth) = ask(&world, json!({"action": "undo", "revision": 2})).await;
    assert_eq!(forth["revision"], 2);
    let actors = world.truth.lock().unwrap().actors.clone();
    assert!(actors.iter().all(|actor| *actor == "ada".into()), "{actors:?}");
}

#[tokio::test]
async fn canaries_wait_to_be_promoted() {
    let world = running(", canary: 1").await;
    update(&world, &web("two", ", canary: 1")).await;
    let (status, early) = ask(&world, json!({"action": "promote"})).await;
    assert_eq!((status, &early["error"]["code"]), (StatusCode::CONFLICT, &"wrong_state".into()), "{early}");
    go_on(&world);
    let waiting = seen(&world).await;
    assert_eq!((&waiting["state"], &waiting["groups"][0]["old"]), (&"waiting".into(), &2.into()), "{waiting}");
    assert!(waiting["message"].as_str().unwrap().contains("ohm rollout promote web"));
    let (_, promoted) = ask(&world, json!({"action": "promote"})).await;
    assert_eq!(promoted["state"], "rolling");
    go_on(&world);
    assert_eq!(seen(&world).await["state"], "complete");
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let world = running("").await;
    world.submit(&super::world::job("a", "")).await;
    for (path, body, status, part) in [
        ("web", "{}", 400, "missing field `action`"),
        ("web", "", 400, "the body"),
        ("web", "{\"action\": \"stop\"}", 400, "unknown variant"),
        ("web", "{\"action\": \"pause\", \"revision\": 1}", 400, "only `undo`"),
        ("web", "{\"action\": \"undo\", \"to\": 1}", 400, "unknown field"),
        ("web", "{\"action\": \"undo\"}", 409, "first revision"),
        ("web", "{\"action\": \"undo\", \"revision\": 7}", 422, "7 is not known"),
        ("web", "{\"action\": \"promote\"}", 409, "nothing to promote"),
        ("a", "{\"action\": \"pause\"}", 409, "services"),
        ("nobody", "{\"action\": \"pause\"}", 404, "nobody"),
    ] {
        let path = format!("/v1/jobs/{path}/rollout");
        let (found, answer) = world.send("POST", &path, "application/json", body.as_bytes()).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(found.as_u16() == status && message.contains(part), "{path} {body}: {found} {answer}");
    }
    let (status, answer) = world.get("/v1/jobs/a/rollout").await;
    assert_eq!((status, &answer["error"]["code"]), (StatusCode::CONFLICT, &"wrong_state".into()), "{answer}");
}

/// The view in the next message of a stream.
async fn next(stream: &mut BodyDataStream) -> Value {
    let piece = tokio::time::timeout(Duration::from_secs(10), stream.next()).await.unwrap().unwrap().unwrap();
    let text = String::from_utf8(piece.to_vec()).unwrap();
    assert!(text.contains("event: rollout\n") && text.contains("id: "), "{text}");
    serde_json::from_str(text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap()).unwrap()
}

#[tokio::test]
async fn a_stream_tells_of_each_change() {
    let world = running("").await;
    let response = world.ask("GET", "/v1/jobs/web/rollout?follow=true", "", Body::empty()).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut stream = response.into_body().into_data_stream();
    assert_eq!(next(&mut stream).await["state"], "complete");
    // What changes nothing about it is not told.
    world.submit(&super::world::job("b", "")).await;
    update(&world, &web("two", "")).await;
    let mut state = next(&mut stream).await;
    assert_eq!(state["revision"], 2);
    while state["state"] != "complete" {
        step(&world);
        state = next(&mut stream).await;
    }
}

#[tokio::test]
async fn streams_of_rollouts_are_bounded_by_themselves() {
    let world = World::with(|options| (options.rollout_streams_max, options.event_streams_max) = (1, 0));
    world.submit(&web("one", "")).await;
    let follow = || world.ask("GET", "/v1/jobs/web/rollout?follow=true", "", Body::empty());
    let first = follow().await;
    assert_eq!((first.status(), follow().await.status()), (StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE));
    assert_eq!(world.get("/v1/jobs/web/rollout").await.0, StatusCode::OK, "a view is no stream");
}
