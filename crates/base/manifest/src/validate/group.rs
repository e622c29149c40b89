//! Rules for the groups of a job.

use super::findings::Findings;
use super::{names, rest};
use crate::path::FieldPath;
use crate::text::shorten;
use ohm_model::job::TASKS_MAX;
use ohm_model::resources::{DEVICE_MILLI, PODS, is_extended};
use ohm_model::selector::NAME_FIELD;
use ohm_model::{
    GroupSpec, NeighbourTerm, Operator, Requirement, TaintEffect, TaskSpec, Toleration, TolerationOperator,
    TopologyMode, TopologyRequest,
};
use std::collections::BTreeSet;

/// Most ports a task may need.
const PORTS_MAX: usize = 64;

/// Makes the path of the group; called only where something is wrong.
type Place<'p> = &'p dyn Fn() -> FieldPath;

pub(super) fn check(findings: &mut Findings, group: &GroupSpec, at: Place<'_>) {
    let count = group.count;
    findings.expect(
        (1..=TASKS_MAX).contains(&count),
        || at().field("count"),
        || format!("must be 1 to {TASKS_MAX}, is {count}"),
    );
    findings.expect(
        (1..=count).contains(&group.min_count),
        || at().field("minCount"),
        || format!("must be 1 to the group's `count` of {count}, is {}", group.min_count),
    );
    requests(findings, group, at);
    for (name, &limit) in &group.limits {
        let field = || at().field("limits").field(name);
        findings.check(rest::amount(limit), field);
        findings.check(group.limit_problem(name, limit).map_or(Ok(()), Err), field);
    }
    affinity(findings, group, at);
    neighbours(findings, group, at);
    for (index, toleration) in group.tolerations.iter().enumerate() {
        findings.check(toleration_rule(toleration), || at().field("tolerations").item(index));
    }
    ports(findings, group, at);
    if let Some((name, problem)) = group.disruption_budget.as_ref().and_then(|terms| terms.problem()) {
        findings.check(Err(problem), || at().field("disruptionBudget").field(name));
    }
    findings.check(topology_rule(&group.topology), || at().field("topology"));
    slices(findings, &group.topology, at);
    task(findings, &group.task, at);
}

fn requests(findings: &mut Findings, group: &GroupSpec, at: Place<'_>) {
    for (name, &amount) in &group.requests {
        // A limit alone is the request, too, and stands in its place.
        let is_limit = group.limits.get(name) == Some(&amount);
        let field = || at().field(if is_limit { "limits" } else { "requests" }).field(name);
        findings.check(names::known_resource(name), field);
        findings.check(rest::amount(amount), field);
        findings.expect(name != PODS, field, || "every task takes one of `pods` by itself; leave it out".to_string());
        let is_whole = !is_extended(name) || amount < DEVICE_MILLI || amount % DEVICE_MILLI == 0;
        findings.expect(is_whole, field, || {
            let asked = ohm_model::resources::display(name, amount);
            format!("asks for {asked} devices; ask for whole ones, or for less than one, such as `500m`")
        });
    }
}

fn affinity(findings: &mut Findings, group: &GroupSpec, at: Place<'_>) {
    let node_affinity = || at().field("affinity").field("nodeAffinity");
    for (index, term) in group.affinity.iter().enumerate() {
        let term_path = || {
            let required = node_affinity().field("requiredDuringSchedulingIgnoredDuringExecution");
            required.field("nodeSelectorTerms").item(index)
        };
        requirements(findings, &term.requirements, &term_path);
        for (index, field) in term.fields.iter().enumerate() {
            findings.check(field_rule(field), || term_path().field("matchFields").item(index));
        }
    }
    for (index, (weight, term)) in group.preferred.iter().enumerate() {
        let item = || node_affinity().field("preferredDuringSchedulingIgnoredDuringExecution").item(index);
        findings.expect(
            (1..=100).contains(weight),
            || item().field("weight"),
            || format!("must be 1 to 100, is {weight}"),
        );
        requirements(findings, &term.requirements, &|| item().field("preference"));
    }
}

