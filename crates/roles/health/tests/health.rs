//! One health core, told by hand what its copy, its lease and the servers would tell it.

use ohm_client::Held;
use ohm_health::{BeatMark, DutyWord, HealthConfig, HealthCore, HealthEffect, HealthInput, NodeSeen};
use ohm_model::{Command, Epoch, Incarnation, NodeHealth, NodeId, TakeOver};

/// The default lease of 30,000 ms with its margin of 2 percent and 500 ms.
const LOST_MS: u64 = 31_100;
const SUSPECT_MS: u64 = 3500;
/// As it is by default.
const TAKE_OVER: TakeOver = TakeOver { duty_lease_ms: 4_000, resend_ms: 500, beat_interval_ms: 1_000 };

struct Duty {
    core: HealthCore,
    now_ms: u64,
    out: Vec<HealthEffect>,
    /// Commands that conclude nothing, and when.
    said: Vec<(u64, Command)>,
}

impl Duty {
    /// A holder of epoch 1 with `count` nodes of incarnation 1, from time 0 on.
    fn new(count: u32) -> Self {
        let mut duty =
            Duty { core: HealthCore::new(HealthConfig::default()), now_ms: 0, out: Vec::new(), said: Vec::new() };
        (0..count).for_each(|node| duty.see(node, 1, NodeHealth::Ready));
        duty.bound(30_000);
        duty.hold(1, u64::MAX);
        duty
    }

    fn step(&mut self, input: HealthInput) {
        self.core.step(self.now_ms, input, &mut self.out);
    }

    fn bound(&mut self, lease_bound_ms: u64) {
        self.step(HealthInput::Laid { lease_bound_ms, held: false });
    }

    fn hold(&mut self, epoch: u64, until_ms: u64) {
        self.step(HealthInput::Duty(Some(Held { epoch: Epoch(epoch), until_ms })));
    }

    fn see(&mut self, node: u32, incarnation: u32, health: NodeHealth) {
        let incarnation = Incarnation(incarnation);
        let seen = NodeSeen { node: NodeId(node), incarnation, health, removed: false };
        self.step(HealthInput::NodesSeen { slots: node + 1, nodes: vec![seen] });
    }

    /// Beats of the nodes, and how many of them were answered.
    fn beat(&mut self, nodes: impl IntoIterator<Item = u32>, incarnation: u32) -> usize {
        let mark = |node| BeatMark { node: NodeId(node), incarnation: Incarnation(incarnation), sequence: self.now_ms };
        let beats = nodes.into_iter().map(mark).collect();
        let before = self.out.len();
        self.step(HealthInput::Beats { relay: 7, beats });
        let answers = self.out.drain(before..).map(|effect| match effect {
            HealthEffect::Say(DutyWord::Answers { relay: 7, answers, .. }) => answers.len(),
            other => panic!("{other:?}"),
        });
        answers.sum()
    }

    /// Lets time pass until `end_ms`, while `beating` beat every second; what was concluded, and when.
    fn pass(&mut self, end_ms: u64, beating: &[u32]) -> Vec<(u64, u32, NodeHealth)> {
        let mut concluded = Vec::new();
        while self.now_ms < end_ms {
            self.now_ms += 100;
            if self.now_ms.is_multiple_of(1000) {
                self.beat(beating.iter().copied(), 1);
            }
            let before = self.out.len();
            self.step(HealthInput::Tick);
            for effect in &self.out[before..] {
                let HealthEffect::Conclude(commands) = effect else { continue };
                for command in commands {
                    match command {
                        Command::ConcludeNodes { conclusions, .. } => {
                            concluded.extend(conclusions.iter().map(|one| (self.now_ms, one.node.0, one.health)));
                        }
                        other => self.said.push((self.now_ms, other.clone())),
                    }
                }
            }
        }
        concluded
    }
}

