//! Rules for `Cargo.toml` files, read line by line: versions are pinned in one place and taken from there.

/// One `key = value` line of a manifest.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    section: String,
    key: String,
    value: String,
    line: usize,
}

/// Whether a section of a manifest lists dependencies, for any target and purpose.
fn lists_dependencies(section: &str) -> bool {
    let last = section.rsplit('.').next().unwrap_or(section);
    matches!(last, "dependencies" | "dev-dependencies" | "build-dependencies")
}

/// The entries of a manifest. Values that span lines are joined.
fn entries(text: &str) -> Vec<Entry> {
    let mut section = String::new();
    let mut found: Vec<Entry> = Vec::new();
    let mut open_brackets = 0_i32;
    for (index, raw) in text.lines().enumerate() {
        let line = without_comment(raw).trim();
        if open_brackets > 0 {
            let Some(last) = found.last_mut() else { continue };
            last.value.push_str(line);
        } else if let Some(name) = line.strip_prefix('[') {
            section = name.trim_matches(['[', ']']).trim().to_owned();
            continue;
        } else if let Some((key, value)) = line.split_once('=') {
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            found.push(Entry { section: section.clone(), key, value, line: index + 1 });
        }
        open_brackets += bracket_balance(line);
    }
    found
}

/// The line up to its comment, if it has one outside quotes.
fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    let start = line.find(|character| {
        quoted ^= character == '"';
        character == '#' && !quoted
    });
    &line[..start.unwrap_or(line.len())]
}

/// Opening brackets less closing ones, outside quotes.
fn bracket_balance(line: &str) -> i32 {
    let outside = line.split('"').step_by(2);
    outside.flat_map(str::chars).fold(0, |balance, character| match character {
        '[' | '{' => balance + 1,
        ']' | '}' => balance - 1,
        _ => balance,
    })
}

/// Breaches in the manifest of a member: each dependency comes from the workspace.
pub(crate) fn member_findings(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for entry in entries(text) {
        let parent = entry.section.rsplit_once('.').map_or("", |(parent, _)| parent);
        if lists_dependencies(parent) {
            findings.push(format!("{path}:{}: write `{}` as one line of its list", entry.line, entry.section));
            continue;
        }
        let value: String = entry.value.split_whitespace().collect();
        let from_workspace = (entry.key.ends_with(".workspace") && value == "true") || value.contains("workspace=true");
        if lists_dependencies(&entry.section) && !from_workspace {
            findings.push(format!("{path}:{}: {} must say `workspace = true`", entry.line, entry.key));
        }
    }
    findings
}

/// Breaches in the manifest of the workspace: each version is pinned, each crate of ours forbids unsafe code.
pub(crate) fn workspace_findings(text: &str) -> Vec<String> {
    let entries = entries(text);
    let listed = entries.iter().filter(|entry| entry.section == "workspace.dependencies");
    let loose = listed.filter(|entry| match version(&entry.value) {
        Some(version) => !version.starts_with('='),
        None => !entry.value.contains("path =") || entry.value.contains("git ="),
    });
    loose.map(|entry| format!("Cargo.toml:{}: pin {} with \"=\"", entry.line, entry.key)).collect()
}

/// The version a dependency asks for.
fn version(value: &str) -> Option<&str> {
    let quoted = match value.strip_prefix('"') {
        Some(rest) => rest,
        None => value.split_once("version")?.1.trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?,
    };
    quoted.split('"').next()
}

/// Whether the manifest of a member takes the lints of the workspace.
pub(crate) fn takes_workspace_lints(text: &str) -> bool {
    entries(text).iter().any(|entry| entry.section == "lints" && entry.key == "workspace" && entry.value == "true")
}

/// Whether the manifest of the workspace forbids unsafe code in all who take its lints.
pub(crate) fn workspace_forbids_unsafe(text: &str) -> bool {
    let is_lint = |entry: &Entry| entry.section == "workspace.lints.rust" && entry.key == "unsafe_code";
    entries(text).iter().any(|entry| is_lint(entry) && entry.value.contains("forbid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_take_every_dependency_from_the_workspace() {
        let good = "[dependencies]\na.workspace = true # why\nb = { workspace = true, features = [\n \"x\",\n] }\n";
        assert!(member_findings("x", good).is_empty());
        for bad in [
            "[dependencies]\na = \"1\"",
            "[dev-dependencies]\na = { version = \"1\" }",
            "[build-dependencies]\na = { path = \"../a\" }",
            "[target.'cfg(unix)'.dependencies]\na = \"=1.0.0\"",
            "[dependencies.a]\nworkspace = true",
        ] {
            assert_eq!(member_findings("x", bad).len(), 1, "{bad}");
        }
        assert!(member_findings("x", "[package]\nversion = \"1\"").is_empty());
    }

    #[test]
    fn workspace_versions_are_pinned() {
        let check = |entry: &str| workspace_findings(&format!("[workspace.dependencies]\n{entry}\n")).len();
        assert_eq!(check("a = \"=1.0.0\""), 0);
        assert_eq!(check("a = { version = \"=1.0.0\", features = [\"x\"] }"), 0);
        assert_eq!(check("a = { path = \"crates/a\" }"), 0);
        assert_eq!(check("a = \"1.0.0\""), 1);
        assert_eq!(check("a = { version = \"^1\", features = [\"x\"] }"), 1);
        assert_eq!(check("a = { git = \"somewhere\" }"), 1);
        assert_eq!(check("a = { features = [\"x\"] }"), 1);
    }

    #[test]
    fn lints_are_read() {
        assert!(takes_workspace_lints("[lints]\nworkspace = true"));
        assert!(!takes_workspace_lints("[package]\nworkspace = true"));
        assert!(workspace_forbids_unsafe("[workspace.lints.rust]\nunsafe_code = \"forbid\""));
        assert!(!workspace_forbids_unsafe("[workspace.lints.rust]\nunsafe_code = \"warn\""));
    }
}
