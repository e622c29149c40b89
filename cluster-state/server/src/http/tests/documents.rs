//! Submitting.

use super::world::{World, job, read};
use crate::handle::Unanswered;
use axum::body::Body;
use axum::http::StatusCode;
use serde_json::Value;

/// Verdicts as `document line kind/name verdict field`.
fn lines(answer: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_string();
    let verdicts = answer["verdicts"].as_array().cloned().unwrap_or_default();
    verdicts
        .iter()
        .map(|verdict| {
            let (document, line) = (&verdict["document"], &verdict["line"]);
            let (kind, name, word) = (text(&verdict["kind"]), text(&verdict["name"]), text(&verdict["verdict"]));
            let field = text(&verdict["problems"][0]["field"]);
            format!("{document} {line} {kind}/{name} {word} {field}")
        })
        .collect()
}

#[tokio::test]
async fn every_document_gets_its_own_verdict() {
    let world = World::new();
    let queue = "apiVersion: ohm/v1\nkind: Queue\nmetadata: {name: q}\nspec: {nominalQuota: {cpu: 4}}\n";
    let input = [
        &job("first", ""),
        "kind: Job\nspec: {cuont: 1\n",
        &job("second", ", queue: q"),
        queue,
        &job("third", ", queue: q"),
        &job("fourth", ", count: -3"),
        "apiVersion: ohm/v1\nkind: Node\nmetadata: {name: n}\nstatus: {capacity: {cpu: 1}}\n",
    ]
    .join("---\n");
    let (status, answer) = world.submit(&input).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        lines(&answer),
        [
            "1 1 Job/first accepted -",
            "2 7 -/- refused -",
            "3 9 Job/second refused spec.queue",
            "4 14 Queue/q accepted -",
            "5 19 Job/third accepted -",
            "6 27 -/- refused spec.count",
            "7 29 Node/n refused kind",
        ]
    );
    assert_eq!((&answer["accepted"], &answer["refused"]), (&3.into(), &4.into()));
    let (status, answer) = world.submit(&[job("first", ""), queue.into()].join("---\n")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(lines(&answer), ["1 1 Job/first unchanged -", "2 6 Queue/q unchanged -"]);
    let (status, answer) = world.submit(&job("first", ", count: 2")).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(lines(&answer), ["1 1 Job/first refused metadata.name"]);
    let (_, list) = world.get("/v1/jobs?owner=ada").await;
    let names: Vec<&str> = list["jobs"].as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["first", "third"]);
}

#[tokio::test]
async fn lines_of_json_are_read_as_they_come_and_sent_in_batches() {
    let world = World::new();
    let mut input = String::new();
    for number in 0..5000 {
        let count = if number % 10 == 0 { -1 } else { 1 };
        input.push_str(&format!(
            r#"{{"apiVersion":"ohm/v1","kind":"Job","metadata":{{"name":"j{number}"}},"spec":{{"count":{count}}}}}"#
        ));
        input.push('\n');
    }
    let path = "/v1/submit?verdicts=refused";
    let (status, answer) = world.send("POST", path, "application/x-ndjson", input.as_bytes()).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!((&answer["accepted"], &answer["refused"]), (&4500.into(), &500.into()));
    assert_eq!(lines(&answer)[..2], ["1 1 -/- refused spec.count", "11 11 -/- refused spec.count"]);
    let commands = world.truth.lock().unwrap().commands;
    assert!((5..10).contains(&commands), "{commands} commands");
}

#[tokio::test]
async fn a_busy_replica_is_tried_again_and_an_unknown_outcome_stops() {
    let world = World::new();
    world.truth.lock().unwrap().failures = vec![Unanswered::Busy("full".into()); 3];
    assert_eq!(world.submit(&job("a", "")).await.0, StatusCode::OK);
    world.truth.lock().unwrap().failures = vec![Unanswered::Unknown("no answer".into())];
    let queue = "apiVersion: ohm/v1\nkind: Queue\nmetadata: {name: q}\nspec: {nominalQuota: {cpu: 4}}\n";
    let input = [&job("a", ""), "kind: 7\n", queue, &job("b", "")].join("---\n");
    let (status, answer) = world.submit(&input).await;
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(
        lines(&answer),
        ["1 1 Job/a unknown -", "2 6 -/- refused apiVersion", "3 8 Queue/q unknown -", "4 13 Job/b unknown -"]
    );
    assert_eq!(world.submit(&job("b", "")).await.1["accepted"], 1);
}

