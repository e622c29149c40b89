//! A simulated server process: a server core over the real write-ahead log, on a disk that forgets what was not synced
//! and that fails when told to.

mod disk;
mod effects;

use crate::clocks::Clock;
use crate::faults::Victim;
use crate::knobs::Knobs;
use crate::role::{Role, Shell};
use crate::stage::{Event, Stage, Up};
use ohm_log::{Bytes, MemDisk};
use ohm_log_raft::{OpenError, RaftConfig, RaftLog, Remarks, Standing, stand};
use ohm_model::Index;
use ohm_replica::{FollowerId, Noted, Peer, Replica, ReplicaConfig, RequestId, ServerConfig, ServerCore, ServerInput};
use ohm_stdx::Prng;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// How often a server is ticked.
const TICK_MS: u64 = 20;

/// The world keeps a handle on the disk, so that it can fail under a running server.
type SharedDisk = Rc<RefCell<MemDisk>>;
type Core = ServerCore<RaftLog<SharedDisk>>;

/// A server, up or down.
pub(crate) struct ServerProcess {
    shell: Shell,
    number: usize,
    config: ReplicaConfig,
    raft: RaftConfig,
    core: Option<Box<Core>>,
    disk: SharedDisk,
    /// What stands beside the log.
    marks: SharedDisk,
    /// What time it was, for the next process of the same boot.
    noted: Noted,
    flush_planned: bool,
    /// The stamp of the entry that it submitted last.
    submitted_ms: u64,
    /// The start and the entry at which its copy was last looked at as a whole.
    swept: (u64, Index),
    /// Whether it may answer questions since its last start.
    pub(crate) caught_up: bool,
    /// The disk was made to fail: the process may end because of it, and stays down this long.
    doomed: Option<u64>,
    slow_disk: Option<(u64, u64)>,
    /// Whose requests are under way: connection, and the number that it has there.
    requests: BTreeMap<RequestId, (u64, u64)>,
}

impl ServerProcess {
    pub(crate) fn new(number: usize, clock: Clock, knobs: &Knobs) -> Self {
        ServerProcess {
            shell: Shell::new(clock),
            number,
            config: knobs.replica,
            raft: knobs.raft(number),
            core: None,
            disk: SharedDisk::default(),
            marks: SharedDisk::default(),
            noted: Noted::Nothing,
            flush_planned: false,
            submitted_ms: 0,
            swept: (0, Index(0)),
            caught_up: false,
            doomed: None,
            slow_disk: None,
            requests: BTreeMap::new(),
        }
    }

    pub(crate) fn core(&self) -> Option<&Core> {
        self.core.as_deref()
    }

    pub(crate) fn applied(&self) -> Index {
        self.core().map_or(Index(0), |core| core.replica().cell().applied())
    }

    /// Notes whether the process would answer questions by now.
    fn look_whether_caught_up(&mut self, real_ms: u64) {
        let now_ms = self.shell.clock.boot_ms(real_ms);
        self.caught_up |= self.core().is_some_and(|core| core.has_caught_up(now_ms));
    }

    pub(crate) fn leads(&self) -> bool {
        self.core().is_some_and(|core| core.replica().leads())
    }

    /// What the history calls this start of this server.
    pub(crate) fn copy(&self) -> String {
        format!("server {} #{}", self.number + 1, self.shell.starts)
    }

    /// Opens what the disk holds.
    fn open(&mut self, dice: &mut Prng) -> Result<(), OpenError> {
        if self.is_up() || self.shell.over {
            return Ok(());
        }
        let (disk, marks) = (Rc::clone(&self.disk), Rc::clone(&self.marks));
        let config = RaftConfig { seed: dice.u64(), ..self.raft.clone() };
        let standing = stand(&mut *disk.borrow_mut(), &mut *marks.borrow_mut())?;
        let log = match standing {
            Standing::New => RaftLog::create_marked(disk, marks, config, Remarks::none())?,
            Standing::Member(_) => RaftLog::open_marked(disk, marks, config, Remarks::none())?,
            Standing::Gone(mark) => return Err(mark.gone()),
        };
        self.shell.starts += 1;
        let server =
            ServerConfig { name: self.copy(), cell_incarnation: 1, resend_ms: 500, server: self.number as u64 + 1 };
        let replica = Replica::new(log, self.config).with_time(self.noted);
        self.core = Some(Box::new(ServerCore::new(replica, server, dice.fork())));
        (self.flush_planned, self.caught_up) = (false, false);
        Ok(())
    }

    /// The process ends for good: it was removed from the group, or its disk is gone.
    pub(crate) fn leave(&mut self, stage: &mut Stage) {
        stage.note(|| format!("server {} is over", self.number + 1));
        (self.core, self.shell.over, self.doomed) = (None, true, None);
        stage.break_connections_to(self.number);
        self.requests.clear();
    }

