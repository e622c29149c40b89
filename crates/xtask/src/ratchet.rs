//! Exceptions that may shrink but not grow: long files, long functions, types with many methods or over many files,
//! files that import each other in a circle, `unwrap()` in what is shipped.
//!
//! The limits hold for all new code. What broke them is listed in `crates/xtask/ratchet.txt` with its size, one line
//! each; a new line or a larger figure fails the check, a smaller one asks for the list to be rewritten. A type needs a
//! reason, after ` # `; rewriting keeps it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::circles::circles;
use crate::functions::functions;
use crate::source::SourceFile;
use crate::types::{methods, names_defined_twice};

/// The longest file without an exception, in lines.
const FILE_LINES_MAX: usize = 500;
/// The longest function without an exception, in lines.
const FUNCTION_LINES_MAX: usize = 70;
/// The most methods of one type without an exception.
const TYPE_METHODS_MAX: usize = 40;
/// The most files that hold methods of one type without an exception.
const TYPE_FILES_MAX: usize = 4;
/// Where the exceptions are listed.
const LIST: &str = "crates/xtask/ratchet.txt";

const HEADER: &str = "\
# What is over a limit of `cargo xtask check`, and by how much. Figures may fall, never rise.
# Rewrite with `cargo xtask ratchet`.
";

/// What is over a limit: (rule and subject) to its figure.
pub(crate) type Exceptions = BTreeMap<String, usize>;

/// The exceptions as they are listed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct List {
    /// The figure of each.
    pub(crate) figures: Exceptions,
    /// Why, where somebody has said it.
    pub(crate) reasons: BTreeMap<String, String>,
}

/// What a comparison brought to light.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// New or grown exceptions.
    pub(crate) failures: Vec<String>,
    /// Exceptions that shrank or went away.
    pub(crate) improvements: Vec<String>,
}

/// Measures every file.
pub(crate) fn measure(files: &[SourceFile]) -> Exceptions {
    let mut exceptions = Exceptions::new();
    for file in files.iter().filter(|file| !file.generated) {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            exceptions.insert(format!("file-lines {}", file.path), lines);
        }
        for function in functions(&file.tokens) {
            if function.lines > FUNCTION_LINES_MAX {
                let subject = free_name(&exceptions, &format!("function-lines {}::{}", file.path, function.name));
                exceptions.insert(subject, function.lines);
            }
        }
        let unwraps = count_unwraps(file);
        if unwraps > 0 {
            *exceptions.entry(format!("unwraps {}", file.package)).or_default() += unwraps;
        }
    }
    for ((package, name), methods) in methods(files) {
        if methods.count > TYPE_METHODS_MAX {
            exceptions.insert(format!("type-methods {package}::{name}"), methods.count);
        }
        if methods.files.len() > TYPE_FILES_MAX {
            exceptions.insert(format!("type-files {package}::{name}"), methods.files.len());
        }
    }
    for ((layer, name), count) in names_defined_twice(files) {
        exceptions.insert(format!("public-name {name} in layer {layer}"), count);
    }
    for circle in circles(files) {
        *exceptions.entry(format!("circle-files {}", circle.package)).or_default() += circle.files.len();
    }
    exceptions
}

/// The name itself, or with a number if an equally named function of the file has taken it.
fn free_name(taken: &Exceptions, name: &str) -> String {
    let numbered = (2..).map(|number| format!("{name}#{number}"));
    let mut candidates = std::iter::once(name.to_owned()).chain(numbered);
    candidates.find(|candidate| !taken.contains_key(candidate)).unwrap_or_default()
}

/// How often shipped code calls `unwrap()`.
fn count_unwraps(file: &SourceFile) -> usize {
    let tokens: Vec<_> = file.shipped().collect();
    let is_call = |window: &&[&crate::tokens::Token]| {
        (window[0].is(".") || window[0].is("::")) && window[1].is("unwrap") && (window[2].is("(") || window[2].is(")"))
    };
    tokens.windows(3).filter(is_call).count()
}

/// Compares what was measured with what is listed.
pub(crate) fn compare(measured: &Exceptions, list: &List) -> Comparison {
    let listed = &list.figures;
    let mut comparison = Comparison::default();
    for (subject, now) in measured {
        match listed.get(subject) {
            None => comparison.failures.push(format!("{subject}: {now}, over the limit and not in {LIST}")),
            Some(before) if now > before => comparison.failures.push(format!("{subject}: grew from {before} to {now}")),
            Some(before) if now < before => comparison.improvements.push(format!("{subject}: {before} to {now}")),
            Some(_) => {}
        }
    }
    let gone = listed.keys().filter(|subject| !measured.contains_key(*subject));
    comparison.improvements.extend(gone.map(|subject| format!("{subject}: within the limit now")));
    let unexplained =
        listed.keys().filter(|subject| subject.starts_with("type-") && !list.reasons.contains_key(*subject));
    comparison.failures.extend(unexplained.map(|subject| format!("{subject}: say why in {LIST}, after ` # `")));
    comparison
}

