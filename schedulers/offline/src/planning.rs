//! Plans the jobs in file order, or in passes as schedulers make them: each plan is committed before the next job is
//! looked at.

use crate::admission::{borrowing, code, flavors};
use crate::answer::{
    DomainCount, GroupAnswer, JobAnswer, JobOutcome, NodeCount, NodeVerdict, SparesAnswer, StartAnswer, TaskCounts,
    VictimAnswer,
};
use crate::cycles;
use crate::setting::Setting;
use crate::settle::{Ending, Settled, note_promise, settle, waits_for_room};
use crate::standing::Standing;
use crate::world::World;
use ohm_cell::{Cell, Job, JobState, budget_name, live_runs, moves_now, preemptions};
use ohm_framework::{ExpectedStart, Need, need_of};
use ohm_model::node::HOSTNAME_LABEL;
use ohm_model::{BudgetRef, JobId, NodeId, Victim, full_job_name};
use std::collections::BTreeMap;

/// For so many jobs that find no room it is sought by when they do: each one is planned several times for that.
const EXPECTED_MAX: usize = 100;

/// Plans every job of the setting: in file order, or in so many passes. Where nodes are told of, they are asked before
/// the job's turn in file order, and before the first pass.
pub(crate) fn plan_all(setting: &mut Setting, passes: Option<u32>, tell_nodes: bool) -> Vec<JobAnswer> {
    let Setting { world, jobs, .. } = setting;
    let (mut settled, evicted) = match passes {
        Some(passes) => {
            let mut asked: Vec<_> = jobs.iter().map(|standing| verdicts(world, standing, tell_nodes)).collect();
            let (mut settled, evicted) = cycles::run(world, jobs, passes);
            settled.iter_mut().zip(&mut asked).for_each(|(found, asked)| found.verdicts = std::mem::take(asked));
            (settled, evicted)
        }
        None => in_file_order(world, jobs, tell_nodes),
    };
    expect_starts(world, jobs, &mut settled);
    let answered = jobs.iter().zip(&settled).filter(|(standing, found)| {
        let touched = standing.displaced() > 0 || standing.stood == 0 || found.explanation.is_some();
        standing.asked
            || touched && !standing.is_bound_pod
            || standing.job.as_ref().is_ok_and(|job| evicted.contains_key(job))
    });
    answered.map(|(standing, found)| answer(world, standing, found, &evicted)).collect()
}

/// Finds by when those start that find no room, where what runs has deadlines. Each on its own: none of them takes what
/// another one waits for.
fn expect_starts(world: &mut World, jobs: &[Standing], settled: &mut [Settled]) {
    if jobs.iter().all(|standing| standing.spec.active_deadline_seconds == 0) {
        return;
    }
    let known = jobs.iter().zip(settled).filter_map(|(standing, found)| Some((*standing.job.as_ref().ok()?, found)));
    for (job, found) in known.filter(|(_, found)| waits_for_room(found)).take(EXPECTED_MAX) {
        found.expected = world.expected_start(job);
    }
}

fn verdicts(world: &World, standing: &Standing, tell_nodes: bool) -> Vec<Vec<NodeVerdict>> {
    let job = standing.job.as_ref().ok().filter(|_| tell_nodes && standing.asked);
    job.map(|job| crate::verdicts::of_job(world, *job)).unwrap_or_default()
}

fn in_file_order(world: &mut World, jobs: &[Standing], tell_nodes: bool) -> (Vec<Settled>, BTreeMap<JobId, String>) {
    let (mut evicted, mut promised): (BTreeMap<JobId, String>, Vec<JobId>) = (BTreeMap::new(), Vec::new());
    let mut settled: Vec<Settled> = Vec::with_capacity(jobs.len());
    for standing in jobs.iter() {
        let verdicts = verdicts(world, standing, tell_nodes);
        let mut found = match standing.job {
            Ok(job) if !standing.is_bound_pod => {
                let mut found = settle(world, job, Ending::AtOnce);
                note_promise(world, job, &mut found, &mut promised);
                found
            }
            _ => Settled::default(),
        };
        let preempted = found.preempts.iter().map(|victim| &victim.job);
        for victim in found.victims.iter().chain(preempted) {
            evicted.insert(*victim, standing.spec.name.clone());
        }
        found.verdicts = verdicts;
        settled.push(found);
    }
    // Those that made room wait like any other job, and are looked at once more.
    for (standing, found) in jobs.iter().zip(&mut settled) {
        let stopping = |job: JobId| world.job(job).is_some_and(|job| job.live() > 0);
        if let Ok(job) = standing.job
            && !standing.is_bound_pod
            && evicted.contains_key(&job)
            && !stopping(job)
        {
            let verdicts = std::mem::take(&mut found.verdicts);
            *found = Settled { verdicts, ..settle(world, job, Ending::AtOnce) };
        }
    }
    (settled, evicted)
}

