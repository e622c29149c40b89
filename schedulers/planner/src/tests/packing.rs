//! How full a small GPU cell becomes by what counts: a list of tasks of one shape each, drawn from a seed, that asks for
//! 130 % of its devices. Nothing ever ends, so what was stranded stays stranded.

use super::check as check_default;
use crate::ProfilePlanner;
use ohm_cell::Overlay;
use ohm_framework::{Board, Decision, Plan, PlannedJob, Planner, View, Work};
use ohm_model::{Class, Grain, GroupIndex, JobId, NodeId, SchedulingProfile, Score, ScoreBase};
use ohm_placement::fixture::World;
use ohm_placement::score::{self, Granularity, Lost, NodeQuestion};
use ohm_placement::{Config, Placer, Subject, Typical, rows};
use ohm_stdx::Prng;

/// Nodes: how many, and each one.
const NODES: [(usize, &str); 3] =
    [(12, "cpu=96 memory=384Gi gpu=8"), (10, "cpu=96 memory=384Gi gpu=2"), (2, "cpu=64 memory=256Gi gpu=4")];
/// Requests: how many of a hundred, thousandths of devices, and each one.
const REQUESTS: [(usize, u64, &str); 14] = [
    (8, 0, "cpu=12 memory=56Gi"),
    (5, 0, "cpu=32 memory=48Gi"),
    (13, 810, "cpu=3 memory=6Gi gpu=810m"),
    (10, 470, "cpu=10 memory=40Gi gpu=470m"),
    (5, 320, "cpu=4 memory=20Gi gpu=320m"),
    (3, 650, "cpu=12 memory=46Gi gpu=650m"),
    (3, 160, "cpu=4 memory=15Gi gpu=160m"),
    (22, 1000, "cpu=11 memory=48Gi gpu=1"),
    (9, 1000, "cpu=3 memory=6Gi gpu=1"),
    (8, 1000, "cpu=18 memory=64Gi gpu=1"),
    (8, 1000, "cpu=8 memory=32Gi gpu=1"),
    (4, 1000, "cpu=15 memory=58Gi gpu=1"),
    (1, 4000, "cpu=32 memory=96Gi gpu=4"),
    (1, 8000, "cpu=64 memory=192Gi gpu=8"),
];

/// Any node with room, by dice.
struct Anywhere(Placer);

impl Planner for Anywhere {
    fn class(&self) -> Class {
        Class::BATCH
    }

    fn plan(&mut self, board: &mut Board<'_>, work: &Work, dice: &mut Prng) -> Plan {
        let mut pass = self.0.begin(board.lend());
        let mut plan = Plan::default();
        for item in &work.jobs {
            let job = pass.job(item.job).unwrap();
            let subject = Subject::new(pass.view(), job, GroupIndex(0)).unwrap();
            let open: Vec<NodeId> = pass.cell().nodes().present().filter(|node| subject.room(*node) > 0).collect();
            let found = dice.pick(&open).map_or(Vec::new(), |node| rows(&subject, &[(*node, 1)]));
            self.0.take(&mut pass, job, &found);
            let guard = pass.view().guard(job);
            plan.decisions.push(Decision::Planned(Box::new(PlannedJob::placing(guard, Grain::Minimum, found))));
        }
        pass.end();
        plan
    }

    fn changed(&mut self, view: &View<'_>, nodes: &[NodeId], _: &[JobId]) {
        self.0.changed(view, nodes);
    }

    fn reset(&mut self, view: &View<'_>) {
        self.0.reset(view);
    }
}

/// A cell with its jobs, their names, and how many thousandths of devices each asks for.
fn cell(seed: u64) -> (World, Vec<(String, u64)>) {
    let (mut dice, mut world) = (Prng::new(seed), World::new());
    let mut nodes: Vec<&str> = NODES.iter().flat_map(|(count, node)| std::iter::repeat_n(*node, *count)).collect();
    dice.shuffle(&mut nodes);
    let mut planner = super::fresh();
    let lines = nodes.iter().enumerate().map(|(number, node)| format!("node n{number:02} {node}\n"));
    world.extend(&lines.collect::<String>(), &mut planner);
    let deck: Vec<(u64, &str)> =
        REQUESTS.iter().flat_map(|(count, milli, text)| std::iter::repeat_n((*milli, *text), *count)).collect();
    let (mut jobs, mut asked) = (Vec::new(), 0);
    while asked < devices() * 13 / 10 {
        let (milli, request) = *dice.pick(&deck).unwrap();
        let name = format!("j{:04}", jobs.len());
        world.extend(&format!("job {name}\n group g {request}"), &mut planner);
        asked += milli;
        jobs.push((name, milli));
    }
    (world, jobs)
}

