//! Files of one crate that import each other in a circle: none of them can be read without all the others.
//!
//! An import is a `use`, a path that starts with `crate`, `super` or `self`, or one that starts with a child module. It
//! leads to the file that defines the name, also where another file exports it again. Declaring a module is no import,
//! and neither is calling a method that another file gives to a type.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Part, SourceFile};
use crate::tokens::{Kind, Token};

/// How many files a path may be handed on through before it is given up.
const HOPS_MAX: usize = 8;

/// Files that reach each other by their imports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Circle {
    /// The crate they belong to.
    pub(crate) package: String,
    /// Their paths, in order.
    pub(crate) files: Vec<String>,
    /// Whether they lie in more than one folder.
    pub(crate) across_folders: bool,
}

/// A module by its names, from the root of its crate.
type Module = Vec<String>;

/// What one file imports, and under which names others find that in it.
#[derive(Default)]
struct Imports {
    /// Paths as they stand in the file.
    paths: Vec<Vec<String>>,
    /// The names that `use` brings in, and what each stands for.
    names: BTreeMap<String, Vec<String>>,
}

/// One crate: its modules with their files and imports.
struct Crate<'a> {
    modules: BTreeMap<Module, (&'a SourceFile, Imports)>,
}

/// The circles of every crate, in the order of their files.
pub(crate) fn circles(files: &[SourceFile]) -> Vec<Circle> {
    let mut crates: BTreeMap<&str, Vec<&SourceFile>> = BTreeMap::new();
    let shipped = |file: &&SourceFile| file.part == Part::Library && !file.generated && file.shipped().next().is_some();
    for file in files.iter().filter(shipped) {
        crates.entry(&file.package).or_default().push(file);
    }
    crates.into_iter().flat_map(|(package, files)| circles_of_crate(package, &files)).collect()
}

fn circles_of_crate(package: &str, files: &[&SourceFile]) -> Vec<Circle> {
    let (folders, source) = (folders(files), Crate::read(files));
    let circle = |files: Vec<&str>| Circle {
        package: package.into(),
        across_folders: files.iter().map(|file| &folders[file]).collect::<BTreeSet<_>>().len() > 1,
        files: files.into_iter().map(str::to_owned).collect(),
    };
    circles_of(&source.arrows()).into_iter().map(circle).collect()
}

/// The circles as text, for a person.
pub(crate) fn describe(circles: &[Circle]) -> String {
    let mut lines = vec![format!("{} circles of files that import each other", circles.len())];
    for circle in circles {
        let across = if circle.across_folders { ", across folders" } else { "" };
        lines.push(format!(
            "     {}: {} files{across}: {}",
            circle.package,
            circle.files.len(),
            circle.files.join(" ")
        ));
    }
    lines.join("\n") + "\n"
}

/// The folder that each file belongs to: `a.rs` belongs to the folder `a` beside it, if there is one.
fn folders<'a>(files: &[&'a SourceFile]) -> BTreeMap<&'a str, String> {
    let folder = |file: &'a SourceFile| {
        let own = file.path.trim_end_matches(".rs").to_owned();
        let has_own = files.iter().any(|other| other.path.starts_with(&format!("{own}/")));
        let parent = file.path.rsplit_once('/').map_or(String::new(), |(parent, _)| parent.to_owned());
        if has_own { own } else { parent }
    };
    files.iter().map(|file| (file.path.as_str(), folder(file))).collect()
}

impl<'a> Crate<'a> {
    fn read(files: &[&'a SourceFile]) -> Self {
        let modules = files.iter().map(|file| (module_of(&file.path), (*file, imports(file)))).collect();
        Self { modules }
    }

    /// Which file imports which others.
    fn arrows(&self) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
        let targets = |module: &Module, file: &SourceFile, imports: &Imports| {
            let found = imports.paths.iter().filter_map(|path| self.resolve(module, path, HOPS_MAX));
            found.filter(|target| *target != file.path).collect()
        };
        self.modules
            .iter()
            .map(|(module, (file, imports))| (file.path.as_str(), targets(module, file, imports)))
            .collect()
    }

    /// The file that defines what `path` names in `module`; none if that is another crate's.
    fn resolve(&self, module: &Module, path: &[String], hops: usize) -> Option<&'a str> {
        let mut at = module.clone();
        let mut rest = path;
        let mut anchored = false;
        while let [first, others @ ..] = rest {
            match first.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => drop(at.pop()?),
                name => {
                    let child: Module = at.iter().cloned().chain([name.to_owned()]).collect();
                    if !self.modules.contains_key(&child) {
                        break;
                    }
                    at = child;
                }
            }
            anchored = true;
            rest = others;
        }
        let (file, imports) = self.modules.get(&at)?;
        match rest.first() {
            _ if !anchored => None,
            Some(name) if hops > 0 && imports.names.contains_key(name) => {
                // What that file itself has from elsewhere leads on; from another crate it leads nowhere.
                self.resolve(&at, &imports.names[name], hops - 1)
            }
            _ => Some(file.path.as_str()),
        }
    }
}

/// The module that a file holds.
fn module_of(path: &str) -> Module {
    let inside = path.split_once("/src/").map_or(path, |(_, inside)| inside).trim_end_matches(".rs");
    let names: Module = inside.split('/').map(str::to_owned).collect();
    match names.as_slice() {
        [only] if only == "lib" || only == "main" => Vec::new(),
        [parents @ .., last] if last == "mod" => parents.to_vec(),
        _ => names,
    }
}

