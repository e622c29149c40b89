//! Topology plans on cells of up to six nodes, against every placement there is.

use super::fresh;
use ohm_cell::Overlay;
use ohm_framework::{Board, Budget, Decision, Planner, View, Work};
use ohm_model::NodeId;
use ohm_placement::fixture::World;
use ohm_placement::topology::{Counts, Layers, Tree};
use ohm_stdx::Prng;
use proptest::prelude::*;
use std::fmt::Write;
use std::sync::Arc;

/// One node of the cell.
struct Node {
    cpu: u64,
    pods: u64,
    /// What names its domain, by level from the top.
    path: Vec<String>,
}

/// A gang, perhaps with a leader, and what it asks.
struct Gang {
    count: u64,
    /// Fewer than this are of no use.
    least: u64,
    cpu: u64,
    leader: Option<u64>,
    mode: &'static str,
    level: usize,
    slices: Vec<(usize, u64)>,
    balanced: bool,
}

const LEVELS: [&str; 3] = ["zone", "rack", "kubernetes.io/hostname"];
const LAYERS: [&[(usize, u64)]; 9] = [
    &[],
    &[],
    &[(1, 2)],
    &[(2, 2)],
    &[(0, 3)],
    &[(1, 3)],
    &[(0, 4), (1, 2)],
    &[(1, 4), (2, 2)],
    &[(0, 4), (1, 2), (2, 1)],
];

fn nodes(dice: &mut Prng) -> Vec<Node> {
    let node = |number: u64| {
        let zone = dice.between(1, 2);
        let rack = format!("{zone}.{}", dice.between(1, 2));
        let path = vec![zone.to_string(), rack, format!("n{number}")];
        Node { cpu: dice.between(0, 6), pods: dice.between(1, 8), path }
    };
    (0..6).map(node).collect()
}

fn gang(dice: &mut Prng, levels: usize) -> Gang {
    let fits = |layers: &&&[(usize, u64)]| layers.iter().all(|(level, _)| *level < levels);
    let layers: Vec<_> = LAYERS.iter().filter(fits).collect();
    let slices = dice.pick(&layers).unwrap().to_vec();
    let size = slices.first().map_or(1, |(_, size)| *size);
    let lowest = slices.first().map_or(levels - 1, |(level, _)| *level);
    let count = size * dice.between(1, 6 / size);
    Gang {
        count,
        least: if dice.chance(400) { dice.between(1, count) } else { count },
        cpu: dice.between(1, 2),
        leader: dice.chance(300).then(|| dice.between(1, 3)),
        mode: dice.pick(&["required", "preferred", "unconstrained"]).unwrap(),
        level: dice.between(0, lowest as u64) as usize,
        slices,
        balanced: dice.chance(300),
    }
}

fn cell_text(nodes: &[Node], levels: usize) -> String {
    let mut text = format!("topology main {}\n", LEVELS[..levels].join(" "));
    for node in nodes {
        let (zone, rack, name) = (&node.path[0], &node.path[1], &node.path[2]);
        writeln!(text, "node {name} cpu={} pods={} zone={zone} rack={rack}", node.cpu, node.pods).unwrap();
    }
    text
}

fn gang_text(gang: &Gang) -> String {
    let mut topology = match gang.mode {
        "unconstrained" => "topology=unconstrained".to_string(),
        mode => format!("topology={mode}:{}", LEVELS[gang.level]),
    };
    let lead = gang.leader.map(|cpu| format!("group lead cpu={cpu} {topology} with=x\n")).unwrap_or_default();
    let layers: Vec<String> = gang.slices.iter().map(|(level, size)| format!("{}:{size}", LEVELS[*level])).collect();
    if !layers.is_empty() {
        topology += &format!(" slices={}", layers.join(","));
    }
    if gang.balanced {
        topology += " balanced";
    }
    let with = if gang.leader.is_some() { "with=x" } else { "" };
    let Gang { count, least, cpu, .. } = gang;
    format!("job j class=tas\n{lead}group g count={count} min={least} cpu={cpu} {topology} {with}")
}

