//! libFuzzer around the targets of `ohm-fuzz`; `cargo xtask fuzz` builds it and runs it.
//!
//! `OHM_FUZZ_TARGET` names the target; with `list` they are listed. With `OHM_FUZZ_SEEDS` the seeds of the target are
//! written into that folder, and nothing is run.
#![no_main]

use cap::Cap;
use libfuzzer_sys::fuzz_target;
use ohm_fuzz::Target;
use std::alloc::System;
use std::path::Path;
use std::sync::OnceLock;

/// What one input may make a target allocate, beside what it keeps from run to run: more is a finding.
const GROWTH_BYTES_MAX: usize = 128 << 20;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);
static TARGET: OnceLock<&'static Target> = OnceLock::new();

fn target() -> &'static Target {
    TARGET.get_or_init(|| {
        let name = std::env::var("OHM_FUZZ_TARGET").unwrap_or_default();
        let names: Vec<&str> = ohm_fuzz::TARGETS.iter().map(|target| target.name).collect();
        ohm_fuzz::find(&name).unwrap_or_else(|| panic!("OHM_FUZZ_TARGET is {name:?}; known are {}", names.join(", ")))
    })
}

fn begin() {
    if std::env::var("OHM_FUZZ_TARGET").is_ok_and(|name| name == "list") {
        ohm_fuzz::TARGETS.iter().for_each(|target| println!("target {}", target.name));
        std::process::exit(0);
    }
    if let Ok(folder) = std::env::var("OHM_FUZZ_SEEDS") {
        for (number, seed) in (target().seeds)().iter().enumerate() {
            std::fs::write(Path::new(&folder).join(format!("seed-{number:04}")), seed).expect("the seed is written");
        }
        std::process::exit(0);
    }
    // What a target makes once is there before the bound is set.
    (target().run)(&[]);
    let _ = ALLOCATOR.set_limit(ALLOCATOR.allocated() + GROWTH_BYTES_MAX);
}

fuzz_target!(init: begin(), |input: &[u8]| (target().run)(input));
