//! One queue: its quota and policies, who waits for what, and who has how much.

use super::amounts::short;
use super::queues::quota_cells;
use super::shares::share_cell;
use super::table::Grid;
use super::times::age;
use super::wrap::wrapped;
use super::{Style, counted};
use ohm_wire::api::{
    ActiveJobView, QueueDetail, QueuePreemptionView, QueueView, SubqueueView, UsageBasedOrderView, WaitingJobView,
};
use std::collections::BTreeMap;

/// Everything about a queue.
pub(crate) fn queue_text(queue: &QueueDetail, style: &Style) -> String {
    let summary = &queue.summary;
    let mut text = head(queue, style);
    let cells = quota_cells(summary);
    if cells.iter().any(|(_, resource)| !resource[0].is_empty()) {
        text.push_str(&format!("\n{}", quota_table(&cells, style)));
    }
    let listed = |shown: usize, total: u64, what: &str| match total.saturating_sub(shown as u64) {
        0 => String::new(),
        more => format!("{more} more {what}; --limit shows up to 200\n"),
    };
    if !summary.subqueues.is_empty() {
        text.push_str(&format!("\nSubqueues:\n{}", subqueues_table(&summary.subqueues, style)));
    }
    if summary.pending > 0 {
        text.push_str(&format!("\nWaiting:\n{}", waiting_table(&queue.waiting, style)));
        text.push_str(&listed(queue.waiting.len(), summary.pending, "wait"));
    }
    if summary.running > 0 {
        text.push_str(&format!("\nRunning:\n{}", active_table(&queue.active, style)));
        text.push_str(&listed(queue.active.len(), summary.running, "run"));
    }
    text
}

fn head(queue: &QueueDetail, style: &Style) -> String {
    let summary = &queue.summary;
    let is_queue = summary.kind != "Cohort";
    let weight = thousandths(summary.weight_milli);
    let share = share_cell(summary.weighted_share, style);
    let share = match summary.dominant_resource.as_str() {
        "" => share,
        resource => format!("{share}, of {resource}"),
    };
    let jobs = format!("{} wait, {} run, {} suspended", summary.pending, summary.running, summary.suspended);
    let bound = match summary.max_waiting_jobs {
        0 => String::new(),
        most => format!("at most {} may wait (maxWaitingJobs)", counted(most.into(), "job")),
    };
    let namespaces = match summary.namespaces.as_deref() {
        None => String::new(),
        Some([]) => "none may have jobs in it".to_string(),
        Some(names) => format!("{}: jobs of others are refused", names.join(", ")),
    };
    let protection = match summary.min_runtime_seconds {
        0 => String::new(),
        seconds => format!("for {seconds} s after its start, from other queues (minRuntimeSeconds)"),
    };
    let lines = [
        (if is_queue { "Queue" } else { "Cohort" }, summary.name.clone()),
        (if is_queue { "Cohort" } else { "Parent" }, summary.parent.clone()),
        ("Weight", weight),
        ("Share", share),
        ("Strategy", queue.queueing_strategy.clone()),
        ("Stop", stop(&summary.stop_policy)),
        ("Preemption", summary.preemption.as_ref().map(preemption).unwrap_or_default()),
        ("Protection", protection),
        ("Order", summary.usage_based_order.as_ref().map(order).unwrap_or_default()),
        ("Ready", summary.ready_timeout.as_ref().map(super::ready::timeout_line).unwrap_or_default()),
        ("Checks", checks(summary)),
        ("Bound", bound),
        ("Namespaces", namespaces),
        ("Jobs", if is_queue { jobs } else { String::new() }),
    ];
    let lines = lines.into_iter().filter(|(_, value)| !value.is_empty());
    let line = |(name, value)| wrapped(&format!("{:<12}{value}", format!("{name}:")), style.width, 12) + "\n";
    lines.map(line).collect()
}

/// `slow, spot (on a100-spot, tin)`
fn checks(summary: &QueueView) -> String {
    let check = |name: &String| match summary.on_flavors.get(name) {
        Some(flavors) => format!("{name} (on {})", flavors.join(", ")),
        None => name.clone(),
    };
    summary.admission_checks.iter().map(check).collect::<Vec<_>>().join(", ")
}

