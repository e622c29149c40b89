//! Rules about other tasks: groups are placed beside the tasks around them, one task after the other.

use super::properties::lived_in;
use super::{check, fresh};
use ohm_cell::Overlay;
use ohm_framework::View;
use ohm_model::GroupIndex;
use ohm_placement::Subject;
use ohm_placement::fixture::random::{self, Kinds};
use ohm_stdx::Prng;
use proptest::prelude::*;

const ZONES: &str = "
    node a0 cpu=4 zone=a
    node a1 cpu=4 zone=a
    node b0 cpu=4 zone=b
    node c0 cpu=4 zone=c
    node x0 cpu=4
";

fn on_zones(job: &str, expected: &str) {
    check(&format!("{ZONES}\n{job}"), expected);
}

#[test]
fn tasks_that_keep_each_other_away_stand_in_one_domain_each() {
    on_zones(
        "job j class=service\ngroup web count=4 cpu=1 label=app:web far=app:web@zone",
        "web 0 on a0, 1 on b0, 2 on c0, 3 on x0",
    );
}

#[test]
fn a_gang_that_finds_too_few_domains_waits() {
    on_zones(
        "job j\ngroup web count=5 cpu=1 select=zone:a label=app:web far=app:web@zone",
        "1 of the 5 tasks of group web that must be placed together would find room.
         Of 5 nodes, by the first reason found: 2 can take at least one task; 3 lack a label of its nodeSelector.",
    );
}

#[test]
fn tasks_are_spread_evenly_in_the_order_in_which_the_log_judges_them() {
    on_zones(
        "job j\ngroup web count=7 cpu=1 label=app:web even=app:web@zone",
        "web 0 on a0, 1 on b0, 2-3 on c0, 4 on a0, 5-6 on b0",
    );
}

#[test]
fn tasks_stand_near_the_first_of_them() {
    on_zones("job j\ngroup ring count=6 cpu=1 label=app:ring near=app:ring@zone", "ring 0-3 on a0, 4-5 on a1");
}

#[test]
fn a_task_that_nobody_is_near_waits() {
    on_zones(
        "job j\ngroup lost cpu=1 near=app:nobody@zone",
        "0 of the 1 task of group lost that must be placed together would find room.
        Of 5 nodes, by the first reason found: 5 have no task in their zone that it must be near.",
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever was placed of a group with rules, no node takes one more task of it, as long as more wait.
    #[test]
    fn no_room_is_left_beside_the_tasks_around(seed in any::<u64>()) {
        let mut dice = Prng::new(seed);
        let mut planner = fresh();
        let (mut world, mut text) = lived_in(&mut dice, &mut planner);
        let kinds = Kinds { topology: false, class: "service", groups: false, rules: true };
        let job = random::job(&mut dice, "last", kinds).replace(" queue=team", "");
        let job = (2..=6).fold(job, |job, min| job.replace(&format!(" min={min}"), " min=1"));
        world.extend(&job, &mut planner);
        text += &job;
        let (found, _) = world.place("last", &mut planner);
        let over = Overlay::default();
        let last = world.cell.jobs().find("last").unwrap();
        let waits = last.pending() > 0 && world.cell.nominations().is_empty();
        let subject = Subject::new(View::new(&world.cell, &over, world.session), last, GroupIndex(0)).unwrap();
        for (node, record) in world.cell.nodes().iter().filter(|_| waits) {
            prop_assert_eq!(subject.room(node), 0, "{} takes one more\n{}\n{}", record.spec.name, found, text);
        }
    }
}