/// Rules about other tasks.
fn neighbours(findings: &mut Findings, group: &GroupSpec, at: Place<'_>) {
    let Some(asked) = &group.neighbours else { return };
    let affinity = |name: &'static str| at().field("affinity").field(name);
    let required = |name| affinity(name).field("requiredDuringSchedulingIgnoredDuringExecution");
    for (name, terms) in [("podAffinity", &asked.affinity), ("podAntiAffinity", &asked.anti_affinity)] {
        for (index, term) in terms.iter().enumerate() {
            neighbour_term(findings, term, &|| required(name).item(index));
        }
    }
    for (name, sign) in [("podAffinity", 1), ("podAntiAffinity", -1)] {
        let preferred = || affinity(name).field("preferredDuringSchedulingIgnoredDuringExecution");
        let terms = asked.preferred.iter().filter(|(weight, _)| weight.signum() == sign);
        for (index, (weight, term)) in terms.enumerate() {
            let most = || format!("must be 1 to 100, is {}", weight.unsigned_abs());
            findings.expect(weight.unsigned_abs() <= 100, || preferred().item(index).field("weight"), most);
            neighbour_term(findings, term, &|| preferred().item(index).field("podAffinityTerm"));
        }
    }
    for (index, constraint) in asked.spread.iter().enumerate() {
        let item = || at().field("topologySpreadConstraints").item(index);
        findings.expect(constraint.max_skew > 0, || item().field("maxSkew"), || "must be at least 1, is 0".into());
        let means = constraint.is_hard || constraint.min_domains == 1;
        findings.expect(
            means,
            || item().field("minDomains"),
            || "goes with `whenUnsatisfiable: DoNotSchedule` only".into(),
        );
        let selector = constraint.selector.as_deref().unwrap_or_default();
        task_selector(findings, selector, &|| item().field("labelSelector"));
    }
}

fn neighbour_term(findings: &mut Findings, term: &NeighbourTerm, at: Place<'_>) {
    task_selector(findings, term.selector.as_deref().unwrap_or_default(), &|| at().field("labelSelector"));
    let of_namespaces = term.namespace_selector.as_deref().unwrap_or_default();
    task_selector(findings, of_namespaces, &|| at().field("namespaceSelector"));
}

/// Labels of tasks and namespaces are no numbers, in Kubernetes either.
pub(super) fn task_selector(findings: &mut Findings, selector: &[Requirement], at: Place<'_>) {
    requirements(findings, selector, at);
    for (index, requirement) in selector.iter().enumerate() {
        let field = || at().field("matchExpressions").item(index).field("operator");
        findings.expect(!matches!(requirement.operator, Operator::Gt | Operator::Lt), field, || {
            "must be In, NotIn, Exists or DoesNotExist".into()
        });
    }
}

fn requirements(findings: &mut Findings, requirements: &[Requirement], term: Place<'_>) {
    for (index, requirement) in requirements.iter().enumerate() {
        let field = || term().field("matchExpressions").item(index);
        findings.check(requirement_rule(requirement), || field().field("values"));
    }
}

/// A field of nodes is compared with names only.
fn field_rule(field: &Requirement) -> Result<(), String> {
    match field.operator {
        _ if field.key != NAME_FIELD => Err(format!("has the key {}; only {NAME_FIELD} is known", shorten(&field.key))),
        Operator::In | Operator::NotIn if !field.values.is_empty() => Ok(()),
        _ => Err("takes operator In or NotIn, with at least one name".into()),
    }
}

fn requirement_rule(requirement: &Requirement) -> Result<(), String> {
    let values = &requirement.values;
    let is_right = match requirement.operator {
        Operator::In | Operator::NotIn => !values.is_empty(),
        Operator::Exists | Operator::DoesNotExist => values.is_empty(),
        Operator::Gt | Operator::Lt => values.len() == 1 && values[0].parse::<i64>().is_ok(),
    };
    let wanted = match requirement.operator {
        _ if is_right => return Ok(()),
        Operator::In | Operator::NotIn => "at least one value",
        Operator::Exists | Operator::DoesNotExist => "no value",
        Operator::Gt | Operator::Lt => "exactly one whole number",
    };
    Err(format!("operator {:?} takes {wanted}; given: {}", requirement.operator, shown(values)))
}

