//! `ohm plan`: reads files, asks the schedulers' own code, prints the answer.

use crate::failure::{EXIT_DONE, Failure};
use crate::output::{Output, note};
use clap::Args;
use ohm_manifest::{Dialect, Document};
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
    let inputs: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    let (mut cell, mut jobs, mut broken) = (Vec::new(), Vec::new(), 0usize);
    for (at, verdicts) in ohm_manifest::parse_files(Dialect::Kubernetes, &inputs).into_iter().enumerate() {
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
    let (fail, drain, count_fit) = (args.fail.clone(), args.drain.clone(), args.count_fit);
    let planned =
        ohm_offline::plan(Question { cell, jobs, fail, drain, add, count_fit }).map_err(|error| match error {
            PlanError::Question(problem) => Failure::Usage(problem),
            PlanError::Document { .. } => Failure::Failed(error.to_string()),
        })?;
    output.print(&planned.answer, |_| ohm_offline::to_text(&planned.answer))?;
    // The process ends here, and freeing a large cell node by node would take a good part of the time of the answer.
    std::mem::forget(planned);
    Ok(EXIT_DONE)
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
