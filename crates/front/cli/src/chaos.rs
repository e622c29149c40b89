//! `ohm chaos sim`: whole cells in virtual time, hostile and repeatable. The simulator is a core; this is its shell:
//! threads, progress, files, and words for people.

mod options;
mod sweep;
mod swept;
mod words;

pub use options::Simulate;

use crate::failure::Failure;
use crate::globals::{Globals, OutputFormat};
use crate::output::{note, write_out};
use ohm_sim::{Report, Scenario, Script, Summary, run_twice, shrink};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use swept::Swept;

/// Simulates what the options say; fails if a promise broke.
pub(crate) fn simulate(options: &Simulate, globals: &Globals) -> Result<(), Failure> {
    let script = options.scenario.as_ref().map(read_script).transpose()?;
    let scenario = Scenario {
        seed: options.seed.or(script.as_ref().map(|script| script.seed)).unwrap_or(0),
        nodes: options.nodes,
        servers: options.servers,
        trace: options.trace,
        kept_faults: options.faults.as_ref().map(|list| list.0.clone()),
        script: script.map(Arc::new),
        ..Scenario::default()
    };
    scenario.check().map_err(|error| Failure::Usage(error.to_string()))?;
    let is_text = globals.output == OutputFormat::Table;
    let one = options.seed.is_some() || options.scenario.is_some();
    if !one {
        let seeds = options.seeds.clone().unwrap_or(0..if options.time.is_some() { u64::MAX } else { 1_000 });
        let swept = sweep::sweep(options, &scenario, seeds, |report| told_failure(options, report, is_text))?;
        return conclude(options, &swept, is_text);
    }
    let report = run_twice(&scenario);
    check_faults(options, &report)?;
    if is_text {
        tell_run(&report)?;
    }
    if !report.broken.is_empty() {
        told_failure(options, &report, is_text)?;
        if options.shrink {
            tell_shrunk(options, &scenario)?;
        }
    } else if options.shrink {
        note("no promise broke: there is nothing to shrink");
    }
    let mut summary = Summary::default();
    summary.add(&report);
    conclude(options, &Swept { summary, failed: vec![report], seconds_milli: 0, once: false }, is_text)
}

/// A number that no fault has is a slip of the pen.
fn check_faults(options: &Simulate, report: &Report) -> Result<(), Failure> {
    let count = report.fault_lines.len();
    let mut numbers = options.faults.iter().flat_map(|list| &list.0);
    match numbers.find(|number| **number >= count) {
        None => Ok(()),
        Some(number) if count == 0 => {
            Err(Failure::Usage(format!("--faults: there is no fault {number}, nor any other")))
        }
        Some(number) => {
            Err(Failure::Usage(format!("--faults: there is no fault {number}; this run has 0 to {}", count - 1)))
        }
    }
}

fn read_script(path: &PathBuf) -> Result<Script, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::io(path.display().to_string(), error))?;
    Script::parse(&text).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}

/// The command line that repeats a run.
fn replay_line(options: &Simulate, seed: u64, faults: Option<&[usize]>) -> String {
    let mut line = String::from("ohm chaos sim");
    match &options.scenario {
        Some(path) => line += &format!(" --scenario {} --seed {seed}", path.display()),
        None => line += &format!(" --seed {seed}"),
    }
    if let Some(nodes) = options.nodes {
        line += &format!(" --nodes {nodes}");
    }
    if let Some(servers) = options.servers {
        line += &format!(" --servers {servers}");
    }
    if let Some(faults) = faults.or(options.faults.as_ref().map(|list| list.0.as_slice())) {
        let numbers: Vec<String> = faults.iter().map(usize::to_string).collect();
        line += &format!(" --faults {}", if numbers.is_empty() { "none".into() } else { numbers.join(",") });
    }
    line + " --trace"
}

