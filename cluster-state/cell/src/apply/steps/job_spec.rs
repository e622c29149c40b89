//! What is asked of a job's spec before it is taken, and what the cell fills in.

use crate::cell::Cell;
use crate::state::jobs::required_level;
use crate::state::profiles::Profiles;
use ohm_model::job::{GROUPS_MAX, TASKS_MAX};
use ohm_model::resources::{DEVICE_MILLI, is_extended};
use ohm_model::topology::TopologyRequest;
use ohm_model::{Class, ClassKind, GRACE_MS_MAX, GroupSpec, JobSpec, Refusal, RepairPolicy, split_job_name};
use ohm_stdx::bug::{self, Bug};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Most different resources that one job may name; each one is a column over all nodes.
const JOB_RESOURCES_MAX: usize = 16;

/// Most classes that a refusal lists.
const LISTED_MAX: usize = 20;

/// The spec with everything that the cell fills in: names of topologies, the queue of a subqueue, and the priority of a
/// priority class.
pub(crate) fn completed<'a>(
    cell: &Cell,
    spec: &'a JobSpec,
    known: Option<&JobSpec>,
) -> Result<Cow<'a, JobSpec>, Refusal> {
    let mut spec = with_named_topologies(cell, spec, known);
    let (queue, subqueue) = match cell.subqueues.get(spec.named_queue()) {
        Some(subqueue) => (&subqueue.queue, &subqueue.name),
        None => (&spec.queue, &spec.subqueue),
    };
    if (queue, subqueue) != (&spec.queue, &spec.subqueue) {
        let (queue, subqueue) = (queue.clone(), subqueue.clone());
        let spec = spec.to_mut();
        (spec.queue, spec.subqueue) = (queue, subqueue);
    }
    if let Some(class) = class_left_out(cell, &spec, known) {
        spec.to_mut().priority_class.clone_from(class);
    }
    if !spec.priority_class.is_empty() {
        let (priority, preempts) = priority_of(cell, &spec, known)?;
        if (priority, preempts) != (spec.priority, spec.preempts) {
            let spec = spec.to_mut();
            (spec.priority, spec.preempts) = (priority, preempts);
        }
    }
    Ok(spec)
}

/// The spec with the only topology's name filled in where a group leaves it out, so that a second topology put
/// later changes nothing for it. A job that is known already keeps the name it got.
fn with_named_topologies<'a>(cell: &Cell, spec: &'a JobSpec, known: Option<&JobSpec>) -> Cow<'a, JobSpec> {
    let unnamed = |request: &TopologyRequest| request.is_asked() && request.topology.is_empty();
    let mut spec = Cow::Borrowed(spec);
    for at in 0..spec.groups.len() {
        if !unnamed(&spec.groups[at].topology) {
            continue;
        }
        let is_it = |group: &&ohm_model::GroupSpec| group.name == spec.groups[at].name;
        let known = known.and_then(|known| Some(known.groups.iter().find(is_it)?.topology.topology.clone()));
        let only = || cell.topologies.get("").map(|topology| topology.spec.name.clone());
        let name = known.filter(|name| !name.is_empty()).or_else(only);
        spec.to_mut().groups[at].topology.topology = name.unwrap_or_default();
    }
    spec
}

/// The priority class of a job that names neither one nor a priority other than 0: the default one. A job that is known
/// keeps the one that it has, whatever the default is by now; who wants another one names it, or a priority.
fn class_left_out<'a>(cell: &'a Cell, spec: &JobSpec, known: Option<&'a JobSpec>) -> Option<&'a String> {
    if !spec.priority_class.is_empty() || spec.priority != 0 {
        return None;
    }
    match known {
        Some(known) => Some(&known.priority_class).filter(|class| !class.is_empty()),
        None => cell.priority_classes.global_default().map(|class| &class.name),
    }
}

/// The refusal of a job of a class that no profile names.
fn no_class(profiles: &Profiles, class: Class) -> Refusal {
    let known: Vec<String> = profiles.classes().iter().map(Class::to_string).collect();
    let known = known.join(", ");
    let problem = format!("there is no class \"{class}\"; known: {known}; a SchedulingProfile adds a class");
    Refusal::Invalid { field: "spec.class".into(), problem }
}

