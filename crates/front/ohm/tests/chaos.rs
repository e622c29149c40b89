//! `ohm chaos live`: what is wrong with a scenario is said before anything is started. (Scenarios themselves are run by
//! `.ci/run live_chaos`, and the verdict is tested where it is made.)

use std::fs;
use std::process::{Command, Output};

fn chaos(scenario: &str, more: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.scenario");
    fs::write(&file, scenario).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ohm"));
    command.args(["chaos", "live", "--scenario"]).arg(&file).args(more);
    command.output().unwrap()
}

#[test]
fn a_scenario_that_cannot_be_read_is_named_with_its_line() {
    let output = chaos("cell: 1 real node\nload: 1 batch job on real nodes", &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("test.scenario: line 2: \"job\" where \"jobs\" is due"), "{said}");
}

#[test]
fn evidence_is_never_mixed_with_what_is_there_already() {
    let taken = tempfile::tempdir().unwrap();
    fs::write(taken.path().join("here"), "").unwrap();
    let scenario = "cell: 1 real node\nload: 1 batch jobs on real nodes, 1 per second, 1 task of 1s";
    let output = chaos(scenario, &["--keep", taken.path().to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("must be new or empty"), "{said}");
    let output = chaos(scenario, &["--for", "soon"]);
    assert_eq!(output.status.code(), Some(2), "not a time");
}
