//! The log at rest: the data folder of a server, of several the one that goes furthest, replayed entry by entry. (`ohm
//! log verify` checks the invariants.)

use crate::entries::longest;
use crate::error::LiveError;
use crate::etcd;
use crate::history::Logged;
use crate::verdict::Finding;
use ohm_cell::{Applied, Cell};
use ohm_model::{Entry, JobId};
use ohm_oracle::{Caused, Oracle, Record};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// What is left of the cell.
pub(crate) struct Replayed {
    pub(crate) log: Vec<Logged>,
    /// Jobs that wait in the end although they fit, and those that waited too long before.
    pub(crate) findings: Vec<Finding>,
    /// The longest time for which every look found the same job waiting although it fitted, in milliseconds.
    pub(crate) longest_idle_ms: u64,
}

/// Between two looks at what waits, in milliseconds of stamped time.
const LOOK_MS: u64 = 1_000;
/// How long a job may wait that every look finds to fit, in milliseconds: the bound of P10.
const IDLE_MS_MAX: u64 = 60_000;

/// Looks now and then at the jobs that wait although they fit.
#[derive(Default)]
struct Idle {
    next_ms: u64,
    /// Since when each of them is seen, by what it waits for.
    since_ms: BTreeMap<(JobId, u64), u64>,
    longest_ms: u64,
    /// Who was found to wait too long.
    late: BTreeMap<JobId, Finding>,
}

impl Idle {
    fn look(&mut self, now_ms: u64, oracle: &Oracle) {
        if now_ms < self.next_ms {
            return;
        }
        self.next_ms = now_ms + LOOK_MS;
        let former = std::mem::take(&mut self.since_ms);
        for stuck in oracle.stuck_jobs() {
            let since_ms = former.get(&(stuck.job, stuck.attempts)).copied().unwrap_or(now_ms);
            let idle_ms = now_ms - since_ms;
            self.since_ms.insert((stuck.job, stuck.attempts), since_ms);
            self.longest_ms = self.longest_ms.max(idle_ms);
            if idle_ms > IDLE_MS_MAX {
                let what = format!("for {idle_ms} ms until {now_ms}: {}", stuck.broken.what);
                self.late.entry(stuck.job).or_insert_with(|| Finding::alone("P10", what));
            }
        }
    }
}

/// Replays the log in etcd; without one the longest log of those in the servers' data folders, which no server has open
/// any more. Each of several ends where its server was killed or stopped last; what one lacks at its end another has.
/// With `judges_waits` nobody who decides was ever away: then no job may wait for long although it fits, not even while
/// nodes go down.
pub(crate) fn replay(server_folders: &[PathBuf], etcd: &[String], judges_waits: bool) -> Result<Replayed, LiveError> {
    let (snapshot, entries) = match etcd {
        [] => longest(server_folders)?,
        members => etcd::entries(members)?,
    };
    if let Some(index) = snapshot {
        return Err(LiveError::Log(format!("the log begins after entry {index}: what came before can't be judged")));
    }
    let (mut cell, mut oracle) = (Cell::new(), Oracle::default());
    let (mut log, mut idle) = (Vec::new(), Idle::default());
    for (index, bytes) in &entries {
        let entry = Entry::decode(bytes).map_err(|error| LiveError::Log(format!("entry {index}: {error}")))?;
        let mut applied = Applied::default();
        cell.apply(*index, &entry, &mut applied);
        let (at_ms, index, chain) = (entry.stamp_ms, *index, cell.chain());
        let caused = Caused { outcomes: applied.outcomes, events: applied.events };
        let (entry, applied) = (Arc::new(entry), Arc::new(caused));
        let logged = Logged { index, entry, applied, chain };
        let Logged { entry, applied, .. } = logged.clone();
        oracle.watch(&Record::Applied { at_ms, copy: "the log".into(), index, entry, applied, chain });
        if judges_waits {
            idle.look(at_ms, &oracle);
        }
        log.push(logged);
    }
    let stuck = oracle.stuck_jobs().into_iter().map(|stuck| Finding { broken: stuck.broken, before: Vec::new() });
    Ok(Replayed { log, findings: stuck.chain(idle.late.into_values()).collect(), longest_idle_ms: idle.longest_ms })
}
