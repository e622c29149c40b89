//! Questions and orders about nodes.

use super::Session;
use super::progress::Progress;
use super::wait::{OUTAGE_MAX, PAUSE};
use crate::client::{encode, path_of};
use crate::command::{DrainNode, NodeCommand};
use crate::failure::{EXIT_DONE, EXIT_FAILED, Failure};
use crate::output::note;
use crate::text;
use ohm_wire::api::{NodeDetail, NodeList, NodeSummary};
use serde_json::json;
use std::time::Instant;

/// Most nodes that are asked for at once.
const PAGE: usize = 10_000;

pub(crate) fn list(session: &Session) -> Result<u8, Failure> {
    let mut list = NodeList::default();
    loop {
        let query = [("limit", PAGE.to_string()), ("after", list.next.clone())];
        let page: NodeList = session.client.get("/v1/nodes", &query)?;
        list.nodes.extend(page.nodes);
        (list.total, list.next) = (page.total, page.next);
        if list.next.is_empty() {
            break;
        }
    }
    session.output.print(&list, |style| text::nodes_table(&list, style))?;
    Ok(EXIT_DONE)
}

pub(crate) fn one(session: &Session, command: &NodeCommand) -> Result<u8, Failure> {
    match command {
        NodeCommand::Show(node) => {
            let view: NodeDetail = session.client.get(&path_of("nodes", &node.name), &[])?;
            session.output.print(&view, |style| text::node_text(&view, style))?;
        }
        NodeCommand::Cordon(node) => change(session, &node.name, "cordon", "cordoned")?,
        NodeCommand::Uncordon(node) => change(session, &node.name, "uncordon", "uncordoned")?,
        NodeCommand::Taint(args) => {
            let (action, state) = (with_taint("taint", &args.taint), format!("tainted {}", args.taint));
            change(session, &args.name, &action, &state)?;
        }
        NodeCommand::Untaint(args) => {
            let (action, state) = (with_taint("untaint", &args.taint), format!("without {}", args.taint));
            change(session, &args.name, &action, &state)?;
        }
        NodeCommand::Release(node) => change(session, &node.name, "release", "held down no more")?,
        NodeCommand::Drain(args) => return drain(session, args),
        NodeCommand::Undrain(node) => change(session, &node.name, "undrain", "drained no more")?,
        NodeCommand::Remove(node) => {
            let before: NodeDetail = session.client.get(&path_of("nodes", &node.name), &[])?;
            session.client.delete(&path_of("nodes", &node.name))?;
            session.output.print(&json!({"removed": node.name}), |_| format!("node {} removed\n", node.name))?;
            if before.summary.health == "ready" {
                note("hint: its agent still runs and registers it again; stop that one first, or cordon the node");
            }
        }
    }
    Ok(EXIT_DONE)
}

/// The action with what is meant as its parameter.
fn with_taint(action: &str, taint: &impl std::fmt::Display) -> String {
    format!("{action}?taint={}", encode(&taint.to_string()))
}

fn change(session: &Session, name: &str, action: &str, state: &str) -> Result<(), Failure> {
    let node: NodeSummary = session.client.post(&format!("{}/{action}", path_of("nodes", name)))?;
    session.output.print(&node, |_| format!("node {name} is {state}\n"))
}

fn drain(session: &Session, args: &DrainNode) -> Result<u8, Failure> {
    let mut query = vec![format!("atOnce={}", args.at_once)];
    if let Some(deadline) = args.deadline {
        query.push(format!("deadlineMs={}", deadline.as_millis()));
    }
    let path = path_of("nodes", &args.name);
    let node: NodeSummary = session.client.post(&format!("{path}/drain?{}", query.join("&")))?;
    let name = &args.name;
    if !args.wait {
        let text = match node.runs {
            0 => format!("node {name} is drained: nothing runs on it\n"),
            runs => format!("node {name} is being drained: {} to leave\n", text::counted(runs, "task")),
        };
        session.output.print(&node, |_| text)?;
        return Ok(EXIT_DONE);
    }
    let node = wait_until_drained(session, &path, args)?;
    let drained = node.drain.is_some();
    let text = if drained { "drained: nothing runs on it" } else { "drained no more: somebody ended the drain" };
    session.output.print(&node, |_| format!("node {name} is {text}\n"))?;
    Ok(if drained { EXIT_DONE } else { EXIT_FAILED })
}

/// The node once nothing runs on it, or once its drain was ended. An outage of the server is waited through.
fn wait_until_drained(session: &Session, path: &str, args: &DrainNode) -> Result<NodeSummary, Failure> {
    let name = &args.name;
    let progress = Progress::start(format!("draining {name}"));
    let (started, mut answered, mut left) = (Instant::now(), Instant::now(), String::new());
    loop {
        match session.client.get::<NodeDetail>(path, &[("runs", "0".to_string())]) {
            Ok(node) if node.summary.runs == 0 || node.summary.drain.is_none() => return Ok(node.summary),
            Ok(node) => {
                answered = Instant::now();
                left = what_is_left(&node);
                progress.tell(format!("draining {name}: {left}"));
            }
            Err(failure) if !failure.is_passing() || answered.elapsed() > OUTAGE_MAX => return Err(failure),
            Err(_) => {}
        }
        if let Some(timeout) = args.timeout.filter(|timeout| started.elapsed() >= *timeout) {
            let message = format!("node {name} is not drained after {} s: {left}", timeout.as_secs());
            return Err(Failure::Hinted {
                message,
                hint: format!("the drain goes on; `ohm node undrain {name}` ends it"),
            });
        }
        std::thread::sleep(PAUSE);
    }
}

/// What a drain waits for: what stands there still, and why the first job that does not move stays.
fn what_is_left(node: &NodeDetail) -> String {
    let stopping: u64 = node.leaving.iter().map(|job| job.stopping).sum();
    let left = text::counted(node.summary.runs, "task");
    let stays = node.leaving.iter().find(|job| job.staying > 0 && !job.reason.is_empty());
    let why = stays.map(|job| format!(" {}: {}", job.job, job.reason)).unwrap_or_default();
    match stopping {
        0 => format!("{left} left.{why}"),
        _ => format!("{left} left, {stopping} of them moving.{why}"),
    }
}
