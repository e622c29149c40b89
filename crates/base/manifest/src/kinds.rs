//! Which kind a document is of, and who reads and judges that kind.

use crate::decode::{self, At, Context, Fields};
use crate::document::{API_VERSION, Content, Dialect, Document};
use crate::error::{DocumentError, Origin, Problem, ProblemKind};
use crate::kubernetes;
use crate::path::Trail;
use crate::text::nearest;
use crate::tree::{Node, Value};
use crate::validate;
use ohm_model::Namespace;
use ohm_model::queue::SCHEDULING_NAME;
use ohm_model::selector::Labels;
use std::sync::Arc;

const KINDS: &[&str] = &[
    "Job",
    "Queue",
    "Cohort",
    "Subqueue",
    "ResourceFlavor",
    "Scheduling",
    "Topology",
    "Node",
    "Namespace",
    "Budget",
    "PriorityClass",
    "ProvisioningClass",
    "SchedulingProfile",
    "Allocation",
];

/// Reads one document.
pub(crate) fn decode(dialect: Dialect, file: &Arc<str>, node: &Node<'_>) -> Result<Document, DocumentError> {
    let mut cx = Context { dialect, ..Context::default() };
    let decoded = decode_kind(&mut cx, At::root(node));
    // A rule may look broken only because a field could not be read; then the rules wait for the next attempt.
    let is_read = |problem: &Problem| matches!(problem.kind, ProblemKind::Rule(_) | ProblemKind::Quantity(_));
    if let Some(content) = &decoded
        && cx.problems.iter().all(is_read)
    {
        let mut violations = violations(content);
        if cx.foreign && cx.runs() {
            violations.iter_mut().for_each(|violation| violation.field = kubernetes::place(node, &violation.field));
        }
        cx.report_violations(node, violations);
    }
    match decoded {
        Some(content) if cx.problems.is_empty() => {
            let origin = Origin { file: file.clone(), position: node.position };
            let (left_open, created_us, namespace) = (cx.left_open, cx.created_us, cx.namespace);
            let (kubernetes, aside) = (cx.object, cx.aside);
            Ok(Document { origin, content, left_open, created_us, namespace, kubernetes, aside })
        }
        _ => {
            cx.problems.sort_by_key(|problem| problem.position);
            cx.problems.dedup();
            Err(DocumentError { file: file.clone(), problems: cx.problems, omitted: cx.omitted })
        }
    }
}

fn violations(content: &Content) -> Vec<validate::Violation> {
    match content {
        Content::Job(job) => validate::job(job),
        Content::Queue(queue) => validate::queue(queue),
        Content::Subqueue(subqueue) => validate::subqueue(subqueue),
        Content::ResourceFlavor(flavor) => validate::resource_flavor(flavor),
        Content::Scheduling(scheduling) => validate::scheduling(scheduling),
        Content::Topology(topology) => validate::topology(topology),
        Content::Node(node) => {
            let mut violations = validate::node(&node.spec);
            violations.extend(validate::used(&node.used));
            violations
        }
        Content::Namespace(namespace) => validate::namespace(namespace),
        Content::Budget(budget) => validate::budget(budget),
        Content::PriorityClass(class) => validate::priority_class(class),
        Content::ProvisioningClass(class) => validate::provisioning_class(class),
        Content::SchedulingProfile(profile) => validate::scheduling_profile(profile),
        // What stands was admitted as it is.
        Content::Pod(pod) if !pod.stands() => validate::job(&pod.job),
        Content::Allocation(_) | Content::Pod(_) => Vec::new(),
    }
}

