//! Why a job is in the state it is in. What keeps a job from being placed is worked out by the planner of its class,
//! the same code that its scheduler runs, on a copy of the cell.

use super::views::{
    causes, head_text, heads_text, health_text, held_for_repairs, held_text, job_summary, node_requests,
    node_requests_text, owed, owed_text, replicas, rollout_text,
};
use ohm_cell::{Cell, Job, JobState, preemptions, runs_to_move, stop_policy_of};
use ohm_framework::{
    Answer, Counted, Excluded, Explanation, LayerFit, Miss, Obstacle, explain_job, held_by_budget, jobs_ahead,
};
use ohm_model::Class;
use ohm_model::resources::display;
use ohm_wire::api::{
    BestDomainView, CountedView, ExcludedView, ExplainView, GroupExplainView, LayerFitView, NearestView, ReasonView,
};
use std::collections::BTreeMap;

/// Asks the planner of the job's class what it makes of the job, and how many jobs go before it.
fn ask_planner(cell: &Cell, job: &Job) -> (Answer, Option<u64>) {
    let mut planner = ohm_planner::of(job.spec.class);
    let ahead = jobs_ahead(cell, &planner, job.id);
    (explain_job(cell, &mut planner, job.id), ahead)
}

/// Why `job` is in the state it is in; of a group that is not placed with the same numbers that `ohm plan` prints.
pub(super) fn explain(cell: &Cell, job: &Job) -> ExplainView {
    let summary = job_summary(cell, job);
    let name = &summary.name;
    let view = ExplainView {
        job: name.clone(),
        state: summary.state.clone(),
        index: cell.applied().0,
        ..ExplainView::default()
    };
    match job.state {
        JobState::Finished(_) => {
            let reason = match summary.reason.as_str() {
                "" => String::new(),
                reason if reason == summary.state => String::new(),
                reason => format!(": {reason}"),
            };
            let hint = "its tasks and their ends are in `ohm job`; a finished job is never placed again";
            ExplainView { summary: format!("{name} is {}{reason}.", summary.state), hint: hint.into(), ..view }
        }
        JobState::Suspended => ExplainView {
            summary: match summary.reason.trim_end_matches('.') {
                "" => format!("{name} is suspended and is not placed."),
                reason => format!("{name} is suspended and is not placed: {reason}."),
            },
            hint: format!("`ohm resume {name}` lets it be placed again"),
            ..view
        },
        JobState::Active if job.pending() == 0 && runs_to_move(cell, job).is_empty() => {
            let summary = held_by_budget(cell, job).unwrap_or_else(|| settled(job));
            let details = spares(cell, job).into_iter().chain(health_text(cell, job));
            let details = details.chain(rollout_text(cell, job)).collect();
            ExplainView { summary, details, ..view }
        }
        JobState::Active => waiting(cell, job, view),
    }
}

/// The sentence about a job of which no task waits to be placed.
fn settled(job: &Job) -> String {
    let (live, running) = (job.live(), job.groups.iter().map(|group| group.running).sum::<u32>());
    let unready: u32 = job.groups.iter().map(|group| group.unready).sum();
    let backing_off: u32 = job.groups.iter().map(|group| group.backing_off).sum();
    let name = &job.spec.name;
    if job.readiness.backs_off() && live > 0 {
        return format!("{name} stops, and then waits: {}.", job.reason);
    }
    match (live, running, backing_off) {
        (0, _, 0) => format!("No task of {name} waits to be placed."),
        (_, _, 1..) => {
            format!("{backing_off} of {name}'s tasks failed and wait for their back-off to pass; {running} run.")
        }
        _ if running == live && unready > 0 => {
            format!("{name} runs: {} of its {live} tasks are ready.", live - unready)
        }
        _ if running == live => format!("{name} runs: no task of it waits to be placed."),
        _ => format!("{name} is placed: {running} of {live} tasks were reported to run, the others are being started."),
    }
}

