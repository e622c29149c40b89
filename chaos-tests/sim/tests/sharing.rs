//! Several schedulers of one class share the work of one queue. Planning takes virtual time here, so that what they save
//! is a count and no timing.

use ohm_sim::{Scenario, Script, run};
use std::fmt::Write;
use std::sync::Arc;

/// When the jobs are submitted: the schedulers have shared out their shards by then.
const SUBMITTED_MS: u64 = 20_000;
const JOBS: u64 = 400;

/// How long it takes from the submission of many jobs until the last of them begins.
fn planned_in_ms(schedulers: usize, queue_cpu: u64, seed: u64) -> u64 {
    let mut text = format!(
        "seed {seed}\nnodes 40 alike\nschedulers {schedulers}\nplanning a job takes 20ms with 16 in a pass\nfaults for 50s\n\
         quiet for 10s\nat 5s queue line cpu {queue_cpu}\n"
    );
    for job in 0..JOBS {
        writeln!(text, "at {SUBMITTED_MS}ms submit batch j{job} queue line cpu 500 lasting 1s").unwrap();
        writeln!(text, "expect job j{job} succeeded").unwrap();
    }
    let script = Script::parse(&text).unwrap();
    let report = run(&Scenario { seed, script: Some(Arc::new(script)), ..Scenario::default() });
    assert!(report.broken.is_empty(), "{schedulers} schedulers, seed {seed}: {:?}", report.broken);
    assert_eq!(report.began, JOBS);
    report.last_began_ms - SUBMITTED_MS
}

#[test]
fn four_schedulers_plan_one_queue_two_and_a_half_times_as_fast_as_one() {
    for seed in 1..4 {
        let (one_ms, four_ms) = (planned_in_ms(1, 1_000_000, seed), planned_in_ms(4, 1_000_000, seed));
        println!("seed {seed}: one scheduler {one_ms} ms, four {four_ms} ms");
        assert!(one_ms >= JOBS * 20, "one scheduler plans {JOBS} jobs in {one_ms} ms");
        assert!(one_ms * 2 >= four_ms * 5, "seed {seed}: one takes {one_ms} ms, four take {four_ms} ms");
    }
}

#[test]
fn four_schedulers_fill_a_small_quota_in_its_order() {
    // P8 judges the order while jobs are patient; 40 tasks may run at once, for a second each.
    for seed in 1..4 {
        let (one_ms, four_ms) = (planned_in_ms(1, 20_000, seed), planned_in_ms(4, 20_000, seed));
        println!("seed {seed}: one scheduler {one_ms} ms, four {four_ms} ms");
        assert!(four_ms * 4 <= one_ms * 5, "seed {seed}: one takes {one_ms} ms, four take {four_ms} ms");
    }
}