/// Whether tasks by node, with the leader on one of them, obey every rule but that of capacity.
fn obeys(nodes: &[Node], gang: &Gang, tasks: &[u64], leader: Option<usize>) -> bool {
    let used = |at: &usize| tasks[*at] > 0 || leader == Some(*at);
    let prefix = |at: usize, level: usize| nodes[at].path[..=level].to_vec();
    if gang.mode == "required" {
        let mut domains: Vec<_> = (0..nodes.len()).filter(used).map(|at| prefix(at, gang.level)).collect();
        domains.dedup();
        if domains.iter().any(|domain| *domain != domains[0]) {
            return false;
        }
    }
    gang.slices.iter().all(|(level, size)| {
        (0..nodes.len()).all(|at| {
            let inside = (0..nodes.len()).filter(|other| prefix(*other, *level) == prefix(at, *level));
            inside.map(|other| tasks[other]).sum::<u64>() % size == 0
        })
    })
}

fn fits(nodes: &[Node], gang: &Gang, tasks: &[u64], leader: Option<usize>) -> bool {
    nodes.iter().enumerate().all(|(at, node)| {
        let (cpu, pods) = if leader == Some(at) { (gang.leader.unwrap_or(0), 1) } else { (0, 0) };
        tasks[at] * gang.cpu + cpu <= node.cpu && tasks[at] + pods <= node.pods
    })
}

/// Calls `visit` with every way to lay `rest` tasks over the nodes; true as soon as it says so.
fn any_layout(tasks: &mut Vec<u64>, at: usize, rest: u64, visit: &mut dyn FnMut(&[u64]) -> bool) -> bool {
    if at == tasks.len() {
        return rest == 0 && visit(tasks);
    }
    (0..=rest).any(|given| {
        tasks[at] += given;
        let found = any_layout(tasks, at + 1, rest - given, visit);
        tasks[at] -= given;
        found
    })
}

fn leaders(nodes: &[Node], gang: &Gang) -> Vec<Option<usize>> {
    match gang.leader {
        None => vec![None],
        Some(_) => (0..nodes.len()).map(Some).collect(),
    }
}

/// Where tasks and leader of the job stand in the cell now.
fn standing(world: &World, nodes: &[Node], gang: &Gang) -> (Vec<u64>, Option<usize>) {
    let job = world.cell.jobs().find("j").unwrap();
    let index = |node: NodeId| {
        let name = world.cell.nodes().name(node);
        nodes.iter().position(|node| node.path[2] == name).unwrap()
    };
    let mut tasks = vec![0; nodes.len()];
    let workers = usize::from(gang.leader.is_some());
    for task in job.groups[workers].tasks.iter() {
        if let Some(run) = world.cell.runs().get(task.run) {
            tasks[index(run.node)] += 1;
        }
    }
    let leader = gang.leader.and_then(|_| {
        let task = job.groups[0].tasks.iter().next()?;
        Some(index(world.cell.runs().get(task.run)?.node))
    });
    (tasks, leader)
}

/// Where each task of the gang is, by rank.
fn ranks(world: &World, nodes: &[Node], gang: &Gang) -> Vec<Option<usize>> {
    let job = world.cell.jobs().find("j").unwrap();
    let index = |node: NodeId| nodes.iter().position(|other| other.path[2] == world.cell.nodes().name(node)).unwrap();
    let tasks = job.groups[usize::from(gang.leader.is_some())].tasks.iter();
    tasks.map(|task| world.cell.runs().get(task.run).map(|run| index(run.node))).collect()
}

/// Whether all of each slice that are placed are in one domain of its level, at every layer.
fn in_one_piece(nodes: &[Node], gang: &Gang, ranks: &[Option<usize>]) -> bool {
    gang.slices.iter().all(|(level, size)| {
        ranks.chunks(*size as usize).all(|slice| {
            let mut domains = slice.iter().flatten().map(|at| &nodes[*at].path[..=*level]);
            let first = domains.next();
            domains.all(|domain| Some(domain) == first)
        })
    })
}

