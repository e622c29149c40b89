//! The Rust files of the workspace, each with its tokens and with its test code marked.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::layers::{Nature, find};
use crate::tokens::{Kind, Token, tokenise};
use crate::workspace::Member;

/// Which part of a crate a file belongs to, by its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// `src/`: what is shipped.
    Library,
    /// `tests/`, `benches/`, `examples/` and build scripts: what surrounds it.
    Around,
}

/// One Rust file.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// Its path from the root of the workspace, with forward slashes.
    pub(crate) path: String,
    /// The package it belongs to.
    pub(crate) package: String,
    /// Its part of the package.
    pub(crate) part: Part,
    /// Its text.
    pub(crate) text: String,
    /// Its tokens, comments left out.
    pub(crate) tokens: Vec<Token>,
    /// For each token, whether it is compiled for tests only.
    pub(crate) is_test: Vec<bool>,
    /// Whether a program wrote the file; such files follow their own style. Only the message crate may hold them.
    pub(crate) generated: bool,
}

impl SourceFile {
    /// Cuts one file into tokens and marks its test code.
    pub(crate) fn new(path: &str, package: &str, part: Part, text: &str) -> Self {
        let tokens = tokenise(text);
        let is_test = mark_tests(&tokens);
        let marked = text.lines().take(5).any(|line| line.starts_with("//") && line.contains("@generated"));
        let holds_generated = find(package).is_some_and(|(_, place)| place.nature == Nature::PureGenerated);
        let generated = marked && holds_generated;
        Self { path: path.into(), package: package.into(), part, text: text.into(), tokens, is_test, generated }
    }

    /// The tokens that are shipped: all of them in the library, less those compiled for tests only.
    pub(crate) fn shipped(&self) -> impl Iterator<Item = &Token> {
        let library = self.part == Part::Library;
        self.tokens.iter().zip(&self.is_test).filter(move |(_, test)| library && !**test).map(|(token, _)| token)
    }

    /// The text of a line, counted from 1, comments included.
    pub(crate) fn line(&self, number: usize) -> &str {
        self.text.lines().nth(number.saturating_sub(1)).unwrap_or_default()
    }

    /// Where the files of this file's child modules live.
    fn module_folder(&self) -> String {
        let (folder, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        match name {
            "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
            _ => format!("{folder}/{}", name.trim_end_matches(".rs")),
        }
    }

    /// The paths, without extension, of child modules that are declared for tests only.
    fn test_modules(&self) -> Vec<String> {
        let folder = self.module_folder();
        let declares = |window: &[Token]| window[0].is("mod") && window[1].kind == Kind::Word && window[2].is(";");
        let marked = self.tokens.windows(3).zip(&self.is_test).filter(|(window, test)| **test && declares(window));
        marked.map(|(window, _)| format!("{folder}/{}", window[1].text)).collect()
    }
}

/// Reads every Rust file of the given members.
pub(crate) fn load(root: &Path, members: &[Member]) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    for member in members {
        collect(root, member, &member.folder, &mut files)?;
    }
    files.sort_by(|left, right| left.path.cmp(&right.path));
    mark_test_files(&mut files);
    Ok(files)
}

/// Adds the files of one folder and of those below it.
fn collect(root: &Path, member: &Member, folder: &str, files: &mut Vec<SourceFile>) -> Result<()> {
    let entries = fs::read_dir(root.join(folder)).with_context(|| format!("cannot list {folder}"))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{folder}/{name}");
        if entry.file_type()?.is_dir() {
            if name != "target" && !name.starts_with('.') {
                collect(root, member, &path, files)?;
            }
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(entry.path()).with_context(|| format!("cannot read {path}"))?;
            let library = path.starts_with(&format!("{}/src/", member.folder));
            let part = if library { Part::Library } else { Part::Around };
            files.push(SourceFile::new(&path, &member.name, part, &text));
        }
    }
    Ok(())
}

