//! `ohm chaos sim`: whole cells in virtual time, hostile and repeatable. The simulator is a core; this is its shell:
//! threads, progress, files, and words for people.

mod sweep;
mod words;

use crate::failure::Failure;
use crate::globals::{Globals, OutputFormat};
use crate::output::{note, write_out};
use ohm_sim::{Report, Scenario, Script, Summary, run_twice, shrink};
use serde_json::json;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// `ohm chaos sim`.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
#[command(group = clap::ArgGroup::new("one").multiple(true))]
pub struct Simulate {
    /// Run the seeds from A to B - 1, each twice
    #[arg(long, value_name = "A..B", value_parser = seeds, conflicts_with = "one")]
    pub seeds: Option<Range<u64>>,
    /// Run one seed
    #[arg(long, value_name = "N", group = "one")]
    pub seed: Option<u64>,
    /// Run what a file says, with its seed or the one given
    #[arg(long, value_name = "FILE", group = "one")]
    pub scenario: Option<PathBuf>,
    /// How many nodes the cells have [default: drawn; mostly 1 to 7, now and then 5000]
    #[arg(long, value_name = "N")]
    pub nodes: Option<usize>,
    /// How many servers found the cells: 1, 3 or 5 [default: drawn; 1 for a scenario that does not say]
    #[arg(long, value_name = "N")]
    pub servers: Option<usize>,
    /// Go on with further seeds for this long, such as 10m or 1h
    #[arg(long = "for", value_name = "TIME", value_parser = crate::command::duration, conflicts_with = "one")]
    pub time: Option<Duration>,
    /// Print the whole timeline of one seed
    #[arg(long, requires = "one")]
    pub trace: bool,
    /// Look for a smaller list of faults with which a failing seed still fails
    #[arg(long, requires = "one")]
    pub shrink: bool,
    /// Of one seed's faults, let only those with these numbers strike, such as 0,3,4, or none
    #[arg(long, value_name = "LIST", value_parser = fault_list, requires = "one")]
    pub faults: Option<FaultList>,
    /// How many seeds run at once [default: one per core]
    #[arg(long, value_name = "N")]
    pub threads: Option<std::num::NonZeroUsize>,
    /// Also fail when a kind of fault or a reason of conflicts was not met by any seed
    #[arg(long)]
    pub coverage: bool,
}

/// Numbers of faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultList(Vec<usize>);

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
    conclude(options, &sweep::Swept { summary, failed: vec![report], seconds_milli: 0 }, is_text)
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
fn conclude(options: &Simulate, swept: &sweep::Swept, is_text: bool) -> Result<(), Failure> {
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
            "milliseconds": swept.seconds_milli, "faults": summary.faults, "conflicts": summary.conflicts,
            "missing": missing, "failures": failures,
        });
        write_out(format!("{value:#}\n").as_bytes())?;
    }
    if swept.summary.failed > 0 || (options.coverage && !missing.is_empty()) {
        return Err(Failure::Told);
    }
    Ok(())
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let range = text.split_once("..").and_then(|(first, end)| Some(first.parse().ok()?..end.parse().ok()?));
    let range: Range<u64> = range.ok_or("must be two numbers with two dots, such as 0..1000")?;
    if range.is_empty() { Err("holds no seed".to_string()) } else { Ok(range) }
}

fn fault_list(text: &str) -> Result<FaultList, String> {
    let words = text.split(',').filter(|_| text != "none");
    let numbers: Result<Vec<usize>, _> = words.map(str::parse).collect();
    numbers.map(FaultList).map_err(|_| "must be numbers with commas, such as 0,3,4, or none".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_faults_are_read() {
        assert_eq!(fault_list("0,3"), Ok(FaultList(vec![0, 3])));
        assert_eq!(fault_list("none"), Ok(FaultList(Vec::new())));
        assert!(fault_list("").is_err() && fault_list("a").is_err());
    }

    #[test]
    fn ranges_of_seeds_are_read() {
        assert_eq!(seeds("3..9"), Ok(3..9));
        for text in ["", "3", "9..3", "a..b", "3..3"] {
            assert!(seeds(text).is_err(), "{text}");
        }
    }
}
