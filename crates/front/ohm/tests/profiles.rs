//! Classes of an operator with real processes: a profile, its scheduler, and a profile that changes meanwhile.

use crate::cell;

use cell::{Cell, Killed, wait};
use serde_json::Value;
use std::process::Command;

fn profile(base: &str) -> String {
    format!(
        "apiVersion: ohm/v1\nkind: SchedulingProfile\nmetadata: {{name: dense}}\nspec: {{like: service, base: {base}}}\n"
    )
}

fn job(name: &str) -> String {
    format!(
        "apiVersion: ohm/v1\nkind: Job\nmetadata: {{name: {name}}}\n\
         spec: {{class: dense, requests: {{cpu: 100m}}, command: [sleep, infinity]}}\n"
    )
}

fn submit(cell: &Cell, documents: &str) -> Value {
    let file = cell.put("profile.yaml", documents);
    cell.try_json(&["submit", &file]).unwrap()
}

fn scheduler(cell: &Cell) -> Killed {
    let child = Command::new(cell.path("ohm"))
        .args(["scheduler", "--class", "dense", "--name", "dense-1", "--server", &cell.urls()])
        .arg("--token-file")
        .arg(format!("{}/token", cell.data_dir()))
        .spawn();
    Killed::of(child.unwrap())
}

/// Where the only task of a job runs.
fn node_of(cell: &Cell, job: &str) -> String {
    cell.wait_for_tasks(job)[0]["node"].as_str().unwrap().to_string()
}

fn dense(cell: &Cell) -> Value {
    let list = cell.json(&["profiles"]);
    let profiles = list["profiles"].as_array().unwrap().clone();
    profiles.into_iter().find(|profile| profile["class"] == "dense").unwrap_or_default()
}

/// The class is unknown, then known, then served; its scheduler takes another profile without a restart.
#[test]
fn an_operator_adds_a_class_and_changes_how_it_is_planned() {
    let cell = Cell::start(&["--shape", "1x1x2"]);
    cell.wait_for_nodes(2);
    let refused = submit(&cell, &job("early"));
    let message = refused["verdicts"][0]["problems"][0]["message"].as_str().unwrap().to_string();
    assert!(message.starts_with("there is no class \"dense\"; known: batch, service, tas"), "{message}");
    let answer = submit(&cell, &[profile("packing"), "---\n".into(), job("first")].concat());
    assert_eq!(answer["accepted"], 2, "{answer}");
    let explained = cell.ask(&["explain", "first"]).good();
    for part in
        ["first waits for a scheduler: none of class dense runs.", "the profile dense", "`ohm scheduler --class dense`"]
    {
        assert!(explained.contains(part), "{explained}");
    }
    assert_eq!((&dense(&cell)["replicas"], &dense(&cell)["jobs"]), (&0.into(), &1.into()));
    let _scheduler = scheduler(&cell);
    let first = node_of(&cell, "first");
    submit(&cell, &job("second"));
    assert_eq!(node_of(&cell, "second"), first, "packed");
    submit(&cell, &profile("spreading"));
    submit(&cell, &job("third"));
    assert_ne!(node_of(&cell, "third"), first, "spread, by the scheduler that runs already");
    wait("the scheduler is counted", || dense(&cell)["replicas"] == 1);
    let told = cell.ask(&["profile", "remove", "dense"]);
    assert!(told.code == 1 && told.err.contains("is used by job"), "{told:?}");
    for name in ["first", "second", "third"] {
        cell.ask(&["cancel", name]).good();
    }
    cell.ask(&["profile", "remove", "dense"]).good();
    assert_eq!(dense(&cell), Value::Null);
    let table = cell.ask(&["profiles"]).good();
    assert!(table.starts_with("CLASS") && table.contains("  default  NodeResourcesFit 1 (ByGroup)"), "{table}");
}
