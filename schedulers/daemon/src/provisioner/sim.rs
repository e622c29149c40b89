//! Simulated nodes: a process of its own hosts the nodes of each request (`ohm agent --sim`), so that they outlive
//! whoever started them. What was asked for is kept in a folder per request; asked again, the same nodes are there, or
//! come back. A node that is released is down from then on, and the process ends with the last of its nodes.
//!
//! Parameters of the class: `nodes` (how many; as many as tasks when left out, and for a repair never more than tasks
//! were lost), `delaySeconds` (1), `cpu` (4), `memory`
//! (8Gi), `capacity.RESOURCE`, `label.KEY`, and `fail` (fails with this text).

use ohm_model::brought::{REQUEST_LABEL, request_label};
use ohm_model::selector::Labels;
use ohm_provisioning::{Answer, AnswerState, Question, Release, Request};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// More nodes than anybody simulates for one job.
const NODES_MAX: u32 = 10_000;

/// How simulated nodes are started.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// The data folder of the cell: requests are kept below `provisioned`, nodes below `nodes`.
    pub folder: PathBuf,
    /// The `ohm` program.
    pub program: PathBuf,
    /// How its agents find the servers, such as `--server URL --token-file FILE`.
    pub arguments: Vec<String>,
}

pub(super) async fn ask(options: &SimOptions, question: &Question) -> Answer {
    match question {
        Question::Provision(request) => provision(options, request).await,
        Question::Release(release) => match take_back(options, release) {
            Ok(()) => Answer::of(AnswerState::Released, ""),
            Err(error) => Answer::of(AnswerState::Failed, format!("{}: {error}", options.folder.display())),
        },
    }
}

/// Says that the nodes are to be down, as `ohm agent --sim` reads it.
fn take_back(options: &SimOptions, release: &Release) -> io::Result<()> {
    let down = options.folder.join("down");
    std::fs::create_dir_all(&down)?;
    release.nodes.iter().try_for_each(|node| std::fs::write(down.join(node), ""))
}

async fn provision(options: &SimOptions, request: &Request) -> Answer {
    let failed = |why: String| Answer::of(AnswerState::Failed, why);
    if let Some(why) = request.parameters.get("fail") {
        return failed(why.clone());
    }
    let nodes = match documents(request) {
        Ok(nodes) => nodes,
        Err(problem) => return failed(problem),
    };
    let name = request_label(&request.id);
    let folder = options.folder.join("provisioned").join(&name);
    match begin(&folder, &nodes) {
        Err(error) => return failed(format!("{}: {error}", folder.display())),
        Ok(age) => {
            let delay = number(request, "delaySeconds", 1).map(|seconds| Duration::from_secs(seconds.into()));
            tokio::time::sleep(delay.unwrap_or_default().saturating_sub(age)).await;
        }
    }
    if let Err(error) = start(options, &folder, &name) {
        return failed(format!("{} can't be started: {error}", options.program.display()));
    }
    let mut answer = Answer::of(AnswerState::Ready, "simulated nodes are joining");
    answer
        .node_selector
        .extend(request.node_labels.get_key_value(REQUEST_LABEL).map(|(key, value)| (key.clone(), value.clone())));
    answer
}

fn number(request: &Request, name: &str, otherwise: u32) -> Result<u32, String> {
    let Some(text) = request.parameters.get(name) else { return Ok(otherwise) };
    text.parse().map_err(|_| format!("parameter {name} is \"{text}\"; a whole number is possible"))
}

/// The Node documents of the request, as YAML; every text is quoted as JSON, which YAML reads.
fn documents(request: &Request) -> Result<String, String> {
    let tasks: u32 = request.groups.iter().map(|group| group.count).sum();
    number(request, "delaySeconds", 1)?;
    let count = number(request, "nodes", tasks)?.clamp(1, NODES_MAX) as usize;
    let of = |name: &str, otherwise: &str| request.parameters.get(name).cloned().unwrap_or_else(|| otherwise.into());
    let mut capacity: BTreeMap<String, String> = [("pods".to_string(), "110".to_string())].into();
    capacity.insert("cpu".into(), of("cpu", "4"));
    capacity.insert("memory".into(), of("memory", "8Gi"));
    let mut labels = request.node_labels.clone();
    for (name, value) in &request.parameters {
        if let Some(key) = name.strip_prefix("label.") {
            labels.insert(key.into(), value.clone());
        } else if let Some(key) = name.strip_prefix("capacity.") {
            capacity.insert(key.into(), value.clone());
        }
    }
    let quoted = |map: &BTreeMap<String, String>| serde_json::to_string(map).unwrap_or_default();
    let (mut text, prefix) = (String::new(), request_label(&request.id));
    for (number, asked) in asked_labels(request, count).into_iter().enumerate() {
        let name = format!("{prefix}-{number}");
        let labels: Labels = labels.clone().into_iter().chain(asked).collect();
        let (labels, capacity) = (quoted(&labels), quoted(&capacity));
        let document = format!(
            "---\napiVersion: ohm/v1\nkind: Node\nmetadata: {{name: \"{name}\", labels: {labels}}}\n\
             status: {{allocatable: {capacity}}}\n"
        );
        // Writing to a text never fails.
        let _ = text.write_str(&document);
    }
    Ok(text)
}

