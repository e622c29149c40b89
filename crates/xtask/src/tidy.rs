//! House rules that no other tool checks: crate roots, line lengths, names, folders, manifests.

use std::fs;

use anyhow::{Context, Result};

use crate::manifests;
use crate::source::SourceFile;
use crate::tokens::Kind;
use crate::workspace::Workspace;

/// The longest line of Rust, in characters.
const LINE_LENGTH_MAX: usize = 120;
/// Text cases in test files read best in one piece.
const TEST_LINE_LENGTH_MAX: usize = 180;

/// Module names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 8] = ["common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"];

/// Notes to oneself, which belong into the work list; spelled in halves so that this file may hold them.
const NOTES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// The folders a reader finds at the top; each opens with a README.
const TOP_FOLDERS: [&str; 6] = ["chaos-tests", "cluster-state", "crates", "deploy", "examples", "schedulers"];

/// Folders at the top that are made by building and running, and ignored by version control.
const MADE_FOLDERS: [&str; 2] = ["ohm-data", "target"];

/// Every breach in the workspace.
pub(crate) fn findings(workspace: &Workspace, files: &[SourceFile]) -> Result<Vec<String>> {
    let mut findings: Vec<String> = files.iter().filter(|file| !file.generated).flat_map(file_findings).collect();
    let root_manifest = fs::read_to_string(workspace.root.join("Cargo.toml")).context("cannot read Cargo.toml")?;
    findings.extend(manifests::workspace_findings(&root_manifest));
    let lints_forbid = manifests::workspace_forbids_unsafe(&root_manifest);
    for member in &workspace.members {
        let path = format!("{}/Cargo.toml", member.folder);
        let text = fs::read_to_string(workspace.root.join(&path)).with_context(|| format!("cannot read {path}"))?;
        findings.extend(manifests::member_findings(&path, &text));
        let forbidden = lints_forbid && manifests::takes_workspace_lints(&text);
        let roots = ["lib.rs", "main.rs"].map(|name| format!("{}/src/{name}", member.folder));
        let roots = files.iter().filter(|file| roots.contains(&file.path));
        findings.extend(roots.flat_map(|file| root_findings(file, forbidden)));
        findings.extend(test_program_findings(&member.folder, files));
    }
    findings.extend(folder_findings(workspace)?);
    Ok(findings)
}

/// Breaches of a crate root: it opens with its purpose and forbids unsafe code, itself or by its manifest.
fn root_findings(file: &SourceFile, forbidden_by_manifest: bool) -> Vec<String> {
    let mut findings = Vec::new();
    let purpose = file.text.lines().next().and_then(|line| line.strip_prefix("//!"));
    if purpose.is_none_or(|text| text.trim().is_empty()) {
        findings.push(format!("{}:1: a crate root opens with `//!` and the purpose of the crate", file.path));
    }
    let pattern = ["#", "!", "[", "forbid", "(", "unsafe_code", ")", "]"];
    let forbids = |window: &[crate::tokens::Token]| pattern.iter().zip(window).all(|(text, token)| token.is(text));
    if !forbidden_by_manifest && !file.tokens.windows(pattern.len()).any(forbids) {
        findings.push(format!("{}:1: unsafe code is not forbidden, here or by the workspace lints", file.path));
    }
    findings
}

/// Test files that nobody runs: where `tests/main.rs` is the one test program of a crate, it names all files beside it.
fn test_program_findings(folder: &str, files: &[SourceFile]) -> Vec<String> {
    let tests = format!("{folder}/tests/");
    let Some(main) = files.iter().find(|file| file.path == format!("{tests}main.rs")) else { return Vec::new() };
    let declares = |name: &str| {
        main.tokens.windows(3).any(|window| window[0].is("mod") && window[1].is(name) && window[2].is(";"))
    };
    let beside = files.iter().filter_map(|file| file.path.strip_prefix(tests.as_str())?.strip_suffix(".rs"));
    let missing = beside.filter(|name| *name != "main" && !name.contains('/') && !declares(name));
    missing
        .map(|name| format!("{tests}{name}.rs: `mod {name};` is missing in {tests}main.rs: it does not run"))
        .collect()
}

/// Breaches that one file shows by itself.
fn file_findings(file: &SourceFile) -> Vec<String> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let length = line.chars().count();
        let most = if is_test(&file.path) { TEST_LINE_LENGTH_MAX } else { LINE_LENGTH_MAX };
        if length > most && !holds_long_text(line) {
            findings.push(format!("{}:{}: {length} characters, at most {most}", file.path, index + 1));
        }
        let mut words = line.split(|character: char| !character.is_alphanumeric() && character != '_');
        if let Some(note) = words.find(|word| NOTES.contains(word)) {
            findings.push(format!("{}:{}: `{note}`: do it now or write it down elsewhere", file.path, index + 1));
        }
    }
    let module = file.path.rsplit('/').take(2).find(|name| !matches!(*name, "mod.rs" | "lib.rs" | "main.rs"));
    let module = module.unwrap_or_default().trim_end_matches(".rs");
    if EMPTY_NAMES.contains(&module) {
        findings.push(format!("{}: `{module}` says nothing: name the file by what it holds", file.path));
    }
    for window in file.tokens.windows(3) {
        let inline = window[0].is("mod") && window[1].kind == Kind::Word && window[2].is("{");
        if inline && EMPTY_NAMES.contains(&window[1].text.as_str()) {
            findings.push(format!("{}:{}: module `{}` says nothing", file.path, window[1].line, window[1].text));
        }
    }
    findings
}

