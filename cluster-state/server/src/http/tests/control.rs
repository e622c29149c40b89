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
    for (grace, expected) in
        [("0", StatusCode::OK), ("86401", StatusCode::BAD_REQUEST), ("-1", StatusCode::BAD_REQUEST)]
    {
        let (status, answer) = post(&world, &format!("/v1/jobs/a/cancel?graceSeconds={grace}")).await;
        assert_eq!(status, expected, "{grace}: {answer}");
    }
    let (status, answer) = post(&world, "/v1/jobs/a/resume").await;
    assert_eq!((status, answer["error"]["code"].as_str()), (StatusCode::CONFLICT, Some("wrong_state")));
    let (status, answer) = post(&world, "/v1/jobs/nobody/cancel").await;
    assert_eq!((status, answer["error"]["code"].as_str()), (StatusCode::NOT_FOUND, Some("not_found")));
}

#[tokio::test]
async fn the_log_says_who_asked() {
    let world = World::new();
    world.node("n1", 4);
    world.submit(&job("a", "")).await;
    post(&world, "/v1/jobs/a/scale?count=2").await;
    post(&world, "/v1/nodes/n1/cordon").await;
    post(&world, "/v1/jobs/a/cancel").await;
    let actors = world.truth.lock().unwrap().actors.clone();
    assert_eq!(actors, vec!["ada".into(); 4]);
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
async fn nodes_are_tainted_and_untainted() {
    let world = World::new();
    world.node("n1", 4);
    let (status, answer) = post(&world, "/v1/nodes/n1/taint?taint=work=disk:NoSchedule").await;
    assert_eq!((status, &answer["taints"]), (StatusCode::OK, &serde_json::json!(["work=disk:NoSchedule"])));
    assert_eq!(answer["putTaints"][0]["taint"], "work=disk:NoSchedule");
    for (path, part) in [
        ("n1/taint?taint=work=disk", "an effect is missing"),
        ("n1/taint?taint=work=disk:Never", "PreferNoSchedule"),
        ("n1/taint?taint=work=other:NoSchedule", "has work=disk:NoSchedule already"),
        ("n1/taint?taint=node.ohm/flapping:NoSchedule", "choose another key"),
        ("n2/taint?taint=work:NoSchedule", "n2"),
        ("n1/untaint?taint=work=disk:NoExecute", "work=disk:NoExecute on node n1"),
        ("n1/untaint?taint=a%20b", "no key"),
    ] {
        let (status, answer) = post(&world, &format!("/v1/nodes/{path}")).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(status.is_client_error() && message.contains(part), "{path}: {status} {answer}");
    }
    let (status, answer) = post(&world, "/v1/nodes/n1/untaint?taint=work").await;
    assert_eq!((status, &answer["taints"], &answer["putTaints"]), (StatusCode::OK, &Value::Null, &Value::Null));
}

#[tokio::test]
async fn what_was_written_is_read_at_once() {
    let world = World::new();
    for round in 0..50 {
        let name = format!("j{round}");
        world.submit(&job(&name, "")).await;
        assert_eq!(world.get(&format!("/v1/jobs/{name}")).await.0, StatusCode::OK);
        let outcome = world.truth.lock().unwrap().person(Command::CancelJob { name: name.clone(), grace_ms: None });
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

#[tokio::test]
async fn a_group_is_scaled_by_its_count_alone() {
    let world = World::new();
    world.submit(&job("a", ", array: 2, priority: 4")).await;
    let (status, answer) = post(&world, "/v1/jobs/a/scale?count=6").await;
    assert_eq!((status, &answer["tasks"]["pending"], &answer["priority"]), (StatusCode::OK, &6.into(), &4.into()));
    let groups = "[{name: x, count: 2, command: [work]}, {name: y, count: 3, command: [work]}]";
    let two = format!("apiVersion: ohm/v1\nkind: Job\nmetadata: {{name: b}}\nspec: {{groups: {groups}}}\n");
    let (status, answer) = world.submit(&two).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let (status, answer) = post(&world, "/v1/jobs/b/scale?count=6").await;
    assert_eq!(
        (status, answer["error"]["hint"].as_str()),
        (StatusCode::BAD_REQUEST, Some("say which one to scale: x, y"))
    );
    let (status, answer) = post(&world, "/v1/jobs/b/scale?count=6&group=z").await;
    assert_eq!((status, answer["error"]["hint"].as_str()), (StatusCode::BAD_REQUEST, Some("it has: x, y")));
    let (status, answer) = post(&world, "/v1/jobs/b/scale?count=6&group=y").await;
    assert_eq!((status, &answer["tasks"]["pending"]), (StatusCode::OK, &8.into()), "{answer}");
    let (status, answer) = post(&world, "/v1/jobs/b/scale?count=0&group=y").await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    let (status, _) = post(&world, "/v1/jobs/nobody/scale?count=1").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}
