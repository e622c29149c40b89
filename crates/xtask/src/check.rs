//! `cargo xtask check`: every step runs, one line each; what failed shows its output and the whole fails.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::command::{cargo, run};
use crate::source::{self, SourceFile};
use crate::totals::Totals;
use crate::workspace::Workspace;
use crate::{layers, purity, ratchet, tidy};

/// How long the advisory database may take to be fetched and searched.
const ADVISORIES_LIMIT: Duration = Duration::from_secs(60);
/// How to get what the dependency step needs.
const INSTALL_DENY: &str = "cargo install cargo-deny --locked --version 0.20.2";

/// How a step ended.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// Well; the notes are shown but stop nobody.
    Passed(Vec<String>),
    /// Badly, with the output that says why.
    Failed(String),
    /// Not at all, and why: a thing this machine lacks is said, never silently passed.
    Skipped(String),
}

/// What the steps share.
struct Context {
    workspace: Workspace,
    files: Vec<SourceFile>,
    totals: Totals,
}

/// One step: its name, whether it is part of the quick check, and what it does.
struct Step {
    name: &'static str,
    fast: bool,
    action: fn(&mut Context) -> Result<Outcome>,
}

const STEPS: &[Step] = &[
    Step { name: "format", fast: true, action: format },
    Step { name: "layers", fast: true, action: layers },
    Step { name: "purity", fast: true, action: purity },
    Step { name: "tidy", fast: true, action: tidy },
    Step { name: "clippy", fast: false, action: clippy },
    Step { name: "docs", fast: false, action: docs },
    Step { name: "tests", fast: false, action: tests },
    Step { name: "doc tests", fast: false, action: doc_tests },
    Step { name: "dependencies", fast: false, action: dependencies },
    Step { name: "advisories", fast: false, action: advisories },
];

/// Runs the steps; true if none failed.
pub(crate) fn check(fast: bool) -> Result<bool> {
    let workspace = Workspace::load()?;
    let files = source::load(&workspace.root, &workspace.members)?;
    let mut context = Context { workspace, files, totals: Totals::default() };
    let mut failed = Vec::new();
    for step in STEPS.iter().filter(|step| step.fast || !fast) {
        if !run_step(step, &mut context)? {
            failed.push(step.name);
        }
    }
    match failed.is_empty() {
        true => println!("all checks are well"),
        false => println!("failed: {}", failed.join(", ")),
    }
    if !fast {
        println!("{}", context.totals);
    }
    Ok(failed.is_empty())
}

/// Runs one step and prints its line; false if it failed.
fn run_step(step: &Step, context: &mut Context) -> Result<bool> {
    print!("{:<14}", step.name);
    std::io::stdout().flush()?;
    let started = Instant::now();
    let outcome = (step.action)(context).unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
    let seconds = started.elapsed().as_secs_f64();
    let (status, text) = match &outcome {
        Outcome::Passed(notes) => ("ok", notes.join("\n")),
        Outcome::Failed(output) => ("FAILED", output.clone()),
        Outcome::Skipped(reason) => ("skipped", reason.clone()),
    };
    println!("{status:<8}{seconds:>7.1} s");
    for line in text.trim_end().lines() {
        println!("    {line}");
    }
    Ok(!matches!(outcome, Outcome::Failed(_)))
}

/// Runs a program; its output is shown if it fails.
fn outcome_of(command: &mut Command) -> Result<Outcome> {
    let ended = run(command, None)?;
    Ok(if ended.success { Outcome::Passed(Vec::new()) } else { Outcome::Failed(ended.output) })
}

/// An outcome from a list of findings.
fn outcome_from(findings: &[String]) -> Outcome {
    if findings.is_empty() { Outcome::Passed(Vec::new()) } else { Outcome::Failed(findings.join("\n")) }
}

fn format(context: &mut Context) -> Result<Outcome> {
    let mut command = cargo(&context.workspace.root, &["fmt", "--all", "--check", "--", "-l"]);
    let ended = run(&mut command, None)?;
    if ended.success {
        return Ok(Outcome::Passed(Vec::new()));
    }
    // A file that two targets share is listed twice.
    let root = format!("{}/", context.workspace.root.display());
    let output = ended.output.replace(&root, "");
    let files: BTreeSet<&str> = output.lines().collect();
    let files: Vec<&str> = files.into_iter().collect();
    Ok(Outcome::Failed(format!("run `cargo fmt --all`; it would change:\n{}", files.join("\n"))))
}

fn layers(context: &mut Context) -> Result<Outcome> {
    Ok(outcome_from(&layers::findings(&context.workspace.members, layers::NEIGHBOURS)))
}

fn purity(context: &mut Context) -> Result<Outcome> {
    Ok(outcome_from(&purity::findings(&context.files, purity::ALLOWANCES)))
}

