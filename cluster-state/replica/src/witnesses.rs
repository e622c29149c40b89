//! What the wall clocks of the servers show. One clock proves nothing: time moves to where a majority of the voters has
//! its clocks, all of them within [`NEAR_MS`] of each other.
//!
//! Only servers are asked. Agents and clients mostly share a machine or its time server with the one server of a small
//! cell, and whoever has the cell's token could speak as any number of them.

use crate::stamp::NEAR_MS;
use std::collections::BTreeMap;

/// How often servers tell each other what their wall clocks show.
pub(crate) const TELL_EVERY_MS: u64 = 2_000;
/// What a server said longer ago does not count.
const FRESH_MS: u64 = 10_000;

/// What other servers said last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Witnesses {
    /// By server: when it said so, by the own boot-time clock, and what its wall clock showed.
    heard: BTreeMap<u64, (u64, u64)>,
    told_ms: Option<u64>,
}

impl Witnesses {
    pub(crate) fn hear(&mut self, now_ms: u64, server: u64, wall_ms: u64) {
        self.heard.insert(server, (now_ms, wall_ms));
    }

    /// What the wall clock of another server shows, if it said so lately.
    pub(crate) fn wall_ms(&self, now_ms: u64, server: u64) -> Option<u64> {
        let (heard_ms, wall_ms) = *self.heard.get(&server)?;
        let since_ms = now_ms.saturating_sub(heard_ms);
        (since_ms <= FRESH_MS).then(|| wall_ms.saturating_add(since_ms))
    }

    /// What the wall clocks show of those that said so lately, by server.
    pub(crate) fn heard(&self, now_ms: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.heard.keys().filter_map(move |server| Some((*server, self.wall_ms(now_ms, *server)?)))
    }

    /// The time that a majority of `voters` shows, the earliest of them; `own` is this server with its wall clock.
    /// A voter without others has no majority: it would vouch for itself.
    pub(crate) fn majority_ms(&self, now_ms: u64, own: (u64, u64), voters: &[u64]) -> Option<u64> {
        if voters.len() < 2 {
            return None;
        }
        let shown = |voter: &u64| if *voter == own.0 { Some(own.1) } else { self.wall_ms(now_ms, *voter) };
        let mut shown: Vec<u64> = voters.iter().filter_map(shown).collect();
        shown.sort_unstable();
        let agree = shown.windows(voters.len() / 2 + 1).find(|window| window[window.len() - 1] - window[0] <= NEAR_MS);
        agree.map(|window| window[0])
    }

    /// Whether the others are to be told now; then they are.
    pub(crate) fn tells(&mut self, now_ms: u64) -> bool {
        let is_due = self.told_ms.is_none_or(|told_ms| told_ms + TELL_EVERY_MS <= now_ms);
        if is_due {
            self.told_ms = Some(now_ms);
        }
        is_due
    }

    /// When they are to be told next.
    pub(crate) fn due_ms(&self) -> u64 {
        self.told_ms.map_or(0, |told_ms| told_ms + TELL_EVERY_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 86_400_000;

    fn majority(own_ms: u64, others: &[(u64, u64)], voters: &[u64]) -> Option<u64> {
        let mut witnesses = Witnesses::default();
        others.iter().for_each(|(server, wall_ms)| witnesses.hear(100, *server, *wall_ms));
        witnesses.majority_ms(100, (1, own_ms), voters)
    }

    #[test]
    fn time_is_where_a_majority_has_its_clocks() {
        let three = [1, 2, 3];
        assert_eq!(majority(DAY_MS, &[(2, 1_000), (3, 2_000)], &three), Some(1_000), "the own clock is alone");
        assert_eq!(majority(1_000, &[(2, DAY_MS + 5), (3, DAY_MS)], &three), Some(DAY_MS));
        assert_eq!(majority(0, &[(2, DAY_MS), (3, 2 * DAY_MS)], &three), None, "all differ");
        assert_eq!(majority(5, &[(2, 9)], &three), Some(5), "one is silent");
        assert_eq!(majority(5, &[(4, 9)], &three), None, "learners don't count");
        assert_eq!(majority(5, &[], &three), None);
        assert_eq!(majority(5, &[(2, 5)], &[1]), None, "nobody vouches for itself");
        assert_eq!(majority(5, &[(2, NEAR_MS + 6)], &[1, 2]), None);
    }

    #[test]
    fn what_was_said_long_ago_does_not_count() {
        let mut witnesses = Witnesses::default();
        witnesses.hear(1_000, 2, 50_000);
        assert_eq!(witnesses.wall_ms(4_000, 2), Some(53_000));
        assert_eq!(witnesses.wall_ms(1_001 + FRESH_MS, 2), None);
    }
}
