//! Whatever is in a file, it is answered: no input panics, hangs, or overflows the stack.

use ohm_manifest::{BROKEN_MAX, DEPTH_MAX, DOCUMENT_BYTES_MAX, DocumentError, ProblemKind, parse};
use ohm_stdx::Prng;
use std::fmt::Write;

const ROUNDS: usize = 4000;

/// Inputs of the text cases, with their file names.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let cases = [
        include_str!("cases/job.txt"),
        include_str!("cases/cell.txt"),
        include_str!("cases/flavors.txt"),
        include_str!("cases/kubernetes.txt"),
        include_str!("cases/preemption.txt"),
        include_str!("cases/queues.txt"),
        include_str!("cases/files.txt"),
    ];
    let cases = cases.iter().flat_map(|file| file.split("=== ").skip(1));
    cases
        .map(|case| {
            let (title, rest) = case.split_once('\n').unwrap();
            let input = rest.split_once("----\n").unwrap().0;
            (title.split(':').next().unwrap().to_string(), input.as_bytes().to_vec())
        })
        .collect()
}

fn mutate(dice: &mut Prng, bytes: &mut Vec<u8>, seeds: &[(String, Vec<u8>)]) {
    const PIECES: [&str; 20] = [
        "{",
        "}",
        "[",
        "]",
        "\"",
        "'",
        "\n",
        "\n---\n",
        "\n...\n",
        "- ",
        ": ",
        "\\u12",
        "&a ",
        "*a",
        "<<: ",
        "|\n",
        "null",
        "-1e999999",
        "\t",
        "\u{feff}",
    ];
    for _ in 0..dice.between(1, 4) {
        let at = dice.below(bytes.len() as u64 + 1) as usize;
        match dice.below(6) {
            0 if at < bytes.len() => bytes[at] = dice.below(256) as u8,
            1 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            2 => bytes.truncate(at),
            3 => {
                let end = (at + dice.below(40) as usize).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = dice.below(bytes.len() as u64 + 1) as usize;
                bytes.splice(to..to, copy);
            }
            4 => {
                let (_, other) = dice.pick(seeds).unwrap();
                let from = dice.below(other.len() as u64 + 1) as usize;
                let end = (from + dice.below(60) as usize).min(other.len());
                bytes.splice(at..at, other[from..end].iter().copied());
            }
            _ => {
                let piece = dice.pick(&PIECES).unwrap();
                bytes.splice(at..at, piece.bytes());
            }
        }
    }
}

#[test]
fn no_mutation_panics_and_errors_name_a_place() {
    let (mut dice, seeds) = (Prng::new(11), seeds());
    for round in 0..ROUNDS {
        let (name, mut bytes) = dice.pick(&seeds).unwrap().clone();
        mutate(&mut dice, &mut bytes, &seeds);
        let lines = bytes.iter().filter(|&&byte| byte == b'\n' || byte == b'\r').count() as u32 + 1;
        for error in parse(&name, &bytes).into_iter().filter_map(Result::err) {
            let shown = error.to_string();
            assert!(shown.starts_with(&format!("{name}:")), "round {round}: {shown}");
            for problem in &error.problems {
                let place = problem.position;
                assert!(place.line >= 1 && place.column >= 1 && place.line <= lines + 1, "round {round}: {shown}");
            }
        }
    }
}

/// The JSON reader is our own; it must call JSON what `serde_json` calls JSON.
#[test]
fn json_is_what_serde_json_says_it_is() {
    let (mut dice, mut seeds) = (Prng::new(12), seeds());
    seeds.retain(|(name, _)| name.ends_with(".json"));
    let (mut right, mut wrong) = (0, 0);
    for round in 0..ROUNDS {
        let (_, mut bytes) = dice.pick(&seeds).unwrap().clone();
        mutate(&mut dice, &mut bytes, &seeds);
        if bytes.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"---")) {
            // Such lines may stand between documents here, and nowhere there.
            continue;
        }
        let is_broken = |error: &DocumentError| {
            let broken = |kind: &ProblemKind| matches!(kind, ProblemKind::Syntax(_) | ProblemKind::Encoding(_));
            error.problems.iter().any(|problem| broken(&problem.kind))
        };
        let ours = !parse("a.json", &bytes).into_iter().filter_map(Result::err).any(|error| is_broken(&error));
        let body = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        let stream = serde_json::Deserializer::from_slice(body).into_iter::<serde_json::Value>();
        let mut theirs = true;
        for value in stream {
            match value {
                // Bare values are JSON, but no documents: ours stops there.
                Ok(value) if value.is_array() || value.is_object() => {}
                Ok(_) => theirs = false,
                // A number may be too large for a float and still be a number to us.
                Err(error) if error.to_string().contains("out of range") => theirs = ours,
                Err(_) => theirs = false,
            }
        }
        // Keys given twice end a document early here and are no matter there.
        let duplicate = parse("a.json", &bytes)
            .into_iter()
            .filter_map(Result::err)
            .any(|error| error.problems.iter().any(|problem| matches!(problem.kind, ProblemKind::Duplicate(_))));
        assert!(ours == theirs || duplicate, "round {round}: {}", String::from_utf8_lossy(&bytes));
        if ours { right += 1 } else { wrong += 1 }
    }
    assert!(right > 100 && wrong > 100, "both must be seen: {right} and {wrong}");
}

