//! What the judges of a chaos run are told of simulated tasks.

use ohm_agent::{DriverInput, RunnerEvent, SimDriver};
use ohm_model::{OnDisconnect, RunRef};
use ohm_runtime::recorder::{Happened, Recorder};

/// What must be known before a step of a driver to record what it did.
pub(super) struct Witness {
    /// Simulated tasks end at this moment at the latest, however late their process hears of it.
    deadline_ms: u64,
    /// A run that would be new, and whether it may overlap with its replacement.
    starts: Option<(RunRef, bool)>,
    /// How long until the lease would end it.
    fence_in_ms: u64,
}

impl Witness {
    pub(super) fn before(now_ms: u64, driver: &SimDriver, input: &DriverInput) -> Self {
        let starts = match input {
            DriverInput::Start { wanted, .. } if !driver.is_live(wanted.run) => {
                Some((wanted.run, wanted.launch.on_disconnect == OnDisconnect::Keep))
            }
            _ => None,
        };
        let deadline_ms = driver.lease().map_or(u64::MAX, |lease| lease.deadline_ms);
        Witness { deadline_ms, starts, fence_in_ms: driver.fence_in_ms(now_ms) }
    }

    pub(super) fn record(&self, now_ms: u64, node: &str, events: &[RunnerEvent], recorder: &mut Recorder) {
        for event in events {
            let node = node.to_string();
            match *event {
                RunnerEvent::Started { run, .. } => {
                    if let Some((_, keeps)) = self.starts.filter(|(new, _)| *new == run) {
                        let fence_in_ms = self.fence_in_ms;
                        recorder.write_at(now_ms, Happened::Began { node, run, keeps, fence_in_ms });
                    }
                }
                RunnerEvent::Exited { run, .. } => {
                    recorder.write_at(now_ms.min(self.deadline_ms), Happened::Over { node, run });
                }
                _ => {}
            }
        }
    }
}
