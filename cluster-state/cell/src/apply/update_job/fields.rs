//! Which fields of a job an update changes, as paths.

use ohm_model::{GroupSpec, JobSpec};

/// The fields of a group that differ.
pub(super) fn changed_in_group(old: &GroupSpec, new: &GroupSpec) -> Vec<&'static str> {
    let fields = [
        ("name", old.name != new.name),
        ("count", old.count != new.count),
        ("minCount", old.min_count != new.min_count),
        ("elastic", old.elastic != new.elastic),
        ("requests", old.requests != new.requests),
        ("limits", old.limits != new.limits),
        ("nodeSelector", old.node_selector != new.node_selector),
        ("labels", old.labels != new.labels),
        ("affinity", old.affinity != new.affinity || old.preferred != new.preferred),
        ("neighbours", old.neighbours != new.neighbours),
        ("tolerations", old.tolerations != new.tolerations),
        ("ports", old.ports != new.ports),
        ("maxPerNode", old.max_per_node != new.max_per_node),
        ("spares", old.spares != new.spares),
        ("spread", old.spread != new.spread),
        ("topology", old.topology != new.topology),
        ("disruptionBudget", old.disruption_budget != new.disruption_budget),
        ("placeWith", old.place_with != new.place_with),
        ("command", old.task.command != new.task.command),
        ("template", old.task != new.task),
    ];
    let changed = fields.iter().filter(|(_, changed)| *changed).map(|(name, _)| *name);
    // The template says more only where the command does not.
    let names: Vec<&str> = changed.collect();
    let has_command = names.contains(&"command");
    names.into_iter().filter(|name| *name != "template" || !has_command).collect()
}

/// The fields that differ, in the words of a job's file.
pub fn changed_fields(old: &JobSpec, new: &JobSpec) -> Vec<String> {
    let fields = [
        ("metadata.labels", old.labels != new.labels),
        ("spec.queue", old.named_queue() != new.named_queue()),
        ("spec.priorityClassName", old.priority_class != new.priority_class),
        ("spec.priority", old.priority != new.priority),
        ("spec.preemptionPolicy", old.preempts != new.preempts),
        ("spec.preemptible", old.preemptible != new.preemptible),
        ("spec.retries", old.retries != new.retries),
        ("spec.activeDeadlineSeconds", old.active_deadline_seconds != new.active_deadline_seconds),
        ("spec.pendingTimeoutSeconds", old.pending_timeout_seconds != new.pending_timeout_seconds),
        ("spec.ttlSecondsAfterFinished", old.ttl_seconds_after_finished != new.ttl_seconds_after_finished),
        ("spec.onDisconnect", old.on_disconnect != new.on_disconnect),
        ("spec.onDisconnect.reconcile", old.reconcile != new.reconcile),
        ("spec.repair", old.repair != new.repair),
        ("spec.suspend", old.suspended != new.suspended),
        ("spec.strategy", old.strategy != new.strategy),
        ("spec.groups", old.groups.len() != new.groups.len()),
    ];
    let changed = fields.iter().filter(|(_, changed)| *changed).map(|(name, _)| name.to_string());
    let groups = old.groups.iter().zip(&new.groups).enumerate();
    let in_groups = groups.flat_map(|(at, (old, new))| {
        changed_in_group(old, new).into_iter().map(move |name| format!("spec.groups[{at}].{name}"))
    });
    changed.chain(in_groups).collect()
}
