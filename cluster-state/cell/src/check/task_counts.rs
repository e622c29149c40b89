//! Tasks are counted as the runs of the cell say.

use crate::cell::Cell;
use crate::state::task_counts::fill::canonical;
use crate::state::task_counts::settle::count_anew;

/// What is counted as runs move against what is counted from them.
pub(super) fn check_task_counts(cell: &Cell, broken: &mut Vec<String>) {
    let asks = |cell: &Cell| cell.shapes.slab().iter().any(|(_, (shape, _))| shape.neighbours.is_some());
    if cell.task_counts.is_empty() && !asks(cell) {
        return;
    }
    let mut anew = cell.clone();
    count_anew(&mut anew);
    let (kept, counted) = (canonical(&cell.task_counts), canonical(&anew.task_counts));
    let differs = |line: &&String| !counted.contains(line);
    broken.extend(kept.iter().filter(differs).map(|line| format!("tasks are not counted as they run: {line}")));
    let missing = counted.iter().filter(|line| !kept.contains(line));
    broken.extend(missing.map(|line| format!("tasks that run are not counted: {line}")));
}
