//! Documents one by one are those of the whole file, and no more are read than are wanted.

use ohm_manifest::{Verdicts, parse, parse_each};

fn job(name: &str) -> String {
    format!(r#"{{"apiVersion": "ohm/v1", "kind": "Job", "metadata": {{"name": "{name}"}}, "spec": {{"count": 1}}}}"#)
}

/// The first `count` answers, one by one.
fn some(name: &str, text: &str, count: usize) -> Verdicts {
    let mut found = Vec::new();
    parse_each(name, text.as_bytes(), &mut |verdict| {
        found.push(verdict);
        found.len() < count
    });
    found
}

#[test]
fn one_by_one_is_the_same_and_ends_when_asked() {
    let (a, b, c) = (job("a"), job("b"), job("a"));
    for (name, text, count) in [
        ("f.yaml", format!("{a}\n---\n{b}\n---\nkind: [\n---\n{c}\n"), 4),
        ("f.yaml", format!("kind: List\nitems: [{a}, {b}]\n---\n{c}\n"), 3),
        ("f.json", format!("[{a}, {b}, {c}]"), 3),
        ("f.json", format!("{a}\n{b}\n---\n[{c}] ]"), 4),
        ("f.json", format!(r#"{{"kind": "List", "items": [{a}, {b}]}} {c}"#), 3),
        ("f.json", String::new(), 1),
    ] {
        let whole = parse(name, text.as_bytes());
        assert_eq!(whole.len(), count, "{text}");
        for wanted in 1..=count {
            assert_eq!(some(name, &text, wanted), whole[..wanted], "{text}");
        }
        assert_eq!(some(name, &text, usize::MAX), whole, "{text}");
    }
}
