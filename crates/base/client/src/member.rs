//! A session together with its leases: what a scheduler replica or a health candidate owns.

use crate::lease::{Held, LeaseConfig, LeaseEffect, LeaseInput, LeaseKeeper, LeaseSeen};
use crate::session::{SessionConfig, SessionCore, SessionEffect, SessionInput};
use ohm_model::{Command, Envelope, Epoch, Index, Lease, Outcome, Refusal, Role, SessionId};
use ohm_stdx::Prng;

/// Places in flight that are kept free for the member's own wishes about leases.
const LEASE_ROOM: usize = 64;

/// How a member opens its session and which leases it competes for.
#[derive(Clone, Debug)]
pub struct MemberConfig {
    /// What the process does.
    pub role: Role,
    /// For people: host and process.
    pub name: String,
    /// An unanswered command is sent again after this long, then after twice as long, and so on.
    pub resend_ms: u64,
    /// The longest time between two sendings of one command.
    pub resend_ms_max: u64,
    /// The leases.
    pub leases: LeaseConfig,
}

/// What a member wants done. `T` names the owner's commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberEffect<T> {
    /// To the server, in this order.
    Send(Vec<Envelope>),
    /// The answer to a submitted command.
    Answered {
        /// The owner's name for it.
        tag: T,
        /// The answer.
        outcome: Outcome,
    },
    /// The session ended before the answer came: the command took effect once or not at all.
    Lost {
        /// The owner's name for it.
        tag: T,
    },
    /// The command was not taken and never sent.
    Busy {
        /// The owner's name for it.
        tag: T,
        /// The command.
        command: Command,
    },
    /// A (new) session is open.
    Opened {
        /// Its number.
        session: SessionId,
        /// Shows servers that one is its owner.
        nonce: u64,
    },
    /// The cell refuses to open a session; the core tries again.
    OpenRefused(Refusal),
    /// The session is gone, and every lease with it; a new one is being opened.
    Gone,
    /// A lease may be acted on, as long as [`Member::held`] says so.
    Gained {
        /// Which.
        lease: Lease,
        /// Its epoch.
        epoch: Epoch,
    },
    /// A lease is not held any more.
    Dropped {
        /// Which.
        lease: Lease,
        /// The epoch it was held under.
        epoch: Epoch,
    },
    /// The session is closed, as wished.
    Closed,
}

#[derive(Clone, Debug)]
enum Tag<T> {
    Owner(T),
    Lease(Lease),
}

/// A session core and a lease keeper, wired together.
#[derive(Clone, Debug)]
pub struct Member<T> {
    role: Role,
    session: SessionCore<Tag<T>>,
    leases: LeaseKeeper,
}

impl<T> Member<T> {
    /// A member without a session yet. `dice` must differ between processes.
    pub fn new(config: MemberConfig, dice: Prng) -> Self {
        let session = SessionConfig {
            role: config.role,
            name: config.name,
            resend_ms: config.resend_ms,
            resend_ms_max: config.resend_ms_max,
            keep_alive_ms: config.leases.renewal_ms(),
        };
        let (session, leases) = (SessionCore::new(session, dice), LeaseKeeper::new(config.leases));
        Member { role: config.role, session, leases }
    }

    /// What the process does.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The open session.
    pub fn session(&self) -> Option<SessionId> {
        self.session.session()
    }

    /// The nonce of the session that is being opened.
    pub fn opening(&self) -> Option<u64> {
        self.session.opening()
    }

    /// What the answer to a command in the log, as the own copy applied it, means to this member, if it is to one of
    /// its own commands.
    pub fn heard(&self, envelope: &Envelope, outcome: &Outcome) -> Option<SessionInput> {
        let (session, sequence) = (envelope.session, envelope.sequence);
        match envelope.command {
            Command::OpenSession { nonce, .. } => {
                (self.opening() == Some(nonce)).then(|| SessionInput::OpenAnswer { nonce, outcome: outcome.clone() })
            }
            _ if self.session() == Some(session) => {
                Some(SessionInput::Answer { session, sequence, outcome: outcome.clone() })
            }
            _ => None,
        }
    }

    /// How many more commands would be taken now.
    pub fn room(&self) -> usize {
        self.session.room().saturating_sub(LEASE_ROOM)
    }

    /// The lease, if it may be acted on at `now_ms` of the own monotonic clock.
    pub fn held(&self, lease: Lease, now_ms: u64) -> Option<Held> {
        self.leases.held(lease, now_ms)
    }

    /// The epoch of the lease, if it may be acted on at `now_ms` of the own monotonic clock.
    pub fn holds(&self, lease: Lease, now_ms: u64) -> Option<Epoch> {
        self.leases.holds(lease, now_ms)
    }

