//! The way back: a job as the document that would make it. Reading what is written here gives the same [`JobSpec`], so
//! that submitting it again changes nothing.

mod amount;
mod budget;
mod expression;
mod neighbours;
mod probes;
mod strategy;

use self::amount::{Amount, seconds};
use self::budget::BudgetDocument;
use self::expression::{Expression, is_default, other};
use self::neighbours::{PodAffinity, SpreadDocument};
use self::probes::{ProbeDocument, Sim};
use self::strategy::StrategyDocument;
use crate::decode::{RECONCILE, REPAIR_POLICIES, SURVIVORS};
use crate::defaults;
use crate::document::API_VERSION;
use core::net::IpAddr;
use ohm_model::job::NOTICE_SIGNALS;
use ohm_model::job::TTL_SECONDS_DEFAULT;
use ohm_model::resources::{self, Amounts};
use ohm_model::selector::Labels;
use ohm_model::{
    GroupSpec, HostPort, JobSpec, NAMESPACE_DEFAULT, OnDisconnect, ProbeKind, Protocol, Reconcile, RepairSpec,
    Requirement, SelectorTerm, SpreadMode, Toleration, TolerationOperator, TopologyMode, TopologyRequest,
    split_job_name,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// Why a job could not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("job `{job}` cannot be written: {reason}")]
pub struct WriteError {
    /// The job.
    pub job: String,
    /// What the writer says.
    pub reason: String,
}

/// `job` as a YAML document in canonical form: groups spelled out, defaults left out.
pub fn to_yaml(job: &JobSpec) -> Result<String, WriteError> {
    serde_saphyr::to_string(&document(job)).map_err(|error| failed(job, &error))
}

/// `job` as a JSON document in canonical form, indented.
pub fn to_json(job: &JobSpec) -> Result<String, WriteError> {
    serde_json::to_string_pretty(&document(job)).map_err(|error| failed(job, &error))
}

/// `job` in canonical form for any serializer, such as one that writes a list of jobs.
pub fn document(job: &JobSpec) -> impl Serialize + '_ {
    JobDocument {
        api_version: API_VERSION,
        kind: "Job",
        metadata: metadata(job),
        spec: Spec {
            class: job.class.name(),
            queue: job.named_queue(),
            // The class gives the priority; a document that names both is none.
            priority: if job.priority_class.is_empty() { job.priority } else { 0 },
            priority_class_name: &job.priority_class,
            preemption_policy: (!job.preempts).then_some("Never"),
            preemptible: (!job.preemptible).then_some(false),
            retries: job.retries,
            active_deadline_seconds: job.active_deadline_seconds,
            pending_timeout_seconds: job.pending_timeout_seconds,
            ttl_seconds_after_finished: other(job.ttl_seconds_after_finished, TTL_SECONDS_DEFAULT),
            on_disconnect: on_disconnect(job),
            repair: Some(&job.repair).filter(|repair| !is_default(*repair)).map(repair_document),
            suspend: job.suspended,
            strategy: job.strategy.as_deref().map(StrategyDocument::from),
            groups: job.groups.iter().map(|group| group_document(job, group)).collect(),
        },
    }
}

fn metadata(job: &JobSpec) -> Metadata<'_> {
    let (namespace, name) = split_job_name(&job.name);
    Metadata { name, namespace: other(namespace, NAMESPACE_DEFAULT), labels: &job.labels }
}

/// One word, unless the job says which of two runs lives on.
fn on_disconnect(job: &JobSpec) -> Option<OnDisconnectDocument> {
    let word = match job.on_disconnect {
        OnDisconnect::Stop => "stop",
        OnDisconnect::Keep => "keep",
    };
    if job.on_disconnect == OnDisconnect::Keep && job.reconcile != Reconcile::Newer {
        let reconcile = RECONCILE.iter().find(|(_, known)| *known == job.reconcile)?.0;
        return Some(OnDisconnectDocument::Ruled { policy: word, reconcile });
    }
    let default = job.class.built_in().map(defaults::on_disconnect);
    (default != Some(job.on_disconnect)).then_some(OnDisconnectDocument::Word(word))
}

