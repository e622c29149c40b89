//! Who should hold which lease: rendezvous hashing over the live sessions of a class, so that a replica that comes or
//! goes moves only its own share.

use ohm_model::{Index, Lease, SessionId};
use ohm_stdx::hash;
use std::collections::BTreeMap;

/// The session among `sessions` that should hold `lease`; every copy with the same list names the same one.
pub fn owner_of(lease: Lease, sessions: impl IntoIterator<Item = SessionId>) -> Option<SessionId> {
    let key = match lease {
        Lease::Health => 0,
        Lease::Provisioning => 1,
        Lease::Shard(shard) => hash::chain(hash::bytes(shard.class.name().as_bytes()), u64::from(shard.number)),
    };
    sessions.into_iter().max_by_key(|session| (hash::mix(hash::mix(key) ^ session.0), *session))
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
    fn a_replica_that_leaves_moves_only_its_own_shards() {
        let all = [SessionId(11), SessionId(12), SessionId(13)];
        let rest = [SessionId(11), SessionId(13)];
        let mut shares = BTreeMap::new();
        for shard in shards() {
            let owner = owner_of(shard, all).unwrap();
            *shares.entry(owner).or_insert(0) += 1;
            if owner != SessionId(12) {
                assert_eq!(owner_of(shard, rest), Some(owner));
            }
        }
        assert_eq!(shares.len(), 3, "everyone gets a share: {shares:?}");
        assert_eq!(owner_of(Lease::Health, []), None);
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
