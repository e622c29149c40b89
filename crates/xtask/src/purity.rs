//! What no core may name: clocks, sockets, disks, threads, async, floats, unordered maps, hidden dice.
//!
//! The rules look at the tokens of what is shipped: comments, strings and test code are free. They are stricter than
//! the language needs (any `Instant` is refused, not only the standard one), which is what makes them hard to get
//! around by renaming.

use crate::layers::{Nature, find};
use crate::source::SourceFile;
use crate::tokens::{Kind, Token};

/// The mark, with a reason after it, that lets a line name an unordered map.
const UNORDERED_MARK: &str = "// unordered: ";

const UNORDERED: &str =
    "its order differs from run to run: use a BTreeMap, or say `// unordered: <reason>` on the line";
const CLOCK: &str = "a core reads no clock: time comes in as an argument";
const FLOAT: &str = "floats round differently from one plan to the next: use integers with a unit";
const ASYNC: &str = "a core never waits: it returns effects and is stepped again";
const DICE: &str = "hidden randomness: draw from the seeded generator that is passed in";
const SHELL: &str = "only a shell touches the world";

/// Words no core may hold, and why.
const WORDS: &[(&str, &str)] = &[
    ("tokio", ASYNC),
    ("async", ASYNC),
    ("await", ASYNC),
    ("dashmap", UNORDERED),
    ("DashMap", UNORDERED),
    ("HashMap", UNORDERED),
    ("HashSet", UNORDERED),
    ("hash_map", UNORDERED),
    ("hash_set", UNORDERED),
    ("RandomState", DICE),
    ("DefaultHasher", DICE),
    ("Instant", CLOCK),
    ("SystemTime", CLOCK),
    ("UNIX_EPOCH", CLOCK),
    ("f16", FLOAT),
    ("f32", FLOAT),
    ("f64", FLOAT),
    ("f128", FLOAT),
    ("thread_rng", DICE),
    ("ThreadRng", DICE),
    ("OsRng", DICE),
    ("SysRng", DICE),
    ("from_os_rng", DICE),
    ("from_entropy", DICE),
    ("getrandom", DICE),
];

/// Paths no core may name or go below, and why.
const PATHS: &[(&[&str], &str)] = &[
    (&["std", "thread"], SHELL),
    (&["std", "net"], SHELL),
    (&["std", "fs"], SHELL),
    (&["std", "process"], SHELL),
    (&["std", "env"], SHELL),
    (&["std", "os"], SHELL),
    (&["std", "*"], "a glob over the whole library hides what is named"),
    (&["std", "self"], "renaming the whole library hides what is named"),
    (&["rand", "rng"], DICE),
    (&["rand", "rngs", "StdRng"], "its stream is not stable across versions: use the generator of ohm-stdx"),
    (&["rand", "random"], DICE),
    (&["rand", "prelude"], DICE),
    (&["rand", "*"], DICE),
];

/// Folders of shells that are cores all the same.
const PURE_FOLDERS: &[&str] = &["cluster-state/log-etcd/src/core/"];

/// One file that may break one rule.
pub(crate) struct Allowance {
    /// The file.
    path: &'static str,
    /// What it may name: a word of the word list, or a path joined by `::`.
    name: &'static str,
    /// Why the core stays one.
    reason: &'static str,
}

/// Files of pure crates that may name what others may not.
pub(crate) const ALLOWANCES: &[Allowance] = &[Allowance {
    path: "cluster-state/log-raft/src/file_disk.rs",
    name: "std::fs",
    reason: "the real disk behind the disk seam; the core takes any disk, and the simulator gives it another one",
}];

/// Every forbidden name in the shipped code of pure crates.
pub(crate) fn findings(files: &[SourceFile], allowances: &[Allowance]) -> Vec<String> {
    let is_pure = |file: &&SourceFile| {
        find(&file.package).is_some_and(|(_, place)| place.nature == Nature::Pure)
            || PURE_FOLDERS.iter().any(|folder| file.path.starts_with(folder))
    };
    files.iter().filter(is_pure).flat_map(|file| file_findings(file, allowances)).collect()
}