/// A run broke a promise: which, what happened just before, and how to see it again.
fn told_failure(options: &Simulate, report: &Report, is_text: bool) -> Result<(), Failure> {
    // How many of the last events are shown.
    const LAST: usize = 12;
    if !is_text {
        return Ok(());
    }
    let mut text = format!("seed {} failed\n", report.seed);
    report.broken.iter().take(8).for_each(|broken| text += &format!("  {broken}\n"));
    if !options.trace {
        let scenario = Scenario {
            seed: report.seed,
            nodes: options.nodes,
            servers: options.servers,
            trace: true,
            kept_faults: options.faults.as_ref().map(|list| list.0.clone()),
            script: options.scenario.as_ref().map(read_script).transpose()?.map(Arc::new),
            ..Scenario::default()
        };
        let again = ohm_sim::run(&scenario);
        text += "  the last that happened:\n";
        let from = again.trace.len().saturating_sub(LAST);
        again.trace[from..].iter().for_each(|line| text += &format!("    {}\n", words::cut(line, 200)));
    }
    text += &format!("  see it again: {}\n", replay_line(options, report.seed, None));
    write_out(text.as_bytes())
}

fn tell_run(report: &Report) -> Result<(), Failure> {
    let mut text = String::new();
    report.trace.iter().for_each(|line| text += &format!("{line}\n"));
    let nodes = if report.nodes == 1 { "1 node".into() } else { format!("{} nodes", report.nodes) };
    let servers = if report.servers == 1 { "1 server".into() } else { format!("{} servers", report.servers) };
    text += &format!("seed {}, {nodes}, {servers}, digest {:016x}\n", report.seed, report.digest);
    for (number, line) in report.fault_lines.iter().enumerate() {
        text += &format!("  fault {number}: {line}\n");
    }
    write_out(text.as_bytes())
}

fn tell_shrunk(options: &Simulate, scenario: &Scenario) -> Result<(), Failure> {
    let quiet = Scenario { trace: false, ..scenario.clone() };
    let Some(shrunk) = shrink(&quiet, |runs, faults| {
        if runs % 10 == 0 {
            note(&format!("{runs} runs, {faults} faults left"));
        }
    }) else {
        return Ok(());
    };
    let mut text = format!("after {} runs {} faults are left:\n", shrunk.runs, shrunk.kept.len());
    for number in &shrunk.kept {
        let line = shrunk.report.fault_lines.get(*number).map_or("", String::as_str);
        text += &format!("  fault {number}: {line}\n");
    }
    shrunk.report.broken.iter().take(3).for_each(|broken| text += &format!("  {broken}\n"));
    text += &format!("  see it again: {}\n", replay_line(options, scenario.seed, Some(&shrunk.kept)));
    write_out(text.as_bytes())
}

/// Prints what all runs found together, and says whether that is good.
fn conclude(options: &Simulate, swept: &Swept, is_text: bool) -> Result<(), Failure> {
    let missing = swept.summary.missing();
    if is_text {
        write_out(words::table(swept).as_bytes())?;
    } else {
        let failed: Vec<_> = swept.failed.iter().filter(|report| !report.broken.is_empty()).collect();
        let failures: Vec<_> = failed
            .iter()
            .map(|report| {
                let broken: Vec<String> = report.broken.iter().map(ToString::to_string).collect();
                json!({"seed": report.seed, "broken": broken, "replay": replay_line(options, report.seed, None)})
            })
            .collect();
        let summary = &swept.summary;
        let value = json!({
            "runs": summary.runs, "failed": summary.failed, "entries": summary.entries,
            "jobs": summary.acknowledged, "tasks": summary.began, "virtualMs": summary.virtual_ms,
            "grouped": summary.grouped, "reads": summary.reads,
            "milliseconds": swept.seconds_milli, "once": swept.once,
            "faults": summary.faults, "conflicts": summary.conflicts, "missing": missing, "failures": failures,
        });
        write_out(format!("{value:#}\n").as_bytes())?;
    }
    if swept.summary.failed > 0 || (options.coverage && !missing.is_empty()) {
        return Err(Failure::Told);
    }
    Ok(())
}
