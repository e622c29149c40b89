//! Values that fill fields.

use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The key of a map that may have any keys.
pub(crate) const ANY_KEY: &str = "*";

pub(super) fn value<T: Serialize>(sample: &T) -> Value {
    serde_json::to_value(sample).unwrap_or(Value::Null)
}

pub(super) fn text() -> String {
    "text".to_string()
}

pub(super) fn texts() -> BTreeMap<String, String> {
    [(ANY_KEY.to_string(), text())].into()
}
