//! A member that follows the log: its own copy of the cell, fed entry by entry, and what that copy says about its
//! session and its leases. Schedulers, candidates for the health duty and provisioners are followers.

use crate::lease::LeaseSeen;
use crate::member::{Member, MemberConfig, MemberEffect};
use crate::session::SessionInput;
use ohm_cell::{Applied, Cell, LeaseState};
use ohm_model::{Command, Entry, Envelope, Epoch, Index, Lease, Refusal, Role, SessionId};
use ohm_stdx::Prng;
use std::collections::BTreeMap;

/// What a follower is told. `X` is what only this kind of follower is told.
#[derive(Clone, Debug)]
pub enum FollowerInput<X> {
    /// The own copy is replaced by this one, restored from a snapshot.
    Snapshot(Box<Cell>),
    /// The next entry of the log. An entry that the copy contains already is passed over.
    Entry {
        /// Its index.
        index: Index,
        /// What it holds.
        entry: Entry,
    },
    /// A server's own answer, which may come before the entry or in its stead; the connection; time; the end.
    Session(SessionInput),
    /// Of its own kind.
    Own(X),
}

/// What a follower wants done. `X` is what only this kind of follower wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowerEffect<X> {
    /// To a server, in this order.
    Send(Vec<Envelope>),
    /// A session is open.
    Opened {
        /// Its number.
        session: SessionId,
        /// Shows servers that one is its owner.
        nonce: u64,
    },
    /// The cell refuses to open a session; it is tried again.
    OpenRefused(Refusal),
    /// The session is gone, and every lease with it; a new one is being opened.
    SessionGone,
    /// The lease is acted on from now on.
    Gained {
        /// Which.
        lease: Lease,
        /// Its epoch.
        epoch: Epoch,
    },
    /// The lease is not acted on any more.
    Dropped {
        /// Which.
        lease: Lease,
        /// The epoch it was held under.
        epoch: Epoch,
    },
    /// The session is closed, as wished. Nothing follows.
    Closed,
    /// Of its own kind.
    Own(X),
}

impl<T> MemberEffect<T> {
    /// What the shell is told of it; nothing of what the owner alone has to know.
    pub fn told<X>(self) -> Option<FollowerEffect<X>> {
        Some(match self {
            MemberEffect::Send(envelopes) => FollowerEffect::Send(envelopes),
            MemberEffect::Opened { session, nonce } => FollowerEffect::Opened { session, nonce },
            MemberEffect::OpenRefused(refusal) => FollowerEffect::OpenRefused(refusal),
            MemberEffect::Gone => FollowerEffect::SessionGone,
            MemberEffect::Gained { lease, epoch } => FollowerEffect::Gained { lease, epoch },
            MemberEffect::Dropped { lease, epoch } => FollowerEffect::Dropped { lease, epoch },
            MemberEffect::Closed => FollowerEffect::Closed,
            MemberEffect::Answered { .. } | MemberEffect::Lost { .. } | MemberEffect::Busy { .. } => return None,
        })
    }
}

/// A core that follows the log.
pub trait FollowerCore {
    /// What only this core is told.
    type Input;
    /// What only this core wants.
    type Effect;

    /// The own copy of the cell.
    fn cell(&self) -> &Cell;

    /// Takes one input at `now_ms` of the own monotonic clock, read after the input arrived.
    fn step(&mut self, now_ms: u64, input: FollowerInput<Self::Input>, out: &mut Vec<FollowerEffect<Self::Effect>>);
}

/// The own copy of the cell, and the member that learns from it. `T` names the owner's commands.
#[derive(Clone, Debug)]
pub struct Follower<T> {
    cell: Cell,
    member: Member<T>,
    /// Buffers of the last entry, for the next one.
    applied: Applied,
    waits_for_former: bool,
    /// Each lease of the member, as the member was told of it last.
    leases_told: BTreeMap<Lease, Option<LeaseSeen>>,
    peers_told: Vec<(SessionId, Index)>,
}

impl<T> Follower<T> {
    /// A follower with an empty copy and no session. `dice` must differ between processes.
    pub fn new(config: MemberConfig, dice: Prng) -> Self {
        Follower {
            cell: Cell::new(),
            applied: Applied::default(),
            waits_for_former: config.leases.waits_for_former,
            leases_told: config.leases.leases.iter().map(|lease| (*lease, None)).collect(),
            peers_told: Vec::new(),
            member: Member::new(config, dice),
        }
    }

