//! Queues, cohorts, resource flavors, priority classes, scheduling profiles and topologies.

use super::amounts::short;
use super::jobs::pairs;
use super::shares::{indented, share_cell, tree};
use super::table::Grid;
use super::{Style, counted};
use ohm_wire::api::{
    BudgetList, NamespaceList, PriorityClassList, ProfileList, QueueList, QueueResourceView, QueueView,
    ResourceFlavorList, ScoreView, TopologyList,
};

/// Queues and cohorts as a tree, one line per resource that is limited, or per resource of each flavor.
pub(crate) fn queues_table(list: &QueueList, style: &Style) -> String {
    if list.queues.is_empty() {
        return "no queues; a job without a queue is not limited\n".to_string();
    }
    let has_flavors = list.queues.iter().any(|queue| !queue.flavors.is_empty());
    let any_stops = list.queues.iter().any(stops);
    let header = [
        "NAME",
        "KIND",
        "FLAVOR",
        "RESOURCE",
        "USED",
        "NOMINAL",
        "BORROWED",
        "AVAILABLE",
        "PENDING",
        "RUNNING",
        "SHARE",
    ];
    let header = header.into_iter().filter(|name| has_flavors || *name != "FLAVOR").chain(any_stops.then_some("STOP"));
    let mut grid = Grid::new(style, &header.collect::<Vec<&str>>());
    for (at, depth) in tree(&list.queues, |queue| (&queue.name, &queue.parent)) {
        let queue = &list.queues[at];
        let last = [queue.pending.to_string(), queue.running.to_string(), share_cell(queue.weighted_share, style)];
        let first = [indented(&queue.name, depth), queue.kind.clone()];
        for (flavor, resource) in quota_cells(queue) {
            let flavor = has_flavors.then_some(flavor);
            let stop = any_stops.then(|| if stops(queue) { queue.stop_policy.clone() } else { String::new() });
            grid.row(first.iter().cloned().chain(flavor).chain(resource).chain(last.iter().cloned()).chain(stop));
        }
        for part in queue.subqueues.iter().filter(|part| !part.name.is_empty()) {
            let first = [indented(&part.name, depth + 1), "Subqueue".to_string()];
            let used = part.used.iter().map(|(name, used)| [name.clone(), short(name, used)]);
            let none = || [String::new(), String::new()];
            let used: Vec<[String; 2]> = if part.used.is_empty() { vec![none()] } else { used.collect() };
            for [name, used] in used {
                let resource = [name, used, String::new(), String::new(), String::new()];
                let last = [part.pending.to_string(), part.running.to_string(), String::new()];
                let flavor = has_flavors.then(String::new);
                let stop = any_stops.then(String::new);
                grid.row(first.iter().cloned().chain(flavor).chain(resource).chain(last).chain(stop));
            }
        }
    }
    grid.text()
}

/// Whether the queue keeps its jobs from starting.
fn stops(queue: &QueueView) -> bool {
    !matches!(queue.stop_policy.as_str(), "" | "None")
}

/// Of each resource the flavor, which is empty for the short form, and its name and amounts; one without any if nothing
/// is limited.
pub(super) fn quota_cells(queue: &QueueView) -> Vec<(String, [String; 5])> {
    let of_resource = |(name, resource): (&String, &QueueResourceView)| {
        let amounts = [&resource.used, &resource.nominal, &resource.borrowed, &resource.available];
        let [used, nominal, borrowed, available] = amounts.map(|amount| short(name, amount));
        [name.clone(), used, nominal, borrowed, available]
    };
    let short_form = queue.resources.iter().map(|resource| (String::new(), of_resource(resource)));
    let by_flavor = queue
        .flavors
        .iter()
        .flat_map(|flavor| flavor.resources.iter().map(move |resource| (flavor.name.clone(), of_resource(resource))));
    let cells: Vec<(String, [String; 5])> = short_form.chain(by_flavor).collect();
    if cells.is_empty() { vec![Default::default()] } else { cells }
}