fn answer(world: &World, standing: &Standing, found: &Settled, evicted: &BTreeMap<JobId, String>) -> JobAnswer {
    let spec = &standing.spec;
    let asked = spec.groups.iter().map(|group| group.count).fold(0u32, u32::saturating_add);
    let lost = standing.displaced();
    let mut tasks = TaskCounts { asked, before: standing.stood, lost, after: 0 };
    let bare = |name: &String| GroupAnswer {
        name: name.clone(),
        placements: Vec::new(),
        domains: Vec::new(),
        flavors: BTreeMap::new(),
        spares: None,
        explain: None,
        nodes: Vec::new(),
    };
    let mut groups: Vec<GroupAnswer> = spec.groups.iter().map(|group| bare(&group.name)).collect();
    let name = spec.name.clone();
    let (job, invalid) = match &standing.job {
        Ok(job) => (world.job(*job), None),
        Err(reason) => (None, Some(reason.clone())),
    };
    let Some(job) = job else { return not_there(name, invalid, tasks, groups) };
    tasks.after = job.live();
    for (group, flavors) in groups.iter_mut().zip(flavors(&world.cell, job)) {
        group.flavors = flavors;
    }
    groups.iter_mut().zip(&found.verdicts).for_each(|(group, verdicts)| group.nodes.clone_from(verdicts));
    for (at, group) in groups.iter_mut().enumerate() {
        group.placements = placements(&world.cell, job, at);
        group.domains = domains(&world.cell, job, at);
        group.spares = spares(&world.cell, job, at);
    }
    let need = need_of(&world.cell, job);
    let held_by = moves_now(&world.cell, job).1;
    let needs_place = matches!(need, Some(Need::Start | Need::Repair | Need::Move));
    let unmet = job.state != JobState::Active || needs_place || held_by.is_some();
    let outcome = outcome(world, standing, (job, unmet), (found, evicted));
    let (mut explanation, mut tried) = (Vec::new(), None);
    if let Some(why) = found.explanation.as_ref().filter(|_| job.pending() > 0 || need == Some(Need::Move)) {
        explanation.extend(why.to_text(&world.cell).lines().map(str::to_string));
        tried = why.tried.clone();
        for group in why.groups() {
            if let Some(group) = groups.get_mut(usize::from(group.0)) {
                group.explain = Some(why.counted(&world.cell));
            }
        }
    }
    explanation.extend(stays(world, standing, held_by).filter(|_| unmet));
    let reason = unmet.then(|| reason(job, &explanation, found, evicted.get(&job.id))).flatten();
    let code = unmet.then(|| code(&world.cell, job, found)).flatten();
    let borrowing = borrowing(&world.cell, job);
    let violates = |victim: &Victim| found.breaking.contains(&victim.job);
    let preempts = found.preempts.iter().map(|victim| victim_answer(world, victim, violates(victim))).collect();
    let nominated = nominated(&world.cell, job);
    let expected_start = found.expected.as_ref().filter(|_| unmet).map(|expected| start_answer(world, expected));
    JobAnswer {
        name,
        outcome,
        reason,
        explanation,
        expected_start,
        tried,
        code,
        borrowing,
        preempts,
        nominated,
        tasks,
        groups,
    }
}

/// What is said of what stays on nodes that are drained.
fn stays(world: &World, standing: &Standing, held_by: Option<BudgetRef>) -> Option<String> {
    let budget = held_by.map(|budget| budget_name(&world.cell, budget));
    let until = budget.map_or("room is found".to_string(), |budget| format!("budget {budget} lets it go"));
    (standing.drained > 0).then(|| format!("What runs on the drained nodes stays there until {until}."))
}

/// What became of a job, of which something is `unmet` or not.
fn outcome(
    world: &World,
    standing: &Standing,
    (job, unmet): (&Job, bool),
    (found, evicted): (&Settled, &BTreeMap<JobId, String>),
) -> JobOutcome {
    match (unmet, evicted.contains_key(&job.id)) {
        (true, _) if preemptions(&world.cell).get(job.id).is_some() => JobOutcome::Preempting,
        (true, true) if standing.stood > 0 => JobOutcome::Evicted,
        (false, true) if standing.stood > 0 && job.groups.iter().all(|group| group.live == group.stopping) => {
            JobOutcome::Evicted
        }
        (true, _) if found.is_parked => JobOutcome::Parked,
        (true, _) => JobOutcome::Pending,
        (false, _) if standing.is_repair() => JobOutcome::Repaired,
        (false, _) => JobOutcome::Placed,
    }
}