fn tidy(context: &mut Context) -> Result<Outcome> {
    let mut findings = tidy::findings(&context.workspace, &context.files)?;
    let comparison = ratchet::compare(&ratchet::measure(&context.files), &ratchet::read(&context.workspace.root)?);
    findings.extend(comparison.failures);
    let notes = comparison.improvements.iter().map(|text| format!("better, run `cargo xtask ratchet`: {text}"));
    Ok(match outcome_from(&findings) {
        Outcome::Passed(_) => Outcome::Passed(notes.collect()),
        other => other,
    })
}

fn clippy(context: &mut Context) -> Result<Outcome> {
    let arguments = ["clippy", "--quiet", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    outcome_of(&mut cargo(&context.workspace.root, &arguments))
}

fn docs(context: &mut Context) -> Result<Outcome> {
    let arguments = ["doc", "--quiet", "--workspace", "--no-deps", "--locked"];
    outcome_of(cargo(&context.workspace.root, &arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Runs a test runner and adds up what it counted.
fn counted(context: &mut Context, arguments: &[&str]) -> Result<Outcome> {
    let ended = run(&mut cargo(&context.workspace.root, arguments), None)?;
    context.totals.add_run(&ended.output, ended.success);
    Ok(if ended.success { Outcome::Passed(Vec::new()) } else { Outcome::Failed(ended.output) })
}

fn tests(context: &mut Context) -> Result<Outcome> {
    let root = context.workspace.root.clone();
    let arguments: &[&str] = match run(&mut cargo(&root, &["nextest", "--version"]), None)?.success {
        true => &["nextest", "run", "--workspace", "--locked", "--no-fail-fast", "--status-level", "fail"],
        false => &["test", "--workspace", "--locked", "--no-fail-fast", "--lib", "--bins", "--tests"],
    };
    let outcome = counted(context, arguments)?;
    let ran_none = outcome == Outcome::Passed(Vec::new()) && context.totals.passed == 0;
    Ok(if ran_none { Outcome::Failed("no test ran".into()) } else { outcome })
}

fn doc_tests(context: &mut Context) -> Result<Outcome> {
    counted(context, &["test", "--doc", "--workspace", "--locked", "--no-fail-fast"])
}

/// Whether cargo-deny is here; if not, how the step ends: skipped for a person, failed where everything must run.
fn without_deny(context: &Context) -> Result<Option<Outcome>> {
    if run(&mut cargo(&context.workspace.root, &["deny", "--version"]), None)?.success {
        return Ok(None);
    }
    let reason = format!("not checked here (cargo-deny is missing: {INSTALL_DENY})");
    let must_run = std::env::var_os("CI").is_some();
    Ok(Some(if must_run { Outcome::Failed(reason) } else { Outcome::Skipped(reason) }))
}

fn dependencies(context: &mut Context) -> Result<Outcome> {
    if let Some(outcome) = without_deny(context)? {
        return Ok(outcome);
    }
    outcome_of(&mut cargo(&context.workspace.root, &["deny", "--locked", "check", "licenses", "bans", "sources"]))
}

fn advisories(context: &mut Context) -> Result<Outcome> {
    if let Some(outcome) = without_deny(context)? {
        return Ok(outcome);
    }
    let mut command = cargo(&context.workspace.root, &["deny", "--locked", "check", "advisories"]);
    let ended = run(&mut command, Some(ADVISORIES_LIMIT))?;
    Ok(judge_advisories(ended.success, ended.timed_out, ended.output))
}

/// Tells a finding from a database that could not be had.
fn judge_advisories(success: bool, timed_out: bool, output: String) -> Outcome {
    let unreachable = output.contains("failed to fetch advisory database");
    match success {
        true => Outcome::Passed(Vec::new()),
        false if timed_out || unreachable => Outcome::Skipped("not checked here (database not reachable)".into()),
        false => Outcome::Failed(output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_check_is_the_part_that_builds_nothing() {
        let names: Vec<&str> = STEPS.iter().filter(|step| step.fast).map(|step| step.name).collect();
        assert_eq!(names, ["format", "layers", "purity", "tidy"]);
    }

    #[test]
    fn findings_fail_a_step() {
        assert_eq!(outcome_from(&[]), Outcome::Passed(Vec::new()));
        assert_eq!(outcome_from(&["a".into(), "b".into()]), Outcome::Failed("a\nb".into()));
    }

    #[test]
    fn a_failing_program_fails_its_step_with_its_output() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo why; exit 1"]);
        assert_eq!(outcome_of(&mut command).ok(), Some(Outcome::Failed("why\n".into())));
    }

    #[test]
    fn an_advisory_fails_and_a_missing_database_is_said() {
        let judge = |output: &str| judge_advisories(false, false, output.to_owned());
        assert!(matches!(judge("error[vulnerability]: something"), Outcome::Failed(_)));
        assert!(matches!(judge("[ERROR] failed to fetch advisory database"), Outcome::Skipped(_)));
        assert!(matches!(judge_advisories(false, true, String::new()), Outcome::Skipped(_)));
        assert_eq!(judge_advisories(true, false, String::new()), Outcome::Passed(Vec::new()));
    }
}
