//! A session takes a lease, or renews the one it holds.

use crate::apply::Tx;
use ohm_model::lease::SHARDS_PER_CLASS;
use ohm_model::{Epoch, EventKind, Index, Lease, Outcome, Refusal, SessionId};

pub(crate) fn take_lease(
    tx: &mut Tx<'_>,
    session: SessionId,
    lease: Lease,
    epoch: Epoch,
    renewed: Index,
) -> Result<Outcome, Refusal> {
    if let Lease::Shard(shard) = lease
        && shard.number >= SHARDS_PER_CLASS
    {
        let problem = format!("there is no shard {}; a class has {SHARDS_PER_CLASS}", shard.number);
        return Err(Refusal::Invalid { field: "lease".into(), problem });
    }
    let before = tx.sessions.lease(lease).epoch;
    let taken = tx.cell.sessions.take(lease, session, epoch, renewed, tx.cell.applied)?;
    if taken != before {
        let holder = tx.sessions.get(session).map_or_else(String::new, |session| session.name.clone());
        let lease = match lease {
            Lease::Health => "health".to_string(),
            Lease::Provisioning => "provisioning".to_string(),
            Lease::Shard(shard) => format!("{}/{}", shard.class.name(), shard.number),
        };
        tx.tell(EventKind::LeaseTaken { lease, holder });
    }
    Ok(Outcome::Lease(taken))
}