fn shown(values: &[String]) -> String {
    match values {
        [] => "none".to_string(),
        [value] => format!("`{}`", shorten(value)),
        values => format!("{} values", values.len()),
    }
}

pub(super) fn toleration_rule(toleration: &Toleration) -> Result<(), String> {
    if toleration.operator == TolerationOperator::Exists && !toleration.value.is_empty() {
        return Err("operator Exists takes no `value`; use Equal, or leave the value out".to_string());
    }
    if toleration.operator != TolerationOperator::Exists && toleration.key.is_empty() {
        return Err("needs a `key`; only operator Exists goes without one, and then tolerates every taint".to_string());
    }
    if toleration.toleration_seconds.is_some()
        && toleration.effect.is_some_and(|effect| effect != TaintEffect::NoExecute)
    {
        return Err("`tolerationSeconds` goes with effect NoExecute; other effects are tolerated for ever".to_string());
    }
    Ok(())
}

fn ports(findings: &mut Findings, group: &GroupSpec, at: Place<'_>) {
    let field = || at().field("ports");
    let number = group.ports.len();
    findings.expect(number <= PORTS_MAX, field, || format!("holds {number} ports; at most {PORTS_MAX} may be"));
    for (index, &port) in group.ports.iter().enumerate() {
        let item = || field().item(index);
        findings.expect(port.port != 0, item, || "must be 1 to 65535, is 0".to_string());
        if let Some(former) = group.ports[..index].iter().find(|other| other.meets(port)) {
            let is_same = *former == port;
            let twice = || format!("port {port} is given twice; keep one");
            let meets = || format!("port {port} meets port {former} of the same task; keep one");
            findings.expect(false, item, || if is_same { twice() } else { meets() });
        }
    }
}

fn topology_rule(request: &TopologyRequest) -> Result<(), String> {
    let needs_level = matches!(request.mode, TopologyMode::Required | TopologyMode::Preferred);
    if needs_level && request.level.is_empty() {
        return Err("needs a level: the label key of one of the topology's levels".to_string());
    }
    if !needs_level && !request.level.is_empty() {
        return Err("a level belongs under `required` or `preferred` only".to_string());
    }
    Ok(())
}

fn task(findings: &mut Findings, task: &TaskSpec, at: Place<'_>) {
    for (index, word) in task.command.iter().enumerate() {
        findings.check(names::system_text(word), || at().field("command").item(index));
    }
    let first = task.command.first();
    findings.expect(
        first.is_none_or(|program| !program.is_empty()),
        || at().field("command").item(0),
        || "must name a program, is empty".to_string(),
    );
    let mut seen = BTreeSet::new();
    for (index, (name, value)) in task.env.iter().enumerate() {
        let item = || at().field("env").item(index);
        findings.check(names::own_variable(name), || item().field("name"));
        findings.check(names::system_text(value), || item().field("value"));
        let is_new = seen.insert(name.as_str());
        findings.expect(is_new, || item().field("name"), || format!("`{}` is set twice; keep one", shorten(name)));
    }
    findings.check(names::system_text(&task.working_dir), || at().field("workingDir"));
    if let Some((probe, field, problem)) = task.probes.as_ref().and_then(|probes| probes.problem()) {
        let place = || if field.is_empty() { at().field(probe) } else { at().field(probe).field(field) };
        findings.expect(false, place, || problem.clone());
    }
    findings.expect(
        (0..=255).contains(&task.sim_exit_code),
        || at().field("sim").field("exitCode"),
        || format!("must be 0 to 255, is {}", task.sim_exit_code),
    );
}

/// Rules for slices by themselves. Whether they suit the topology and the group's count is for whoever knows the
/// topology to say: they are no malformed document.
fn slices(findings: &mut Findings, request: &TopologyRequest, at: Place<'_>) {
    let field = || at().field("topology").field("slices");
    for (layer, slice) in request.slices.iter().enumerate() {
        findings.expect(
            (1..=TASKS_MAX).contains(&slice.size),
            || field().item(layer).field("size"),
            || format!("must be 1 to {TASKS_MAX}, is {}", slice.size),
        );
    }
}
