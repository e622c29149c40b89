//! `kind: Job`.

use super::group::{GROUP_FIELDS, Group, TEMPLATE_FIELDS};
use super::strategy::strategy;
use super::{At, Context, Fields, PREEMPTION_POLICIES};
use crate::defaults::{self, LeftOpen};
use crate::path::Trail;
use crate::tree::Value;
use ohm_model::job::NOTICE_SIGNALS;
use ohm_model::job::TTL_SECONDS_DEFAULT;
use ohm_model::selector::Labels;
use ohm_model::{
    Class, ClassNameError, JobSpec, OnDisconnect, Reconcile, RepairPolicy, RepairSpec, Survivors, job_name, names,
};

const JOB_FIELDS: &[&str] = &[
    "class",
    "queue",
    "priority",
    "priorityClassName",
    "preemptionPolicy",
    "preemptible",
    "retries",
    "activeDeadlineSeconds",
    "pendingTimeoutSeconds",
    "ttlSecondsAfterFinished",
    "onDisconnect",
    "repair",
    "suspend",
    "strategy",
    "groups",
];

/// Reads the `spec` of a job.
pub(crate) fn job(cx: &mut Context, name: String, labels: Labels, spec: At<'_>) -> Option<JobSpec> {
    let is_grouped = spec.node.get("groups").is_some();
    let every_field: &[&[&'static str]] = &[JOB_FIELDS, GROUP_FIELDS, TEMPLATE_FIELDS];
    let fields = Fields::open(cx, spec, every_field)?;
    let groups = if is_grouped {
        refuse_group_fields(cx, &fields);
        fields.list(cx, "groups", Group::read)
    } else {
        vec![Group::read_fields(cx, fields)]
    };
    let class = fields.get("class").and_then(|at| class_name(cx, at));
    let class = class.unwrap_or_else(|| defaults::class(groups.iter().any(Group::asks_for_topology)));
    let kind = defaults::kind_of(class);
    let on_disconnect = fields.get("onDisconnect").and_then(|at| on_disconnect(cx, at));
    if class.built_in().is_none() {
        let groups = groups.iter().map(Group::left_open).collect();
        cx.left_open = Some(LeftOpen { on_disconnect: on_disconnect.is_none(), groups });
    }
    let (on_disconnect, reconcile) = on_disconnect.unwrap_or((defaults::on_disconnect(kind), Reconcile::Newer));
    let repair = fields.get("repair").and_then(|at| repair(cx, at)).unwrap_or_default();
    let priority_class = fields.get("priorityClassName");
    if let (Some(at), Some(_)) = (priority_class, fields.get("priority")) {
        at.rule(cx, "`priority` is given, too; keep one");
    }
    let preempts = fields.get("preemptionPolicy").and_then(|at| at.choice(cx, &PREEMPTION_POLICIES)).unwrap_or(true);
    let groups = groups.into_iter().map(|group| group.finish(kind)).collect();
    let seconds = 0..=i64::MAX;
    let deadline = fields.whole(cx, "activeDeadlineSeconds", 1..=i64::MAX);
    let pending_timeout = fields.whole(cx, "pendingTimeoutSeconds", 1..=i64::MAX);
    Some(JobSpec {
        name,
        class,
        queue: fields.text(cx, "queue").unwrap_or_default(),
        priority: fields.whole(cx, "priority", i64::from(i32::MIN)..=i64::from(i32::MAX)).unwrap_or(0),
        subqueue: String::new(),
        priority_class: priority_class.and_then(|at| at.text(cx)).unwrap_or_default(),
        preempts,
        preemptible: fields.boolean(cx, "preemptible").unwrap_or(true),
        labels,
        groups,
        retries: fields.whole(cx, "retries", 0..=i64::from(u32::MAX)).unwrap_or(0),
        active_deadline_seconds: deadline.unwrap_or(0),
        pending_timeout_seconds: pending_timeout.unwrap_or(0),
        ttl_seconds_after_finished: fields.whole(cx, "ttlSecondsAfterFinished", seconds).unwrap_or(TTL_SECONDS_DEFAULT),
        on_disconnect,
        reconcile,
        repair,
        suspended: fields.boolean(cx, "suspend").unwrap_or(false),
        strategy: fields.get("strategy").and_then(|at| strategy(cx, at)),
    })
}

const ON_DISCONNECT: [(&str, OnDisconnect); 2] = [("stop", OnDisconnect::Stop), ("keep", OnDisconnect::Keep)];
const ON_DISCONNECT_FIELDS: &[&str] = &["policy", "reconcile"];
pub(crate) const RECONCILE: [(&str, Reconcile); 3] =
    [("newer", Reconcile::Newer), ("original", Reconcile::Original), ("longestRunning", Reconcile::LongestRunning)];

/// What happens to tasks whose node is cut off: one word, or a mapping that also says which of two runs lives on.
fn on_disconnect(cx: &mut Context, at: At<'_>) -> Option<(OnDisconnect, Reconcile)> {
    if !matches!(at.node.value, Value::Map(_)) {
        return at.choice(cx, &ON_DISCONNECT).map(|policy| (policy, Reconcile::Newer));
    }
    let fields = Fields::open(cx, at, &[ON_DISCONNECT_FIELDS])?;
    let policy = fields.get("policy").and_then(|at| at.choice(cx, &ON_DISCONNECT)).unwrap_or(OnDisconnect::Keep);
    let reconcile = fields.get("reconcile").and_then(|at| at.choice(cx, &RECONCILE)).unwrap_or_default();
    if let Some(at) = fields.get("reconcile").filter(|_| policy == OnDisconnect::Stop) {
        at.rule(cx, "is given with `policy: keep` only: what is stopped does not come back");
    }
    Some((policy, reconcile))
}

const REPAIR_FIELDS: &[&str] = &["policy", "timeoutSeconds", "widenTo", "survivors", "signal", "provision"];
pub(crate) const SURVIVORS: [(&str, Survivors); 2] =
    [("notify", Survivors::Notify), ("restartAll", Survivors::RestartAll)];
pub(crate) const REPAIR_POLICIES: [(&str, RepairPolicy); 3] =
    [("failFast", RepairPolicy::FailFast), ("wait", RepairPolicy::Wait), ("widen", RepairPolicy::Widen)];

/// What happens when nodes are lost under the job.
fn repair(cx: &mut Context, at: At<'_>) -> Option<RepairSpec> {
    let fields = Fields::open(cx, at, &[REPAIR_FIELDS])?;
    let policy = fields.get("policy").and_then(|at| at.choice(cx, &REPAIR_POLICIES)).unwrap_or_default();
    let widen_to = fields.text(cx, "widenTo").unwrap_or_default();
    if let Some(at) = fields.get("widenTo").filter(|_| policy != RepairPolicy::Widen) {
        at.rule(cx, "is given with `policy: widen` only");
    }
    if policy == RepairPolicy::Widen && widen_to.is_empty() {
        at.rule(cx, "`policy: widen` needs `widenTo`: the level of the topology up to which a repair may go");
    }
    let timeout_seconds = fields.whole(cx, "timeoutSeconds", 1..=i64::MAX).unwrap_or(0);
    for name in ["timeoutSeconds", "provision"] {
        if let Some(at) = fields.get(name).filter(|_| policy == RepairPolicy::FailFast) {
            at.rule(cx, "`failFast` does not wait; give `policy: wait` or `policy: widen`, too");
        }
    }
    let survivors = fields.get("survivors").and_then(|at| at.choice(cx, &SURVIVORS)).unwrap_or_default();
    let signal = fields.get("signal").and_then(|at| at.choice(cx, &NOTICE_SIGNALS)).unwrap_or(0);
    if let Some(at) = fields.get("signal").filter(|_| survivors == Survivors::RestartAll) {
        at.rule(cx, "tasks that are restarted need no signal; give it with `survivors: notify`");
    }
    let provision = fields.boolean(cx, "provision").unwrap_or(false);
    Some(RepairSpec { policy, timeout_seconds, widen_to, survivors, signal, provision })
}

fn class_name(cx: &mut Context, at: At<'_>) -> Option<Class> {
    let name = at.text(cx)?;
    name.parse().map_err(|error: ClassNameError| at.rule(cx, error.to_string())).ok()
}

fn refuse_group_fields(cx: &mut Context, fields: &Fields<'_>) {
    for name in GROUP_FIELDS.iter().chain(TEMPLATE_FIELDS) {
        if let Some(at) = fields.get(name) {
            at.rule(cx, "belongs into a group, because this job has `groups`");
        }
    }
}

/// The name by which a job is known that is called `name` in the namespace that its metadata say. They say so in their
/// own field alone.
pub(crate) fn name_of_job(cx: &mut Context, fields: &Fields<'_>, name: &str) -> String {
    let Some(metadata) = fields.get("metadata") else { return name.to_string() };
    let field = |field| metadata.node.get(field).map(|node| At { node, trail: Trail::Field(&metadata.trail, field) });
    if let Some(at) = field("name").filter(|_| name.contains('/')) {
        at.rule(cx, format!("`{}` is no name; write the namespace as `namespace`", crate::text::shorten(name)));
        return name.to_string();
    }
    let Some(at) = field("namespace") else { return name.to_string() };
    let Some(namespace) = at.text(cx) else { return name.to_string() };
    if let Err(error) = names::namespace(&namespace) {
        at.rule(cx, error.to_string());
        return name.to_string();
    }
    cx.namespace = Some(namespace.clone());
    job_name(&namespace, name)
}
