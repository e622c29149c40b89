//! Why nodes have the taints that their own state puts on them.

use ohm_cell::{Cell, FLAP_WINDOW_MS, NodeRecord};
use ohm_model::Taint;
use ohm_model::condition::{FLAPPING_TAINT, TAINT_PREFIX};

/// Sentences about nodes that their own state keeps `taint` on, for whom that taint is in the way; `most` at most.
pub(crate) fn causes(cell: &Cell, taint: &Taint, most: usize) -> Vec<String> {
    if !taint.key.starts_with(TAINT_PREFIX) {
        return Vec::new();
    }
    let of_node = |record: &NodeRecord| {
        let name = &record.spec.name;
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
