//! The webhook: the question is posted as JSON. 2xx is an answer, as JSON; 4xx is a failure; whoever can't be reached,
//! or answers 5xx, is asked again, under the same id.

use super::answer::{self, ANSWER_BYTES_MAX};
use ohm_provisioning::{Answer, AnswerState, Question};
use std::time::Duration;

pub(super) async fn ask(url: &str, question: &Question, patience: Duration) -> Answer {
    let (url, question) = (url.to_string(), question.clone());
    let asked = tokio::task::spawn_blocking(move || post(&url, &question, patience)).await;
    asked.unwrap_or_else(|error| Answer::of(AnswerState::Pending, format!("the question was lost: {error}")))
}

fn post(url: &str, question: &Question, patience: Duration) -> Answer {
    let config = ureq::Agent::config_builder().timeout_global(Some(patience)).http_status_as_error(false).build();
    let unreachable = |error: ureq::Error| Answer::of(AnswerState::Pending, format!("{url}: {error}"));
    let posted =
        ureq::Agent::new_with_config(config).post(url).header("Idempotency-Key", question.id()).send_json(question);
    let mut response = match posted {
        Ok(response) => response,
        Err(error) => return unreachable(error),
    };
    let status = response.status();
    let body = match response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string() {
        Ok(body) => body,
        Err(error) => return unreachable(error),
    };
    if status.is_success() {
        return answer::read(&body);
    }
    let state = if status.is_client_error() { AnswerState::Failed } else { AnswerState::Pending };
    Answer::of(state, format!("{url}: HTTP {status}: {}", body.lines().next().unwrap_or_default()))
}
