//! A file that two read at once says what it says to one.

use ohm_manifest::{Dialect, Input, Tail, Verdicts, middle, parse_files, parse_inputs, parse_tail};

const JOB: &str = r#"{"apiVersion": "ohm/v1", "kind": "Job", "metadata": {"name": "NAME"}, "spec": {"count": 1}}"#;

/// A list of jobs with these names, and what stands around it.
fn list(names: &[&str]) -> String {
    let jobs: Vec<String> = names.iter().map(|name| JOB.replace("NAME", name)).collect();
    format!("{{\"apiVersion\": \"v1\", \"items\": [\n {}\n ], \"kind\": \"List\"}}\n{}", jobs.join(",\n "), JOB)
}

/// What is read, and whether the second half was read apart.
fn by_two(text: &str) -> (Verdicts, bool) {
    let bytes = text.as_bytes();
    let mut was_asked = false;
    let at = middle("f.json", bytes);
    let mut tail = || -> Option<Tail> {
        was_asked = true;
        parse_tail(Dialect::Ohm, "f.json", bytes, at?)
    };
    let tail = at.map(|at| (at, &mut tail as &mut dyn FnMut() -> Option<Tail>));
    let mut inputs = [Input { name: "f.json", bytes, tail }];
    (parse_inputs(Dialect::Ohm, &mut inputs).remove(0), was_asked)
}

fn check(text: &str, asked: bool) {
    let (found, was_asked) = by_two(text);
    assert_eq!(found, parse_files(Dialect::Ohm, &[("f.json", text.as_bytes())]).remove(0), "{text}");
    assert_eq!(was_asked, asked, "{text}");
}

#[test]
fn halves_are_put_together_in_order() {
    check(&list(&["a", "b", "c", "d", "e"]), true);
    check(&list(&["ä", "b\u{e9}", "c", "d"]).replace("\n ", " "), true);
}

#[test]
fn what_is_wrong_is_told_as_ever() {
    // The same name in both halves; a name that must not be; a job that is none; a list that does not end.
    check(&list(&["a", "b", "c", "a"]), true);
    check(&list(&["a", "b", "c", "D"]), true);
    check(&list(&["D", "b", "c", "e"]), true);
    check(&list(&["a", "b", "c", "d"]).replace("\"d\"}", "\"d\"]"), true);
    check(list(&["a", "b", "c", "d"]).split(" ],").next().unwrap(), true);
    check(&list(&["a", "b", "c", "d"]).replace("\"List\"", "\"Bag\""), true);
}

#[test]
fn a_cut_that_is_no_document_is_not_believed() {
    let nested = r#"{"apiVersion": "ohm/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"count": 1, "x":
        [{"apiVersion": 1}, {"apiVersion": 2}, {"apiVersion": 3}, {"apiVersion": 4}, {"apiVersion": 5}]}}"#;
    check(&format!("[{nested}]"), false);
    check("", false);
}
