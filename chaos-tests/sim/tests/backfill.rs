//! Reservations in time: a large gang among small jobs starts no later than was said when room was first kept for it, and
//! what surely ends before uses that room meanwhile.

use ohm_sim::{Report, Scenario, Script, run};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

const NODES: u64 = 64;
/// As in `nodes … alike`.
const CPU_PER_NODE: u64 = 8;
const GANG: u64 = 500;
const GANG_SUBMITTED_MS: u64 = 10_000;
/// How long small jobs may last, in seconds, and how much sooner they end.
const DEADLINES_S: std::ops::RangeInclusive<u64> = 2..=8;
const SOONER_MS: u64 = 200;
/// More small jobs than there is room for come until then, so many each second.
const LAST_MS: u64 = 50_000;
const PER_SECOND: u64 = 110;

fn stream(gang: bool, seed: u64) -> Report {
    let mut text = format!("seed {seed}\nnodes {NODES} alike\nfaults for 52s\nquiet for 20s\n");
    let span = DEADLINES_S.end() - DEADLINES_S.start() + 1;
    let mut job = 0;
    // At first as many as there is room for, then more than end.
    for at_ms in std::iter::repeat_n(3_000, 6).chain((4_000..LAST_MS).step_by(1_000)) {
        for _ in 0..PER_SECOND {
            let deadline = DEADLINES_S.start() + (job * 5) % span;
            let lasting_ms = deadline * 1000 - SOONER_MS;
            writeln!(text, "at {at_ms}ms submit batch j{job} lasting {lasting_ms}ms deadline {deadline}s").unwrap();
            job += 1;
        }
    }
    if gang {
        writeln!(text, "at {GANG_SUBMITTED_MS}ms submit batch gang tasks {GANG} least {GANG} lasting 5s").unwrap();
        writeln!(text, "expect job gang as-planned").unwrap();
    }
    let script = Script::parse(&text).unwrap();
    let report = run(&Scenario { seed, script: Some(Arc::new(script)), ..Scenario::default() });
    assert!(report.broken.is_empty(), "gang: {gang}, seed {seed}: {:?}", report.broken);
    report
}

/// How many thousandths of the cell ran between two times.
fn used_permille(report: &Report, from_ms: u64, until_ms: u64) -> u64 {
    let ran_ms = report.ran_ms.iter().map(|(began_ms, over_ms)| {
        let (began_ms, over_ms) = ((*began_ms).max(from_ms), (*over_ms).min(until_ms));
        over_ms.saturating_sub(began_ms)
    });
    ran_ms.sum::<u64>() * 1000 / (NODES * CPU_PER_NODE * (until_ms - from_ms))
}

/// When most of the cell began within a second: small jobs don't, once there is no more room than they give back.
fn gang_began_ms(report: &Report) -> u64 {
    let later = report.ran_ms.iter().map(|(began_ms, _)| *began_ms).filter(|began_ms| *began_ms > GANG_SUBMITTED_MS);
    let mut by_second: BTreeMap<u64, u64> = BTreeMap::new();
    later.for_each(|began_ms| *by_second.entry(began_ms / 1000).or_default() += 1);
    let gang = by_second.into_iter().find(|(_, runs)| *runs >= GANG / 2);
    gang.map(|(second, _)| second * 1000).expect("the gang began")
}

#[test]
fn a_large_gang_starts_as_was_said_and_its_room_is_used_until_then() {
    for seed in 1..2 {
        let (with, without) = (stream(true, seed), stream(false, seed));
        let (from_ms, until_ms) = (GANG_SUBMITTED_MS, gang_began_ms(&with));
        let (used, all) = (used_permille(&with, from_ms, until_ms), used_permille(&without, from_ms, until_ms));
        println!("seed {seed}: {used} of 1000 used until {until_ms} ms, {all} without the gang");
        assert!(used * 100 >= all * 95, "seed {seed}: {used} of 1000 used, {all} without the gang");
    }
}
