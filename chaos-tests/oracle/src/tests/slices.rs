//! P5 inside the domains: slices.

use super::*;

/// Racks r0 (nodes 0, 1) and r1 (nodes 2, 3), and a job of eight in slices of four per rack, two per host.
fn in_slices() -> History {
    let mut history = History::default();
    let levels = ["rack", "kubernetes.io/hostname"].map(String::from).to_vec();
    history.entry(Command::PutTopology(TopologySpec { name: "default".into(), levels }), Outcome::Done, Vec::new());
    for (number, name, rack) in [(0, "a", "r0"), (1, "b", "r0"), (2, "c", "r1"), (3, "d", "r1")] {
        history.node(number, node(name, &[("rack", rack)]));
    }
    history.node(4, node("outside", &[]));
    let slice = |level: &str, size: u32| TopologySlice { level: level.into(), size };
    let slices = vec![slice("rack", 4), slice("kubernetes.io/hostname", 2)];
    let wish = TopologyRequest { mode: TopologyMode::Unconstrained, slices, ..TopologyRequest::default() };
    history.job(0, job("j", 8, |job| job.groups[0].topology = wish));
    history
}

#[test]
fn p5_sees_a_slice_cut_at_any_layer() {
    let starts = |rows: &[(u32, u32)]| {
        let mut first = 0;
        let rows = rows.iter().map(|&(count, node)| {
            first += count;
            placed(0, first - count, count, node)
        });
        in_slices().happened(rows.collect()).broken().len()
    };
    assert_eq!(starts(&[(2, 0), (2, 1), (2, 2), (2, 3)]), 0);
    assert_eq!(starts(&[(4, 2), (4, 3)]), 0);
    let mut told_between = in_slices();
    told_between.happened(vec![placed(0, 0, 2, 0), state(0, "running"), placed(0, 2, 2, 1)]);
    assert!(told_between.broken().is_empty(), "rows of one plan belong together");
    assert_eq!(starts(&[(2, 0), (2, 2)]), 1, "the slice of four is in two racks");
    assert_eq!(starts(&[(3, 0), (1, 1)]), 1, "a slice of two is on two hosts");
    assert_eq!(starts(&[(2, 0), (2, 1), (1, 2)]), 2, "one task more: a part of a slice of its rack and of its host");
    assert_eq!(starts(&[(2, 0), (2, 4)]), 1, "a node without a rack");
}

#[test]
fn p5_follows_slices_through_repairs() {
    let stands = || {
        let mut history = in_slices();
        history.happened(vec![placed(0, 0, 2, 0), placed(0, 2, 2, 1), placed(0, 4, 4, 2)]);
        history
    };
    let lost = |tasks: &[u32]| {
        let mut history = stands();
        history.happened(tasks.iter().map(|task| ended(0, *task, 1, Exit::NodeLost)).collect());
        history
    };
    assert!(lost(&[2, 3]).happened(vec![placed(0, 2, 2, 0)]).broken().is_empty());
    assert_eq!(lost(&[2, 3]).happened(vec![placed(0, 2, 2, 3)]).broken(), ["P5"], "it leaves its rack");
    assert!(lost(&[3]).happened(vec![placed(0, 3, 1, 1)]).broken().is_empty());
    assert_eq!(lost(&[3]).happened(vec![placed(0, 3, 1, 0)]).broken(), ["P5"], "it leaves its host");
    // What succeeded keeps its place in the slice; what is to stop does until it has ended.
    let mut done = stands();
    done.happened(vec![ended(0, 2, 1, Exit::Code(0)), ended(0, 3, 1, Exit::NodeLost)]);
    assert!(done.happened(vec![placed(0, 3, 1, 1)]).broken().is_empty());
    let mut moves = stands();
    moves.happened(vec![stopping(0, 2, 1, StopCause::NodeShrunk), ended(0, 3, 1, Exit::NodeLost)]);
    assert!(moves.happened(vec![placed(0, 3, 1, 1)]).broken().is_empty());
    // Rank 2 was stopped for others; rank 3 begins again without it.
    let begins_again = |node: u32| {
        let restarted = EventKind::Ended {
            job: JobId::new(0, 0),
            group: 0,
            task: 3,
            incarnation: Incarnation(1),
            node: NodeId(1),
            exit: Exit::Signal(15),
            cause: Some(StopCause::Restarted),
        };
        // Nothing was lost that it would begin again for: P7 sees that.
        lost(&[2]).happened(vec![restarted, placed(0, 3, 1, node)]).broken()
    };
    assert_eq!(begins_again(1), ["P7"]);
    assert_eq!(begins_again(0), ["P7", "P7", "P5"], "elsewhere it brings a part of a slice");
}

#[test]
fn p5_tells_slices_apart_by_rank() {
    let comes_back = |nodes: [u32; 2]| {
        let mut history = in_slices();
        history.happened(vec![placed(0, 0, 2, 0), placed(0, 2, 2, 1), placed(0, 4, 2, 0), placed(0, 6, 2, 1)]);
        let lost = [(0, 0), (1, 0), (6, 1), (7, 1)].map(|(task, node)| ended(0, task, node, Exit::NodeLost));
        history.happened(lost.to_vec());
        history.happened(vec![placed(0, 0, 2, nodes[0]), placed(0, 6, 2, nodes[1])]).broken()
    };
    assert_eq!(comes_back([1, 0]), [""; 0]);
    assert_eq!(comes_back([2, 3]), ["P5", "P5"], "four in each rack, and both slices are torn");
    assert_eq!(comes_back([0, 3]), ["P5"]);
}

#[test]
fn p5_waits_for_those_whose_places_were_reserved_together() {
    let cut = |leaves: &[u32]| {
        let mut history = in_slices();
        history.happened(vec![placed(0, 0, 2, 0), placed(0, 2, 2, 1)]);
        history.happened(leaves.iter().map(|task| stopping(0, *task, 0, StopCause::Drained)).collect());
        history.happened(vec![ended(0, 1, 0, Exit::Code(1)), ended(0, 0, 0, Exit::Signal(15)), placed(0, 0, 1, 1)]);
        history.broken().contains(&"P5")
    };
    assert!(!cut(&[0]), "the other one failed meanwhile and may come yet");
    assert!(cut(&[]));
}

#[test]
fn p5_knows_where_a_leader_stands_that_becomes_one_of_several() {
    let team = |count: u32| {
        let slices = vec![TopologySlice { level: "rack".into(), size: 2 }];
        let wish = TopologyRequest { mode: TopologyMode::Unconstrained, slices, ..TopologyRequest::default() };
        job("team", count, |job| (job.groups[0].topology, job.groups[0].place_with) = (wish, "team".into()))
    };
    for (rest, expected) in [(vec![placed(1, 1, 1, 1)], vec![]), (vec![placed(1, 1, 1, 2)], vec!["P5"])] {
        let mut history = in_slices();
        history.job(1, team(1)).happened(vec![placed(1, 0, 1, 0)]);
        assert_eq!(history.update(1, team(2), Vec::new()).happened(rest).broken(), expected);
    }
}