#[test]
fn a_silent_node_is_suspect_then_lost_and_a_beating_one_is_neither() {
    let mut duty = Duty::new(2);
    assert_eq!(duty.pass(5000, &[0, 1]), []);
    let suspected = duty.pass(8500, &[0]);
    assert_eq!(suspected, [(5000 + SUSPECT_MS, 1, NodeHealth::Suspect)]);
    duty.see(1, 1, NodeHealth::Suspect);
    assert_eq!(duty.pass(5000 + LOST_MS - 100, &[0]), []);
    let lost = duty.pass(5000 + LOST_MS + 500, &[0]);
    assert_eq!(lost, [(5000 + LOST_MS + 200, 1, NodeHealth::Lost)], "after gathering for 200 ms");
}

#[test]
fn a_suspect_node_that_beats_again_is_ready() {
    let mut duty = Duty::new(1);
    duty.pass(SUSPECT_MS, &[]);
    duty.see(0, 1, NodeHealth::Suspect);
    assert_eq!(duty.beat([0], 1), 1);
    assert_eq!(duty.pass(3900, &[0]), [(3600, 0, NodeHealth::Ready)]);
    // It does not show in the copy, so it is asked for again.
    assert_eq!(duty.pass(4700, &[0]), [(4600, 0, NodeHealth::Ready)]);
    duty.see(0, 1, NodeHealth::Ready);
    assert_eq!(duty.pass(30_000, &[0]), []);
}

#[test]
fn a_node_found_lost_is_not_answered_even_while_the_conclusion_is_under_way() {
    let mut duty = Duty::new(1);
    let concluded = duty.pass(LOST_MS + 300, &[]);
    assert_eq!(concluded.last(), Some(&(LOST_MS + 200, 0, NodeHealth::Lost)));
    assert_eq!(duty.beat([0], 1), 0);
    assert_eq!(duty.pass(LOST_MS + 1300, &[0]).len(), 1, "it is asked for again until it shows");
    duty.see(0, 1, NodeHealth::Lost);
    assert_eq!((duty.beat([0], 1), duty.pass(LOST_MS + 5000, &[0])), (0, vec![]));
    duty.see(0, 2, NodeHealth::Ready);
    assert_eq!((duty.beat([0], 1), duty.beat([0], 2)), (0, 1), "only the new registration is answered");
}

#[test]
fn without_a_running_lease_nothing_is_answered_and_nothing_concluded() {
    let mut duty = Duty::new(1);
    duty.hold(1, 2000);
    assert_eq!(duty.beat([0], 1), 1);
    duty.now_ms = 2000;
    assert_eq!(duty.beat([0], 1), 0);
    assert_eq!(duty.pass(60_000, &[0]), []);
    duty.step(HealthInput::Duty(None));
    assert_eq!(duty.pass(61_000, &[0]), []);
}

#[test]
fn a_new_holder_waits_before_it_judges_even_after_the_smallest_gap() {
    let mut duty = Duty::new(1);
    duty.hold(1, 20_000);
    duty.pass(20_000, &[]);
    duty.hold(1, u64::MAX);
    let concluded = duty.pass(20_000 + LOST_MS + 300, &[]);
    let lost: Vec<_> = concluded.iter().filter(|(_, _, health)| *health == NodeHealth::Lost).collect();
    assert_eq!(lost, [&(20_000 + LOST_MS + 200, 0, NodeHealth::Lost)]);
    duty.hold(2, u64::MAX);
    assert_eq!(duty.beat([0], 1), 1, "the old epoch's conclusion cannot come true any more");
}

#[test]
fn a_stall_of_the_holder_itself_condemns_nobody() {
    let mut duty = Duty::new(3);
    duty.pass(10_000, &[0, 1, 2]);
    duty.now_ms += LOST_MS;
    duty.step(HealthInput::Tick);
    assert_eq!(duty.beat([0, 1, 2], 1), 3, "their beats waited to be read");
    assert_eq!(duty.pass(duty.now_ms + 500, &[]), []);
}