fn imports(file: &SourceFile) -> Imports {
    let tokens: Vec<&Token> = file.shipped().collect();
    let children: BTreeSet<&str> = tokens
        .windows(3)
        .filter(|window| window[0].is("mod") && window[2].is(";"))
        .map(|window| window[1].text.as_str())
        .collect();
    let mut imports = Imports::default();
    let mut at = 0;
    while at < tokens.len() {
        let starts_path = !at.checked_sub(1).is_some_and(|before| tokens[before].is("::"));
        if tokens[at].is("use") {
            at = read_tree(&tokens, at + 1, &[], &mut imports);
        } else if starts_path && tokens.get(at + 1).is_some_and(|next| next.is("::")) && leads_in(tokens[at], &children)
        {
            let path = path_from(&tokens, at);
            at += 2 * path.len() - 1;
            imports.paths.push(path);
        } else {
            at += 1;
        }
    }
    imports
}

/// Whether a path that starts with this word stays in the crate.
fn leads_in(word: &Token, children: &BTreeSet<&str>) -> bool {
    ["crate", "super", "self"].iter().any(|start| word.is(start)) || children.contains(word.text.as_str())
}

/// The names of the path that starts at `at`.
fn path_from(tokens: &[&Token], at: usize) -> Vec<String> {
    let mut names = vec![tokens[at].text.clone()];
    let mut next = at + 1;
    while tokens.get(next).is_some_and(|token| token.is("::"))
        && let Some(name) = tokens.get(next + 1).filter(|name| name.kind == Kind::Word)
    {
        names.push(name.text.clone());
        next += 2;
    }
    names
}

/// Reads what `use` brings in from `at` on, below `prefix`; where it ends.
fn read_tree(tokens: &[&Token], mut at: usize, prefix: &[String], imports: &mut Imports) -> usize {
    let mut path = prefix.to_vec();
    let mut alias = None;
    while let Some(token) = tokens.get(at) {
        if token.is("{") {
            at += 1;
            while tokens.get(at).is_some_and(|token| !token.is("}")) {
                at = read_tree(tokens, at, &path, imports);
                at += usize::from(tokens.get(at).is_some_and(|token| token.is(",")));
            }
            return at + 1;
        }
        if token.is("as") {
            alias = tokens.get(at + 1).map(|token| token.text.clone());
            at += 1;
        } else if token.is("*") {
            imports.paths.push(path);
            return at + 1;
        } else if token.kind == Kind::Word {
            path.push(token.text.clone());
        } else if !token.is("::") {
            break;
        }
        at += 1;
    }
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    if let Some(name) = alias.or_else(|| path.last().cloned()) {
        imports.names.insert(name, path.clone());
    }
    imports.paths.push(path);
    at
}

/// Sets of files that reach each other, with more than one file.
fn circles_of<'a>(arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<Vec<&'a str>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> = arrows.keys().map(|file| (*file, reached(arrows, file))).collect();
    let mut circles: Vec<Vec<&str>> = Vec::new();
    for file in arrows.keys() {
        if circles.iter().any(|circle| circle.contains(file)) {
            continue;
        }
        let circle: Vec<&str> = reach[file].iter().copied().filter(|other| reach[other].contains(file)).collect();
        if circle.len() > 1 {
            circles.push(circle);
        }
    }
    circles
}

/// What can be reached from `file`.
fn reached<'a>(arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>, file: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = vec![file];
    while let Some(next) = open.pop() {
        open.extend(arrows.get(next).into_iter().flatten().filter(|target| found.insert(**target)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| SourceFile::new(&format!("x/src/{path}"), "x", Part::Library, text);
        let files: Vec<SourceFile> = files.iter().map(file).collect();
        let text = |circle: Circle| {
            let files = circle.files.join(" ").replace("x/src/", "");
            if circle.across_folders { files + " across" } else { files }
        };
        circles(&files).into_iter().map(text).collect()
    }

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        let a = "use crate::b::B; pub struct A;";
        assert_eq!(found(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", "use crate::a::A;")]), ["a.rs b.rs"]);
        assert!(found(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", "pub struct B;")]).is_empty());
        let path = "fn f() { super::a::f() }";
        assert_eq!(found(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", path)]), ["a.rs b.rs"]);
        let tests = "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }";
        assert!(found(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", tests)]).is_empty());
    }

    #[test]
    fn a_name_that_is_exported_again_leads_to_its_own_file() {
        let root = "mod a; mod b; pub use a::A; pub use b::{B, C as D};";
        assert!(found(&[("lib.rs", root), ("a.rs", "use crate::D;"), ("b.rs", "use std::fmt;")]).is_empty());
        assert_eq!(found(&[("lib.rs", root), ("a.rs", "use crate::D;"), ("b.rs", "use crate::A;")]), ["a.rs b.rs"]);
        let own = "mod a; pub use a::A; pub struct Own;";
        assert_eq!(found(&[("lib.rs", own), ("a.rs", "use crate::Own;")]), ["a.rs lib.rs"]);
    }

    #[test]
    fn circles_across_folders_are_marked() {
        let files = |inside| {
            [("lib.rs", "mod a; mod b;"), ("a.rs", "mod c;"), ("a/c.rs", inside), ("b.rs", "use crate::a::c::C;")]
        };
        assert_eq!(found(&files("use crate::b;")), ["a/c.rs b.rs across"]);
        assert!(found(&files("use std::b;")).is_empty());
        let own = [("lib.rs", "mod a;"), ("a.rs", "mod c; use c::C; pub struct A;"), ("a/c.rs", "use super::A;")];
        assert_eq!(found(&own), ["a.rs a/c.rs"]);
    }
}
