//! A group gets tasks, or loses some.

use crate::state::jobs::{Group, Task, TaskState};
use ohm_model::Incarnation;

impl Group {
    /// Takes tasks away at the end, or adds some; tasks that were left out at the start wait again.
    pub(crate) fn resize(&mut self, old: u32, count: u32, floor: Incarnation) {
        if count == old {
            return;
        }
        for index in count..self.tasks.len() as u32 {
            self.remove_task(index, index < old);
        }
        let beyond = (self.tasks.len() as u32).saturating_sub(count);
        self.lost.remove(count, beyond);
        self.replaced.remove(count, beyond);
        self.moving.remove(count, beyond);
        for index in old..count.min(self.tasks.len() as u32) {
            match self.tasks[index as usize].state {
                TaskState::Live => self.leaving -= 1,
                _ => self.add_task(index, floor),
            }
        }
        let length = self.tasks.len() as u32;
        if length < count {
            self.tasks.resize(count as usize, Task::new(floor));
            self.pending.insert(length, count - length);
        }
        for index in 0..count {
            if self.skipped == 0 {
                break;
            }
            if self.tasks[index as usize].state == TaskState::Skipped {
                self.tasks[index as usize].state = TaskState::Pending;
                self.pending.insert(index, 1);
                self.skipped -= 1;
            }
        }
        self.drop_removed(count);
    }

    fn add_task(&mut self, index: u32, floor: Incarnation) {
        self.tasks[index as usize] = Task::new(floor);
        self.pending.insert(index, 1);
    }

    /// A task with a live run stays until that has ended; `counts` says whether it was within the count before.
    fn remove_task(&mut self, index: u32, counts: bool) {
        let task = &mut self.tasks[index as usize];
        match task.state {
            TaskState::Live => {
                self.leaving += u32::from(counts);
                return;
            }
            TaskState::Pending => self.pending.remove(index, 1),
            TaskState::BackingOff => self.backing_off -= 1,
            TaskState::Held => self.held -= 1,
            TaskState::Succeeded => self.succeeded -= 1,
            TaskState::Failed => self.failed -= 1,
            TaskState::Skipped => self.skipped -= 1,
            TaskState::Stopped | TaskState::Removed => {}
        }
        task.state = TaskState::Removed;
    }

    /// Drops removed tasks from the end; those before a live one stay with it.
    pub(crate) fn drop_removed(&mut self, count: u32) {
        let is_removed = |group: &Self| {
            let last = group.tasks.len().checked_sub(1).and_then(|last| group.tasks.get(last));
            group.tasks.len() > count as usize && last.is_some_and(|task| task.state == TaskState::Removed)
        };
        while is_removed(self) {
            self.tasks.pop();
        }
    }
}
