//! Runs many seeds and reports what broke: `sweep --seeds 0..1000`, or `sweep --seed 7 --trace`.

// A sweep is a shell: it may look at the clock to show how fast it is.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use ohm_sim::{Report, Scenario, run};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

struct Arguments {
    seeds: std::ops::Range<u64>,
    trace: bool,
    twice: bool,
}

fn arguments() -> Result<Arguments, String> {
    let mut found = Arguments { seeds: 0..100, trace: false, twice: true };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seeds" => {
                let range = words.next().unwrap_or_default();
                let (from, to) = range.split_once("..").ok_or("--seeds wants A..B")?;
                let number = |text: &str| text.parse::<u64>().map_err(|_| format!("\"{text}\" is no number"));
                found.seeds = number(from)?..number(to)?;
            }
            "--seed" => {
                let text = words.next().unwrap_or_default();
                let seed: u64 = text.parse().map_err(|_| format!("\"{text}\" is no number"))?;
                found.seeds = seed..seed + 1;
            }
            "--trace" => found.trace = true,
            "--once" => found.twice = false,
            other => return Err(format!("unknown argument {other}; --seeds A..B, --seed N, --trace, --once")),
        }
    }
    Ok(found)
}

fn judge(seed: u64, arguments: &Arguments) -> Report {
    let scenario = Scenario { trace: arguments.trace, ..Scenario::of_seed(seed) };
    let mut report = run(scenario);
    if arguments.twice && report.broken.is_empty() {
        let again = run(scenario);
        if again.digest != report.digest {
            let what = format!("the same seed gave {:016x} and then {:016x}", report.digest, again.digest);
            report.broken.push(ohm_oracle::Broken { promise: "P9", what });
        }
    }
    report
}

fn main() -> std::process::ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}");
            return std::process::ExitCode::from(2);
        }
    };
    let started = Instant::now();
    let (next, done) = (AtomicU64::new(arguments.seeds.start), AtomicU64::new(0));
    let reports: Mutex<Vec<Report>> = Mutex::new(Vec::new());
    let total = arguments.seeds.end - arguments.seeds.start;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= arguments.seeds.end {
                        return;
                    }
                    let report = judge(seed, &arguments);
                    for broken in &report.broken {
                        println!("seed {seed}: {broken}\n  replay: cargo xtask sim --seed {seed} --trace");
                    }
                    reports.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(report);
                    let finished = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if finished % 100 == 0 {
                        let seconds = started.elapsed().as_secs_f64();
                        eprintln!("{finished}/{total} seeds, {:.1} seeds/s", finished as f64 / seconds);
                    }
                }
            });
        }
    });
    let reports = reports.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    summarise(&arguments, &reports, started.elapsed().as_secs_f64())
}

fn summarise(arguments: &Arguments, reports: &[Report], seconds: f64) -> std::process::ExitCode {
    let (mut faults, mut conflicts): (BTreeMap<&str, u64>, BTreeMap<&str, u64>) = Default::default();
    let (mut entries, mut acknowledged, mut began, mut virtual_ms, mut failed) = (0, 0, 0, 0, 0);
    for report in reports {
        report.faults.iter().for_each(|(kind, count)| *faults.entry(kind).or_insert(0) += count);
        report.conflicts.iter().for_each(|(reason, count)| *conflicts.entry(reason).or_insert(0) += count);
        entries += report.entries;
        acknowledged += report.acknowledged;
        began += report.began;
        virtual_ms += report.virtual_ms;
        failed += u64::from(!report.broken.is_empty());
        if arguments.trace || (arguments.seeds.end - arguments.seeds.start == 1 && !report.broken.is_empty()) {
            report.trace.iter().for_each(|line| println!("{line}"));
            report.broken.iter().for_each(|broken| println!("{broken}"));
        }
    }
    println!("faults    {faults:?}");
    println!("conflicts {conflicts:?}");
    println!("entries {entries}, jobs acknowledged {acknowledged}, tasks begun {began}");
    println!("{:.0} s of virtual time in {seconds:.1} s", virtual_ms as f64 / 1000.0);
    let passed = reports.len() as u64 - failed;
    println!("{passed} passed, {failed} failed");
    let _ = std::io::stdout().flush();
    std::process::ExitCode::from(u8::from(failed > 0))
}
