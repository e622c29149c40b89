//! A check that is open, as the holder of the duty sees it.

use crate::contract::{Answer, AnswerState};
use ohm_model::{CheckReport, JobId, ProvisioningClass};

/// Which check of which round of which job.
pub(crate) type Key = (JobId, u32, String);

/// What is under way about one check.
///
/// ```text
///   due ──Ask──▶ asked ──"pending"──▶ due, after pollSeconds
///                  └──────anything else──▶ to be said in the log ──▶ over, or watched: due after watchSeconds
/// ```
#[derive(Clone, Debug)]
pub(crate) struct Open {
    /// The name of the request.
    pub(crate) id: String,
    /// When to ask; nothing while the outside was asked, or there is nothing to ask.
    pub(crate) due_ms: Option<u64>,
    /// The outside was asked and has not answered.
    pub(crate) is_asked: bool,
    /// What is to be said in the log.
    pub(crate) tell: Option<CheckReport>,
    /// It was sent and is not acknowledged.
    pub(crate) is_telling: bool,
}

impl Open {
    pub(crate) fn due(id: String, due_ms: u64) -> Self {
        Open { id, due_ms: Some(due_ms), is_asked: false, tell: None, is_telling: false }
    }

    /// The outside has answered. `ready` says whether the cell has the check ready already, `known` what the cell shows
    /// people of it.
    pub(crate) fn answered(
        &mut self,
        now_ms: u64,
        answer: &Answer,
        class: &ProvisioningClass,
        (ready, known): (bool, &str),
    ) {
        self.is_asked = false;
        let after = |seconds: u64| Some(now_ms.saturating_add(seconds.max(1).saturating_mul(1000)));
        let watch = after(class.watch_seconds).filter(|_| class.watch_seconds > 0);
        let message = answer.message.clone();
        match answer.state {
            AnswerState::Pending => {
                self.due_ms = after(class.poll_seconds);
                let is_news = !ready && !message.is_empty() && message != known;
                self.tell = is_news.then_some(CheckReport::Pending { message });
            }
            AnswerState::Ready if ready => self.due_ms = watch,
            AnswerState::Ready => {
                self.due_ms = watch;
                self.tell = Some(match answer.tolerations.iter().map(|words| words.toleration()).collect() {
                    Ok(tolerations) => {
                        CheckReport::Ready { node_selector: answer.node_selector.clone(), tolerations, message }
                    }
                    Err(problem) => CheckReport::Failed { message: problem },
                });
            }
            AnswerState::Failed if !ready => self.tell = Some(CheckReport::Failed { message }),
            // Means nothing once the job is placed; then there is something to watch still.
            AnswerState::Failed | AnswerState::Expired => {
                self.due_ms = watch;
                self.tell = Some(CheckReport::BookingExpired { message });
            }
            AnswerState::Revoked => self.tell = Some(CheckReport::CapacityRevoked { message }),
        }
    }
}
