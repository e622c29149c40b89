//! What answers say.

use super::world::{World, job, read};
use axum::body::Body;
use axum::http::StatusCode;
use ohm_model::{Class, Command, Exit, Role};
use serde_json::json;

#[tokio::test]
async fn a_job_is_shown_from_submit_to_end() {
    let world = World::new();
    world.node("n1", 4);
    world.submit(&job("a", ", count: 2, requests: {cpu: 500m, memory: 1Gi}")).await;
    let (_, view) = world.get("/v1/jobs/a").await;
    assert_eq!(view["state"], "pending");
    assert_eq!(view["owner"], "ada");
    assert_eq!(view["groups"][0]["requests"], json!({"cpu": "500m", "memory": "1Gi"}));
    assert_eq!(view["groups"][0]["tasks"][1], json!({"task": 1, "state": "pending", "incarnation": 0, "failures": 0}));
    assert_eq!(view["spec"]["spec"]["groups"][0]["count"], 2);
    let run = world.run("a", "n1");
    let (_, view) = world.get("/v1/jobs/a").await;
    assert_eq!(view["state"], "running");
    let task = &view["groups"][0]["tasks"][0];
    assert_eq!((&task["state"], &task["node"], &task["pid"]), (&json!("running"), &json!("n1"), &json!(4711)));
    assert_eq!(view["groups"][0]["tasks"][1]["state"], "placed");
    let (_, node) = world.get("/v1/nodes/n1").await;
    assert_eq!((&node["free"]["cpu"], &node["capacity"]["cpu"], &node["runs"]), (&json!("3"), &json!("4"), &json!(2)));
    let runs: Vec<&str> = node["runList"].as_array().unwrap().iter().map(|r| r["state"].as_str().unwrap()).collect();
    assert_eq!(runs, ["placed", "running"]);
    world.end(run, "n1", Exit::Code(3));
    let (_, view) = world.get("/v1/jobs/a?tasks=1").await;
    assert_eq!(view["state"], "failed");
    let task = &view["groups"][0]["tasks"][0];
    assert_eq!((&task["state"], &task["exit"], &task["exitCode"]), (&json!("failed"), &json!("exit 3"), &json!(3)));
    assert_eq!(view["groups"][0]["tasksOmitted"], 1);
    assert_eq!((&view["pastRuns"][0]["exit"], &view["pastRuns"][0]["node"]), (&json!("exit 3"), &json!("n1")));
    let (_, view) = world.get("/v1/jobs/a?firstTask=1").await;
    assert_eq!(view["groups"][0]["tasks"][0]["state"], "stopping");
    assert_eq!(view["groups"][0]["tasks"][0]["stopCause"], "jobFailed");
    assert_eq!(world.get("/v1/jobs/a?firstTask=99999999999").await.1["groups"][0]["tasks"], json!([]));
}

