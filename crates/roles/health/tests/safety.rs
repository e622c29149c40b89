//! Agents, drivers, leases and the health duty together: a lost node runs nothing that must stop, and no such task ever
//! lives twice, whatever clocks, links and processes do within their bounds.

use crate::world;

use world::{END_MS, Plant, World};

fn simulate(seed: u64, plant: Plant) -> World {
    let mut world = World::new(seed, plant);
    while world.now_ms < END_MS && (plant == Plant::Nothing || world.violations.is_empty()) {
        world.step();
    }
    world
}

fn check_seeds(count: u64) {
    let (mut lost, mut epochs) = (0, 0);
    for seed in 0..count {
        let world = simulate(seed, Plant::Nothing);
        assert_eq!(world.violations, Vec::<String>::new(), "seed {seed}");
        assert_eq!(world.unsettled(), Vec::<String>::new(), "seed {seed}");
        lost += world.cell.lost_count;
        epochs += world.cell.duty.epoch.0;
    }
    assert!(u64::from(lost) > count && epochs > 2 * count, "faults did happen: {lost} lost, {epochs} takes");
}

#[test]
fn a_lost_node_runs_nothing_that_must_stop_and_no_such_task_lives_twice() {
    check_seeds(24);
}

#[test]
#[ignore = "a sweep: run it optimised, with --profile sim"]
fn no_task_lives_twice_in_thousands_of_seeds() {
    check_seeds(3000);
}

#[test]
fn one_seed_gives_one_history() {
    let (first, second) = (simulate(5, Plant::Nothing), simulate(5, Plant::Nothing));
    assert_eq!(format!("{:?}", first.cell), format!("{:?}", second.cell));
}

#[test]
fn answers_that_grant_too_much_are_found_out() {
    let found = (0..40).filter(|&seed| !simulate(seed, Plant::GenerousAnswers).violations.is_empty()).count();
    assert!(found > 0);
}

#[test]
fn servers_that_answer_by_themselves_are_found_out() {
    let found = (0..40).filter(|&seed| !simulate(seed, Plant::ServersAnswer).violations.is_empty()).count();
    assert!(found > 0);
}
