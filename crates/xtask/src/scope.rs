//! What a check covers: the whole workspace, the crates that changed, or one crate and those above it.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, bail};

use crate::changes;
use crate::workspace::{Member, Workspace};

/// Crates whose tests take minutes, because they start whole cells of real processes. The quick check leaves them out.
const SLOW: [&str; 1] = ["ohm"];

/// Features that the checks build beside the default ones: they take protoc.
const WITH_PROTOC: [(&str, &str); 2] = [("ohm", "etcd"), ("ohm-log-etcd", "client")];

/// What is to be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Every crate, every step.
    Whole,
    /// The crates with changed files; see [`changes`].
    Changed,
    /// No crate: only the steps that read the sources.
    Sources,
    /// The named crate and every crate that depends on it, for its tests too.
    Above(String),
}

/// A check as asked for on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// What is to be checked.
    pub(crate) scope: Scope,
    /// The cargo profile that everything is built with.
    pub(crate) profile: String,
}

impl Request {
    /// Reads `[--sources | --fast | -p CRATE] [--profile NAME]`.
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self> {
        let mut request = Self { scope: Scope::Whole, profile: "dev".into() };
        let mut rest = arguments;
        loop {
            rest = match rest {
                [] => return Ok(request),
                ["--fast", rest @ ..] if request.scope == Scope::Whole => {
                    request.scope = Scope::Changed;
                    rest
                }
                ["--sources", rest @ ..] if request.scope == Scope::Whole => {
                    request.scope = Scope::Sources;
                    rest
                }
                ["-p" | "--package", name, rest @ ..] if request.scope == Scope::Whole => {
                    request.scope = Scope::Above((*name).into());
                    rest
                }
                ["--profile", name, rest @ ..] => {
                    request.profile = (*name).into();
                    rest
                }
                _ => bail!("`{}`: known are --sources, --fast or -p CRATE, and --profile NAME", rest.join(" ")),
            };
        }
    }
}

/// The crates that the steps which compile take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    /// The packages by name; none for all of them.
    packages: Option<BTreeSet<String>>,
    /// Whether slow tests are left out.
    quick: bool,
    /// Whether protoc is here.
    protoc: bool,
}

impl Selection {
    /// The crates of a scope.
    pub(crate) fn of(scope: &Scope, workspace: &Workspace) -> Result<Self> {
        let packages = match scope {
            Scope::Whole => None,
            Scope::Changed => Some(changes::changed(&workspace.root, &workspace.members)?),
            Scope::Sources => Some(BTreeSet::new()),
            Scope::Above(name) => Some(above(name, &workspace.members)?),
        };
        Ok(Self { packages, quick: *scope == Scope::Changed, protoc: is_program("protoc") })
    }

    /// Whether this is the whole workspace.
    pub(crate) fn is_whole(&self) -> bool {
        self.packages.is_none()
    }

    /// Whether there is nothing to compile.
    pub(crate) fn is_empty(&self) -> bool {
        self.packages.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// The crates as text, for a person.
    pub(crate) fn describe(&self) -> String {
        match &self.packages {
            None => "all crates".into(),
            Some(packages) if packages.is_empty() => "no crate".into(),
            Some(packages) => packages.iter().map(String::as_str).collect::<Vec<_>>().join(" "),
        }
    }

    /// What a person is told about parts that are not built here.
    pub(crate) fn notes(&self) -> Vec<String> {
        let lacking = !self.protoc && WITH_PROTOC.iter().any(|(package, _)| self.holds(package));
        let note = "not built here: the engine over etcd (it takes protoc: protobuf-compiler libprotobuf-dev)";
        lacking.then(|| note.to_owned()).into_iter().collect()
    }

    /// The selection for running tests, and the crates that it leaves out.
    pub(crate) fn for_tests(&self) -> (Self, Vec<&'static str>) {
        let mut tests = self.clone();
        let left_out = |name: &&str| self.quick && tests.packages.as_mut().is_some_and(|names| names.remove(*name));
        let left_out = SLOW.into_iter().filter(left_out).collect();
        (tests, left_out)
    }

    /// The arguments that name the crates and their features to cargo.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = match &self.packages {
            None => vec!["--workspace".into()],
            Some(packages) => packages.iter().flat_map(|name| ["--package".into(), name.clone()]).collect(),
        };
        let features = WITH_PROTOC.iter().filter(|(package, _)| self.protoc && self.holds(package));
        let features: Vec<String> = features.map(|(package, feature)| format!("{package}/{feature}")).collect();
        if !features.is_empty() {
            arguments.extend(["--features".into(), features.join(",")]);
        }
        arguments
    }

    fn holds(&self, package: &str) -> bool {
        self.packages.as_ref().is_none_or(|packages| packages.contains(package))
    }
}

