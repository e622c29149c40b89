//! A service under load. Clients that follow its endpoints are served through a rollout, a drain and a revision that
//! never comes up: no request fails, and never are fewer ready than its budget says. Only a node that dies takes
//! requests with it. Tasks serve on for `stopDelaySeconds`, and their program ends at once when it is asked to.
//!
//! `OHM_SERVED=50x4` runs it with 50 nodes and four groups of 49 tasks; small it is in every run.

use crate::cell;

use cell::{Cell, wait};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const FIRST_PORT: u16 = 47_400;
/// So many clients ask, one request after the other.
const CLIENTS: usize = 4;
/// A request that takes so long has failed.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a task of the service is: this program, with `SERVED_PORT` set. By itself it is no test.
#[test]
fn serve() {
    let (Some(port), Ok(address)) = (number("SERVED_PORT"), std::env::var("OHM_NODE_IP")) else { return };
    let answer = if number("SERVED_BAD") == Some(1) { "503 Not Yet" } else { "200 OK" };
    let listener = TcpListener::bind((address.parse::<IpAddr>().unwrap(), port)).unwrap();
    for stream in listener.incoming() {
        let mut stream = BufReader::new(stream.unwrap());
        thread::spawn(move || {
            let mut line = String::new();
            while stream.read_line(&mut line).is_ok_and(|read| read > 0) && line != "\r\n" {
                line.clear();
            }
            let _ = write!(stream.get_mut(), "HTTP/1.1 {answer}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        });
    }
}

fn number(name: &str) -> Option<u16> {
    std::env::var(name).ok()?.parse().ok()
}

/// How large it is.
#[derive(Clone, Copy)]
struct Size {
    nodes: usize,
    groups: usize,
}

impl Size {
    fn asked() -> Self {
        let asked = std::env::var("OHM_SERVED").ok();
        let asked = asked.as_deref().and_then(|asked| asked.split_once('x'));
        let (nodes, groups) = asked.map_or((6, 2), |(nodes, groups)| (nodes.parse().unwrap(), groups.parse().unwrap()));
        Size { nodes, groups }
    }

    /// Each task has its node by itself, as all of its group have one port; one node is left for what moves.
    fn count(self) -> usize {
        self.nodes - 1
    }

    /// How many of a group may be missing.
    fn missing(self) -> usize {
        (self.count() / 5).max(1)
    }

    fn document(self, revision: &str) -> String {
        let program = std::env::current_exe().unwrap();
        let group = |at: usize| {
            let (port, count, missing) = (FIRST_PORT + at as u16, self.count(), self.missing());
            format!(
                "  - name: g{at}\n    count: {count}\n    ports: [{port}]\n    stopDelaySeconds: 2\n    requests: \
                 {{cpu: 1m, memory: 64Mi}}\n    disruptionBudget: {{maxUnavailable: {missing}}}\n    readinessProbe: \
                 {{httpGet: {{port: {port}}}, periodSeconds: 1}}\n    env: [{{name: SERVED_PORT, value: \"{port}\"}}, \
                 {revision}]\n    command: [{program:?}, 'served::serve', --exact, --nocapture]\n",
            )
        };
        let groups: String = (0..self.groups).map(group).collect();
        let missing = self.missing();
        format!(
            "apiVersion: ohm/v1\nkind: Job\nmetadata: {{name: web}}\nspec:\n  class: service\n  strategy: {{maxSurge: \
             0, maxUnavailable: {missing}, progressDeadlineSeconds: 10, autoRevert: true}}\n  groups:\n{groups}"
        )
    }
}

/// Clients that follow the endpoints of the service, and what became of their requests.
struct Load {
    seen: Arc<Seen>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    is_over: AtomicBool,
    endpoints: Mutex<Vec<SocketAddr>>,
    /// The fewest endpoints that each port had since somebody asked.
    fewest: Mutex<BTreeMap<u16, usize>>,
    answered: AtomicU64,
    failed: Mutex<Vec<(SocketAddr, String)>>,
}

impl Seen {
    fn note(&self, endpoints: Vec<SocketAddr>, ports: &[u16]) {
        let mut fewest = self.fewest.lock().unwrap();
        for port in ports {
            let found = endpoints.iter().filter(|endpoint| endpoint.port() == *port).count();
            fewest.entry(*port).and_modify(|known| *known = found.min(*known)).or_insert(found);
        }
        *self.endpoints.lock().unwrap() = endpoints;
    }

    fn ask_on(&self, client: usize) {
        for number in client.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let endpoints = self.endpoints.lock().unwrap();
            let Some(endpoint) = endpoints.get(number % endpoints.len().max(1)).copied() else { continue };
            drop(endpoints);
            match ask(endpoint) {
                Ok(()) => _ = self.answered.fetch_add(1, Ordering::Relaxed),
                Err(error) => self.failed.lock().unwrap().push((endpoint, error)),
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// One request, on a connection of its own.
fn ask(endpoint: SocketAddr) -> Result<(), String> {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&endpoint, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    match ask() {
        Ok(answer) if answer.starts_with("HTTP/1.1 200") => Ok(()),
        Ok(answer) => Err(format!("answered {:?}", answer.lines().next())),
        Err(error) => Err(error.to_string()),
    }
}

impl Load {
    fn start(cell: &Cell, size: Size) -> Self {
        let seen = Arc::new(Seen::default());
        let ports: Vec<u16> = (0..size.groups as u16).map(|at| FIRST_PORT + at).collect();
        let mut stream = TcpStream::connect(cell.listen()).unwrap();
        let head = format!("Host: {}\r\nAuthorization: Bearer {}\r\n", cell.listen(), cell.token());
        write!(stream, "GET /v1/jobs/web/endpoints?follow=true HTTP/1.1\r\n{head}\r\n").unwrap();
        let follows = Arc::clone(&seen);
        let follower = thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                let Ok(line) = line else { return };
                let Some(text) = line.strip_prefix("data:") else { continue };
                let list: serde_json::Value = serde_json::from_str(text).unwrap();
                let address = |endpoint: &serde_json::Value| {
                    let (node, port) = (endpoint["address"].as_str()?, endpoint["ports"][0].as_str()?);
                    Some(SocketAddr::new(node.parse().ok()?, port.parse().ok()?))
                };
                let endpoints = list["endpoints"].as_array().unwrap().iter().map(|one| address(one).unwrap()).collect();
                follows.note(endpoints, &ports);
                if follows.is_over.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        wait("the endpoints are known", || !seen.endpoints.lock().unwrap().is_empty());
        let mut threads: Vec<JoinHandle<()>> = (0..CLIENTS)
            .map(|client| {
                let seen = Arc::clone(&seen);
                thread::spawn(move || seen.ask_on(client))
            })
            .collect();
        threads.push(follower);
        Load { seen, threads }
    }

    /// Whether all of the service is among the endpoints.
    fn is_whole(&self, size: Size) -> bool {
        self.seen.endpoints.lock().unwrap().len() == size.count() * size.groups
    }

    fn serves_at(&self, address: IpAddr) -> bool {
        self.seen.endpoints.lock().unwrap().iter().any(|endpoint| endpoint.ip() == address)
    }

    /// Says how `what` went for the clients since they were asked last: who failed is to be at these addresses, and of
    /// each port so many endpoints must have been left.
    fn judge(&self, what: &str, dead: &BTreeSet<IpAddr>, least: usize) {
        let (failed, fewest) = (
            std::mem::take(&mut *self.seen.failed.lock().unwrap()),
            std::mem::take(&mut *self.seen.fewest.lock().unwrap()),
        );
        let answered = self.seen.answered.swap(0, Ordering::Relaxed);
        let fewest = fewest.values().copied().min();
        println!("{what}: {answered} requests answered, {} failed; fewest ready {fewest:?}", failed.len());
        let wrong: Vec<_> = failed.iter().filter(|(endpoint, _)| !dead.contains(&endpoint.ip())).take(5).collect();
        assert!(answered > 0 && wrong.is_empty(), "{what}: {wrong:?}");
        assert!(fewest.is_none_or(|fewest| fewest >= least), "{what}: {fewest:?} ready, and {least} must be");
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.seen.is_over.store(true, Ordering::Relaxed);
        // The follower ends with the cell.
        self.threads.drain(..).take(CLIENTS).for_each(|thread| drop(thread.join()));
    }
}

fn wait_long(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(300), "not in 5 min: {what}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Updates the service, and says how its rollout ended.
fn roll_out(cell: &Cell, document: String) -> i32 {
    let file = cell.put("web.yaml", document);
    cell.ask(&["submit", "--update", &file]).good();
    cell.ask(&["rollout", "status", "-w", "web"]).code
}

#[test]
fn clients_are_served_through_all_that_happens_to_a_service() {
    let size = Size::asked();
    let cell = Cell::start(&["--nodes", &size.nodes.to_string()]);
    wait_long("all nodes are there", || {
        let ready = |nodes: &serde_json::Value| nodes.as_array().map_or(0, Vec::len) == size.nodes;
        cell.try_json(&["nodes"]).is_some_and(|nodes| ready(&nodes) || ready(&nodes["nodes"]))
    });
    cell.submit(&size.document("{name: REVISION, value: \"1\"}"));
    cell.ask(&["wait", "web", "--for", "ready", "--timeout", "300s"]).good();
    let load = Load::start(&cell, size);
    let (none, least) = (BTreeSet::new(), size.count() - size.missing());
    wait_long("all of it is ready", || load.is_whole(size));
    load.judge("at rest", &none, 0);

    assert_eq!(roll_out(&cell, size.document("{name: REVISION, value: \"2\"}")), 0);
    load.judge("a rollout", &none, least);

    let node = cell.tasks("web")[0]["node"].as_str().unwrap().to_string();
    cell.ask(&["node", "drain", &node, "--wait"]).good();
    wait_long("what was moved is ready", || load.is_whole(size));
    load.judge("a drain", &none, least);
    cell.ask(&["node", "undrain", &node]).good();

    assert_eq!(roll_out(&cell, size.document("{name: SERVED_BAD, value: \"1\"}")), 1, "it never comes up");
    wait_long("it is as it was", || load.is_whole(size) && cell.ask(&["rollout", "status", "web"]).code == 0);
    load.judge("a bad revision", &none, least);

    let node = cell.tasks("web")[0]["node"].as_str().unwrap().to_string();
    let address = cell.json(&["node", "show", &node])["address"].as_str().unwrap().parse().unwrap();
    cell.ask(&["chaos", "node-down", &node]).good();
    wait_long("what it took is placed again", || load.is_whole(size) && !load.serves_at(address));
    load.judge("a node that dies", &BTreeSet::from([address]), 0);
}
