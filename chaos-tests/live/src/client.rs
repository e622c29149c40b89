//! The clients: they submit what the timeline says when it says so, again and again until it is acknowledged, and write
//! down what they were answered.

use crate::outage::SubmitRequest;
use crate::scenario::{Pool, Repair, Stands};
use crate::timeline::Submission;
use ohm_runtime::clock::boot_ms;
use ohm_runtime::recorder::{Happened, Recorder};
use ohm_wire::api::{JobList, JobSummary, NodeList, ServerList, ServerRole, SubmitAnswer};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};
use ureq::Agent;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A server that has not answered by now is asked again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two tries.
const AGAIN: Duration = Duration::from_millis(100);
const ANSWER_BYTES_MAX: u64 = 64 << 20;
const PAGE: usize = 10_000;

/// Somebody who asks the server.
#[derive(Clone)]
pub(crate) struct Client {
    agent: Agent,
    /// Where the servers are, and which of them is asked now: another one when it does not answer.
    servers: Arc<Vec<String>>,
    current: Arc<AtomicUsize>,
    token: String,
}

impl Client {
    pub(crate) fn new(servers: Vec<String>, token: String) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(ANSWER_TIMEOUT))
            .user_agent("ohm-chaos");
        Client { agent: config.build().new_agent(), servers: Arc::new(servers), current: Arc::default(), token }
    }

    fn server(&self) -> &str {
        &self.servers[self.current.load(Ordering::Relaxed) % self.servers.len()]
    }

    /// What a server said; whoever gets no answer asks the next one next time.
    fn answered<T>(&self, answer: Result<T, String>) -> Result<T, String> {
        if answer.is_err() {
            self.current.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        self.answered(self.ask(path))
    }

    fn submit(&self, document: &Value) -> Result<SubmitAnswer, String> {
        self.answered(self.hand_in(document))
    }

    fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        let request = self.agent.get(format!("{}{path}", self.server()));
        let mut response = request
            .header("authorization", format!("Bearer {}", self.token))
            .call()
            .map_err(|error| error.to_string())?;
        let status = response.status();
        let bytes = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let bytes = bytes.map_err(|error| error.to_string())?;
        match status.is_success() {
            true => serde_json::from_slice(&bytes).map_err(|error| error.to_string()),
            false => Err(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    fn hand_in(&self, document: &Value) -> Result<SubmitAnswer, String> {
        let mut response = self
            .agent
            .post(format!("{}/v1/submit", self.server()))
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json")
            .send(document.to_string())
            .map_err(|error| error.to_string())?;
        let bytes = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        serde_json::from_slice(&bytes.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
    }

    /// How many nodes are ready.
    pub(crate) fn ready_nodes(&self) -> Result<usize, String> {
        let nodes: NodeList = self.get(&format!("/v1/nodes?limit={PAGE}"))?;
        Ok(nodes.nodes.iter().filter(|node| node.health == "ready").count())
    }

    /// How many servers vote.
    pub(crate) fn voters(&self) -> Result<usize, String> {
        let list: ServerList = self.get("/v1/servers")?;
        Ok(list.servers.iter().filter(|server| server.role == ServerRole::Voter).count())
    }

    /// Where the server listens that leads, as any of them knows.
    pub(crate) fn leader(&self) -> Option<String> {
        let list: ServerList = self.get("/v1/servers").ok()?;
        let leader = list.servers.into_iter().find(|server| server.leads)?;
        leader.address.strip_prefix("http://").map(String::from)
    }

    /// Hands in what the cell is to know besides jobs.
    pub(crate) fn define(&self, document: &Value) -> Result<(), String> {
        let answer = self.submit(document)?;
        if answer.refused == 0 { Ok(()) } else { Err(format!("{} documents refused", answer.refused)) }
    }

    /// Ends a job that would not end by itself.
    pub(crate) fn cancel(&self, job: &str) {
        let request = self.agent.post(format!("{}/v1/jobs/{job}/cancel", self.server()));
        let request = request.header("authorization", format!("Bearer {}", self.token));
        // If it was in vain, the next look shows it.
        let sent = request.header("content-type", "application/json").send_empty().map_err(|error| error.to_string());
        let _ = self.answered(sent);
    }

    /// All jobs.
    pub(crate) fn jobs(&self) -> Result<Vec<JobSummary>, String> {
        let (mut jobs, mut after) = (Vec::new(), String::new());
        loop {
            let page: JobList = self.get(&format!("/v1/jobs?limit={PAGE}&after={after}"))?;
            jobs.extend(page.jobs);
            if page.next.is_empty() {
                return Ok(jobs);
            }
            after = page.next;
        }
    }
}

/// What the clients know, together.
#[derive(Default)]
pub(crate) struct Book {
    pub(crate) acknowledged: AtomicUsize,
    /// Set when nobody needs to try any longer.
    pub(crate) give_up: AtomicBool,
    requests: Mutex<Vec<SubmitRequest>>,
    /// Jobs that the cell will never take, and why.
    refused: Mutex<Vec<String>>,
}

impl Book {
    pub(crate) fn requests(&self) -> Vec<SubmitRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn refused(&self) -> Vec<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One client with its part of the timeline.
pub(crate) struct Submitter {
    pub(crate) client: Client,
    pub(crate) recorder: Recorder,
    /// Where real tasks write that they live.
    pub(crate) signs: PathBuf,
}

impl Submitter {
    /// Submits everything, each job at its time after `start`.
    pub(crate) fn run(&mut self, submissions: &[Submission], start: Instant, book: &Book) {
        for submission in submissions {
            let due = start + Duration::from_millis(submission.at_ms);
            while let Some(rest) = due.checked_duration_since(Instant::now()) {
                sleep(rest.min(AGAIN));
                if book.give_up.load(Ordering::Relaxed) {
                    return;
                }
            }
            let request = self.submit(submission, book);
            book.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        }
    }

    /// Sends the job until it is acknowledged or refused for good.
    fn submit(&mut self, submission: &Submission, book: &Book) -> SubmitRequest {
        let document = document(submission, &self.signs);
        let mut request = SubmitRequest { sent_ms: boot_ms(), answered_ms: None, tries: 0 };
        while !book.give_up.load(Ordering::Relaxed) {
            request.tries += 1;
            if let Ok(answer) = self.client.submit(&document) {
                if answer.acknowledged_jobs().any(|job| job == submission.job) {
                    let job = submission.job.clone();
                    self.recorder.write(|| Happened::Acknowledged { job });
                    book.acknowledged.fetch_add(1, Ordering::Relaxed);
                    request.answered_ms = Some(boot_ms());
                    return request;
                }
                if answer.refused > 0 {
                    let problems = answer.verdicts.iter().flat_map(|verdict| &verdict.problems);
                    let why: Vec<&str> = problems.map(|problem| problem.message.as_str()).collect();
                    let refused = format!("{}: {}", submission.job, why.join("; "));
                    book.refused.lock().unwrap_or_else(PoisonError::into_inner).push(refused);
                    return request;
                }
            }
            sleep(AGAIN);
        }
        request
    }
}

/// The job as people would write it. A real task writes ten times a second that it lives.
fn document(submission: &Submission, signs: &Path) -> Value {
    let Submission { job, tasks, load, .. } = submission;
    let script = format!(
        "n=1; while :; do read now rest < /proc/uptime; echo \"$OHM_RUN $now $OHM_NODE\" \
         >> '{}'/${{OHM_JOB#*/}}.$OHM_RANK; [ $n -ge {} ] && exit 0; n=$((n + 1)); sleep 0.1; done",
        signs.display(),
        submission.signs()
    );
    let command = match load.pool {
        Pool::Real => json!(["sh", "-c", script]),
        Pool::Simulated => json!(["true"]),
    };
    let mut spec = json!({
        "class": load.class.name(),
        "count": tasks,
        "nodeSelector": { "pool": load.pool.name() },
        "requests": { "cpu": "100m", "memory": "16Mi" },
        "terminationGracePeriodSeconds": 1,
        "command": command,
    });
    if let Some(task_ms) = load.task_ms {
        spec["sim"] = json!({ "duration": format!("{task_ms}ms") });
    }
    match load.stands {
        Stands::Anywhere => {}
        Stands::InRack => {
            spec["topology"] = json!({ "required": "topology.ohm/rack" });
            spec["maxPerNode"] = json!(1);
        }
        Stands::InSlices(size) => {
            let slices = json!([{ "level": "topology.ohm/rack", "size": size }]);
            spec["topology"] = json!({ "required": "topology.ohm/block", "slices": slices });
        }
    }
    if let Some(repair) = load.repair {
        spec["repair"] = match repair {
            Repair::FailsFast => json!({ "policy": "failFast" }),
            Repair::Waits(time_ms) => json!({ "policy": "wait", "timeoutSeconds": (time_ms / 1000).max(1) }),
            Repair::Widens => json!({ "policy": "widen", "widenTo": "topology.ohm/block" }),
        };
    }
    json!({ "apiVersion": "ohm/v1", "kind": "Job", "metadata": { "name": job }, "spec": spec })
}
