//! `ohm plan` as a process: what it prints, and with which exit code it ends.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

fn example(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../examples/plan");
    folder.join(name).display().to_string()
}

fn plan(words: &[&str]) -> Output {
    let ohm = env!("CARGO_BIN_EXE_ohm");
    Command::new(ohm).arg("plan").args(words).output().expect("ohm runs")
}

fn example_with(words: &[&str]) -> Output {
    let (cell, jobs) = (example("cell.yaml"), example("jobs.yaml"));
    let mut all = vec!["--cell", &cell, "--jobs", &jobs];
    all.extend(words);
    plan(&all)
}

#[test]
fn json_and_yaml_say_the_same_and_the_exit_code_is_0_whatever_the_answer() {
    let output = example_with(&["--fail", "r1-n1", "-o", "json"]);
    assert_eq!(output.status.code(), Some(0));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let outcomes: Vec<&str> =
        json["jobs"].as_array().unwrap().iter().filter_map(|job| job["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["repaired", "placed", "pending"]);
    assert_eq!(json["jobs"][0]["groups"][0]["placements"][0], serde_json::json!({"node": "r1-n3", "count": 8}));
    assert_eq!(json["jobs"][2]["groups"][0]["explain"]["of"], 16);
    let yaml = example_with(&["--fail", "r1-n1", "-o", "yaml"]);
    assert_eq!(yaml.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&yaml.stdout).contains("outcome: repaired"));
}

#[test]
fn wrong_use_ends_with_2_and_a_broken_document_with_1() {
    for words in [
        &["--add-nodes", "3"][..],
        &["--add-nodes", "3", "--like", "nobody"],
        &["--cell", "/nowhere.yaml"],
        &["--cell", "-", "--jobs", "-"],
    ] {
        let output = example_with(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("jobs.json");
    std::fs::write(&broken, "{\"apiVersion\": \"ohm/v1\",\n \"kind\": \"Job\", \"metadata\": {\"name\": \"j\"},\n \"spec\": {\"cuont\": 1}}").unwrap();
    let output = plan(&["--cell", &example("cell.yaml"), "--jobs", &broken.display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains(":3:11: spec: unknown field `cuont`; did you mean `count`?"), "{told}");
}

#[test]
fn what_kubernetes_objects_ask_for_in_vain_is_named_and_strict_refuses_it() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, pod: &str| {
        let job = format!(
            r#"{{"apiVersion": "batch/v1", "kind": "Job", "metadata": {{"name": "k"}}, "spec": {{"template": {{"spec": {pod}}}}}}}"#
        );
        let path = folder.path().join(name);
        std::fs::write(&path, job).unwrap();
        path.display().to_string()
    };
    let cell = example("cell.yaml");
    let bound = write("bound.json", r#"{"nodeName": "r1-n1", "containers": [{"name": "c"}]}"#);
    let output = plan(&["--cell", &cell, "--jobs", &bound, "-o", "json"]);
    assert_eq!(output.status.code(), Some(0));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let field = "spec.template.spec.nodeName";
    let expected = serde_json::json!([{"kind": "Job", "name": "k", "field": field, "reason": null}]);
    assert_eq!(json["ignored"], expected);
    let slip = write("slip.json", r#"{"containerz": [{"name": "c"}]}"#);
    for (words, code, told) in [
        (&["--jobs", &bound, "--strict"][..], 1, "Job k: spec.template.spec.nodeName: is not honoured"),
        (&["--jobs", &slip], 1, "unknown field `containerz`; did you mean `containers`?"),
        (&["--fail", "r1-n9"], 2, "--fail r1-n9: no document names such a node; did you mean `r1-n1`?"),
        (&["--drain", "r1-n9"], 2, "--drain r1-n9: no document names such a node; did you mean `r1-n1`?"),
    ] {
        let output = plan(&[&["--cell", cell.as_str()], words].concat());
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.stdout.is_empty() && said.contains(told), "{words:?}: {said}");
    }
}
