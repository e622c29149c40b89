//! Running a seed the way a sweep does, and making the fault list of a failing one smaller.

use crate::report::Report;
use crate::scenario::Scenario;
use crate::world::run;
use ohm_oracle::Broken;

/// Runs `scenario` twice. Two runs that differ break P9, whatever else holds.
pub fn run_twice(scenario: &Scenario) -> Report {
    let mut report = run(scenario);
    if report.broken.is_empty() {
        let again = run(scenario);
        if again.digest != report.digest {
            let what = format!("the same seed gave {:016x} and then {:016x}", report.digest, again.digest);
            report.broken.push(Broken { promise: "P9", what });
        }
    }
    report
}

/// What is left of a fault list when no fault of it can be left out.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// Positions in the list of all faults.
    pub kept: Vec<usize>,
    /// The run with those faults only.
    pub report: Report,
    /// How many runs it took.
    pub runs: u64,
}

/// Finds a smaller fault list with which `scenario` still breaks a promise that it broke with all of `faults` faults
/// (delta debugging, Zeller and Hildebrandt 2002: leave out ever smaller parts). Nothing if it breaks none.
pub fn shrink(scenario: &Scenario, mut told: impl FnMut(u64, usize)) -> Option<Shrunk> {
    let whole = run(scenario);
    let promise = whole.broken.first()?.promise;
    let mut runs = 1;
    let mut kept: Vec<usize> = match &scenario.kept_faults {
        Some(kept) => kept.clone(),
        None => (0..whole.fault_lines.len()).collect(),
    };
    let mut last = whole;
    let mut breaks = |kept: &[usize]| {
        let report = run(&Scenario { kept_faults: Some(kept.to_vec()), ..scenario.clone() });
        runs += 1;
        told(runs, kept.len());
        report.broken.iter().any(|broken| broken.promise == promise).then_some(report)
    };
    let mut size = kept.len().div_ceil(2);
    while size > 0 && !kept.is_empty() {
        let mut at = 0;
        while at < kept.len() {
            let end = (at + size).min(kept.len());
            let fewer: Vec<usize> = kept[..at].iter().chain(&kept[end..]).copied().collect();
            match breaks(&fewer) {
                Some(report) => (kept, last) = (fewer, report),
                None => at = end,
            }
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    Some(Shrunk { kept, report: last, runs })
}
