//! Linearizable reads: the revision of `head` is the index of the newest entry, and etcd answers it only after asking a
//! majority. All that wait share one question.

use super::call::{Range, Request, Response};
use super::calls::Purpose;
use super::{EtcdConfig, EtcdCore, index};
use ohm_log::{LogEvent, Refusal};
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
}

impl EtcdCore {
    pub(super) fn tick_reads(&mut self, now_ms: u64) {
        let is_late = |(since_ms, _): &(u64, u64)| since_ms + self.config.give_up_ms <= now_ms;
        let (asked, waiting) = (&mut self.reads.asked, &mut self.reads.waiting);
        let mut late = Vec::new();
        for queue in [asked, waiting] {
            while queue.front().is_some_and(is_late) {
                late.extend(queue.pop_front());
            }
        }
        for (_, token) in late {
            self.tell(LogEvent::Refused { token, reason: Refusal::NoMajority });
        }
        if !self.reads.is_asking && !self.reads.waiting.is_empty() && self.may_send(now_ms) {
            self.reads.asked = std::mem::take(&mut self.reads.waiting);
            self.reads.is_asking = true;
            let head = self.keys.head();
            self.call(Purpose::Read, Request::Range(Range::one(head)));
        }
    }

    pub(super) fn read_answered(&mut self, now_ms: u64, answer: Option<Response>) {
        self.reads.is_asking = false;
        let asked = std::mem::take(&mut self.reads.asked);
        match answer {
            Some(Response::Range { pairs, .. }) => {
                let newest = pairs.first().map_or(0, |pair| pair.modified);
                self.expect(now_ms, newest);
                for (_, token) in asked {
                    self.tell(LogEvent::Readable { token, index: index(newest) });
                }
            }
            // Asked again, together with those that came meanwhile.
            _ => {
                let waiting = std::mem::replace(&mut self.reads.waiting, asked);
                self.reads.waiting.extend(waiting);
            }
        }
    }
}
