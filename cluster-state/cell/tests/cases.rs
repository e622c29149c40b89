//! Cases as text: a script of short commands, `----`, and everything the cell said to it. `OHM_BLESS=1` writes what it
//! says now into the files, to be read before it is kept.

use crate::script;

use ohm_cell::{Applied, Cell, restore};
use ohm_model::{BudgetRef, ConflictReason};
use script::Script;
use std::panic::AssertUnwindSafe;
use std::path::Path;

const DIVIDER: &str = "----\n";

#[test]
fn every_case_says_what_its_file_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 20, "the cases are in {}", folder.display());
    let wrong: Vec<String> = paths.iter().filter_map(|path| check(path).err()).collect();
    assert!(wrong.is_empty(), "{} of {} cases differ:\n\n{}", wrong.len(), paths.len(), wrong.join("\n"));
}

#[test]
fn every_reason_for_a_conflict_has_a_case() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    let said: String = files.map(|text| text.split_once(DIVIDER).unwrap().1.to_string()).collect();
    let (resource, port) = (ohm_model::ResourceId(0), ohm_model::HostPort::tcp(80));
    for reason in [
        ConflictReason::NodeGone,
        ConflictReason::NodeNotReady,
        ConflictReason::NodeClassChanged,
        ConflictReason::NodeFull(resource),
        ConflictReason::PortTaken(port),
        ConflictReason::LimitReached,
        ConflictReason::PodAffinity,
        ConflictReason::PodAntiAffinity,
        ConflictReason::PodTopologySpread,
        ConflictReason::Held,
        ConflictReason::NodeChanged,
        ConflictReason::TaskNotPending,
        ConflictReason::JobChanged,
        ConflictReason::JobClosed,
        ConflictReason::NotReserved,
        ConflictReason::QuotaExceeded,
        ConflictReason::GangShort,
        ConflictReason::TopologyBroken,
        ConflictReason::ShardLost,
        ConflictReason::SessionGone,
        ConflictReason::Malformed,
        ConflictReason::Together,
        ConflictReason::SpareUnused,
        ConflictReason::FlavorMissing,
        ConflictReason::NoRight,
        ConflictReason::NoNeed,
        ConflictReason::OutOfTurn,
        ConflictReason::QueueHeld,
        ConflictReason::BacksOff(0),
        ConflictReason::BudgetExceeded(BudgetRef::Named(1)),
    ] {
        assert!(said.contains(&format!(": {}", reason.name())), "no case ends in {}", reason.name());
    }
}

fn check(path: &Path) -> Result<(), String> {
    let name = path.file_stem().unwrap().to_string_lossy();
    let text = std::fs::read_to_string(path).unwrap();
    let (input, expected) = text.split_once(DIVIDER).unwrap_or((&text, ""));
    let mut script = Script::new();
    for line in input.lines() {
        let ran = std::panic::catch_unwind(AssertUnwindSafe(|| script.run(line)));
        if ran.is_err() {
            return Err(format!("{name}: `{line}` panicked after\n{}", script.output));
        }
        let broken = script.cell.invariants();
        if !broken.is_empty() {
            return Err(format!("{name}: after `{line}`: {broken:#?}\n{}", script.output));
        }
    }
    check_copies(&script).map_err(|problem| format!("{name}: {problem}"))?;
    if std::env::var_os("OHM_BLESS").is_some() {
        std::fs::write(path, format!("{input}{DIVIDER}{}", script.output)).unwrap();
        return Ok(());
    }
    if script.output == expected { Ok(()) } else { Err(difference(&name, expected, &script.output)) }
}

/// The same entries give the same state, outcomes and events on a second copy; a snapshot gives the state back.
fn check_copies(script: &Script) -> Result<(), String> {
    let (mut copy, mut applied) = (Cell::new(), Applied::default());
    for (index, entry, first) in &script.log {
        copy.apply(*index, entry, &mut applied);
        if applied != *first {
            return Err(format!("a second copy differs at entry {index}:\n{applied:#?}\n{first:#?}"));
        }
    }
    let cell = &script.cell;
    if copy.chain() != cell.chain() || copy.digest() != cell.digest() || copy != *cell {
        return Err("a second copy ends in another state".into());
    }
    let restored = restore(&cell.snapshot_bytes()).map_err(|error| error.to_string())?;
    if restored.digest() != cell.digest() || restored != *cell {
        return Err("the snapshot gives another state back".into());
    }
    Ok(())
}

fn difference(name: &str, expected: &str, found: &str) -> String {
    let (mut left, mut right) = (expected.lines(), found.lines());
    let mut text = format!("{name}:\n");
    loop {
        match (left.next(), right.next()) {
            (None, None) => return text,
            (a, b) if a == b => text.push_str(&format!("    {}\n", a.unwrap_or_default())),
            (a, b) => {
                a.into_iter().for_each(|line| text.push_str(&format!("  - {line}\n")));
                b.into_iter().for_each(|line| text.push_str(&format!("  + {line}\n")));
            }
        }
    }
}