#[test]
fn who_hears_nobody_at_all_says_so_but_not_after_its_own_standstill() {
    let deaf = |duty: &Duty| {
        let words = duty.out.iter().filter(|effect| matches!(effect, HealthEffect::Say(DutyWord::HearsNobody { .. })));
        words.count()
    };
    let mut duty = Duty::new(2);
    duty.pass(9_900, &[0]);
    assert_eq!(deaf(&duty), 0, "one of them is enough");
    duty.pass(10_900, &[]);
    assert_eq!(deaf(&duty), 0);
    duty.now_ms += 12_000;
    duty.pass(23_500, &[]);
    assert_eq!(deaf(&duty), 0, "it stood still itself");
    duty.pass(24_200, &[]);
    assert_eq!(deaf(&duty), 1);
    duty.pass(29_800, &[]);
    assert_eq!(deaf(&duty), 1, "not again at once");
    duty.pass(30_200, &[]);
    assert_eq!(deaf(&duty), 2, "but after twice as long");
    let mut duty = Duty::new(0);
    duty.pass(60_000, &[]);
    assert_eq!(deaf(&duty), 0, "nobody is there");
}

#[test]
fn the_brake_delays_a_mass_loss_and_says_so_once() {
    let mut duty = Duty::new(30);
    let all: Vec<u32> = (0..30).collect();
    duty.pass(10_000, &all);
    let concluded = duty.pass(10_000 + LOST_MS + 29_000, &all[12..]);
    assert!(concluded.iter().all(|(_, _, health)| *health == NodeHealth::Suspect));
    let engaged = |effect: &&HealthEffect| matches!(effect, HealthEffect::Say(DutyWord::BrakeEngaged { count: 12 }));
    assert_eq!(duty.out.iter().filter(engaged).count(), 1);
    let concluded = duty.pass(10_000 + LOST_MS + 31_000, &all[12..]);
    let lost = concluded.iter().filter(|(_, _, health)| *health == NodeHealth::Lost);
    assert_eq!(lost.map(|(_, node, _)| *node).collect::<Vec<_>>(), (0..12).collect::<Vec<_>>());
    assert_eq!(duty.out.iter().filter(engaged).count(), 1);
}

#[test]
fn the_cell_is_told_of_the_brake_until_it_shows() {
    let mut duty = Duty::new(30);
    let all: Vec<u32> = (0..30).collect();
    duty.pass(10_000, &all);
    duty.pass(10_000 + LOST_MS + 200, &all[12..]);
    let hold = Command::HoldConclusions { epoch: Epoch(1), silent: 12, brake_ms: 30_000 };
    assert_eq!(duty.said.last().map(|(_, said)| said), Some(&hold));
    duty.step(HealthInput::Laid { lease_bound_ms: 30_000, held: true });
    duty.said.clear();
    duty.beat(all.iter().copied(), 1);
    let concluded = duty.pass(duty.now_ms + 35_000, &all);
    assert!(concluded.iter().all(|(_, _, health)| *health != NodeHealth::Lost), "{concluded:?}");
    let over = Command::HoldConclusions { epoch: Epoch(1), silent: 0, brake_ms: 30_000 };
    assert_eq!(duty.said.first().map(|(_, said)| said), Some(&over));
}

#[test]
fn a_lease_is_granted_only_within_the_bound_in_the_log() {
    let mut duty = Duty::new(1);
    duty.bound(0);
    assert_eq!(duty.beat([0], 1), 0, "nobody knows yet how long to wait for it");
    duty.pass(500, &[0]);
    let (epoch, lease_ms) = (Epoch(1), 30_000);
    assert_eq!(duty.said[0], (100, Command::BoundNodeLease { epoch, seen_ms: 0, lease_ms, take_over: TAKE_OVER }));
    duty.bound(30_000);
    assert_eq!(duty.beat([0], 1), 1);
}