fn stop(policy: &str) -> String {
    match policy {
        "Hold" => "Hold: nothing of it starts, what runs goes on".to_string(),
        "HoldAndDrain" => "HoldAndDrain: nothing of it starts, what ran is stopped".to_string(),
        other => other.to_string(),
    }
}

fn preemption(policies: &QueuePreemptionView) -> String {
    let borrow = &policies.borrow_within_cohort;
    let threshold = borrow.max_priority_threshold.map(|most| format!(" up to {most}")).unwrap_or_default();
    format!(
        "withinClusterQueue {}, reclaimWithinCohort {}, borrowWithinCohort {}{threshold}, outsideRoot {}",
        policies.within_cluster_queue, policies.reclaim_within_cohort, borrow.policy, policies.outside_root
    )
}

fn quota_table(cells: &[(String, [String; 5])], style: &Style) -> String {
    let has_flavors = cells.iter().any(|(flavor, _)| !flavor.is_empty());
    let header = ["FLAVOR", "RESOURCE", "USED", "NOMINAL", "BORROWED", "AVAILABLE"];
    let header: Vec<&str> = header.into_iter().filter(|name| has_flavors || *name != "FLAVOR").collect();
    let mut grid = Grid::new(style, &header);
    for (flavor, resource) in cells {
        grid.row(has_flavors.then(|| flavor.clone()).into_iter().chain(resource.iter().cloned()));
    }
    grid.text()
}

fn order(order: &UsageBasedOrderView) -> String {
    let weights = order.resource_weights_milli.iter();
    let weights: Vec<String> = weights.map(|(name, weight)| format!("{name} {}", thousandths(*weight))).collect();
    let weights = if weights.is_empty() { String::new() } else { format!(" (weights: {})", weights.join(", ")) };
    match order.half_life_seconds {
        0 => format!("who uses least comes first{weights}"),
        seconds => format!("who has used least comes first, half of it forgotten in {seconds} s{weights}"),
    }
}

fn subqueues_table(subqueues: &[SubqueueView], style: &Style) -> String {
    let mut grid = Grid::new(style, &["NAME", "WEIGHT", "USED", "CONSUMED", "KEY", "PENDING", "RUNNING"]);
    for part in subqueues {
        let name = if part.name.is_empty() { "(the queue itself)".to_string() } else { part.name.clone() };
        let amounts = |amounts: &BTreeMap<String, String>| {
            let amounts = amounts.iter().map(|(name, amount)| format!("{name} {}", short(name, amount)));
            amounts.collect::<Vec<_>>().join(", ")
        };
        let key = part.key_milli.map(thousandths).unwrap_or_default();
        let (used, consumed) = (amounts(&part.used), amounts(&part.consumed));
        let counts = [part.pending, part.running].map(|count| count.to_string());
        grid.row([name, thousandths(part.weight_milli), used, consumed, key].into_iter().chain(counts));
    }
    grid.text()
}

/// `1`, `2.5`
fn thousandths(milli: u64) -> String {
    match (milli / 1000, milli % 1000) {
        (whole, 0) => whole.to_string(),
        (whole, rest) => format!("{whole}.{}", format!("{rest:03}").trim_end_matches('0')),
    }
}

fn waiting_table(jobs: &[WaitingJobView], style: &Style) -> String {
    let mut grid = Grid::new(style, &["#", "NAME", "CLASS", "PRIORITY", "AGE", "REASON"]);
    for job in jobs {
        let (position, priority) = (job.position.to_string(), job.priority.to_string());
        let waited = age(style.now_ms, job.submitted_ms);
        grid.row([position, job.name.clone(), job.class.clone(), priority, waited, job.reason.clone()]);
    }
    grid.text()
}

