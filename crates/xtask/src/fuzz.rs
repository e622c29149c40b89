//! `cargo xtask fuzz`: builds the fuzz targets with counters of coverage in them, and lets libFuzzer run them.
//!
//! The toolchain is the one that builds everything else: the pass that adds the counters is part of it, and libFuzzer
//! is compiled from a crate. No sanitizer is needed, for there is no unsafe code to watch; what an input allocates is
//! bounded by the driver, and what a target keeps from input to input by libFuzzer.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};

use crate::command::{cargo, run};
use crate::workspace::Workspace;

/// Where targets, corpora and the driver are.
const FOLDER: &str = "chaos-tests/fuzz";
/// The program around the targets, which stands apart from the workspace.
pub(crate) const DRIVER: &str = "chaos-tests/fuzz/driver";
/// What makes libFuzzer see which paths an input takes, and which numbers it is compared with.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";
/// No input may take longer.
const TIMEOUT_SECONDS: u64 = 10;
/// What a target may hold after however many inputs; more is growth.
const MEMORY_MB_MAX: u64 = 1024;
/// Longer inputs are slow and show nothing that shorter ones don't.
const INPUT_BYTES_MAX: usize = 8192;
/// Longer ones are not kept.
const KEPT_BYTES_MAX: usize = 2048;

/// What was asked for on the command line.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    /// None for all.
    targets: Vec<String>,
    seconds: u64,
    /// Keep what was found to be worth it in the repository.
    keep: bool,
    /// Run this one input and nothing else.
    input: Option<String>,
}

