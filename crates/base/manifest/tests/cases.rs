//! Text cases: a file in, its verdicts out. `OHM_BLESS=1 cargo test -p ohm-manifest cases` writes what is now
//! answered into the case files, for a person to read before it is kept.
//!
//! A case is a line `=== FILE NAME: what it shows`, the input, a line `----`, and the expected verdicts: a job as the
//! canonical document, anything else as its Rust value, an error as its text.

use ohm_manifest::{Content, parse, to_yaml};
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn answer(file_name: &str, input: &str) -> String {
    let mut answer = String::new();
    for verdict in parse(file_name, input.as_bytes()) {
        let text = match verdict {
            Err(error) => error.to_string(),
            Ok(document) => match &document.content {
                Content::Job(job) => to_yaml(job).unwrap(),
                content => format!("{}: {content:?}", document.origin),
            },
        };
        writeln!(answer, "{}", text.trim_end()).unwrap();
    }
    answer
}

fn check(case_file: &Path) {
    let text = std::fs::read_to_string(case_file).unwrap();
    let mut rewritten = String::new();
    let mut differences = Vec::new();
    for case in text.split("=== ").skip(1) {
        let (title, rest) = case.split_once('\n').unwrap();
        let file_name = title.split(':').next().unwrap();
        let (input, expected) = rest.split_once("----\n").unwrap_or((rest, ""));
        let answer = answer(file_name, input);
        if answer.trim() != expected.trim() {
            differences.push(format!("{title}\nexpected:\n{expected}\nanswered:\n{answer}"));
        }
        write!(rewritten, "=== {title}\n{input}----\n{answer}\n").unwrap();
    }
    if std::env::var_os("OHM_BLESS").is_some() {
        std::fs::write(case_file, rewritten.trim_end().to_string() + "\n").unwrap();
        return;
    }
    assert!(differences.is_empty(), "{}:\n{}", case_file.display(), differences.join("\n"));
}

#[test]
fn every_case_is_answered_as_written() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    files.iter().for_each(|file| check(file));
}
