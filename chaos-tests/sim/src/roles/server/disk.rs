//! Faults of a server's disk, and servers that end because of them.

use super::ServerProcess;
use crate::faults::{Fault, Victim};
use crate::role::Role;
use crate::stage::{Event, Stage};
use ohm_log::{Disk, Fault as DiskFault, MemDisk};
use ohm_log_raft::{Mark, open_read_only};
use ohm_model::Index;
use ohm_replica::Noted;
use ohm_stdx::Prng;

/// How long a machine goes on that is about to lose power.
const LAST_MS: u64 = 500;

/// How many places are tried to cut a log at.
const CUTS_MAX: usize = 16;

/// A bit that was flipped: file and position.
type FlippedBit = (String, u64);

impl ServerProcess {
    /// The process is killed, and comes back; with `power_loss` what was not synced may be gone.
    pub(crate) fn crash(&mut self, down_ms: u64, power_loss: bool, stage: &mut Stage) {
        let mut dice = stage.dice.fork();
        self.core = None;
        // A disk that is about to fail does not work again because a process ended.
        let power_loss = power_loss || self.doomed.is_some();
        (self.doomed, self.slow_disk) = (None, None);
        if let Noted::ThisBoot(note) = self.noted
            && power_loss
        {
            // The machine boots anew.
            self.noted = Noted::FormerBoot(note);
        }
        match power_loss {
            true => [&self.disk, &self.marks].into_iter().for_each(|disk| disk.borrow_mut().crash(&mut dice)),
            false => self.disk.borrow_mut().power_on(),
        }
        stage.break_connections_to(self.number);
        self.requests.clear();
        stage.agenda.after(down_ms, Event::Restart(Victim::Server(self.number)));
    }

    pub(crate) fn strike_disk(&mut self, fault: Fault, stage: &mut Stage) {
        let (server, starts, now_ms) = (self.number, self.shell.starts, stage.now_ms());
        if !self.is_up() || self.doomed.is_some() {
            return;
        }
        match fault {
            Fault::PowerLoss { after_calls, down_ms, .. } => {
                self.lose_power_after(after_calls, down_ms);
                stage.agenda.after(LAST_MS, Event::DiskDeadline { server, starts });
            }
            Fault::FailedDisk { after_calls, down_ms, .. } => self.fail_disk_after(after_calls, down_ms),
            Fault::FullDisk { for_ms, .. } => {
                self.fill_disk(true);
                stage.agenda.after(for_ms, Event::DiskRoom { server, starts: u64::MAX });
            }
            Fault::SlowDisk { by_ms, for_ms, .. } => self.slow_disk = Some((by_ms, now_ms + for_ms)),
            Fault::BitRot { down_ms, .. } => self.rot(down_ms, stage),
            _ => {}
        }
    }

    /// The disk was made to fail, and now did: the process has ended by itself.
    pub(super) fn disk_failed(&mut self, stage: &mut Stage) {
        let Some(down_ms) = self.doomed else { return };
        stage.note(|| format!("server {} ends: its disk failed", self.number + 1));
        self.crash(down_ms, true, stage);
    }

    /// A server whose machine loses power ends with it, also when it had nothing to write.
    pub(crate) fn end_doomed(&mut self, starts: u64, stage: &mut Stage) {
        if self.shell.starts == starts && self.is_up() {
            self.disk_failed(stage);
        }
    }

    pub(crate) fn give_disk_room(&mut self, starts: u64) {
        if self.shell.starts <= starts {
            self.fill_disk(false);
        }
    }

    /// The operator looks after the disk.
    pub(crate) fn heal_disk(&mut self, stage: &mut Stage) {
        self.fill_disk(false);
        self.slow_disk = None;
        if self.doomed.is_some() && self.is_up() {
            self.disk_failed(stage);
        }
    }

    /// It restarts over a disk that flipped a bit. It either names the damage and stays down until the file is
    /// restored, or has lost nothing; the oracle compares what it applies with what was applied before.
    fn rot(&mut self, down_ms: u64, stage: &mut Stage) {
        self.crash(down_ms, false, stage);
        let mut dice = stage.dice.fork();
        let Some((file, bit)) = self.flip_bit(&mut dice) else { return };
        match self.open(&mut dice) {
            Err(error) => {
                stage.note(|| format!("server {} does not start: {error}", self.number + 1));
                // Somebody restores the file.
                self.disk.borrow_mut().flip_bit(&file, bit);
            }
            Ok(()) => stage.note(|| format!("server {} starts over a flipped bit in {file}", self.number + 1)),
        }
    }