/// Runs the targets, as many at a time as there are cores; true if nothing was found.
pub(crate) fn fuzz(arguments: &[String]) -> Result<bool> {
    let request = parse(arguments)?;
    let workspace = Workspace::load()?;
    let fuzzer = Fuzzer::build(&workspace.root)?;
    let known = fuzzer.targets()?;
    if let Some(unknown) = request.targets.iter().find(|name| !known.contains(name)) {
        bail!("`{unknown}` is no target; known are {}", known.join(", "));
    }
    let targets = if request.targets.is_empty() { known } else { request.targets.clone() };
    if let Some(input) = &request.input {
        let [target] = &targets[..] else { bail!("--input takes one target") };
        return Ok(fuzzer.command(target).arg(input).status().context("cannot start the driver")?.success());
    }
    let waiting = Mutex::new(VecDeque::from(targets));
    let results = Mutex::new(Vec::new());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(target) = next() {
                    let held = fuzzer.run(&target, &request);
                    results.lock().unwrap_or_else(PoisonError::into_inner).push(held);
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().try_fold(true, |all, held| Ok(held? && all))
}

/// The driver, and where it works.
struct Fuzzer {
    root: PathBuf,
    driver: PathBuf,
    /// What is found while it runs, and what is no part of the repository.
    work: PathBuf,
}

impl Fuzzer {
    fn build(root: &Path) -> Result<Self> {
        let work = root.join("target/fuzz");
        let host = host()?;
        // With a target, build scripts and macros are built without the counters, which they don't need.
        let mut command = cargo(&root.join(DRIVER), &["build", "--locked", "--release", "--quiet"]);
        command.args(["--target", &host]).arg("--target-dir").arg(&work);
        command.env("RUSTFLAGS", COVERAGE).env_remove("CARGO_ENCODED_RUSTFLAGS");
        if !command.status().context("cannot start cargo")?.success() {
            bail!("the driver could not be built");
        }
        let driver = work.join(host).join("release/ohm-fuzz-driver");
        Ok(Fuzzer { root: root.to_path_buf(), driver, work })
    }

    /// The names of all targets.
    fn targets(&self) -> Result<Vec<String>> {
        let ended = run(Command::new(&self.driver).env("OHM_FUZZ_TARGET", "list"), None)?;
        Ok(ended.output.lines().filter_map(|line| Some(line.strip_prefix("target ")?.to_owned())).collect())
    }

    fn command(&self, target: &str) -> Command {
        let mut command = Command::new(&self.driver);
        command.env("OHM_FUZZ_TARGET", target).current_dir(&self.root);
        command.arg(format!("-timeout={TIMEOUT_SECONDS}")).arg(format!("-rss_limit_mb={MEMORY_MB_MAX}"));
        command
    }

    /// A folder of a target that is there.
    fn folder(&self, base: &Path, target: &str) -> Result<PathBuf> {
        let folder = base.join(target);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    /// Runs one target and says what came of it; true if nothing was found.
    fn run(&self, target: &str, request: &Request) -> Result<bool> {
        let seeds = self.folder(&self.work.join("seeds"), target)?;
        fs::remove_dir_all(&seeds)?;
        let seeds = self.folder(&self.work.join("seeds"), target)?;
        let written = run(self.command(target).env("OHM_FUZZ_SEEDS", &seeds), None)?;
        if !written.success {
            bail!("{target}: its seeds could not be written:\n{}", written.output);
        }
        let found = self.folder(&self.work.join("corpus"), target)?;
        let crashes = self.folder(&self.work.join("crashes"), target)?;
        let corpus = self.root.join(FOLDER).join("corpus").join(target);
        let mut command = self.command(target);
        command.arg(format!("-max_total_time={}", request.seconds)).arg(format!("-max_len={INPUT_BYTES_MAX}"));
        command.args(["-print_final_stats=1", "-len_control=50"]);
        command.arg(format!("-artifact_prefix={}/", crashes.display()));
        let kept = [corpus.clone(), self.root.join(FOLDER).join("found").join(target)];
        command.arg(&found).arg(&seeds).args(kept.iter().filter(|folder| folder.is_dir()));
        let ended = run(&mut command, None)?;
        println!("{target:<12} {}", summary(&ended.output));
        if !ended.success {
            println!("{}", last_lines(&ended.output, 40));
            println!("{target}: repeat it with `cargo xtask fuzz {target} --input FILE`");
            return Ok(false);
        }
        if request.keep {
            self.keep(target, &seeds, &found, &corpus)?;
        }
        Ok(true)
    }

    /// Puts into the repository what reaches code that neither the seeds nor other kept inputs reach.
    fn keep(&self, target: &str, seeds: &Path, found: &Path, corpus: &Path) -> Result<()> {
        let merged = self.folder(&self.work.join("merged"), target)?;
        fs::remove_dir_all(&merged)?;
        let merged = self.folder(&self.work.join("merged"), target)?;
        for seed in fs::read_dir(seeds)? {
            let seed = seed?;
            fs::copy(seed.path(), merged.join(seed.file_name()))?;
        }
        let mut command = self.command(target);
        command.args(["-merge=1", "-use_counters=0"]).arg(format!("-max_len={KEPT_BYTES_MAX}"));
        command.arg(&merged).arg(found).args(corpus.is_dir().then_some(corpus));
        let ended = run(&mut command, None)?;
        if !ended.success {
            bail!("{target}: the corpus could not be minimised:\n{}", last_lines(&ended.output, 40));
        }
        if corpus.is_dir() {
            fs::remove_dir_all(corpus)?;
        }
        fs::create_dir_all(corpus)?;
        let (mut count, mut bytes) = (0, 0);
        for input in fs::read_dir(&merged)? {
            let input = input?;
            if !input.file_name().to_string_lossy().starts_with("seed-") {
                bytes += fs::copy(input.path(), corpus.join(input.file_name()))?;
                count += 1;
            }
        }
        println!("{target:<12} {count} inputs kept, {bytes} bytes");
        Ok(())
    }
}

/// The triple of this machine.
fn host() -> Result<String> {
    let told = run(Command::new("rustc").arg("-vV"), None)?;
    let host = told.output.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say which machine it is for")?.to_owned())
}

/// How often a target ran and what it took, in the words of libFuzzer.
fn summary(output: &str) -> String {
    let stat = |name: &str| {
        let line = output.lines().rev().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name));
        line.map_or("?", |rest| rest.trim_start_matches(':').trim()).to_owned()
    };
    let covered = output.lines().rev().find_map(|line| line.split_once(" cov: ")?.1.split(' ').next());
    format!(
        "{:>9} inputs, {:>6}/s, slowest {} s, peak {} MB, {} edges",
        stat("number_of_executed_units"),
        stat("average_exec_per_sec"),
        stat("slowest_unit_time_sec"),
        stat("peak_rss_mb"),
        covered.unwrap_or("?")
    )
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Reads `[TARGET…] [--seconds N] [--keep] [--input FILE]`.
fn parse(arguments: &[String]) -> Result<Request> {
    let mut request = Request { targets: Vec::new(), seconds: 10, keep: false, input: None };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seconds" => {
                let seconds = arguments.next().context("--seconds takes a number")?;
                request.seconds = seconds.parse().with_context(|| format!("`{seconds}` is no number of seconds"))?;
            }
            "--keep" => request.keep = true,
            "--input" => request.input = Some(arguments.next().context("--input takes a file")?.clone()),
            option if option.starts_with('-') => {
                bail!("`{option}`: known are --seconds N, --keep and --input FILE")
            }
            target => request.targets.push(target.to_owned()),
        }
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(arguments: &[&str]) -> Result<Request> {
        parse(&arguments.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn targets_and_options_are_read() {
        let all = Request { targets: Vec::new(), seconds: 10, keep: false, input: None };
        assert_eq!(request(&[]).ok(), Some(all));
        let found = request(&["wal", "--seconds", "300", "wire", "--keep"]).ok();
        let targets = vec!["wal".to_owned(), "wire".to_owned()];
        assert_eq!(found, Some(Request { targets, seconds: 300, keep: true, input: None }));
        for bad in [&["--seconds"][..], &["--seconds", "many"], &["--second", "1"], &["wal", "--input"]] {
            assert!(request(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_figures_of_a_run_are_found() {
        let output = "#8\tNEW    cov: 71 ft: 80 corp: 3\nstat::number_of_executed_units: 4096\n\
                      stat::average_exec_per_sec:     12\nstat::slowest_unit_time_sec:    1\nstat::peak_rss_mb:   45\n";
        let words: Vec<String> = summary(output).split_whitespace().map(str::to_owned).collect();
        assert_eq!(words.join(" "), "4096 inputs, 12/s, slowest 1 s, peak 45 MB, 71 edges");
        assert_eq!(last_lines("a\nb\nc", 2), "b\nc");
    }
}
