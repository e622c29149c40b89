//! An engine under test.

use crate::Log;

/// An engine under test: how its processes start and stop. What it stores lives as long as the engine.
pub trait Engine {
    /// The log that a process holds.
    type Log: Log;

    /// Starts a process with what is durable.
    fn start(&mut self) -> Self::Log;

    /// Ends a process without warning, as `kill -9` or a power cut would.
    fn stop(&mut self, log: Self::Log);

    /// Starts a second process beside the first, for engines that can do so in one test.
    fn start_another(&mut self) -> Option<Self::Log> {
        None
    }
}
