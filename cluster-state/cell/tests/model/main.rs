//! The cell against a plain, slow model of the same rules: random commands, most of them slightly wrong, and after
//! each one every outcome, task, node and queue compared. `OHM_SEEDS=N` runs more seeds, `OHM_SEED=N` runs that one
//! alone.

mod admission;
mod brought;
mod budgets;
mod checks;
mod claims;
mod commit;
mod compare;
mod conditions;
mod dice;
mod heads;
mod judge;
mod kept;
mod leaving;
mod life;
mod moves;
mod neighbours;
mod plans;
mod priorities;
mod profiles;
mod ready;
mod repair;
mod repair_requests;
mod spares;
mod state;
mod stops;
mod survivors;
mod taints;
mod turns;
mod update;
mod world;

use world::World;

/// Commands per seed.
const STEPS: usize = 160;

#[test]
fn the_cell_does_what_the_plain_model_does() {
    let number = |name: &str| {
        std::env::var_os(name).map(|text| text.to_str().and_then(|text| text.parse().ok()).expect("a number"))
    };
    let seeds = match number("OHM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("OHM_SEEDS").unwrap_or(200),
    };
    let (mut taken, mut updated, mut admitted, mut moved, mut returned) = (0, 0, 0, 0, 0);
    let (mut spares, mut used, mut claimed, mut earmarked, mut taken_back) = (0, 0, 0, 0, 0);
    let (mut asked_for_repairs, mut budgeted) = (0, 0);
    let (mut heads, mut ceded, mut stopped, mut timed_out, mut ruled_out) = (0, 0, 0, 0, 0);
    for seed in seeds.clone() {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            if let Err(difference) = world.step() {
                panic!("seed {seed}: {difference}");
            }
        }
        world.replay();
        taken += world.taken;
        updated += world.updated;
        admitted += world.admitted;
        returned += world.plain.returned;
        moved += world.moved;
        spares += world.plain.spares_held;
        used += world.plain.spares_used;
        claimed += world.plain.claimed;
        earmarked += world.plain.earmarked;
        heads += world.plain.heads_made;
        ceded += world.plain.have_ceded;
        stopped += world.plain.stopped;
        timed_out += world.plain.timed_out;
        ruled_out += world.plain.ruled_out;
        budgeted += world.plain.held_by_budgets;
        taken_back += world.plain.taken_back;
        asked_for_repairs += world.plain.asked_for_repairs;
    }
    // A generator that is always refused proves nothing; the quarter that dwells on admission places little.
    let steps = (seeds.end - seeds.start) * STEPS as u64;
    assert!(taken * 22 > steps, "only {taken} tasks were placed in {steps} steps");
    assert!(moved * 500 > steps, "only {moved} tasks were moved in {steps} steps");
    assert!(spares * 800 > steps, "only {spares} spares were held in {steps} steps");
    assert!(used > 0, "none of {spares} spares was used");
    assert!(claimed * 400 > steps, "only {claimed} repairs claimed room in {steps} steps");
    assert!(heads * 800 > steps, "{heads} jobs became the head of their line in {steps} steps");
    assert!(ceded * 3000 > steps, "{ceded} jobs left quota to others in {steps} steps");
    assert!(stopped * 8000 > steps, "{stopped} jobs were stopped by their queues in {steps} steps");
    assert!(timed_out * 8000 > steps, "{timed_out} jobs were not ready in time in {steps} steps");
    assert!(ruled_out * 200 > steps, "{ruled_out} rows were refused by rules about other tasks in {steps} steps");
    assert!(budgeted * 4000 > steps, "{budgeted} tasks were kept by budgets in {steps} steps");
    assert!(earmarked * 800 > steps, "{claimed} claims got room for {earmarked} tasks in {steps} steps");
    assert!(taken_back * 3000 > steps, "only {taken_back} nodes were taken back in {steps} steps");
    assert!(
        asked_for_repairs * 4000 > steps,
        "repairs asked for nodes only {asked_for_repairs} times in {steps} steps"
    );
    assert!(returned * 1000 > steps, "only {returned} kept runs lived on in {steps} steps");
    assert!(updated * 80 > steps, "only {updated} jobs were updated in {steps} steps");
    assert!(admitted * 40 > steps, "jobs stood admitted for only {admitted} of {steps} steps");
}
