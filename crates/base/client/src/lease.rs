//! Leases of one session: taking, keeping, giving back, and above all stopping in time.
//!
//! A lease in the cell holds no time. The holder counts from the moment it *sent* its last committed renewal, a
//! candidate from the moment it *saw* that renewal in its copy, which is later; so with a margin above the drift of
//! both clocks the holder has stopped before a candidate asks. The cell grants a take only if the renewal that the
//! candidate saw is still the last one.
//!
//! The answer to a renewal does not say which leases it renewed. It is believed only while the lease still runs here:
//! then nobody can have taken it before the renewal was committed. A lease that ran out is never revived: it is given
//! back and then taken anew. Asking for one's own lease would not do, since a cell may simply answer that it is held
//! already; only a grant of an epoch higher than all that were seen or granted when it was asked for proves a renewal.

use crate::balance::{Peers, owners_of};
use ohm_model::lease::{SHARDS_PER_CLASS, lease_margin_ms};
use ohm_model::{Class, Command, Epoch, Index, Lease, Outcome, SessionId, Shard};
use std::collections::BTreeMap;

/// Which leases are wanted and how long they last. Equal for all candidates of a lease.
#[derive(Clone, Debug)]
pub struct LeaseConfig {
    /// The leases to compete for.
    pub leases: Vec<Lease>,
    /// How long the holder may act after the sending of its last committed renewal.
    pub lease_ms: u64,
    /// How much longer a candidate waits; above twice the drift of a clock over `lease_ms`.
    pub margin_ms: u64,
    /// Whether the leases are shared out among the live sessions; otherwise whoever comes first takes all.
    pub balance: bool,
    /// How long a lease must have belonged to another live session before it is given back.
    pub grace_ms: u64,
    /// Whether a process that was started anew waits for a lease of its own former session as for that of others. It
    /// must where the holder acts outside the log, which judges epochs: the former process may still be about.
    pub waits_for_former: bool,
}

impl LeaseConfig {
    /// The health duty: one lease, first come.
    pub fn health(lease_ms: u64) -> Self {
        LeaseConfig { waits_for_former: true, ..LeaseConfig::duty(Lease::Health, lease_ms) }
    }

    /// A duty: one lease, first come.
    pub fn duty(lease: Lease, lease_ms: u64) -> Self {
        let (leases, margin_ms) = (vec![lease], lease_margin_ms(lease_ms));
        LeaseConfig { leases, lease_ms, margin_ms, balance: false, grace_ms: 0, waits_for_former: false }
    }

    /// All shards of `class`, shared out among its scheduler replicas.
    pub fn shards(class: Class, lease_ms: u64) -> Self {
        let leases = (0..SHARDS_PER_CLASS).map(|number| Lease::Shard(Shard { class, number })).collect();
        let margin_ms = lease_margin_ms(lease_ms);
        LeaseConfig { leases, lease_ms, margin_ms, balance: true, grace_ms: lease_ms, waits_for_former: false }
    }

    /// Between two renewals: a third of the lease, so that one may be lost.
    pub fn renewal_ms(&self) -> u64 {
        (self.lease_ms / 3).max(1)
    }

    fn patience_ms(&self) -> u64 {
        self.lease_ms.saturating_add(self.margin_ms)
    }
}

/// A lease as it stands in the own copy of the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseSeen {
    /// Which.
    pub lease: Lease,
    /// Who holds it.
    pub holder: Option<SessionId>,
    /// How often it changed hands.
    pub epoch: Epoch,
    /// The entry that renewed it last.
    pub renewed: Index,
}

/// A lease that may be acted on, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The epoch to write into commands.
    pub epoch: Epoch,
    /// From this moment of the own clock on it must not be acted on, unless it was renewed before.
    pub until_ms: u64,
}

