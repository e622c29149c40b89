//! Verdicts on submitted documents.

use super::Style;
use super::table::Grid;
use super::times::age;
use super::wrap::wrapped;
use ohm_wire::api::{DocumentVerdict, SubmitAnswer, VerdictKind};
use serde::Serialize;

/// A verdict and the file its document stands in.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ListedVerdict {
    /// The file.
    pub(crate) file: String,
    /// The verdict.
    #[serde(flatten)]
    pub(crate) verdict: DocumentVerdict,
}

/// A table of the documents that are in the cell, then what is wrong with the others: one line per problem, as
/// `file:line:column: field: what is wrong`.
pub(crate) fn verdicts_text(verdicts: &[ListedVerdict], style: &Style) -> String {
    let (good, bad): (Vec<_>, Vec<_>) = verdicts.iter().partition(|listed| listed.verdict.verdict.is_good());
    let mut text = String::new();
    if !good.is_empty() {
        let mut grid = Grid::new(style, &["KIND", "NAME", "VERDICT", "WHERE"]);
        for listed in &good {
            let verdict = &listed.verdict;
            let place = format!("{}:{}", listed.file, verdict.line);
            grid.row([verdict.kind.clone(), verdict.name.clone(), word_of(verdict, style), place]);
        }
        text.push_str(&grid.text());
        for ListedVerdict { verdict, .. } in good.iter().filter(|listed| !listed.verdict.note.is_empty()) {
            text.push_str(&wrapped(&format!("note: {}: {}", verdict.name, verdict.note), style.width, 0));
            text.push('\n');
        }
    }
    let (red, plain) = if style.color { ("\x1b[31m", "\x1b[0m") } else { ("", "") };
    for ListedVerdict { file, verdict } in bad {
        for problem in &verdict.problems {
            let field = if problem.field.is_empty() { String::new() } else { format!("{}: ", problem.field) };
            let word = if verdict.verdict == VerdictKind::Unknown { "not known: " } else { "" };
            let (line, column, message) = (problem.line, problem.column, &problem.message);
            text.push_str(&format!("{red}{file}:{line}:{column}:{plain} {word}{field}{message}\n"));
        }
    }
    text
}

/// The verdict on a document that is in the cell; of a job that is over already, how and since when.
fn word_of(verdict: &DocumentVerdict, style: &Style) -> String {
    let word = verdict.verdict.name();
    match verdict.finished.as_str() {
        "" => word.to_string(),
        state => format!("{word} ({state} {} ago)", age(style.now_ms, verdict.finished_ms)),
    }
}

/// What came of everything: `3 accepted, 1 refused`.
pub(crate) fn verdict_totals(answer: &SubmitAnswer) -> String {
    let counts = [
        (answer.accepted, "accepted"),
        (answer.updated, "updated"),
        (answer.unchanged, "unchanged"),
        (answer.refused, "refused"),
        (answer.unknown, "not known (submit again: what was taken is known by its name)"),
    ];
    let there = counts.iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = there.map(|(count, word)| format!("{count} {word}")).collect();
    if words.is_empty() { "no documents".to_string() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::PLAIN;
    use ohm_wire::api::ProblemView;

    #[test]
    fn problems_name_file_line_column_and_field() {
        let verdict = |name: &str, verdict, problems| ListedVerdict {
            file: "jobs.yaml".into(),
            verdict: DocumentVerdict {
                line: 7,
                kind: "Job".into(),
                name: name.into(),
                verdict,
                problems,
                ..Default::default()
            },
        };
        let problem = |field: &str, message: &str| ProblemView {
            line: 9,
            column: 3,
            field: field.into(),
            message: message.into(),
        };
        let listed = [
            verdict("a", VerdictKind::Accepted, vec![]),
            verdict("", VerdictKind::Refused, vec![problem("spec.count", "must be 1 or more"), problem("", "no YAML")]),
            verdict("long-name", VerdictKind::Unchanged, vec![]),
            verdict("c", VerdictKind::Unknown, vec![problem("", "no answer")]),
        ];
        let (mut over, mut bare) = (listed[0].clone(), listed[0].clone());
        over.verdict.verdict = VerdictKind::Unchanged;
        (over.verdict.finished, over.verdict.finished_ms) = ("succeeded".into(), PLAIN.now_ms - 180_000);
        bare.verdict.note = "it has no command".into();
        assert_eq!(
            verdicts_text(&[over, bare], &PLAIN),
            "\
KIND  NAME  VERDICT                       WHERE
Job   a     unchanged (succeeded 3m ago)  jobs.yaml:7
Job   a     accepted                      jobs.yaml:7
note: a: it has no command
"
        );
        assert_eq!(
            verdicts_text(&listed, &PLAIN),
            "\
KIND  NAME       VERDICT    WHERE
Job   a          accepted   jobs.yaml:7
Job   long-name  unchanged  jobs.yaml:7
jobs.yaml:9:3: spec.count: must be 1 or more
jobs.yaml:9:3: no YAML
jobs.yaml:9:3: not known: no answer
"
        );
    }

    #[test]
    fn totals_leave_out_what_did_not_happen() {
        let answer = SubmitAnswer { accepted: 3, refused: 1, ..SubmitAnswer::default() };
        assert_eq!(verdict_totals(&answer), "3 accepted, 1 refused");
        assert_eq!(verdict_totals(&SubmitAnswer::default()), "no documents");
    }
}
