//! Commands about jobs and nodes.

use super::world::{World, job};
use axum::http::StatusCode;
use ohm_model::{Command, Outcome};
use serde_json::Value;

async fn post(world: &World, path: &str) -> (StatusCode, Value) {
    world.send("POST", path, "application/json", b"").await
}

#[tokio::test]
async fn jobs_are_suspended_resumed_and_cancelled() {
    let world = World::new();
    world.submit(&job("a", "")).await;
    for (action, state) in [
        ("suspend", "suspended"),
        ("suspend", "suspended"),
        ("resume", "pending"),
        ("cancel", "cancelled"),
        ("cancel", "cancelled"),
    ] {
        let (status, answer) = post(&world, &format!("/v1/jobs/a/{action}")).await;
        assert_eq!((status, answer["state"].as_str()), (StatusCode::OK, Some(state)), "{action}: {answer}");
    }
    let (status, answer) = post(&world, "/v1/jobs/a/resume").await;
    assert_eq!((status, answer["error"]["code"].as_str()), (StatusCode::CONFLICT, Some("wrong_state")));
    let (status, answer) = post(&world, "/v1/jobs/nobody/cancel").await;
    assert_eq!((status, answer["error"]["code"].as_str()), (StatusCode::NOT_FOUND, Some("not_found")));
}

#[tokio::test]
async fn nodes_are_cordoned_and_removed() {
    let world = World::new();
    world.node("n1", 4);
    let (status, answer) = post(&world, "/v1/nodes/n1/cordon").await;
    assert_eq!((status, &answer["cordoned"], &answer["schedulable"]), (StatusCode::OK, &true.into(), &false.into()));
    let (_, answer) = post(&world, "/v1/nodes/n1/uncordon").await;
    assert_eq!((&answer["cordoned"], &answer["schedulable"]), (&false.into(), &true.into()));
    world.submit(&job("a", "")).await;
    world.run("a", "n1");
    let (status, answer) = world.send("DELETE", "/v1/nodes/n1", "application/json", b"").await;
    assert_eq!((status, answer["error"]["code"].as_str()), (StatusCode::CONFLICT, Some("wrong_state")), "{answer}");
    world.node("n2", 4);
    let (status, _) = world.send("DELETE", "/v1/nodes/n2", "application/json", b"").await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let (status, _) = world.get("/v1/nodes/n2").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_was_written_is_read_at_once() {
    let world = World::new();
    for round in 0..50 {
        let name = format!("j{round}");
        world.submit(&job(&name, "")).await;
        assert_eq!(world.get(&format!("/v1/jobs/{name}")).await.0, StatusCode::OK);
        let outcome = world.truth.lock().unwrap().person(Command::CancelJob { name: name.clone() });
        assert_eq!(outcome, Outcome::Done);
        assert_eq!(world.get(&format!("/v1/jobs/{name}")).await.1["state"], "cancelled");
    }
}

#[tokio::test]
async fn queues_and_topologies_are_removed_when_nothing_names_them() {
    let world = World::new();
    let documents = "{apiVersion: ohm/v1, kind: Queue, metadata: {name: q}, spec: {}}\n---\n\
                     {apiVersion: ohm/v1, kind: Topology, metadata: {name: t}, spec: {levels: [{nodeLabel: rack}]}}\n";
    let (status, answer) = world.send("POST", "/v1/submit", "application/yaml", documents.as_bytes()).await;
    assert_eq!((status, &answer["accepted"]), (StatusCode::OK, &2.into()), "{answer}");
    world.submit(&job("a", ", queue: q")).await;
    let (status, answer) = world.send("DELETE", "/v1/queues/q", "application/json", b"").await;
    assert_eq!((status, answer["error"]["code"].as_str()), (StatusCode::CONFLICT, Some("wrong_state")), "{answer}");
    let (status, _) = world.send("DELETE", "/v1/topologies/t", "application/json", b"").await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let (status, _) = world.send("DELETE", "/v1/topologies/t", "application/json", b"").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}