fn repair_document(repair: &RepairSpec) -> Repair<'_> {
    Repair {
        policy: REPAIR_POLICIES.iter().find(|(_, known)| *known == repair.policy).map(|(name, _)| *name),
        timeout_seconds: repair.timeout_seconds,
        widen_to: &repair.widen_to,
        survivors: SURVIVORS.iter().find(|(_, known)| *known == repair.survivors).map(|(name, _)| *name),
        signal: NOTICE_SIGNALS.iter().find(|(_, known)| *known == repair.signal).map(|(name, _)| *name),
        provision: repair.provision,
    }
}

fn failed(job: &JobSpec, error: &dyn std::fmt::Display) -> WriteError {
    WriteError { job: job.name.clone(), reason: error.to_string() }
}

fn group_document<'j>(job: &JobSpec, group: &'j GroupSpec) -> Group<'j> {
    // What another class leaves out to be filled in is known to the cell only: it is spelled out.
    let default = job.class.built_in().map(|kind| defaults::group(kind, group.count, false));
    let (min_count, elastic, spread) = (default.map(|of| of.0), default.map(|of| of.1), default.map(|of| of.2));
    Group {
        name: &group.name,
        labels: &group.labels,
        count: group.count,
        min_count: other(Some(group.min_count), min_count).flatten(),
        elastic: other(Some(group.elastic), elastic).flatten(),
        requests: amounts(&group.requests),
        limits: amounts(&group.limits),
        ports: group.ports.iter().map(port).collect(),
        max_per_node: group.max_per_node,
        spares: group.spares,
        spread: other(Some(group.spread), spread).flatten().map(|spread| spread == SpreadMode::Spread),
        node_selector: &group.node_selector,
        affinity: affinity(group),
        topology_spread_constraints: neighbours::spread(group),
        tolerations: group.tolerations.iter().map(toleration).collect(),
        topology: topology(&group.topology),
        disruption_budget: group.disruption_budget.as_deref().map(BudgetDocument::from),
        place_with: &group.place_with,
        command: &group.task.command,
        env: group.task.env.iter().map(|(name, value)| Variable { name, value }).collect(),
        working_dir: &group.task.working_dir,
        stop_delay_seconds: other(group.task.stop_delay_ms, defaults::stop_delay_ms(!group.ports.is_empty()))
            .map(seconds),
        termination_grace_period_seconds: other(group.task.grace_ms, defaults::GRACE_MS).map(seconds),
        startup_probe: probes::probe(group, ProbeKind::Startup),
        readiness_probe: probes::probe(group, ProbeKind::Readiness),
        liveness_probe: probes::probe(group, ProbeKind::Liveness),
        on_unhealthy: probes::on_unhealthy(group),
        sim: probes::sim(&group.task),
    }
}

fn amounts(amounts: &Amounts) -> BTreeMap<&str, Amount> {
    amounts.iter().map(|(name, &amount)| (name.as_str(), resources::display(name, amount).into())).collect()
}

fn affinity(group: &GroupSpec) -> Option<Affinity<'_>> {
    let required = Required { node_selector_terms: group.affinity.iter().map(Term::from).collect() };
    let preferred = group.preferred.iter();
    let of_nodes = !group.affinity.is_empty() || !group.preferred.is_empty();
    let node_affinity = of_nodes.then(|| NodeAffinity {
        required: (!group.affinity.is_empty()).then_some(required),
        preferred: preferred.map(|(weight, term)| Preferred { weight: *weight, preference: term.into() }).collect(),
    });
    let (pod_affinity, pod_anti_affinity) = neighbours::affinity(group);
    let any = node_affinity.is_some() || pod_affinity.is_some() || pod_anti_affinity.is_some();
    any.then_some(Affinity { node_affinity, pod_affinity, pod_anti_affinity })
}

