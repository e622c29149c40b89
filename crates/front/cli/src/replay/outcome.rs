//! The end of a replay: waiting until nothing moves any more, and what is left then.

use super::bar::Bar;
use super::cell::CellClient;
use super::documents::{GPU, RunName};
use super::report::{Allocated, PendingGroup};
use super::scan::{self, ScanError, Stuck};
use super::trace::{Request, Trace};
use crate::failure::Failure;
use ohm_wire::api::{ExplainView, JobSummary, NodeSummary};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How often the numbers are looked at.
const LOOK: Duration = Duration::from_millis(200);
/// The jobs themselves are looked at this often: that costs more.
const JOBS_LOOK: Duration = Duration::from_secs(3);
/// Pods that fit may take this long to be placed while no other pod is, before they count as stuck.
const STUCK: Duration = Duration::from_secs(30);

/// What is there once nothing moves.
pub(super) struct Rest {
    pub(super) nodes: Vec<NodeSummary>,
    pub(super) jobs: Vec<JobSummary>,
    pub(super) stuck: Vec<Stuck>,
}

/// Waits until the pods that wait stay the same and none of them fits; or, if one does, has fitted for so long that it
/// is stuck.
///
/// # Errors
/// Those of asking, and an interruption.
pub(super) fn settle(cell: &CellClient, run: &RunName, trace: &Trace) -> Result<Rest, Failure> {
    let bar = Bar::start("placing", trace.pods.len() as u64);
    let requests: BTreeMap<String, &Request> =
        trace.pods.iter().map(|pod| (run.named(&pod.name), &pod.request)).collect();
    let mut before: Option<BTreeSet<String>> = None;
    let mut still_since = Instant::now();
    loop {
        let waiting: BTreeSet<String> = cell.jobs(run, Some("pending"))?.into_iter().map(|job| job.name).collect();
        bar.set((trace.pods.len() - waiting.len().min(trace.pods.len())) as u64);
        let is_still = before.as_ref() == Some(&waiting);
        if !is_still {
            still_since = Instant::now();
        }
        if is_still || waiting.is_empty() {
            let rest = whole(cell, run, trace)?;
            let asked = waiting.iter().filter_map(|job| Some((job.clone(), (*requests.get(job)?).clone())));
            let stuck = scan::scan(&rest.nodes, &asked.collect::<Vec<_>>()).map_err(unreadable)?;
            let is_same = rest.jobs.iter().filter(|job| job.state == "pending").map(|job| &job.name).eq(&waiting);
            if is_same && (stuck.is_empty() || still_since.elapsed() > STUCK) {
                return Ok(Rest { stuck, ..rest });
            }
        }
        before = Some(waiting);
        wait_for_change(cell, &bar, trace.pods.len())?;
    }
}

/// All nodes and jobs of the replay, not yet scanned.
///
/// # Errors
/// A cell that does not show everything that it acknowledged.
fn whole(cell: &CellClient, run: &RunName, trace: &Trace) -> Result<Rest, Failure> {
    let (node_count, pod_count) = (trace.nodes.len(), trace.pods.len());
    let jobs = cell.at_least(pod_count, || cell.jobs(run, None))?;
    let nodes = cell.at_least(node_count, || cell.nodes(run))?;
    if jobs.len() < pod_count || nodes.len() < node_count {
        let (jobs, nodes) = (jobs.len(), nodes.len());
        let message =
            format!("the cell shows {jobs} of the {pod_count} jobs and {nodes} of the {node_count} nodes it has taken");
        return Err(Failure::Failed(message));
    }
    Ok(Rest { nodes, jobs, stuck: Vec::new() })
}

/// Waits for the next look at the jobs: less long if nothing waits in the whole cell.
fn wait_for_change(cell: &CellClient, bar: &Bar, pods: usize) -> Result<(), Failure> {
    let until = Instant::now() + JOBS_LOOK;
    while Instant::now() < until {
        cell.pause(LOOK)?;
        let tasks = cell.status()?.tasks;
        bar.set((pods as u64).saturating_sub(tasks.pending + tasks.backing_off));
        if tasks.pending + tasks.backing_off == 0 {
            break;
        }
    }
    Ok(())
}

fn unreadable(error: ScanError) -> Failure {
    Failure::Failed(format!("the scan cannot be made: {error}"))
}