/// Resource flavors, one line each.
pub(crate) fn flavors_table(list: &ResourceFlavorList, style: &Style) -> String {
    if list.resource_flavors.is_empty() {
        return "no resource flavors; the quota of a queue may be of none\n".to_string();
    }
    let mut grid = Grid::new(style, &["NAME", "LABELS", "TAINTS", "TOLERATIONS"]);
    for flavor in &list.resource_flavors {
        let [taints, tolerations] = [&flavor.node_taints, &flavor.tolerations].map(|texts| texts.join(", "));
        grid.row([flavor.name.clone(), pairs(&flavor.node_labels), taints, tolerations]);
    }
    grid.text()
}

/// Namespaces, one line each.
pub(crate) fn namespaces_table(list: &NamespaceList, style: &Style) -> String {
    let mut grid = Grid::new(style, &["NAME", "JOBS", "LABELS"]);
    for namespace in &list.namespaces {
        grid.row([namespace.name.clone(), namespace.jobs.to_string(), pairs(&namespace.labels)]);
    }
    grid.text()
}

/// Disruption budgets, one line each.
pub(crate) fn budgets_table(list: &BudgetList, style: &Style) -> String {
    if list.budgets.is_empty() {
        return "no disruption budgets; whatever has to be stopped may be\n".to_string();
    }
    let heads = ["NAME", "MIN AVAILABLE", "MAX UNAVAILABLE", "HEALTHY", "DESIRED", "ALLOWED"];
    let mut grid = Grid::new(style, &heads);
    for budget in &list.budgets {
        grid.row([
            budget.name.clone(),
            budget.min_available.clone(),
            budget.max_unavailable.clone(),
            budget.healthy.to_string(),
            budget.desired.to_string(),
            budget.allowed.to_string(),
        ]);
    }
    grid.text()
}

/// Priority classes, one line each.
pub(crate) fn priority_classes_table(list: &PriorityClassList, style: &Style) -> String {
    if list.priority_classes.is_empty() {
        return "no priority classes; a job may name its priority by itself\n".to_string();
    }
    let mut grid = Grid::new(style, &["NAME", "VALUE", "DEFAULT", "PREEMPTION", "DESCRIPTION"]);
    for class in &list.priority_classes {
        grid.row([
            class.name.clone(),
            class.value.to_string(),
            if class.global_default { "yes" } else { "" }.to_string(),
            class.preemption_policy.clone(),
            class.description.clone(),
        ]);
    }
    grid.text()
}

/// Topologies as trees.
pub(crate) fn topologies_text(list: &TopologyList) -> String {
    if list.topologies.is_empty() {
        return "no topologies\n".to_string();
    }
    let mut text = String::new();
    for topology in &list.topologies {
        text.push_str(&format!("{}: {}\n", topology.name, topology.levels.join(" > ")));
        for domain in &topology.domains {
            let indent = "  ".repeat(domain.values.len());
            let value = domain.values.last().map_or("", String::as_str);
            text.push_str(&format!("{indent}{value} ({})\n", counted(domain.nodes, "node")));
        }
    }
    text
}

/// Profiles, one line each.
pub(crate) fn profiles_table(list: &ProfileList, style: &Style) -> String {
    let mut grid = Grid::new(
        style,
        &["CLASS", "PROFILE", "LIKE", "REPLICAS", "JOBS", "CONFLICTS", "STRATEGIES", "BASE", "SCORES"],
    );
    for profile in &list.profiles {
        let name = if profile.built_in { "built in".to_string() } else { profile.name.clone() };
        let [replicas, jobs] = [profile.replicas, profile.jobs].map(|count| count.to_string());
        let strategies = match profile.strategies.is_empty() {
            true => format!("as {}", profile.like),
            false => profile.strategies.join(", "),
        };
        let scores: Vec<String> = profile.scores.iter().filter(|score| score.weight > 0).map(described).collect();
        let base = if profile.base.is_empty() { "own".to_string() } else { profile.base.clone() };
        let (class, like) = (profile.class.clone(), profile.like.clone());
        let conflicts = profile.conflicts.clone();
        grid.row([class, name, like, replicas, jobs, conflicts, strategies, base, scores.join(", ")]);
    }
    grid.text()
}

