//! What a sweep found, as a table for people.

use super::swept::Swept;
use ohm_sim::{CONFLICT_REASONS, FAULT_KINDS, GROUP_FAULT_KINDS};
use std::collections::BTreeMap;

/// The first `most` characters of a line.
pub(super) fn cut(line: &str, most: usize) -> String {
    let mut text: String = line.chars().take(most).collect();
    if text.len() < line.len() {
        text.push('…');
    }
    text
}

/// Faults by kind, conflicts by reason, and the sums.
pub(super) fn table(swept: &Swept) -> String {
    let summary = &swept.summary;
    // Of one run only what it met; of a sweep also what nobody met.
    let all = summary.runs > 1;
    let mut text = String::from("\nfaults by kind\n");
    text += &counts(FAULT_KINDS, &summary.faults, all);
    if summary.grouped > 0 {
        text += &counts(GROUP_FAULT_KINDS, &summary.faults, all);
    }
    text += "\nrows refused by reason\n";
    text += &counts(CONFLICT_REASONS, &summary.conflicts, all);
    let missing = summary.missing();
    if summary.runs > 1 && !missing.is_empty() {
        text += &format!("\nnot met: {}\n", missing.join(", "));
    }
    text += &format!(
        "\n{} entries, {} jobs acknowledged, {} tasks begun, {} reads, {} large cells, {} with several servers\n",
        summary.entries, summary.acknowledged, summary.began, summary.reads, summary.large, summary.grouped
    );
    if let Some(speed) = speed(swept) {
        text += &format!("{speed}\n");
    }
    text + &format!("{} passed, {} failed\n", summary.runs - summary.failed, summary.failed)
}

/// Seeds per second and virtual time per second.
pub(super) fn speed(swept: &Swept) -> Option<String> {
    let milli = swept.seconds_milli.max(1);
    (swept.seconds_milli > 0).then(|| {
        let tenths = swept.summary.runs * 10_000 / milli;
        let times = swept.summary.virtual_ms / milli;
        let seconds = milli / 1000;
        let often = if swept.once { "once" } else { "twice" };
        format!(
            "{}.{} seeds/s, each {often}; {times} s of virtual time per second; {seconds} s",
            tenths / 10,
            tenths % 10
        )
    })
}

fn counts(names: &[&str], found: &BTreeMap<&'static str, u64>, all: bool) -> String {
    let names: Vec<&str> = names.iter().filter(|name| all || found.contains_key(*name)).copied().collect();
    if names.is_empty() {
        return "  none\n".into();
    }
    let line = |pair: &[&str]| -> String {
        let cell = |name: &&str| format!("  {name:<24}{:>9}", found.get(*name).copied().unwrap_or(0));
        pair.iter().map(cell).collect::<String>() + "\n"
    };
    names.chunks(2).map(line).collect()
}