fn file_findings(file: &SourceFile, allowances: &[Allowance]) -> Vec<String> {
    let tokens: Vec<&Token> = file.shipped().collect();
    let mut found: Vec<(usize, String, &str)> = Vec::new();
    for token in &tokens {
        if let Some(why) = judge_token(token)
            && !(why == UNORDERED && is_marked(file.line(token.line)))
        {
            found.push((token.line, token.text.clone(), why));
        }
    }
    for path in paths(&tokens) {
        let rule = PATHS.iter().find(|(prefix, _)| path.segments.starts_with(prefix));
        found.extend(rule.map(|(prefix, why)| (path.line, prefix.join("::"), *why)));
    }
    found.retain(|(_, name, _)| {
        let fits = |entry: &Allowance| entry.path == file.path && entry.name == name && !entry.reason.is_empty();
        !allowances.iter().any(fits)
    });
    found.sort();
    found.into_iter().map(|(line, name, why)| format!("{}:{line}: `{name}`: {why}", file.path)).collect()
}

/// Why a token by itself is refused, if it is.
fn judge_token(token: &Token) -> Option<&'static str> {
    match token.kind {
        Kind::Float => Some(FLOAT),
        Kind::Word => WORDS.iter().find(|(word, _)| *word == token.text).map(|(_, why)| *why),
        _ => None,
    }
}

/// Whether the line carries the mark and a reason.
fn is_marked(line: &str) -> bool {
    line.split_once(UNORDERED_MARK).is_some_and(|(_, reason)| !reason.trim().is_empty())
}

/// A path of two or more segments, written out or spread over the braces of a `use`.
struct Path<'text> {
    segments: Vec<&'text str>,
    line: usize,
}

/// Every path in the tokens, those of `use` items flattened.
fn paths<'text>(tokens: &[&'text Token]) -> Vec<Path<'text>> {
    let mut found = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        let token = tokens[index];
        let precise_capture = tokens.get(index + 1).is_some_and(|next| next.is("<"));
        if token.is("use") && !precise_capture {
            index = use_tree(tokens, index + 1, &[], &mut found);
        } else if token.kind == Kind::Word {
            index = plain_path(tokens, index, &mut found);
        } else {
            index += 1;
        }
    }
    found
}

/// Reads `a::b::c` and returns the index after it.
fn plain_path<'text>(tokens: &[&'text Token], start: usize, found: &mut Vec<Path<'text>>) -> usize {
    let mut segments = vec![tokens[start].text.as_str()];
    let mut index = start + 1;
    while let [colons, segment, ..] = tokens.get(index..).unwrap_or_default()
        && colons.is("::")
        && segment.kind == Kind::Word
    {
        segments.push(&segment.text);
        index += 2;
    }
    if segments.len() > 1 {
        found.push(Path { segments, line: tokens[start].line });
    }
    index
}

