//! The arguments of `ohm chaos sim`.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

/// `ohm chaos sim`.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
#[command(group = clap::ArgGroup::new("one").multiple(true))]
pub struct Simulate {
    /// Run the seeds from A to B - 1, each twice to see that nothing else decides what happens
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
    /// Run each seed once: twice as many in the same time
    #[arg(long, conflicts_with = "one")]
    pub once: bool,
    /// Also fail when a kind of fault or a reason of conflicts was not met by any seed
    #[arg(long)]
    pub coverage: bool,
}

/// Numbers of faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultList(pub(super) Vec<usize>);

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
