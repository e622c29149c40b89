//! The layers of the workspace: which crate may import which, and which of them are pure.
//!
//! Imports point down only. The table below is the whole rule: a crate may depend on crates of strictly lower layers
//! and on nothing else of ours, for its tests too. A crate that is not in the table fails the check.

use std::fmt::Write;

use crate::workspace::{Dependency, Member};

/// What a crate may do with the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nature {
    /// A core: no clock, socket, disk, thread, async, float or hidden randomness. Names its third parties in the table.
    Pure,
    /// A core crate that also holds generated message code, which the source rules pass over.
    PureGenerated,
    /// A process around a core; free in its third parties.
    Shell,
}

/// One crate of a layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The name of the package.
    pub(crate) name: &'static str,
    /// What it may do.
    pub(crate) nature: Nature,
    /// Third parties it may name beside [`EVERYWHERE`]; for pure crates only.
    third_parties: &'static [&'static str],
}

/// An edge between two crates of one layer that is allowed, and why.
pub(crate) struct Neighbours {
    /// Who imports.
    from: &'static str,
    /// Who is imported.
    to: &'static str,
    /// Why this is no breach of the wall between them.
    reason: &'static str,
}

const fn pure(name: &'static str, third_parties: &'static [&'static str]) -> Place {
    Place { name, nature: Nature::Pure, third_parties }
}

const fn shell(name: &'static str) -> Place {
    Place { name, nature: Nature::Shell, third_parties: &[] }
}

const WIRE: Place = Place {
    name: "ohm-wire",
    nature: Nature::PureGenerated,
    third_parties: &["bytes", "prost", "prost-types", "protox", "tonic", "tonic-prost", "tonic-prost-build"],
};

/// The layers, lowest first.
pub(crate) const LAYERS: &[&[Place]] = &[
    &[pure("ohm-stdx", &["bincode", "bytes", "crc32fast", "rand", "rand_chacha", "xxhash-rust"])],
    &[pure("ohm-model", &[])],
    &[
        pure("ohm-manifest", &["serde-saphyr", "serde_json", "serde_path_to_error"]),
        pure("ohm-cell", &[]),
        pure("ohm-log", &["bytes"]),
        // Beside the cell, which it judges: the oracle counts everything itself.
        pure("ohm-oracle", &[]),
    ],
    // Sessions and leases are what schedulers, the health duty and servers are built on.
    &[WIRE, pure("ohm-client", &[]), pure("ohm-agent", &[])],
    // The order of work knows nothing of planners; the scheduler core uses it.
    &[pure("ohm-health", &[]), pure("ohm-provisioning", &[]), pure("ohm-queueing", &[])],
    &[pure("ohm-framework", &[])],
    &[
        pure("ohm-replica", &["bytes"]),
        pure("ohm-log-raft", &["bytes", "protobuf", "raft", "slog"]),
        pure("ohm-placement", &[]),
    ],
    &[pure("ohm-planner", &[])],
    &[pure("ohm-offline", &[])],
    &[pure("ohm-sim", &["bytes", "serde_json"])],
    &[shell("ohm-runtime")],
    &[shell("ohm-log-etcd")],
    &[shell("ohm-server"), shell("ohm-daemon"), shell("ohm-node"), shell("ohm-cli"), shell("ohm-live")],
    &[shell("ohm"), shell("ohm-fuzz")],
];

/// Third parties that every pure crate may name.
const EVERYWHERE: &[&str] = &["serde", "thiserror"];

/// Third parties that the tests and benches of every pure crate may name.
const IN_TESTS: &[&str] = &["criterion", "proptest", "serde_json", "tempfile"];

/// Crates that stand apart: nothing of ours imports them, and they import nothing of ours.
const APART: &[&str] = &["xtask"];

/// Edges inside one layer that are allowed. None is needed so far; each new one takes a reason.
pub(crate) const NEIGHBOURS: &[Neighbours] = &[];

/// The layer (from 0, lowest first) and the table entry of a crate.
pub(crate) fn find(name: &str) -> Option<(usize, &'static Place)> {
    LAYERS.iter().enumerate().find_map(|(layer, places)| {
        let place = places.iter().find(|place| place.name == name)?;
        Some((layer, place))
    })
}

/// Every breach of the table by the given members.
pub(crate) fn findings(members: &[Member], neighbours: &[Neighbours]) -> Vec<String> {
    members.iter().flat_map(|member| member_findings(member, neighbours)).collect()
}

fn member_findings(member: &Member, neighbours: &[Neighbours]) -> Vec<String> {
    if APART.contains(&member.name.as_str()) {
        let internal = member.dependencies.iter().filter(|dependency| dependency.internal);
        return internal.map(|to| format!("{} stands apart and may not import {}", member.name, to.name)).collect();
    }
    let Some((layer, place)) = find(&member.name) else {
        return vec![format!("{} is not in the table of crates/xtask/src/layers.rs: give it a layer", member.name)];
    };
    let judge = |dependency: &Dependency| match dependency.internal {
        true => judge_internal(&member.name, layer, &dependency.name, neighbours),
        false => judge_third_party(place, dependency),
    };
    member.dependencies.iter().filter_map(judge).collect()
}

/// Why an edge inside the workspace is refused, if it is.
fn judge_internal(from: &str, layer: usize, to: &str, neighbours: &[Neighbours]) -> Option<String> {
    let Some((target, _)) = find(to) else {
        return Some(format!("{from} may not import {to}, which has no layer"));
    };
    let excepted = neighbours.iter().any(|edge| edge.from == from && edge.to == to && !edge.reason.is_empty());
    match target.cmp(&layer) {
        std::cmp::Ordering::Less => None,
        std::cmp::Ordering::Equal if excepted => None,
        std::cmp::Ordering::Equal => Some(format!("{from} may not import {to}: both are of layer {layer}")),
        std::cmp::Ordering::Greater => {
            Some(format!("{from} (layer {layer}) may not import {to} (layer {target}): imports point down only"))
        }
    }
}

/// Why a pure crate may not name a third party, if it may not.
fn judge_third_party(place: &Place, dependency: &Dependency) -> Option<String> {
    let name = dependency.name.as_str();
    let allowed = place.nature == Nature::Shell
        || EVERYWHERE.contains(&name)
        || place.third_parties.contains(&name)
        || (dependency.for_tests && IN_TESTS.contains(&name));
    let kind = if dependency.for_tests { "tests of the pure crate" } else { "pure crate" };
    (!allowed)
        .then(|| format!("{kind} {} may not name {name}: not in its list in crates/xtask/src/layers.rs", place.name))
}

/// The table as text, highest layer first: the crates that there are.
pub(crate) fn describe(members: &[Member]) -> String {
    let mut text = String::from("Imports point down only; * marks a shell, all others are pure.\n\n");
    for (layer, places) in LAYERS.iter().enumerate().rev() {
        let name = |place: &Place| format!("{}{}", place.name, if place.nature == Nature::Shell { "*" } else { "" });
        let exists = |place: &&Place| members.iter().any(|member| member.name == place.name);
        let names: Vec<String> = places.iter().filter(exists).map(name).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{layer:>3}  {}", names.join("  "));
    }
    for edge in NEIGHBOURS {
        let _ = writeln!(text, "     {} may import its neighbour {}: {}", edge.from, edge.to, edge.reason);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, dependencies: &[(&str, bool)]) -> Member {
        let dependency = |(name, for_tests): &(&str, bool)| Dependency {
            name: (*name).to_owned(),
            internal: name.starts_with("ohm") || *name == "xtask",
            for_tests: *for_tests,
        };
        let dependencies = dependencies.iter().map(dependency).collect();
        Member { name: name.into(), folder: String::new(), dependencies }
    }

    fn refused(name: &str, dependency: &str, for_tests: bool) -> bool {
        !findings(&[member(name, &[(dependency, for_tests)])], NEIGHBOURS).is_empty()
    }

    #[test]
    fn imports_point_down_only() {
        assert!(!refused("ohm-model", "ohm-stdx", false));
        assert!(!refused("ohm", "ohm-server", false));
        assert!(refused("ohm-stdx", "ohm-model", false));
        assert!(refused("ohm-stdx", "ohm-model", true), "tests are no way around the table");
        assert!(refused("ohm-sim", "ohm-runtime", false));
    }

    #[test]
    fn neighbours_need_an_entry_with_a_reason() {
        let members = [member("ohm-server", &[("ohm-daemon", false)])];
        assert_eq!(findings(&members, &[]).len(), 1);
        let entry = |reason| [Neighbours { from: "ohm-server", to: "ohm-daemon", reason }];
        assert_eq!(findings(&members, &entry("")).len(), 1);
        assert_eq!(findings(&members, &entry("a reason")).len(), 0);
    }

    #[test]
    fn the_oracle_does_not_ask_the_cell_that_it_judges() {
        assert!(refused("ohm-oracle", "ohm-cell", false));
        assert!(refused("ohm-oracle", "ohm-cell", true));
        assert!(!refused("ohm-oracle", "ohm-model", false));
    }

    #[test]
    fn unknown_crates_fail() {
        assert_eq!(findings(&[member("ohm-new", &[])], &[]).len(), 1);
        assert!(refused("ohm-cell", "ohm-new", false));
    }

    #[test]
    fn xtask_stands_apart() {
        assert!(refused("xtask", "ohm-stdx", false));
        assert!(refused("ohm", "xtask", false));
        assert!(!refused("xtask", "anyhow", false));
    }

    #[test]
    fn pure_crates_name_only_their_listed_third_parties() {
        assert!(!refused("ohm-cell", "serde", false));
        assert!(!refused("ohm-log-raft", "raft", false));
        assert!(!refused("ohm-cell", "proptest", true));
        assert!(!refused("ohm-server", "tokio", false));
        assert!(refused("ohm-cell", "tokio", false));
        assert!(refused("ohm-cell", "raft", false));
        assert!(refused("ohm-cell", "proptest", false));
        assert!(refused("ohm-cell", "tokio", true));
    }

    #[test]
    fn no_crate_stands_twice() {
        let mut names: Vec<&str> = LAYERS.iter().flat_map(|places| places.iter().map(|place| place.name)).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        let members: Vec<Member> = names.iter().map(|name| member(name, &[])).collect();
        assert!(names.iter().all(|name| describe(&members).contains(name)));
        assert!(!describe(&members[..count - 1]).contains(names[count - 1]), "what does not exist is not shown");
    }
}
