//! Real processes, real kills: a whole cell under `ohm up`, every role killed in turn and all at once while jobs go
//! through. Judged by what was acknowledged, by how jobs end, by the diaries of all real tasks (no two runs of one at once),
//! and by `ohm log verify` over the log that is left.

use crate::cell;

use cell::Cell;
use cell::diary::{assert_one_at_a_time, entry, lives};
use std::path::Path;
use std::time::Duration;

/// How long jobs may take to end after the last kill: lease, take-over and restarts included.
const PATIENCE: Duration = Duration::from_secs(120);

/// Jobs by turns for real nodes, where each task keeps a diary in `diaries`, and for simulated ones. Of the former some
/// run longer than it takes to kill somebody.
fn jobs(prefix: &str, count: usize, diaries: &Path) -> String {
    let job = |number: usize| {
        let (tasks, name) = (1 + number % 3, format!("{prefix}-{number}"));
        let write = entry(&format!("{}/${{OHM_JOB#*/}}.$OHM_RANK", diaries.display()));
        let lines = 1 + number % 20;
        let place = match number % 2 {
            0 => format!("nodeSelector: {{topology.ohm/block: b{}}}", 1 + number / 2 % 2),
            _ => "nodeSelector: {topology.ohm/block: b0}".to_string(),
        };
        format!(
            "---\napiVersion: ohm/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec:\n  count: {tasks}\n  requests: {{cpu: \
             10m, memory: 8Mi}}\n  {place}\n  sim: {{duration: 300ms}}\n  command:\n  - sh\n  - -c\n  - |\n    for line in \
             $(seq {lines}); do {write}; sleep 0.1; done\n    {write}\n"
        )
    };
    (0..count).map(job).collect()
}

#[test]
fn every_role_is_killed_in_turn_and_all_at_once_and_nothing_acknowledged_is_lost() {
    // Eight real nodes of `ohm up` beside twenty simulated ones: jobs go to both.
    let mut cell = Cell::start(&[]);
    let _agent = cell.sim_agent(20);
    cell.wait_for_nodes(28);
    let diaries = cell.path("diaries");
    std::fs::create_dir(&diaries).unwrap();
    let mut expected = Vec::new();
    for (round, victims) in [
        vec!["server"],
        vec!["scheduler --class batch"],
        vec!["health"],
        vec!["scheduler --class service", "scheduler --class tas"],
        vec!["agent"],
        vec![
            "server",
            "scheduler --class batch",
            "scheduler --class service",
            "scheduler --class tas",
            "health",
            "agent",
        ],
    ]
    .into_iter()
    .enumerate()
    {
        let prefix = format!("round{round}");
        expected.extend(cell.submit_until_taken(&jobs(&prefix, 65, &diaries)));
        for victim in victims {
            cell.kill(victim);
        }
        expected.extend(cell.submit_until_taken(&jobs(&format!("{prefix}-after"), 20, &diaries)));
    }
    assert_eq!(expected.len(), 6 * 85);
    cell.wait_until_all_succeeded(&expected, PATIENCE);
    let files: Vec<_> = std::fs::read_dir(&diaries).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() > 255, "every task of every second job wrote, and some jobs have several: {}", files.len());
    files.iter().for_each(|file| assert_one_at_a_time(&lives(file)));
    let data_dir = cell.stop();
    let report = cell::ohm(&["log", "verify", "--data-dir", &data_dir]);
    assert!(report.contains("every invariant held at every index"), "{report}");
}
