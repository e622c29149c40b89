//! One group of a job.

use super::budget::budget_of_group;
use super::neighbours::neighbours;
use super::ports::host_port;
use super::probes::{SIM_FIELDS, probes};
use super::selectors::{node_affinity, toleration};
use super::{At, Context, Fields};
use crate::defaults::{self, GroupLeftOpen};
use crate::error::ProblemKind;
use crate::limits::COUNT_RANGE;
use crate::quantity::Rounding;
use ohm_model::resources::Amounts;
use ohm_model::{
    ClassKind, GRACE_MS_MAX, GroupSpec, SpreadMode, TaskSpec, TopologyMode, TopologyRequest, TopologySlice,
};

pub(super) const GROUP_FIELDS: &[&str] = &[
    "name",
    "count",
    "array",
    "minCount",
    "elastic",
    "ports",
    "maxPerNode",
    "spares",
    "spread",
    "topology",
    "disruptionBudget",
    "placeWith",
    "template",
];

pub(super) const TEMPLATE_FIELDS: &[&str] = &[
    "labels",
    "requests",
    "limits",
    "resources",
    "nodeSelector",
    "affinity",
    "topologySpreadConstraints",
    "tolerations",
    "command",
    "args",
    "env",
    "workingDir",
    "stopDelaySeconds",
    "terminationGracePeriodSeconds",
    "startupProbe",
    "readinessProbe",
    "livenessProbe",
    "onUnhealthy",
    "sim",
];

/// A group as written: what hangs on the job's class is still open.
pub(super) struct Group {
    spec: GroupSpec,
    is_array: bool,
    min_count: Option<u32>,
    elastic: Option<bool>,
    spread: Option<bool>,
}

impl Group {
    pub(super) fn read(cx: &mut Context, at: At<'_>) -> Option<Self> {
        let fields = Fields::open(cx, at, &[GROUP_FIELDS, TEMPLATE_FIELDS])?;
        Some(Self::read_fields(cx, fields))
    }

    /// Reads a group from fields that may belong to the job as well.
    pub(super) fn read_fields(cx: &mut Context, fields: Fields<'_>) -> Self {
        let whole = fields;
        let fields = match whole.get("template") {
            Some(template) => fields.with_template(cx, template, &[TEMPLATE_FIELDS]),
            None => fields,
        };
        let (count, is_array) = count(cx, &fields);
        let topology = fields.get("topology").and_then(|at| topology(cx, at)).unwrap_or_default();
        let affinity = fields.get("affinity").and_then(|at| node_affinity(cx, at)).unwrap_or_default();
        let (requests, limits) = resources(cx, &fields);
        let labels = fields.labels(cx, "labels");
        let spec = GroupSpec {
            name: fields.text(cx, "name").unwrap_or_else(|| defaults::GROUP_NAME.to_string()),
            neighbours: neighbours(cx, &fields, &labels),
            labels,
            count,
            min_count: count,
            elastic: false,
            requests,
            limits,
            node_selector: fields.labels(cx, "nodeSelector"),
            affinity: affinity.required,
            preferred: affinity.preferred,
            tolerations: fields.list(cx, "tolerations", toleration),
            ports: fields.list(cx, "ports", host_port),
            max_per_node: fields.whole(cx, "maxPerNode", COUNT_RANGE).unwrap_or(0),
            spares: fields.whole(cx, "spares", 0..=*COUNT_RANGE.end()).unwrap_or(0),
            spread: SpreadMode::Pack,
            topology,
            disruption_budget: fields.get("disruptionBudget").and_then(|at| budget_of_group(cx, at)),
            place_with: fields.text(cx, "placeWith").unwrap_or_default(),
            task: task(cx, &fields),
        };
        let min_count = fields.whole(cx, "minCount", COUNT_RANGE);
        let elastic = fields.boolean(cx, "elastic");
        let spread = fields.boolean(cx, "spread");
        Group { spec, is_array, min_count, elastic, spread }
    }

    pub(super) fn asks_for_topology(&self) -> bool {
        self.spec.topology.is_asked()
    }

    /// What it leaves to the class of its job.
    pub(super) fn left_open(&self) -> GroupLeftOpen {
        GroupLeftOpen {
            is_array: self.is_array,
            min_count: self.min_count.is_none(),
            elastic: self.elastic.is_none(),
            spread: self.spread.is_none(),
        }
    }

    /// The group as one of a job of `class`.
    pub(super) fn finish(self, kind: ClassKind) -> GroupSpec {
        let (min_count, elastic, spread) = defaults::group(kind, self.spec.count, self.is_array);
        let spread = match self.spread {
            Some(true) => SpreadMode::Spread,
            Some(false) => SpreadMode::Pack,
            None => spread,
        };
        let min_count = self.min_count.unwrap_or(min_count);
        let elastic = self.elastic.unwrap_or(elastic);
        GroupSpec { min_count, elastic, spread, ..self.spec }
    }
}

/// Tasks of a group as a number: `count`, or Slurm's word `array`.
fn count(cx: &mut Context, fields: &Fields<'_>) -> (u32, bool) {
    let array = fields.get("array");
    if let (Some(at), Some(_)) = (array, fields.get("count")) {
        cx.report(at.node.position, at.trail, || ProblemKind::Rule("`count` is given, too; keep one".to_string()));
    }
    let count = array.or_else(|| fields.get("count")).and_then(|at| at.whole(cx, COUNT_RANGE));
    (count.unwrap_or(1), array.is_some())
}

