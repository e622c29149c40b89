//! Answers to `POST /v1/submit`.

use super::is_default;
use serde::{Deserialize, Serialize};

/// What became of the documents of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubmitAnswer {
    /// How many documents are new in the cell.
    pub accepted: u64,
    /// How many were there already with the same content.
    pub unchanged: u64,
    /// How many jobs were there with other content and have this one now; only with `?update=true`.
    pub updated: u64,
    /// How many were refused.
    pub refused: u64,
    /// How many nobody knows about, or were not tried after such a one. Sending them again is safe.
    pub unknown: u64,
    /// The verdicts in the order of the documents; with `?verdicts=refused` only those that are not good.
    pub verdicts: Vec<DocumentVerdict>,
}

impl SubmitAnswer {
    /// Counts `verdict` and, if `keep`, lists it.
    pub fn add(&mut self, verdict: DocumentVerdict, keep_good: bool) {
        match verdict.verdict {
            VerdictKind::Accepted => self.accepted += 1,
            VerdictKind::Unchanged => self.unchanged += 1,
            VerdictKind::Updated => self.updated += 1,
            VerdictKind::Refused => self.refused += 1,
            VerdictKind::Unknown => self.unknown += 1,
        }
        if keep_good || !verdict.verdict.is_good() {
            self.verdicts.push(verdict);
        }
    }

    /// Adds the answer to a later part of the same input.
    pub fn extend(&mut self, later: SubmitAnswer) {
        self.accepted += later.accepted;
        self.unchanged += later.unchanged;
        self.updated += later.updated;
        self.refused += later.refused;
        self.unknown += later.unknown;
        self.verdicts.extend(later.verdicts);
    }

    /// The jobs that are in the cell now, as far as the verdicts list them.
    pub fn acknowledged_jobs(&self) -> impl Iterator<Item = &str> {
        let good = self.verdicts.iter().filter(|verdict| verdict.kind == "Job" && verdict.verdict.is_good());
        good.map(|verdict| verdict.name.as_str())
    }

    /// Whether every document is in the cell now.
    pub fn is_good(&self) -> bool {
        self.refused == 0 && self.unknown == 0
    }
}

/// What became of one document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DocumentVerdict {
    /// The document's number in the request, from 1.
    pub document: u64,
    /// The line on which it begins, from 1.
    pub line: u64,
    /// The character in that line, from 1.
    pub column: u32,
    /// `Job`, `Queue` …; empty when the document could not be read.
    #[serde(skip_serializing_if = "is_default")]
    pub kind: String,
    /// Its name; empty when the document could not be read.
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    /// The verdict.
    pub verdict: VerdictKind,
    /// What else there is to know about a document that is in the cell, for people; possibly empty.
    #[serde(skip_serializing_if = "is_default")]
    pub note: String,
    /// Of a job that is unchanged because it is over already: `succeeded`, `failed` or `cancelled`.
    #[serde(skip_serializing_if = "is_default")]
    pub finished: String,
    /// When it ended; 0 for all others.
    #[serde(skip_serializing_if = "is_default")]
    pub finished_ms: u64,
    /// What is wrong with it; empty for good ones.
    #[serde(skip_serializing_if = "is_default")]
    pub problems: Vec<ProblemView>,
}

/// The verdict on a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VerdictKind {
    /// It is new in the cell.
    Accepted,
    /// It was there already with the same content.
    Unchanged,
    /// It was there with other content, and has this one now.
    Updated,
    /// It was refused; nothing changed.
    Refused,
    /// Nobody knows, or it was not tried after such a one. Sending it again is safe.
    #[default]
    Unknown,
}

impl VerdictKind {
    /// Whether the document is in the cell now.
    pub fn is_good(self) -> bool {
        matches!(self, VerdictKind::Accepted | VerdictKind::Unchanged | VerdictKind::Updated)
    }

    /// The word used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            VerdictKind::Accepted => "accepted",
            VerdictKind::Unchanged => "unchanged",
            VerdictKind::Updated => "updated",
            VerdictKind::Refused => "refused",
            VerdictKind::Unknown => "unknown",
        }
    }
}

/// One thing that is wrong with a document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProblemView {
    /// The line, from 1.
    pub line: u64,
    /// The character in the line, from 1.
    pub column: u32,
    /// The field as a path; empty where the problem is not about one.
    #[serde(skip_serializing_if = "is_default")]
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}
