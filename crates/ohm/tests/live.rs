//! Real processes, real kills: a whole cell under `ohm up`, every role killed in turn and all at once while jobs go
//! through. Judged by what was acknowledged, by how jobs end, and by `ohm log verify` over the log that is left.

mod cell;

use cell::Cell;
use std::time::Duration;

/// How long jobs may take to end after the last kill: lease, take-over and restarts included.
const PATIENCE: Duration = Duration::from_secs(120);

fn jobs(prefix: &str, count: usize) -> String {
    let job = |number: usize| {
        let tasks = 1 + number % 3;
        format!(
            "---\napiVersion: ohm/v1\nkind: Job\nmetadata: {{name: {prefix}-{number}}}\nspec: {{count: {tasks}, requests: \
             {{cpu: 500m, memory: 64Mi}}, command: [\"true\"], sim: {{duration: 300ms}}}}\n"
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
    let mut expected = Vec::new();
    for (round, victims) in [
        vec!["server"],
        vec!["scheduler batch"],
        vec!["health"],
        vec!["scheduler service", "scheduler tas"],
        vec!["agent"],
        vec!["server", "scheduler batch", "scheduler service", "scheduler tas", "health", "agent"],
    ]
    .into_iter()
    .enumerate()
    {
        let prefix = format!("round{round}");
        expected.extend(cell.submit_until_taken(&jobs(&prefix, 65)));
        for victim in victims {
            cell.kill(victim);
        }
        expected.extend(cell.submit_until_taken(&jobs(&format!("{prefix}-after"), 20)));
    }
    assert_eq!(expected.len(), 6 * 85);
    cell.wait_until_all_succeeded(&expected, PATIENCE);
    let data_dir = cell.stop();
    let report = cell::ohm(&["log", "verify", "--data-dir", &data_dir]);
    assert!(report.contains("every invariant held at every index"), "{report}");
}