fn victim_answer(world: &World, victim: &Victim, violates_budget: bool) -> VictimAnswer {
    let reason = victim.reason.name();
    let Some(job) = world.job(victim.job) else {
        return VictimAnswer { job: String::new(), pod: None, node: None, reason, violates_budget };
    };
    let pod = world.bound_pods.contains(&job.id).then(|| full_job_name(&job.spec.name));
    let mut nodes: Vec<NodeId> = live_runs(&world.cell, job).map(|run| run.node).collect();
    nodes.dedup();
    let node = (nodes.len() == 1).then(|| world.cell.nodes().name(nodes[0]).to_string());
    VictimAnswer { job: job.spec.name.clone(), pod, node, reason, violates_budget }
}

/// Where room is kept for a job until others have stopped.
fn nominated(cell: &Cell, job: &Job) -> Vec<NodeCount> {
    let kept = cell.nominations().of_job(job.id).filter(|(_, held)| held.is_preemptor());
    kept.map(|(node, held)| NodeCount { node: cell.nodes().name(node).to_string(), count: held.count }).collect()
}

/// The answer for a job that the cell did not take.
fn not_there(name: String, reason: Option<String>, tasks: TaskCounts, groups: Vec<GroupAnswer>) -> JobAnswer {
    JobAnswer {
        name,
        outcome: JobOutcome::Pending,
        reason,
        explanation: Vec::new(),
        expected_start: None,
        tried: None,
        code: None,
        borrowing: None,
        preempts: Vec::new(),
        nominated: Vec::new(),
        tasks,
        groups,
    }
}

fn start_answer(world: &World, expected: &ExpectedStart) -> StartAnswer {
    let names = expected.waits_for.iter().filter_map(|job| world.job(*job)).map(|job| job.spec.name.clone());
    StartAnswer { within_seconds: world.seconds_until(expected.start_ms), waits_for: names.collect() }
}

/// Why a job does not stand, in one sentence.
fn reason(job: &Job, explanation: &[String], found: &Settled, preemptor: Option<&String>) -> Option<String> {
    if job.state != JobState::Active {
        return Some(format!("it is {}", job.phase()));
    }
    if let Some(preemptor) = preemptor {
        return Some(format!("it made room for {preemptor}"));
    }
    if let Some(conflict) = found.conflict {
        return Some(format!("the plan for it is refused at commit: {}", conflict.reason.name()));
    }
    explanation.first().cloned()
}

/// The nodes of a group with their counts, in the order of the ranks.
fn placements(cell: &Cell, job: &Job, group: usize) -> Vec<NodeCount> {
    let mut order: BTreeMap<NodeId, usize> = BTreeMap::new();
    let mut counts: Vec<NodeCount> = Vec::new();
    for node in live_nodes(cell, job, group) {
        let at = *order.entry(node).or_insert_with(|| {
            counts.push(NodeCount { node: cell.nodes().name(node).to_string(), count: 0 });
            counts.len() - 1
        });
        counts[at].count += 1;
    }
    counts
}

/// Where spares of a group are held, if it asks for some.
fn spares(cell: &Cell, job: &Job, group: usize) -> Option<SparesAnswer> {
    let asked = job.spec.groups.get(group).map(|spec| spec.spares).filter(|asked| *asked > 0)?;
    let held = cell.spares_of(job.id, ohm_model::GroupIndex(group as u16));
    let held = held.map(|(node, count)| NodeCount { node: cell.nodes().name(node).to_string(), count });
    Some(SparesAnswer { asked, held: held.collect() })
}

/// The node of each live task, by rank.
fn live_nodes(cell: &Cell, job: &Job, group: usize) -> impl Iterator<Item = NodeId> {
    let tasks = job.groups.get(group).into_iter().flat_map(|group| group.tasks.iter());
    tasks.filter_map(|task| cell.runs().get(task.run)).map(|run| run.node)
}

fn domains(cell: &Cell, job: &Job, group: usize) -> Vec<DomainCount> {
    let name = job.spec.groups.get(group).map_or("", |group| group.topology.topology.as_str());
    let Some(topology) = cell.topologies().get(name) else { return Vec::new() };
    let mut by_node: BTreeMap<NodeId, u32> = BTreeMap::new();
    live_nodes(cell, job, group).for_each(|node| *by_node.entry(node).or_insert(0) += 1);
    let mut counts: BTreeMap<Vec<String>, u32> = BTreeMap::new();
    for (node, count) in by_node {
        let Some(record) = cell.nodes().get(node) else { continue };
        let value = |level: &String| match record.spec.labels.get(level) {
            None if level == HOSTNAME_LABEL => Some(record.spec.name.clone()),
            value => value.cloned(),
        };
        let values: Option<Vec<String>> = topology.spec.levels.iter().map(value).collect();
        if let Some(values) = values {
            *counts.entry(values).or_insert(0) += count;
        }
    }
    counts.into_iter().map(|(values, count)| DomainCount { values, count }).collect()
}