/// Why the pods wait, asked one by one and grouped by what stands in the way.
///
/// # Errors
/// Those of asking, and an interruption.
pub(super) fn pending_reasons(
    cell: &CellClient,
    run: &RunName,
    trace: &Trace,
    waiting: &[String],
) -> Result<Vec<PendingGroup>, Failure> {
    let bar = Bar::start("explaining", waiting.len() as u64);
    let views = cell.explain(waiting, || bar.advance(1))?;
    let requests: BTreeMap<String, &Request> =
        trace.pods.iter().map(|pod| (run.named(&pod.name), &pod.request)).collect();
    Ok(grouped(views, &requests))
}

/// Groups by obstacle and by the set of reasons; how many nodes each excludes is told of one pod of the group.
fn grouped(views: Vec<ExplainView>, requests: &BTreeMap<String, &Request>) -> Vec<PendingGroup> {
    /// Obstacle and reasons.
    type Key = (String, Vec<String>);
    let mut groups: BTreeMap<Key, (PendingGroup, BTreeSet<&Request>)> = BTreeMap::new();
    for view in views {
        let mut words: Vec<String> = view.reasons.iter().map(|reason| reason.reason.clone()).collect();
        words.sort();
        let (group, kinds) = groups.entry((view.obstacle.clone(), words)).or_default();
        kinds.extend(requests.get(&view.job).copied());
        group.pods += 1;
        group.requests = kinds.len() as u64;
        if group.example.is_empty() {
            group.obstacle = view.obstacle;
            group.reasons = view.reasons;
            group.example = view.job;
            group.summary = view.summary;
        }
    }
    let mut groups: Vec<PendingGroup> = groups.into_values().map(|(group, _)| group).collect();
    groups.sort_by(|a, b| b.pods.cmp(&a.pods).then_with(|| a.example.cmp(&b.example)));
    groups
}

/// From the first submit to the last placement, by the stamps of the log, in milliseconds.
pub(super) fn place_ms(jobs: &[JobSummary]) -> u64 {
    let first = jobs.iter().map(|job| job.submitted_ms).min().unwrap_or(0);
    let last = jobs.iter().map(|job| job.started_ms).max().unwrap_or(0);
    last.saturating_sub(first)
}

/// What is allocated of each resource, and what all pods asked for.
///
/// # Errors
/// An amount of the API that is no quantity.
pub(super) fn allocated(trace: &Trace, nodes: &[NodeSummary]) -> Result<BTreeMap<String, Allocated>, Failure> {
    let asked =
        |amount: fn(&Request) -> i64| trace.pods.iter().fold(0i64, |sum, pod| sum.saturating_add(amount(&pod.request)));
    let resources = [
        ("cpu", asked(|request| request.cpu_milli)),
        ("memory", asked(|request| request.memory_mib << 20)),
        (GPU, asked(|request| request.gpu_milli)),
    ];
    let mut allocated = BTreeMap::new();
    for (resource, asked) in resources {
        let (total, free) = scan::totals(nodes, resource).map_err(unreadable)?;
        allocated.insert(resource.to_string(), Allocated { used: total - free, asked, total });
    }
    Ok(allocated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_wire::api::ReasonView;

    #[test]
    fn pods_that_wait_for_the_same_reasons_are_told_together() {
        let view = |job: &str, reasons: &[(&str, u64)]| ExplainView {
            job: job.into(),
            obstacle: "room".into(),
            summary: format!("{job} waits"),
            reasons: reasons
                .iter()
                .map(|(reason, nodes)| ReasonView { code: String::new(), reason: reason.to_string(), nodes: *nodes })
                .collect(),
            ..ExplainView::default()
        };
        let views =
            vec![view("a", &[("cpu", 3)]), view("b", &[("cpu", 5), ("gpu", 1)]), view("c", &[("gpu", 4), ("cpu", 2)])];
        let (small, large) = (Request::default(), Request { cpu_milli: 9, ..Request::default() });
        let requests = [("a", &small), ("b", &small), ("c", &large)];
        let groups = grouped(views, &requests.map(|(job, request)| (job.to_string(), request)).into());
        assert_eq!(groups.len(), 2);
        assert_eq!((groups[0].pods, groups[0].requests, groups[0].example.as_str()), (2, 2, "b"));
        assert_eq!((groups[1].pods, groups[1].summary.as_str()), (1, "a waits"));
    }

    #[test]
    fn the_time_to_place_is_from_first_submit_to_last_placement() {
        let job = |submitted_ms, started_ms| JobSummary { submitted_ms, started_ms, ..JobSummary::default() };
        assert_eq!(place_ms(&[job(100, 150), job(110, 0), job(120, 400)]), 300);
        assert_eq!((place_ms(&[]), place_ms(&[job(100, 0)])), (0, 0));
    }
}
