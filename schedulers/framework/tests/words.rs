//! What people read when they ask why.

use crate::world;

use ohm_cell::{CPU, Cell};
use ohm_framework::{Answer, Explanation, Miss, Obstacle, explain_job};
use ohm_model::{Class, ConflictReason, FlavorResource, Index, JobId, Taint, TaintEffect};
use world::first_fit::FirstFit;
use world::{World, job};

fn check(explanation: &Explanation, cell: &Cell, expected: &[&str]) {
    assert_eq!(explanation.to_text(cell).lines().collect::<Vec<_>>(), expected);
}

fn world_with(job: ohm_model::JobSpec, nodes: &[(&str, i64)]) -> (World, JobId) {
    let mut world = World::new(1);
    for (name, cpu) in nodes {
        world.register(name, &[("cpu", *cpu), ("pods", 10)], 1);
    }
    let name = job.name.clone();
    world.submit(vec![job]);
    let id = world.reference.jobs().find(&name).map(|job| job.id);
    (world, id.expect("the job is there"))
}

fn explained(world: &World, job: JobId) -> Explanation {
    match explain_job(&world.reference, &mut FirstFit::new(Class::BATCH, false), job) {
        Answer::Waits(explanation) => *explanation,
        other => panic!("{other:?}"),
    }
}

#[test]
fn room_is_explained_by_counts_and_the_nearest_node() {
    let (mut world, id) =
        world_with(job("train", Class::BATCH, 4, 4, 3_000), &[("a", 4_000), ("b", 2_000), ("c", 2_500), ("d", 8_000)]);
    world.command(ohm_model::Command::CordonNode { name: "d".into(), cordoned: true });
    check(
        &explained(&world, id),
        &world.reference,
        &[
            "1 of the 4 tasks of group main that must be placed together would find room.",
            "Of 4 nodes, by the first reason found: 1 can take at least one task; 2 have too little cpu for one \
             task even when empty; 1 is cordoned.",
            "Nearest in cpu: node c has 2500m free of the 3 that one task asks for, and lacks nothing else.",
        ],
    );
}

#[test]
fn what_no_node_can_ever_do_is_said() {
    let (world, id) = world_with(job("huge", Class::BATCH, 1, 1, 9_000), &[("a", 4_000), ("b", 2_000)]);
    let mut explanation = Explanation::of_obstacle(id, Index(9), 1, Obstacle::Room);
    explanation.total_nodes = 2;
    explanation.miss(Miss::Capacity(CPU));
    let taint = Taint { key: "gpu".into(), value: "yes".into(), effect: TaintEffect::NoSchedule };
    explanation.miss(Miss::Taint(taint));
    check(
        &explanation,
        &world.reference,
        &[
            "0 of the 1 task of group main that must be placed together would find room.",
            "Of 2 nodes, by the first reason found: 1 has the taint gpu=yes:NoSchedule, which it does not tolerate; 1 \
             has too little cpu for one task even when empty.",
            "None of these nodes would take a task even if it were empty: the job must ask for less or for something \
             else, or other nodes must join.",
        ],
    );
}

#[test]
fn an_empty_cell_is_named() {
    let (world, id) = world_with(job("early", Class::BATCH, 2, 1, 1), &[]);
    check(
        &explained(&world, id),
        &world.reference,
        &["0 of the 1 task of group main that must be placed together would find room.", "The cell has no node."],
    );
}

#[test]
fn every_obstacle_has_its_sentence() {
    let (world, id) = world_with(job("any", Class::BATCH, 1, 1, 1), &[("a", 4_000)]);
    let cell = &world.reference;
    let say = |obstacle: Obstacle| {
        Explanation::of_obstacle(id, Index(9), 3, obstacle).to_text(cell).lines().next().map(String::from)
    };
    for (obstacle, expected) in [
        (
            Obstacle::Quota { queue: "red".into(), column: FlavorResource(0), asked: 8_000, available: -5, ceded: 0 },
            "Queue red may use 0 more of cpu, what it may borrow included; the job needs 8 at once. It waits until \
             enough is given back or the quota is raised.",
        ),
        (
            Obstacle::Domain {
                level: "rack".into(),
                best: vec!["b1".into(), "r2".into()],
                fit: 2,
                layers: Vec::new(),
                spreads: false,
            },
            "3 tasks must be placed in one domain of rack; the best, b1/r2, takes 2.",
        ),
        (
            Obstacle::Domain { level: "rack".into(), best: Vec::new(), fit: 0, layers: Vec::new(), spreads: false },
            "3 tasks must be placed in one domain of rack; no domain takes any.",
        ),
        (
            Obstacle::Turn { queue: "line".into(), first: JobId(77) },
            "It waits its turn: another job comes first in queue line, which is StrictFIFO.",
        ),
        (Obstacle::Stopping { runs: 1 }, "Room is kept for it; 1 run there was told to stop and has not ended yet."),
        (
            Obstacle::Stopping { runs: 4 },
            "Room is kept for it; 4 runs there were told to stop and have not all ended yet.",
        ),
        (Obstacle::Waiting { what: "nodes to be provisioned".into() }, "It waits for nodes to be provisioned."),
        (
            Obstacle::TooLarge { rows: 30_000, limit: 1_000 },
            "Its plan has 30000 rows and does not fit one log entry (1000 bytes). Fewer tasks or larger nodes would.",
        ),
        (
            Obstacle::Conflicts { attempts: 9, reason: ConflictReason::NodeFull(CPU) },
            "9 plans in a row collided with what others placed meanwhile (last: NodeFull). It is looked at again soon.",
        ),
        (Obstacle::EmptyPlan, "Its scheduler returned a plan without content, which is an error of ours."),
    ] {
        assert_eq!(say(obstacle).as_deref(), Some(expected));
    }
}

#[test]
fn what_needs_nothing_says_why() {
    let (mut world, id) = world_with(job("any", Class::BATCH, 1, 1, 1_000), &[("a", 4_000)]);
    let ask = |world: &World, id| explain_job(&world.reference, &mut FirstFit::new(Class::BATCH, false), id);
    assert_eq!(ask(&world, id), Answer::Fits { tasks: 1, victims: 0 });
    assert_eq!(ask(&world, JobId(77)), Answer::Unknown);
    world.command(ohm_model::Command::SuspendJob { name: "any".into() });
    let why = "job any is suspended; resume it to have it placed.".to_string();
    assert_eq!(ask(&world, id), Answer::NeedsNothing { why });
    world.command(ohm_model::Command::CancelJob { name: "any".into(), grace_ms: None });
    assert_eq!(ask(&world, id), Answer::NeedsNothing { why: "job any is cancelled.".to_string() });
}
