//! Two-phase admission with real processes: jobs that wait for nodes, and those who bring them.

use crate::cell;

use cell::processes::{Process, children_of};
use cell::tasks::{attempt, node};
use cell::{Cell, wait};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(90);

fn class(name: &str, spec: &str) -> String {
    format!("apiVersion: ohm/v1\nkind: ProvisioningClass\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n---\n")
}

fn queue(checks: &str) -> String {
    format!(
        "apiVersion: ohm/v1\nkind: Queue\nmetadata: {{name: waiting}}\n\
         spec: {{nominalQuota: {{cpu: 64}}, admissionChecks: [{checks}]}}\n---\n"
    )
}

fn job(name: &str, spec: &str) -> String {
    format!("apiVersion: ohm/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec: {{queue: waiting, {spec}}}\n")
}

fn submit(cell: &Cell, documents: &str) {
    let file = cell.put("waiting.yaml", documents);
    let answer = cell.json(&["submit", &file]);
    assert_eq!(answer["accepted"], documents.matches("apiVersion").count(), "{answer}");
}

fn admission(cell: &Cell, job: &str) -> Value {
    cell.try_json(&["job", job]).unwrap_or_default()["admission"].clone()
}

fn state(cell: &Cell, job: &str) -> String {
    cell.try_json(&["job", job]).unwrap_or_default()["state"].as_str().unwrap_or_default().to_string()
}

/// Simulated nodes come; whoever is killed on the way, the job runs without a second submit, and once.
#[test]
fn a_job_that_waits_for_nodes_runs_once_whoever_is_killed() {
    let cell = Cell::start(&["--nodes", "0"]);
    let sim = class("burst", "provisioner: sim, pollSeconds: 1, parameters: {nodes: 2, cpu: 4, delaySeconds: 5}");
    let crunch = job("crunch", "count: 4, requests: {cpu: 2}, sim: {duration: 8s}, command: [crunch]");
    submit(&cell, &[sim, queue("burst"), crunch].concat());
    wait("the quota is reserved", || admission(&cell, "crunch")["state"] == "checking");
    let kill_all = || {
        ["provisioner", "scheduler --class batch", "health", "server"].iter().for_each(|role| cell.kill(role));
        cell.wait_until_serving();
    };
    kill_all();
    wait("the nodes are asked for again", || admission(&cell, "crunch")["checks"][0]["state"] == "ready");
    kill_all();
    wait("it runs", || state(&cell, "crunch") == "running");
    kill_all();
    cell.wait_until_all_succeeded(&["crunch".to_string()], PATIENCE);
    let tasks = cell.tasks("crunch");
    let once = |task: &Value| task["incarnation"] == 1 && task["node"].as_str().unwrap().contains("burst");
    assert!(tasks.len() == 4 && tasks.iter().all(once), "{tasks:?}");
    let nodes = cell.json(&["nodes"]);
    assert_eq!(nodes["nodes"].as_array().unwrap().len(), 2, "{nodes}");
    // Nothing is reserved any more.
    let queues = cell.json(&["queues"]);
    assert_eq!(queues["queues"][0]["resources"]["cpu"]["used"], "0", "{queues}");
}

/// All nodes that were brought for a job die and don't come back: it asks for others and runs there, without a second
/// submit.
#[test]
fn a_job_that_lost_all_its_brought_nodes_asks_for_others() {
    let cell = Cell::start(&["--nodes", "0", "--node-lease-ms", "7000", "--duty-lease-ms", "1500"]);
    let sim = class("burst", "provisioner: sim, pollSeconds: 1, parameters: {nodes: 2, cpu: 4, delaySeconds: 1}");
    let crunch = job("crunch", "count: 4, requests: {cpu: 2}, sim: {duration: 12s}, command: [crunch]");
    submit(&cell, &[sim, queue("burst"), crunch].concat());
    wait("it runs", || cell.tasks("crunch").iter().filter(|task| task["state"] == "running").count() == 4);
    let stood: BTreeSet<String> = cell.tasks("crunch").iter().map(node).collect();
    let provisioner = cell.child("provisioner").expect("a provisioner");
    let hosts = children_of(provisioner.pid).into_iter().filter(|child| child.arguments().starts_with("agent --sim"));
    hosts.collect::<Vec<_>>().iter().for_each(Process::kill);
    cell.wait_until_all_succeeded(&["crunch".to_string()], PATIENCE);
    let job = cell.json(&["job", "crunch"]);
    let tasks = cell.tasks("crunch");
    let elsewhere = |task: &Value| attempt(task) == 2 && !stood.contains(&node(task)) && task["failures"] == 0;
    assert!(stood.len() == 2 && tasks.len() == 4 && tasks.iter().all(elsewhere), "{job}");
    let queues = cell.json(&["queues"]);
    assert_eq!(queues["queues"][0]["resources"]["cpu"]["used"], "0", "{queues}");
}