/// The labels that each node is to have besides: what was lost with nodes is of use where the job stands only.
fn asked_labels(request: &Request, count: usize) -> Vec<Labels> {
    if !request.repair {
        return vec![Labels::new(); count];
    }
    let lost = request.groups.iter().flat_map(|group| (0..group.count).map(|_| group.node_selector.clone()));
    lost.take(count).collect()
}

/// Keeps what is asked for, and says how long ago that was done first.
fn begin(folder: &Path, nodes: &str) -> io::Result<Duration> {
    let file = folder.join("nodes.yaml");
    if !file.exists() {
        std::fs::create_dir_all(folder)?;
        let draft = folder.join("nodes.yaml.new");
        std::fs::write(&draft, nodes)?;
        std::fs::rename(&draft, &file)?;
    }
    let since = std::fs::metadata(&file)?.modified()?;
    Ok(since.elapsed().unwrap_or_default())
}

/// Starts the process that hosts the nodes. One that runs already keeps a second one out, by the lock on its folder.
fn start(options: &SimOptions, folder: &Path, name: &str) -> io::Result<()> {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("agent.log"))?;
    let mut command = Command::new(&options.program);
    command
        .args(["agent", "--sim"])
        .arg(folder.join("nodes.yaml"))
        .args(["--ends-with-nodes", "--name", name])
        .arg("--data-dir")
        .arg(&options.folder)
        .args(&options.arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::from(log.try_clone()?))
        .stderr(Stdio::from(log))
        .env_remove("OHM_PARENT");
    // Nodes live as long as the cell that was started by `ohm up`, not as long as this process.
    if let Ok(elder) = std::env::var("OHM_PARENT") {
        command.env("OHM_ELDER", elder);
    }
    let mut child = {
        use std::os::unix::process::CommandExt;
        command.process_group(0).spawn()?
    };
    // Takes note of its end, so that no dead process stays behind.
    std::thread::spawn(move || child.wait());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_manifest::{Content, parse};
    use ohm_provisioning::RequestGroup;

    #[test]
    fn nodes_are_documents_that_an_agent_can_read() {
        let parameters = [("label.disk", "a.b"), ("capacity.nvidia.com/gpu", "2"), ("cpu", "2500m")];
        let request = Request {
            id: "train.18c.1.sim".into(),
            job: "train".into(),
            queue: "q".into(),
            priority: 0,
            class: "sim".into(),
            attempt: 1,
            repair: false,
            ready: false,
            node_labels: [(REQUEST_LABEL.to_string(), "train.18c.1.sim".to_string())].into(),
            groups: Vec::new(),
            parameters: parameters.map(|(key, value)| (key.to_string(), value.to_string())).into(),
        };
        let request = Request {
            parameters: request.parameters.into_iter().chain([("nodes".into(), "3".into())]).collect(),
            ..request
        };
        let text = documents(&request).unwrap();
        let read = parse("nodes", text.as_bytes());
        let nodes: Vec<_> = read.into_iter().map(|node| node.unwrap().content).collect();
        assert_eq!(nodes.len(), 3);
        let Content::Node(node) = &nodes[2] else { panic!("{nodes:?}") };
        assert_eq!(node.spec.name, "train.18c.1.sim-2");
        assert_eq!(node.spec.labels["disk"], "a.b");
        assert_eq!((node.spec.capacity["cpu"], node.spec.capacity["nvidia.com/gpu"]), (2500, 2000));
        let group = |count, rack: &str| RequestGroup {
            name: "main".into(),
            count,
            min_count: count,
            requests: BTreeMap::new(),
            node_selector: [("rack".to_string(), rack.to_string())].into(),
            tolerations: Vec::new(),
            max_per_node: 0,
        };
        let id = "train.18c.1r1.sim".into();
        let repair = Request { id, repair: true, groups: vec![group(1, "r1"), group(3, "r2")], ..request.clone() };
        let text = documents(&repair).unwrap();
        let racks = text.lines().filter_map(|line| line.split_once("\"rack\":\"").map(|(_, rest)| &rest[..2]));
        assert_eq!(racks.collect::<Vec<_>>(), ["r1", "r2", "r2"], "at most three nodes: {text}");
        assert!(text.contains("train.18c.1r1.sim-0") && text.contains("request\":\"train.18c.1.sim\""), "{text}");
        let wrong = Request { parameters: [("nodes".to_string(), "few".to_string())].into(), ..request };
        assert!(documents(&wrong).unwrap_err().contains("few"));
    }
}