fn toleration(toleration: &Toleration) -> TolerationDocument<'_> {
    TolerationDocument {
        key: &toleration.key,
        operator: match toleration.operator {
            TolerationOperator::Equal => None,
            TolerationOperator::Exists => Some("Exists"),
            TolerationOperator::Gt => Some("Gt"),
            TolerationOperator::Lt => Some("Lt"),
        },
        value: &toleration.value,
        effect: toleration.effect.map(|effect| format!("{effect:?}")),
        toleration_seconds: toleration.toleration_seconds,
    }
}

fn topology(request: &TopologyRequest) -> Option<Topology<'_>> {
    let level = |mode| (request.mode == mode).then_some(request.level.as_str());
    (*request != TopologyRequest::default()).then(|| Topology {
        name: &request.topology,
        required: level(TopologyMode::Required),
        preferred: level(TopologyMode::Preferred),
        unconstrained: request.mode == TopologyMode::Unconstrained,
        slices: request.slices.iter().map(|slice| Slice { level: &slice.level, size: slice.size }).collect(),
        balanced: request.balanced,
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JobDocument<'j> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'j>,
    spec: Spec<'j>,
}

#[derive(Serialize)]
struct Metadata<'j> {
    name: &'j str,
    #[serde(skip_serializing_if = "is_default")]
    namespace: Option<&'j str>,
    #[serde(skip_serializing_if = "is_empty")]
    labels: &'j Labels,
}

fn is_empty(labels: &&Labels) -> bool {
    labels.is_empty()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'j> {
    class: &'j str,
    #[serde(skip_serializing_if = "is_default")]
    queue: &'j str,
    #[serde(skip_serializing_if = "is_default")]
    priority: i32,
    #[serde(skip_serializing_if = "is_default")]
    priority_class_name: &'j str,
    #[serde(skip_serializing_if = "is_default")]
    preemption_policy: Option<&'static str>,
    #[serde(skip_serializing_if = "is_default")]
    preemptible: Option<bool>,
    #[serde(skip_serializing_if = "is_default")]
    retries: u32,
    #[serde(skip_serializing_if = "is_default")]
    active_deadline_seconds: u64,
    #[serde(skip_serializing_if = "is_default")]
    pending_timeout_seconds: u64,
    #[serde(skip_serializing_if = "is_default")]
    ttl_seconds_after_finished: Option<u64>,
    #[serde(skip_serializing_if = "is_default")]
    on_disconnect: Option<OnDisconnectDocument>,
    #[serde(skip_serializing_if = "is_default")]
    repair: Option<Repair<'j>>,
    #[serde(skip_serializing_if = "is_default")]
    suspend: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    strategy: Option<StrategyDocument>,
    groups: Vec<Group<'j>>,
}

#[derive(PartialEq, Serialize)]
#[serde(untagged)]
enum OnDisconnectDocument {
    Word(&'static str),
    Ruled { policy: &'static str, reconcile: &'static str },
}

#[derive(PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Repair<'j> {
    policy: Option<&'static str>,
    #[serde(skip_serializing_if = "is_default")]
    timeout_seconds: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    widen_to: &'j str,
    survivors: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<&'static str>,
    #[serde(skip_serializing_if = "is_default")]
    provision: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Group<'j> {
    name: &'j str,
    #[serde(skip_serializing_if = "is_empty")]
    labels: &'j Labels,
    count: u32,
    #[serde(skip_serializing_if = "is_default")]
    min_count: Option<u32>,
    #[serde(skip_serializing_if = "is_default")]
    elastic: Option<bool>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    requests: BTreeMap<&'j str, Amount>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    limits: BTreeMap<&'j str, Amount>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ports: Vec<PortDocument>,
    #[serde(skip_serializing_if = "is_default")]
    max_per_node: u32,
    #[serde(skip_serializing_if = "is_default")]
    spares: u32,
    #[serde(skip_serializing_if = "is_default")]
    spread: Option<bool>,
    #[serde(skip_serializing_if = "is_empty")]
    node_selector: &'j Labels,
    #[serde(skip_serializing_if = "Option::is_none")]
    affinity: Option<Affinity<'j>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    topology_spread_constraints: Vec<SpreadDocument<'j>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tolerations: Vec<TolerationDocument<'j>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topology: Option<Topology<'j>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disruption_budget: Option<BudgetDocument>,
    #[serde(skip_serializing_if = "is_default")]
    place_with: &'j str,
    #[serde(skip_serializing_if = "is_default")]
    command: &'j [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    env: Vec<Variable<'j>>,
    #[serde(skip_serializing_if = "is_default")]
    working_dir: &'j str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_delay_seconds: Option<Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    termination_grace_period_seconds: Option<Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    startup_probe: Option<ProbeDocument<'j>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    readiness_probe: Option<ProbeDocument<'j>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    liveness_probe: Option<ProbeDocument<'j>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_unhealthy: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sim: Option<Sim>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Affinity<'j> {
    #[serde(skip_serializing_if = "Option::is_none")]
    node_affinity: Option<NodeAffinity<'j>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod_affinity: Option<PodAffinity<'j>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod_anti_affinity: Option<PodAffinity<'j>>,
}