/// A gang that keeps its rack loses a node, and there is no other room: nodes come for what it lost, into the same
/// rack. Whoever is killed on the way, what stayed runs on.
#[test]
fn a_repair_without_room_gets_nodes_in_its_rack() {
    let cell = Cell::start(&["--nodes", "0", "--node-lease-ms", "7000", "--duty-lease-ms", "1500"]);
    let labels = "'label.topology.ohm/block': b7, 'label.topology.ohm/rack': r7";
    let parameters = format!("nodes: 2, cpu: 4, delaySeconds: 3, {labels}");
    let spec = format!("provisioner: sim, pollSeconds: 1, idleSeconds: 2, parameters: {{{parameters}}}");
    let gang = "class: tas, count: 4, requests: {cpu: 2}, topology: {required: topology.ohm/rack}, \
                repair: {policy: wait, provision: true}, sim: {duration: 40s}, command: [crunch]";
    let levels = "apiVersion: ohm/v1\nkind: Topology\nmetadata: {name: default}\n\
                  spec: {levels: [{nodeLabel: topology.ohm/block}, {nodeLabel: topology.ohm/rack}]}\n---\n";
    submit(&cell, &[levels, &class("burst", &spec), &queue("burst"), &job("crunch", gang)].concat());
    let running = || cell.tasks("crunch").iter().filter(|task| task["state"] == "running").count();
    wait("it runs", || running() == 4);
    let before = cell.tasks("crunch");
    let lost = node(&before[3]);
    cell.ask(&["chaos", "node-down", &lost]).good();
    let requests = || cell.json(&["job", "crunch"])["repair"]["requests"].clone();
    wait("its repair asks for nodes", || requests()[0]["tasks"] == 2);
    assert!(requests()[0]["request"].as_str().unwrap().ends_with(".1r1.burst"), "{}", requests());
    let explained = cell.ask(&["explain", "crunch"]).good();
    assert!(explained.contains("burst is asked for nodes for 2 lost tasks"), "{explained}");
    ["provisioner", "scheduler --class tas", "server"].iter().for_each(|role| cell.kill(role));
    cell.wait_until_serving();
    wait("it is whole again", || running() == 4);
    let tasks = cell.tasks("crunch");
    for (was, is) in before.iter().zip(&tasks) {
        match node(was) == lost {
            true => assert!(node(is).contains(".1r1.burst-") && attempt(is) == 2, "{is}"),
            false => assert_eq!((node(was), attempt(is)), (node(is), 1), "{is}"),
        }
    }
    let brought = cell.json(&["node", "show", &node(&tasks[3])]);
    assert_eq!(brought["labels"]["topology.ohm/rack"], "r7", "{brought}");
    // The one that was lost goes back while the job runs.
    let names = || {
        cell.json(&["nodes"])["nodes"]
            .as_array()
            .map(|nodes| nodes.iter().map(|one| one["name"].clone()).collect::<Vec<_>>())
    };
    wait("the lost node has left the cell", || {
        names().is_some_and(|names| names.len() == 2 && !names.contains(&lost.clone().into()))
    });
    cell.wait_until_all_succeeded(&["crunch".to_string()], PATIENCE);
    wait("all nodes are gone", || names().is_some_and(|names| names.is_empty()));
    let told = cell.ask(&["events", "--limit", "1000"]).good();
    assert!(told.contains("job crunch asks burst for nodes for 2 lost tasks, attempt 1"), "{told}");
}

/// An unqueued job waits for just such a node as comes for another one: it does not get it, and neither do simulated
/// nodes take what really runs, or stay when nobody uses them.
#[test]
fn brought_nodes_are_for_who_asked_and_go_when_nobody_uses_them() {
    let cell = Cell::start(&["--nodes", "0", "--node-lease-ms", "7000", "--duty-lease-ms", "1500"]);
    let sim = class(
        "burst",
        "provisioner: sim, pollSeconds: 1, idleSeconds: 1, parameters: {nodes: 1, cpu: 6, delaySeconds: 1}",
    );
    let thief = "apiVersion: ohm/v1\nkind: Job\nmetadata: {name: thief}\nspec: {requests: {cpu: 6}, command: ['true'], \
                 sim: {duration: 1s}}\n---\n";
    let crunch = job("crunch", "requests: {cpu: 6}, sim: {duration: 3s}, command: [crunch]");
    submit(&cell, &[thief, &sim, &queue("burst"), &crunch].concat());
    wait("crunch runs", || state(&cell, "crunch") == "running");
    let node = node(&cell.tasks("crunch")[0]);
    let shown = cell.ask(&["node", "show", &node]).good();
    assert!(shown.contains("by burst for job crunch, and kept for it"), "{shown}");
    let explained = cell.ask(&["explain", "thief"]).good();
    assert!(explained.contains("was brought for job crunch"), "{explained}");
    let provisioner = cell.child("provisioner").expect("a provisioner");
    let hosts = || {
        let children = children_of(provisioner.pid).into_iter();
        children.filter(|child| child.arguments().starts_with("agent --sim")).count()
    };
    assert_eq!(hosts(), 1);
    cell.wait_until_all_succeeded(&["crunch".to_string()], PATIENCE);
    wait("the node is gone", || cell.json(&["nodes"])["nodes"].as_array().is_some_and(Vec::is_empty));
    wait("its process is gone", || hosts() == 0);
    assert_eq!(state(&cell, "thief"), "pending", "nothing that really runs was given to a simulated node");
    let told = cell.ask(&["events", "--limit", "1000"]).good();
    assert!(told.contains(&format!("nobody has used node {node} for")), "{told}");
    cell.ask(&["provisioning-class", "remove", "burst"]);
}

