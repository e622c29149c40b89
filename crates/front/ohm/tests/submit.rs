//! Ten thousand submissions, every tenth of them wrong: each wrong one is told where and why, the good ones are unharmed,
//! and the server never notices.

use crate::cell;

use cell::Cell;
use cell::http::Http;
use serde_json::Value;
use std::time::Duration;

const REQUESTS: usize = 10_000;
const CONNECTIONS: usize = 16;
/// One in so many requests is wrong.
const WRONG: usize = 10;
/// A job that exists before anything else, whose name others try to use.
const TAKEN: &str = "taken";
const PATIENCE: Duration = Duration::from_secs(120);

/// A kind of mistake: how a good document becomes bad, and what must be said about it.
struct Mistake {
    make: fn(&str) -> Vec<u8>,
    line: u64,
    field: &'static str,
    /// A part of the message.
    message: &'static str,
}

const MISTAKES: [Mistake; 6] = [
    Mistake {
        make: |good| good.replace("count:", "cuont:").into_bytes(),
        line: 6,
        field: "spec",
        message: "unknown field `cuont`; did you mean `count`",
    },
    Mistake {
        make: |good| good.replace("count: 1", "count: -1").into_bytes(),
        line: 6,
        field: "spec.count",
        message: "-1",
    },
    Mistake {
        make: |good| good.replace("16Mi", "16Qx").into_bytes(),
        line: 7,
        field: "spec.requests.memory",
        message: "16Qx",
    },
    Mistake { make: too_long, line: 1, field: "", message: "1048576" },
    Mistake { make: not_utf8, line: 8, field: "", message: "UTF-8" },
    Mistake { make: other_content, line: 1, field: "metadata.name", message: TAKEN },
];

fn document(name: &str) -> String {
    format!(
        "apiVersion: ohm/v1\nkind: Job\nmetadata:\n  name: {name}\nspec:\n  count: 1\n  requests: {{cpu: 10m, memory: \
         16Mi}}\n  command: [\"true\"]\n  sim: {{duration: 100ms}}\n"
    )
}

fn too_long(good: &str) -> Vec<u8> {
    format!("{good}  env: [{{name: LONG, value: {}}}]\n", "x".repeat(1 << 20)).into_bytes()
}

fn not_utf8(good: &str) -> Vec<u8> {
    let mut bytes = good.as_bytes().to_vec();
    let at = good.find("true").unwrap();
    bytes[at] = 0xff;
    bytes
}

fn other_content(good: &str) -> Vec<u8> {
    let name = good.lines().nth(3).unwrap();
    good.replace(name, &format!("  name: {TAKEN}")).replace("10m", "20m").into_bytes()
}

impl Mistake {
    /// The mistake of the `number`th request, if it is one of the wrong ones.
    fn of(number: usize) -> Option<&'static Mistake> {
        (number % WRONG == WRONG - 1).then(|| &MISTAKES[number / WRONG % MISTAKES.len()])
    }

    fn check(&self, verdict: &Value) {
        let problem = &verdict["problems"][0];
        let field = problem["field"].as_str().unwrap_or_default();
        let message = problem["message"].as_str().unwrap_or_default();
        assert_eq!(verdict["verdict"], "refused", "{verdict}");
        assert_eq!((problem["line"].as_u64(), field), (Some(self.line), self.field), "{verdict}");
        assert!(message.contains(self.message), "{verdict}");
    }
}

fn name(number: usize) -> String {
    format!("job-{number:05}")
}

/// Sends the requests of one connection.
fn send(http: &mut Http, numbers: impl Iterator<Item = usize>) {
    for number in numbers {
        let good = document(&name(number));
        match Mistake::of(number) {
            None => {
                let (status, answer) = http.submit(good.as_bytes());
                assert_eq!((status, &answer["accepted"]), (200, &Value::from(1)), "{answer}");
            }
            Some(mistake) => {
                let (status, answer) = http.submit(&(mistake.make)(&good));
                assert_eq!((status, &answer["accepted"]), (422, &Value::from(0)), "{answer}");
                mistake.check(&answer["verdicts"][0]);
            }
        }
    }
}

