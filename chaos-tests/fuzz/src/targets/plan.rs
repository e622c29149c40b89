//! `ohm plan`: documents of a cell and of jobs, those of Kubernetes included, planned as a person would ask it.
//!
//! The input has the form of the text cases of `ohm-offline`: the cell, a line with `--jobs` and what else is asked,
//! the jobs. Besides that nothing panics: an answer can be shown, and an error says what is wrong.

use ohm_manifest::{Content, Dialect, Document, parse_files};
use ohm_offline::{Addition, Question, plan, to_text};

const DIVIDER: &str = "--jobs";
/// Larger questions take longer, and show nothing that smaller ones don't.
const TASKS_MAX: u64 = 2_000;
const NODES_ADDED_MAX: u32 = 20;
/// Text cases of other tests, in the same form.
const CASES: [&str; 9] = [
    include_str!("../../../../schedulers/offline/tests/cases/placing.txt"),
    include_str!("../../../../schedulers/offline/tests/cases/kubernetes.txt"),
    include_str!("../../../../schedulers/offline/tests/cases/people.txt"),
    include_str!("../../../../schedulers/offline/tests/cases/profiles.txt"),
    include_str!("../../../../schedulers/offline/tests/cases/standing.txt"),
    include_str!("../../../../schedulers/offline/tests/cases/ignored.txt"),
    include_str!("../../../../schedulers/offline/tests/cases/queues.txt"),
    include_str!("../../../../schedulers/offline/tests/cases/running.txt"),
    include_str!("../../../../schedulers/offline/tests/cases/scores.txt"),
];

pub(crate) fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (cell, rest) = text.split_once(DIVIDER).unwrap_or((text, ""));
    let (words, jobs) = rest.split_once('\n').unwrap_or((rest, ""));
    let (mut question, documents) = (question(words), [documents(cell), documents(jobs)]);
    let [cell, jobs] = documents;
    if tasks(&cell).saturating_add(tasks(&jobs)) > TASKS_MAX {
        return;
    }
    (question.cell, question.jobs) = (cell, jobs);
    match plan(question) {
        Ok(planned) => drop(to_text(&planned.answer)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The documents that can be read; a person would be told of the others.
fn documents(text: &str) -> Vec<Document> {
    let name = if text.trim_start().starts_with(['{', '[']) { "a.json" } else { "a.yaml" };
    parse_files(Dialect::KubernetesInFull, &[(name, text.as_bytes())])
        .remove(0)
        .into_iter()
        .filter_map(Result::ok)
        .collect()
}

fn tasks(documents: &[Document]) -> u64 {
    let of = |document: &Document| match &document.content {
        Content::Job(job) => job.groups.iter().map(|group| u64::from(group.count)).sum(),
        Content::Allocation(allocation) => u64::from(allocation.count),
        _ => 0,
    };
    documents.iter().map(of).fold(0, u64::saturating_add)
}

/// What is asked besides; words that mean nothing are passed over.
fn question(words: &str) -> Question {
    let mut question = Question::default();
    let mut words = words.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "fail" => question.fail.extend(words.next().map(str::to_string)),
            "drain" => question.drain.extend(words.next().map(str::to_string)),
            "add" => {
                let count = words.next().and_then(|count| count.parse().ok()).unwrap_or(1).min(NODES_ADDED_MAX);
                question.add = words.next().map(|like| Addition { count, like: like.to_string() });
            }
            "fit" => question.count_fit = true,
            "nodes" => question.nodes = true,
            "strict" => question.strict = true,
            "shares" => question.shares = true,
            _ => {}
        }
    }
    question
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let cases = CASES.iter().flat_map(|file| file.split("=== ").skip(1));
    let inputs = cases.filter_map(|case| Some(case.split_once('\n')?.1.split_once("----\n")?.0.as_bytes().to_vec()));
    inputs.collect()
}