/// The score with its weight and the values of its arguments.
fn described(score: &ScoreView) -> String {
    let arguments: Vec<&str> = score.args.values().map(String::as_str).collect();
    let arguments = if arguments.is_empty() { String::new() } else { format!(" ({})", arguments.join(", ")) };
    format!("{} {}{arguments}", score.name, score.weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::PLAIN;
    use ohm_wire::api::{
        DomainView, PriorityClassView, ProfileView, QueueFlavorView, ResourceFlavorView, TopologyView,
    };

    #[test]
    fn queues_have_a_line_per_resource() {
        let resource = QueueResourceView {
            nominal: "4".into(),
            used: "4500m".into(),
            borrowed: "500m".into(),
            available: "2500m".into(),
            ..QueueResourceView::default()
        };
        let queue = QueueView {
            name: "research".into(),
            kind: "Queue".into(),
            parent: "all".into(),
            weighted_share: 125,
            dominant_resource: "cpu".into(),
            resources: [("cpu".to_string(), resource)].into(),
            pending: 3,
            running: 1,
            ..QueueView::default()
        };
        let cohort = QueueView { name: "all".into(), kind: "Cohort".into(), ..QueueView::default() };
        assert_eq!(
            queues_table(&QueueList { queues: vec![cohort, queue] }, &PLAIN),
            "\
NAME        KIND    RESOURCE  USED  NOMINAL  BORROWED  AVAILABLE  PENDING  RUNNING  SHARE
all         Cohort  -         -     -        -         -          0        0        ░░░░░░░░░░ 0
  research  Queue   cpu       4.5   4        0.5       2.5        3        1        █░░░░░░░░░ 125
"
        );
    }

    #[test]
    fn queues_with_flavors_have_a_line_per_resource_of_each() {
        let resource = |nominal: &str| QueueResourceView {
            nominal: nominal.into(),
            used: "0".into(),
            borrowed: "0".into(),
            available: nominal.into(),
            ..QueueResourceView::default()
        };
        let flavor = |name: &str, cpu: &str| QueueFlavorView {
            name: name.into(),
            resources: [("cpu".to_string(), resource(cpu)), ("memory".to_string(), resource("64Gi"))].into(),
        };
        let research = QueueView {
            name: "research".into(),
            kind: "Queue".into(),
            flavors: vec![flavor("spot", "8"), flavor("any", "1500m")],
            ..QueueView::default()
        };
        let plain = QueueView {
            name: "plain".into(),
            kind: "Queue".into(),
            resources: [("cpu".to_string(), resource("4"))].into(),
            pending: 2,
            ..QueueView::default()
        };
        let open = QueueView { name: "open".into(), kind: "Queue".into(), ..QueueView::default() };
        assert_eq!(
            queues_table(&QueueList { queues: vec![open, plain, research] }, &PLAIN),
            "\
NAME      KIND   FLAVOR  RESOURCE  USED  NOMINAL  BORROWED  AVAILABLE  PENDING  RUNNING  SHARE
open      Queue  -       -         -     -        -         -          0        0        ░░░░░░░░░░ 0
plain     Queue  -       cpu       0     4        0         4          2        0        ░░░░░░░░░░ 0
research  Queue  spot    cpu       0     8        0         8          0        0        ░░░░░░░░░░ 0
research  Queue  spot    memory    0     64Gi     0         64Gi       0        0        ░░░░░░░░░░ 0
research  Queue  any     cpu       0     1.5      0         1.5        0        0        ░░░░░░░░░░ 0
research  Queue  any     memory    0     64Gi     0         64Gi       0        0        ░░░░░░░░░░ 0
"
        );
    }

    #[test]
    fn held_queues_say_so() {
        let queue = |name: &str, stop_policy: &str| QueueView {
            name: name.into(),
            kind: "Queue".into(),
            stop_policy: stop_policy.into(),
            ..QueueView::default()
        };
        let queues = vec![queue("a", "None"), queue("b", "HoldAndDrain")];
        assert_eq!(
            queues_table(&QueueList { queues }, &PLAIN),
            "\
NAME  KIND   RESOURCE  USED  NOMINAL  BORROWED  AVAILABLE  PENDING  RUNNING  SHARE         STOP
a     Queue  -         -     -        -         -          0        0        ░░░░░░░░░░ 0  -
b     Queue  -         -     -        -         -          0        0        ░░░░░░░░░░ 0  HoldAndDrain
"
        );
    }

    #[test]
    fn queues_fit_the_terminal() {
        let amount = || "123456m".to_string();
        let resource =
            QueueResourceView { nominal: amount(), used: amount(), borrowed: amount(), ..Default::default() };
        let queue = |name: &str, parent: &str| QueueView {
            name: name.into(),
            kind: "Queue".into(),
            parent: parent.into(),
            weighted_share: i64::MAX,
            resources: [("nvidia.com/gpu".to_string(), resource.clone())].into(),
            ..QueueView::default()
        };
        let queues = vec![queue("all", ""), queue("a-queue-with-a-long-name", "all")];
        for width in [80, 120] {
            let text = queues_table(&QueueList { queues: queues.clone() }, &Style { width: Some(width), ..PLAIN });
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            assert_eq!(text.lines().count(), 3, "{text}");
        }
    }

    #[test]
    fn flavors_have_a_line_each() {
        let spot = ResourceFlavorView {
            name: "spot".into(),
            node_labels: [("price", "spot"), ("zone", "a")].map(|(key, value)| (key.into(), value.into())).into(),
            node_taints: vec!["spot=yes:NoSchedule".into()],
            tolerations: vec!["spot=yes:NoSchedule".into(), "old".into()],
        };
        let any = ResourceFlavorView { name: "any".into(), ..ResourceFlavorView::default() };
        assert_eq!(
            flavors_table(&ResourceFlavorList { resource_flavors: vec![any, spot] }, &PLAIN),
            "\
NAME  LABELS              TAINTS               TOLERATIONS
any   -                   -                    -
spot  price=spot, zone=a  spot=yes:NoSchedule  spot=yes:NoSchedule, old
"
        );
        let none = flavors_table(&ResourceFlavorList::default(), &PLAIN);
        assert_eq!(none, "no resource flavors; the quota of a queue may be of none\n");
    }

    #[test]
    fn priority_classes_have_a_line_each() {
        let class = |name: &str, value, description: &str| PriorityClassView {
            name: name.into(),
            value,
            preemption_policy: "Never".into(),
            description: description.into(),
            global_default: value == 70,
        };
        let list = PriorityClassList { priority_classes: vec![class("high", 70, "first"), class("low", -5, "")] };
        let table = priority_classes_table(&list, &PLAIN);
        assert_eq!(
            table,
            "NAME  VALUE  DEFAULT  PREEMPTION  DESCRIPTION\n\
             high  70     yes      Never       first\n\
             low   -5     -        Never       -\n"
        );
    }

    #[test]
    fn topologies_are_trees() {
        let domain = |values: &[&str], nodes| DomainView {
            level: String::new(),
            values: values.iter().map(|value| value.to_string()).collect(),
            nodes,
        };
        let topology = TopologyView {
            name: "default".into(),
            levels: vec!["block".into(), "rack".into()],
            domains: vec![domain(&["b1"], 3), domain(&["b1", "r1"], 2), domain(&["b1", "r2"], 1)],
        };
        assert_eq!(
            topologies_text(&TopologyList { topologies: vec![topology] }),
            "default: block > rack\n  b1 (3 nodes)\n    r1 (2 nodes)\n    r2 (1 node)\n"
        );
    }

    #[test]
    fn profiles_name_the_scores_that_count() {
        let score = |name: &str, weight, argument: &str| ScoreView {
            name: name.into(),
            weight,
            args: if argument.is_empty() { Default::default() } else { [("key".into(), argument.into())].into() },
        };
        let batch = ProfileView {
            name: "batch".into(),
            class: "batch".into(),
            like: "batch".into(),
            built_in: true,
            scores: vec![score("NodeResourcesFit", 1, "ByGroup"), score("NodeAffinity", 0, ""), score("Other", 4, "")],
            replicas: 2,
            jobs: 17,
            conflicts: "fit".into(),
            base: "default".into(),
            ..ProfileView::default()
        };
        let web = ProfileView {
            name: "spread-out".into(),
            class: "web".into(),
            like: "service".into(),
            strategies: vec!["place".into(), "preempt".into()],
            conflicts: "version".into(),
            ..ProfileView::default()
        };
        assert_eq!(
            profiles_table(&ProfileList { profiles: vec![batch, web] }, &PLAIN),
            "\
CLASS  PROFILE     LIKE     REPLICAS  JOBS  CONFLICTS  STRATEGIES      BASE     SCORES
batch  built in    batch    2         17    fit        as batch        default  NodeResourcesFit 1 (ByGroup), Other 4
web    spread-out  service  0         0     version    place, preempt  own      -
"
        );
    }
}