/// What is to be said about the spares of a job that stands: how many there are, and why not more.
fn spares(cell: &Cell, job: &Job) -> Vec<String> {
    let wanted: u32 = (0..job.groups.len()).map(|group| job.spares_wanted(group)).sum();
    if wanted == 0 {
        return Vec::new();
    }
    let held: u32 = job.groups.iter().map(|group| group.spares).sum();
    let mut told = vec![format!("{held} of its {wanted} spares are held.")];
    if let Some(policy) = stop_policy_of(cell, job).filter(|_| job.seeks_spares()) {
        told.push(format!("Its {}: no more are held.", policy.reason(&job.spec.queue)));
    } else if job.seeks_spares() {
        match ask_planner(cell, job).0 {
            Answer::LacksSpares { why: Some(why), .. } => told.extend(why.to_text(cell).lines().map(String::from)),
            Answer::LacksSpares { missing, why: None } => {
                told.push(format!("There is room for {missing} more; its scheduler comes to it."));
            }
            _ => {}
        }
    }
    told
}

fn waiting(cell: &Cell, job: &Job, view: ExplainView) -> ExplainView {
    let name = &job.spec.name;
    let (answer, jobs_ahead) = ask_planner(cell, job);
    let class = job.spec.class;
    let profile = cell.profiles().of(class).map_or_else(String::new, |profile| profile.name.clone());
    let view = ExplainView { jobs_ahead, profile, ..view };
    let waits = matches!(answer, Answer::Unknown | Answer::Fits { .. } | Answer::Moves { .. } | Answer::Waits(_));
    let owed = owed(cell, job);
    let mut view = of_answer(cell, job, answer, view);
    view.details.extend(held_by_budget(cell, job));
    view.details.extend(owed_text(&owed, cell.now_ms()).into_iter().chain(held_text(&view.held_for)));
    let requests = node_requests(job);
    view.details.extend(node_requests_text(cell, job, &requests));
    view.details.extend(head_text(cell, job).into_iter().chain(in_vain_text(cell, job)));
    view.details.extend(health_text(cell, job));
    view.details.extend(rollout_text(cell, job));
    if waits {
        view.details.extend(heads_text(cell, job));
    }
    (view.owed, view.node_requests) = (owed, requests);
    if waits && replicas(cell, class) == 0 { without_scheduler(name, class, view) } else { view }
}

/// Why the job stops nobody for a while, if it does not.
fn in_vain_text(cell: &Cell, job: &Job) -> Option<String> {
    let in_vain = preemptions(cell).in_vain(job.id).filter(|in_vain| cell.now_ms() < in_vain.until_ms)?;
    let seconds = (in_vain.until_ms - cell.now_ms()).div_ceil(1000);
    let times = if in_vain.times == 1 { "once".to_string() } else { format!("{} times", in_vain.times) };
    Some(format!("Others stopped for it in vain {times}: it stops nobody for another {seconds} s."))
}

fn of_answer(cell: &Cell, job: &Job, answer: Answer, view: ExplainView) -> ExplainView {
    let name = &job.spec.name;
    match answer {
        Answer::Unknown => ExplainView {
            summary: format!("{name} waits for its scheduler to look at it."),
            hint: format!("`ohm status` shows whether a {} scheduler runs", job.spec.class.name()),
            ..view
        },
        Answer::NeedsNothing { why } => ExplainView { summary: why, ..view },
        Answer::LacksSpares { .. } => {
            let details = spares(cell, job).into_iter().chain(health_text(cell, job)).collect();
            ExplainView { summary: settled(job), details, ..view }
        }
        Answer::Fits { tasks, victims } => {
            let victims = match victims {
                0 => String::new(),
                1 => " once 1 run of lower priority has stopped".to_string(),
                _ => format!(" once {victims} runs of lower priority have stopped"),
            };
            let summary =
                format!("{name} fits: there is room for {tasks} of its tasks{victims}; its scheduler comes to it.");
            let hint = format!("if it stays so, `ohm status` shows whether a {} scheduler runs", job.spec.class.name());
            ExplainView { summary, hint, ..view }
        }
        Answer::Moves { tasks } => {
            let summary = format!(
                "{name} has to leave nodes: there is room elsewhere for {tasks} of its tasks; its scheduler comes to it."
            );
            let hint = format!("if it stays so, `ohm status` shows whether a {} scheduler runs", job.spec.class.name());
            ExplainView { summary, hint, ..view }
        }
        Answer::Waits(explanation) => from_explanation(cell, job, &explanation, view),
    }
}

