//! Which crates changed.
//!
//! A crate changed if a file in its folder differs from the merge base with `origin/main` (with `main`, where there is
//! no `origin`), committed or not. On a clean `main` it is what the last commit changed. Files outside all crates count
//! for none; the whole check covers them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::command::run;
use crate::workspace::Member;

/// The names of the crates that changed.
pub(crate) fn changed(root: &Path, members: &[Member]) -> Result<BTreeSet<String>> {
    let is_clean = git(root, &["status", "--porcelain"])?.is_empty();
    let head = git(root, &["rev-parse", "HEAD"])?;
    let bases = ["origin/main", "main", "HEAD"];
    let base = bases.iter().find_map(|main| git(root, &["merge-base", "HEAD", main]).ok()).unwrap_or_default();
    let base = if is_clean && base == head { "HEAD~1" } else { base.trim() };
    let tracked = git(root, &["diff", "--name-only", "--no-renames", base])?;
    let new = git(root, &["ls-files", "--others", "--exclude-standard"])?;
    let files = tracked.lines().chain(new.lines());
    Ok(files.filter_map(|file| owner(file, members)).map(str::to_owned).collect())
}

/// The crate in whose folder a file lies.
fn owner<'a>(file: &str, members: &'a [Member]) -> Option<&'a str> {
    let holds = |member: &&Member| file.strip_prefix(member.folder.as_str()).is_some_and(|rest| rest.starts_with('/'));
    members.iter().filter(holds).max_by_key(|member| member.folder.len()).map(|member| member.name.as_str())
}

/// What a git command prints.
fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let ended = run(Command::new("git").current_dir(root).args(arguments), None)?;
    if !ended.success {
        bail!("git {} failed: {}", arguments.join(" "), ended.output.trim());
    }
    Ok(ended.output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn member(name: &str, folder: &str) -> Member {
        Member { name: name.into(), folder: folder.into(), dependencies: Vec::new() }
    }

    #[test]
    fn a_file_belongs_to_the_crate_it_lies_in() {
        let members = [member("a", "x/a"), member("ab", "x/ab"), member("deep", "x/a/deep")];
        assert_eq!(owner("x/a/src/lib.rs", &members), Some("a"));
        assert_eq!(owner("x/ab/src/lib.rs", &members), Some("ab"));
        assert_eq!(owner("x/a/deep/src/lib.rs", &members), Some("deep"));
        assert_eq!(owner("x/README.md", &members), None);
    }

    /// A repository in a folder of its own, removed at the end.
    struct Repository(std::path::PathBuf);

    impl Repository {
        fn new() -> Self {
            let path = std::env::temp_dir().join(format!("xtask-changes-{}", std::process::id()));
            fs::create_dir_all(&path).expect("a temporary folder");
            let repository = Self(path);
            repository.git(&["init", "--quiet", "--initial-branch", "main"]);
            repository
        }

        fn git(&self, arguments: &[&str]) {
            let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
            git(&self.0, &[&identity, arguments].concat()).expect("git is on every machine this runs on");
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.0.join(file);
            fs::create_dir_all(path.parent().expect("a file in a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }

        fn commit(&self) {
            self.git(&["add", "--all"]);
            self.git(&["commit", "--quiet", "--message", "x"]);
        }

        fn changed(&self) -> String {
            let members = ["a", "b", "c"].map(|name| member(name, name));
            let names = changed(&self.0, &members).expect("a repository with commits");
            names.into_iter().collect::<Vec<_>>().join(" ")
        }
    }

    impl Drop for Repository {
        fn drop(&mut self) {
            // What is left in the temporary folder harms nobody.
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn changes_count_from_the_merge_base_committed_or_not() {
        let repository = Repository::new();
        repository.write("README.md", "x");
        repository.commit();
        repository.write("a/src/lib.rs", "x");
        repository.commit();
        assert_eq!(repository.changed(), "a", "a clean main: the last commit");
        repository.write("b/src/lib.rs", "x");
        assert_eq!(repository.changed(), "b", "new files on main");
        repository.git(&["checkout", "--quiet", "-b", "branch"]);
        repository.commit();
        repository.write("c/src/lib.rs", "x");
        assert_eq!(repository.changed(), "b c", "a branch: its commits and what is not committed");
        repository.write("a/src/lib.rs", "y");
        assert_eq!(repository.changed(), "a b c");
    }
}
