//! What the memory of a run's group says once the kernel has killed in it: on whose account.
//!
//! | | version 2 | version 1 |
//! |---|---|---|
//! | how many of its processes were killed for memory, by whichever limit | `memory.events`, `oom_kill` | |
//! | | | `memory.oom_control`, `oom_kill` |
//! | how often its own limit was in the way | `memory.events`, `oom` | `memory.failcnt` |
//! | the most it took | `memory.peak` (5.19) | `memory.max_usage_in_bytes` |
//!
//! Whatever was killed while the own limit was not in the way was killed from above: the memory of the node had ended,
//! or that of a group around all of Ohm. Version 1 counts what could be helped, too: there a run that filled its limit
//! with files and is killed from above later counts as killed by its limit.

use super::layout::Version;
use super::limits::Resources;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// Whether the kernel killed any process of a run for memory, and on whose account. Written to journals, where `true`
/// was once the second of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryKill {
    /// It did not, or nothing is known of the run's doing.
    #[default]
    None,
    /// The run took as much as it may.
    OverLimit,
    /// The node's memory ended, and the run had taken more than it asked for.
    OverRequest,
}

/// What the group of a run has counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    kills: u64,
    at_limit: u64,
    /// The most it took, in bytes, where the kernel says so.
    peak_bytes: Option<u64>,
}

impl Counters {
    /// What the group in `folder` says; nothing where it can't be read.
    pub(super) fn read(folder: &Path, version: Version) -> Self {
        let text = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
        let number = |file: &str| text(file).trim().parse::<u64>().ok();
        match version {
            Version::One => Counters {
                kills: field(&text("memory.oom_control"), "oom_kill"),
                at_limit: number("memory.failcnt").unwrap_or(0),
                peak_bytes: number("memory.max_usage_in_bytes"),
            },
            Version::Two => {
                let events = text("memory.events");
                Counters {
                    kills: field(&events, "oom_kill"),
                    at_limit: field(&events, "oom"),
                    peak_bytes: number("memory.peak"),
                }
            }
        }
    }

    /// What was killed since `before`.
    pub(super) fn kill_since(&self, before: &Counters, resources: &Resources) -> MemoryKill {
        if self.kills <= before.kills {
            MemoryKill::None
        } else if self.at_limit > before.at_limit {
            MemoryKill::OverLimit
        } else if self.is_over_request(resources) {
            MemoryKill::OverRequest
        } else {
            MemoryKill::None
        }
    }

    /// Whether it took more than its run asked for, or may have, where the kernel does not say.
    fn is_over_request(&self, resources: &Resources) -> bool {
        !resources.has_exact_memory() && self.peak_bytes.is_none_or(|peak| peak > resources.requests.memory_bytes)
    }

    /// Whether it is known to have taken more than so many bytes.
    pub(super) fn has_peak_over(&self, bytes: u64) -> bool {
        self.peak_bytes.is_some_and(|peak| peak > bytes)
    }
}

fn field(text: &str, name: &str) -> u64 {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_without_the_own_limit_in_the_way_came_from_above() {
        let of = |kills, at_limit, peak_bytes| Counters { kills, at_limit, peak_bytes };
        let before = of(2, 3, Some(0));
        let told = |now: Counters, resources| now.kill_since(&before, &resources);
        assert_eq!(told(of(2, 9, Some(900)), Resources::of_memory(100, 0)), MemoryKill::None, "nothing was killed");
        assert_eq!(told(of(3, 4, Some(900)), Resources::of_memory(100, 900)), MemoryKill::OverLimit);
        assert_eq!(told(of(3, 3, Some(101)), Resources::of_memory(100, 900)), MemoryKill::OverRequest);
        assert_eq!(
            told(of(3, 3, Some(100)), Resources::of_memory(100, 900)),
            MemoryKill::None,
            "it had no more than it asked for"
        );
        assert_eq!(
            told(of(3, 3, None), Resources::of_memory(100, 0)),
            MemoryKill::OverRequest,
            "an old kernel does not say"
        );
        assert_eq!(told(of(3, 3, None), Resources::of_memory(100, 100)), MemoryKill::None, "it can't have had more");
        assert_eq!(
            told(of(3, 3, Some(1)), Resources::of_memory(0, 0)),
            MemoryKill::OverRequest,
            "it asked for nothing"
        );
    }

    #[test]
    fn both_versions_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(folder.path().join(file), text).unwrap();
        assert_eq!(Counters::read(folder.path(), Version::Two), Counters::default());
        write("memory.events", "low 0\nhigh 0\nmax 7\noom 2\noom_kill 5\noom_group_kill 1\n");
        write("memory.peak", "4096\n");
        let two = Counters { kills: 5, at_limit: 2, peak_bytes: Some(4096) };
        assert_eq!(Counters::read(folder.path(), Version::Two), two);
        write("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
        write("memory.failcnt", "6\n");
        write("memory.max_usage_in_bytes", "8192\n");
        let one = Counters { kills: 4, at_limit: 6, peak_bytes: Some(8192) };
        assert_eq!(Counters::read(folder.path(), Version::One), one);
    }

    #[test]
    fn journals_of_former_shims_are_read() {
        for (was, is) in [(false, MemoryKill::None), (true, MemoryKill::OverLimit)] {
            assert_eq!(ohm_stdx::codec::encode(&was), ohm_stdx::codec::encode(&is));
        }
    }
}
