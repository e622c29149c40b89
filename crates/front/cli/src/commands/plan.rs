//! `ohm plan`: reads files, asks the schedulers' own code, prints the answer.

use crate::failure::{EXIT_DONE, Failure};
use crate::output::{Output, note};
use crate::text;
use clap::Args;
use ohm_manifest::{Dialect, Document, Input, Tail, Verdicts};
use ohm_offline::{Addition, PlanError, Question};
use std::io::Read;
use std::path::{Path, PathBuf};

/// `ohm plan`.
#[derive(Clone, Debug, Args)]
pub struct Plan {
    /// What the cell is: nodes, topologies, queues, allocations; `ohm/v1` or Kubernetes objects, `-` for standard input
    #[arg(long, required = true, value_name = "FILE")]
    pub cell: Vec<PathBuf>,
    /// The jobs to plan, in this order; `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub jobs: Vec<PathBuf>,
    /// Plan as if this node had failed
    #[arg(long, value_name = "NODE")]
    pub fail: Vec<String>,
    /// Plan as if this node were drained
    #[arg(long, value_name = "NODE")]
    pub drain: Vec<String>,
    /// Plan as if so many nodes joined
    #[arg(long, value_name = "N", requires = "like", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub add_nodes: Option<u32>,
    /// The node that those which join are like
    #[arg(long, value_name = "NODE", requires = "add_nodes")]
    pub like: Option<String>,
    /// Count how many more copies of each job would fit, and what limits them
    #[arg(long)]
    pub count_fit: bool,
    /// Tell of each node whether it takes a task of the jobs, and why not
    #[arg(long)]
    pub nodes: bool,
    /// Tell what queues and cohorts have, borrow and use, and their shares; needs no jobs
    #[arg(long)]
    pub shares: bool,
    /// Plan in so many passes as schedulers make them, each with the first job of every queue, instead of in file order
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub cycles: Option<u32>,
    /// Fail where a Kubernetes object has a field that bears on where its pods go and is not honoured
    #[arg(long)]
    pub strict: bool,
}

/// Answers, whatever the answer is.
pub(super) fn plan(output: &Output, args: &Plan) -> Result<u8, Failure> {
    if args.cell.iter().chain(&args.jobs).filter(|path| is_stdin(path)).count() > 1 {
        return Err(Failure::Usage("only one file can be standard input (-)".to_string()));
    }
    let mut files = Vec::with_capacity(args.cell.len() + args.jobs.len());
    for path in args.cell.iter().chain(&args.jobs) {
        files.push((name(path), read(path)?));
    }
    let (mut cell, mut jobs, mut broken) = (Vec::new(), Vec::new(), 0usize);
    // What only reports are made from can be much, such as the images of many nodes.
    let dialect = if args.nodes { Dialect::KubernetesInFull } else { Dialect::Kubernetes };
    for (at, verdicts) in parse_at_once(dialect, &files).into_iter().enumerate() {
        let documents: &mut Vec<Document> = if at < args.cell.len() { &mut cell } else { &mut jobs };
        for verdict in verdicts {
            match verdict {
                Ok(document) => documents.push(document),
                Err(error) => {
                    note(&error.to_string());
                    broken += 1;
                }
            }
        }
    }
    if broken > 0 {
        let what =
            if broken == 1 { "1 document is broken".to_string() } else { format!("{broken} documents are broken") };
        return Err(Failure::Failed(format!("{what}; nothing was planned")));
    }
    let add = args.add_nodes.zip(args.like.clone()).map(|(count, like)| Addition { count, like });
    let (fail, drain, count_fit, strict) = (args.fail.clone(), args.drain.clone(), args.count_fit, args.strict);
    let (nodes, shares, cycles) = (args.nodes, args.shares, args.cycles);
    let question = Question { cell, jobs, fail, drain, add, count_fit, nodes, shares, cycles, strict };
    let planned = ohm_offline::plan(question).map_err(|error| match error {
        PlanError::Question(problem) => Failure::Usage(problem),
        PlanError::Ignored(ref ignored) => {
            note(&error.to_string());
            let fields = if ignored.len() == 1 { "1 field is" } else { "fields are" };
            let count = if ignored.len() == 1 { String::new() } else { format!("{} ", ignored.len()) };
            Failure::Failed(format!("{count}{fields} not honoured; nothing was planned"))
        }
        PlanError::Document { .. } => Failure::Failed(error.to_string()),
    })?;
    output.print(&planned.answer, |style| {
        let queues = planned.answer.queues.as_deref().map(|queues| text::shares_table(queues, style));
        ohm_offline::to_text(&planned.answer) + &queues.map(|table| format!("\n{table}")).unwrap_or_default()
    })?;
    // The process ends here, and freeing a large cell node by node would take a good part of the time of the answer.
    std::mem::forget(planned);
    Ok(EXIT_DONE)
}

/// Files shorter than this are not worth a second thread.
const LONG_FILE_BYTES: usize = 4 << 20;

/// Reads all files, the second half of a long list on a thread of its own.
fn parse_at_once(dialect: Dialect, files: &[(String, Vec<u8>)]) -> Vec<Verdicts> {
    let middle = |(name, bytes): &(String, Vec<u8>)| {
        if bytes.len() < LONG_FILE_BYTES { None } else { ohm_manifest::middle(name, bytes) }
    };
    std::thread::scope(|scope| {
        let threads = files.iter().map(|file| {
            let at = middle(file)?;
            Some((at, scope.spawn(move || ohm_manifest::parse_tail(dialect, &file.0, &file.1, at))))
        });
        let threads: Vec<_> = threads.collect();
        let mut halves: Vec<_> = threads
            .into_iter()
            .map(|thread| {
                thread.map(|(at, thread)| {
                    let mut thread = Some(thread);
                    (at, move || thread.take().and_then(|thread| thread.join().ok()).flatten())
                })
            })
            .collect();
        let inputs = files.iter().zip(&mut halves).map(|((name, bytes), half)| Input {
            name,
            bytes,
            tail: half.as_mut().map(|(at, read)| (*at, read as &mut dyn FnMut() -> Option<Tail>)),
        });
        ohm_manifest::parse_inputs(dialect, &mut inputs.collect::<Vec<_>>())
    })
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn name(path: &Path) -> String {
    if is_stdin(path) { "standard input".to_string() } else { path.display().to_string() }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    if is_stdin(path) {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().read_to_end(&mut bytes);
        return read.map(|_| bytes).map_err(|error| Failure::io("reading standard input", error));
    }
    std::fs::read(path).map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))
}