#[tokio::test]
async fn priority_classes_stay_for_later_input() {
    let world = World::new();
    let message = |answer: &serde_json::Value| answer["verdicts"][0]["problems"][0].clone();
    let (_, answer) = world.submit(&job("a", ", priorityClassName: high")).await;
    assert_eq!(lines(&answer), ["1 1 Job/a refused spec.priorityClassName"]);
    let class = "apiVersion: ohm/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 70\n";
    for verdict in ["accepted", "unchanged"] {
        let (_, answer) = world.submit(class).await;
        assert_eq!(lines(&answer), [format!("1 1 PriorityClass/high {verdict} -")]);
    }
    let (status, answer) = world.submit(&job("a", ", priorityClassName: high")).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(world.get("/v1/jobs/a").await.1["priority"], 70);
    let (_, list) = world.get("/v1/priority-classes").await;
    assert_eq!(list["priorityClasses"][0]["name"], "high");
    let (_, answer) = world.submit(&job("b", ", priorityClassName: hihg")).await;
    let expected =
        "no priority class is called \"hihg\"; known: high (70); submit the class first, or name one of them";
    assert_eq!(message(&answer)["message"], expected);
    let (_, answer) = world.submit(&class.replace("70", "71")).await;
    assert_eq!(lines(&answer), ["1 1 PriorityClass/high refused metadata.name"]);
    let (status, _) = world.send("DELETE", "/v1/priority-classes/high", "application/json", b"").await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    // The job keeps what it got, and is the same job.
    let (_, answer) = world.submit(&job("a", ", priorityClassName: high")).await;
    assert_eq!(lines(&answer), ["1 1 Job/a unchanged -"]);
}

