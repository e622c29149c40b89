//! The page of one queue, and what holds and bounds of queues look like.

use super::world::{World, job};
use axum::http::StatusCode;
use serde_json::json;

fn queue(more: &str) -> String {
    format!("apiVersion: ohm/v1\nkind: Queue\nmetadata: {{name: q}}\nspec: {{nominalQuota: {{cpu: 8}}{more}}}\n")
}

#[tokio::test]
async fn a_queue_shows_who_waits_and_who_runs() {
    let world = World::new();
    world.node("n1", 4);
    let jobs = [
        queue(", maxWaitingJobs: 9"),
        job("runs", ", queue: q, requests: {cpu: 2}"),
        job("young", ", queue: q, requests: {cpu: 64}"),
        job("first", ", queue: q, priority: 5"),
        job("asleep", ", queue: q, suspend: true"),
        job("other", ""),
    ];
    let (status, answer) = world.submit(&jobs.join("---\n")).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    world.run("runs", "n1");
    let (status, page) = world.get("/v1/queues/q").await;
    assert_eq!(status, StatusCode::OK, "{page}");
    let waiting: Vec<_> =
        page["waiting"].as_array().unwrap().iter().map(|job| (&job["position"], &job["name"])).collect();
    assert_eq!(waiting, [(&json!(1), &json!("first")), (&json!(2), &json!("young"))]);
    let active = &page["active"][0];
    assert_eq!((&active["name"], &active["quota"]), (&json!("runs"), &json!({"cpu": "2"})));
    assert!(active["sinceMs"].as_u64().unwrap() > 0);
    assert_eq!((&page["pending"], &page["running"], &page["suspended"]), (&json!(2), &json!(1), &json!(1)));
    assert_eq!((&page["queueingStrategy"], &page["maxWaitingJobs"]), (&json!("BestEffortFIFO"), &json!(9)));
    let (_, explained) = world.get("/v1/jobs/young/explain").await;
    assert_eq!(page["waiting"][1]["reason"], explained["summary"]);
    let (_, page) = world.get("/v1/queues/q?limit=1").await;
    assert_eq!((page["waiting"].as_array().unwrap().len(), &page["pending"]), (1, &json!(2)));
    assert_eq!(world.get("/v1/queues/none").await.0, StatusCode::NOT_FOUND);
    assert_eq!(world.get("/v1/queues/q?most=1").await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_job_that_was_not_ready_in_time_says_so_everywhere() {
    let world = World::new();
    world.node("n1", 4);
    let timeout = ", readyTimeout: {timeoutSeconds: 20, backoffBaseSeconds: 50, backoffLimit: 1}";
    world.submit(&[queue(timeout), job("a", ", queue: q, count: 2, minCount: 2")].join("---\n")).await;
    let (_, page) = world.get("/v1/queues/q").await;
    let told = json!({"timeoutSeconds": 20, "recoveryTimeoutSeconds": 20, "backoffBaseSeconds": 50,
        "backoffMaxSeconds": 3600, "backoffLimit": 1});
    assert_eq!(page["readyTimeout"], told);
    let run = world.run("a", "n1");
    let (_, page) = world.get("/v1/jobs/a").await;
    let readiness = &page["readiness"];
    let left = readiness["dueMs"].as_u64().unwrap() - readiness["unreadySinceMs"].as_u64().unwrap();
    assert_eq!((left, &readiness["timeouts"]), (20_000, &json!(null)), "{page}");
    world.ticks(20);
    let reason = "not ready within 20 s (readyTimeout), attempt 1 of 2";
    let (_, explained) = world.get("/v1/jobs/a/explain").await;
    assert_eq!(explained["summary"], format!("a stops, and then waits: {reason}."));
    world.end(run, "n1", ohm_model::Exit::Signal(15));
    world.end(ohm_model::RunRef::new(run.task.job, 0, 1, 1), "n1", ohm_model::Exit::NeverStarted);
    let (_, page) = world.get("/v1/jobs/a").await;
    assert_eq!((&page["state"], &page["reason"]), (&json!("pending"), &json!(reason)), "{page}");
    assert_eq!(page["admission"]["state"], "notReady");
    let readiness = &page["readiness"];
    assert_eq!((&readiness["timeouts"], &readiness["backoffLimit"]), (&json!(1), &json!(1)));
    assert!(readiness["untilMs"].as_u64().unwrap() > 0);
    assert_eq!(page["pastRuns"][0]["stopCause"], "readyTimeout");
    let (_, explained) = world.get("/v1/jobs/a/explain").await;
    // No scheduler runs here, which is told first.
    let told = explained["details"][0].as_str().unwrap();
    assert!(told.contains("the end of its back-off in ") && told.contains(reason), "{explained}");
    let (_, page) = world.get("/v1/queues/q").await;
    assert_eq!(page["waiting"][0]["reason"], explained["summary"]);
    let (_, events) = world.get("/v1/events?job=a").await;
    let late = events["events"].as_array().unwrap().iter().find(|event| event["kind"] == "readyTimeout").unwrap();
    let told = "job a is stopped and waits for 50 s: not ready within 20 s (readyTimeout of queue q), attempt 1 of 2";
    assert_eq!(late["message"], told);
}

#[tokio::test]
async fn a_held_queue_says_so_everywhere() {
    let world = World::new();
    world.node("n1", 4);
    world.submit(&[queue(", stopPolicy: Hold"), job("a", ", queue: q")].join("---\n")).await;
    let reason = "queue q is held (stopPolicy: Hold)";
    let (_, list) = world.get("/v1/jobs").await;
    let listed = &list["jobs"][0];
    assert_eq!(
        (&listed["state"], &listed["held"], &listed["reason"]),
        (&json!("pending"), &json!("Hold"), &json!(reason))
    );
    let (_, page) = world.get("/v1/jobs/a").await;
    assert_eq!((&page["admission"]["state"], &page["admission"]["problem"]), (&json!("held"), &json!(reason)));
    let (_, explained) = world.get("/v1/jobs/a/explain").await;
    assert_eq!(explained["obstacle"], "held", "{explained}");
    let (_, page) = world.get("/v1/queues/q").await;
    assert_eq!((&page["stopPolicy"], &page["waiting"][0]["reason"]), (&json!("Hold"), &explained["summary"]));
    world.submit(&queue("")).await;
    let (_, list) = world.get("/v1/jobs").await;
    assert_eq!((&list["jobs"][0]["held"], &list["jobs"][0]["reason"]), (&json!(null), &json!(null)));
}

#[tokio::test]
async fn one_job_too_many_is_refused() {
    let world = World::new();
    let documents = [queue(", maxWaitingJobs: 1"), job("a", ", queue: q"), job("b", ", queue: q")];
    let (status, answer) = world.submit(&documents.join("---\n")).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    let refused = answer["verdicts"].as_array().unwrap().iter().find(|verdict| verdict["name"] == "b").unwrap();
    let problem = &refused["problems"][0];
    assert_eq!(problem["field"], "spec.queue", "{answer}");
    assert!(
        problem["message"].as_str().unwrap().starts_with("queue \"q\" is full: waiting jobs 1, at most 1"),
        "{answer}"
    );
    assert_eq!(world.submit(&job("a", ", queue: q")).await.0, StatusCode::OK);
}

#[tokio::test]
async fn the_metrics_tell_of_queues_in_whole_units() {
    let world = World::new();
    world.node("n1", 4);
    let cohort = "apiVersion: ohm/v1\nkind: Cohort\nmetadata: {name: all}\nspec: {nominalQuota: {cpu: 1500m}}\n";
    let jobs = [
        cohort.to_string(),
        queue(", cohort: all"),
        job("runs", ", queue: q, requests: {cpu: 2}"),
        job("a", ", queue: q"),
    ];
    let (status, answer) = world.submit(&jobs.join("---\n")).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    world.run("runs", "n1");
    let page = world.page("/metrics").await;
    for line in [
        "ohm_queue_nominal{queue=\"q\",flavor=\"\",resource=\"cpu\"} 8",
        "ohm_queue_nominal{queue=\"all\",flavor=\"\",resource=\"cpu\"} 1.5",
        "ohm_queue_used{queue=\"q\",flavor=\"\",resource=\"cpu\"} 2",
        "ohm_queue_borrowed{queue=\"q\",flavor=\"\",resource=\"cpu\"} 0",
        "ohm_queue_jobs{queue=\"q\",state=\"pending\"} 1",
        "ohm_queue_jobs{queue=\"q\",state=\"running\"} 1",
        "ohm_queue_weighted_share{queue=\"q\"} 0",
    ] {
        assert!(page.lines().any(|known| known == line), "{line} is not in\n{page}");
    }
}
