//! What the outside says, as text.

use ohm_provisioning::{Answer, AnswerState};

/// Most bytes of an answer.
pub(super) const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// What the outside wrote as its answer; nothing at all means that the nodes are there.
pub(super) fn read(text: &str) -> Answer {
    if text.trim().is_empty() {
        return Answer::of(AnswerState::Ready, "");
    }
    serde_json::from_str(text).unwrap_or_else(|error| {
        Answer::of(AnswerState::Failed, format!("its answer is not `{{\"state\": \"ready\", …}}`: {error}"))
    })
}
