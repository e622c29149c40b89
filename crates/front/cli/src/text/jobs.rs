//! Jobs.

use super::table::Grid;
use super::times::{age, length, utc};
use super::wrap::wrapped;
use super::{Style, counted};
use ohm_wire::api::{
    GroupView, JobList, JobSummary, JobView, PastRunView, RepairView, RolloutSummary, TaskCounts, TaskView,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// A page of jobs.
pub(crate) fn jobs_table(list: &JobList, style: &Style) -> String {
    if list.jobs.is_empty() {
        return "no jobs\n".to_string();
    }
    // Most lists hold nothing that is probed.
    let has_probes = list.jobs.iter().any(|job| job.tasks.probed > 0);
    let names = ["NAME", "CLASS", "STATE", "READY", "TASKS", "PRIORITY", "QUEUE", "OWNER", "AGE"];
    let names: Vec<&str> = names.into_iter().filter(|name| has_probes || *name != "READY").collect();
    let mut grid = Grid::new(style, &names);
    for job in &list.jobs {
        let ready = has_probes.then(|| ready(&job.tasks));
        let first = [job.name.clone(), job.class.clone(), state(job, style)];
        let rest = [
            tasks(&job.tasks),
            job.priority.to_string(),
            job.queue.clone(),
            job.owner.clone(),
            age(style.now_ms, job.submitted_ms),
        ];
        grid.row(first.into_iter().chain(ready).chain(rest));
    }
    let mut text = grid.text();
    if list.total > list.jobs.len() as u64 {
        text.push_str(&format!("{} of {}; --limit shows more\n", list.jobs.len(), counted(list.total, "job")));
    }
    text
}

/// The state of a job, and when it is expected to start: `pending (in ~40s)`, guessed, `pending (in 40s)`, or
/// `pending (due)` when that is over.
fn state(job: &JobSummary, style: &Style) -> String {
    match job.expected_start_ms {
        _ if !job.held.is_empty() => "held".to_string(),
        0 => job.state.clone(),
        start_ms if start_ms <= style.now_ms => format!("{} (due)", job.state),
        start_ms => {
            let about = if job.expected_start_is_guess { "~" } else { "" };
            format!("{} (in {about}{})", job.state, length(start_ms.saturating_sub(style.now_ms)))
        }
    }
}

/// When a job is expected to start, with what that rests on.
fn expected_start(job: &JobSummary, style: &Style) -> String {
    let left = length(job.expected_start_ms.saturating_sub(style.now_ms));
    match (job.expected_start_ms, job.expected_start_is_guess) {
        (0, _) => String::new(),
        (start_ms, _) if start_ms <= style.now_ms => "by now, and it does not stand yet".to_string(),
        (_, false) => format!("within {left}, when what it waits for has reached its deadline"),
        (_, true) => format!("in about {left}, if what it waits for runs for as long again as it has"),
    }
}

/// Tasks by state, those that are there: `2 running, 3 pending`.
fn tasks(counts: &TaskCounts) -> String {
    // What stops may have been running or not; as long as it stops, it counts as neither.
    let running = counts.running.saturating_sub(counts.stopping);
    let starting = counts.live.saturating_sub(counts.stopping + running);
    let parts = [
        (running, "running"),
        (starting, "placed"),
        (counts.stopping, "stopping"),
        (counts.pending, "pending"),
        (counts.backing_off, "backing off"),
        (counts.succeeded, "succeeded"),
        (counts.failed, "failed"),
        (counts.skipped, "skipped"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, state)| format!("{count} {state}")).collect();
    if parts.is_empty() { counted(counts.total, "task") } else { parts.join(", ") }
}

/// `2/3`, of the tasks whose probes decide whether they are ready; empty without such tasks.
fn ready(counts: &TaskCounts) -> String {
    if counts.probed == 0 { String::new() } else { format!("{}/{}", counts.ready, counts.probed) }
}

/// One line about what became of a job.
pub(crate) fn job_line(job: &JobSummary) -> String {
    let reason = match job.reason.as_str() {
        "" => String::new(),
        reason if reason == job.state => String::new(),
        reason => format!(": {reason}"),
    };
    format!("{} is {}{reason} ({})\n", job.name, job.state, tasks(&job.tasks))
}

/// The same about a job that was over before it was asked for again.
pub(crate) fn job_over_line(job: &JobSummary, finished_ms: u64, style: &Style) -> String {
    let ago = age(style.now_ms, finished_ms);
    format!("{} {} {ago} ago and was not run again ({})\n", job.name, job.state, tasks(&job.tasks))
}

/// Everything about a job.
pub(crate) fn job_text(job: &JobView<Value>, style: &Style) -> String {
    let mut text = head(job, style);
    for group in &job.groups {
        text.push_str(&group_text(group, style));
    }
    if !job.past_runs.is_empty() {
        text.push_str("\nPast runs:\n");
        text.push_str(&past_runs(&job.past_runs, style));
    }
    text
}

fn head(job: &JobView<Value>, style: &Style) -> String {
    let summary = &job.summary;
    let mut lines = vec![
        ("Job", summary.name.clone()),
        ("State", summary.state.clone()),
        ("Reason", summary.reason.clone()),
        ("Class", summary.class.clone()),
        ("Shard", job.shard.clone()),
        ("Queue", summary.queue.clone()),
        ("Subqueue", summary.subqueue.clone()),
        ("Priority", summary.priority.to_string()),
        ("Owner", summary.owner.clone()),
        ("Labels", pairs(&summary.labels)),
    ];
    let when =
        |ms: u64| if ms == 0 { String::new() } else { format!("{} UTC ({} ago)", utc(ms), age(style.now_ms, ms)) };
    lines.push(("Submitted", when(summary.submitted_ms)));
    lines.push(("Started", when(summary.started_ms)));
    lines.push(("Starts", expected_start(summary, style)));
    lines.push(("Finished", when(summary.finished_ms)));
    if summary.started_ms > 0 && summary.finished_ms > 0 {
        lines.push(("Took", length(summary.finished_ms.saturating_sub(summary.started_ms))));
    }
    if job.start_deadline_ms > 0 {
        let left = length(job.start_deadline_ms.saturating_sub(style.now_ms));
        lines.push(("Deadline", format!("fails in {left} unless it starts (pendingTimeoutSeconds)")));
    }
    lines.push(("Probes", probes(&summary.tasks)));
    lines.push(("Ready", super::ready::readiness_line(&summary.name, &summary.state, &job.readiness, style)));
    lines.push(("Admission", super::admission::admission_line(&job.admission, style)));
    lines.push(("Rollout", rollout(&job.rollout)));
    lines.push(("Repair", repair(&job.repair, style)));
    let lines = lines.into_iter().filter(|(_, value)| !value.is_empty());
    let line = |(name, value)| wrapped(&format!("{:<11}{value}", format!("{name}:")), style.width, 11) + "\n";
    lines.map(line).collect()
}

/// How many tasks are ready by their probes.
fn probes(counts: &TaskCounts) -> String {
    if counts.probed == 0 { String::new() } else { format!("{} tasks are ready", ready(counts)) }
}

/// How far the rollout is, while one is under way.
fn rollout(rollout: &RolloutSummary) -> String {
    let RolloutSummary { revision, state, message } = rollout;
    if state.is_empty() { String::new() } else { format!("{state}, revision {revision}: {message}") }
}

/// How the repair stands, and those that are over.
fn repair(repair: &RepairView, style: &Style) -> String {
    let mut parts = Vec::new();
    let nodes = repair.unhealthy_nodes.iter().map(|node| match node.cause.as_str() {
        "lost" | "draining" => format!("{} is {}", node.name, node.cause),
        condition => format!("{} has {condition}", node.name),
    });
    let nodes: Vec<String> = nodes.collect();
    match repair.state.as_str() {
        "" => {}
        "waiting" => parts.push(format!("waits for room since {}", age(style.now_ms, repair.since_ms))),
        _ => parts.push("is placed, and starts".to_string()),
    }
    if !nodes.is_empty() {
        parts.push(nodes.join(", "));
    }
    for request in &repair.requests {
        let (class, lost) = (&request.class, counted(request.tasks.into(), "lost task"));
        let since = age(style.now_ms, request.since_ms);
        parts.push(match request.state.as_str() {
            "pending" => format!("asks {class} for nodes for {lost} for {since} (attempt {})", request.attempt),
            "ready" => format!("{class} has nodes for {lost} for {since}"),
            _ => format!("{class} has no nodes for {lost} (attempt {})", request.attempt),
        });
    }
    if repair.give_up_ms > 0 {
        parts.push(format!("gives up at {} UTC", utc(repair.give_up_ms)));
    }
    for past in &repair.past {
        let (nodes, took) = (past.nodes.join(", "), length(past.ended_ms.saturating_sub(past.since_ms)));
        parts.push(match past.failed.as_str() {
            "" => format!("{} moved off {nodes} in {took}", counted(past.tasks.into(), "task")),
            why => format!("given up after {took} ({nodes}): {why}"),
        });
    }
    parts.join("; ")
}

pub(super) fn pairs(pairs: &BTreeMap<String, String>) -> String {
    pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
}

fn group_text(group: &GroupView, style: &Style) -> String {
    let mut about = vec![tasks(&group.counts)];
    if group.counts.probed > 0 {
        about.push(format!("ready {}", ready(&group.counts)));
    }
    if group.min_count != group.counts.total {
        about.push(format!("starts with {}", group.min_count));
    }
    let each = |amounts: &BTreeMap<String, String>| {
        amounts.iter().map(|(name, amount)| format!("{name} {amount}")).collect::<Vec<_>>().join(", ")
    };
    if !group.requests.is_empty() {
        about.push(format!("each {}", each(&group.requests)));
    }
    if !group.limits.is_empty() {
        about.push(format!("at most {}", each(&group.limits)));
    }
    if !group.flavors.is_empty() {
        about.push(format!("flavors {}", pairs(&group.flavors)));
    }
    if !group.domain.is_empty() {
        about.push(format!("in {}", group.domain.join("/")));
    }
    if group.spares > 0 {
        about.push(spares(group));
    }
    let about = format!("Group {}: {}", group.name, about.join("; "));
    let mut text = format!("\n{}\n", wrapped(&about, style.width, 2));
    if group.tasks.is_empty() {
        return text;
    }
    // Most groups are what they were made of first.
    let was_changed = group.tasks.iter().any(|task| task.revision > 1);
    let names = ["TASK", "STATE", "NODE", "RUN", "REVISION", "AGE", "LAST END"];
    let names: Vec<&str> = names.into_iter().filter(|name| was_changed || *name != "REVISION").collect();
    let number = |number: u32| if number == 0 { String::new() } else { number.to_string() };
    let mut grid = Grid::new(style, &names);
    for task in &group.tasks {
        let state = if task.ready == Some(false) { "not ready".to_string() } else { task.state.clone() };
        let first = [task.task.to_string(), state, task.node.clone(), number(task.incarnation)];
        let revision = was_changed.then(|| number(task.revision));
        let rest = [age(style.now_ms, task.started_ms.max(task.placed_ms)), ended(task)];
        grid.row(first.into_iter().chain(revision).chain(rest));
    }
    text.push_str(&grid.text());
    if group.tasks_omitted > 0 {
        text.push_str(&format!("and {}; --tasks shows more\n", counted(group.tasks_omitted, "other task")));
    }
    text
}

/// `spares 2/2 on a, b`
fn spares(group: &GroupView) -> String {
    let mut nodes = group.spare_nodes.clone();
    nodes.dedup();
    let place = if nodes.is_empty() { String::new() } else { format!(" on {}", nodes.join(", ")) };
    format!("spares {}/{}{place}", group.spare_nodes.len(), group.spares)
}

fn ended(task: &TaskView) -> String {
    match (task.exit.as_str(), task.stop_cause.as_str()) {
        // What is wrong now goes before what was.
        (_, "") if !task.unready_reason.is_empty() => task.unready_reason.clone(),
        (exit, "") => exit.to_string(),
        (_, cause) => format!("stopping: {cause}"),
    }
}

fn past_runs(runs: &[PastRunView], style: &Style) -> String {
    let mut grid = Grid::new(style, &["GROUP", "TASK", "RUN", "NODE", "TOOK", "ENDED", "HOW"]);
    for run in runs {
        let details = [run.exit.as_str(), run.stop_cause.as_str(), run.message.as_str()];
        let details: Vec<&str> = details.into_iter().filter(|text| !text.is_empty()).collect();
        grid.row([
            run.group.clone(),
            run.task.to_string(),
            run.incarnation.to_string(),
            run.node.clone(),
            length(run.ended_ms.saturating_sub(run.placed_ms)),
            format!("{} ago", age(style.now_ms, run.ended_ms)),
            details.join(", "),
        ]);
    }
    grid.text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::PLAIN;

    fn summary(name: &str, state: &str, tasks: TaskCounts) -> JobSummary {
        JobSummary {
            name: name.into(),
            class: "batch".into(),
            state: state.into(),
            owner: "ada".into(),
            submitted_ms: PLAIN.now_ms - 90_000,
            tasks,
            ..JobSummary::default()
        }
    }

    #[test]
    fn jobs_are_listed_one_per_line() {
        let running = TaskCounts { total: 4, live: 4, running: 3, ..TaskCounts::default() };
        let waiting = TaskCounts { total: 20, pending: 18, succeeded: 2, ..TaskCounts::default() };
        let jobs = vec![summary("train", "running", running), summary("array", "pending", waiting)];
        let text = jobs_table(&JobList { jobs, total: 3, next: "train".into() }, &PLAIN);
        assert_eq!(
            text,
            "\
NAME   CLASS  STATE    TASKS                    PRIORITY  QUEUE  OWNER  AGE
train  batch  running  3 running, 1 placed      0         -      ada    90s
array  batch  pending  18 pending, 2 succeeded  0         -      ada    90s
2 of 3 jobs; --limit shows more
"
        );
        assert_eq!(jobs_table(&JobList::default(), &PLAIN), "no jobs\n");
    }

    #[test]
    fn it_is_told_when_a_job_is_expected_to_start() {
        let head_at = |expected_start_ms, expected_start_is_guess, held: &str| JobSummary {
            expected_start_ms,
            expected_start_is_guess,
            held: held.into(),
            ..summary("gang", "pending", TaskCounts::default())
        };
        let head = |is_guess, held: &str| head_at(PLAIN.now_ms + 40_000, is_guess, held);
        assert_eq!(state(&head_at(PLAIN.now_ms, true, ""), &PLAIN), "pending (due)");
        let due = "by now, and it does not stand yet";
        assert_eq!(expected_start(&head_at(PLAIN.now_ms, true, ""), &PLAIN), due);
        assert_eq!(state(&head(false, ""), &PLAIN), "pending (in 40s)");
        assert_eq!(state(&head(true, ""), &PLAIN), "pending (in ~40s)");
        assert_eq!(state(&head(true, "Hold"), &PLAIN), "held");
        let known = "within 40s, when what it waits for has reached its deadline";
        assert_eq!(expected_start(&head(false, ""), &PLAIN), known);
        let guess = "in about 40s, if what it waits for runs for as long again as it has";
        assert_eq!(expected_start(&head(true, ""), &PLAIN), guess);
        assert_eq!(expected_start(&summary("new", "pending", TaskCounts::default()), &PLAIN), "");
    }

    #[test]
    fn a_job_is_told_with_its_groups_and_past_runs() {
        let counts = TaskCounts { total: 2, live: 1, running: 1, backing_off: 1, ..TaskCounts::default() };
        let tasks = vec![
            TaskView {
                task: 0,
                state: "running".into(),
                node: "n1".into(),
                incarnation: 1,
                placed_ms: PLAIN.now_ms - 61_000,
                started_ms: PLAIN.now_ms - 60_000,
                ..TaskView::default()
            },
            TaskView {
                task: 1,
                state: "backingOff".into(),
                node: "n2".into(),
                incarnation: 2,
                exit: "exit 3".into(),
                ..TaskView::default()
            },
        ];
        let group = GroupView {
            name: "workers".into(),
            min_count: 1,
            domain: vec!["b1".into(), "r2".into()],
            requests: [("cpu".to_string(), "500m".to_string())].into(),
            limits: [("cpu".to_string(), "2".to_string())].into(),
            flavors: [("cpu", "a"), ("memory", "b")].map(|(key, value)| (key.into(), value.into())).into(),
            counts,
            tasks,
            tasks_omitted: 1,
            ..GroupView::default()
        };
        let past = PastRunView {
            group: "workers".into(),
            task: 1,
            incarnation: 2,
            node: "n2".into(),
            placed_ms: PLAIN.now_ms - 30_000,
            ended_ms: PLAIN.now_ms - 10_000,
            exit: "exit 3".into(),
            ..PastRunView::default()
        };
        let summary = JobSummary { priority: 5, ..summary("train", "running", counts) };
        let (groups, past_runs) = (vec![group], vec![past]);
        let view = JobView { summary, shard: "batch/3".into(), version: 7, groups, past_runs, ..JobView::default() };
        assert_eq!(
            job_text(&view, &PLAIN),
            "\
Job:       train
State:     running
Class:     batch
Shard:     batch/3
Priority:  5
Owner:     ada
Submitted: 1970-01-12 13:45:10 UTC (90s ago)

Group workers: 1 running, 1 backing off; starts with 1; each cpu 500m; at most cpu 2; flavors cpu=a, memory=b; in b1/r2
TASK  STATE       NODE  RUN  AGE  LAST END
0     running     n1    1    60s  -
1     backingOff  n2    2    -    exit 3
and 1 other task; --tasks shows more

Past runs:
GROUP    TASK  RUN  NODE  TOOK  ENDED    HOW
workers  1     2    n2    20s   10s ago  exit 3
"
        );
    }
}
