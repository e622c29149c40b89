//! Many seeds on several threads.

use super::options::Simulate;
use super::swept::Swept;
use super::words;
use crate::failure::Failure;
use crate::output::note;
use indicatif::{ProgressBar, ProgressStyle};
use ohm_sim::{Report, Scenario, Summary, run, run_twice};
use std::cell::Cell;
use std::io::IsTerminal;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

/// After so many failures a sweep is over: the others would hardly say more.
const FAILED_MAX: usize = 20;

thread_local! {
    static SEED: Cell<u64> = const { Cell::new(0) };
}

/// Runs every seed of `seeds`, or as many as there is time for; `failed` is told of each failure at once.
pub(super) fn sweep(
    options: &Simulate,
    scenario: &Scenario,
    seeds: Range<u64>,
    mut failed: impl FnMut(&Report) -> Result<(), Failure>,
) -> Result<Swept, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options.threads.map_or(cores, usize::from);
    let (next, stop, started) = (AtomicU64::new(seeds.start), AtomicBool::new(false), Instant::now());
    let time = options.time;
    let over = || stop.load(Ordering::Relaxed) || time.is_some_and(|time| started.elapsed() >= time);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        eprintln!("seed {} panicked; see it again: ohm chaos sim --seed {}", SEED.get(), SEED.get());
        hook(panic);
    }));
    let mut swept = Swept { summary: Summary::default(), failed: Vec::new(), seconds_milli: 0, once: options.once };
    let bar = progress(&seeds);
    let run: fn(&Scenario) -> Report = if options.once { run } else { run_twice };
    let one = |seed| run(&Scenario { seed, ..scenario.clone() });
    std::thread::scope(|scope| {
        let (results, reports) = channel();
        for _ in 0..threads {
            let results = results.clone();
            scope.spawn(|| run_some(&one, seeds.end, &next, &over, results));
        }
        drop(results);
        for report in reports {
            swept.summary.add(&report);
            swept.seconds_milli = started.elapsed().as_millis() as u64;
            tell_progress(&bar, &swept, seeds.end - seeds.start);
            if !report.broken.is_empty() {
                bar.suspend(|| failed(&report))?;
                swept.failed.push(report);
                stop.fetch_or(swept.failed.len() >= FAILED_MAX, Ordering::Relaxed);
            }
        }
        Ok::<(), Failure>(())
    })?;
    drop(std::panic::take_hook());
    bar.finish_and_clear();
    Ok(swept)
}

/// One thread: takes the next seed until there is none.
fn run_some(
    run: &(dyn Fn(u64) -> Report + Sync),
    end: u64,
    next: &AtomicU64,
    over: &dyn Fn() -> bool,
    results: Sender<Report>,
) {
    while !over() {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return;
        }
        SEED.set(seed);
        if results.send(run(seed)).is_err() {
            return;
        }
    }
}

fn progress(seeds: &Range<u64>) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let total = (seeds.end < u64::MAX).then_some(seeds.end - seeds.start);
    let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} seeds  {msg}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn tell_progress(bar: &ProgressBar, swept: &Swept, total: u64) {
    // Without a terminal, a line for each so many seeds.
    const EVERY: u64 = 500;
    let speed = words::speed(swept).unwrap_or_default();
    if bar.is_hidden() && swept.summary.runs.is_multiple_of(EVERY) {
        note(&format!("{}/{total} seeds, {} failed, {speed}", swept.summary.runs, swept.summary.failed));
    }
    bar.set_position(swept.summary.runs);
    bar.set_message(format!("{} failed, {speed}", swept.summary.failed));
}