    /// It restarts and finds its log gone, and the rest of its data folder as it was. True if it says so and stays
    /// down: then the files are put back.
    pub(crate) fn lose_log(&mut self, down_ms: u64, stage: &mut Stage) -> bool {
        self.damage_log(down_ms, stage, |_, _, _| Some(MemDisk::new()))
    }

    /// The same with a log whose end is gone, if it can be cut before what its mark says was durable.
    pub(crate) fn cut_log(&mut self, down_ms: u64, stage: &mut Stage) -> bool {
        self.damage_log(down_ms, stage, |whole, marked, dice| {
            let mut cuts = (0..CUTS_MAX).map(|_| cut(whole.clone(), dice));
            cuts.find(|cut| open_read_only(&mut cut.clone()).is_ok_and(|found| found.last < marked))
        })
    }

    fn damage_log(
        &mut self,
        down_ms: u64,
        stage: &mut Stage,
        damage: impl FnOnce(&MemDisk, Index, &mut Prng) -> Option<MemDisk>,
    ) -> bool {
        if !self.is_up() || self.doomed.is_some() {
            return false;
        }
        let (mut dice, mark) = (stage.dice.fork(), Mark::read(&mut *self.marks.borrow_mut()));
        let marked = mark.ok().flatten().map_or(Index(0), |mark| mark.index());
        let Some(damaged) = damage(&self.disk.borrow(), marked, &mut dice) else { return false };
        self.crash(down_ms, false, stage);
        let whole = self.disk.replace(damaged);
        match self.open(&mut dice) {
            Err(error) => {
                stage.note(|| format!("server {} does not start: {error}", self.number + 1));
                self.disk.replace(whole);
                true
            }
            Ok(()) => {
                stage.note(|| format!("server {} starts over the log that is left", self.number + 1));
                false
            }
        }
    }

    /// From so many more disk calls on, every one fails: the machine is losing power.
    fn lose_power_after(&mut self, calls: u64, down_ms: u64) {
        let mut disk = self.disk.borrow_mut();
        let last = disk.calls() + calls;
        disk.power_off_after(last);
        self.doomed = Some(down_ms);
    }

    /// One disk call fails, after so many more.
    fn fail_disk_after(&mut self, calls: u64, down_ms: u64) {
        let mut disk = self.disk.borrow_mut();
        let at = disk.calls() + calls + 1;
        disk.fail_at(at, DiskFault::Failed);
        self.doomed = Some(down_ms);
    }

    /// Leaves the disk no room, or gives all of it back.
    fn fill_disk(&mut self, full: bool) {
        for disk in [&self.disk, &self.marks] {
            let mut disk = disk.borrow_mut();
            let used = disk.used_bytes();
            disk.set_capacity_bytes(full.then_some(used));
        }
    }

    /// Flips a bit of something that was durable long ago: anywhere but in the last write to the newest segment, where
    /// it would look like an unfinished one.
    fn flip_bit(&mut self, dice: &mut Prng) -> Option<FlippedBit> {
        let mut disk = self.disk.borrow_mut();
        let files = disk.list().ok()?;
        let newest = files.iter().filter(|file| file.name.starts_with("wal-")).map(|file| file.name.clone()).max();
        let old_bytes = |file: &ohm_log::FileStatus| match newest.as_ref() == Some(&file.name) {
            true => disk.settled_bytes(&file.name),
            false => file.bytes,
        };
        let is_log = |name: &str| name.starts_with("wal-") || name.starts_with("snapshot-");
        let old = |file: &ohm_log::FileStatus| is_log(&file.name) && old_bytes(file) > 512;
        let files: Vec<ohm_log::FileStatus> = files.into_iter().filter(old).collect();
        let file = dice.pick(&files)?;
        let bit = dice.below(old_bytes(file) * 8);
        disk.flip_bit(&file.name, bit).then(|| (file.name.clone(), bit))
    }

    /// How many syncs of files there were.
    pub(super) fn syncs(&self) -> u64 {
        self.disk.borrow().syncs()
    }
}

/// The log without its end: segments from one on are gone, and a part of the one before.
fn cut(mut disk: MemDisk, dice: &mut Prng) -> MemDisk {
    let files = disk.list().unwrap_or_default();
    let segments: Vec<ohm_log::FileStatus> = files.into_iter().filter(|file| file.name.starts_with("wal-")).collect();
    let kept = dice.below(segments.len().max(1) as u64) as usize;
    if let Some(last) = segments.get(kept) {
        let done = disk.truncate(&last.name, dice.below(last.bytes.max(1))).and_then(|()| disk.sync(&last.name));
        let gone = segments[kept + 1..].iter().try_for_each(|file| disk.remove(&file.name));
        let _ = done.and(gone).and_then(|()| disk.sync_folder());
    }
    disk
}
