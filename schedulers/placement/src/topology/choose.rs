//! Choosing nodes: domains of one level, filled evenly or as full as can be, and what their descendants are given.

use super::Counts;
use super::balanced;
use super::domains::{Choice, Reach, Request, Search, Short};

/// What to choose, or how much there is instead.
pub fn choose(counts: &Counts, request: &Request) -> Result<Choice, Short> {
    let search = Search { counts, order: request.order, salt: request.salt };
    let size = counts.layers().size.max(1);
    let given = if request.balanced && request.reach == Reach::Climbs {
        balanced::choose(&search, request.level, request.tasks / size, request.leader)
    } else {
        None
    };
    let (level, mut given) = match given {
        Some(found) => found,
        None => search.pooled(request)?,
    };
    for level in level..counts.tree().node_level() {
        given = given.into_iter().flat_map(|one| search.descend(level, one)).collect();
    }
    given.sort_unstable_by_key(|one| one.at);
    let leader = given.iter().find(|one| one.leader).map(|one| one.at);
    let nodes: Vec<_> = given.into_iter().filter(|one| one.tasks > 0).map(|one| (one.at, one.tasks)).collect();
    let placed: u64 = nodes.iter().map(|(_, tasks)| tasks).sum();
    if placed != request.tasks || leader.is_some() != request.leader {
        return Err(Short { fit: placed.min(request.tasks) / size, level, best: None });
    }
    Ok(Choice { nodes, leader })
}