/// Refuses a job of a namespace that there is not, or that its queue does not take. One that is `known` stays where it
/// is, whatever its queue takes by now.
fn check_namespace(cell: &Cell, spec: &JobSpec, known: Option<&JobSpec>) -> Result<(), Refusal> {
    let invalid = |field: &str, problem: String| Err(Refusal::Invalid { field: field.into(), problem });
    let (namespace, _) = split_job_name(&spec.name);
    if cell.namespaces.get(namespace).is_none() {
        let problem = format!("there is no namespace \"{namespace}\"; submit a document of `kind: Namespace` first");
        return invalid("metadata.namespace", problem);
    }
    let queue = &spec.queue;
    let takes = cell.quota.get(queue).is_none_or(|found| found.spec.admits_namespace(namespace));
    if takes || bug::is_planted(Bug::TakeAnyNamespace) || known.is_some_and(|known| known.queue == *queue) {
        return Ok(());
    }
    let problem =
        format!("queue \"{queue}\" takes no jobs of the namespace \"{namespace}\" (`namespaces` of the queue)");
    invalid("spec.queue", problem)
}

/// The rules a job must keep whatever client sent it; manifests are checked more kindly before they come here.
/// One that is `known` becomes that. Returns what its class is like.
pub(crate) fn check_job(cell: &Cell, spec: &JobSpec, known: Option<&JobSpec>) -> Result<ClassKind, Refusal> {
    let invalid = |field: &str, problem: String| Err(Refusal::Invalid { field: field.into(), problem });
    check_namespace(cell, spec, known)?;
    let kind = cell.profiles.kind(spec.class).ok_or_else(|| no_class(&cell.profiles, spec.class))?;
    if spec.groups.is_empty() || spec.groups.len() > GROUPS_MAX {
        return invalid("spec.groups", format!("{} groups; 1 to {GROUPS_MAX} are possible", spec.groups.len()));
    }
    if !spec.queue.is_empty() && cell.quota.get(&spec.queue).is_none_or(|queue| queue.spec.is_cohort) {
        return Err(Refusal::NotFound { kind: "queue".into(), name: spec.queue.clone() });
    }
    if !spec.subqueue.is_empty() && cell.subqueues.get(&spec.subqueue).is_none() {
        return Err(Refusal::NotFound { kind: "queue".into(), name: spec.subqueue.clone() });
    }
    let names = spec.groups.iter().map(|group| &group.name).collect::<BTreeSet<_>>();
    if names.len() != spec.groups.len() {
        return invalid("spec.groups", "two groups have the same name".into());
    }
    let tasks: u64 = spec.groups.iter().map(|group| u64::from(group.count)).sum();
    if tasks > u64::from(TASKS_MAX) {
        return invalid("spec.groups", format!("{tasks} tasks in all; at most {TASKS_MAX} are possible"));
    }
    let named: BTreeSet<&String> = spec.groups.iter().flat_map(|group| group.requests.keys()).collect();
    if named.len() > JOB_RESOURCES_MAX {
        let problem = format!("{} different resources; at most {JOB_RESOURCES_MAX} are possible", named.len());
        return invalid("requests", problem);
    }
    if !cell.resources.has_room_for_jobs(named.iter().copied()) {
        let unknown = named.into_iter().filter(|name| cell.resources.find(name).is_none());
        return Err(too_many_resources(&unknown.map(String::as_str).collect::<Vec<_>>().join(", ")));
    }
    for group in &spec.groups {
        let together = |other: &&GroupSpec| !group.place_with.is_empty() && other.place_with == group.place_with;
        let levels: BTreeSet<_> = spec.groups.iter().filter(together).filter_map(required_level).collect();
        if levels.len() > 1 {
            let problem = format!("groups placed with \"{}\" require different domains", group.place_with);
            return invalid("spec.groups", problem);
        }
    }
    check_widening(cell, spec)?;
    check_strategy(kind, spec)?;
    if let Some(problem) = (0..spec.groups.len()).find_map(|at| spec.neighbours_problem(at)) {
        return invalid("spec.groups", problem);
    }
    spec.groups.iter().enumerate().try_for_each(|(at, group)| check_group(cell, kind, at, group))?;
    Ok(kind)
}

