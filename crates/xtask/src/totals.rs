//! How many tests passed and failed, read from what the test runners print.

/// Tests counted over all runs of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests that failed, ran out of time or could not be started.
    pub(crate) failed: u64,
}

impl Totals {
    /// Adds what one run printed. A run that ended badly without naming a failed test counts as one failure.
    pub(crate) fn add_run(&mut self, output: &str, success: bool) {
        let before = self.failed;
        for line in output.lines() {
            let words: Vec<&str> = line.split([' ', ',', ';', '(', ')']).filter(|word| !word.is_empty()).collect();
            let is_summary = line.trim_start().starts_with("Summary [") || line.starts_with("test result:");
            if is_summary {
                self.passed += count_before(&words, &["passed"]);
                self.failed += count_before(&words, &["failed", "timed"]);
            }
        }
        if !success && self.failed == before {
            self.failed += 1;
        }
    }
}

/// The sum of the numbers that stand right before one of the names.
fn count_before(words: &[&str], names: &[&str]) -> u64 {
    let pairs = words.windows(2).filter(|pair| names.contains(&pair[1]));
    pairs.filter_map(|pair| pair[0].parse::<u64>().ok()).sum()
}

impl std::fmt::Display for Totals {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} passed, {} failed", self.passed, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(output: &str, success: bool) -> String {
        let mut totals = Totals::default();
        totals.add_run(output, success);
        totals.to_string()
    }

    #[test]
    fn both_runners_are_understood() {
        let nextest =
            "     Summary [   1.005s] 9 tests run: 6 passed (1 slow, 1 leaky), 2 failed, 1 timed out, 4 skipped";
        assert_eq!(totals(nextest, false), "6 passed, 3 failed");
        let cargo = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        assert_eq!(totals(&cargo.repeat(2), true), "6 passed, 0 failed");
        assert_eq!(totals("test result: FAILED. 1 passed; 2 failed; 0 ignored\n", false), "1 passed, 2 failed");
    }

    #[test]
    fn a_run_that_broke_without_a_summary_is_a_failure() {
        assert_eq!(totals("error: could not compile", false), "0 passed, 1 failed");
        assert_eq!(totals("5 passed in some prose", true), "0 passed, 0 failed");
    }
}