/// Marks whole files that a `#[cfg(test)] mod name;` declares, and the files below them.
fn mark_test_files(files: &mut [SourceFile]) {
    let modules: Vec<String> = files.iter().flat_map(SourceFile::test_modules).collect();
    for file in files {
        let belongs = |module: &String| {
            let rest = file.path.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        if modules.iter().any(belongs) {
            file.is_test.fill(true);
        }
    }
}

/// For each token, whether a test attribute covers it.
fn mark_tests(tokens: &[Token]) -> Vec<bool> {
    let mut marks = vec![false; tokens.len()];
    let mut index = 0;
    while index < tokens.len() {
        let inner = tokens.get(index + 1).is_some_and(|token| token.is("!"));
        let open = index + 1 + usize::from(inner);
        if !(tokens[index].is("#") && tokens.get(open).is_some_and(|token| token.is("["))) {
            index += 1;
            continue;
        }
        let after = closing(tokens, open) + 1;
        let attribute = tokens.get(open + 1..after - 1).unwrap_or_default();
        if !is_test_attribute(attribute) {
            index = after;
        } else if inner {
            marks.fill(true);
            return marks;
        } else {
            let end = item_end(tokens, after);
            marks[index..end].fill(true);
            index = end;
        }
    }
    marks
}

/// Whether an attribute makes its item part of the tests: `test`, `some::test`, `cfg(test)` or `cfg(all(test, …))`.
fn is_test_attribute(attribute: &[Token]) -> bool {
    let starts = |pattern: &[&str]| {
        attribute.len() >= pattern.len() && pattern.iter().zip(attribute).all(|(text, token)| token.is(text))
    };
    if starts(&["cfg"]) {
        return starts(&["cfg", "(", "test", ")"]) || starts(&["cfg", "(", "all", "(", "test"]);
    }
    let path_end = attribute.iter().position(|token| token.is("(")).unwrap_or(attribute.len());
    attribute[..path_end].last().is_some_and(|last| last.is("test"))
}

/// The index of the bracket that closes the one at `open`, or the last index of the text.
pub(crate) fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "(" | "[" | "{" if token.kind == Kind::Symbol => depth += 1,
            ")" | "]" | "}" if token.kind == Kind::Symbol => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return index;
        }
    }
    tokens.len().saturating_sub(1)
}

/// Words an item can start with; anything else after an attribute is a field, a variant or an expression.
const ITEM_WORDS: [&str; 16] = [
    "async", "const", "enum", "extern", "fn", "impl", "let", "mod", "pub", "static", "struct", "trait", "type",
    "union", "unsafe", "use",
];

/// The index after the item that starts at `start`: after its `;`, its block, or, for a field, its comma.
fn item_end(tokens: &[Token], start: usize) -> usize {
    let mut index = start;
    while tokens.get(index).is_some_and(|token| token.is("#")) {
        index = closing(tokens, index + 1) + 1;
    }
    let is_item = tokens.get(index).is_some_and(|token| ITEM_WORDS.iter().any(|word| token.is(word)));
    while let Some(token) = tokens.get(index) {
        if token.is("{") {
            return closing(tokens, index) + 1;
        } else if token.is("(") || token.is("[") {
            index = closing(tokens, index);
        } else if token.is(";") || (!is_item && token.is(",")) {
            return index + 1;
        } else if token.is("}") {
            return index;
        }
        index += 1;
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped_words(text: &str) -> Vec<String> {
        let file = SourceFile::new("a/src/lib.rs", "a", Part::Library, text);
        file.shipped().filter(|token| token.kind == Kind::Word).map(|token| token.text.clone()).collect()
    }

    #[test]
    fn test_items_are_left_out_and_what_follows_is_not() {
        assert_eq!(shipped_words("fn a() {} #[cfg(test)] mod tests { fn b() {} } fn c() {}"), ["fn", "a", "fn", "c"]);
        assert_eq!(shipped_words("#[test] #[ignore] fn a<T, U>() { b } c"), ["c"]);
        assert_eq!(shipped_words("#[tokio::test(flavor = \"x\")] async fn a() {} b"), ["b"]);
        assert_eq!(shipped_words("#[cfg(all(test, unix))] const A: [u8; 2] = [0; 2]; b"), ["b"]);
        assert_eq!(shipped_words("struct A { #[cfg(test)] b: C, d: E }"), ["struct", "A", "d", "E"]);
        assert!(shipped_words("#![cfg(test)] fn a() {}").is_empty());
    }

    #[test]
    fn other_attributes_hide_nothing() {
        assert!(shipped_words("#[cfg(not(test))] fn kept() {}").contains(&"kept".to_owned()));
        assert!(shipped_words("#[cfg(any(test, feature = \"x\"))] fn kept() {}").contains(&"kept".to_owned()));
        assert!(shipped_words("#[derive(Debug)] struct Kept;").contains(&"Kept".to_owned()));
    }

    #[test]
    fn a_test_module_in_its_own_file_is_test_code() {
        let files = [
            ("a/src/lib.rs", "#[cfg(test)] mod tests; mod kept;"),
            ("a/src/tests.rs", "fn x() {}"),
            ("a/src/tests/deep.rs", "fn x() {}"),
            ("a/src/kept.rs", "fn x() {}"),
        ];
        let mut files = files.map(|(path, text)| SourceFile::new(path, "a", Part::Library, text));
        mark_test_files(&mut files);
        let shipped: Vec<usize> = files.iter().map(|file| file.shipped().count()).collect();
        assert_eq!(shipped, [3, 0, 0, 6]);
    }

    #[test]
    fn only_the_library_is_shipped() {
        let file = SourceFile::new("a/tests/it.rs", "a", Part::Around, "fn a() {}");
        assert_eq!(file.shipped().count(), 0);
    }
}
