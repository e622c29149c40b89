//! Verdicts on single documents.

use ohm_cell::Cell;
use ohm_manifest::{Content, Document, DocumentError, NamedKind, Position};
use ohm_model::{JobOutcome, Outcome, Refusal};
use ohm_wire::api::{DocumentVerdict, ProblemView, VerdictKind};

/// A document that waits for its verdict.
#[derive(Clone, Debug)]
pub(super) struct Ticket {
    verdict: DocumentVerdict,
    /// Where the document names its queue, unless that is `spec.queue`.
    queue_field: Option<String>,
}

impl Ticket {
    /// For document number `number`, which begins at `line` and `column`.
    pub(super) fn new(number: u64, line: u64, column: u32) -> Self {
        let verdict = DocumentVerdict { document: number, line, column, ..DocumentVerdict::default() };
        Ticket { verdict, queue_field: None }
    }

    /// For a document that was read; `lines_before` is how many lines came before what was parsed.
    pub(super) fn of(document: &Document, number: u64, lines_before: u64) -> Self {
        let Position { line, column } = document.origin.position;
        let mut ticket = Ticket::new(number, lines_before + u64::from(line), column);
        let (kind, name) = match &document.content {
            Content::Queue(queue) if queue.is_cohort => ("Cohort", Some(queue.name.as_str())),
            Content::Queue(queue) => ("Queue", Some(queue.name.as_str())),
            content => content.identity(),
        };
        (ticket.verdict.kind, ticket.verdict.name) = (kind.to_string(), name.unwrap_or_default().to_string());
        let names = document.kubernetes.iter().flat_map(|object| &object.names);
        let queue = names.into_iter().find(|named| named.what == NamedKind::Queue);
        ticket.queue_field = queue.map(|named| named.field.to_string());
        ticket
    }

    /// The verdict as it is, unknown so far.
    pub(super) fn unknown(self, message: &str) -> DocumentVerdict {
        self.refused_with(VerdictKind::Unknown, "", message)
    }

    /// It is in the cell.
    pub(super) fn good(self, verdict: VerdictKind) -> DocumentVerdict {
        DocumentVerdict { verdict, ..self.verdict }
    }

    /// It is refused for one reason.
    pub(super) fn refused(self, field: &str, message: &str) -> DocumentVerdict {
        self.refused_with(VerdictKind::Refused, field, message)
    }

    fn refused_with(self, verdict: VerdictKind, field: &str, message: &str) -> DocumentVerdict {
        let DocumentVerdict { line, column, .. } = self.verdict;
        let problem = ProblemView { line, column, field: field.to_string(), message: message.to_string() };
        DocumentVerdict { verdict, note: String::new(), problems: vec![problem], ..self.verdict }
    }

    /// With something to know about the document if it comes into the cell.
    pub(super) fn with_note(mut self, note: &str) -> Self {
        self.verdict.note = note.to_string();
        self
    }

    /// What the cell said to a job; `cell` is it now, if a job is unchanged or updated.
    pub(super) fn of_job(self, outcome: JobOutcome, cell: Option<&Cell>) -> DocumentVerdict {
        match outcome {
            JobOutcome::Accepted(_) => self.good(VerdictKind::Accepted),
            JobOutcome::Updated(job) => {
                let mut verdict = self.good(VerdictKind::Updated);
                if let Some(job) = cell.and_then(|cell| cell.jobs().get(job)).filter(|job| job.rollout().is_some()) {
                    let (revision, name) = (job.revision(), &job.spec.name);
                    let told =
                        format!("it is rolled out to revision {revision}; `ohm rollout status -w {name}` follows");
                    let before = if verdict.note.is_empty() { "" } else { "; " };
                    verdict.note = format!("{}{before}{told}", verdict.note);
                }
                verdict
            }
            JobOutcome::Unchanged(job) => {
                let mut verdict = self.good(VerdictKind::Unchanged);
                let known = cell.and_then(|cell| cell.jobs().get(job));
                if let Some(known) = known.filter(|known| known.finished_ms > 0) {
                    (verdict.finished, verdict.finished_ms) = (known.phase().to_string(), known.finished_ms);
                }
                verdict
            }
            JobOutcome::Refused(refusal) => self.of_refusal(&refusal),
        }
    }

    /// What the cell said to anything else.
    pub(super) fn of_outcome(self, outcome: &Outcome, was_there: bool) -> DocumentVerdict {
        match outcome {
            Outcome::Refused(refusal) => self.of_refusal(refusal),
            _ if was_there => self.good(VerdictKind::Unchanged),
            _ => self.good(VerdictKind::Accepted),
        }
    }

    fn of_refusal(self, refusal: &Refusal) -> DocumentVerdict {
        let queue = self.queue_field.clone().unwrap_or_else(|| "spec.queue".to_string());
        match refusal {
            Refusal::Invalid { field, problem } => self.refused(field, problem),
            Refusal::NameTaken { .. } => self.refused("metadata.name", &refusal.to_string()),
            Refusal::NotFound { kind, .. } if kind == "queue" => {
                self.refused(&queue, &format!("{refusal}; submit the queue first, or leave the field out"))
            }
            Refusal::QueueFull { .. } => self.refused(&queue, &refusal.to_string()),
            Refusal::NotFound { kind, .. } if kind == "topology" => {
                self.refused("spec.groups.topology", &format!("{refusal}; submit the topology first"))
            }
            _ => self.refused("", &refusal.to_string()),
        }
    }
}

/// The verdict on a document that could not be read.
pub(super) fn unreadable(error: &DocumentError, number: u64, lines_before: u64) -> DocumentVerdict {
    let mut problems: Vec<ProblemView> = error
        .problems
        .iter()
        .map(|problem| ProblemView {
            line: lines_before + u64::from(problem.position.line),
            column: problem.position.column,
            field: problem.field.to_string(),
            message: problem.kind.to_string(),
        })
        .collect();
    let (line, column) = problems.first().map_or((lines_before + 1, 1), |first| (first.line, first.column));
    if error.omitted > 0 {
        let message = format!("and {} more problems in this document", error.omitted);
        problems.push(ProblemView { line, column, field: String::new(), message });
    }
    let verdict = VerdictKind::Refused;
    DocumentVerdict { document: number, line, column, verdict, problems, ..DocumentVerdict::default() }
}