/// A server is asked to take back a node that it has brought, by name, once nobody has used it for a while.
#[test]
fn a_server_is_told_which_nodes_nobody_uses_any_more() {
    let cell = Cell::start(&["--nodes", "0", "--node-lease-ms", "7000", "--duty-lease-ms", "1500"]);
    let (sender, requests) = std::sync::mpsc::channel();
    let (url, _) = webhook(move |_, request| {
        let _ = sender.send(request.clone());
        match request["action"].as_str() {
            Some("release") => (200, r#"{"state": "released"}"#.into()),
            _ => (200, r#"{"state": "ready"}"#.into()),
        }
    });
    let hook = class("cloud", &format!("provisioner: webhook, url: \"{url}\", idleSeconds: 1"));
    let spec = "requests: {cpu: 2}, sim: {duration: 1s}, command: [served]";
    submit(&cell, &[hook, queue("cloud"), job("served", spec)].concat());
    let asked = requests.recv_timeout(PATIENCE).expect("a request");
    assert_eq!(asked["action"], "provision", "{asked}");
    let labels = asked["nodeLabels"].to_string();
    let machine = format!(
        "apiVersion: ohm/v1\nkind: Node\nmetadata: {{name: vm1, labels: {labels}}}\n\
         status: {{allocatable: {{cpu: 2, memory: 4Gi, pods: 9}}}}\n"
    );
    let machine = cell.sim_agent(cell.put("vm1.yaml", machine));
    cell.wait_until_all_succeeded(&["served".to_string()], PATIENCE);
    let asked = requests.recv_timeout(PATIENCE).expect("another request");
    assert_eq!((&asked["action"], &asked["nodes"]), (&"release".into(), &serde_json::json!(["vm1"])), "{asked}");
    wait("it is taken back", || cell.ask(&["nodes"]).good().contains("released"));
    drop(machine);
    wait("it has left the cell", || cell.json(&["nodes"])["nodes"].as_array().is_some_and(Vec::is_empty));
}

/// A program that has nothing at first, asks for patience then, and names the nodes in the end.
#[test]
fn a_program_brings_nodes_at_the_second_attempt() {
    let cell = Cell::start(&["--nodes", "1"]);
    cell.wait_for_nodes(1);
    let asked = cell.path("asked");
    fs::create_dir(&asked).unwrap();
    let script = cell.put(
        "hook",
        format!(
            r#"#!/bin/sh
cat > {asked}/last.json
echo >> {asked}/$OHM_REQUEST_ID
grep -q '"attempt":1' {asked}/last.json && {{ echo "no capacity in zone a" >&2; exit 3; }}
[ "$(wc -l < {asked}/$OHM_REQUEST_ID)" -lt 3 ] && {{ echo '{{"state": "pending", "message": "two of four"}}'; exit 0; }}
echo '{{"state": "ready", "nodeSelector": {{"topology.ohm/block": "b1"}}, "message": "four nodes"}}'
"#,
            asked = asked.display()
        ),
    );
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let hook = class(
        "hook",
        &format!(
            "provisioner: command, command: [{script}], pollSeconds: 1, retry: {{baseSeconds: 1}}, parameters: {{zone: a}}"
        ),
    );
    let spec = "count: 2, requests: {cpu: 10m, memory: 8Mi}, command: ['true']";
    submit(&cell, &[hook, queue("hook"), job("hooked", spec)].concat());
    cell.wait_until_all_succeeded(&["hooked".to_string()], PATIENCE);
    let asks: BTreeMap<String, usize> = fs::read_dir(&asked)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_none_or(|extension| extension != "json"))
        .map(|path| {
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            (path.file_name().unwrap().to_string_lossy().into_owned(), lines)
        })
        .collect();
    let counts: Vec<usize> = asks.values().copied().collect();
    assert_eq!(counts, [1, 3], "one name for each attempt: {asks:?}");
    let request: Value = serde_json::from_slice(&fs::read(asked.join("last.json")).unwrap()).unwrap();
    assert_eq!((&request["job"], &request["attempt"]), (&"default/hooked".into(), &2.into()), "{request}");
    assert_eq!(request["groups"][0]["requests"]["cpu"], "10m", "{request}");
    assert_eq!(request["parameters"]["zone"], "a", "{request}");
    let story = cell.ask(&["events", "--job", "hooked"]).good();
    assert!(
        story.contains("check hook of job hooked failed, attempt 1: no capacity in zone a; again in 1 s"),
        "{story}"
    );
    assert!(story.contains("ready, attempt 2: four nodes"), "{story}");
}

type Asked = Arc<Mutex<Vec<String>>>;

/// A server that says what `answer` makes of the number of the question; the ids it was asked under.
fn webhook(answer: impl Fn(usize, &Value) -> (u16, String) + Send + 'static) -> (String, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/nodes", listener.local_addr().unwrap());
    let asked = Asked::default();
    let seen = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let Some(request) = read_request(&stream) else { continue };
            let number = {
                let mut seen = seen.lock().unwrap();
                seen.push(request["id"].as_str().unwrap_or_default().to_string());
                seen.len()
            };
            let (status, body) = answer(number, &request);
            let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = (&stream).write_all(format!("{head}{body}").as_bytes());
        }
    });
    (url, asked)
}

