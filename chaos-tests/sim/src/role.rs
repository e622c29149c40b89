//! A simulated process: what it has in common with every other one, whatever its role.

use crate::clocks::Clock;
use crate::stage::{Down, Event, Stage};
use ohm_stdx::Prng;
use std::collections::VecDeque;

/// What every process has.
pub(crate) struct Shell {
    pub(crate) clock: Clock,
    /// How often it was started.
    pub(crate) starts: u64,
    pub(crate) paused_until_ms: u64,
    /// The stream to a server; servers have none.
    pub(crate) connection: Option<u64>,
    /// It never comes back.
    pub(crate) over: bool,
    /// What came for it while it stood still, until it has worked that off.
    pub(crate) held: Option<VecDeque<Event>>,
}

impl Shell {
    pub(crate) fn new(clock: Clock) -> Self {
        Shell { clock, starts: 0, paused_until_ms: 0, connection: None, over: false, held: None }
    }

    /// A second pause never ends the first one.
    pub(crate) fn pause(&mut self, until_ms: u64) {
        self.paused_until_ms = until_ms.max(self.paused_until_ms);
    }

    /// Whether it stands still, or has not yet worked off what came meanwhile.
    pub(crate) fn stands_still(&self, now_ms: u64) -> bool {
        self.paused_until_ms > now_ms || self.held.is_some()
    }
}

/// What the world does with a process.
pub(crate) trait Role {
    fn shell(&self) -> &Shell;

    fn shell_mut(&mut self) -> &mut Shell;

    fn is_up(&self) -> bool;

    /// Starts it from what its disk holds. Those that need a server go looking for one.
    fn start(&mut self, dice: &mut Prng, stage: &mut Stage);

    /// It ends without a word.
    fn stop(&mut self);

    /// Its own time passes; it says when again.
    fn tick(&mut self, stage: &mut Stage);

    /// It has done what kept it busy.
    fn go_on(&mut self, _stage: &mut Stage) {}

    /// It has a stream to a server.
    fn connected(&mut self, _connection: u64, _stage: &mut Stage) {}

    /// It noticed that its stream is over.
    fn disconnected(&mut self, _stage: &mut Stage) {}

    /// A server's message came over its stream.
    fn hear(&mut self, _connection: u64, _down: Down, _stage: &mut Stage) {}

    /// It is killed, and its stream ends with it.
    fn kill(&mut self, stage: &mut Stage) {
        self.stop();
        if let Some(connection) = self.shell_mut().connection.take() {
            stage.break_connection(connection);
        }
    }
}