/// `requests` and `limits`, or both in `resources` as in Kubernetes. What only has a limit is asked for up to it.
fn resources(cx: &mut Context, fields: &Fields<'_>) -> (Amounts, Amounts) {
    let of_group = ["requests", "limits"].map(|name| fields.get(name).map(|at| at.amounts(cx, Rounding::Up)));
    let [mut requests, mut limits] = of_group;
    if let Some(at) = fields.get("resources")
        && let Some(resources) = Fields::open(cx, at, &[&["requests", "limits"]])
    {
        for (name, amounts) in [("requests", &mut requests), ("limits", &mut limits)] {
            let Some(at) = resources.get(name) else { continue };
            if amounts.is_some() {
                at.rule(cx, format!("`{name}` is given in the group, too; keep one"));
            }
            *amounts = Some(at.amounts(cx, Rounding::Up));
        }
    }
    let (mut requests, limits) = (requests.unwrap_or_default(), limits.unwrap_or_default());
    for (name, limit) in &limits {
        requests.entry(name.clone()).or_insert(*limit);
    }
    (requests, limits)
}

fn task(cx: &mut Context, fields: &Fields<'_>) -> TaskSpec {
    let mut command = fields.list(cx, "command", |cx, at| at.text(cx));
    if let Some(at) = fields.get("args") {
        if command.is_empty() {
            at.rule(cx, "needs `command`: the program that gets these arguments");
        }
        command.extend(at.list(cx, |cx, at| at.text(cx)));
    }
    let stop_delay_ms = fields.get("stopDelaySeconds").and_then(|at| span_ms(cx, at));
    let grace_ms = fields.get("terminationGracePeriodSeconds").and_then(|at| span_ms(cx, at));
    let has_ports = fields.get("ports").is_some_and(|at| !at.is_empty_list());
    let sim = fields.get("sim").and_then(|at| sim(cx, at)).unwrap_or((0, 0));
    TaskSpec {
        command,
        env: fields.list(cx, "env", env),
        working_dir: fields.text(cx, "workingDir").unwrap_or_default(),
        stop_delay_ms: stop_delay_ms.unwrap_or(defaults::stop_delay_ms(has_ports)),
        grace_ms: grace_ms.unwrap_or(defaults::GRACE_MS),
        probes: probes(cx, fields),
        sim_duration_ms: sim.0,
        sim_exit_code: sim.1,
    }
}

/// A part of the time that a task takes to stop.
pub(crate) fn span_ms(cx: &mut Context, at: At<'_>) -> Option<u64> {
    let span_ms = at.thousandths(cx).and_then(|span| u64::try_from(span).ok())?;
    if span_ms > GRACE_MS_MAX {
        at.rule(cx, format!("must be at most {} (a day)", GRACE_MS_MAX / 1000));
    }
    Some(span_ms)
}

fn env(cx: &mut Context, at: At<'_>) -> Option<(String, String)> {
    let fields = Fields::open(cx, at, &[&["name", "value"]])?;
    let name = fields.require(cx, "name", "the name of the variable")?.text(cx)?;
    let value = match fields.get("value") {
        Some(at) => at.text(cx)?,
        None => String::new(),
    };
    Some((name, value))
}

fn sim(cx: &mut Context, at: At<'_>) -> Option<(u64, i32)> {
    let fields = Fields::open(cx, at, &[&["duration", "exitCode"], SIM_FIELDS])?;
    let duration_ms = match fields.get("duration") {
        Some(at) => at.duration_ms(cx).inspect(|duration_ms| {
            if *duration_ms == 0 {
                at.rule(cx, "must be at least `1ms`; leave it out for a task that never ends");
            }
        })?,
        None => 0,
    };
    Some((duration_ms, fields.whole(cx, "exitCode", 0..=255).unwrap_or(0)))
}

fn topology(cx: &mut Context, at: At<'_>) -> Option<TopologyRequest> {
    let known: &[&str] = &["name", "required", "preferred", "unconstrained", "slices", "balanced"];
    let fields = Fields::open(cx, at, &[known])?;
    let unconstrained = fields.boolean(cx, "unconstrained").unwrap_or(false);
    let required = fields.text(cx, "required").map(|level| (TopologyMode::Required, level));
    let preferred = fields.text(cx, "preferred").map(|level| (TopologyMode::Preferred, level));
    if usize::from(unconstrained) + usize::from(required.is_some()) + usize::from(preferred.is_some()) > 1 {
        at.rule(cx, "give only one of `required`, `preferred` and `unconstrained`");
    }
    let otherwise = if unconstrained { TopologyMode::Unconstrained } else { TopologyMode::None };
    let (mode, level) = required.or(preferred).unwrap_or((otherwise, String::new()));
    let topology = fields.text(cx, "name").unwrap_or_default();
    let slices = fields.list(cx, "slices", slice);
    let balanced = fields.boolean(cx, "balanced").unwrap_or(false);
    Some(TopologyRequest { topology, mode, level, slices, balanced })
}

fn slice(cx: &mut Context, at: At<'_>) -> Option<TopologySlice> {
    let fields = Fields::open(cx, at, &[&["level", "size"]])?;
    let level = fields.require(cx, "level", "the node label of the level that holds a slice whole")?.text(cx)?;
    let size = fields.require(cx, "size", "how many tasks are in a slice")?.whole(cx, COUNT_RANGE)?;
    Some(TopologySlice { level, size })
}
