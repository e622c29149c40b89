//! Why nodes have the taints that their own state, or what they were brought for, puts on them.

use ohm_cell::{Cell, FLAP_WINDOW_MS, NodeRecord, requester};
use ohm_model::Taint;
use ohm_model::brought::{BROUGHT_PREFIX, REQUEST_LABEL};
use ohm_model::condition::{FLAPPING_TAINT, own_prefix};

/// Sentences about nodes that their own state keeps `taint` on, for whom that taint is in the way; `most` at most.
pub(crate) fn causes(cell: &Cell, taint: &Taint, most: usize) -> Vec<String> {
    if own_prefix(&taint.key).is_none() {
        return Vec::new();
    }
    let of_node = |record: &NodeRecord| {
        let name = &record.spec.name;
        if taint.key == REQUEST_LABEL {
            return Some(match requester(cell, &record.spec.labels) {
                Some(job) => format!("{name} was brought for job {}, and is kept for it.", job.spec.name),
                None => format!("{name} was brought for a job that is over, by a class that shares no nodes."),
            });
        }
        if record.release.is_on_its_way() && taint.key.starts_with(BROUGHT_PREFIX) {
            return Some(format!("{name} goes back to who brought it."));
        }
        if taint.key == FLAPPING_TAINT {
            let (flaps, minutes) = (record.flaps.returns_ms.len(), FLAP_WINDOW_MS / 60_000);
            let seconds = record.flaps.held_until_ms.saturating_sub(cell.now_ms()).div_ceil(1000);
            return Some(format!(
                "{name} is held down for another {seconds} s: it fell silent {flaps} times in {minutes} min."
            ));
        }
        let condition = record.conditions.iter().find(|condition| taint.key.ends_with(condition.kind.name()))?;
        let message = if condition.message.is_empty() { String::new() } else { format!(": {}", condition.message) };
        Some(format!("{name} has {}{message}.", condition.kind.name()))
    };
    let tainted = cell.nodes().iter().filter(|(_, record)| record.taints.contains(taint));
    tainted.filter_map(|(_, record)| of_node(record)).take(most).collect()
}
