//! Who should hold which lease: rendezvous hashing over the live sessions of a class with bounded loads (Mirrokni,
//! Thorup and Zadimoghaddam 2018), so that no replica gets more than its part, and one that comes or goes moves little
//! beside its own.

use ohm_model::{Index, Lease, SessionId};
use ohm_stdx::hash;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Which of `sessions` should hold each of `leases`; every copy with the same lists says the same. Shares differ
/// by one at most; there are none without sessions.
pub fn owners_of(leases: &[Lease], sessions: impl IntoIterator<Item = SessionId>) -> BTreeMap<Lease, SessionId> {
    let mut shares: BTreeMap<SessionId, usize> = sessions.into_iter().map(|session| (session, 0)).collect();
    let (least, mut larger) = (leases.len() / shares.len().max(1), leases.len() % shares.len().max(1));
    let pairs =
        leases.iter().flat_map(|lease| shares.keys().map(|session| (fondness(*lease, *session), *lease, *session)));
    let mut pairs: Vec<(u64, Lease, SessionId)> = pairs.collect();
    pairs.sort_unstable_by_key(|pair| Reverse(*pair));
    let mut owners = BTreeMap::new();
    for (_, lease, session) in pairs {
        let share = shares.entry(session).or_default();
        let is_larger = *share == least;
        if owners.contains_key(&lease) || *share > least || (is_larger && larger == 0) {
            continue;
        }
        owners.insert(lease, session);
        larger -= usize::from(is_larger);
        *share += 1;
    }
    owners
}

fn fondness(lease: Lease, session: SessionId) -> u64 {
    let key = match lease {
        Lease::Health => 0,
        Lease::Provisioning => 1,
        Lease::Shard(shard) => hash::chain(hash::bytes(shard.class.name().as_bytes()), u64::from(shard.number)),
    };
    hash::mix(hash::mix(key) ^ session.0)
}

/// The other sessions of the class, and when each of them last showed life on the own clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peers {
    seen: BTreeMap<SessionId, (Index, u64)>,
}

impl Peers {
    /// Takes the whole list as the own copy has it. A renewal that moved, or a session not seen before, is a sign of
    /// life.
    pub(crate) fn update(&mut self, now_ms: u64, list: &[(SessionId, Index)]) {
        let before = std::mem::take(&mut self.seen);
        for &(session, renewed) in list {
            let alive_ms = match before.get(&session) {
                Some(&(known, alive_ms)) if known == renewed => alive_ms,
                _ => now_ms,
            };
            self.seen.insert(session, (renewed, alive_ms));
        }
    }

    /// The sessions that showed life within `patience_ms`.
    pub(crate) fn live(&self, now_ms: u64, patience_ms: u64) -> impl Iterator<Item = SessionId> + '_ {
        let alive = move |&(_, alive_ms): &(Index, u64)| now_ms.saturating_sub(alive_ms) < patience_ms;
        self.seen.iter().filter(move |(_, seen)| alive(seen)).map(|(&session, _)| session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_model::Class;
    use ohm_model::Shard;
    use ohm_model::lease::SHARDS_PER_CLASS;

    fn shards() -> impl Iterator<Item = Lease> {
        (0..SHARDS_PER_CLASS).map(|number| Lease::Shard(Shard { class: Class::BATCH, number }))
    }

    #[test]
    fn shards_are_shared_out_equally_and_move_little() {
        let shards: Vec<Lease> = shards().collect();
        for first in 0..50 {
            let all: Vec<SessionId> = (0..6).map(|number| SessionId(first * 7 + number)).collect();
            let mut moved = 0;
            for count in 1..=6 {
                let owners = owners_of(&shards, all[..count].iter().copied());
                let share = |session: &SessionId| owners.values().filter(|owner| *owner == session).count();
                let (least, most) = (shards.len() / count, shards.len().div_ceil(count));
                assert_eq!(owners.len(), shards.len());
                assert!(all[..count].iter().all(|session| (least..=most).contains(&share(session))), "{owners:?}");
                let before = owners_of(&shards, all[..count - 1].iter().copied());
                let stays = |lease: &&Lease| before.get(lease) == owners.get(lease) || owners[lease] == all[count - 1];
                moved += if count > 1 { shards.iter().filter(|lease| !stays(lease)).count() } else { 0 };
            }
            assert!(moved <= shards.len(), "{moved} shards moved between sessions that stayed");
        }
        assert!(owners_of(&shards, []).is_empty());
    }

    #[test]
    fn a_peer_lives_as_long_as_its_renewals_move() {
        let mut peers = Peers::default();
        peers.update(0, &[(SessionId(1), Index(5)), (SessionId(2), Index(6))]);
        peers.update(900, &[(SessionId(1), Index(5)), (SessionId(2), Index(9))]);
        assert_eq!(peers.live(999, 1000).count(), 2);
        assert_eq!(peers.live(1000, 1000).collect::<Vec<_>>(), [SessionId(2)]);
        peers.update(1100, &[(SessionId(1), Index(5))]);
        assert_eq!(peers.live(1100, 1000).count(), 0);
    }
}
