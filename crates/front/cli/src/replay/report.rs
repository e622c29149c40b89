//! What a replay found, for programs and for people.

use super::figures::Conflicts;
use super::scan::Stuck;
use ohm_wire::api::ReasonView;
use serde::Serialize;
use std::collections::BTreeMap;

/// Most stuck pods that are listed for people.
const STUCK_LISTED: usize = 10;

/// The report. Its JSON is stable.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// The name of the replay, with which the names of its nodes and jobs began.
    pub(super) run: String,
    /// The format of the trace.
    pub(super) format: String,
    /// `max`, or by what the times of the trace were divided.
    pub(super) speed: String,
    /// Nodes of the trace.
    pub(super) nodes: u64,
    /// Pods that were submitted.
    pub(super) submitted: u64,
    /// Pods that were placed, ended ones included.
    pub(super) placed: u64,
    /// Pods that were placed and ended or were taken away at their time.
    pub(super) ended: u64,
    /// Pods that were taken away at their time before a place was found.
    pub(super) left_unplaced: u64,
    /// Pods that wait at the end.
    pub(super) pending: u64,
    /// Why they wait; most pods first.
    pub(super) pending_reasons: Vec<PendingGroup>,
    /// What became of the plans of each scheduler, by its name.
    pub(super) schedulers: BTreeMap<String, Conflicts>,
    /// How long each stage took.
    pub(super) stages: Stages,
    /// Placed pods by the time from the first submit to the last placement.
    pub(super) placements_per_second: f64,
    /// What is allocated at the end, by resource.
    pub(super) allocated: BTreeMap<String, Allocated>,
    /// Pods that wait although a node has room for them: what the independent scan found.
    pub(super) stuck: Vec<Stuck>,
}

/// Pods that wait for the same reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PendingGroup {
    /// How many.
    pub(super) pods: u64,
    /// How many different requests they make.
    pub(super) requests: u64,
    /// What stands in the way, in a word, as `ohm explain` says it; empty when nothing does.
    pub(super) obstacle: String,
    /// What excludes how many nodes from the example.
    pub(super) reasons: Vec<ReasonView>,
    /// One of the jobs.
    pub(super) example: String,
    /// The sentence about it.
    pub(super) summary: String,
}

/// How long each stage took, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stages {
    /// From the start of the agent until all nodes were ready.
    pub(super) register_ms: u64,
    /// From the first request to the last answer.
    pub(super) submit_ms: u64,
    /// From the first submit to the last placement, by the stamps of the log.
    pub(super) place_ms: u64,
}

/// One resource of all nodes, in the units of the model: thousandths of `cpu` and devices, bytes of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Allocated {
    /// What runs hold.
    pub(super) used: i64,
    /// What all pods together asked for.
    pub(super) asked: i64,
    /// What the nodes have.
    pub(super) total: i64,
}

/// `part` of `whole` in hundredths of a per cent.
fn basis_points(part: i64, whole: i64) -> i128 {
    if whole <= 0 { 0 } else { i128::from(part) * 10_000 / i128::from(whole) }
}

fn percent(part: i64, whole: i64) -> String {
    let points = basis_points(part, whole);
    format!("{}.{:02} %", points / 100, points % 100)
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03} s", ms / 1000, ms % 1000)
}

/// The report as text.
pub(super) fn text(report: &Report) -> String {
    let Report { submitted, placed, ended, pending, stages, .. } = report;
    let mut text = format!(
        "{}: {submitted} pods on {} nodes, {} at speed {}\n\n",
        report.run, report.nodes, report.format, report.speed
    );
    let mut rows = vec![
        ["Submitted".to_string(), submitted.to_string()],
        ["Placed".into(), placed.to_string()],
        ["Pending".into(), pending.to_string()],
    ];
    if *ended > 0 {
        rows.push(["Ended".into(), ended.to_string()]);
    }
    if report.left_unplaced > 0 {
        let left = format!("{} (taken away at their time before they were placed)", report.left_unplaced);
        rows.push(["Left".into(), left]);
    }
    let rate = format!("{} ({:.0} placements/s)", seconds(stages.place_ms), report.placements_per_second);
    rows.extend([
        ["Register".to_string(), seconds(stages.register_ms)],
        ["Submit".into(), seconds(stages.submit_ms)],
        ["Place".into(), rate],
    ]);
    text.push_str(&columns(&rows));
    let row = |(name, amounts): (&String, &Allocated)| {
        let Allocated { used, asked, total } = *amounts;
        [name.clone(), percent(used, total), percent(asked, total)]
    };
    let head = ["RESOURCE".to_string(), "ALLOCATED".into(), "ASKED".into()];
    text.push_str(&format!("\n{}", columns(&with_head(head, report.allocated.iter().map(row)))));
    let row = |(name, conflicts): (&String, &Conflicts)| {
        let reasons: Vec<String> = conflicts.reasons.iter().map(|(reason, rows)| format!("{reason} {rows}")).collect();
        let reasons = if reasons.is_empty() { "-".to_string() } else { reasons.join(", ") };
        [name.clone(), conflicts.conflicts.to_string(), conflicts.retries.to_string(), reasons]
    };
    let head = ["SCHEDULER".to_string(), "CONFLICTS".into(), "RETRIES".into(), "REASONS".into()];
    text.push_str(&format!("\n{}", columns(&with_head(head, report.schedulers.iter().map(row)))));
    text.push_str(&pending_text(&report.pending_reasons));
    text.push_str(&scan_text(report));
    text
}