/// Says that nobody serves the class of a job, before anything else that it waits for.
fn without_scheduler(name: &str, class: Class, mut view: ExplainView) -> ExplainView {
    let nobody = format!("{name} waits for a scheduler: none of class {class} runs.");
    let hint = format!("`ohm scheduler --class {class}` starts one; `ohm profiles` shows how many run");
    if view.obstacle.is_empty() {
        return ExplainView { summary: nobody, hint, obstacle: "noScheduler".into(), ..view };
    }
    view.details.insert(0, view.summary);
    ExplainView { summary: nobody, hint, ..view }
}

/// So many nodes are told of by name for one taint that their own state puts on them.
const CAUSES_TOLD: usize = 3;

fn from_explanation(cell: &Cell, job: &Job, explanation: &Explanation, view: ExplainView) -> ExplainView {
    let text = explanation.to_text(cell);
    let mut sentences = text.lines().map(String::from);
    let group = job.spec.groups.get(usize::from(explanation.group.0));
    let mut reasons: Vec<ReasonView> = explanation
        .misses
        .iter()
        .map(|(miss, nodes)| {
            let (code, reason) = miss_words(cell, miss);
            ReasonView { code: code.to_string(), reason, nodes: u64::from(*nodes) }
        })
        .collect();
    reasons.sort_by(|a, b| b.nodes.cmp(&a.nodes).then_with(|| a.reason.cmp(&b.reason)));
    let nearest = explanation.nearest.iter().map(|near| {
        let resource = cell.resources().name(near.resource).to_string();
        let (asked, free) = (display(&resource, near.asked), display(&resource, near.free));
        NearestView { resource, asked, free, node: near.node.clone() }
    });
    let summary = sentences.next().unwrap_or_default();
    let taints = explanation.misses.keys().filter_map(|miss| match miss {
        Miss::Taint(taint) => Some(taint),
        _ => None,
    });
    let is_held = explanation.misses.contains_key(&Miss::Held);
    let tried = explanation.tried.as_ref();
    let strategies =
        tried.into_iter().flat_map(|tried| tried.strategies.iter().map(|strategy| strategy.name().to_string()));
    let causes = taints.flat_map(|taint| causes(cell, taint, CAUSES_TOLD));
    ExplainView {
        summary,
        details: sentences.chain(causes).collect(),
        obstacle: obstacle_code(&explanation.obstacle).to_string(),
        group: group.map_or_else(String::new, |group| group.name.clone()),
        groups: groups(cell, job, explanation),
        fit: explanation.fit.into(),
        needed: explanation.of.into(),
        nodes: explanation.total_nodes.into(),
        open_nodes: explanation.open_nodes.into(),
        reasons,
        nearest: nearest.collect(),
        profile: tried.map_or_else(|| view.profile.clone(), |tried| tried.profile.clone()),
        strategies: strategies.collect(),
        held_for: if is_held { held_for_repairs(cell, job.id) } else { BTreeMap::new() },
        ..view
    }
}

/// The groups that are not placed, in numbers.
fn groups(cell: &Cell, job: &Job, explanation: &Explanation) -> Vec<GroupExplainView> {
    let specs = explanation.groups().filter_map(|group| job.spec.groups.get(usize::from(group.0)));
    specs
        .map(|spec| GroupExplainView { name: spec.name.clone(), explain: in_numbers(explanation.counted(cell)) })
        .collect()
}

