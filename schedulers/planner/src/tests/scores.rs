//! Scores by profile: those of the scan, those asked per class, per node and per domain.

use super::{fresh, properties::lived_in};
use crate::ProfilePlanner;
use ohm_cell::Overlay;
use ohm_framework::{Board, Planner, View};
use ohm_model::{Class, FitStrategy, GroupIndex, NodeId, SchedulingProfile, Score};
use ohm_placement::fixture;
use ohm_placement::fixture::random::{self, Kinds};
use ohm_placement::score::TABLE;
use ohm_placement::{Amount, Subject};
use ohm_stdx::Prng;
use proptest::prelude::*;
use std::collections::BTreeMap;

const BY_GROUP: Score = Score::NodeResourcesFit { strategy: FitStrategy::ByGroup };

fn built_in() -> SchedulingProfile {
    SchedulingProfile::built_in(Class::BATCH)
}

fn check(profile: SchedulingProfile, text: &str, expected: &str) {
    fixture::check(&mut ProfilePlanner::new(profile), text, expected);
}

#[test]
fn every_score_has_its_line_in_the_table() {
    let all = [
        BY_GROUP,
        Score::DevicePacking,
        Score::NodeAffinity,
        Score::TaintToleration,
        Score::KeepDevices,
        Score::NodeResourcesBalancedAllocation,
        Score::PodTopologySpread { topology_key: None },
        Score::InterPodAffinity,
        Score::FragmentationGradient,
    ];
    let names: Vec<&str> = all.iter().map(Score::name).collect();
    let lines: Vec<&str> = TABLE.iter().map(|entry| entry.name).collect();
    assert_eq!(names, lines);
}

#[test]
fn the_strategy_says_which_direction_of_the_left_over_is_good() {
    let text = "node z cpu=6\n node a cpu=8\n node b cpu=4\n job j\n group g cpu=1";
    check(built_in(), text, "g 0 on b");
    let fit = |strategy| built_in().with_score(BY_GROUP, 0).with_score(Score::NodeResourcesFit { strategy }, 1);
    check(fit(FitStrategy::MostAllocated), text, "g 0 on b");
    check(fit(FitStrategy::LeastAllocated), text, "g 0 on a");
    // Without it all nodes are alike.
    check(built_in().with_score(BY_GROUP, 0), text, "g 0 on z");
}

#[test]
fn a_balanced_node_is_worth_more_left_over() {
    let text = "node a cpu=8 memory=8Gi\n node b cpu=8 memory=32Gi\n job j\n group g cpu=1 memory=4Gi";
    check(built_in(), text, "g 0 on a");
    // 65 points on a, where memory is used more than cpu, and 75 on b.
    check(built_in().with_score(Score::NodeResourcesBalancedAllocation, 20), text, "g 0 on b");
    let neither = "node a disk=8\n node b disk=32\n job j\n group g disk=4";
    check(built_in().with_score(Score::NodeResourcesBalancedAllocation, 20), neither, "g 0 on a");
}

#[test]
fn a_group_spreads_over_domains() {
    let racks = "topology main rack kubernetes.io/hostname
        node a cpu=9 rack=1\n node b cpu=9 rack=1\n node c cpu=8 rack=2\n";
    let by_rack =
        |weight| built_in().with_score(Score::PodTopologySpread { topology_key: Some("rack".into()) }, weight);
    let text = format!("{racks} job j\n group g count=2 cpu=1 spread");
    check(built_in(), &text, "g 0 on a, 1 on b");
    check(by_rack(2), &text, "g 0 on a, 1 on c");
    // What stood before counts, too; a node outside the topology counts as full.
    let later =
        format!("{racks} job j\n group g count=4 min=1 elastic cpu=8\n place j\n node d cpu=8\n node e cpu=8 rack=3");
    check(by_rack(100), &later, "g 3 on e");
}

proptest! {
    /// The scan finds the node that asking all of them one by one finds.
    #[test]
    fn late_scores_leave_the_scan_exact(seed in any::<u64>()) {
        let mut dice = Prng::new(seed);
        let (mut world, mut text) = lived_in(&mut dice, &mut fresh());
        let job = random::job(&mut dice, "last", Kinds { topology: false, class: "service", groups: false, rules: false });
        let soft = ["likes=app:b@zone*3", "likes=app:b@rack*-2 likes=app:a@zone*1", "evenly=app:b@zone", ""];
        let soft = *dice.pick(&soft).unwrap();
        let job = format!("{job}+ label=app:{} {soft}\n", dice.pick(&["a", "b"]).unwrap());
        world.extend(&job, &mut fresh());
        text += &job;
        let profile = built_in()
            .with_score(Score::NodeResourcesBalancedAllocation, dice.below(9) as u32)
            .with_score(Score::FragmentationGradient, dice.below(9) as u32)
            .with_score(Score::PodTopologySpread { topology_key: Some("rack".into()) }, dice.below(5) as u32);
        let mut planner = ProfilePlanner::new(profile);
        let over = Overlay::default();
        let view = View::new(&world.cell, &over, world.session);
        planner.reset(&view);
        let job = world.cell.jobs().find("last").unwrap();
        let subject = Subject::new(view, job, GroupIndex(0)).unwrap();
        let mut laid = Overlay::default();
        let pass = planner.placer.begin(Board::new(&world.cell, &mut laid, world.session));
        let amount = Amount { least: 1, most: dice.between(1, 6) as u32, nodes: usize::MAX, attempt: 0, salt: 0 };
        let nodes: Vec<NodeId> = world.cell.nodes().iter().map(|(node, _)| node).filter(|node| subject.room(*node) > 0).collect();
        if planner.placer.table().singled().next().is_none() {
            let one = Amount { most: 1, ..amount };
            let slow = planner.placer.place_among(&pass, &subject, &nodes, &one);
            let fast = planner.placer.place_flat(&pass, &subject, &one, &mut Prng::new(1));
            prop_assert_eq!(fast, slow, "{}", text);
        }
        let many = planner.placer.place_flat(&pass, &subject, &amount, &mut Prng::new(1));
        if planner.placer.table().singled().next().is_none() && !soft.is_empty() {
            let slow = planner.placer.place_among(&pass, &subject, &nodes, &amount);
            let sum = |spots: &[(NodeId, u32)]| spots.iter().copied().collect::<BTreeMap<_, _>>();
            prop_assert_eq!(sum(&many), sum(&slow), "{}", text);
        }
        for (node, count) in many {
            prop_assert!(count <= subject.room(node), "{}", text);
        }
    }
}
