//! How many methods a type has, and over how many files they are spread.
//!
//! A long file can be cut in two, a type with too many duties can't: methods are counted over all `impl` blocks of the
//! crate. Implementations of traits don't count, they are asked for by others.

use std::collections::{BTreeMap, BTreeSet};

use crate::layers::find;
use crate::source::{Part, SourceFile, closing};
use crate::tokens::{Kind, Token};

/// The inherent methods of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Methods {
    /// How many there are.
    pub(crate) count: usize,
    /// The files they are in.
    pub(crate) files: BTreeSet<String>,
}

/// The inherent methods of every type, by package and name. Those that are compiled for tests only don't count.
pub(crate) fn methods(files: &[SourceFile]) -> BTreeMap<(String, String), Methods> {
    let mut types: BTreeMap<(String, String), Methods> = BTreeMap::new();
    for file in files.iter().filter(|file| file.part == Part::Library && !file.generated) {
        let tokens: Vec<Token> = file.shipped().cloned().collect();
        for (name, count) in blocks(&tokens) {
            let methods = types.entry((file.package.clone(), name)).or_default();
            methods.count += count;
            methods.files.insert(file.path.clone());
        }
    }
    types
}

/// How often each public type name is defined in one layer, where that is more than once. A name that two crates beside
/// each other give to two things makes readers look twice.
pub(crate) fn names_defined_twice(files: &[SourceFile]) -> BTreeMap<(usize, String), usize> {
    let mut names: BTreeMap<(usize, String), usize> = BTreeMap::new();
    for file in files.iter().filter(|file| file.part == Part::Library && !file.generated) {
        let Some((layer, _)) = find(&file.package) else { continue };
        let tokens: Vec<&Token> = file.shipped().collect();
        let defined = tokens.windows(3).filter(|window| {
            let is_type = ["struct", "enum", "trait", "type"].iter().any(|word| window[1].is(word));
            window[0].is("pub") && is_type && window[2].kind == Kind::Word
        });
        defined.for_each(|window| *names.entry((layer, window[2].text.clone())).or_default() += 1);
    }
    names.retain(|_, count| *count > 1);
    names
}

/// The type and the number of methods of each inherent `impl` block.
fn blocks(tokens: &[Token]) -> Vec<(String, usize)> {
    let starts = (0..tokens.len()).filter(|at| tokens[*at].is("impl") && begins_item(tokens, *at));
    starts.filter_map(|start| block_at(tokens, start)).collect()
}

/// Whether the word begins an item, as against `impl Trait` in a type.
fn begins_item(tokens: &[Token], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| &tokens[before]);
    before.is_none_or(|before| ["}", "{", ";", "]", "unsafe"].iter().any(|text| before.is(text)))
}

fn block_at(tokens: &[Token], start: usize) -> Option<(String, usize)> {
    let mut at = start + 1;
    if tokens.get(at)?.is("<") {
        at = after_angles(tokens, at)?;
    }
    let mut name = None;
    loop {
        let token = tokens.get(at)?;
        if token.is("{") {
            break;
        }
        if token.is("for") && !tokens.get(at + 1)?.is("<") {
            return None;
        }
        if token.is("where") {
            at = (at..tokens.len()).find(|at| tokens[*at].is("{"))?;
            break;
        }
        if token.is("<") {
            at = after_angles(tokens, at)?;
            continue;
        }
        if token.kind == Kind::Word {
            name = Some(token.text.clone());
        }
        at += 1;
    }
    Some((name?, count_methods(tokens, at)))
}

/// The functions directly inside the braces that open at `open`.
fn count_methods(tokens: &[Token], open: usize) -> usize {
    let (mut at, end, mut count) = (open + 1, closing(tokens, open), 0);
    while at < end {
        if tokens[at].is("fn") {
            count += 1;
        }
        at = if ["{", "(", "["].iter().any(|text| tokens[at].is(text)) { closing(tokens, at) + 1 } else { at + 1 };
    }
    count
}

/// The token after the angle brackets that open at `open`; an arrow closes none.
fn after_angles(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0;
    for at in open..tokens.len() {
        if tokens[at].is("<") {
            depth += 1;
        } else if tokens[at].is(">") && !tokens[at - 1].is("-") {
            depth -= 1;
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, usize)> {
        let files = [SourceFile::new("a/src/lib.rs", "a", Part::Library, text)];
        methods(&files).into_iter().map(|((_, name), methods)| (name, methods.count)).collect()
    }

    #[test]
    fn methods_are_counted_over_all_blocks_of_a_type() {
        let text =
            "struct A; impl A { fn one() {} pub(crate) fn two(&self) { fn inner() {} } } impl A { fn three() {} }";
        assert_eq!(found(text), [("A".to_owned(), 3)]);
        let text = "impl<P: Fn(u8) -> Vec<u8>> crate::a::Core<P> where P: Copy { fn one(f: fn()) {} }";
        assert_eq!(found(text), [("Core".to_owned(), 1)]);
        assert_eq!(found("impl<'a> Judge<'a> { fn one() {} } mod b { impl B { fn two() {} } }").len(), 2);
    }

    #[test]
    fn traits_tests_and_types_of_arguments_do_not_count() {
        let text = "impl Clone for A { fn clone(&self) {} } impl<T> From<T> for A { fn from() {} }";
        assert!(found(text).is_empty());
        assert!(found("fn f(a: impl Fn()) -> impl Iterator { loop {} }").is_empty());
        assert!(found("#[cfg(test)] impl A { fn one() {} }").is_empty());
    }

    #[test]
    fn names_that_are_public_twice_in_one_layer_are_found() {
        let file = |package: &str, text: &str| SourceFile::new("a/src/lib.rs", package, Part::Library, text);
        let twice =
            [file("ohm-cell", "pub struct A; pub(crate) struct B;"), file("ohm-log", "pub enum A {} pub struct B;")];
        let found: Vec<(String, usize)> =
            names_defined_twice(&twice).into_iter().map(|((_, name), count)| (name, count)).collect();
        assert_eq!(found, [("A".to_owned(), 2)]);
        let apart = [file("ohm-cell", "pub struct A;"), file("ohm-model", "pub struct A;")];
        assert!(names_defined_twice(&apart).is_empty(), "other layers");
    }

    #[test]
    fn files_are_told_apart() {
        let files =
            ["a/src/a.rs", "a/src/b.rs"].map(|path| SourceFile::new(path, "a", Part::Library, "impl A { fn f() {} }"));
        let types = methods(&files);
        assert_eq!(types[&("a".to_owned(), "A".to_owned())].files.len(), 2);
    }
}
