//! Who may speak for a duty.

use crate::cell::Cell;
use ohm_model::{Epoch, Lease, Refusal, SessionId};

/// Whether this session holds the lease of the duty, in this epoch.
pub(crate) fn check_duty(cell: &Cell, duty: Lease, (session, epoch): (SessionId, Epoch)) -> Result<(), Refusal> {
    if cell.sessions.holds(duty, session, epoch) {
        return Ok(());
    }
    Err(Refusal::LeaseMoved { epoch: cell.sessions.lease(duty).epoch })
}
