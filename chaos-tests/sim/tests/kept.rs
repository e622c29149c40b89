//! Seeds that once broke a promise, and scenarios as people wrote them: replayed for ever. Also: one seed, one digest.

use ohm_sim::{Scenario, Script, run, run_twice};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

fn chaos_tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn every_kept_seed_passes() {
    let text = std::fs::read_to_string(chaos_tests().join("seeds/kept.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let number = |word: Option<&str>| word.unwrap().parse().unwrap();
    let scenarios: Vec<Scenario> = lines
        .map(|line| {
            let mut words = line.split_whitespace();
            let (seed, servers) = (number(words.next()), number(words.next()) as usize);
            Scenario { servers: Some(servers), ..Scenario::of_seed(seed) }
        })
        .collect();
    assert!(!scenarios.is_empty());
    for scenario in scenarios {
        let report = run_twice(&scenario);
        let (seed, servers) = (scenario.seed, scenario.servers);
        assert!(report.broken.is_empty(), "seed {seed} with {servers:?} servers: {:?}", report.broken);
    }
}

#[test]
fn every_scenario_comes_out_as_it_says() {
    let folder = chaos_tests().join("scenarios/sim");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 10);
    for file in files {
        let script = Script::parse(&std::fs::read_to_string(&file).unwrap());
        let script = script.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let scenario = Scenario { seed: script.seed, script: Some(Arc::new(script)), ..Scenario::default() };
        let report = run_twice(&scenario);
        assert!(report.broken.is_empty(), "{}: {:?}", file.display(), report.broken);
    }
}

fn digest(seed: u64) -> u64 {
    run(&Scenario { faults_ms: Some(6_000), quiet_ms: Some(4_000), ..Scenario::of_seed(seed) }).digest
}

#[test]
fn a_seed_has_one_digest_and_another_seed_another() {
    let own = digest(5);
    println!("digest {own:016x}");
    assert_eq!(own, digest(5));
    assert_ne!(own, digest(6));
}

#[test]
fn it_has_the_same_digest_in_another_process() {
    let mut other = Command::new(std::env::current_exe().unwrap());
    other.args(["--exact", "a_seed_has_one_digest_and_another_seed_another", "--nocapture"]);
    let printed = String::from_utf8(other.output().unwrap().stdout).unwrap();
    assert!(printed.contains(&format!("digest {:016x}", digest(5))), "{printed}");
}

#[test]
fn nobody_runs_two_servers() {
    let check = |servers| Scenario { servers, ..Scenario::default() }.check();
    assert!(check(Some(2)).is_err() && check(Some(0)).is_err());
    assert!([None, Some(1), Some(3), Some(5)].into_iter().all(|servers| check(servers).is_ok()));
}
