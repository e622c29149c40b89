//! `cargo xtask check`: every step runs, one line each; what failed shows its output and the whole fails.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::command::{cargo, run};
use crate::scope::{Request, Selection};
use crate::source::{self, SourceFile};
use crate::totals::Totals;
use crate::workspace::Workspace;
use crate::{fuzz, layers, purity, ratchet, tidy};

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
    selection: Selection,
    /// The cargo profile of everything that is built: macros and build scripts are built once for all steps.
    profile: String,
    totals: Totals,
}

/// One step: its name, whether only the whole check takes it, and what it does.
struct Step {
    name: &'static str,
    whole: bool,
    action: fn(&mut Context) -> Result<Outcome>,
}

const STEPS: &[Step] = &[
    Step { name: "format", whole: false, action: format },
    Step { name: "layers", whole: false, action: layers },
    Step { name: "purity", whole: false, action: purity },
    Step { name: "tidy", whole: false, action: tidy },
    Step { name: "locks", whole: false, action: locks },
    Step { name: "clippy", whole: false, action: clippy },
    Step { name: "docs", whole: true, action: docs },
    Step { name: "tests", whole: false, action: tests },
    Step { name: "doc tests", whole: true, action: doc_tests },
    Step { name: "dependencies", whole: true, action: dependencies },
    Step { name: "advisories", whole: true, action: advisories },
];

/// Runs the steps; true if none failed.
pub(crate) fn check(request: &Request) -> Result<bool> {
    let workspace = Workspace::load()?;
    let files = source::load(&workspace.root, &workspace.members)?;
    let selection = Selection::of(&request.scope, &workspace)?;
    let whole = selection.is_whole();
    if !whole {
        println!("clippy and tests of {}", selection.describe());
    }
    let profile = request.profile.clone();
    let mut context = Context { workspace, files, selection, profile, totals: Totals::default() };
    let mut failed = Vec::new();
    for step in STEPS.iter().filter(|step| whole || !step.whole) {
        if !run_step(step, &mut context)? {
            failed.push(step.name);
        }
    }
    match failed.is_empty() {
        true => println!("all checks are well"),
        false => println!("failed: {}", failed.join(", ")),
    }
    println!("{}", context.totals);
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
    if context.selection.is_empty() {
        return Ok(Outcome::Skipped("no crate changed".into()));
    }
    let mut command = cargo(&context.workspace.root, &["clippy", "--quiet", "--all-targets", "--locked"]);
    command.args(["--profile", &context.profile]);
    command.args(context.selection.arguments()).args(["--", "-D", "warnings"]);
    Ok(match outcome_of(&mut command)? {
        Outcome::Passed(_) => Outcome::Passed(context.selection.notes()),
        other => other,
    })
}

/// Builds the docs with the default features, which also shows that every library compiles without the others.
fn docs(context: &mut Context) -> Result<Outcome> {
    let arguments = ["doc", "--quiet", "--workspace", "--no-deps", "--locked", "--profile", &context.profile];
    outcome_of(cargo(&context.workspace.root, &arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Runs a test runner and adds up what it counted.
fn counted(context: &mut Context, command: &mut Command) -> Result<Outcome> {
    let ended = run(command, None)?;
    context.totals.add_run(&ended.output, ended.success);
    Ok(if ended.success { Outcome::Passed(Vec::new()) } else { Outcome::Failed(ended.output) })
}

fn tests(context: &mut Context) -> Result<Outcome> {
    let (selection, left_out) = context.selection.for_tests();
    let mut notes = selection.notes();
    notes.extend(left_out.iter().map(|name| format!("not run: the tests of {name}, which take minutes: -p {name}")));
    if selection.is_empty() {
        notes.push("no crate to test".into());
        return Ok(Outcome::Skipped(notes.join("\n")));
    }
    let root = context.workspace.root.clone();
    let mut command = match run(&mut cargo(&root, &["nextest", "--version"]), None)?.success {
        true => {
            let mut command = cargo(&root, &["nextest", "run", "--no-tests", "pass", "--status-level", "fail"]);
            command.args(["--cargo-profile", &context.profile]);
            command
        }
        false => cargo(&root, &["test", "--tests", "--profile", &context.profile]),
    };
    command.args(["--locked", "--no-fail-fast"]).args(selection.arguments());
    let outcome = counted(context, &mut command)?;
    let ran_none = selection.is_whole() && context.totals.passed == 0;
    Ok(match outcome {
        Outcome::Passed(_) if ran_none => Outcome::Failed("no test ran".into()),
        Outcome::Passed(_) => Outcome::Passed(notes),
        other => other,
    })
}

fn doc_tests(context: &mut Context) -> Result<Outcome> {
    let mut command = cargo(&context.workspace.root, &["test", "--doc", "--locked", "--no-fail-fast"]);
    command.args(["--profile", &context.profile]).args(context.selection.arguments());
    counted(context, &mut command)
}

/// Whether each `Cargo.lock` says all that its manifests ask for. What stands apart depends on packages of the
/// workspace, and its lock file changes with theirs.
fn locks(context: &mut Context) -> Result<Outcome> {
    for folder in locked_folders(context) {
        let ended = run(&mut cargo(&folder, &["metadata", "--locked", "--format-version", "1"]), None)?;
        if !ended.success {
            let text = format!("{}: run `cargo update --workspace` here\n{}", folder.display(), ended.output);
            return Ok(Outcome::Failed(text));
        }
    }
    Ok(Outcome::Passed(Vec::new()))
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
    for folder in locked_folders(context) {
        let outcome = outcome_of(&mut cargo(&folder, &["deny", "--locked", "check", "licenses", "bans", "sources"]))?;
        if !matches!(outcome, Outcome::Passed(_)) {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Passed(Vec::new()))
}

/// Where there is a `Cargo.lock`: the workspace, and what stands apart from it. All are judged by one `deny.toml`.
fn locked_folders(context: &Context) -> [PathBuf; 2] {
    let root = &context.workspace.root;
    [root.clone(), root.join(fuzz::DRIVER)]
}

fn advisories(context: &mut Context) -> Result<Outcome> {
    if let Some(outcome) = without_deny(context)? {
        return Ok(outcome);
    }
    for folder in locked_folders(context) {
        let mut command = cargo(&folder, &["deny", "--locked", "check", "advisories"]);
        let ended = run(&mut command, Some(ADVISORIES_LIMIT))?;
        let outcome = judge_advisories(ended.success, ended.timed_out, ended.output);
        if !matches!(outcome, Outcome::Passed(_)) {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Passed(Vec::new()))
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
    fn a_part_is_checked_by_all_that_can_take_a_part() {
        let names: Vec<&str> = STEPS.iter().filter(|step| !step.whole).map(|step| step.name).collect();
        assert_eq!(names, ["format", "layers", "purity", "tidy", "locks", "clippy", "tests"]);
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