/// Breaches of the layout at the top.
fn folder_findings(workspace: &Workspace) -> Result<Vec<String>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(&workspace.root)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() && !name.starts_with('.') && !MADE_FOLDERS.contains(&name.as_str()) {
            folders.push((name, fs::read_to_string(entry.path().join("README.md")).ok()));
        }
    }
    folders.sort();
    let members: Vec<&str> = workspace.members.iter().map(|member| member.folder.as_str()).collect();
    Ok(folders.iter().flat_map(|(name, readme)| judge_folder(name, readme.as_deref(), &members)).collect())
}

fn is_test(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

/// Whether a string in the line is too long to be laid out otherwise: text cases read best in one piece.
fn holds_long_text(line: &str) -> bool {
    line.split('"').skip(1).step_by(2).any(|text| text.chars().count() > LINE_LENGTH_MAX / 2)
}

/// Judges one folder at the top: it is a known one, and its README names every crate in it.
fn judge_folder(name: &str, readme: Option<&str>, members: &[&str]) -> Vec<String> {
    let mut findings = Vec::new();
    if !TOP_FOLDERS.contains(&name) {
        findings.push(format!("{name}/: the folders at the top are fixed: {}", TOP_FOLDERS.join(" ")));
    }
    let Some(readme) = readme else {
        findings.push(format!("{name}/: has no README.md"));
        return findings;
    };
    let crates = members.iter().filter_map(|folder| folder.strip_prefix(name)?.strip_prefix('/'));
    let missing = crates.filter(|member| !readme.contains(&format!("`{member}/`")));
    findings.extend(missing.map(|member| format!("{name}/README.md: does not name `{member}/`")));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Part;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile::new(path, "a", Part::Library, text)
    }

    #[test]
    fn crate_roots_open_with_a_purpose_and_forbid_unsafe_code() {
        let check = |text: &str, by_manifest| root_findings(&file("a/src/lib.rs", text), by_manifest).len();
        assert_eq!(check("//! A purpose.\n", true), 0);
        assert_eq!(check("//! A purpose.\n#![forbid(unsafe_code)]\n", false), 0);
        assert_eq!(check("//! A purpose.\n// #![forbid(unsafe_code)]\n", false), 1);
        assert_eq!(check("// A purpose.\n", true), 1);
        assert_eq!(check("//!\n", true), 1);
        assert_eq!(check("", false), 2);
    }

    #[test]
    fn a_test_file_that_no_program_names_is_found() {
        let main = file("a/tests/main.rs", "mod one;");
        let files = [main, file("a/tests/one.rs", ""), file("a/tests/two.rs", ""), file("a/tests/one/deep.rs", "")];
        assert_eq!(test_program_findings("a", &files).len(), 1, "two.rs");
        assert_eq!(test_program_findings("a", &files[1..]).len(), 0, "each file is a program");
    }

    #[test]
    fn long_lines_are_found() {
        let line = |length: usize| format!("//{}\n", "é".repeat(length - 2));
        assert!(file_findings(&file("a/src/a.rs", &line(120))).is_empty());
        assert_eq!(file_findings(&file("a/src/a.rs", &line(121))).len(), 1);
    }

    #[test]
    fn notes_to_oneself_are_found_in_comments_too() {
        for note in NOTES {
            assert_eq!(file_findings(&file("a/src/a.rs", &format!("// {note}: later\n"))).len(), 1, "{note}");
            assert!(file_findings(&file("a/src/a.rs", &format!("// {note}X\n"))).is_empty(), "{note}");
        }
    }

    #[test]
    fn names_that_say_nothing_are_found() {
        for path in ["a/src/utils.rs", "a/src/helpers/mod.rs", "a/tests/common/mod.rs"] {
            assert_eq!(file_findings(&file(path, "")).len(), 1, "{path}");
        }
        for path in ["a/src/codec.rs", "common/src/lib.rs", "a/src/chunked/mod.rs"] {
            assert!(file_findings(&file(path, "")).is_empty(), "{path}");
        }
        assert_eq!(file_findings(&file("a/src/a.rs", "mod manager { }")).len(), 1);
    }

    #[test]
    fn folders_at_the_top_are_fixed_and_open_with_a_map() {
        let members = ["crates/base/stdx", "schedulers/planner"];
        assert!(judge_folder("crates", Some("| `base/stdx/` | small things |"), &members).is_empty());
        assert_eq!(judge_folder("crates", Some("a README without its crate"), &members).len(), 1);
        assert_eq!(judge_folder("crates", None, &members).len(), 1);
        assert_eq!(judge_folder("misc", Some(""), &members).len(), 1);
        assert_eq!(judge_folder("misc", None, &members).len(), 2);
    }
}