/// `widenTo` is a level above what every group with a required level asks for.
fn check_widening(cell: &Cell, spec: &JobSpec) -> Result<(), Refusal> {
    let (widens, wide) = (spec.repair.policy == RepairPolicy::Widen, &spec.repair.widen_to);
    let invalid = |problem: String| Err(Refusal::Invalid { field: "spec.repair.widenTo".into(), problem });
    if widens == wide.is_empty() {
        return invalid("is given with the policy widen, and only with it".into());
    }
    for (topology, level) in spec.groups.iter().filter_map(required_level).filter(|_| widens) {
        let Some(topology) = cell.topologies.get(topology) else { continue };
        let levels = topology.level(wide).zip(topology.level(level));
        if levels.is_none_or(|(wide, level)| wide >= level) {
            let name = &topology.spec.name;
            return invalid(format!("\"{wide}\" is no level of topology {name} above \"{level}\""));
        }
    }
    Ok(())
}

/// How a service gets from one revision to the next; nothing else has a strategy.
fn check_strategy(kind: ClassKind, spec: &JobSpec) -> Result<(), Refusal> {
    let Some(strategy) = &spec.strategy else { return Ok(()) };
    let invalid = |field: String, problem| Err(Refusal::Invalid { field, problem });
    if !kind.rolls() {
        return invalid(
            "spec.strategy".into(),
            "is for services; a job of this class is suspended to be changed".into(),
        );
    }
    match strategy.problem() {
        Some((field, problem)) => invalid(format!("spec.strategy.{field}"), problem),
        None => Ok(()),
    }
}

fn check_group(cell: &Cell, kind: ClassKind, at: usize, group: &GroupSpec) -> Result<(), Refusal> {
    let field = |name: &str| format!("spec.groups[{at}].{name}");
    let invalid = |name: &str, problem: String| Err(Refusal::Invalid { field: field(name), problem });
    if group.count == 0 || group.count > TASKS_MAX {
        return invalid("count", format!("{}; 1 to {TASKS_MAX} are possible", group.count));
    }
    if group.min_count == 0 || group.min_count > group.count {
        return invalid("minCount", format!("{}; 1 to count ({}) are possible", group.min_count, group.count));
    }
    if let Some(problem) = group.spares_problem(kind) {
        return invalid("spares", problem);
    }
    if let Some((name, problem)) = group.disruption_budget.as_ref().and_then(|terms| terms.problem()) {
        return invalid(&format!("disruptionBudget.{name}"), problem);
    }
    if let Some((name, amount)) = group.requests.iter().find(|(_, amount)| **amount < 0) {
        return invalid("requests", format!("{name} is {amount}; amounts are never negative"));
    }
    let wrong = |(name, limit): (&String, &i64)| Some(format!("{name} {}", group.limit_problem(name, *limit)?));
    if let Some(problem) = group.limits.iter().find_map(wrong) {
        return invalid("limits", problem);
    }
    // A rollout may double it.
    let most = i64::from(group.count) * if kind.rolls() { 2 } else { 1 };
    let too_much = |amount: &i64| amount.checked_mul(most).is_none();
    if let Some((name, _)) = group.requests.iter().find(|(_, amount)| too_much(amount)) {
        return invalid("requests", format!("{name} times count is more than any cell can hold"));
    }
    let split = |name: &str, amount: i64| is_extended(name) && amount > DEVICE_MILLI && amount % DEVICE_MILLI != 0;
    if let Some((name, amount)) = group.requests.iter().find(|(name, amount)| split(name, **amount)) {
        return invalid("requests", format!("{name} is {amount}m; ask for whole devices, or for less than one"));
    }
    let meets = |at: usize| group.ports[..at].iter().any(|port| port.meets(group.ports[at]));
    if (0..group.ports.len()).any(|at| group.ports[at].port == 0 || meets(at)) {
        return invalid("ports", "each must be 1 to 65535 and named once".into());
    }
    let (delay_ms, grace_ms) = (group.task.stop_delay_ms, group.task.grace_ms);
    let stops = [("stopDelaySeconds", delay_ms), ("terminationGracePeriodSeconds", grace_ms)];
    if let Some((name, span_ms)) = stops.into_iter().find(|(_, span_ms)| *span_ms > GRACE_MS_MAX) {
        return invalid(name, format!("{span_ms} ms; at most {GRACE_MS_MAX} (a day) are possible"));
    }
    if let Some((probe, field, problem)) = group.task.probes.as_ref().and_then(|probes| probes.problem()) {
        let name = if field.is_empty() { probe.to_string() } else { format!("{probe}.{field}") };
        return invalid(&name, problem);
    }
    let request = &group.topology;
    if request.is_asked() {
        if request.topology.is_empty() {
            let known = cell.topologies.iter().count();
            return invalid("topology", format!("the cell has {known} topologies; name one of them"));
        }
        let Some(topology) = cell.topologies.get(&request.topology) else {
            return Err(Refusal::NotFound { kind: "topology".into(), name: request.topology.clone() });
        };
        if let Err(contradiction) = topology.spec.check(group) {
            return invalid("topology", contradiction.to_string());
        }
    }
    Ok(())
}