/// Reads the list.
pub(crate) fn read(root: &Path) -> Result<List> {
    parse(&fs::read_to_string(root.join(LIST)).with_context(|| format!("cannot read {LIST}"))?)
}

/// Writes the list.
pub(crate) fn write(root: &Path, exceptions: &Exceptions, reasons: &BTreeMap<String, String>) -> Result<()> {
    fs::write(root.join(LIST), render(exceptions, reasons)).with_context(|| format!("cannot write {LIST}"))
}

fn parse(text: &str) -> Result<List> {
    let mut list = List::default();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (line, reason) = line.split_once(" # ").map_or((line, None), |(line, reason)| (line, Some(reason)));
        let figure = line.rsplit_once(' ').and_then(|(subject, figure)| Some((subject, figure.parse().ok()?)));
        let Some((subject, figure)) = figure else { bail!("{LIST}: `{line}` is not `RULE SUBJECT FIGURE`") };
        list.figures.insert(subject.to_owned(), figure);
        list.reasons.extend(reason.map(|reason| (subject.to_owned(), reason.to_owned())));
    }
    Ok(list)
}

fn render(exceptions: &Exceptions, reasons: &BTreeMap<String, String>) -> String {
    exceptions.iter().fold(HEADER.to_owned(), |mut text, (subject, figure)| {
        let reason = reasons.get(subject).map_or_else(String::new, |reason| format!(" # {reason}"));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{subject} {figure}{reason}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Part;

    fn measured(text: &str) -> Exceptions {
        measure(&[SourceFile::new("a/src/lib.rs", "a", Part::Library, text)])
    }

    fn exceptions(entries: &[(&str, usize)]) -> Exceptions {
        entries.iter().map(|(subject, figure)| ((*subject).to_owned(), *figure)).collect()
    }

    #[test]
    fn long_files_and_functions_are_measured() {
        assert_eq!(measured(&"//\n".repeat(500)), Exceptions::new());
        assert_eq!(measured(&"//\n".repeat(501)), exceptions(&[("file-lines a/src/lib.rs", 501)]));
        let function = |lines: usize| format!("fn f() {{\n{}}}\n", "//\n".repeat(lines - 2));
        assert_eq!(measured(&function(70)), Exceptions::new());
        let twice = function(71) + &function(72);
        let expected = [("function-lines a/src/lib.rs::f", 71), ("function-lines a/src/lib.rs::f#2", 72)];
        assert_eq!(measured(&twice), exceptions(&expected));
    }

    #[test]
    fn unwraps_are_counted_outside_tests() {
        let text = "fn a() { b.unwrap(); c.map(Option::unwrap); d.unwrap_or(1) } #[test] fn t() { b.unwrap() }";
        assert_eq!(measured(text), exceptions(&[("unwraps a", 2)]));
    }

    #[test]
    fn growth_and_new_exceptions_fail_and_shrinking_is_told() {
        let listed = exceptions(&[("a", 10), ("b", 10), ("c", 10), ("d", 10)]);
        let now = exceptions(&[("a", 11), ("b", 9), ("c", 10), ("e", 1)]);
        let list = List { figures: listed, ..List::default() };
        let comparison = compare(&now, &list);
        assert_eq!(comparison.failures.len(), 2, "a grew, e is new");
        assert_eq!(comparison.improvements.len(), 2, "b shrank, d is gone");
        assert_eq!(compare(&list.figures, &list), Comparison::default());
    }

    #[test]
    fn files_in_circles_are_counted_for_each_crate() {
        let files = [("lib", "mod a; mod b;"), ("a", "use crate::b::B;"), ("b", "use crate::a::A; pub struct B;")]
            .map(|(name, text)| SourceFile::new(&format!("x/src/{name}.rs"), "x", Part::Library, text));
        assert_eq!(measure(&files), exceptions(&[("circle-files x", 2)]));
    }

    #[test]
    fn types_with_many_methods_or_files_need_a_reason() {
        let many: String = (0..41).map(|number| format!("fn f{number}() {{}} ")).collect();
        assert_eq!(measured(&format!("impl A {{ {many} }}")), exceptions(&[("type-methods a::A", 41)]));
        let files: Vec<SourceFile> = (0..5)
            .map(|file| SourceFile::new(&format!("a/src/{file}.rs"), "a", Part::Library, "impl A { fn f() {} }"))
            .collect();
        let spread = measure(&files);
        assert_eq!(spread, exceptions(&[("type-files a::A", 5)]));
        assert_eq!(compare(&spread, &parse("type-files a::A 5").unwrap()).failures.len(), 1, "no reason");
        assert!(compare(&spread, &parse("type-files a::A 5 # it is cut next").unwrap()).failures.is_empty());
    }

    #[test]
    fn the_list_reads_back_as_written() {
        let entries = exceptions(&[("file-lines a/src/lib.rs", 501), ("unwraps a", 2)]);
        let reasons = BTreeMap::from([("unwraps a".to_owned(), "they can't fail".to_owned())]);
        let list = parse(&render(&entries, &reasons)).unwrap();
        assert_eq!(list, List { figures: entries, reasons });
        assert!(parse("file-lines many").is_err());
    }
}