fn in_numbers(counted: Counted) -> CountedView {
    let Counted { fit, of, unit, total_nodes, excluded, unavailable, best } = counted;
    let Excluded { resource, taint, node_selector, affinity, topology_domain, port, limit_per_node, .. } = excluded;
    let Excluded { pod_affinity, pod_anti_affinity, pod_topology_spread, held, .. } = excluded;
    let layer = |layer: LayerFit| LayerFitView { level: layer.level, fit: layer.fit, needed: layer.needed };
    let best = best.map(|best| BestDomainView {
        level: best.level,
        values: best.values,
        per_level: best.per_level.into_iter().map(layer).collect(),
    });
    CountedView {
        fit,
        of,
        unit: unit.name().to_string(),
        total_nodes,
        excluded: ExcludedView {
            resource,
            taint,
            node_selector,
            affinity,
            topology_domain,
            port,
            limit_per_node,
            pod_affinity,
            pod_anti_affinity,
            pod_topology_spread,
            held,
        },
        unavailable: unavailable.into_iter().map(|(reason, nodes)| (reason.to_string(), nodes)).collect(),
        best,
    }
}

fn obstacle_code(obstacle: &Obstacle) -> &'static str {
    match obstacle {
        Obstacle::Room => "room",
        Obstacle::Domain { .. } => "domain",
        Obstacle::Contradiction { .. } => "contradiction",
        Obstacle::NoFlavor { .. } => "noFlavor",
        Obstacle::Quota { .. } => "quota",
        Obstacle::Turn { .. } => "turn",
        Obstacle::Stopping { .. } => "stopping",
        Obstacle::Waiting { .. } => "waiting",
        Obstacle::Held { .. } => "held",
        Obstacle::TooLarge { .. } => "tooLarge",
        Obstacle::Conflicts { .. } => "conflicts",
        Obstacle::EmptyPlan => "emptyPlan",
    }
}

/// A filter as a word for programs and one for people.
fn miss_words(cell: &Cell, miss: &Miss) -> (&'static str, String) {
    let name = |resource| cell.resources().name(resource);
    match miss {
        Miss::NotReady => ("notReady", "not ready".to_string()),
        Miss::Cordoned => ("cordoned", "cordoned".to_string()),
        Miss::Draining => ("draining", "being drained".to_string()),
        Miss::Taint(taint) => ("taint", format!("taint {taint}")),
        Miss::NodeSelector => ("nodeSelector", "label of the nodeSelector".to_string()),
        Miss::Affinity => ("affinity", "node affinity".to_string()),
        Miss::OutsideTopology => ("outsideTopology", "without a label of the topology".to_string()),
        Miss::TopologyDomain => ("topologyDomain", "outside the topology domain".to_string()),
        Miss::Capacity(resource) => ("capacity", format!("too little {} even when empty", name(*resource))),
        Miss::Resource(resource) => ("resource", format!("too little {} free", name(*resource))),
        Miss::Devices(resource) => ("devices", format!("{} free, but not on the devices left", name(*resource))),
        Miss::Port(port) => ("port", format!("port {port} taken")),
        Miss::LimitPerNode => ("limitPerNode", "limit per node reached".to_string()),
        Miss::PodAffinity(label) => ("podAffinity", format!("no task to be near by {label}")),
        Miss::PodAntiAffinity(label) => ("podAntiAffinity", format!("task not to be near by {label}")),
        Miss::PodTopologySpread(label) => ("podTopologySpread", format!("spread over {label} uneven")),
        Miss::SpreadLabel(label) => ("spreadLabel", format!("without the label {label} of its spread")),
        Miss::Held => ("held", "room kept for other jobs".to_string()),
    }
}
