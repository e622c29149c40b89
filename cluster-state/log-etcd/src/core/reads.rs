//! Linearizable reads: the revision of `head` is the index of the newest entry, and etcd answers it only after asking a
//! majority. All that wait share one question.

use super::call::{Range, Request, Response};
use super::calls::Purpose;
use super::config::EtcdConfig;
use super::marks::Expected;
use super::shared::Shared;
use ohm_log::{LogEvent, Refusal};
use ohm_model::Index;
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(super) struct Reads {
    waiting: VecDeque<(u64, u64)>,
    asked: VecDeque<(u64, u64)>,
    is_asking: bool,
}

impl Reads {
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.asked.len()
    }

    pub(super) fn add(&mut self, now_ms: u64, token: u64) {
        self.waiting.push_back((now_ms, token));
    }

    pub(super) fn due_ms(&self, config: &EtcdConfig) -> Option<u64> {
        let first = self.asked.front().or(self.waiting.front());
        first.map(|(since_ms, _)| since_ms + config.give_up_ms)
    }

    pub(super) fn tick(&mut self, now_ms: u64, shared: &mut Shared) {
        let is_late = |(since_ms, _): &(u64, u64)| since_ms + shared.config.give_up_ms <= now_ms;
        let (asked, waiting) = (&mut self.asked, &mut self.waiting);
        let mut late = Vec::new();
        for queue in [asked, waiting] {
            while queue.front().is_some_and(is_late) {
                late.extend(queue.pop_front());
            }
        }
        for (_, token) in late {
            shared.told.tell(LogEvent::Refused { token, reason: Refusal::NoMajority });
        }
        if !self.is_asking && !self.waiting.is_empty() && shared.calls.may_send(now_ms) {
            self.asked = std::mem::take(&mut self.waiting);
            self.is_asking = true;
            let head = shared.keys.head();
            shared.calls.call(Purpose::Read, Request::Range(Range::one(head)));
        }
    }

    /// Answers those who asked with the newest entry, which the watch should show soon.
    pub(super) fn answered(&mut self, answer: Option<Response>, shared: &mut Shared) -> Option<Expected> {
        self.is_asking = false;
        let asked = std::mem::take(&mut self.asked);
        match answer {
            Some(Response::Range { pairs, .. }) => {
                let newest = pairs.first().map_or(0, |pair| pair.modified);
                for (_, token) in asked {
                    shared.told.tell(LogEvent::Readable { token, index: Index(newest) });
                }
                Some(Expected::Entry(newest))
            }
            // Asked again, together with those that came meanwhile.
            _ => {
                let waiting = std::mem::replace(&mut self.waiting, asked);
                self.waiting.extend(waiting);
                None
            }
        }
    }
}