#[test]
fn a_shorter_lease_counts_only_when_the_longer_ones_have_run_out() {
    let config = HealthConfig { node_lease_ms: 7_000, duty_lease_ms: 1_500, ..HealthConfig::default() };
    let mut duty = Duty { core: HealthCore::new(config), now_ms: 0, out: Vec::new(), said: Vec::new() };
    duty.see(0, 1, NodeHealth::Ready);
    duty.see(1, 1, NodeHealth::Ready);
    duty.bound(30_000);
    duty.hold(2, u64::MAX);
    // The earlier holder may have granted 30 s just before.
    let concluded = duty.pass(LOST_MS - 100, &[0]);
    assert!(concluded.iter().all(|(_, _, health)| *health != NodeHealth::Lost), "{concluded:?}");
    assert_eq!(duty.said, []);
    duty.pass(LOST_MS + 300, &[0]);
    let take_over = TakeOver { duty_lease_ms: 1_500, ..TAKE_OVER };
    let shorter = Command::BoundNodeLease { epoch: Epoch(2), seen_ms: 30_000, lease_ms: 7_000, take_over };
    assert_eq!(duty.said.first(), Some(&(LOST_MS, shorter)));
    // From here on silence is judged by the short one.
    duty.bound(7_000);
    duty.see(1, 2, NodeHealth::Ready);
    let start_ms = duty.now_ms;
    let concluded = duty.pass(start_ms + 8_500, &[0]);
    assert!(concluded.iter().any(|(_, node, health)| (*node, *health) == (1, NodeHealth::Lost)), "{concluded:?}");
}

#[test]
fn a_few_losses_in_a_large_cell_are_concluded_together() {
    let mut duty = Duty::new(30);
    let all: Vec<u32> = (0..30).collect();
    duty.pass(10_000, &all);
    duty.out.clear();
    duty.pass(10_000 + LOST_MS + 500, &all[3..]);
    let entries: Vec<usize> = duty
        .out
        .iter()
        .map(|effect| match effect {
            HealthEffect::Conclude(commands) => commands
                .iter()
                .map(|command| match command {
                    Command::ConcludeNodes { conclusions, .. } => {
                        conclusions.iter().filter(|one| one.health == NodeHealth::Lost).count()
                    }
                    _ => 0,
                })
                .sum(),
            _ => 0,
        })
        .filter(|count: &usize| *count > 0)
        .collect();
    assert_eq!(entries, [3]);
}

#[test]
fn a_removed_node_is_forgotten() {
    let mut duty = Duty::new(1);
    let seen = NodeSeen { node: NodeId(0), incarnation: Incarnation(1), health: NodeHealth::Ready, removed: true };
    duty.step(HealthInput::NodesSeen { slots: 1, nodes: vec![seen] });
    assert_eq!((duty.beat([0], 1), duty.pass(60_000, &[])), (0, vec![]));
    assert_eq!(duty.core.missing(), (0, 0));
}

#[test]
fn a_hundred_thousand_nodes_cost_little_per_tick() {
    let mut duty = Duty::new(0);
    let incarnation = Incarnation(1);
    let nodes = (0..100_000).map(|node| NodeSeen {
        node: NodeId(node),
        incarnation,
        health: NodeHealth::Ready,
        removed: false,
    });
    duty.step(HealthInput::NodesSeen { slots: 100_000, nodes: nodes.collect() });
    duty.bound(85_400);
    // One beat of each node in 20 s, 500 per step; nobody is ever missing.
    for step in 0..600u32 {
        duty.now_ms += 100;
        let first = step % 200 * 500;
        assert_eq!(duty.beat(first..first + 500, 1), 500);
        duty.step(HealthInput::Tick);
    }
    assert_eq!((duty.core.missing(), duty.out.len()), ((0, 100_000), 0));
}
