//! What runs of a job is stopped, and nothing is kept for it any more.

use crate::apply::Tx;
use crate::apply::steps::jobs::clear_nominations;
use crate::apply::steps::kept::forget_kept_of;
use crate::apply::steps::repairs::drop_repair;
use crate::apply::steps::runs::stop_runs;
use ohm_model::{JobId, StopCause};

/// All that stands of a job that goes on is stopped for `cause`, with its grace.
pub(crate) fn stop_what_runs(tx: &mut Tx<'_>, id: JobId, cause: StopCause) {
    drop_repair(tx, id);
    forget_kept_of(tx, id);
    stop_runs(tx, id, cause);
    clear_nominations(tx, id);
}