/// The priority of a job that names a class, and whether others may be stopped for it.
/// A job that is known already keeps what it got, so that submitting it
/// again changes nothing, whatever became of the class.
fn priority_of(cell: &Cell, spec: &JobSpec, known: Option<&JobSpec>) -> Result<(i32, bool), Refusal> {
    let named = &spec.priority_class;
    if let Some(known) = known.filter(|known| known.priority_class == *named) {
        return Ok((known.priority, spec.preempts && known.preempts));
    }
    let class = cell.priority_classes.get(named);
    class.map(|class| (class.value, class.preempts && spec.preempts)).ok_or_else(|| no_priority_class(cell, named))
}

fn no_priority_class(cell: &Cell, name: &str) -> Refusal {
    let known = cell.priority_classes.iter();
    let more = known.len().saturating_sub(LISTED_MAX);
    let names = known.take(LISTED_MAX).map(|class| format!("{} ({})", class.name, class.value));
    let known = match (names.collect::<Vec<_>>().join(", "), more) {
        (names, _) if names.is_empty() => "the cell has none; submit the class first".to_string(),
        (names, 0) => format!("known: {names}; submit the class first, or name one of them"),
        (names, more) => format!("known: {names} and {more} more; submit the class first, or name one of them"),
    };
    let problem = format!("no priority class is called \"{name}\"; {known}");
    Refusal::Invalid { field: "spec.priorityClassName".into(), problem }
}

pub(crate) fn too_many_resources(names: &str) -> Refusal {
    let problem = format!(
        "no node has {names}, and jobs have named as many resources without a node as they may; is the name right? A \
         node that has it can still register, and jobs may name it from then on"
    );
    Refusal::Invalid { field: "requests".into(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(change: impl FnOnce(&mut JobSpec)) -> Option<String> {
        let mut group = GroupSpec::gang("main", 1);
        group.requests = [("cpu".to_string(), 1_000)].into();
        let mut spec = JobSpec::of("case", Class::BATCH, vec![group]);
        change(&mut spec);
        check_job(&Cell::new(), &spec, None).err().map(|refusal| refusal.to_string())
    }

    #[test]
    fn limits_are_at_least_requests_and_those_of_devices_are_the_same() {
        let limited = |name: &str, request: Option<i64>, limit: i64| {
            problem(|spec| {
                let group = &mut spec.groups[0];
                group.requests.extend(request.map(|amount| (name.to_string(), amount)));
                group.limits.insert(name.to_string(), limit);
            })
        };
        assert_eq!(limited("cpu", Some(1_000), 1_000), None);
        assert_eq!(limited("memory", Some(1 << 20), 2 << 20), None);
        assert_eq!(limited("nvidia.com/gpu", Some(2_000), 2_000), None);
        let refused = |told: Option<String>, words: &str| {
            assert_eq!(told, Some(format!("spec.groups[0].limits: {words}")));
        };
        refused(limited("cpu", Some(1_000), 500), "cpu is 500m, which is below the request of 1");
        refused(limited("memory", None, 5), "memory is a limit without a request; ask for as much, or for less");
        refused(limited("memory", Some(0), 0), "memory is 0, which leaves nothing to run with; leave it out");
        refused(
            limited("nvidia.com/gpu", Some(2_000), 3_000),
            "nvidia.com/gpu is 3, which differs from the request of 2; devices are given as they are asked for",
        );
    }
}
