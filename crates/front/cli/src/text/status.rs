//! The cell in numbers.

use super::table::Grid;
use super::times::{age, length, utc};
use super::{Style, counted};
use ohm_wire::api::{ClockView, JudgedView, SessionView, StatusView};

/// The cell in numbers, its sessions and leases.
pub(crate) fn status_text(status: &StatusView, style: &Style) -> String {
    let (nodes, jobs, tasks) = (status.nodes, status.jobs, status.tasks);
    let lines = [
        ("Log entry", status.applied_index.to_string()),
        ("Leader", status.leader.clone()),
        ("Chain", status.chain.clone()),
        (
            "Nodes",
            listed(&[
                (nodes.ready, "ready"),
                (nodes.suspect, "suspect"),
                (nodes.lost, "lost"),
                (nodes.cordoned, "cordoned"),
            ]),
        ),
        (
            "Jobs",
            listed(&[
                (jobs.pending, "pending"),
                (jobs.running, "running"),
                (jobs.suspended, "suspended"),
                (jobs.succeeded, "succeeded"),
                (jobs.failed, "failed"),
                (jobs.cancelled, "cancelled"),
            ]),
        ),
        (
            "Tasks",
            listed(&[
                (tasks.pending, "pending"),
                (tasks.backing_off, "backing off"),
                (tasks.live.saturating_sub(tasks.running), "placed"),
                (tasks.running.saturating_sub(tasks.unready), "running"),
                (tasks.unready, "not ready"),
            ]),
        ),
        ("Brake", brake(status)),
        ("Clocks", if status.clocks.is_empty() { String::new() } else { clocks(&status.clocks) }),
        ("Time", held(&status.clocks)),
        ("Not held", leases(&status.free_leases)),
        ("Refused", status.judged.iter().map(judged).collect::<Vec<_>>().join("; ")),
    ];
    let lines = lines.into_iter().filter(|(_, value)| !value.is_empty());
    let mut text: String = lines.map(|(name, value)| format!("{:<11}{value}\n", format!("{name}:"))).collect();
    if !status.sessions.is_empty() {
        text.push_str(&format!("\n{}", sessions(&status.sessions, style)));
    }
    text
}

/// What became of the transactions of a class since the server started.
fn judged(class: &JudgedView) -> String {
    let JudgedView { class, transactions, conflicted, conflicts } = class;
    let reasons: Vec<String> = conflicts.iter().map(|(reason, rows)| format!("{reason} {rows}")).collect();
    let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
    format!("{class} {conflicted} of {}{reasons}", counted(*transactions, "transaction"))
}

/// By how much the wall clocks of the servers differ from the time of the cell.
pub(crate) fn clocks(clocks: &[ClockView]) -> String {
    let word = |clock: &ClockView| {
        let sign = if clock.offset_ms < 0 { "-" } else { "+" };
        let note = if clock.unbelieved { " (not believed)" } else { "" };
        format!("server {} {sign}{}{note}", clock.server, length(clock.offset_ms.unsigned_abs()))
    };
    clocks.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// What to do about a clock that is not believed.
fn held(clocks: &[ClockView]) -> String {
    match clocks.iter().find(|clock| clock.unbelieved) {
        None => String::new(),
        Some(ClockView { server, .. }) => format!(
            "held: it does not follow the clock of server {server}. Deadlines and the like count the time that has \
             surely passed. Set that clock right; if it is right: `ohm server believe-clock {server}`"
        ),
    }
}

/// Why nobody is declared lost, if that is so.
fn brake(status: &StatusView) -> String {
    match status.silent_nodes {
        0 => String::new(),
        nodes => {
            format!("{nodes} nodes fell silent at once; none is declared lost until {} UTC", utc(status.held_until_ms))
        }
    }
}

fn listed(counts: &[(u64, &str)]) -> String {
    let there = counts.iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = there.map(|(count, word)| format!("{count} {word}")).collect();
    if words.is_empty() { "none".to_string() } else { words.join(", ") }
}

fn sessions(sessions: &[SessionView], style: &Style) -> String {
    let mut grid = Grid::new(style, &["SESSION", "ROLE", "NAME", "STATE", "SPOKE", "HOLDS"]);
    for session in sessions {
        grid.row([
            session.id.to_string(),
            session.role.clone(),
            session.name.clone(),
            session.state.clone(),
            format!("{} ago", age(style.now_ms, session.spoke_ms)),
            leases(&session.leases),
        ]);
    }
    grid.text()
}

/// Leases, those of the shards of one class together: `batch/0-3,7`.
fn leases(names: &[String]) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut shards: std::collections::BTreeMap<&str, Vec<u32>> = std::collections::BTreeMap::new();
    for name in names {
        match name.split_once('/').and_then(|(class, number)| Some((class, number.parse().ok()?))) {
            Some((class, number)) => shards.entry(class).or_default().push(number),
            None => words.push(name.clone()),
        }
    }
    for (class, mut numbers) in shards {
        numbers.sort_unstable();
        words.push(format!("{class}/{}", ranges(&numbers)));
    }
    words.join(" ")
}

fn ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => parts.push((*number, *number)),
        }
    }
    let text = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::PLAIN;
    use ohm_wire::api::{JobTotals, NodeTotals};

    #[test]
    fn the_cell_is_told_in_numbers() {
        let held = ["health", "batch/0", "batch/1", "batch/2", "batch/7"].map(String::from).to_vec();
        let session = |id, role: &str, leases| SessionView {
            id,
            role: role.into(),
            name: "host 1".into(),
            state: "alive".into(),
            spoke_ms: PLAIN.now_ms - 1000,
            leases,
            ..SessionView::default()
        };
        let status = StatusView {
            applied_index: 12,
            chain: "00ff".into(),
            nodes: NodeTotals { total: 8, ready: 7, lost: 1, ..NodeTotals::default() },
            jobs: JobTotals { total: 1, running: 1, ..JobTotals::default() },
            clocks: vec![
                ClockView { server: 1, offset_ms: -40, unbelieved: false },
                ClockView { server: 2, offset_ms: 200_000_000, unbelieved: true },
            ],
            sessions: vec![session(1, "server", vec![]), session(2, "scheduler batch", held)],
            free_leases: vec!["tas/0".into()],
            judged: vec![
                JudgedView {
                    class: "batch".into(),
                    transactions: 40,
                    conflicted: 3,
                    conflicts: [("NodeChanged".into(), 4), ("NodeFull".into(), 1)].into(),
                },
                JudgedView { class: "tas".into(), transactions: 1, ..JudgedView::default() },
            ],
            ..StatusView::default()
        };
        assert_eq!(
            status_text(&status, &PLAIN),
            "\
Log entry: 12
Chain:     00ff
Nodes:     7 ready, 1 lost
Jobs:      1 running
Tasks:     none
Clocks:    server 1 -40ms, server 2 +2d (not believed)
Time:      held: it does not follow the clock of server 2. Deadlines and the like count the time that has surely \
passed. Set that clock right; if it is right: `ohm server believe-clock 2`
Not held:  tas/0
Refused:   batch 3 of 40 transactions (NodeChanged 4, NodeFull 1); tas 0 of 1 transaction

SESSION  ROLE             NAME    STATE  SPOKE   HOLDS
1        server           host 1  alive  1s ago  -
2        scheduler batch  host 1  alive  1s ago  health batch/0-2,7
"
        );
    }
}