fn decode_kind(cx: &mut Context, root: At<'_>) -> Option<Content> {
    if !matches!(root.node.value, Value::Map(_)) {
        root.wrong_type(cx, "a map that begins with `apiVersion: ohm/v1` and `kind`");
        return None;
    }
    let version = root.node.get("apiVersion");
    if let Some(version) =
        version.and_then(Node::as_text).filter(|version| cx.reads_kubernetes() || kubernetes::may_run(version))
        && let Some(kind) = root.node.get("kind").and_then(Node::as_text)
        && let Some(decoded) = kubernetes::decode(cx, root, version, kind)
    {
        return decoded;
    }
    if version.and_then(Node::as_text) != Some(API_VERSION) {
        let position = version.map_or(root.node.position, |version| version.position);
        let found = version.map_or("missing".to_string(), Node::description);
        cx.report(position, Trail::Field(&Trail::Root, "apiVersion"), || ProblemKind::ApiVersion(found));
    }
    let Some(kind) = root.node.get("kind") else {
        let missing =
            || ProblemKind::Missing { field: "kind", wanted: "one of Job, Queue, Cohort, Topology, Node …" };
        cx.report(root.node.position, Trail::Root, missing);
        return None;
    };
    match kind.as_text() {
        Some("Job") => job(cx, root),
        Some("Node") => node(cx, root),
        Some("Queue") => named(cx, root, |cx, name, spec| decode::queue(cx, name, spec).map(Content::Queue)),
        Some("Cohort") => named(cx, root, |cx, name, spec| decode::cohort(cx, name, spec).map(Content::Queue)),
        Some("Subqueue") => named(cx, root, |cx, name, spec| {
            let spec = required(cx, root, spec, "its `queue`")?;
            decode::subqueue(cx, name, spec).map(Content::Subqueue)
        }),
        Some("ResourceFlavor") => named(cx, root, |cx, name, spec| {
            let flavor = decode::resource_flavor(cx, name, spec)?;
            Some(Content::ResourceFlavor(Box::new(flavor)))
        }),
        Some("Scheduling") => scheduling(cx, root),
        Some("Topology") => named(cx, root, |cx, name, spec| {
            let spec = required(cx, root, spec, "its `levels`")?;
            decode::topology(cx, name, spec).map(Content::Topology)
        }),
        Some("Namespace") => namespace(cx, root),
        Some("Budget") => budget(cx, root),
        Some("PriorityClass") => {
            let known: &[&str] = &["apiVersion", "kind", "metadata", "value", "preemptionPolicy", "description"];
            let fields = Fields::open(cx, root, &[known, &["globalDefault"]])?;
            let (name, _) = metadata(cx, &fields, &["name"])?;
            decode::priority_class(cx, name, &fields).map(Content::PriorityClass)
        }
        Some("ProvisioningClass") => named(cx, root, |cx, name, spec| {
            let spec = required(cx, root, spec, "its `provisioner`")?;
            let class = decode::provisioning_class(cx, name, spec)?;
            Some(Content::ProvisioningClass(Box::new(class)))
        }),
        Some("SchedulingProfile") => named(cx, root, |cx, name, spec| {
            let profile = decode::scheduling_profile(cx, name, root, spec)?;
            Some(Content::SchedulingProfile(Box::new(profile)))
        }),
        Some("Allocation") => {
            let fields = Fields::open(cx, root, &[&["apiVersion", "kind", "spec"]])?;
            let spec = fields.require(cx, "spec", "`job`, `group`, `node` and `count`")?;
            decode::allocation(cx, spec).map(Content::Allocation)
        }
        _ => {
            refuse_kind(cx, kind);
            None
        }
    }
}

fn refuse_kind(cx: &mut Context, kind: &Node<'_>) {
    let problem = match kind.as_text() {
        Some("List") => ProblemKind::Rule("a list cannot be inside a list; put its documents there".to_string()),
        Some(text) => ProblemKind::UnknownKind {
            kind: crate::text::shorten(text),
            nearest: nearest(text, KINDS.iter().copied()),
            known: KINDS,
        },
        None => ProblemKind::WrongType { wanted: format!("one of {}", KINDS.join(", ")), found: kind.description() },
    };
    cx.report(kind.position, Trail::Field(&Trail::Root, "kind"), || problem);
}

fn job(cx: &mut Context, root: At<'_>) -> Option<Content> {
    let fields = Fields::open(cx, root, &[&["apiVersion", "kind", "metadata", "spec"]])?;
    let metadata = metadata(cx, &fields, &["name", "labels", "namespace", "creationTimestamp"]);
    cx.created_us = created_us(cx, &fields);
    let spec = fields.require(cx, "spec", "what the job runs")?;
    let (name, labels) = metadata.unwrap_or_default();
    let name = decode::name_of_job(cx, &fields, &name);
    decode::job(cx, name, labels, spec).map(|job| Content::Job(Box::new(job)))
}