#[test]
fn of_ten_thousand_requests_the_wrong_ones_are_told_why_and_the_others_succeed() {
    let cell = Cell::start(&["--nodes", "0"]);
    let server = cell.child("server").unwrap();
    cell.submit_until_taken(&document(TAKEN));
    let started = std::time::Instant::now();
    std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let mut http = Http::connect(&cell);
            scope.spawn(move || send(&mut http, (connection..REQUESTS).step_by(CONNECTIONS)));
        }
    });
    println!("{REQUESTS} requests in {:?}", started.elapsed());
    assert_eq!(cell.child("server"), Some(server), "the server never restarted");
    let names = (0..REQUESTS).filter(|number| Mistake::of(*number).is_none()).map(name);
    let mut expected: Vec<String> = names.chain([TAKEN.to_string()]).collect();
    expected.sort();
    let known: Vec<String> = cell.states().into_iter().map(|(name, _)| name).collect();
    assert_eq!(known, expected, "every good job, and nothing else");
    let _agent = cell.sim_agent(200);
    cell.wait_until_all_succeeded(&expected, PATIENCE);
    println!("ended after {:?}", started.elapsed());
}

#[test]
fn the_command_line_names_file_line_and_field_and_ends_with_1() {
    let cell = Cell::start(&["--nodes", "0"]);
    cell.submit(&document(TAKEN));
    for (number, mistake) in MISTAKES.iter().enumerate() {
        let file = cell.put(&format!("wrong-{number}.yaml"), (mistake.make)(&document("x")));
        let said = cell.ask(&["submit", &file]);
        assert_eq!(said.code, 1, "{said:?}");
        let place = format!("{file}:{}:", mistake.line);
        let line = said.out.lines().find(|line| line.contains(&place));
        let line = line.unwrap_or_else(|| panic!("no line about {place} in {said:?}"));
        assert!(line.contains(mistake.field), "{line}");
        assert!(said.out.contains(mistake.message), "{said:?}");
    }
    assert_eq!(cell.states().len(), 1);
}

#[test]
fn every_document_of_a_file_gets_its_own_verdict() {
    let cell = Cell::start(&["--nodes", "0"]);
    cell.submit(&document(TAKEN));
    let mistakes = [&MISTAKES[0], &MISTAKES[1], &MISTAKES[2], &MISTAKES[5]];
    let mut text = document("first").into_bytes();
    for mistake in mistakes {
        text.extend(b"---\n");
        text.extend((mistake.make)(&document("wrong")));
    }
    text.extend(format!("---\n{}---\n{}", document("last"), document("last")).into_bytes());
    let file = cell.put("many.yaml", text);
    let said = cell.ask(&["submit", &file, "-o", "json"]);
    assert_eq!(said.code, 1, "{said:?}");
    let answer: Value = serde_json::from_str(&said.out).unwrap();
    let verdicts = answer["verdicts"].as_array().unwrap();
    let words: Vec<&str> = verdicts.iter().map(|verdict| verdict["verdict"].as_str().unwrap()).collect();
    let expected = ["accepted", "refused", "refused", "refused", "refused", "accepted", "refused"];
    assert_eq!(words, expected, "of two with one name the first one counts");
    let lines = document("x").lines().count() as u64 + 1;
    for (place, mistake) in mistakes.iter().enumerate() {
        let problem = &verdicts[place + 1]["problems"][0];
        assert_eq!(problem["line"], mistake.line + lines * (place as u64 + 1), "{problem}");
        assert_eq!(problem["field"].as_str().unwrap_or_default(), mistake.field);
    }
    let names: Vec<String> = cell.states().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["first", "last", TAKEN]);
    let good = cell.put("good.yaml", document("first"));
    assert_eq!(cell.ask(&["submit", &good]).code, 0, "unchanged is good");
}