/// Whether the tasks from rank `from` on that have no place find one each.
fn comes_back(nodes: &[Node], gang: &Gang, ranks: &mut Vec<Option<usize>>, from: usize) -> bool {
    let Some(lost) = (from..ranks.len()).find(|rank| ranks[*rank].is_none()) else {
        let mut tasks = vec![0; nodes.len()];
        ranks.iter().flatten().for_each(|at| tasks[*at] += 1);
        return fits(nodes, gang, &tasks, None) && obeys(nodes, gang, &tasks, None);
    };
    (0..nodes.len()).any(|at| {
        ranks[lost] = Some(at);
        let count = ranks.iter().filter(|other| **other == Some(at)).count() as u64;
        let room = count * gang.cpu <= nodes[at].cpu && count <= nodes[at].pods;
        let found = room && in_one_piece(nodes, gang, ranks) && comes_back(nodes, gang, ranks, lost + 1);
        ranks[lost] = None;
        found
    })
}

fn shares(nodes: &[Node], tasks: &[u64], leader: Option<usize>, level: usize) -> bool {
    let used: Vec<usize> = (0..nodes.len()).filter(|at| tasks[*at] > 0 || leader == Some(*at)).collect();
    used.iter().all(|at| nodes[*at].path[..=level] == nodes[used[0]].path[..=level])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    /// A plan is found exactly if there is one, obeys every rule, uses no more domains than it must, and what is lost
    /// of it comes back exactly if it can, while nothing else moves.
    #[test]
    fn plans_are_found_exactly_where_there_are_any(seed in any::<u64>()) {
        let mut dice = Prng::new(seed);
        let levels = dice.between(2, 3) as usize;
        let mut cell = nodes(&mut dice);
        let gang = gang(&mut dice, levels);
        let text = cell_text(&cell, levels) + &gang_text(&gang);
        let mut planner = fresh();
        let mut world = World::of(&text, &mut planner);
        let (found, verdict) = world.place("j", &mut planner);
        let exists = |count: &u64| leaders(&cell, &gang).into_iter().any(|leader| {
            let mut visit = |tasks: &[u64]| fits(&cell, &gang, tasks, leader) && obeys(&cell, &gang, tasks, leader);
            any_layout(&mut vec![0; cell.len()], 0, *count, &mut visit)
        });
        // As many as there is a placement for, down to the minimum.
        let most = (gang.least..=gang.count).rev().find(exists);
        prop_assert_eq!(verdict.is_some(), most.is_some(), "{}\n{}", text, found);
        let Some(verdict) = verdict else { return Ok(()) };
        prop_assert_eq!(verdict.conflicts, [], "{}\n{}", text, found);
        let (tasks, leader) = standing(&world, &cell, &gang);
        let placed = tasks.iter().sum::<u64>();
        prop_assert_eq!(Some(placed), most, "{}\n{}", text, found);
        prop_assert!(obeys(&cell, &gang, &tasks, leader), "{}\n{}", text, found);
        prop_assert!(in_one_piece(&cell, &gang, &ranks(&world, &cell, &gang)), "{}\n{}", text, found);
        if gang.mode == "preferred" && !gang.balanced {
            let single = (0..=gang.level).rev().find(|level| {
                leaders(&cell, &gang).into_iter().any(|leader| {
                    let mut visit = |tasks: &[u64]| {
                        fits(&cell, &gang, tasks, leader)
                            && obeys(&cell, &gang, tasks, leader)
                            && shares(&cell, tasks, leader, *level)
                    };
                    any_layout(&mut vec![0; cell.len()], 0, placed, &mut visit)
                })
            });
            let holds = single.is_none_or(|level| shares(&cell, &tasks, leader, level));
            prop_assert!(holds, "one domain of level {single:?} would do\n{}\n{}", text, found);
        }
        // Leader and workers come back one by one, each on its own, as in Kueue: only gangs without one are exact. What a
        // gang started without stays away.
        if gang.leader.is_some() || placed < gang.count || gang.least < gang.count {
            return Ok(());
        }
        let before = tasks.clone();
        let mut missing = 0;
        for _ in 0..dice.between(1, 2) {
            let at = dice.below(cell.len() as u64) as usize;
            if cell[at].pods > 0 {
                world.extend(&format!("lose {}", cell[at].path[2]), &mut planner);
                missing += before[at];
                (cell[at].cpu, cell[at].pods) = (0, 0);
            }
        }
        let kept: Vec<u64> = (0..cell.len()).map(|at| if cell[at].pods > 0 { before[at] } else { 0 }).collect();
        if missing == 0 {
            return Ok(());
        }
        let exists = comes_back(&cell, &gang, &mut ranks(&world, &cell, &gang), 0);
        let (again, verdict) = world.place("j", &mut planner);
        prop_assert_eq!(verdict.is_some(), exists, "{}\n{}\n{:?} of {:?}\n{}", text, found, kept, before, again);
        if let Some(verdict) = verdict {
            prop_assert_eq!(verdict.conflicts, [], "{}\n{}\n{}", text, found, again);
            let (tasks, _) = standing(&world, &cell, &gang);
            prop_assert!(obeys(&cell, &gang, &tasks, None), "{}\n{}\n{}", text, found, again);
            let whole = in_one_piece(&cell, &gang, &ranks(&world, &cell, &gang));
            prop_assert!(whole, "{}\n{}\n{}", text, found, again);
            prop_assert!(tasks.iter().zip(&kept).all(|(now, kept)| now >= kept));
        }
    }

    /// Counts carried on from changes are the counts made anew.
    #[test]
    fn kept_counts_are_those_made_anew(seed in any::<u64>()) {
        let mut dice = Prng::new(seed);
        let levels = dice.between(2, 3) as usize;
        let cell = nodes(&mut dice);
        let world = World::of(&cell_text(&cell, levels), &mut fresh());
        let topology = world.cell.topologies().get("main").unwrap();
        let tree = Arc::new(Tree::new(&world.cell, topology));
        let layers = Layers::new(&gang(&mut dice, levels).slices, tree.lowest());
        let mut rooms: Vec<u64> = (0..cell.len()).map(|_| dice.below(9)).collect();
        let mut counts = Counts::new(&tree, layers.clone(), rooms.clone());
        for _ in 0..8 {
            let at = dice.below(cell.len() as u64) as usize;
            let room = dice.below(9);
            prop_assert_eq!(counts.set(at as u32, room), rooms[at]);
            rooms[at] = room;
        }
        let anew = Counts::new(&tree, layers, rooms);
        for level in 0..=tree.node_level() {
            for at in counts.positions(level) {
                prop_assert_eq!(counts.at(level, at), anew.at(level, at), "level {} at {}", level, at);
            }
        }
    }

    /// A planner that only hears of changes plans as one that reads everything anew.
    #[test]
    fn following_changes_is_as_good_as_reading_anew(seed in any::<u64>()) {
        let mut dice = Prng::new(seed);
        let cell = nodes(&mut dice);
        let (mut follower, mut other) = (fresh(), fresh());
        let mut world = World::of(&cell_text(&cell, 3), &mut other);
        for name in ["a", "b"] {
            let slices = dice.pick(&["", "slices=rack:2", "balanced"]).unwrap();
            let group = format!("group g count=2 cpu=1 topology=preferred:rack prefer=5:zone:1 {slices}");
            world.extend(&format!("job {name} class=tas\n {group}"), &mut other);
        }
        let over = Overlay::default();
        follower.reset(&View::new(&world.cell, &over, world.session));
        for _ in 0..6 {
            let name = *dice.pick(&["a", "b"]).unwrap();
            let work = Work { jobs: vec![world.item(name)], budget: Budget::UNBOUNDED };
            let followed = follower.plan(&mut Board::new(&world.cell, &mut Overlay::default(), world.session), &work, &mut Prng::new(1)).decisions;
            let anew = world.plan_all(&[name], &mut other);
            let texts = |decisions: &[Decision]| decisions.iter().map(|one| world.text(one)).collect::<Vec<_>>();
            prop_assert_eq!(texts(&followed), texts(&anew));
            match dice.below(3) {
                0 => drop(world.place(name, &mut other)),
                1 => world.extend(&format!("lose n{}", dice.below(6)), &mut other),
                // A node joins, or comes back with other labels.
                _ => {
                    let (node, zone) = (dice.below(3), dice.between(1, 2));
                    let line = format!("node m{node} cpu=3 zone={zone} rack={zone}.{}", dice.between(1, 3));
                    world.extend(&line, &mut other);
                }
            }
            let view = View::new(&world.cell, &over, world.session);
            let all: Vec<NodeId> = world.cell.nodes().iter().map(|(node, _)| node).collect();
            follower.changed(&view, &all, &[]);
        }
    }
}
