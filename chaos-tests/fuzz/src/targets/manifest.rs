//! Job files: YAML, JSON, objects of Kubernetes. The first byte says under which name and in which dialect they are
//! read.
//!
//! Besides that nothing panics: what is accepted is valid, a job that is written out reads back the same, and a file
//! that two read at once says what it says to one.

use ohm_manifest::{
    Content, Dialect, Document, Input, Tail, Verdicts, middle, parse, parse_files, parse_inputs, parse_tail, to_json,
    to_yaml, validate,
};

const NAMES: [&str; 4] = ["a.yaml", "a.json", "a", "a.yml"];
/// Documents of tests, examples and other projects' manuals.
const FILES: [&str; 6] = [
    include_str!("../../../../crates/base/manifest/tests/cases/job.txt"),
    include_str!("../../../../crates/base/manifest/tests/cases/cell.txt"),
    include_str!("../../../../crates/base/manifest/tests/cases/files.txt"),
    include_str!("../../../../crates/base/manifest/tests/cases/kubernetes.txt"),
    include_str!("../../../../crates/base/manifest/tests/cases/profiles.txt"),
    include_str!("../../../../crates/base/manifest/tests/cases/preemption.txt"),
];

pub(crate) fn run(input: &[u8]) {
    let Some((&choice, text)) = input.split_first() else { return };
    let name = NAMES[usize::from(choice & 3)];
    let dialect = match choice & 12 {
        0 | 8 => Dialect::Ohm,
        4 => Dialect::Kubernetes,
        _ => Dialect::KubernetesInFull,
    };
    let verdicts = parse_files(dialect, &[(name, text)]).remove(0);
    assert_eq!(verdicts, by_two(dialect, name, text), "read by two it says something else");
    for verdict in verdicts {
        match verdict {
            Ok(document) if dialect == Dialect::Ohm => check(&document),
            Ok(_) => {}
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// The file, its second half read apart where that is possible.
fn by_two(dialect: Dialect, name: &str, bytes: &[u8]) -> Verdicts {
    let at = middle(name, bytes);
    let mut tail = || -> Option<Tail> { parse_tail(dialect, name, bytes, at?) };
    let tail = at.map(|at| (at, &mut tail as &mut dyn FnMut() -> Option<Tail>));
    parse_inputs(dialect, &mut [Input { name, bytes, tail }]).remove(0)
}

fn check(document: &Document) {
    let (Content::Job(job), None) = (&document.content, &document.left_open) else { return };
    assert_eq!(validate::job(job), vec![], "what was accepted is not valid");
    for (name, text) in [("job.json", to_json(job)), ("job.yaml", to_yaml(job))] {
        let text = text.expect("an accepted job can be written");
        let mut verdicts = parse(name, text.as_bytes());
        assert_eq!(verdicts.len(), 1, "{text}");
        match verdicts.remove(0).map(|document| document.content) {
            Ok(Content::Job(read)) => assert_eq!(read, *job, "{text}"),
            other => panic!("{other:?}: {text}"),
        }
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let cases = FILES.iter().flat_map(|file| file.split("=== ").skip(1));
    let inputs = cases.filter_map(|case| {
        let (title, rest) = case.split_once('\n')?;
        let choice = u8::from(title.split(':').next()?.ends_with(".json"));
        Some([&[choice], rest.split_once("----\n")?.0.as_bytes()].concat())
    });
    inputs.collect()
}
