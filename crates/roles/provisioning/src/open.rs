//! A check that is open, as the holder of the duty sees it.

use crate::contract::{Answer, AnswerState};
use ohm_model::{CheckReport, JobId, Outcome, ProvisioningClass, Refusal};

/// Which check of which round of which job; or which request that a repair has made of the class, by its number from 1.
pub(crate) type Key = (JobId, u32, String, u32);

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
    /// What was sent of that and is not acknowledged; the outside may have said something else since.
    pub(crate) told: Option<CheckReport>,
}

impl Open {
    pub(crate) fn due(id: String, due_ms: u64) -> Self {
        Open { id, due_ms: Some(due_ms), is_asked: false, tell: None, told: None }
    }

    /// What is to be sent to the log now, if anything is: one report after the other.
    pub(crate) fn say(&mut self) -> Option<CheckReport> {
        if self.told.is_some() {
            return None;
        }
        self.told = self.tell.clone();
        self.told.clone()
    }

    /// The log has taken what was sent, or will not; what was not judged is said again, and so is what is newer.
    pub(crate) fn heard(&mut self, outcome: Option<&Outcome>) {
        let is_last = self.told.take() == self.tell;
        match outcome {
            None | Some(Outcome::Refused(Refusal::Busy { .. } | Refusal::SessionGone(_))) => {}
            _ if !is_last => {}
            // What the outside said can't be taken; it is not going to say anything else.
            Some(Outcome::Refused(refusal @ Refusal::Invalid { .. })) => {
                let message = format!("its answer can't be taken: {refusal}");
                self.tell = Some(CheckReport::Failed { message });
            }
            Some(_) => self.tell = None,
        }
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
            AnswerState::Released => {
                let message = "answered \"released\"; nothing was to be taken back".to_string();
                self.tell = Some(CheckReport::Failed { message });
            }
            AnswerState::Revoked => self.tell = Some(CheckReport::CapacityRevoked { message }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::TolerationWords;
    use ohm_model::Provisioner;

    /// What is told, and when it is asked again, after this answer at 1 s to a check that is ready or not.
    fn after(answer: &Answer, watch_seconds: u64, ready: bool) -> (Option<CheckReport>, Option<u64>) {
        let mut class = ProvisioningClass::of("spot", Provisioner::Sim);
        (class.poll_seconds, class.watch_seconds) = (5, watch_seconds);
        let mut open = Open { is_asked: true, due_ms: None, ..Open::due("a".into(), 0) };
        open.answered(1_000, answer, &class, (ready, "known"));
        assert!(!open.is_asked && open.told.is_none());
        (open.tell, open.due_ms)
    }

    #[test]
    fn answers_lead_to_reports_and_to_the_next_question() {
        let of = |state, message: &str| Answer::of(state, message);
        let message = || "m".to_string();
        let pending = |text: &str| CheckReport::Pending { message: text.into() };
        assert_eq!(after(&of(AnswerState::Pending, "m"), 0, false), (Some(pending("m")), Some(6_000)));
        assert_eq!(after(&of(AnswerState::Pending, "known"), 0, false), (None, Some(6_000)));
        let failed = CheckReport::Failed { message: message() };
        assert_eq!(after(&of(AnswerState::Failed, "m"), 9, false), (Some(failed), None));
        let expired = || Some(CheckReport::BookingExpired { message: message() });
        assert_eq!(after(&of(AnswerState::Expired, "m"), 0, false), (expired(), None));
        let revoked = CheckReport::CapacityRevoked { message: message() };
        assert_eq!(after(&of(AnswerState::Revoked, "m"), 9, true), (Some(revoked), None));
        // What is ready is watched, if its class says so.
        assert_eq!(after(&of(AnswerState::Ready, ""), 9, true), (None, Some(10_000)));
        assert_eq!(after(&of(AnswerState::Failed, "m"), 9, true), (expired(), Some(10_000)));
        assert_eq!(after(&of(AnswerState::Ready, ""), 0, true), (None, None));
    }

    #[test]
    fn what_is_newer_than_the_acknowledged_report_is_said() {
        let class = ProvisioningClass::of("spot", Provisioner::Sim);
        let mut open = Open::due("a".into(), 0);
        open.answered(0, &Answer::of(AnswerState::Pending, "two of four"), &class, (false, ""));
        let first = open.say();
        assert!(first.is_some() && open.say().is_none(), "one after the other");
        open.answered(1, &Answer::of(AnswerState::Ready, ""), &class, (false, ""));
        open.heard(Some(&Outcome::Done));
        assert!(matches!(open.say(), Some(CheckReport::Ready { .. })));
        open.heard(None);
        assert!(matches!(open.say(), Some(CheckReport::Ready { .. })), "it was lost");
        open.heard(Some(&Outcome::Done));
        assert_eq!(open.say(), None);
    }

    #[test]
    fn what_a_ready_answer_says_of_nodes_is_handed_on_or_fails() {
        let mut answer = Answer::of(AnswerState::Ready, "");
        answer.node_selector.insert("pool".into(), "spot".into());
        let (tell, due_ms) = after(&answer, 0, false);
        let Some(CheckReport::Ready { node_selector, .. }) = tell else { panic!("{tell:?}") };
        assert_eq!((node_selector["pool"].as_str(), due_ms), ("spot", None));
        answer.tolerations.push(TolerationWords { effect: Some("Never".into()), ..TolerationWords::default() });
        assert!(
            matches!(after(&answer, 0, false).0, Some(CheckReport::Failed { message }) if message.contains("Never"))
        );
    }
}