/// What a lease keeper is told.
#[derive(Clone, Debug)]
pub enum LeaseInput {
    /// The session that will hold the leases is open.
    Opened(SessionId),
    /// The session is gone, or is about to be closed: nothing is held any more.
    Gone,
    /// A lease as the own copy has it. Everything else that the same entries changed must have been told to the owner's
    /// core before, because this may confirm the lease.
    Seen(LeaseSeen),
    /// All sessions of the class as the own copy has them, each with the entry that renewed it last.
    Peers(Vec<(SessionId, Index)>),
    /// The answer to an `Ask`.
    Answered {
        /// The lease that was asked for.
        lease: Lease,
        /// When the command was sent for the first time.
        sent_ms: u64,
        /// The answer.
        outcome: Outcome,
    },
    /// The fate of an `Ask` is unknown.
    Lost {
        /// The lease that was asked for.
        lease: Lease,
    },
    /// The session and its leases were renewed by a command that was first sent at `sent_ms`.
    Renewed {
        /// On the own clock.
        sent_ms: u64,
    },
    /// Time passes; leases are taken and given back on this input only.
    Tick,
}

/// What a lease keeper wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseEffect {
    /// To the log, through the session; at most one per lease is unanswered.
    Ask {
        /// The lease it is about.
        lease: Lease,
        /// `TakeLease` or `ReleaseLease`.
        command: Box<Command>,
    },
    /// From now on the lease may be acted on, as long as [`LeaseKeeper::held`] says so.
    Gained {
        /// Which.
        lease: Lease,
        /// Its epoch.
        epoch: Epoch,
    },
    /// The lease is not held any more.
    Dropped {
        /// Which.
        lease: Lease,
        /// The epoch it was held under.
        epoch: Epoch,
    },
}

/// ```text
///   Idle ──asks──▶ Taking ──granted──▶ Holding ──gives back──▶ Releasing
///    ▲ │              │                   │                       ▲ │
///    ├─│──refused─────┘                   │                       │ │
///    ├─│──ran out, or taken by another────┘                       │ │
///    │ └──gives back what ran out here and is still its own there─┘ │
///    └──answered────────────────────────────────────────────────────┘
/// ```
/// `confirmed`: the own copy shows the holding too, so it contains everything that earlier holders did.
#[derive(Clone, Copy, Debug)]
enum Stand {
    Idle {
        retry_ms: u64,
    },
    /// `asked`: the epoch that the grant must exceed.
    Taking {
        asked: Epoch,
    },
    Holding {
        epoch: Epoch,
        until_ms: u64,
        confirmed: bool,
    },
    Releasing,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    stand: Stand,
    /// The last epoch granted here. The copy may not show it yet.
    granted: Epoch,
    seen: Option<(LeaseSeen, u64)>,
    misplaced_since_ms: Option<u64>,
}

/// The leases of one process.
#[derive(Clone, Debug)]
pub struct LeaseKeeper {
    config: LeaseConfig,
    session: Option<SessionId>,
    slots: BTreeMap<Lease, Slot>,
    peers: Peers,
}

impl LeaseKeeper {
    /// A keeper that holds nothing yet.
    pub fn new(config: LeaseConfig) -> Self {
        let slot = Slot { stand: Stand::Idle { retry_ms: 0 }, granted: Epoch(0), seen: None, misplaced_since_ms: None };
        let slots = config.leases.iter().map(|&lease| (lease, slot)).collect();
        LeaseKeeper { config, session: None, slots, peers: Peers::default() }
    }

    /// The lease, if it may be acted on at `now_ms` of the own monotonic clock.
    pub fn held(&self, lease: Lease, now_ms: u64) -> Option<Held> {
        match self.slots.get(&lease)?.stand {
            Stand::Holding { epoch, until_ms, confirmed: true } if now_ms < until_ms => Some(Held { epoch, until_ms }),
            _ => None,
        }
    }

    /// The epoch of the lease, if it may be acted on at `now_ms` of the own monotonic clock.
    pub fn holds(&self, lease: Lease, now_ms: u64) -> Option<Epoch> {
        self.held(lease, now_ms).map(|held| held.epoch)
    }

