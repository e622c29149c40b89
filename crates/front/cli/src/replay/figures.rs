//! The server's figures about conflicts, in the text format of Prometheus.

use serde::Serialize;
use std::collections::BTreeMap;

/// Refused rows, by scheduler and reason.
const CONFLICTS: &str = "ohm_conflicts_total";
/// Transactions of which rows were refused, by scheduler.
const CONFLICTED_PLANS: &str = "ohm_conflicted_plans_total";

/// What became of a scheduler's plans.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Conflicts {
    /// Rows that the cell refused.
    pub(super) conflicts: u64,
    /// Transactions with such rows; what they were about was planned again.
    pub(super) retries: u64,
    /// The rows by reason.
    pub(super) reasons: BTreeMap<String, u64>,
}

impl Conflicts {
    /// What was added since `earlier`. A server that was restarted counts from 0 again: its count is all that is known.
    pub(super) fn since(&self, earlier: Option<&Conflicts>) -> Conflicts {
        let Some(earlier) = earlier else { return self.clone() };
        let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        let reason = |(name, rows): (&String, &u64)| {
            let rows = since(*rows, earlier.reasons.get(name).copied().unwrap_or(0));
            (rows > 0).then(|| (name.clone(), rows))
        };
        Conflicts {
            conflicts: since(self.conflicts, earlier.conflicts),
            retries: since(self.retries, earlier.retries),
            reasons: self.reasons.iter().filter_map(reason).collect(),
        }
    }
}

/// Conflicts by scheduler, from the text of `/metrics`. Lines of other figures are passed over.
pub(super) fn conflicts(metrics: &str) -> BTreeMap<String, Conflicts> {
    let mut found: BTreeMap<String, Conflicts> = BTreeMap::new();
    for (name, labels, value) in metrics.lines().filter_map(sample) {
        let Some(scheduler) = labels.get("scheduler") else { continue };
        if name == CONFLICTS {
            let entry = found.entry(scheduler.clone()).or_default();
            entry.conflicts += value;
            *entry.reasons.entry(labels.get("reason").cloned().unwrap_or_default()).or_default() += value;
        } else if name == CONFLICTED_PLANS {
            found.entry(scheduler.clone()).or_default().retries += value;
        }
    }
    found
}

/// A line as name, labels and value; nothing for comments and for what is no whole number.
fn sample(line: &str) -> Option<(&str, BTreeMap<String, String>, u64)> {
    let (head, value) = line.rsplit_once(' ').filter(|_| !line.starts_with('#'))?;
    let (name, labels) = head.strip_suffix('}')?.split_once('{')?;
    Some((name, labels_of(labels)?, value.parse().ok()?))
}

/// `a="x",b="y"` as a map.
fn labels_of(text: &str) -> Option<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (key, after) = rest.split_once("=\"")?;
        let (value, after) = quoted(after)?;
        labels.insert(key.to_string(), value);
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    Some(labels)
}

/// The text up to the closing quotation mark, and what comes after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                escaped => value.push(escaped),
            },
            plain => value.push(plain),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = r#"# TYPE ohm_conflicts_total counter
ohm_conflicts_total{scheduler="batch-1",reason="room"} 7
ohm_conflicts_total{scheduler="batch-1",reason="version"} 2
ohm_conflicts_total{scheduler="odd \"name\"",reason="room"} 1
ohm_conflicted_plans_total{scheduler="batch-1"} 3
ohm_applied_index 12
ohm_http_requests_total{path="/v1/{name}",status="200"} 4
ohm_conflicts_total{scheduler="broken 5
"#;

    #[test]
    fn conflicts_are_summed_by_scheduler() {
        let found = conflicts(METRICS);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["batch-1", "odd \"name\""]);
        let batch = &found["batch-1"];
        assert_eq!((batch.conflicts, batch.retries), (9, 3));
        assert_eq!(batch.reasons, [("room".to_string(), 7), ("version".to_string(), 2)].into());
    }

    #[test]
    fn what_was_there_before_does_not_count() {
        let now = &conflicts(METRICS)["batch-1"];
        let before = Conflicts { conflicts: 7, retries: 3, reasons: [("room".to_string(), 7)].into() };
        let since = now.since(Some(&before));
        assert_eq!((since.conflicts, since.retries), (2, 0));
        assert_eq!(since.reasons, [("version".to_string(), 2)].into());
        assert_eq!(&now.since(None), now);
        // The server was restarted in between.
        let before = Conflicts { conflicts: 100, ..before };
        assert_eq!(now.since(Some(&before)).conflicts, 9);
    }
}