fn active_table(jobs: &[ActiveJobView], style: &Style) -> String {
    let mut grid = Grid::new(style, &["NAME", "CLASS", "PRIORITY", "TASKS", "SINCE", "QUOTA"]);
    for job in jobs {
        // `spot/cpu` is cpu.
        let amount = |(name, amount): (&String, &String)| {
            let resource = name.split_once('/').map_or(name.as_str(), |(_, resource)| resource);
            format!("{name} {}", short(resource, amount))
        };
        let quota: Vec<String> = job.quota.iter().map(amount).collect();
        let since = age(style.now_ms, job.since_ms);
        let (priority, live) = (job.priority.to_string(), job.live.to_string());
        grid.row([job.name.clone(), job.class.clone(), priority, live, since, quota.join(", ")]);
    }
    grid.text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::PLAIN;
    use ohm_wire::api::{BorrowWithinCohortView, QueueResourceView, QueueView};

    fn detail() -> QueueDetail {
        let resource = QueueResourceView {
            nominal: "4".into(),
            used: "4500m".into(),
            borrowed: "500m".into(),
            available: "2500m".into(),
            ..QueueResourceView::default()
        };
        let borrow = BorrowWithinCohortView { policy: "LowerPriority".into(), max_priority_threshold: Some(5) };
        let preemption = QueuePreemptionView {
            within_cluster_queue: "Never".into(),
            reclaim_within_cohort: "Any".into(),
            borrow_within_cohort: borrow,
            outside_root: "Never".into(),
        };
        let summary = QueueView {
            name: "research".into(),
            kind: "Queue".into(),
            parent: "all".into(),
            weight_milli: 1500,
            weighted_share: 125,
            dominant_resource: "cpu".into(),
            stop_policy: "Hold".into(),
            preemption: Some(preemption),
            max_waiting_jobs: 500,
            namespaces: Some(vec!["default".into(), "team-a".into()]),
            min_runtime_seconds: 60,
            admission_checks: vec!["licence".into(), "burst".into()],
            on_flavors: [("burst".to_string(), vec!["spot".to_string(), "tin".to_string()])].into(),
            resources: [("cpu".to_string(), resource)].into(),
            pending: 3,
            running: 1,
            ..QueueView::default()
        };
        let waits = WaitingJobView {
            position: 1,
            subqueue: String::new(),
            name: "train".into(),
            class: "tas".into(),
            priority: 7,
            submitted_ms: PLAIN.now_ms - 90_000,
            reason: "Its queue research is held (stopPolicy: Hold): nothing that waits of it is placed until that is \
                     None."
                .into(),
        };
        let runs = ActiveJobView {
            name: "sweep".into(),
            class: "batch".into(),
            priority: 0,
            since_ms: PLAIN.now_ms - 5_000,
            live: 3,
            quota: [("spot/cpu".to_string(), "4500m".to_string())].into(),
        };
        QueueDetail { summary, queueing_strategy: "BestEffortFIFO".into(), waiting: vec![waits], active: vec![runs] }
    }

    #[test]
    fn a_queue_is_told_with_its_jobs() {
        assert_eq!(
            queue_text(&detail(), &PLAIN),
            "\
Queue:      research
Cohort:     all
Weight:     1.5
Share:      █░░░░░░░░░ 125, of cpu
Strategy:   BestEffortFIFO
Stop:       Hold: nothing of it starts, what runs goes on
Preemption: withinClusterQueue Never, reclaimWithinCohort Any, borrowWithinCohort LowerPriority up to 5, \
outsideRoot Never
Protection: for 60 s after its start, from other queues (minRuntimeSeconds)
Checks:     licence, burst (on spot, tin)
Bound:      at most 500 jobs may wait (maxWaitingJobs)
Namespaces: default, team-a: jobs of others are refused
Jobs:       3 wait, 1 run, 0 suspended

RESOURCE  USED  NOMINAL  BORROWED  AVAILABLE
cpu       4.5   4        0.5       2.5

Waiting:
#  NAME   CLASS  PRIORITY  AGE  REASON
1  train  tas    7         90s  Its queue research is held (stopPolicy: Hold): nothing that waits of it is placed \
until that is None.
2 more wait; --limit shows up to 200

Running:
NAME   CLASS  PRIORITY  TASKS  SINCE  QUOTA
sweep  batch  0         3      5s     spot/cpu 4.5
"
        );
    }

    #[test]
    fn a_queue_fits_the_terminal() {
        for width in [60, 80, 120] {
            let text = queue_text(&detail(), &Style { width: Some(width), ..PLAIN });
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
        }
    }
}
