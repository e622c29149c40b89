//! Groups that take each other's room find places together exactly if there are any.

use super::{check, fresh};
use ohm_framework::Decision;
use ohm_placement::fixture::World;
use ohm_stdx::Prng;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[test]
fn a_group_leaves_nodes_to_another_one_if_that_is_the_only_way() {
    check(
        "node n0 cpu=6 memory=5Gi pods=4
         node n1 cpu=4 memory=6Gi
         node n2 cpu=3 memory=15Gi pods=7
         node n3 cpu=2 memory=9Gi
         node n4 cpu=7 memory=7Gi
         job j
         group main count=14 cpu=600m memory=2Gi
         group side count=10 min=8 elastic cpu=200m memory=1Gi",
        "main 0 on n3, 1-3 on n1, 4-5 on n0, 6-10 on n2, 11-13 on n4
         side 0-5 on n3, 6 on n0, 7 on n4, 8 on n3
         rest: 0 of the 1 task of group side that must be placed together would find room.
         Of 5 nodes, by the first reason found: 3 have too little memory free; 2 have too little cpu free.
         Nearest in cpu: node n2 has 0 free of the 200m that one task asks for, and lacks nothing else.
         Nearest in memory: node n0 has 0 free of the 1Gi that one task asks for, and lacks nothing else.",
    );
}

/// What a node or one task of a group has of processors, memory and pods.
type Size = [u32; 3];

fn size(dice: &mut Prng, most: Size) -> Size {
    most.map(|most| 1 + dice.below(u64::from(most)) as u32)
}

/// All numbers of tasks of the groups that stand after `node` beside those in `ways`.
fn with_node(ways: &BTreeSet<Vec<u32>>, node: Size, groups: &[(Size, u32)]) -> BTreeSet<Vec<u32>> {
    let mut all = BTreeSet::new();
    let mut open = vec![(vec![0; groups.len()], node)];
    let mut takes = BTreeSet::new();
    while let Some((counts, left)) = open.pop() {
        if !takes.insert(counts.clone()) {
            continue;
        }
        for (at, (task, _)) in groups.iter().enumerate() {
            if left.iter().zip(task).all(|(left, task)| left >= task) {
                let mut more = counts.clone();
                more[at] += 1;
                open.push((more, std::array::from_fn(|at| left[at] - task[at])));
            }
        }
    }
    for way in ways {
        for counts in &takes {
            let sum = way.iter().zip(counts).zip(groups).map(|((a, b), (_, count))| (a + b).min(*count)).collect();
            all.insert(sum);
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Two or three groups against all ways in which their tasks can stand.
    #[test]
    fn groups_are_placed_together_exactly_if_they_can_be(seed in any::<u64>()) {
        let mut dice = Prng::new(seed);
        let nodes: Vec<Size> = (0..1 + dice.below(4)).map(|_| size(&mut dice, [8, 8, 6])).collect();
        let groups: Vec<(Size, u32)> = (0..2 + dice.below(2))
            .map(|_| ([1 + dice.below(3) as u32, 1 + dice.below(3) as u32, 1], 1 + dice.below(6) as u32))
            .collect();
        let mut text = String::new();
        for (at, [cpu, memory, pods]) in nodes.iter().enumerate() {
            text += &format!("node n{at} cpu={cpu} memory={memory}Gi pods={pods}\n");
        }
        text += "job j\n";
        for (at, ([cpu, memory, _], count)) in groups.iter().enumerate() {
            text += &format!("group g{at} count={count} cpu={cpu} memory={memory}Gi\n");
        }
        let none = BTreeSet::from([vec![0; groups.len()]]);
        let ways = nodes.iter().fold(none, |ways, node| with_node(&ways, *node, &groups));
        let fits = ways.contains(&groups.iter().map(|(_, count)| *count).collect::<Vec<u32>>());
        let mut planner = fresh();
        let world = World::of(&text, &mut planner);
        let decision = world.plan("j", &mut planner);
        prop_assert_eq!(matches!(decision, Decision::Planned(_)), fits, "{}\n{}", world.text(&decision), text);
    }
}