fn created_us(cx: &mut Context, fields: &Fields<'_>) -> Option<i64> {
    let metadata = fields.get("metadata")?;
    let field = "creationTimestamp";
    At { node: metadata.node.get(field)?, trail: Trail::Field(&metadata.trail, field) }.time_us(cx)
}

fn node(cx: &mut Context, root: At<'_>) -> Option<Content> {
    let fields = Fields::open(cx, root, &[&["apiVersion", "kind", "metadata", "spec", "status"]])?;
    let (name, labels) = metadata(cx, &fields, &["name", "labels"]).unwrap_or_default();
    let node = decode::node(cx, name, labels, fields.get("spec"), fields.get("status"))?;
    Some(Content::Node(Box::new(node)))
}

/// A kind with a name and a spec.
fn named(
    cx: &mut Context,
    root: At<'_>,
    read: impl FnOnce(&mut Context, String, Option<At<'_>>) -> Option<Content>,
) -> Option<Content> {
    let fields = Fields::open(cx, root, &[&["apiVersion", "kind", "metadata", "spec"]])?;
    let (name, _) = metadata(cx, &fields, &["name"]).unwrap_or_default();
    read(cx, name, fields.get("spec"))
}

fn namespace(cx: &mut Context, root: At<'_>) -> Option<Content> {
    let fields = Fields::open(cx, root, &[&["apiVersion", "kind", "metadata"]])?;
    let (name, labels) = metadata(cx, &fields, &["name", "labels"])?;
    Some(Content::Namespace(Namespace { name, labels }))
}

fn budget(cx: &mut Context, root: At<'_>) -> Option<Content> {
    let fields = Fields::open(cx, root, &[&["apiVersion", "kind", "metadata", "spec"]])?;
    let (name, _) = metadata(cx, &fields, &["name", "namespace"]).unwrap_or_default();
    let name = decode::name_of_job(cx, &fields, &name);
    let spec = fields.require(cx, "spec", "its `selector`, and `minAvailable` or `maxUnavailable`")?;
    decode::budget(cx, name, spec).map(|budget| Content::Budget(Box::new(budget)))
}

fn scheduling(cx: &mut Context, root: At<'_>) -> Option<Content> {
    named(cx, root, |cx, name, spec| {
        expect_name(cx, root, &name, SCHEDULING_NAME);
        decode::scheduling(cx, spec).map(Content::Scheduling)
    })
}

/// Refuses another name than the one that there is.
fn expect_name(cx: &mut Context, root: At<'_>, name: &str, only: &str) {
    if name == only || name.is_empty() {
        return;
    }
    let metadata = root.node.get("metadata");
    let position = metadata.and_then(|metadata| metadata.get("name")).map_or(root.node.position, |name| name.position);
    let trail = Trail::Field(&root.trail, "metadata");
    cx.report(position, Trail::Field(&trail, "name"), || {
        ProblemKind::Rule(format!("must be `{only}`: a cell has one of this kind"))
    });
}

/// The `spec` of a document, which says `wanted` at least.
fn required<'n>(cx: &mut Context, root: At<'_>, spec: Option<At<'n>>, wanted: &'static str) -> Option<At<'n>> {
    if spec.is_none() {
        missing_spec(cx, root, wanted);
    }
    spec
}

fn missing_spec(cx: &mut Context, root: At<'_>, wanted: &'static str) {
    cx.report(root.node.position, root.trail, || ProblemKind::Missing { field: "spec", wanted });
}

fn metadata(cx: &mut Context, fields: &Fields<'_>, known: &[&'static str]) -> Option<(String, Labels)> {
    let at = fields.require(cx, "metadata", "at least `{name: NAME}`")?;
    let metadata = Fields::open(cx, at, &[known])?;
    let name = metadata.require(cx, "name", "a name such as `train-1`").and_then(|at| at.text(cx));
    let labels = if known.contains(&"labels") { metadata.labels(cx, "labels") } else { Labels::new() };
    Some((name?, labels))
}