/// Reads one branch of a `use` and returns the index after it.
fn use_tree<'text>(
    tokens: &[&'text Token],
    start: usize,
    prefix: &[&'text str],
    found: &mut Vec<Path<'text>>,
) -> usize {
    let mut segments = prefix.to_vec();
    let mut index = start;
    while let Some(token) = tokens.get(index) {
        if token.is("::") {
            index += 1;
        } else if token.is("{") {
            index += 1;
            while tokens.get(index).is_some_and(|token| !token.is("}")) {
                index = use_tree(tokens, index, &segments, found);
                index += usize::from(tokens.get(index).is_some_and(|token| token.is(",")));
            }
            return index + 1;
        } else if token.kind == Kind::Word || token.is("*") {
            segments.push(&token.text);
            index += 1;
            if !tokens.get(index).is_some_and(|next| next.is("::")) {
                let renamed = tokens.get(index).is_some_and(|next| next.is("as"));
                let whole = segments.len() == 1;
                segments.extend((renamed && whole).then_some("self"));
                found.push(Path { segments, line: token.line });
                return if renamed { index + 2 } else { index };
            }
        } else {
            // Nothing that can stand in a `use`: pass it, so that the caller moves on.
            return index + 1;
        }
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Part;

    fn check(text: &str) -> Vec<String> {
        let file = SourceFile::new("cluster-state/cell/src/a.rs", "ohm-cell", Part::Library, text);
        findings(&[file], &[])
    }

    #[test]
    fn every_listed_word_and_path_is_refused() {
        for (word, _) in WORDS {
            assert_eq!(check(&format!("fn a() {{ let x = {word}; }}")).len(), 1, "{word}");
        }
        for (path, _) in PATHS {
            assert_eq!(check(&format!("use {};", path.join("::"))).len(), 1, "{path:?}");
        }
        assert_eq!(check("const HALF: u64 = (7 as Ratio) * 0.5;").len(), 1);
    }

    #[test]
    fn paths_are_found_in_braces_in_line_and_when_renamed() {
        for text in [
            "use std::{io, thread};",
            "use {std::{sync::{Arc}, fs::File as F}, x};",
            "use ::std::net::TcpStream;",
            "fn a() { ::std::process::exit(1) }",
            "fn a() { std::env::var(\"x\"); }",
            "use std as s;",
            "use std::{self as s};",
            "use rand::{Rng, rng};",
            "use std::fs::{read, write as w};",
        ] {
            assert!(!check(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn what_only_looks_alike_is_free() {
        for text in [
            "use std::{collections::BTreeMap, sync::Arc};",
            "fn a() -> u64 { let thread = 1..2; thread.start }",
            "const NAME: &str = env!(\"CARGO_PKG_NAME\");",
            "// HashMap and std::fs and 0.5\nfn a() {}",
            "const A: &str = \"std::fs HashMap 1.5\";",
            "#[cfg(test)] mod tests { use std::collections::HashMap; }",
            "fn a<'b>(x: &'b str) -> impl Fn() + use<'b> { pair.0.1 }",
        ] {
            assert_eq!(check(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn an_unordered_map_needs_a_reason_on_its_line() {
        assert_eq!(check("use std::collections::HashMap; // unordered: looked up by key, never walked").len(), 0);
        assert_eq!(check("use std::collections::HashMap; // unordered: ").len(), 1);
        assert_eq!(check("// unordered: on another line\nuse std::collections::HashMap;").len(), 1);
        assert_eq!(check("use std::time::Instant; // unordered: no excuse for a clock").len(), 1);
    }

    #[test]
    fn an_allowance_covers_one_name_in_one_file() {
        let file = |path| SourceFile::new(path, "ohm-cell", Part::Library, "use std::fs; use std::net;");
        let files = [file("cluster-state/cell/src/a.rs"), file("cluster-state/cell/src/b.rs")];
        let entry = |reason| [Allowance { path: "cluster-state/cell/src/a.rs", name: "std::fs", reason }];
        assert_eq!(findings(&files, &[]).len(), 4);
        assert_eq!(findings(&files, &entry("a reason")).len(), 3);
        assert_eq!(findings(&files, &entry("")).len(), 4);
    }

    #[test]
    fn shells_are_free_and_a_mark_frees_no_core() {
        let check = |path, package, text| findings(&[SourceFile::new(path, package, Part::Library, text)], &[]).len();
        assert_eq!(check("crates/roles/node/src/a.rs", "ohm-node", "use std::fs;"), 0);
        assert_eq!(check("crates/base/wire/src/a.rs", "ohm-wire", "use std::fs;"), 0);
        assert_eq!(check("chaos-tests/sim/src/a.rs", "ohm-sim", "// @generated\nuse std::fs;"), 1);
    }
}