    /// A message of a process, sent to the start `starts` of this server.
    pub(crate) fn reach(&mut self, connection: u64, starts: u64, up: Up, stage: &mut Stage) {
        if !self.is_up() || self.shell.starts != starts {
            return;
        }
        let (peer, follower) = (Peer(connection), FollowerId(connection));
        let input = match up {
            Up::Append { ticket, commands } => ServerInput::Append { peer, ticket, commands },
            Up::Follow { from } => ServerInput::Follow { follower, from },
            Up::Acknowledge { bytes } => ServerInput::Acknowledge { follower, bytes },
            Up::Register { spec, key, instance, boot, alive } => {
                ServerInput::Register { peer, local: 0, spec, key, instance, boot, alive }
            }
            Up::Beats(beats) => ServerInput::Beats { peer, beats },
            Up::Reports { node, batch, reports } => ServerInput::Reports { peer, node, batch, reports },
            Up::Conditions { node, incarnation, number, conditions } => {
                ServerInput::Conditions { peer, node, incarnation, number, conditions }
            }
            Up::Duty(session, nonce) => ServerInput::Duty { peer, session, nonce },
            Up::Answers(answers) => ServerInput::Answers { peer, answers },
            Up::Command { request, asked } => {
                stage.note_order(connection, request);
                let own = stage.next_request();
                self.requests.insert(own, (connection, request));
                ServerInput::Command { request: own, asked }
            }
        };
        self.step(input, stage);
        self.plan_flush(stage);
    }

    /// A stream to the start `starts` of this server is over.
    pub(crate) fn lose(&mut self, connection: u64, starts: u64, stage: &mut Stage) {
        if self.shell.starts == starts {
            self.step(ServerInput::Gone { peer: Peer(connection) }, stage);
            self.step(ServerInput::Unfollow { follower: FollowerId(connection) }, stage);
        }
    }

    /// Bytes of another server.
    pub(crate) fn reach_from(&mut self, from: usize, bytes: Bytes, stage: &mut Stage) {
        if self.is_up() {
            self.step(ServerInput::FromServer { from: from as u64 + 1, bytes }, stage);
            return self.plan_flush(stage);
        }
        // Nobody listens there: the connection is refused.
        let way_ms = stage.way_ms();
        stage.agenda.after(way_ms, Event::Unreachable { from, to: self.number });
    }

    /// It learns that its bytes did not reach another server.
    pub(crate) fn miss(&mut self, to: usize, stage: &mut Stage) {
        self.step(ServerInput::Unreachable { server: to as u64 + 1 }, stage);
        self.plan_flush(stage);
    }

    /// The process works off what came in, a moment later and all at once.
    fn plan_flush(&mut self, stage: &mut Stage) {
        if !self.flush_planned && self.is_up() {
            self.flush_planned = true;
            let after_ms = stage.dice.below(4);
            stage.agenda.after(after_ms, Event::Flush { server: self.number, starts: self.shell.starts });
        }
    }

    pub(crate) fn flush(&mut self, starts: u64, stage: &mut Stage) {
        if starts == self.shell.starts {
            self.flush_planned = false;
            self.step(ServerInput::Flush, stage);
        }
    }

    /// The cell's own invariants, now and then.
    fn sweep(&mut self, stage: &mut Stage) {
        let every = if stage.knobs.is_large() { 400 } else { 7 };
        let Some(core) = self.core() else { return };
        let cell = core.replica().cell();
        let reached = (self.shell.starts, cell.applied());
        if reached.1.0 % every != 0 || self.swept == reached {
            return;
        }
        let broken = cell.invariants().into_iter().next();
        self.swept = reached;
        if let Some(what) = broken {
            stage.fail("invariant", what);
        }
    }
}

impl Role for ServerProcess {
    fn shell(&self) -> &Shell {
        &self.shell
    }

    fn shell_mut(&mut self) -> &mut Shell {
        &mut self.shell
    }

    fn is_up(&self) -> bool {
        self.core.is_some()
    }

    fn start(&mut self, dice: &mut Prng, stage: &mut Stage) {
        if let Err(error) = self.open(dice) {
            stage.fail("P3", format!("the log of server {} does not open again: {error}", self.number + 1));
        }
        self.step(ServerInput::Flush, stage);
    }

    /// Its disk has a say in how it ends: see [`ServerProcess::crash`].
    fn stop(&mut self) {}

    fn tick(&mut self, stage: &mut Stage) {
        stage.agenda.after(TICK_MS, Event::Tick(Victim::Server(self.number)));
        self.step(ServerInput::Flush, stage);
        self.sweep(stage);
    }
}