#[tokio::test]
async fn resource_flavors_are_put_listed_and_removed() {
    let world = World::new();
    let flavor = [
        "apiVersion: ohm/v1\nkind: ResourceFlavor\nmetadata: {name: spot}\nspec:\n  nodeLabels: {price: spot}\n",
        "  nodeTaints: [{key: spot, effect: NoSchedule}]\n  tolerations:\n  - {key: spot, value: a}\n",
        "  - {operator: Exists, effect: NoExecute, tolerationSeconds: 30}\n",
    ];
    let flavor = flavor.concat();
    for verdict in ["accepted", "unchanged"] {
        let (_, answer) = world.submit(&flavor).await;
        assert_eq!(lines(&answer), [format!("1 1 ResourceFlavor/spot {verdict} -")]);
    }
    let (_, answer) = world.submit(&flavor.replace("price: spot", "price: low")).await;
    assert_eq!(lines(&answer), ["1 1 ResourceFlavor/spot accepted -"]);
    let (_, list) = world.get("/v1/resource-flavors").await;
    assert_eq!(
        list["resourceFlavors"],
        serde_json::json!([{
            "name": "spot", "nodeLabels": {"price": "low"}, "nodeTaints": ["spot:NoSchedule"],
            "tolerations": ["spot=a", "*:NoExecute for 30s"],
        }])
    );
    let remove = async |name: &str| world.send("DELETE", name, "application/json", b"").await.0;
    let queue = "apiVersion: ohm/v1\nkind: Queue\nmetadata: {name: q}\nspec:\n  resourceGroups:\n  - coveredResources: \
                 [cpu]\n    flavors: [{name: spot, resources: [{name: cpu, nominalQuota: 4, lendingLimit: 0}]}]\n";
    let (status, answer) = world.submit(queue).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let (_, list) = world.get("/v1/queues").await;
    let cpu = serde_json::json!({"nominal": "4", "lendingLimit": "0", "used": "0", "borrowed": "0", "available": "4"});
    assert_eq!(list["queues"][0]["flavors"], serde_json::json!([{"name": "spot", "resources": {"cpu": cpu}}]));
    assert_eq!(list["queues"][0]["resources"], serde_json::json!({}));
    assert!(remove("/v1/resource-flavors/spot").await.is_client_error(), "a queue names it");
    assert_eq!(remove("/v1/queues/q").await, StatusCode::NO_CONTENT);
    assert_eq!(remove("/v1/resource-flavors/spot").await, StatusCode::NO_CONTENT);
    assert_eq!(remove("/v1/resource-flavors/spot").await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_holds_for_all_queues_is_put_and_shown() {
    let world = World::new();
    let shown = async || world.get("/v1/scheduling").await.1["fairSharing"].clone();
    assert_eq!(shown().await, serde_json::json!({"enable": false, "preemptionStrategies": []}));
    let scheduling = "apiVersion: ohm/v1\nkind: Scheduling\nmetadata: {name: default}\nspec:\n  fairSharing: {enable: \
                      true, preemptionStrategies: [LessThanInitialShare]}\n";
    for verdict in ["accepted", "unchanged"] {
        let (_, answer) = world.submit(scheduling).await;
        assert_eq!(lines(&answer), [format!("1 1 Scheduling/default {verdict} -")]);
    }
    let rules = serde_json::json!({"enable": true, "preemptionStrategies": ["LessThanInitialShare"]});
    assert_eq!(shown().await, rules);
    let (_, answer) = world.submit(&scheduling.replace("default", "other")).await;
    assert_eq!(lines(&answer), ["1 3 -/- refused metadata.name"]);
    let (_, answer) = world.submit(&scheduling.replace("true", "false")).await;
    assert_eq!(lines(&answer), ["1 1 Scheduling/default accepted -"]);
    assert_eq!(shown().await["enable"], false);
}

#[tokio::test]
async fn queues_say_whom_they_preempt_and_what_they_borrow() {
    let world = World::new();
    world.node("n1", 8);
    let queue = |name: &str, spec: &str| {
        format!("apiVersion: ohm/v1\nkind: Queue\nmetadata: {{name: {name}}}\nspec: {{cohort: all, {spec}}}\n")
    };
    let preemption = "preemption: {withinClusterQueue: LowerPriority, reclaimWithinCohort: Any, borrowWithinCohort: \
                      {policy: LowerPriority, maxPriorityThreshold: 100}}";
    let input = [
        queue("a", &format!("fairSharing: {{weight: 2}}, nominalQuota: {{cpu: 1}}, {preemption}")),
        queue("b", "nominalQuota: {cpu: 3}"),
        job("j", ", queue: a, requests: {cpu: 2}"),
    ];
    let (status, answer) = world.submit(&input.join("---\n")).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    world.run("j", "n1");
    let (_, list) = world.get("/v1/queues").await;
    let [a, all, b] = [0, 1, 2].map(|at| list["queues"][at].clone());
    assert_eq!((&a["name"], &a["weightedShare"], &a["dominantResource"]), (&"a".into(), &125.into(), &"cpu".into()));
    let cpu = serde_json::json!({"nominal": "1", "used": "2", "borrowed": "1", "available": "2"});
    assert_eq!((&a["resources"]["cpu"], &a["parent"]), (&cpu, &"all".into()));
    let borrow = serde_json::json!({"policy": "LowerPriority", "maxPriorityThreshold": 100});
    let says = |within: &str, reclaim: &str, borrow: &Value| {
        serde_json::json!({
            "withinClusterQueue": within, "reclaimWithinCohort": reclaim, "borrowWithinCohort": borrow,
            "outsideRoot": "Never",
        })
    };
    assert_eq!(a["preemption"], says("LowerPriority", "Any", &borrow));
    assert_eq!(b["preemption"], says("Never", "Never", &serde_json::json!({"policy": "Never"})));
    assert_eq!((&all["name"], &all["kind"], all.get("preemption")), (&"all".into(), &"Cohort".into(), None));
    let cohort = "apiVersion: ohm/v1\nkind: Cohort\nmetadata: {name: all}\n";
    for verdict in ["accepted", "unchanged"] {
        let (_, answer) = world.submit(cohort).await;
        assert_eq!(lines(&answer), [format!("1 1 Cohort/all {verdict} -")]);
    }
}

#[tokio::test]
async fn a_job_is_as_old_as_the_cell_knows_it() {
    let world = World::new();
    let created = job("a", "").replace("{name: a}", "{name: a, creationTimestamp: \"2026-01-01T00:00:00Z\"}");
    let (status, answer) = world.submit(&created).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{created}");
    assert_eq!(lines(&answer), ["1 1 Job/a refused metadata.creationTimestamp"]);
}

#[tokio::test]
async fn documents_that_cannot_be_read_are_refused_and_others_are_not_harmed() {
    let world = World::new();
    let long = format!("{}---\n{}# {}\n", job("good", ""), job("long", ""), "x".repeat(1 << 20));
    let (_, answer) = world.submit(&long).await;
    assert_eq!(lines(&answer), ["1 1 Job/good accepted -", "2 5 -/- refused -"]);
    let mut bytes = job("latin", "").into_bytes();
    bytes.extend(b"# \xe9\n");
    let (status, answer) = world.send("POST", "/v1/submit", "application/yaml", &bytes).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let message = answer["verdicts"][0]["problems"][0]["message"].as_str().unwrap();
    assert!(message.contains("UTF-8"), "{message}");
    assert_eq!(answer["verdicts"][0]["line"], 5);
    for garbage in ["", "{", "[[[[", "\0\0", "- - -\n", "&a [*a, *a]"] {
        let (status, answer) = world.submit(garbage).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{garbage:?}: {answer}");
        let (status, answer) = world.send("POST", "/v1/submit", "application/json", garbage.as_bytes()).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{garbage:?}: {answer}");
    }
}

#[tokio::test]
async fn bodies_have_a_bound_that_lines_have_not() {
    let world = World::with(|options| options.body_bytes_max = 10_000);
    let filler = format!("# {}\n", "x".repeat(98)).repeat(100);
    let (status, answer) = world.submit(&format!("{filler}{}", job("a", ""))).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(answer["error"]["code"], "too_large");
    assert!(answer["error"]["message"].as_str().unwrap().contains("10000 bytes"), "{answer}");
    let endless = tokio_stream::iter(std::iter::repeat_with(|| Ok::<_, std::io::Error>("x".repeat(1000))));
    let response = world.ask("POST", "/v1/submit", "application/yaml", Body::from_stream(endless)).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let line = r#"{"apiVersion":"ohm/v1","kind":"Job","metadata":{"name":"a"},"spec":{}}"#;
    let lines = format!("{line}\n").repeat(1000);
    let (status, answer) = world.send("POST", "/v1/submit", "application/x-ndjson", lines.as_bytes()).await;
    assert_eq!((status, &answer["unchanged"]), (StatusCode::OK, &999.into()), "{answer}");
    let broken = tokio_stream::iter([Ok("kind: Job\n"), Err(std::io::Error::other("cut"))]);
    let response = world.ask("POST", "/v1/submit", "application/yaml", Body::from_stream(broken)).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert!(String::from_utf8(read(response).await).unwrap().contains("ended early"));
}

#[tokio::test]
async fn documents_change_jobs_that_are_there() {
    let world = World::new();
    world.node("n1", 8);
    let put =
        async |text: &str| world.send("POST", "/v1/submit?update=true", "application/yaml", text.as_bytes()).await;
    let (array, gang) = (|count: u32| job("a", &format!(", array: {count}")), job("g", ", count: 3"));
    let (status, answer) = put(&format!("{}---\n{gang}", array(2))).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(lines(&answer), ["1 1 Job/a accepted -", "2 6 Job/g accepted -"]);
    world.run("g", "n1");
    let other = job("g", ", count: 2");
    let (status, answer) = put(&format!("{}---\n{other}", array(5))).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    assert_eq!(lines(&answer), ["1 1 Job/a updated -", "2 6 Job/g refused spec.groups[0].count"]);
    let (status, answer) = put(&format!("{}---\n{gang}", array(5))).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(lines(&answer), ["1 1 Job/a unchanged -", "2 6 Job/g unchanged -"]);
    assert_eq!((&answer["updated"], &answer["unchanged"]), (&0.into(), &2.into()));
    assert_eq!(world.get("/v1/jobs/a").await.1["tasks"]["pending"], 5);
}
