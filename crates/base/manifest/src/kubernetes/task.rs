//! What the pods of a template run, where they are to run here: the program of their one container, as a process of its
//! node.
//!
//! What such a process has as well is read, from the command to the probes. What it does not have is refused by its
//! field, here or by [`super::running`].

use super::env::{self, Pods};
use crate::decode::{At, Context, Fields, probes, span_ms};
use crate::defaults;
use crate::error::ProblemKind;
use crate::path::Trail;
use crate::tree::Value;
use ohm_model::resources::MEMORY;
use ohm_model::{HostPort, TaskSpec};

/// Between the polite signal and the kill, where a pod does not say it.
const GRACE_MS: u64 = 30_000;

/// What each of these pods runs; nothing where they are only planned.
pub(super) fn task(cx: &mut Context, pod: &Fields<'_>, of: Pods<'_>) -> TaskSpec {
    let grace = pod.get("terminationGracePeriodSeconds");
    if !cx.runs() {
        return TaskSpec { grace_ms: defaults::GRACE_MS, ..TaskSpec::default() };
    }
    let grace_ms = grace.and_then(|at| span_ms(cx, at)).unwrap_or(GRACE_MS);
    if let Some(at) = pod.get("hostNetwork").filter(|at| at.boolean(cx) == Some(false)) {
        at.rule(cx, "tasks share the network of their node; leave it out, or write `true`");
    }
    only(cx, pod, "os", ("name", "linux"), "tasks run on Linux");
    if let Some(at) = pod.get("resources") {
        check_memory(cx, at);
    }
    let containers = pod.require(cx, "containers", "a list of one container, with its `command`");
    let Some(at) = containers else { return TaskSpec { grace_ms, ..TaskSpec::default() } };
    let whole = pod.get("resources").map(|at| at.node);
    let says_memory = |part| whole.and_then(|node| node.get(part)?.get(MEMORY)).is_some();
    let is_whole = says_memory("requests") || says_memory("limits");
    let mut tasks = at.list(cx, |cx, at| container(cx, at, of, is_whole));
    if let Value::List(items) = &at.node.value
        && items.len() != 1
    {
        let problem = format!("holds {} containers; a task is one program: keep one", items.len());
        at.rule(cx, problem);
    }
    TaskSpec { grace_ms, ..tasks.pop().unwrap_or_default() }
}

/// A task that can be reached at these ports.
pub(super) fn reached_at(ports: &[HostPort], task: TaskSpec) -> TaskSpec {
    TaskSpec { stop_delay_ms: defaults::stop_delay_ms(!ports.is_empty()), ..task }
}

/// What the container at `at` runs; `is_whole` where the pod itself says what memory it may take.
fn container(cx: &mut Context, at: At<'_>, of: Pods<'_>, is_whole: bool) -> Option<TaskSpec> {
    let fields = Fields::open(cx, at, &[])?;
    cx.port_names = fields.list(cx, "ports", port_name).into_iter().collect();
    let variables = env::variables(cx, &fields, of);
    let mut command = fields.list(cx, "command", |cx, at| env::word(cx, at, &variables));
    if command.is_empty() {
        let wanted = "the program that the task runs, such as `[sleep, \"60\"]`: no image brings one";
        cx.report(at.node.position, at.trail, || ProblemKind::Missing { field: "command", wanted });
    }
    command.extend(fields.list(cx, "args", |cx, at| env::word(cx, at, &variables)));
    if let Some(at) = fields.get("resources").filter(|_| !is_whole) {
        check_memory(cx, at);
    }
    // No table of the API has what is in a probe: it is the same as in a document of Ohm.
    let probes = cx.of_ohm(|cx| probes(cx, &fields));
    Some(TaskSpec {
        command,
        env: variables.into_env(),
        working_dir: fields.text(cx, "workingDir").unwrap_or_default(),
        probes,
        ..TaskSpec::default()
    })
}

/// The name of a port, by which probes mean it.
fn port_name(cx: &mut Context, at: At<'_>) -> Option<(String, u16)> {
    let fields = Fields::open(cx, at, &[])?;
    let name = fields.text(cx, "name")?;
    Some((name, fields.whole(cx, "containerPort", 1..=i64::from(u16::MAX))?))
}

/// Without a limit a pod may take all memory that others leave, and a task ends at its request.
fn check_memory(cx: &mut Context, at: At<'_>) {
    let Some(resources) = Fields::open(cx, at, &[]) else { return };
    let limits = resources.get("limits");
    if limits.is_some_and(|limits| limits.node.get(MEMORY).is_some()) {
        return;
    }
    let Some(requests) = resources.get("requests") else { return };
    if let Some(node) = requests.node.get(MEMORY).filter(|node| !node.is_written("0")) {
        let at = At { node, trail: Trail::Field(&requests.trail, MEMORY) };
        at.rule(cx, "has no limit beside it, and a task ends at its request then; write `limits.memory`, too");
    }
}

/// Refuses what the object in `field` says other than that `name` is `value`.
pub(super) fn only(cx: &mut Context, fields: &Fields<'_>, field: &'static str, (name, value): (&str, &str), why: &str) {
    let Some(at) = fields.get(field) else { return };
    let Value::Map(entries) = &at.node.value else { return at.wrong_type(cx, "a map") };
    for entry in entries.iter().filter(|entry| entry.key != name || !entry.value.is_written(value)) {
        let at = At { node: &entry.value, trail: Trail::Field(&at.trail, &entry.key) };
        at.rule(cx, format!("{why}; only `{name}: {value}` can be had"));
    }
}
