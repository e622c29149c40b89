//! Texts from elsewhere on their way to a terminal: answers of servers as they are read, JSON and messages as they are
//! printed. What people are shown has every hidden character written out; programs get what the server sent.

use ohm_stdx::text::{is_hidden, visible};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;

/// Reads an answer as people are shown it.
pub(crate) fn read_visible<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    if !may_hide(bytes) {
        return serde_json::from_slice(bytes);
    }
    let mut value: Value = serde_json::from_slice(bytes)?;
    show(&mut value);
    T::deserialize(value)
}

/// Whether a text of the JSON may hold hidden characters: as escapes, or outside of ASCII.
fn may_hide(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| *byte == b'\\' || *byte >= 0x7f)
}

fn show(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(shown) = visible(text) {
                *text = shown;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(show),
        Value::Object(fields) => {
            if fields.keys().any(|name| name.contains(is_hidden)) {
                let before = std::mem::take(fields);
                fields.extend(before.into_iter().map(|(name, value)| (visible(&name).into_owned(), value)));
            }
            fields.values_mut().for_each(show);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A message of several lines, each without hidden characters.
pub(crate) fn visible_lines(text: &str) -> String {
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

/// JSON that means the same and shows every character: what JSON itself lets pass is escaped, too.
pub(crate) fn visible_json(json: &str) -> Cow<'_, str> {
    let is_odd = |character: char| character != '\n' && is_hidden(character);
    if !json.contains(is_odd) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 64);
    for character in json.chars() {
        if is_odd(character) {
            let mut units = [0; 2];
            shown.extend(character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_wire::api::{JobList, JobSummary};
    use std::collections::BTreeMap;

    const ODD: &str = "red \u{1b}[31m\nline \u{9b}2J \u{202e}txt\u{e0041} naïve";

    fn list() -> JobList {
        let labels = BTreeMap::from([(ODD.to_string(), ODD.to_string())]);
        let job = JobSummary { name: "a".into(), reason: ODD.into(), labels, ..JobSummary::default() };
        JobList { jobs: vec![job], ..JobList::default() }
    }

    #[test]
    fn people_see_every_character_of_an_answer() {
        let found: JobList = read_visible(&serde_json::to_vec(&list()).unwrap()).unwrap();
        let shown = "red \\u{1b}[31m\\nline \\u{9b}2J \\u{202e}txt\\u{e0041} naïve";
        assert_eq!(found.jobs[0].reason, shown);
        assert_eq!(found.jobs[0].labels, BTreeMap::from([(shown.to_string(), shown.to_string())]));
        assert_eq!(visible_lines("one\ntwo\x1b"), "one\ntwo\\u{1b}");
    }

    #[test]
    fn json_shows_every_character_and_yaml_no_control_character() {
        let json = serde_json::to_string_pretty(&list()).unwrap();
        let shown = visible_json(&json);
        assert!(!shown.replace('\n', "").contains(is_hidden), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), serde_json::from_str::<Value>(&json).unwrap());
        let yaml = serde_saphyr::to_string(&list()).unwrap();
        assert!(!yaml.replace('\n', "").contains(char::is_control), "{yaml:?}");
        let back: Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(back, serde_json::from_str::<Value>(&json).unwrap());
    }
}
