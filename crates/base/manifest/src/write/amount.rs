//! Numbers as people write them.

use serde::Serialize;

/// A number where it is whole, else a text.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Amount {
    Whole(u64),
    Text(String),
}

impl From<String> for Amount {
    fn from(text: String) -> Self {
        text.parse().map_or(Amount::Text(text), Amount::Whole)
    }
}

/// A length of time in seconds.
pub(super) fn seconds(ms: u64) -> Amount {
    match ms % 1000 {
        0 => Amount::Whole(ms / 1000),
        rest => Amount::Text(format!("{}.{rest:03}", ms / 1000).trim_end_matches('0').to_string()),
    }
}
