//! How long a plan takes, without a command line around it:
//! `cargo run --release -p ohm-offline --example plan -- CELL JOBS`.

use ohm_manifest::{Dialect, parse_files};
use ohm_offline::{Question, plan};
use std::time::Instant;

fn main() {
    let paths: Vec<String> = std::env::args().skip(1).take(2).collect();
    let files: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).expect("a readable file")).collect();
    let inputs: Vec<(&str, &[u8])> = paths.iter().map(String::as_str).zip(files.iter().map(Vec::as_slice)).collect();
    let start = Instant::now();
    let mut documents = parse_files(Dialect::Kubernetes, &inputs).into_iter();
    let mut next =
        || documents.next().into_iter().flatten().map(|document| document.expect("a sound document")).collect();
    let (cell, jobs) = (next(), next());
    let parsed = start.elapsed();
    let planned = plan(Question { cell, jobs, ..Question::default() }).expect("an answer");
    println!("parsed in {parsed:?}, answered in {:?}: {} jobs", start.elapsed() - parsed, planned.answer.jobs.len());
    std::mem::forget(planned);
}