fn pending_text(groups: &[PendingGroup]) -> String {
    let mut text = String::new();
    for group in groups {
        let pods = if group.pods == 1 { "1 pod waits".to_string() } else { format!("{} pods wait", group.pods) };
        let requests = match group.requests {
            1 => "1 kind of request".to_string(),
            kinds => format!("{kinds} kinds of request"),
        };
        text.push_str(&format!("\n{pods} ({requests}), such as {}: {}\n", group.example, group.summary));
        let row = |reason: &ReasonView| [format!("  {}", reason.nodes), reason.reason.clone()];
        let head = ["  NODES".to_string(), "REASON".into()];
        text.push_str(&columns(&with_head(head, group.reasons.iter().map(row))));
    }
    text
}

fn scan_text(report: &Report) -> String {
    if report.stuck.is_empty() {
        return match report.pending {
            0 => "\nScan: no pod waits.\n".to_string(),
            pending => format!("\nScan: none of the {pending} pods that wait fits on any node.\n"),
        };
    }
    let mut text = format!("\nScan: {} pods wait although they fit:\n", report.stuck.len());
    for stuck in report.stuck.iter().take(STUCK_LISTED) {
        text.push_str(&format!("  {} fits on {} ({} nodes in all)\n", stuck.job, stuck.node, stuck.nodes));
    }
    if report.stuck.len() > STUCK_LISTED {
        text.push_str(&format!("  and {} others\n", report.stuck.len() - STUCK_LISTED));
    }
    text
}

fn with_head<const N: usize>(head: [String; N], rows: impl Iterator<Item = [String; N]>) -> Vec<[String; N]> {
    std::iter::once(head).chain(rows).collect()
}

/// Rows whose columns line up.
fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |row: &[String; N]| {
        let cells: String = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}  ")).collect();
        format!("{}\n", cells.trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let reason = |nodes, reason: &str| ReasonView { code: "resource".into(), reason: reason.into(), nodes };
        Report {
            run: "replay-1".into(),
            format: "alibaba-gpu-2023".into(),
            speed: "max".into(),
            nodes: 20,
            submitted: 100,
            placed: 97,
            pending: 3,
            pending_reasons: vec![PendingGroup {
                pods: 3,
                requests: 1,
                obstacle: "room".into(),
                reasons: vec![reason(19, "too little cpu free"), reason(1, "too little memory free")],
                example: "replay-1-a".into(),
                summary: "0 of the 1 task would find room.".into(),
            }],
            schedulers: [
                (
                    "batch-1".to_string(),
                    Conflicts { conflicts: 3, retries: 2, reasons: [("room".to_string(), 3)].into() },
                ),
                ("service-1".to_string(), Conflicts::default()),
            ]
            .into(),
            stages: Stages { register_ms: 1200, submit_ms: 80, place_ms: 2000 },
            placements_per_second: 48.5,
            allocated: [("cpu".to_string(), Allocated { used: 9555, asked: 12_000, total: 10_000 })].into(),
            ..Report::default()
        }
    }

    #[test]
    fn a_report_is_read_at_a_glance() {
        assert_eq!(
            text(&report()),
            "\
replay-1: 100 pods on 20 nodes, alibaba-gpu-2023 at speed max

Submitted  100
Placed     97
Pending    3
Register   1.200 s
Submit     0.080 s
Place      2.000 s (48 placements/s)

RESOURCE  ALLOCATED  ASKED
cpu       95.55 %    120.00 %

SCHEDULER  CONFLICTS  RETRIES  REASONS
batch-1    3          2        room 3
service-1  0          0        -

3 pods wait (1 kind of request), such as replay-1-a: 0 of the 1 task would find room.
  NODES  REASON
  19     too little cpu free
  1      too little memory free

Scan: none of the 3 pods that wait fits on any node.
"
        );
    }

    #[test]
    fn stuck_pods_are_named() {
        let stuck = |number: usize| Stuck { job: format!("job-{number}"), node: "n1".into(), nodes: 2 };
        let text = text(&Report { stuck: (0..12).map(stuck).collect(), ended: 7, left_unplaced: 2, ..report() });
        assert!(text.contains("\nEnded      7\nLeft       2 (taken away at their"), "{text}");
        assert!(
            text.contains("\nScan: 12 pods wait although they fit:\n  job-0 fits on n1 (2 nodes in all)\n"),
            "{text}"
        );
        assert!(text.ends_with("\n  and 2 others\n"), "{text}");
    }

    #[test]
    fn programs_get_exact_numbers() {
        let json = serde_json::to_value(report()).unwrap();
        assert_eq!(json["stages"]["placeMs"], 2000);
        assert_eq!(json["allocated"]["cpu"]["used"], 9555);
        assert_eq!(json["schedulers"]["batch-1"]["conflicts"], 3);
        assert_eq!(json["pendingReasons"][0]["reasons"][0]["nodes"], 19);
        assert_eq!(json["stuck"], serde_json::json!([]));
    }

    #[test]
    fn shares_of_nothing_are_nothing() {
        assert_eq!(percent(5, 0), "0.00 %");
        assert_eq!(percent(i64::MAX, i64::MAX), "100.00 %");
    }
}
