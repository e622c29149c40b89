//! What becomes of fields that no reader asks for, where an object runs here: they bear on nothing, or are refused.
//!
//! A field that stands here is refused with words of its own, any other one that was not read with general ones. So
//! whoever has a reader honour one more field takes it off the list by reading it, as in [`super::unread`].

/// What is to be said of a field that nobody has read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// It bears on nothing here.
    Idle,
    /// It does not unless it says something other than this.
    Unless(&'static [&'static str], &'static str),
    /// It cannot be had, and why, or what to write instead.
    Refused(&'static str),
    /// A reader should have asked for it: it cannot be had either.
    Unread,
}

use Rule::{Idle, Refused, Unless, Unread};

/// What is said of a field that has no words of its own.
pub(super) const UNREAD: &str = "cannot be had here; leave it out";

/// The rule for a field of a type of the API.
pub(super) fn rule(of: &str, field: &str) -> Rule {
    match of {
        "Container" => of_container(field),
        "PodSpec" => of_pod(field),
        "JobSpec" => of_job(field),
        "JobSetSpec" | "ReplicatedJob" => of_job_set(field),
        "DeploymentSpec" | "StatefulSetSpec" => of_controller(field),
        "ResourceRequirements" if field == "claims" => Refused("devices are asked for in `limits`; leave it out"),
        "ObjectMeta" => Idle,
        // What every object says of itself.
        _ if matches!(field, "apiVersion" | "kind" | "status" | "description") => Idle,
        _ => Unread,
    }
}

/// What is said of a label or an annotation by which schedulers are spoken to, where it has words of its own.
pub(super) fn rule_of_note(key: &str) -> Option<&'static str> {
    let of_workload = "name a PriorityClass instead, as `priorityClassName` of the template";
    (key == "kueue.x-k8s.io/priority-class").then_some(of_workload)
}

fn of_container(field: &str) -> Rule {
    match field {
        "image" => Refused("tasks are programs of their node, and images are not run; leave it out, and say `command`"),
        "imagePullPolicy" | "name" | "resizePolicy" | "terminationMessagePath" | "terminationMessagePolicy" => Idle,
        "envFrom" => Refused("there are no ConfigMaps or Secrets; write the variables in `env`"),
        "lifecycle" => Refused("has no place here: a task is its program alone; do it in `command`"),
        "restartPolicy" | "restartPolicyRules" => Refused("is that of the pod; leave it out"),
        "securityContext" => Refused(SECURITY),
        "stdin" | "stdinOnce" | "tty" => Unless(&["false"], "tasks have no terminal; leave it out"),
        "volumeDevices" | "volumeMounts" => Refused(VOLUMES),
        _ => Unread,
    }
}

const SECURITY: &str = "tasks run as the user that the agent of their node runs as; leave it out";
const VOLUMES: &str = "tasks have no volumes: they see the files of their node; leave it out";
const NAMES: &str = "tasks have no names in DNS: `ohm endpoints` says where they are; leave it out";
const RESOLVER: &str = "tasks ask the DNS that their node asks; leave it out";
const PRIORITY: &str = "a PriorityClass says it; name one in `priorityClassName`";

fn of_pod(field: &str) -> Rule {
    match field {
        "activeDeadlineSeconds" => Refused("is that of the Job here; write it beside `template`"),
        "automountServiceAccountToken" => Unless(&["false"], "there are no service accounts; leave it out"),
        "dnsConfig" => Refused(RESOLVER),
        "dnsPolicy" => Unless(&["ClusterFirst", "ClusterFirstWithHostNet", "Default"], RESOLVER),
        "enableServiceLinks" => Idle,
        "ephemeralContainers" => Refused("a task is one program; leave it out"),
        "hostAliases" | "hostname" | "hostnameOverride" | "subdomain" => Refused(NAMES),
        "setHostnameAsFQDN" => Unless(&["false"], NAMES),
        "hostIPC" => Unless(&["true"], "tasks share the IPC of their node; leave it out, or write `true`"),
        "hostPID" | "shareProcessNamespace" => Unless(&["false"], "a task sees its own processes; leave it out"),
        "hostUsers" => Unless(&["true"], SECURITY),
        "imagePullSecrets" => Refused("images are not run; leave it out"),
        "initContainers" => Refused("a task is one program; do it at the beginning of `command`"),
        "nodeName" => Refused("is for schedulers; write `nodeSelector: {kubernetes.io/hostname: NODE}`"),
        "overhead" => Refused("a task takes nothing beside what its program takes; leave it out"),
        "preemptionPolicy" => Unless(&["PreemptLowerPriority"], PRIORITY),
        "priority" => Unless(&["0"], PRIORITY),
        "readinessGates" => Refused("a `readinessProbe` says when a task is ready; leave it out"),
        "resourceClaims" => Refused("devices are asked for in `limits` of the container; leave it out"),
        "runtimeClassName" => Refused("tasks are processes of their node; leave it out"),
        "schedulerName" => Unless(&["default-scheduler"], "the class of a job says who places it; leave it out"),
        "schedulingGates" => Refused("`suspend` of a Job keeps it from starting; leave it out"),
        "securityContext" => Refused(SECURITY),
        "serviceAccount" | "serviceAccountName" => Unless(&["default"], "there are no service accounts; leave it out"),
        "volumes" => Refused(VOLUMES),
        _ => Unread,
    }
}

fn of_job(field: &str) -> Rule {
    match field {
        "managedBy" => Unless(&["kubernetes.io/job-controller"], "nobody else runs jobs here; leave it out"),
        "manualSelector" => Unless(&["false"], "a job has its own tasks; leave it out"),
        // A task is placed anew once it has ended, which both of its values allow.
        "podReplacementPolicy" | "selector" => Idle,
        "podFailurePolicy" => Refused("exit codes and conditions do not decide what counts as a failure; leave it out"),
        "successPolicy" => Refused("a job has succeeded when all of its tasks have; leave it out"),
        _ => Unread,
    }
}

fn of_job_set(field: &str) -> Rule {
    match field {
        "coordinator" => Refused("the first task of a group has `OHM_RANK` 0; leave it out"),
        "dependsOn" => Refused("all groups of a job start together; submit the other one later"),
        "groupName" => Unless(&["default"], "policies are about the whole job here; leave it out"),
        "managedBy" => Unless(&["jobset.sigs.k8s.io/jobset-controller"], "nobody else runs jobs here; leave it out"),
        "volumeClaimPolicies" => Refused(VOLUMES),
        _ => Unread,
    }
}

fn of_controller(field: &str) -> Rule {
    match field {
        // Claims are refused, and every service keeps its last ten revisions.
        "persistentVolumeClaimRetentionPolicy" | "revisionHistoryLimit" => Idle,
        _ => Unread,
    }
}
