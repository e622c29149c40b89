//! Text cases: documents in, the answer out. `OHM_BLESS=1 cargo test -p ohm-offline --test cases` writes what is now
//! answered into the case files, for a person to read before it is kept.
//!
//! ```text
//! === what it shows
//! CELL DOCUMENTS
//! --jobs [fail NODE] [drain NODE] [add N NODE] [fit] [nodes] [shares] [cycles N] [strict] [text]
//! JOB DOCUMENTS
//! ----
//! ANSWER
//! ```
//!
//! The answer has one line per job, one per group with the nodes in rank order, and one with what an explanation counted,
//! as JSON; with `nodes` one per node with its scores or why it does not fit; then one for each queue and one for each
//! field that is ignored, if that is asked. With `text` it is what people are shown. Documents that begin with `{` are
//! JSON.

use ohm_manifest::{Dialect, Document, parse_files};
use ohm_offline::{Addition, IgnoredField, JobAnswer, Question, QueueAnswer, ResourceUsage, plan, to_text};
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn question(words: &str) -> (Question, bool) {
    let (mut question, mut text) = (Question::default(), false);
    let mut words = words.split_whitespace();
    while let Some(word) = words.next() {
        let mut next = || words.next().expect("an argument").to_string();
        match word {
            "fail" => question.fail.push(next()),
            "drain" => question.drain.push(next()),
            "add" => question.add = Some(Addition { count: next().parse().expect("a count"), like: next() }),
            "fit" => question.count_fit = true,
            "nodes" => question.nodes = true,
            "strict" => question.strict = true,
            "shares" => question.shares = true,
            "cycles" => question.cycles = Some(next().parse().expect("a count")),
            "text" => text = true,
            _ => panic!("what is {word}?"),
        }
    }
    (question, text)
}

fn answer(cell: &str, words: &str, jobs: &str) -> String {
    let (mut question, text) = question(words);
    let mut answer = String::new();
    let inputs = [("cell", cell), ("jobs", jobs)].map(|(name, text)| (name, text.as_bytes()));
    let files = inputs.iter().filter(|(_, bytes)| !bytes.is_empty()).copied().collect::<Vec<_>>();
    let dialect = if question.nodes { Dialect::KubernetesInFull } else { Dialect::Kubernetes };
    for (verdicts, at) in parse_files(dialect, &files).into_iter().zip(0..) {
        for verdict in verdicts {
            let documents: &mut Vec<Document> = if at == 0 { &mut question.cell } else { &mut question.jobs };
            match verdict {
                Ok(document) => documents.push(document),
                Err(error) => writeln!(answer, "{error}").unwrap(),
            }
        }
    }
    if !answer.is_empty() {
        return answer;
    }
    match plan(question) {
        Err(error) => writeln!(answer, "{error}").unwrap(),
        Ok(planned) if text => answer = to_text(&planned.answer),
        Ok(planned) => {
            planned.answer.jobs.iter().for_each(|job| write_job(&mut answer, job));
            planned.answer.queues.iter().flatten().for_each(|queue| write_queue(&mut answer, queue));
            for IgnoredField { kind, name, field, reason } in &planned.answer.ignored {
                let reason = reason.as_ref().map_or(String::new(), |reason| format!(" ({reason})"));
                writeln!(answer, "ignored: {kind} {name}: {field}{reason}").unwrap();
            }
        }
    }
    answer
}

fn write_queue(answer: &mut String, queue: &QueueAnswer) {
    let QueueAnswer { name, kind, parent, weighted_share, dominant_resource, flavors_usage } = queue;
    let parent = parent.as_ref().map_or(String::new(), |parent| format!(" below {parent}"));
    let dominant = dominant_resource.as_ref().map_or(String::new(), |resource| format!(" of {resource}"));
    writeln!(answer, "{kind} {name}{parent}: share {weighted_share}{dominant}").unwrap();
    for flavor in flavors_usage {
        for ResourceUsage { name, total, borrowed, available, potential } in &flavor.resources {
            let flavor = &flavor.name;
            writeln!(
                answer,
                "  {flavor}:{name} {total} borrowed {borrowed} available {available} potential {potential}"
            )
            .unwrap();
        }
    }
}

fn write_job(answer: &mut String, job: &JobAnswer) {
    let reason = job.reason.as_ref().map_or(String::new(), |reason| format!(" ({reason})"));
    writeln!(answer, "{} {}{reason}", job.name, job.outcome.name()).unwrap();
    if let Some(start) = &job.expected_start {
        writeln!(answer, "  expectedStart: {}", serde_json::to_string(start).unwrap()).unwrap();
    }
    for group in &job.groups {
        let nodes: Vec<String> =
            group.placements.iter().map(|place| format!("{}×{}", place.node, place.count)).collect();
        let domains: Vec<String> =
            group.domains.iter().map(|domain| format!("{}×{}", domain.values.join("/"), domain.count)).collect();
        if !nodes.is_empty() {
            writeln!(answer, "  {}: {} | {}", group.name, nodes.join(" "), domains.join(" ")).unwrap();
        }
        if let Some(explain) = &group.explain {
            writeln!(answer, "  {}: {}", group.name, serde_json::to_string(explain).unwrap()).unwrap();
        }
        for node in &group.nodes {
            let scores: Vec<String> = node.scores.iter().map(|(name, score)| format!("{name} {score}")).collect();
            let total = node.total.map_or(String::new(), |total| format!(" = {total}"));
            let reason = node.reason.as_ref().map_or(String::new(), |miss| format!("does not fit: {}", miss.message));
            writeln!(answer, "    {}: {}{total}{reason}", node.node, scores.join(" ")).unwrap();
        }
    }
}

fn check(case_file: &Path) {
    let text = std::fs::read_to_string(case_file).unwrap();
    let mut rewritten = String::new();
    let mut differences = Vec::new();
    for case in text.split("=== ").skip(1) {
        let (title, rest) = case.split_once('\n').unwrap();
        let (input, expected) = rest.split_once("----\n").unwrap_or((rest, ""));
        let (cell, asked) = input.split_once("--jobs").unwrap();
        let (words, jobs) = asked.split_once('\n').unwrap();
        let answer = answer(cell, words, jobs);
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

/// Jobs that wait for quota are not those for which a start is sought, however many come first.
#[test]
fn a_start_is_sought_for_those_that_wait_for_room() {
    let job = |name: &str, more: &str| {
        format!("apiVersion: ohm/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec: {{requests: {{cpu: 4}}{more}}}\n")
    };
    let cell = "apiVersion: ohm/v1\nkind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: 4, pods: 10}}\n---\n\
                apiVersion: ohm/v1\nkind: Queue\nmetadata: {name: q}\nspec: {nominalQuota: {cpu: 1}}\n---\n\
                apiVersion: ohm/v1\nkind: Allocation\nspec: {job: short, node: a, count: 1}\n";
    let poor = (0..150).map(|number| job(&format!("poor-{number}"), ", queue: q"));
    let short = job("short", ", activeDeadlineSeconds: 60, terminationGracePeriodSeconds: 10");
    let jobs: Vec<String> = [short].into_iter().chain(poor).chain([job("waits", "")]).collect();
    let told = answer(cell, "text", &jobs.join("---\n"));
    assert!(told.contains("It starts within 72 s"), "{told}");
}

#[test]
fn every_case_is_answered_as_written() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    files.iter().for_each(|file| check(file));
}