    /// The own copy.
    pub fn cell(&self) -> &Cell {
        &self.cell
    }

    /// Session and leases.
    pub fn member(&self) -> &Member<T> {
        &self.member
    }

    /// Whether the member was told of its leases at all.
    pub fn has_told_leases(&self) -> bool {
        self.leases_told.values().any(Option::is_some)
    }

    /// Takes over a restored copy and returns the former one; nothing if it is behind the own copy, as that of a server
    /// that lags may be. The owner calls [`Follower::tell_leases`] when it has looked at the new copy.
    pub fn replace(&mut self, cell: Cell) -> Option<Cell> {
        (cell.applied() >= self.cell.applied()).then(|| std::mem::replace(&mut self.cell, cell))
    }

    /// Applies the next entry; nothing if the copy contains it already. What is returned is handed to
    /// [`Follower::finish`] when the owner has looked at it.
    pub fn apply(&mut self, index: Index, entry: &Entry) -> Option<Applied> {
        if index <= self.cell.applied() {
            return None;
        }
        let mut applied = std::mem::take(&mut self.applied);
        self.cell.apply(index, entry, &mut applied);
        Some(applied)
    }

    /// Hands the answers to own commands in an applied entry to the member, in their order.
    pub fn hear(&mut self, now_ms: u64, entry: &Entry, applied: &Applied, effects: &mut Vec<MemberEffect<T>>) {
        for (envelope, outcome) in entry.commands.iter().zip(&applied.outcomes) {
            if let Some(input) = self.member.heard(envelope, outcome) {
                self.member.step(now_ms, input, effects);
            }
        }
    }

    /// Ends an entry: the member is told what it changed about leases and peers. Everything else that the entry changed
    /// must have been told to the owner's core before, because this may confirm a lease.
    pub fn finish(&mut self, now_ms: u64, entry: &Entry, applied: Applied, effects: &mut Vec<MemberEffect<T>>) {
        self.applied = applied;
        if entry.commands.iter().any(|envelope| may_move_leases(&envelope.command)) {
            self.tell_leases(now_ms, effects);
        }
    }

    /// Tells the member what changed about its leases and its peers in the own copy since it was told last.
    pub fn tell_leases(&mut self, now_ms: u64, effects: &mut Vec<MemberEffect<T>>) {
        if let Role::Scheduler(class) = self.member.role() {
            let peers: Vec<(SessionId, Index)> = self.cell.replicas(class).collect();
            if peers != self.peers_told {
                self.peers_told.clone_from(&peers);
                self.member.see_peers(now_ms, &peers, effects);
            }
        }
        let (sessions, own) = (self.cell.sessions(), self.member.session());
        for (&lease, told) in &mut self.leases_told {
            let LeaseState { holder, epoch, renewed } = sessions.lease(lease);
            // A former request to open a session may arrive late, so that a later one of the same name is nobody's.
            let waits =
                |holder: &SessionId| own == Some(*holder) || self.waits_for_former || !sessions.is_superseded(*holder);
            let seen = LeaseSeen { lease, holder: holder.filter(waits), epoch, renewed };
            if told.replace(seen) != Some(seen) {
                self.member.see_lease(now_ms, seen, effects);
            }
        }
    }

    /// Takes a server's word, time or the end.
    pub fn step(&mut self, now_ms: u64, input: SessionInput, effects: &mut Vec<MemberEffect<T>>) {
        self.member.step(now_ms, input, effects);
    }

    /// The owner wants `command` done; `tag` comes back with the answer.
    pub fn submit(&mut self, now_ms: u64, tag: T, command: Command, effects: &mut Vec<MemberEffect<T>>) {
        self.member.submit(now_ms, tag, command, effects);
    }
}

/// Whether a command may change who holds a lease, or who competes for it.
fn may_move_leases(command: &Command) -> bool {
    matches!(
        command,
        Command::OpenSession { .. }
            | Command::CloseSession
            | Command::KeepAlive
            | Command::TakeLease { .. }
            | Command::ReleaseLease { .. }
            | Command::Tick
    )
}