fn read_request(stream: &TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    while line != "\r\n" {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// A server that is down at first, then asks for patience, then gives, and takes back in the end.
#[test]
fn a_server_brings_nodes_and_takes_them_back() {
    let cell = Cell::start(&["--nodes", "1"]);
    cell.wait_for_nodes(1);
    let (url, asked) = webhook(|number, request| match (number, request["ready"].as_bool()) {
        (1, _) => (503, "starting".into()),
        (2, _) => (200, r#"{"state": "pending", "message": "queued"}"#.into()),
        (3..=4, _) => (200, r#"{"state": "ready"}"#.into()),
        (5, _) => (200, r#"{"state": "revoked", "message": "reclaimed"}"#.into()),
        _ => (200, String::new()),
    });
    let times = "pollSeconds: 1, watchSeconds: 1";
    let hook = class("cloud", &format!("provisioner: webhook, url: \"{url}\", {times}"));
    let spec = "requests: {cpu: 10m, memory: 8Mi}, command: [sleep, '1000'], terminationGracePeriodSeconds: 1";
    submit(&cell, &[hook, queue("cloud"), job("served", spec)].concat());
    wait("it runs", || state(&cell, "served") == "running");
    wait("its nodes are taken back", || state(&cell, "served") == "suspended");
    let view = cell.json(&["job", "served"]);
    let reason = view["reason"].as_str().unwrap();
    assert!(reason.contains("cloud") && reason.contains("reclaimed"), "{reason}");
    let explained = cell.json(&["explain", "served"]);
    assert!(explained["summary"].as_str().unwrap().contains(reason), "{explained}");
    cell.ask(&["resume", "served"]).good();
    wait("it runs again", || {
        let tasks = cell.tasks("served");
        tasks.len() == 1 && tasks[0]["state"] == "running" && tasks[0]["incarnation"] == 2
    });
    let asked = asked.lock().unwrap().clone();
    assert!(asked[..5].iter().all(|id| *id == asked[0]), "one attempt has one name: {asked:?}");
    assert!(asked[5..].iter().all(|id| *id != asked[0]) && asked.len() > 5, "the next one has another: {asked:?}");
}

/// A queue may name a class before it is there: its jobs wait, and say for what.
#[test]
fn an_unknown_class_is_waited_for() {
    let cell = Cell::start(&["--nodes", "1"]);
    cell.wait_for_nodes(1);
    let spec = "requests: {cpu: 10m, memory: 8Mi}, command: ['true']";
    submit(&cell, &[queue("later"), job("early", spec)].concat());
    wait("it says so", || {
        cell.ask(&["explain", "early"]).out.contains("provisioning class \"later\", which is not known")
    });
    assert_eq!(admission(&cell, "early")["state"], "invalid");
    submit(&cell, &class("later", "provisioner: command, command: ['true']"));
    cell.wait_until_all_succeeded(&["early".to_string()], PATIENCE);
    let refused = cell.ask(&["provisioning-class", "remove", "later"]);
    assert!(refused.code == 1 && refused.err.contains("a check of queue waiting"), "{refused:?}");
    assert!(cell.ask(&["provisioning-classes"]).good().contains("later"));
}