#[derive(Serialize)]
struct NodeAffinity<'j> {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", skip_serializing_if = "Option::is_none")]
    required: Option<Required<'j>>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution", skip_serializing_if = "Vec::is_empty")]
    preferred: Vec<Preferred<'j>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Required<'j> {
    node_selector_terms: Vec<Term<'j>>,
}

#[derive(Serialize)]
struct Preferred<'j> {
    weight: u32,
    preference: Term<'j>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Term<'j> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    match_expressions: Vec<Expression<'j>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    match_fields: Vec<Expression<'j>>,
}

impl<'j> From<&'j SelectorTerm> for Term<'j> {
    fn from(term: &'j SelectorTerm) -> Self {
        let written = |requirements: &'j [Requirement]| requirements.iter().map(Expression::from).collect();
        Term { match_expressions: written(&term.requirements), match_fields: written(&term.fields) }
    }
}

/// A TCP port on all addresses is its number alone.
#[derive(Serialize)]
#[serde(untagged)]
enum PortDocument {
    Number(u16),
    #[serde(rename_all = "camelCase")]
    Said {
        host_port: u16,
        #[serde(skip_serializing_if = "Option::is_none")]
        protocol: Option<&'static str>,
        #[serde(rename = "hostIP", skip_serializing_if = "Option::is_none")]
        host_ip: Option<IpAddr>,
    },
}

fn port(port: &HostPort) -> PortDocument {
    let HostPort { port: host_port, protocol, address: host_ip } = *port;
    if *port == HostPort::tcp(host_port) {
        return PortDocument::Number(host_port);
    }
    let protocol = (protocol != Protocol::Tcp).then(|| protocol.name());
    PortDocument::Said { host_port, protocol, host_ip }
}

#[derive(Serialize)]
struct TolerationDocument<'j> {
    #[serde(skip_serializing_if = "is_default")]
    key: &'j str,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<&'static str>,
    #[serde(skip_serializing_if = "is_default")]
    value: &'j str,
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<String>,
    #[serde(rename = "tolerationSeconds", skip_serializing_if = "Option::is_none")]
    toleration_seconds: Option<u64>,
}

#[derive(Serialize)]
struct Topology<'j> {
    #[serde(skip_serializing_if = "is_default")]
    name: &'j str,
    #[serde(skip_serializing_if = "Option::is_none")]
    required: Option<&'j str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preferred: Option<&'j str>,
    #[serde(skip_serializing_if = "is_default")]
    unconstrained: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    slices: Vec<Slice<'j>>,
    #[serde(skip_serializing_if = "is_default")]
    balanced: bool,
}

#[derive(Serialize)]
struct Slice<'j> {
    level: &'j str,
    size: u32,
}

#[derive(Serialize)]
struct Variable<'j> {
    name: &'j str,
    value: &'j str,
}