/// A crate and all that depend on it, directly or not, in what they ship or in their tests.
fn above(name: &str, members: &[Member]) -> Result<BTreeSet<String>> {
    // `-p cell` is as good as `-p ohm-cell`.
    let known = [name.to_owned(), format!("ohm-{name}")];
    let Some(found) = members.iter().find(|member| known.contains(&member.name)) else {
        bail!("there is no crate `{name}`");
    };
    let mut reached = BTreeSet::from([found.name.clone()]);
    loop {
        let stands_on = |member: &&Member| member.dependencies.iter().any(|edge| reached.contains(&edge.name));
        let next: Vec<String> = members.iter().filter(stands_on).map(|member| member.name.clone()).collect();
        let before = reached.len();
        reached.extend(next);
        if reached.len() == before {
            return Ok(reached);
        }
    }
}

/// Whether a program of this name is in the path.
fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn member(name: &str, dependencies: &[(&str, bool)]) -> Member {
        let edge = |(name, for_tests): &(&str, bool)| Dependency {
            name: (*name).to_owned(),
            internal: true,
            for_tests: *for_tests,
        };
        let dependencies = dependencies.iter().map(edge).collect();
        Member { name: name.into(), folder: name.into(), dependencies }
    }

    fn selection(packages: &[&str], quick: bool, protoc: bool) -> Selection {
        Selection { packages: Some(packages.iter().map(|name| (*name).to_owned()).collect()), quick, protoc }
    }

    #[test]
    fn requests_are_read_and_wrong_ones_refused() {
        let read = |words: &[&str]| Request::parse(words).ok().map(|request| (request.scope, request.profile));
        assert_eq!(read(&[]), Some((Scope::Whole, "dev".into())));
        assert_eq!(read(&["--fast"]), Some((Scope::Changed, "dev".into())));
        assert_eq!(read(&["--sources"]), Some((Scope::Sources, "dev".into())));
        assert_eq!(read(&["-p", "x", "--profile", "sim"]), Some((Scope::Above("x".into()), "sim".into())));
        for bad in [&["--slow"][..], &["-p"], &["--fast", "-p", "x"], &["--profile"]] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn dependents_are_found_through_others_and_through_tests() {
        let members = [
            member("ohm-a", &[]),
            member("ohm-b", &[("ohm-a", false)]),
            member("ohm-c", &[("ohm-b", true)]),
            member("ohm-d", &[]),
        ];
        let names =
            |name: &str| above(name, &members).ok().map(|found| found.into_iter().collect::<Vec<_>>().join(" "));
        assert_eq!(names("ohm-a").as_deref(), Some("ohm-a ohm-b ohm-c"));
        assert_eq!(names("b").as_deref(), Some("ohm-b ohm-c"));
        assert_eq!(names("x"), None);
    }

    #[test]
    fn features_are_asked_for_where_their_crate_is_and_protoc_too() {
        let whole = |protoc| Selection { packages: None, quick: false, protoc };
        assert_eq!(whole(true).arguments(), ["--workspace", "--features", "ohm/etcd,ohm-log-etcd/client"]);
        assert_eq!((whole(false).arguments(), whole(false).notes().len()), (vec!["--workspace".to_owned()], 1));
        let some = selection(&["ohm-cell", "ohm-log-etcd"], false, true);
        let expected = ["--package", "ohm-cell", "--package", "ohm-log-etcd", "--features", "ohm-log-etcd/client"];
        assert_eq!(some.arguments(), expected);
        assert_eq!(selection(&["ohm-cell"], false, false).notes(), Vec::<String>::new());
    }

    #[test]
    fn only_the_quick_check_leaves_slow_tests_out() {
        let (tests, left_out) = selection(&["ohm", "ohm-cell"], true, false).for_tests();
        assert_eq!((tests.describe().as_str(), left_out), ("ohm-cell", vec!["ohm"]));
        let (tests, left_out) = selection(&["ohm", "ohm-cell"], false, false).for_tests();
        assert_eq!((tests.describe().as_str(), left_out.len()), ("ohm ohm-cell", 0));
        assert!(selection(&["ohm"], true, false).for_tests().0.is_empty());
    }
}
