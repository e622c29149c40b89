//! A candidate for the health duty as a follower of the log: its own copy of the cell, its session and lease, and the
//! health core that concludes and answers while the lease runs.

use crate::config::HealthConfig;
use crate::core::{BeatMark, DutyWord, HealthCore, HealthEffect, HealthInput, NodeSeen};
use ohm_cell::Cell;
use ohm_client::{
    Follower, FollowerCore, FollowerEffect, FollowerInput, LeaseConfig, MemberConfig, MemberEffect, SessionInput,
};
use ohm_model::{Entry, Incarnation, Index, Lease, NodeHealth, NodeId, Role};
use ohm_stdx::Prng;

/// How a candidate works.
#[derive(Clone, Debug)]
pub struct DutyConfig {
    /// For people: host and process.
    pub name: String,
    /// How patient the duty is.
    pub health: HealthConfig,
}

/// Beats that a server relays.
#[derive(Clone, Debug)]
pub struct RelayedBeats {
    /// Which server or connection; answers go back there.
    pub relay: u64,
    /// The beats.
    pub beats: Vec<BeatMark>,
}

/// What a candidate is told; `Tick` several times per second.
pub type DutyInput = FollowerInput<RelayedBeats>;

/// What a candidate wants done. Servers relay beats to the session that holds the duty.
pub type DutyEffect = FollowerEffect<DutyWord>;

/// One candidate.
pub struct DutyCore {
    follower: Follower<()>,
    health: HealthCore,
    laid_told: Option<(u64, bool)>,
}

impl DutyCore {
    /// A candidate without a copy. `dice` must differ between processes.
    pub fn new(config: DutyConfig, dice: Prng) -> Self {
        let DutyConfig { name, health } = config;
        let member = MemberConfig {
            role: Role::Health,
            name,
            resend_ms: health.resend_ms,
            resend_ms_max: health.resend_ms * 8,
            leases: LeaseConfig::health(health.duty_lease_ms),
        };
        let (follower, health) = (Follower::new(member, dice), HealthCore::new(health));
        DutyCore { follower, health, laid_told: None }
    }

    /// Whether the duty may be acted on at `now_ms`.
    pub fn holds_duty(&self, now_ms: u64) -> bool {
        self.follower.member().held(Lease::Health, now_ms).is_some()
    }

    fn replace(&mut self, now_ms: u64, cell: Cell, out: &mut Vec<DutyEffect>) {
        let Some(former) = self.follower.replace(cell) else { return };
        let slots = self.cell().nodes().slots().max(former.nodes().slots());
        let nodes: Vec<NodeId> = (0..slots as u32).map(NodeId).collect();
        self.tell_nodes(now_ms, &nodes, out);
        self.with_follower(out, |follower, effects| follower.tell_leases(now_ms, effects));
    }

    fn follow(&mut self, now_ms: u64, index: Index, entry: &Entry, out: &mut Vec<DutyEffect>) {
        let Some(applied) = self.follower.apply(index, entry) else { return };
        self.tell_nodes(now_ms, &applied.nodes, out);
        self.with_follower(out, |follower, effects| {
            follower.hear(now_ms, entry, &applied, effects);
            follower.finish(now_ms, entry, applied, effects);
        });
    }

    fn tell_nodes(&mut self, now_ms: u64, nodes: &[NodeId], out: &mut Vec<DutyEffect>) {
        let laid = self.cell().health();
        let (lease_bound_ms, held) = (laid.lease_bound_ms, laid.silent > 0);
        if self.laid_told.replace((lease_bound_ms, held)) != Some((lease_bound_ms, held)) {
            self.feed_health(now_ms, HealthInput::Laid { lease_bound_ms, held }, out);
        }
        let seen = |node: &NodeId| match self.cell().nodes().get(*node) {
            Some(record) => {
                NodeSeen { node: *node, incarnation: record.incarnation, health: record.health, removed: false }
            }
            None => NodeSeen { node: *node, incarnation: Incarnation(0), health: NodeHealth::Lost, removed: true },
        };
        let nodes: Vec<NodeSeen> = nodes.iter().map(seen).collect();
        if !nodes.is_empty() {
            let slots = self.cell().nodes().slots() as u32;
            self.feed_health(now_ms, HealthInput::NodesSeen { slots, nodes }, out);
        }
    }

    /// Tells the health core how long the duty is held, as the keeper has it now.
    fn feed_duty(&mut self, now_ms: u64, out: &mut Vec<DutyEffect>) {
        let held = self.follower.member().held(Lease::Health, now_ms);
        self.feed_health(now_ms, HealthInput::Duty(held), out);
    }

    fn feed_health(&mut self, now_ms: u64, input: HealthInput, out: &mut Vec<DutyEffect>) {
        let mut effects = Vec::new();
        self.health.step(now_ms, input, &mut effects);
        for effect in effects {
            match effect {
                HealthEffect::Conclude(commands) => {
                    // What the session has no room for is concluded again by the next ticks.
                    for command in commands {
                        self.with_follower(out, |follower, effects| follower.submit(now_ms, (), command, effects));
                    }
                }
                HealthEffect::Say(word) => out.push(DutyEffect::Own(word)),
            }
        }
    }

    /// Lets the follower do something, and hands on what is for the shell.
    fn with_follower(
        &mut self,
        out: &mut Vec<DutyEffect>,
        act: impl FnOnce(&mut Follower<()>, &mut Vec<MemberEffect<()>>),
    ) {
        let mut effects = Vec::new();
        act(&mut self.follower, &mut effects);
        out.extend(effects.into_iter().filter_map(MemberEffect::told));
    }
}

impl FollowerCore for DutyCore {
    type Input = RelayedBeats;
    type Effect = DutyWord;

    fn cell(&self) -> &Cell {
        self.follower.cell()
    }

    fn step(&mut self, now_ms: u64, input: DutyInput, out: &mut Vec<DutyEffect>) {
        self.feed_duty(now_ms, out);
        match input {
            DutyInput::Snapshot(cell) => self.replace(now_ms, *cell, out),
            DutyInput::Entry { index, entry } => self.follow(now_ms, index, &entry, out),
            DutyInput::Session(input) => {
                let is_tick = matches!(input, SessionInput::Tick);
                self.with_follower(out, |follower, effects| follower.step(now_ms, input, effects));
                if is_tick {
                    self.feed_duty(now_ms, out);
                    self.feed_health(now_ms, HealthInput::Tick, out);
                }
            }
            DutyInput::Own(RelayedBeats { relay, beats }) => {
                self.feed_health(now_ms, HealthInput::Beats { relay, beats }, out);
            }
        }
        self.feed_duty(now_ms, out);
    }
}
