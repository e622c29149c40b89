//! Every planted bug is found by a sweep, within a bounded number of seeds. Needs the feature `planted-bugs`:
//! `cargo test -p ohm-sim --profile sim --features bugs --test bugs -- --nocapture`. `OHM_PLANTED_BUGS=A,B` plants
//! these alone, `OHM_PLANTED_BUGS_THIRD=0` (1, 2) a third of all.
#![cfg(feature = "planted-bugs")]

use ohm_sim::{Scenario, run};
use ohm_stdx::bug::{Bug, plant};
use std::sync::Mutex;
use std::thread;

/// A planted bug must show itself within this many seeds.
const SEEDS_MAX: u64 = 3_000;

/// The first seed at which a planted bug breaks a promise in cells with so many servers, and which one. A panic counts:
/// an assertion saw it.
fn found(bug: Bug, servers: usize) -> Option<(u64, String)> {
    plant(Some(bug));
    let first = (0..SEEDS_MAX).find_map(|seed| {
        let (nodes, servers) = (Some(1 + seed as usize % 10), Some(servers));
        let run = std::panic::catch_unwind(|| run(&Scenario { nodes, servers, ..Scenario::of_seed(seed) }));
        match run {
            Ok(report) => report.broken.first().map(|broken| (seed, broken.to_string())),
            Err(_) => Some((seed, "an assertion".to_string())),
        }
    });
    plant(None);
    first
}

#[test]
fn every_bug_is_found() {
    let everywhere = [1, 3].into_iter().flat_map(|servers| Bug::ALL.map(|bug| (bug, servers)));
    let asked = std::env::var("OHM_PLANTED_BUGS").unwrap_or_default();
    let is_asked =
        |(bug, _): &(Bug, usize)| asked.is_empty() || asked.split(',').any(|name| name == format!("{bug:?}"));
    let all = everywhere.chain(Bug::OF_GROUPS.map(|bug| (bug, 3)));
    let third: Option<usize> = std::env::var("OHM_PLANTED_BUGS_THIRD").ok().and_then(|third| third.parse().ok());
    let is_in_third = |number: usize| third.is_none_or(|third| number % 3 == third);
    let chosen = all.filter(is_asked).enumerate().filter(|(number, _)| is_in_third(*number)).map(|(_, chosen)| chosen);
    let wanted: Vec<(Bug, usize)> = chosen.collect();
    assert!(!wanted.is_empty(), "no such planted bug");
    println!("{} planted bugs", wanted.len());
    let wanted = Mutex::new(wanted.into_iter());
    let missed = Mutex::new(Vec::new());
    let look = || {
        // The lock is given back before the long search.
        while let Some((bug, servers)) = { wanted.lock().unwrap().next() } {
            match found(bug, servers) {
                Some((seed, what)) => println!("{bug:?}, {servers} servers: seed {seed}: {what}"),
                None => missed.lock().unwrap().push((bug, servers)),
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(look))));
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "not found within {SEEDS_MAX} seeds: {missed:?}");
}