    /// Every lease that may be acted on at `now_ms`.
    pub fn all_held(&self, now_ms: u64) -> impl Iterator<Item = (Lease, Held)> + '_ {
        self.slots.keys().filter_map(move |&lease| Some((lease, self.held(lease, now_ms)?)))
    }

    /// Takes one input at `now_ms`, which must have been read after the input arrived.
    pub fn step(&mut self, now_ms: u64, input: LeaseInput, out: &mut Vec<LeaseEffect>) {
        // First of all: what ran out is out, so that no input can revive it.
        for (&lease, slot) in &mut self.slots {
            slot.expire(lease, now_ms, out);
        }
        match input {
            LeaseInput::Opened(session) => self.session = Some(session),
            LeaseInput::Gone => {
                self.session = None;
                self.slots.iter_mut().for_each(|(&lease, slot)| slot.stop(lease, 0, out));
            }
            LeaseInput::Seen(seen) => self.on_seen(now_ms, seen, out),
            LeaseInput::Peers(list) => self.peers.update(now_ms, &list),
            LeaseInput::Answered { lease, sent_ms, outcome } => self.on_answer(now_ms, lease, sent_ms, outcome, out),
            LeaseInput::Lost { lease } => {
                if let Some(slot) = self.slots.get_mut(&lease) {
                    slot.stop(lease, 0, out);
                }
            }
            LeaseInput::Renewed { sent_ms } => {
                let end_ms = sent_ms.saturating_add(self.config.lease_ms);
                self.slots.values_mut().for_each(|slot| slot.extend(end_ms));
            }
            LeaseInput::Tick => self.seek(now_ms, out),
        }
    }

    fn on_seen(&mut self, now_ms: u64, seen: LeaseSeen, out: &mut Vec<LeaseEffect>) {
        let Some(slot) = self.slots.get_mut(&seen.lease) else { return };
        if slot.seen.is_none_or(|(before, _)| before != seen) {
            slot.seen = Some((seen, now_ms));
            if let Stand::Idle { retry_ms } = &mut slot.stand {
                *retry_ms = 0;
            }
        }
        slot.compare(self.session, out);
    }

    fn on_answer(&mut self, now_ms: u64, lease: Lease, sent_ms: u64, outcome: Outcome, out: &mut Vec<LeaseEffect>) {
        let Some(slot) = self.slots.get_mut(&lease) else { return };
        let retry_ms = now_ms.saturating_add(self.config.lease_ms / 4);
        let until_ms = sent_ms.saturating_add(self.config.lease_ms);
        if let Outcome::Lease(epoch) = outcome {
            slot.granted = slot.granted.max(epoch);
        }
        slot.stand = match (slot.stand, outcome) {
            (Stand::Taking { asked }, Outcome::Lease(epoch)) if asked < epoch && now_ms < until_ms => {
                Stand::Holding { epoch, until_ms, confirmed: false }
            }
            // Granted, but too long ago to act on, or without a proof of renewal: given back and taken anew.
            (Stand::Taking { .. }, Outcome::Lease(_)) => Stand::Idle { retry_ms },
            (Stand::Releasing, Outcome::Done) => Stand::Idle { retry_ms: 0 },
            (Stand::Taking { .. } | Stand::Releasing, _) => Stand::Idle { retry_ms },
            (stand, _) => stand,
        };
        slot.compare(self.session, out);
    }

    /// Takes what should be held and gives back what another live session should hold.
    fn seek(&mut self, now_ms: u64, out: &mut Vec<LeaseEffect>) {
        let Some(session) = self.session else { return };
        let patience_ms = self.config.patience_ms();
        let live = self.peers.live(now_ms, patience_ms).chain([session]);
        let owners = if self.config.balance { owners_of(&self.config.leases, live) } else { BTreeMap::new() };
        for (&lease, slot) in &mut self.slots {
            let own = !self.config.balance || owners.get(&lease) == Some(&session);
            slot.give_up(lease, session, now_ms, out);
            if own {
                slot.misplaced_since_ms = None;
                slot.take(lease, now_ms, patience_ms, out);
            } else {
                let since_ms = *slot.misplaced_since_ms.get_or_insert(now_ms);
                if now_ms.saturating_sub(since_ms) >= self.config.grace_ms {
                    slot.release(lease, out);
                }
            }
        }
    }
}