/// Thousandths of all devices.
fn devices() -> u64 {
    let of = |node: &str| node.rsplit_once('=').unwrap().1.parse::<u64>().unwrap();
    NODES.iter().map(|(count, node)| *count as u64 * of(node) * 1000).sum()
}

/// How many thousandths of the devices of some cells are taken in the end.
fn taken(planner: &mut dyn Planner) -> u64 {
    let taken_in = |seed: u64| -> u64 {
        let (world, jobs) = cell(seed);
        let names: Vec<&str> = jobs.iter().map(|(name, _)| name.as_str()).collect();
        let decisions = world.plan_all(&names, planner);
        let is_placed =
            |decision: &Decision| matches!(decision, Decision::Planned(planned) if !planned.place.is_empty());
        jobs.iter().zip(&decisions).filter(|(_, decision)| is_placed(decision)).map(|((_, milli), _)| milli).sum()
    };
    (1..=8).map(taken_in).sum::<u64>() * 1000 / (8 * devices())
}

fn by(scores: &[(Score, u32)]) -> ProfilePlanner {
    let none = SchedulingProfile { scores: Vec::new(), ..SchedulingProfile::built_in(Class::BATCH) };
    ProfilePlanner::new(scores.iter().fold(none, |profile, (score, weight)| profile.with_score(score.clone(), *weight)))
}

fn by_base(base: ScoreBase) -> ProfilePlanner {
    ProfilePlanner::new(SchedulingProfile { scores: base.scores(), ..SchedulingProfile::built_in(Class::BATCH) })
}

#[test]
fn packing_takes_more_devices_than_best_fit_and_best_fit_more_than_dice() {
    let anywhere = taken(&mut Anywhere(Placer::new(&Config::new(SchedulingProfile::built_in(Class::BATCH)))));
    let best_fit = taken(&mut by(&[(Score::NodeResourcesFit { strategy: ohm_model::FitStrategy::MostAllocated }, 1)]));
    let (default, packing) = (taken(&mut by_base(ScoreBase::Default)), taken(&mut by_base(ScoreBase::Packing)));
    let told = format!("anywhere {anywhere}, best fit {best_fit}, default {default}, packing {packing}");
    assert!(anywhere < best_fit && best_fit <= default && default < packing, "{told}");
}

/// What FragmentationGradient says of the first node for the job called `j`.
fn lost(text: &str) -> Lost {
    let world = World::of(text, &mut super::fresh());
    let over = Overlay::default();
    let view = View::new(&world.cell, &over, world.session);
    let job = world.cell.jobs().find("j").unwrap();
    let shape = world.cell.shapes().get(job.groups[0].shape).unwrap();
    let node = world.cell.nodes().present().next().unwrap();
    let typical = &Typical::of(&world.cell);
    let Some(Granularity::Typical(ask)) = score::entry(&Score::FragmentationGradient).map(|entry| entry.granularity)
    else {
        panic!("it is asked per node")
    };
    ask(&NodeQuestion { view: &view, shape, node, typical })
}

