//! Every planted bug is found by a sweep, within a bounded number of seeds. Needs the feature `planted-bugs`:
//! `cargo test -p ohm-sim --profile sim --features planted-bugs --test planted_bugs -- --nocapture`.
//! `OHM_PLANTED_BUGS=A,B` plants these alone.
//!
//! `planted_seeds.txt` says where each was found last; that seed is run first, so that a sweep is only needed after a
//! change that moved it. `OHM_BLESS=1` writes the file anew with where those that were looked for are found now.
#![cfg(feature = "planted-bugs")]

use ohm_sim::{Scenario, run};
use ohm_stdx::bug::{Bug, plant};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

/// A planted bug must show itself within this many seeds.
const SEEDS_MAX: u64 = 3_000;
const SEEDS_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/planted_seeds.txt");

/// A planted bug and the number of servers of the cells in which it is looked for.
type Wanted = (Bug, usize);

/// Which promise breaks at `seed`. A panic counts: an assertion saw it.
fn broken_at(seed: u64, servers: usize) -> Option<String> {
    let (nodes, servers) = (Some(1 + seed as usize % 10), Some(servers));
    match std::panic::catch_unwind(|| run(&Scenario { nodes, servers, ..Scenario::of_seed(seed) })) {
        Ok(report) => report.broken.first().map(ToString::to_string),
        Err(_) => Some("an assertion".to_string()),
    }
}

/// The first seed at which a planted bug breaks a promise, and which one: where it was found last, or else the first of
/// all seeds.
fn found((bug, servers): Wanted, last: Option<u64>) -> Option<(u64, String)> {
    plant(Some(bug));
    let first = last.into_iter().chain(0..SEEDS_MAX).find_map(|seed| Some((seed, broken_at(seed, servers)?)));
    plant(None);
    first
}

/// Lines of bug, servers and seed.
fn parse(text: &str) -> BTreeMap<(String, usize), u64> {
    let line = |line: &str| {
        let [bug, servers, seed] = line.split_whitespace().collect::<Vec<_>>().try_into().ok()?;
        Some(((bug.to_string(), servers.parse().ok()?), seed.parse().ok()?))
    };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|text| line(text).unwrap_or_else(|| panic!("{SEEDS_FILE}: not BUG SERVERS SEED: {text}"))).collect()
}

fn shown(found: &BTreeMap<(String, usize), u64>) -> String {
    let head = "# A seed at which each planted bug is found: bug, servers, seed. Written by planted_bugs.rs.\n";
    found.iter().fold(head.to_string(), |text, ((bug, servers), seed)| text + &format!("{bug} {servers} {seed}\n"))
}

#[test]
fn every_bug_is_found() {
    let last = parse(&std::fs::read_to_string(SEEDS_FILE).unwrap());
    let everywhere = [1, 3].into_iter().flat_map(|servers| Bug::ALL.map(|bug| (bug, servers)));
    let asked = std::env::var("OHM_PLANTED_BUGS").unwrap_or_default();
    let is_asked = |(bug, _): &Wanted| asked.is_empty() || asked.split(',').any(|name| name == format!("{bug:?}"));
    let wanted: Vec<Wanted> = everywhere.chain(Bug::OF_GROUPS.map(|bug| (bug, 3))).filter(is_asked).collect();
    assert!(!wanted.is_empty(), "no such planted bug");
    println!("{} planted bugs", wanted.len());
    let wanted = Mutex::new(wanted.into_iter());
    let (seeds, missed) = (Mutex::new(last.clone()), Mutex::new(Vec::new()));
    let look = || {
        // The lock is given back before the long search.
        while let Some((bug, servers)) = { wanted.lock().unwrap().next() } {
            let last = last.get(&(format!("{bug:?}"), servers)).copied();
            match found((bug, servers), last) {
                Some((seed, what)) => {
                    let moved = if last == Some(seed) { "" } else { " (not where it was found last)" };
                    println!("{bug:?}, {servers} servers: seed {seed}{moved}: {what}");
                    seeds.lock().unwrap().insert((format!("{bug:?}"), servers), seed);
                }
                None => missed.lock().unwrap().push((bug, servers)),
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(look))));
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "not found within {SEEDS_MAX} seeds: {missed:?}");
    if std::env::var_os("OHM_BLESS").is_some() {
        std::fs::write(SEEDS_FILE, shown(&seeds.into_inner().unwrap())).unwrap();
    }
}
