//! Text for error messages: values shortened to what fits a line, and the nearest of some known words.

pub(crate) use ohm_stdx::text::shorten;

/// Longer words are not compared: no field of ours is that long, and the comparison is quadratic.
const COMPARED_BYTES_MAX: usize = 48;

/// Joins `words` as people do: `a`, `b` or `c`.
pub(crate) fn alternatives(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        Some((last, _)) => last.clone(),
        None => String::new(),
    }
}

/// The one of `known` that `word` is most likely a slip of: at most a third of it differs.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if word.len() > COMPARED_BYTES_MAX {
        return None;
    }
    let lower = word.to_ascii_lowercase();
    known
        .into_iter()
        .filter(|candidate| candidate.len() <= COMPARED_BYTES_MAX)
        .map(|candidate| (distance(lower.as_bytes(), candidate.to_ascii_lowercase().as_bytes()), candidate))
        .filter(|(distance, candidate)| *distance * 3 <= candidate.len().max(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many single edits (insert, remove, replace, swap of neighbours) lie between `a` and `b`.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let known = ["minCount", "count", "nodeSelector", "tolerations"];
        for (word, expected) in [
            ("mincount", Some("minCount")),
            ("cuont", Some("count")),
            ("node_selector", Some("nodeSelector")),
            ("toleration", Some("tolerations")),
            ("image", None),
            ("", None),
            (&"x".repeat(500), None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }

    #[test]
    fn words_are_joined_as_people_do() {
        assert_eq!(alternatives(&["a", "b", "c"]), "`a`, `b` or `c`");
    }
}
