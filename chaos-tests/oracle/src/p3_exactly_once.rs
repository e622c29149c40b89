//! P3: what was acknowledged stays and happened exactly once.

use crate::history::Caused;
use crate::history::{Broken, Record};
use ohm_model::{Entry, EventKind, Index, Sequence, SessionId};
use std::collections::{BTreeMap, BTreeSet};

/// Who was promised what, and what the log holds.
#[derive(Default)]
pub(crate) struct ExactlyOnce {
    acknowledged: BTreeMap<String, u64>,
    /// Jobs the cell holds, by name; forgotten ones stay in `ever`.
    present: BTreeSet<String>,
    ever: BTreeSet<String>,
    /// Jobs that are not over.
    open: BTreeSet<String>,
    answers: BTreeMap<(SessionId, Sequence), String>,
}

impl ExactlyOnce {
    pub(crate) fn applied(&mut self, index: Index, entry: &Entry, applied: &Caused, broken: &mut Vec<Broken>) {
        for event in &applied.events {
            match &event.kind {
                EventKind::JobSubmitted { name, .. } => {
                    self.open.insert(name.clone());
                    if !self.present.insert(name.clone()) {
                        broken
                            .push(Broken::new("P3", format!("entry {index}: job {name} was submitted a second time")));
                    }
                    self.ever.insert(name.clone());
                }
                EventKind::JobState { name, state, .. }
                    if matches!(state.as_str(), "succeeded" | "failed" | "cancelled") =>
                {
                    self.open.remove(name);
                }
                EventKind::JobForgotten { name } => {
                    self.present.remove(name);
                    if self.open.contains(name) {
                        let what = format!("entry {index}: job {name} was forgotten before it was over");
                        broken.push(Broken::new("P3", what));
                    }
                }
                _ => {}
            }
        }
        for (envelope, outcome) in entry.commands.iter().zip(&applied.outcomes) {
            if envelope.session == SessionId(0) || matches!(outcome, ohm_model::Outcome::Refused(_)) {
                continue;
            }
            let (key, answer) = ((envelope.session, envelope.sequence), format!("{outcome:?}"));
            match self.answers.get(&key) {
                Some(first) if *first != answer => {
                    let what = format!("entry {index}: command {key:?} was answered {first} and later {answer}");
                    broken.push(Broken::new("P3", what));
                }
                Some(_) => {}
                None => drop(self.answers.insert(key, answer)),
            }
        }
    }

    pub(crate) fn watch(&mut self, record: &Record, _broken: &mut Vec<Broken>) {
        if let Record::Acknowledged { at_ms, job } = record {
            self.acknowledged.entry(job.clone()).or_insert(*at_ms);
        }
    }

    pub(crate) fn finish(&mut self, broken: &mut Vec<Broken>) {
        for (job, at_ms) in self.acknowledged.iter().filter(|(job, _)| !self.ever.contains(*job)) {
            broken.push(Broken::new("P3", format!("job {job} was acknowledged at {at_ms} ms and is not in the log")));
        }
    }
}
