//! NodeAffinity: the weights of preferred terms that the node does not match, in shares of the weights of all.

use super::costs::{ClassQuestion, Lost};

pub(super) fn lost(question: &ClassQuestion<'_>) -> Lost {
    let all: u64 = question.preferred.iter().map(|(weight, _)| u64::from(*weight)).sum();
    let missed = question.preferred.iter().filter(|(_, term)| !term.matches("", &question.class.labels));
    Lost { parts: missed.map(|(weight, _)| u64::from(*weight)).sum(), of: all }
}
