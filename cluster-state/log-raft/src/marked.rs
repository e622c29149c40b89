//! Logs with a mark beside them.

use crate::config::RaftConfig;
use crate::error::OpenError;
use crate::identity::{self, Folder, inspect};
use crate::mark::{Mark, Marker};
use crate::raft_log::RaftLog;
use crate::record::Position;
use crate::remark::Remarks;
use ohm_log::{Disk, DiskError, LogFailure};

impl<D: Disk> RaftLog<D> {
    /// The same as [`RaftLog::create`] with a mark on `marks`. A member whose mark says that it had a log is refused.
    pub fn create_marked(mut disk: D, mut marks: D, config: RaftConfig, remarks: Remarks) -> Result<Self, OpenError> {
        config.check()?;
        if let Folder::Log(_) = inspect(&mut disk)? {
            return Err(OpenError::NotEmpty { file: identity::IDENTITY.into() });
        }
        let mark = Mark::read(&mut marks)?;
        if let Some(mark) = mark.filter(|mark| mark.is_of(config.cell, config.member) && mark.forbids()) {
            return Err(mark.gone());
        }
        Mark::new(&config, false, Position::default()).write(&mut marks)?;
        identity::create(&mut disk, config.cell, config.member, &config.founders, Position::default())?;
        Self::open_marked(disk, marks, config, remarks)
    }

    /// The same as [`RaftLog::open`] with a mark on `marks`. A log of a former version has none yet.
    pub fn open_marked(disk: D, mut marks: D, config: RaftConfig, remarks: Remarks) -> Result<Self, OpenError> {
        let mark = Mark::read(&mut marks)?;
        if let Some(mark) = &mark {
            mark.check(config.cell, config.member)?;
        }
        let mut log = Self::open_checked(disk, config, remarks, mark.as_ref())?;
        let is_former = mark.is_none();
        let mark = match mark.filter(|mark| mark.begun) {
            Some(mark) => mark,
            None => {
                let mark = Mark::new(&log.config, true, log.node.store().snapshot_position());
                match mark.write(&mut marks) {
                    // It has gone without one so far, and gets one once there is room.
                    Err(DiskError::Full { .. }) if is_former => {}
                    written => written?,
                }
                mark
            }
        };
        log.marker = Some(Marker { marks, mark, due_ms: 0 });
        Ok(log)
    }

    /// Lets the mark follow the log, if it is time; with `at_once` it always is.
    pub(crate) fn keep_mark(&mut self, at_once: bool) -> Result<(), LogFailure> {
        let Some(marker) = &mut self.marker else { return Ok(()) };
        let is_due = at_once || marker.due_ms <= self.now_ms;
        if is_due
            && self.yielded > marker.mark.index().0
            && let Some(position) = self.node.store().position(self.yielded)
        {
            marker.follow(self.now_ms, position)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mark::{MARK, Standing, stand};
    use ohm_log::MemDisk;
    use ohm_stdx::Prng;
    use std::cell::RefCell;
    use std::rc::Rc;

    type Shared = Rc<RefCell<MemDisk>>;

    fn create(log: &Shared, marks: &Shared, member: u64) -> Result<RaftLog<Shared>, OpenError> {
        let config = RaftConfig::group(7, member, vec![1]);
        RaftLog::create_marked(Rc::clone(log), Rc::clone(marks), config, Remarks::none())
    }

    fn standing(log: &Shared, marks: &Shared) -> Result<Standing, OpenError> {
        stand(&mut *log.borrow_mut(), &mut *marks.borrow_mut())
    }

    #[test]
    fn a_member_whose_log_is_gone_does_not_come_back_under_its_number() {
        let (log, marks) = (Shared::default(), Shared::default());
        assert_eq!(standing(&log, &marks), Ok(Standing::New));
        drop(create(&log, &marks, 2).unwrap());
        assert!(matches!(standing(&log, &marks), Ok(Standing::Member(identity)) if identity.member == 2));
        let kept = log.take();
        let Ok(Standing::Gone(mark)) = standing(&log, &marks) else { panic!("the mark is there") };
        assert_eq!((mark.cell, mark.member), (7, 2));
        assert_eq!(create(&log, &marks, 2).err(), Some(mark.gone()));
        assert_eq!(log.borrow_mut().list(), Ok(Vec::new()), "nothing was changed");
        // Another number is another member; and the files may be put back.
        drop(create(&log, &marks, 3).unwrap());
        assert!(matches!(standing(&log, &marks), Ok(Standing::Member(identity)) if identity.member == 3));
        log.replace(kept);
        let other = OpenError::OtherMark { cell: 7, member: 2, mark_cell: 7, mark_member: 3 };
        assert_eq!(standing(&log, &marks), Err(other));
    }

    #[test]
    fn a_log_of_a_former_version_gets_its_mark() {
        let (log, marks) = (Shared::default(), Shared::default());
        let config = RaftConfig::single(7, 1);
        drop(RaftLog::create(Rc::clone(&log), config.clone(), Remarks::none()).unwrap());
        drop(RaftLog::open_marked(Rc::clone(&log), Rc::clone(&marks), config, Remarks::none()).unwrap());
        log.take();
        assert!(matches!(standing(&log, &marks), Ok(Standing::Gone(_))));
    }

    #[test]
    fn a_creation_that_was_cut_short_forbids_nothing() {
        let (whole, marked) = (Shared::default(), Shared::default());
        drop(create(&whole, &marked, 1).unwrap());
        let calls = [whole.borrow().calls(), marked.borrow().calls()];
        for (place, calls) in calls.into_iter().enumerate() {
            for (calls, seed) in (0..=calls).flat_map(|calls| (0..10).map(move |seed| (calls, seed))) {
                let disks = [Shared::default(), Shared::default()];
                disks[place].borrow_mut().power_off_after(calls);
                let [log, marks] = &disks;
                let created = create(log, marks, 1).is_ok();
                let mut dice = Prng::new(seed);
                disks.iter().for_each(|disk| disk.borrow_mut().crash(&mut dice));
                match standing(log, marks) {
                    Ok(Standing::New) => {
                        assert!(!created, "a created log is gone, crash after {calls} calls, seed {seed}");
                        drop(create(log, marks, 1).unwrap());
                    }
                    Ok(Standing::Member(_)) => {}
                    other => panic!("{other:?}, crash after {calls} calls, seed {seed}"),
                }
            }
        }
    }

    #[test]
    fn a_damaged_mark_is_named() {
        let (log, marks) = (Shared::default(), Shared::default());
        drop(create(&log, &marks, 1).unwrap());
        marks.borrow_mut().flip_bit(MARK, 90);
        assert!(matches!(standing(&log, &marks), Err(OpenError::MarkDamaged { .. })));
    }
}