    /// Every lease that may be acted on at `now_ms`.
    pub fn all_held(&self, now_ms: u64) -> impl Iterator<Item = (Lease, Held)> + '_ {
        self.leases.all_held(now_ms)
    }

    /// Takes one input at `now_ms` of the own monotonic clock, which must have been read after the input arrived.
    pub fn step(&mut self, now_ms: u64, input: SessionInput, out: &mut Vec<MemberEffect<T>>) {
        let is_tick = matches!(input, SessionInput::Tick);
        if matches!(input, SessionInput::Close) {
            self.feed_leases(now_ms, LeaseInput::Gone, out);
        }
        let mut effects = Vec::new();
        self.session.step(now_ms, input, &mut effects);
        self.follow(now_ms, effects, out);
        if is_tick {
            self.feed_leases(now_ms, LeaseInput::Tick, out);
        }
    }

    /// The owner wants `command` done; `tag` comes back with the answer.
    pub fn submit(&mut self, now_ms: u64, tag: T, command: Command, out: &mut Vec<MemberEffect<T>>) {
        match self.room() {
            0 => out.push(MemberEffect::Busy { tag, command }),
            _ => self.submit_as(now_ms, Tag::Owner(tag), command, out),
        }
    }

    /// A lease changed in the own copy; see [`LeaseInput::Seen`] for the order of things.
    pub fn see_lease(&mut self, now_ms: u64, seen: LeaseSeen, out: &mut Vec<MemberEffect<T>>) {
        self.feed_leases(now_ms, LeaseInput::Seen(seen), out);
    }

    /// All sessions of the class in the own copy, each with its last renewal; whenever one changed.
    pub fn see_peers(&mut self, now_ms: u64, peers: &[(SessionId, Index)], out: &mut Vec<MemberEffect<T>>) {
        self.feed_leases(now_ms, LeaseInput::Peers(peers.to_vec()), out);
    }

    fn submit_as(&mut self, now_ms: u64, tag: Tag<T>, command: Command, out: &mut Vec<MemberEffect<T>>) {
        let mut effects = Vec::new();
        self.session.submit(now_ms, tag, command.into(), &mut effects);
        self.follow(now_ms, effects, out);
    }

    fn follow(&mut self, now_ms: u64, effects: Vec<SessionEffect<Tag<T>>>, out: &mut Vec<MemberEffect<T>>) {
        for effect in effects {
            match effect {
                SessionEffect::Send(envelopes) => out.push(MemberEffect::Send(envelopes)),
                SessionEffect::Answered { tag: Tag::Owner(tag), outcome, .. } => {
                    out.push(MemberEffect::Answered { tag, outcome });
                }
                SessionEffect::Answered { tag: Tag::Lease(lease), sent_ms, outcome } => {
                    self.feed_leases(now_ms, LeaseInput::Answered { lease, sent_ms, outcome }, out);
                }
                SessionEffect::Lost { tag: Tag::Owner(tag) } => out.push(MemberEffect::Lost { tag }),
                SessionEffect::Busy { tag: Tag::Owner(tag), asked } => {
                    out.push(MemberEffect::Busy { tag, command: asked.command });
                }
                SessionEffect::Lost { tag: Tag::Lease(lease) } | SessionEffect::Busy { tag: Tag::Lease(lease), .. } => {
                    self.feed_leases(now_ms, LeaseInput::Lost { lease }, out);
                }
                SessionEffect::Opened { session, nonce } => {
                    self.feed_leases(now_ms, LeaseInput::Opened(session), out);
                    out.push(MemberEffect::Opened { session, nonce });
                }
                SessionEffect::OpenRefused(refusal) => out.push(MemberEffect::OpenRefused(refusal)),
                SessionEffect::Renewed { sent_ms } => self.feed_leases(now_ms, LeaseInput::Renewed { sent_ms }, out),
                SessionEffect::Gone => {
                    self.feed_leases(now_ms, LeaseInput::Gone, out);
                    out.push(MemberEffect::Gone);
                }
                SessionEffect::Closed => out.push(MemberEffect::Closed),
            }
        }
    }

    fn feed_leases(&mut self, now_ms: u64, input: LeaseInput, out: &mut Vec<MemberEffect<T>>) {
        let mut effects = Vec::new();
        self.leases.step(now_ms, input, &mut effects);
        for effect in effects {
            match effect {
                LeaseEffect::Ask { lease, command } => {
                    self.submit_as(now_ms, Tag::Lease(lease), *command, out);
                }
                LeaseEffect::Gained { lease, epoch } => out.push(MemberEffect::Gained { lease, epoch }),
                LeaseEffect::Dropped { lease, epoch } => out.push(MemberEffect::Dropped { lease, epoch }),
            }
        }
    }
}