#[tokio::test]
async fn pages_follow_each_other_by_name() {
    let world = World::new();
    for name in ["c", "a", "e", "b", "d"] {
        world.submit(&job(name, if name == "b" { ", suspend: true" } else { "" })).await;
        world.node(&format!("n-{name}"), 1);
    }
    let names = |list: &serde_json::Value, of: &str| {
        let items = list[of].as_array().unwrap().iter();
        items.map(|item| item["name"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
    };
    let (_, page) = world.get("/v1/jobs?limit=2").await;
    assert_eq!((names(&page, "jobs").as_str(), &page["total"], &page["next"]), ("a b", &json!(5), &json!("b")));
    let (_, page) = world.get("/v1/jobs?limit=2&after=b").await;
    assert_eq!((names(&page, "jobs").as_str(), &page["next"]), ("c d", &json!("d")));
    let (_, page) = world.get("/v1/jobs?limit=2&after=d").await;
    assert_eq!((names(&page, "jobs").as_str(), page.get("next")), ("e", None));
    let (_, page) = world.get("/v1/jobs?state=suspended").await;
    assert_eq!((names(&page, "jobs").as_str(), &page["total"]), ("b", &json!(1)));
    let (_, page) = world.get("/v1/nodes?limit=3&after=n-a").await;
    assert_eq!((names(&page, "nodes").as_str(), &page["next"]), ("n-b n-c n-d", &json!("n-d")));
}

#[tokio::test]
async fn the_cell_is_shown_in_numbers() {
    let world = World::new();
    world.node("n1", 4);
    let documents = [
        "apiVersion: ohm/v1\nkind: Cohort\nmetadata: {name: all}\nspec: {}\n",
        "apiVersion: ohm/v1\nkind: Queue\nmetadata: {name: q}\nspec: {cohort: all, nominalQuota: {cpu: 2}}\n",
        "apiVersion: ohm/v1\nkind: Topology\nmetadata: {name: t}\nspec: {levels: [{nodeLabel: rack}]}\n",
        &job("a", ""),
        &job("b", ", queue: q, suspend: true"),
    ];
    let (status, answer) = world.submit(&documents.join("---\n")).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    world.run("a", "n1");
    let (_, status) = world.get("/v1/status").await;
    assert_eq!(status["nodes"], json!({"total": 1, "ready": 1, "suspect": 0, "lost": 0, "cordoned": 0}));
    assert_eq!((&status["jobs"]["running"], &status["jobs"]["suspended"]), (&json!(1), &json!(1)));
    assert_eq!(status["tasks"]["running"], 1);
    assert_eq!(status["sessions"][0]["role"], "server");
    assert_eq!(status["chain"].as_str().unwrap().len(), 16);
    assert!(status["freeLeases"][0].as_str().unwrap().starts_with("batch/"), "{status}");
    let (_, queues) = world.get("/v1/queues").await;
    assert_eq!(
        queues["queues"][1]["resources"]["cpu"],
        json!({"nominal": "2", "used": "0", "borrowed": "0", "available": "2"})
    );
    assert_eq!((&queues["queues"][0]["kind"], &queues["queues"][1]["suspended"]), (&json!("Cohort"), &json!(1)));
    let (_, topologies) = world.get("/v1/topologies").await;
    assert_eq!(topologies["topologies"][0]["domains"], json!([{"level": "rack", "values": ["r1"], "nodes": 1}]));
}

#[tokio::test]
async fn explanations_name_the_state() {
    let world = World::new();
    world.node("n1", 4);
    world.submit(&[job("a", ", priority: 5"), job("b", ""), job("c", ", suspend: true")].join("---\n")).await;
    let (_, explained) = world.get("/v1/jobs/b/explain").await;
    assert_eq!((&explained["state"], &explained["jobsAhead"]), (&json!("pending"), &json!(1)));
    let (_, explained) = world.get("/v1/jobs/a/explain").await;
    assert_eq!(explained["jobsAhead"], json!(0));
    let (_, explained) = world.get("/v1/jobs/c/explain").await;
    assert_eq!(explained["hint"], "`ohm resume c` lets it be placed again");
    world.run("a", "n1");
    let (_, explained) = world.get("/v1/jobs/a/explain").await;
    assert_eq!(explained["summary"], "a runs: no task of it waits to be placed.");
    assert_eq!(world.get("/v1/jobs/nobody/explain").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_fits_nowhere_is_explained_by_the_planner() {
    let world = World::new();
    world.node("n1", 4);
    world.node("n2", 2);
    world.truth.lock().unwrap().person(Command::CordonNode { name: "n2".into(), cordoned: true });
    world.submit(&[job("big", ", requests: {cpu: 64}"), job("fits", ", requests: {cpu: 1}")].join("---\n")).await;
    let (_, explained) = world.get("/v1/jobs/big/explain").await;
    assert_eq!((&explained["obstacle"], &explained["nodes"]), (&json!("room"), &json!(2)), "{explained}");
    let reasons = explained["reasons"].as_array().unwrap().iter();
    let reasons: Vec<String> = reasons.map(|reason| format!("{} {}", reason["code"], reason["nodes"])).collect();
    assert_eq!(reasons, ["\"cordoned\" 1", "\"capacity\" 1"]);
    assert_eq!(explained["nearest"], json!([{"resource": "cpu", "asked": "64", "free": "4", "node": "n1"}]));
    let counted = json!({"fit": 0, "of": 1, "unit": "task", "totalNodes": 1,
        "excluded": {"resource": {"cpu": 1}}, "unavailable": {"unschedulable": 1}});
    assert_eq!(explained["groups"], json!([{"name": explained["group"], "explain": counted}]));
    assert_eq!(explained["summary"], "big waits for a scheduler: none of class batch runs.");
    let (_, explained) = world.get("/v1/jobs/fits/explain").await;
    assert_eq!((&explained["obstacle"], &explained["profile"]), (&json!("noScheduler"), &json!("batch")));
    world.truth.lock().unwrap().open(Role::Scheduler(Class::BATCH), "batch-1");
    let (_, explained) = world.get("/v1/jobs/fits/explain").await;
    let summary = explained["summary"].as_str().unwrap();
    assert!(summary.starts_with("fits fits: there is room for 1 of its tasks"), "{summary}");
    let service = "apiVersion: ohm/v1\nkind: Job\nmetadata: {name: web}\nspec: {class: service, requests: {cpu: 64}}\n";
    world.submit(service).await;
    assert_eq!(world.get("/v1/jobs/web/explain").await.1["obstacle"], "room");
}

#[tokio::test]
async fn a_profile_makes_a_class_known_and_says_what_its_jobs_leave_out() {
    let world = World::new();
    world.node("n1", 4);
    let profile = "apiVersion: ohm/v1\nkind: SchedulingProfile\nmetadata: {name: edge}\n\
                   spec: {like: service, base: packing, scores: [{name: KeepDevices, weight: 0}]}\n";
    let web = "apiVersion: ohm/v1\nkind: Job\nmetadata: {name: web}\nspec: {class: edge, count: 3}\n";
    let (status, answer) = world.submit(web).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let message = "there is no class \"edge\"; known: batch, service, tas; a SchedulingProfile adds a class";
    assert_eq!(answer["verdicts"][0]["problems"][0]["message"], message);
    let (status, answer) = world.submit(&[profile, web].join("---\n")).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let (_, answer) = world.submit(&[profile, web].join("---\n")).await;
    assert_eq!(answer["unchanged"], 2);
    let (_, job) = world.get("/v1/jobs/web").await;
    assert_eq!(job["groups"][0]["minCount"], 1, "as a service");
    let (_, list) = world.get("/v1/profiles").await;
    let edge = &list["profiles"][1];
    let classes: Vec<&str> =
        list["profiles"].as_array().unwrap().iter().map(|one| one["class"].as_str().unwrap()).collect();
    assert_eq!(classes, ["batch", "edge", "service", "tas"]);
    assert_eq!((&edge["like"], &edge["builtIn"], &edge["jobs"]), (&json!("service"), &json!(false), &json!(1)));
    let scores: Vec<String> = edge["scores"].as_array().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(
        scores,
        [
            r#"{"name":"FragmentationGradient","weight":20}"#,
            r#"{"args":{"scoringStrategy.type":"MostAllocated"},"name":"NodeResourcesFit","weight":1}"#,
            r#"{"name":"NodeAffinity","weight":20}"#,
            r#"{"name":"TaintToleration","weight":30}"#,
            r#"{"name":"InterPodAffinity","weight":20}"#,
            r#"{"name":"DevicePacking","weight":2}"#,
            r#"{"name":"KeepDevices","weight":0}"#,
            r#"{"name":"PodTopologySpread","weight":20}"#,
        ]
    );
    let (_, explained) = world.get("/v1/jobs/web/explain").await;
    assert_eq!((&explained["profile"], &explained["obstacle"]), (&json!("edge"), &json!("noScheduler")));
    assert_eq!(explained["hint"], "`ohm scheduler --class edge` starts one; `ohm profiles` shows how many run");
    world.truth.lock().unwrap().open(Role::Scheduler("edge".parse().unwrap()), "edge-1");
    assert_eq!(world.get("/v1/profiles").await.1["profiles"][1]["replicas"], 1);
    assert_eq!(world.get("/v1/jobs/web/explain").await.1.get("obstacle"), None);
    let path = "/v1/profiles/edge";
    let (status, answer) = world.send("DELETE", path, "application/json", b"").await;
    assert_eq!(status, StatusCode::CONFLICT, "{answer}");
    world.send("POST", "/v1/jobs/web/cancel", "application/json", b"").await;
    assert_eq!(world.send("DELETE", path, "application/json", b"").await.0, StatusCode::NO_CONTENT);
    assert_eq!(world.send("DELETE", path, "application/json", b"").await.0, StatusCode::NOT_FOUND);
    assert_eq!(world.send("DELETE", "/v1/profiles/tas", "application/json", b"").await.0, StatusCode::CONFLICT);
}

#[tokio::test]
async fn questions_see_everything_acknowledged_unless_they_say_otherwise() {
    let world = World::new();
    world.get("/v1/jobs").await;
    assert_eq!(world.truth.lock().unwrap().reads, 1);
    assert_eq!(world.get("/v1/jobs?stale=ok&limit=3").await.0, StatusCode::OK);
    assert_eq!(world.truth.lock().unwrap().reads, 1, "this server's own copy will do");
    let lost = crate::handle::Unanswered::NotServing("no majority".into());
    world.truth.lock().unwrap().read_failures.push(lost);
    let (status, body) = world.get("/v1/jobs").await;
    assert_eq!((status, &body["error"]["code"]), (StatusCode::SERVICE_UNAVAILABLE, &"not_serving".into()));
}

#[tokio::test]
async fn servers_are_listed_removed_and_told_to_lead() {
    let world = World::new();
    let (status, body) = world.get("/v1/servers").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        body["servers"][1],
        serde_json::json!({"server": 2, "role": "voter", "leads": true, "here": false, "address": ""})
    );
    assert_eq!(body["servers"][2]["role"], "learner");
    assert_eq!(world.send("DELETE", "/v1/servers/2", "application/json", b"").await.0, StatusCode::NO_CONTENT);
    let (status, body) = world.send("DELETE", "/v1/servers/1", "application/json", b"").await;
    assert_eq!((status, &body["error"]["message"]), (StatusCode::CONFLICT, &"it is the last voter".into()));
    assert_eq!(world.send("POST", "/v1/servers/2/lead", "application/json", b"").await.0, StatusCode::OK);
    assert_eq!(world.send("POST", "/v1/servers/3/lead", "application/json", b"").await.0, StatusCode::CONFLICT);
    assert_eq!(world.get("/v1/servers/x").await.0, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn clocks_are_shown_and_one_of_them_is_believed() {
    let world = World::new();
    let (_, body) = world.get("/v1/status").await;
    let first = serde_json::json!({"server": 1, "offsetMs": -3, "unbelieved": false});
    let second = serde_json::json!({"server": 2, "offsetMs": 86_400_000, "unbelieved": true});
    assert_eq!(body["clocks"], serde_json::json!([first, second]));
    let believe = |server| world.send("POST", server, "application/json", b"");
    let (status, body) = believe("/v1/servers/2/believe-clock").await;
    assert_eq!((status, body["clocks"].as_array().map(Vec::len)), (StatusCode::OK, Some(2)));
    assert_eq!(believe("/v1/servers/3/believe-clock").await.0, StatusCode::CONFLICT, "nobody heard it");
    assert_eq!(world.truth.lock().unwrap().believed, [2]);
}

#[tokio::test]
async fn a_backup_is_the_whole_state() {
    let world = World::with(|options| options.source = ohm_cell::BackupSource { cell: 7, cell_incarnation: 3 });
    world.node("n1", 4);
    world.submit(&job("a", "")).await;
    let response = world.ask("GET", "/v1/backup", "application/json", Body::empty()).await;
    let index: u64 = response.headers()["ohm-index"].to_str().unwrap().parse().unwrap();
    let (source, state) = ohm_cell::read_backup(&read(response).await).unwrap();
    assert_eq!((source.cell, source.cell_incarnation), (7, 3));
    let truth = world.truth.lock().unwrap();
    assert_eq!((state.digest(), state.applied().0), (truth.cell.digest(), index));
    assert!(state.jobs().find("a").is_some());
}

#[tokio::test]
async fn what_happened_to_a_forgotten_job_keeps_its_name() {
    let world = World::new();
    world.node("n1", 4);
    world.submit(&job("a", "")).await;
    let run = world.run("a", "n1");
    world.end(run, "n1", Exit::Code(0));
    world.truth.lock().unwrap().person(Command::ForgetJob { name: "a".into() });
    let (_, list) = world.get("/v1/events?job=a").await;
    let told = |kind: &str| {
        let events = list["events"].as_array().unwrap().iter();
        events.filter(|event| event["kind"] == kind).map(|event| event["message"].to_string()).collect::<String>()
    };
    assert_eq!(told("placed"), "\"task 0 of a placed on n1\"");
    assert_eq!(told("ended"), "\"task 0 of a on n1 ended: exit 0\"");
    assert_eq!(told("jobForgotten"), "\"job a is forgotten\"");
}

#[tokio::test]
async fn sessions_that_are_dead_are_told_from_those_that_live() {
    let world = World::new();
    {
        let mut truth = world.truth.lock().unwrap();
        for (role, name) in [
            (Role::Health, "health old"),
            (Role::Scheduler(Class::BATCH), "scheduler 1"),
            (Role::Scheduler(Class::BATCH), "scheduler 1"),
        ] {
            truth.open(role, name);
        }
        (0..20).for_each(|_| drop(truth.person(Command::Tick)));
        truth.open(Role::Health, "health new");
    }
    let (_, status) = world.get("/v1/status").await;
    let states: Vec<&str> =
        status["sessions"].as_array().unwrap().iter().map(|session| session["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["alive", "silent", "replaced", "silent", "alive"]);
}