impl Slot {
    fn stop(&mut self, lease: Lease, retry_ms: u64, out: &mut Vec<LeaseEffect>) {
        if let Stand::Holding { epoch, confirmed: true, .. } = self.stand {
            out.push(LeaseEffect::Dropped { lease, epoch });
        }
        self.misplaced_since_ms = None;
        self.stand = Stand::Idle { retry_ms };
    }

    fn expire(&mut self, lease: Lease, now_ms: u64, out: &mut Vec<LeaseEffect>) {
        if matches!(self.stand, Stand::Holding { until_ms, .. } if until_ms <= now_ms) {
            self.stop(lease, 0, out);
        }
    }

    fn extend(&mut self, end_ms: u64) {
        if let Stand::Holding { until_ms, .. } = &mut self.stand {
            *until_ms = end_ms.max(*until_ms);
        }
    }

    /// Compares a holding with what the own copy shows. The copy may lag: an older epoch says nothing.
    fn compare(&mut self, session: Option<SessionId>, out: &mut Vec<LeaseEffect>) {
        let (Stand::Holding { epoch, until_ms, confirmed }, Some((seen, _))) = (self.stand, self.seen) else { return };
        if seen.epoch < epoch {
            return;
        }
        if seen.epoch > epoch || seen.holder != session {
            self.stop(seen.lease, 0, out);
        } else if !confirmed {
            self.stand = Stand::Holding { epoch, until_ms, confirmed: true };
            out.push(LeaseEffect::Gained { lease: seen.lease, epoch });
        }
    }

    fn take(&mut self, lease: Lease, now_ms: u64, patience_ms: u64, out: &mut Vec<LeaseEffect>) {
        let (Stand::Idle { retry_ms }, Some((seen, since_ms))) = (self.stand, self.seen) else { return };
        let free = seen.holder.is_none() || now_ms.saturating_sub(since_ms) >= patience_ms;
        if free && retry_ms <= now_ms {
            self.stand = Stand::Taking { asked: seen.epoch.max(self.granted) };
            let command = Command::TakeLease { lease, epoch: seen.epoch, renewed: seen.renewed };
            out.push(LeaseEffect::Ask { lease, command: Box::new(command) });
        }
    }

    /// Gives back a lease that is held, because another live session should hold it.
    fn release(&mut self, lease: Lease, out: &mut Vec<LeaseEffect>) {
        if let Stand::Holding { epoch, .. } = self.stand {
            self.stop(lease, 0, out);
            self.ask_release(lease, epoch, out);
        }
    }

    /// Gives back a lease that ran out here while the copy shows it as this session's own: the session's renewals still
    /// renew it in the cell, so nobody else could ever take it.
    fn give_up(&mut self, lease: Lease, own: SessionId, now_ms: u64, out: &mut Vec<LeaseEffect>) {
        if let (Stand::Idle { retry_ms }, Some((seen, _))) = (self.stand, self.seen)
            && seen.holder == Some(own)
            && retry_ms <= now_ms
        {
            self.ask_release(lease, seen.epoch, out);
        }
    }

    fn ask_release(&mut self, lease: Lease, epoch: Epoch, out: &mut Vec<LeaseEffect>) {
        self.stand = Stand::Releasing;
        out.push(LeaseEffect::Ask { lease, command: Box::new(Command::ReleaseLease { lease, epoch }) });
    }
}
