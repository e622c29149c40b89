//! Results as people read them: pure functions from API types to text.

mod admission;
mod amounts;
mod events;
mod explain;
mod jobs;
mod nodes;
mod queues;
mod servers;
mod status;
mod table;
mod times;
mod verdicts;
mod wrap;

pub(crate) use admission::provisioning_classes_table;
pub(crate) use events::{event_line, story};
pub(crate) use explain::explanation;
pub(crate) use jobs::{job_line, job_over_line, job_text, jobs_table};
pub(crate) use nodes::{node_text, nodes_table};
pub(crate) use queues::{priority_classes_table, queues_table, topologies_text};
pub(crate) use servers::servers_table;
pub(crate) use status::status_text;
pub(crate) use verdicts::{ListedVerdict, verdict_totals, verdicts_text};
pub(crate) use wrap::wrapped;

/// What a text depends on beside its content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// Columns of the terminal; nothing where there is no terminal.
    pub(crate) width: Option<u16>,
    /// Whether colour is used.
    pub(crate) color: bool,
    /// Now, for ages.
    pub(crate) now_ms: u64,
}

/// `count` and the word for one, in the plural where it is not one.
pub(crate) fn counted(count: u64, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

#[cfg(test)]
pub(crate) const PLAIN: Style = Style { width: None, color: false, now_ms: 1_000_000_000 };