fn first_problem(name: &str, bytes: &[u8]) -> ProblemKind {
    parse(name, bytes).remove(0).unwrap_err().problems.remove(0).kind
}

#[test]
fn deep_nesting_is_refused_before_the_stack_ends() {
    let shapes = [("a.json", "[", "]"), ("a.json", "{\"a\":", "}"), ("a.yaml", "[", "]"), ("a.yaml", "{a: ", "}")];
    for (name, open, close) in shapes.into_iter().chain([("a.yaml", "- ", "")]) {
        // JSON allows one more level, for the list that holds the documents.
        let bytes = open.repeat(DEPTH_MAX + 2) + "1" + &close.repeat(DEPTH_MAX + 2);
        assert_eq!(first_problem(name, bytes.as_bytes()), ProblemKind::TooDeep, "{name} {open}");
        let far = open.repeat(DOCUMENT_BYTES_MAX / open.len() - 1);
        assert_eq!(first_problem(name, far.as_bytes()), ProblemKind::TooDeep, "{name} {open}");
    }
}

#[test]
fn the_bound_is_on_documents_not_on_files() {
    let mut list = String::from("{\"kind\": \"List\", \"items\": [");
    let mut pieces = String::new();
    let long = "x".repeat(DOCUMENT_BYTES_MAX / 3);
    for number in 0..5 {
        let name = if number == 2 { long.repeat(4) } else { format!("c{number}") };
        let comma = if number == 0 { "" } else { "," };
        let document =
            format!("{{\"apiVersion\": \"ohm/v1\", \"kind\": \"Cohort\", \"metadata\": {{\"name\": \"{name}\"}}}}");
        write!(list, "{comma}\n{document}{}", " ".repeat(DOCUMENT_BYTES_MAX / 2)).unwrap();
        write!(pieces, "---\n# {long}\n{document}\n").unwrap();
    }
    list.push_str("]}");
    for (name, text) in [("a.json", list), ("a.yaml", pieces)] {
        let verdicts = parse(name, text.as_bytes());
        let good: Vec<bool> = verdicts.iter().map(Result::is_ok).collect();
        assert_eq!(good, [true, true, false, true, true], "{name}");
        let problem = &verdicts[2].as_ref().unwrap_err().problems[0].kind;
        assert!(matches!(problem, ProblemKind::TooLarge { .. }), "{name}: {problem}");
    }
}

#[test]
fn bytes_that_are_no_utf8_harm_one_document() {
    let document = |name: &[u8]| {
        let parts: [&[u8]; 3] =
            [b"{\"apiVersion\": \"ohm/v1\", \"kind\": \"Cohort\", \"metadata\": {\"name\": \"", name, b"\"}}\n"];
        parts.concat()
    };
    for (name, separator) in [("a.json", b"".as_slice()), ("a.yaml", b"---\n")] {
        let bytes = [&document(b"a"), separator, &document(b"b\xff"), separator, &document(b"c")].concat();
        let verdicts = parse(name, &bytes);
        assert_eq!(verdicts.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true], "{name}");
        let error = verdicts[1].as_ref().unwrap_err().to_string();
        let line = if separator.is_empty() { 2 } else { 3 };
        assert_eq!(error, format!("{name}:{line}:67: there is a byte that is not UTF-8; save the file as UTF-8"));
    }
    assert!(matches!(first_problem("a.yaml", b"\xff\xfea\0"), ProblemKind::Encoding(_)));
    assert_eq!(parse("a.yaml", &[b"\xef\xbb\xbf", document(b"a").as_slice()].concat()).len(), 1);
}

#[test]
fn many_mistakes_stay_a_short_answer() {
    let mut text = String::from("apiVersion: ohm/v1\nkind: Job\nmetadata: {name: a}\nspec:\n");
    (0..20_000).for_each(|number| writeln!(text, "  unknown{number}: 1").unwrap());
    let error = parse("a.yaml", text.as_bytes()).remove(0).unwrap_err();
    assert_eq!((error.problems.len(), error.omitted), (20, 19_980));
    assert!(error.to_string().ends_with("a.yaml: and 19980 more problems in this document"));
}

#[test]
fn a_file_of_garbage_stays_a_bounded_answer() {
    for (name, line) in [("a.json", "{\"a\":\n"), ("a.json", "{}{\n"), ("a.yaml", "---\n[\n")] {
        let verdicts = parse(name, line.repeat(BROKEN_MAX + 500).as_bytes());
        assert_eq!(verdicts.len(), BROKEN_MAX + 1, "{name} {line}");
        let last = verdicts.last().unwrap().as_ref().unwrap_err().to_string();
        assert!(last.contains("more documents of this file are broken"), "{last}");
    }
}

/// Few values, but long ones: a document of 1 MB must not become gigabytes.
#[test]
fn aliases_of_a_long_text_are_refused_before_they_are_copied() {
    let mut text = format!("command: [\"/bin/true\", &a \"{}\"", "x".repeat(950_000));
    (0..9_990).for_each(|_| text.push_str(", *a"));
    text.push(']');
    let answers = parse("bomb.yaml", text.as_bytes());
    let refused = |answer: &Result<_, DocumentError>| match answer {
        Ok(_) => false,
        Err(error) => error.problems.iter().any(|problem| problem.kind == ProblemKind::TooManyAliases),
    };
    assert!(answers.len() == 1 && refused(&answers[0]), "{} answers", answers.len());
}
