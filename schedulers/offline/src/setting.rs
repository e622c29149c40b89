//! Makes a cell stand as the documents say, by commands alone.

use crate::answer::{IgnoredField, Totals};
use crate::facts::Facts;
use crate::flavors::{bare, open_groups};
use crate::question::{AskedJob, PlanError, Scene};
use crate::rooms::Rooms;
use crate::seating::seat;
use crate::standing::{Standing, let_stand};
use crate::world::World;
use ohm_manifest::NodeDocument;
use ohm_model::{
    Amounts, Command, GroupSpec, JobId, Namespace, NodeHealth, NodeId, QueueSpec, QueueingStrategy, Refusal,
    StopPolicy, split_job_name,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The cell as the documents describe it.
pub(crate) struct Setting {
    pub(crate) world: World,
    pub(crate) jobs: Vec<Standing>,
    pub(crate) rooms: Rooms,
    pub(crate) before: Totals,
    pub(crate) ignored: Vec<IgnoredField>,
}

/// Makes the cell of `scene`; nodes have failed and are drained afterwards as it says.
pub(crate) fn of(mut scene: Scene) -> Result<Setting, PlanError> {
    let mut world = World::new();
    put_topologies(&mut world, &scene)?;
    let namespaces = put_namespaces(&mut world, &scene);
    put_priority_classes(&mut world, &scene)?;
    put_profiles(&mut world, &scene)?;
    put_flavors(&mut world, &scene, true)?;
    put_scheduling(&mut world, &scene)?;
    put_queues(&mut world, &scene, true)?;
    put_subqueues(&mut world, &scene)?;
    let mut jobs = submit(&mut world, &mut scene);
    seat(&mut world, &mut scene, &mut jobs);
    put_flavors(&mut world, &scene, false)?;
    put_queues(&mut world, &scene, false)?;
    put_budgets(&mut world, &scene, &jobs)?;
    let states = scene.nodes.iter().filter(|node| !node.ready).map(|node| node.spec.name.clone()).collect::<Vec<_>>();
    states.iter().for_each(|name| world.conclude(name, NodeHealth::Suspect));
    let cordoned = scene.nodes.iter().filter(|node| node.unschedulable);
    let cordon = |node: &NodeDocument| Command::CordonNode { name: node.spec.name.clone(), cordoned: true };
    world.apply_all(cordoned.map(cordon).collect());
    let mut rooms = Rooms::of(&world, &scene.nodes);
    let before = rooms.totals(&world);
    if scene.tells_nodes {
        let facts = Facts { namespaces, ..std::mem::take(&mut scene.facts) };
        world.facts = Arc::new(facts.of_nodes(&scene.nodes));
    }
    lose(&mut world, &scene, &mut jobs, &mut rooms);
    Ok(Setting { world, jobs, rooms, before, ignored: scene.ignored })
}

fn put_topologies(world: &mut World, scene: &Scene) -> Result<(), PlanError> {
    for (origin, topology) in &scene.topologies {
        world.try_apply(Command::PutTopology(topology.clone())).map_err(|refusal| PlanError::Document {
            origin: origin.clone(),
            field: "spec",
            problem: refusal.to_string(),
        })?;
    }
    Ok(())
}

/// The namespaces of jobs and budgets are there, whether documents describe them or not.
fn put_namespaces(world: &mut World, scene: &Scene) -> BTreeMap<String, Namespace> {
    let of_jobs = scene.jobs.iter().map(|job| &job.spec.name);
    let names = of_jobs.chain(scene.budgets.iter().map(|(_, budget)| &budget.name));
    let named = names.map(|name| split_job_name(name).0);
    let named = named.map(|name| Namespace { name: name.to_string(), labels: BTreeMap::new() });
    let namespaces: BTreeMap<String, Namespace> =
        named.chain(scene.namespaces.iter().cloned()).map(|namespace| (namespace.name.clone(), namespace)).collect();
    world.apply_all(namespaces.values().cloned().map(Command::PutNamespace).collect());
    namespaces
}

/// Puts the disruption budgets. What stands runs: it is healthy.
fn put_budgets(world: &mut World, scene: &Scene, jobs: &[Standing]) -> Result<(), PlanError> {
    for (origin, budget) in &scene.budgets {
        world.try_apply(Command::PutBudget(budget.clone())).map_err(|refusal| PlanError::Document {
            origin: origin.clone(),
            field: "spec",
            problem: refusal.to_string(),
        })?;
    }
    let has_own = |standing: &&Standing| standing.spec.groups.iter().any(|group| group.disruption_budget.is_some());
    let of_budgets = jobs.iter().filter(|standing| !scene.budgets.is_empty() || has_own(standing));
    let of_budgets: Vec<JobId> = of_budgets.filter_map(|standing| standing.job.as_ref().ok().copied()).collect();
    of_budgets.into_iter().for_each(|job| world.start_all(job));
    Ok(())
}

fn put_priority_classes(world: &mut World, scene: &Scene) -> Result<(), PlanError> {
    for (origin, class) in &scene.priority_classes {
        world.try_apply(Command::PutPriorityClass(class.clone())).map_err(|refusal| PlanError::Document {
            origin: origin.clone(),
            field: "value",
            problem: refusal.to_string(),
        })?;
    }
    Ok(())
}

fn put_profiles(world: &mut World, scene: &Scene) -> Result<(), PlanError> {
    for (origin, profile) in &scene.profiles {
        world.try_apply(Command::PutSchedulingProfile(Box::new(profile.clone()))).map_err(|refusal| {
            let (field, problem) = match refusal {
                Refusal::Invalid { problem, .. } => ("spec", problem),
                refusal => ("metadata.name", refusal.to_string()),
            };
            PlanError::Document { origin: origin.clone(), field, problem }
        })?;
        world.serve(profile.class);
    }
    Ok(())
}

/// Puts the flavors; `open` leaves away what they ask for, so that what runs already is not judged by it.
fn put_flavors(world: &mut World, scene: &Scene, open: bool) -> Result<(), PlanError> {
    for (origin, flavor) in &scene.flavors {
        let flavor = if open { bare(flavor) } else { flavor.clone() };
        world.try_apply(Command::PutResourceFlavor(Box::new(flavor))).map_err(|refusal| PlanError::Document {
            origin: origin.clone(),
            field: "spec",
            problem: refusal.to_string(),
        })?;
    }
    Ok(())
}

fn put_scheduling(world: &mut World, scene: &Scene) -> Result<(), PlanError> {
    let Some((origin, scheduling)) = &scene.scheduling else { return Ok(()) };
    world.try_apply(Command::PutScheduling(scheduling.clone())).map_err(|refusal| PlanError::Document {
        origin: origin.clone(),
        field: "spec",
        problem: refusal.to_string(),
    })
}

fn put_subqueues(world: &mut World, scene: &Scene) -> Result<(), PlanError> {
    for (origin, subqueue) in &scene.subqueues {
        world.try_apply(Command::PutSubqueue(subqueue.clone())).map_err(|refusal| {
            let (field, problem) = match refusal {
                Refusal::Invalid { field, problem } if field == "spec.queue" => ("spec.queue", problem),
                refusal => ("metadata.name", refusal.to_string()),
            };
            PlanError::Document { origin: origin.clone(), field, problem }
        })?;
    }
    Ok(())
}

/// Puts the queues; `open` leaves their limits and their order away, so that what runs already is not judged by them.
fn put_queues(world: &mut World, scene: &Scene, open: bool) -> Result<(), PlanError> {
    for (origin, queue) in &scene.queues {
        let (nominal, borrowing_limit) = match open {
            true => (Amounts::new(), Amounts::new()),
            false => (queue.nominal.clone(), queue.borrowing_limit.clone()),
        };
        let resource_groups = if open { open_groups(scene, queue) } else { queue.resource_groups.clone() };
        let queueing_strategy = if open { QueueingStrategy::default() } else { queue.queueing_strategy };
        let admission_checks = Vec::new();
        let stop_policy = if open { StopPolicy::None } else { queue.stop_policy };
        // A plan is made for all jobs that are asked about.
        let max_waiting_jobs = 0;
        // On paper nobody reports that anything runs.
        let ready_timeout = None;
        let quota = QueueSpec { nominal, borrowing_limit, resource_groups, ready_timeout, ..queue.clone() };
        let spec = QueueSpec { admission_checks, queueing_strategy, stop_policy, max_waiting_jobs, ..quota };
        world.try_apply(Command::PutQueue(spec)).map_err(|refusal| {
            let parent = if queue.is_cohort { "spec.parent" } else { "spec.cohort" };
            let (field, problem) = match refusal {
                Refusal::Invalid { field, problem } if field == parent => (parent, problem),
                refusal => ("spec", refusal.to_string()),
            };
            PlanError::Document { origin: origin.clone(), field, problem }
        })?;
    }
    Ok(())
}

/// Submits the jobs, the oldest first; those of one age in file order.
fn submit(world: &mut World, scene: &mut Scene) -> Vec<Standing> {
    let mut order: Vec<usize> = (0..scene.jobs.len()).collect();
    order.sort_by_key(|at| scene.jobs[*at].created_us);
    let mut accepted: BTreeMap<usize, Result<JobId, String>> = BTreeMap::new();
    for at in order {
        let job = &scene.jobs[at];
        let mut spec = job.spec.clone();
        // What runs is not suspended, whatever the file says.
        spec.suspended &= job.stands.is_empty();
        if job.is_bound_pod {
            scene.facts.note_bound(&spec);
            let_stand(&mut spec);
        }
        let submitted = world.submit(spec).map_err(|refusal| refusal.to_string());
        world.bound_pods.extend(submitted.iter().filter(|_| job.is_bound_pod));
        accepted.insert(at, submitted);
    }
    let standing = |(job, accepted): (&AskedJob, Result<JobId, String>)| {
        let stood = job.stands.iter().map(|allocation| allocation.count).fold(0u32, u32::saturating_add);
        let resized = !job.stands.is_empty() && job.spec.groups.iter().any(|group| is_resized(job, group));
        let is_failed = |node: &String| scene.fail.contains(node) || scene.drain.contains(node);
        let resized = resized && !job.stands.iter().any(|allocation| is_failed(&allocation.node));
        let (spec, asked, is_bound_pod) = (job.spec.clone(), job.asked, job.is_bound_pod);
        Standing { spec, asked, is_bound_pod, job: accepted, stood, gone: 0, lost: 0, drained: 0, resized }
    };
    scene.jobs.iter().zip(accepted.into_values()).map(standing).collect()
}

fn is_resized(job: &AskedJob, group: &GroupSpec) -> bool {
    let of_group = job.stands.iter().filter(|allocation| allocation.group == group.name);
    let stood = of_group.map(|allocation| allocation.count).fold(0u32, u32::saturating_add);
    stood < group.min_count || stood > group.count
}

/// Takes away the nodes that fail, and begins to drain those that are to be drained: what stands there leaves as in a
/// live cell, once there is a place for it.
fn lose(world: &mut World, scene: &Scene, jobs: &mut [Standing], rooms: &mut Rooms) {
    let mut counts: BTreeMap<JobId, (u32, u32)> = BTreeMap::new();
    let count = |world: &World, node: NodeId| {
        let runs = world.cell.runs().on_node(world.cell.nodes(), node);
        runs.map(|(_, run)| run.run.task.job).collect::<Vec<_>>()
    };
    for name in &scene.fail {
        let Some(node) = world.cell.nodes().find(name) else { continue };
        count(world, node).into_iter().for_each(|job| counts.entry(job).or_default().0 += 1);
        world.conclude(name, NodeHealth::Lost);
        world.apply(Command::RemoveNode { name: name.clone() });
        if let Some(&at) = scene.node_index.get(name) {
            rooms.leave(&scene.nodes[at]);
        }
    }
    let drained: Vec<NodeId> = scene.drain.iter().filter_map(|name| world.cell.nodes().find(name)).collect();
    let drain = |name: &String| Command::DrainNode { name: name.clone(), deadline_ms: 0, at_once: 1 };
    world.apply_all(scene.drain.iter().map(drain).collect());
    for node in drained {
        count(world, node).into_iter().for_each(|job| counts.entry(job).or_default().1 += 1);
    }
    for standing in jobs {
        let (lost, drained) = standing.job.as_ref().ok().and_then(|job| counts.get(job)).copied().unwrap_or_default();
        standing.lost += lost;
        standing.drained += drained;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::Question;
    use ohm_manifest::parse;

    fn setting(documents: &[String]) -> Setting {
        let verdicts = parse("cell.yaml", documents.join("---\n").as_bytes());
        let cell = verdicts.into_iter().map(|verdict| verdict.expect("a good document")).collect();
        of(Scene::of(Question { cell, ..Question::default() }).expect("a scene")).expect("a setting")
    }

    fn job(name: &str, metadata: &str) -> String {
        format!("apiVersion: ohm/v1\nkind: Job\nmetadata: {{name: {name}{metadata}}}\nspec: {{}}\n")
    }

    #[test]
    fn jobs_are_as_old_as_they_say() {
        let at = |second: u32| format!(", creationTimestamp: \"2026-01-01T00:00:0{second}Z\"");
        let setting = setting(&[job("a", &at(2)), job("d", ""), job("b", &at(1)), job("c", "")]);
        let mut jobs: Vec<_> = setting.world.cell.jobs().iter().collect();
        jobs.sort_by_key(|job| job.submitted);
        let names: Vec<&str> = jobs.iter().map(|job| job.spec.name.as_str()).collect();
        assert_eq!(names, ["d", "c", "b", "a"], "those without an age are the oldest, in the order of the file");
    }

    #[test]
    fn what_reserved_its_quota_first_is_placed_first() {
        let node = "apiVersion: ohm/v1\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {pods: 9}}\n";
        let runs = |name: &str, more: &str| {
            format!("apiVersion: ohm/v1\nkind: Allocation\nspec: {{job: {name}, node: n, count: 1{more}}}\n")
        };
        let at = |second: u32| format!(", reservedAt: \"2026-01-01T00:00:0{second}Z\"");
        let mut documents = vec![node.to_string()];
        for (name, more) in [("a", at(2)), ("b", at(1)), ("c", String::new())] {
            documents.extend([job(name, ""), runs(name, &more)]);
        }
        let setting = setting(&documents);
        let cell = &setting.world.cell;
        let placed = |name: &str| {
            let job = cell.jobs().find(name).expect("a job").id;
            let mut runs = cell.runs().iter().map(|(_, run)| run).filter(|run| run.run.task.job == job);
            runs.next().map(|run| run.placed)
        };
        assert!(placed("c") < placed("b") && placed("b") < placed("a") && placed("c").is_some());
    }
}