#[test]
fn what_typical_requests_could_use_no_more_is_lost() {
    const WHOLE: &str = " job whole\n group g count=3 cpu=4 gpu=1\n";
    let parts = |lost: Lost| (lost.parts, lost.of);
    // Four tasks find processors, two find devices. Processors for two are left: nothing is lost.
    let text = |cpu: u32| format!("node a cpu=16 gpu=2\n{WHOLE} job j\n group g cpu={cpu}");
    assert_eq!(parts(lost(&text(8))), (0, 1024 * 4000));
    // Seven processors last for one device and three quarters: of the quarter that counts so, a quarter is lost. Three
    // are none for anybody: both devices are lost.
    assert_eq!(parts(lost(&text(9))), (1024 * 250, 1024 * 4000));
    assert_eq!(parts(lost(&text(13))), (1024 * 8000, 1024 * 4000));
    // A node whose devices nobody could use anyway loses nothing, neither does one without devices.
    let used_up = format!("node a cpu=16 gpu=2\n job n\n group g cpu=13\n place n\n{WHOLE} job j\n group g cpu=3");
    assert_eq!(parts(lost(&used_up)), (0, 1024 * 4000));
    assert_eq!(lost(&format!("node a cpu=16\n{WHOLE} job j\n group g cpu=16")), Lost::NOTHING);
    // Where nobody asks for devices, all are as good.
    assert_eq!(lost("node a cpu=16 gpu=2\n job j\n group g cpu=16"), Lost::NOTHING);
}

#[test]
fn a_share_costs_what_the_device_it_breaks_up_was_good_for() {
    // Of four tasks three ask for whole devices and one, `j`, for half of one: 768 and 256 of 1024.
    const JOBS: &str = " job whole\n group g count=3 cpu=1 gpu=1\n job j\n group g cpu=1 gpu=500m\n";
    let one_device = lost(&format!("node a cpu=16 gpu=1\n{JOBS}"));
    // For whole ones nothing is left, for halves half of it.
    assert_eq!((one_device.parts, one_device.of), (768 * 4000 + 256 * 2000, 1024 * 4000));
    // The second half goes to the broken device: for those who want whole ones nothing changes. `n` asks for as much as
    // `j` and counts with it: 614 and 409 of 1024.
    let broken = lost(&format!("node a cpu=16 gpu=2\n job n\n group g cpu=1 gpu=500m\n place n\n{JOBS}"));
    assert_eq!((broken.parts, broken.of), (409 * 2000, 1023 * 4000));
}

#[test]
fn nodes_that_a_request_may_not_go_to_are_no_loss_to_it() {
    let text = |label: &str| {
        format!("node a cpu=8 gpu=1 {label}\n job t\n group g cpu=4 gpu=1 select=model:t4\n job j\n group g cpu=8")
    };
    assert_eq!(lost(&text("model=t4")).parts, 1024 * 4000);
    assert_eq!(lost(&text("model=p100")).parts, 0);
}

#[test]
fn processors_beside_free_devices_are_left_to_those_who_ask_for_devices() {
    let text =
        "node a cpu=12 gpu=1\n node b cpu=16 gpu=1\n job gpus\n group g count=4 cpu=8 gpu=1\n job j\n group g cpu=6";
    let gradient = by(&[
        (Score::NodeResourcesFit { strategy: ohm_model::FitStrategy::MostAllocated }, 1),
        (Score::FragmentationGradient, 5),
    ]);
    check_default(text, "g 0 on a");
    ohm_placement::fixture::check(&mut { gradient }, text, "g 0 on b");
}

#[test]
fn a_single_task_of_a_service_packs_and_several_spread() {
    let text = |count: u32| format!("node a cpu=8\n node b cpu=4\n job j class=service\n group g count={count} cpu=1");
    let mut planner = super::fresh_of("service");
    ohm_placement::fixture::check(&mut planner, &text(1), "g 0 on b");
    ohm_placement::fixture::check(&mut planner, &text(2), "g 0 on a, 1 on b");
}

#[test]
fn free_devices_are_kept_from_those_who_ask_for_none() {
    // The devices of `a` are taken.
    let text = "node a cpu=16 gpu=2\n node b cpu=12 gpu=2\n job gpus\n group g count=1 cpu=1 gpu=2 select=own:a\n";
    let text = text.replace("a cpu=16", "a cpu=16 own=a") + " place gpus\n job j\n group g cpu=4";
    check_default(&text, "g 0 on a");
    let without = by(&[(Score::NodeResourcesFit { strategy: ohm_model::FitStrategy::ByGroup }, 1)]);
    ohm_placement::fixture::check(&mut { without }, &text, "g 0 on b");
}
