//! What the pods of a template ask for.

use crate::decode::on_node;
use crate::decode::{At, Context, Fields};
use crate::quantity::Rounding;
use ohm_model::HostPort;
use ohm_model::resources::{Amounts, is_extended};

/// What one pod asks for and the most it may take, as Kubernetes counts it (KEP-753, KEP-2837): the larger of its
/// containers together and its largest step of initialisation, where init containers that stay (`restartPolicy:
/// Always`) count with everything that starts after them; and the overhead. What is said of the pod as a whole goes
/// before what its containers say. A pod has a limit only of what each of its containers has one of.
pub(super) fn resources(cx: &mut Context, spec: &Fields<'_>) -> (Amounts, Amounts) {
    let init = spec.list(cx, "initContainers", |cx, at| {
        let stays = stays(&at);
        Some((container(cx, at)?, stays))
    });
    let containers = spec.list(cx, "containers", container);
    let whole = spec.get("resources").and_then(|at| amounts(cx, at));
    let overhead = overhead(cx, spec);
    let of_pod = |part: fn(&Resources) -> &Amounts| {
        let init = init.iter().map(|(one, stays)| (part(one), *stays));
        let mut sum = together(init, containers.iter().map(part));
        sum.extend(whole.iter().flat_map(|whole| part(whole).clone()));
        sum
    };
    let (mut requests, mut limits) = (of_pod(|one| &one.requests), of_pod(|one| &one.limits));
    let is_limited = |name: &String| match &whole {
        Some(whole) if whole.requests.contains_key(name) => whole.limits.contains_key(name),
        // A device is its own limit, whoever of the pod has it.
        _ if is_extended(name) => true,
        _ => init.iter().map(|(one, _)| one).chain(&containers).all(|one| one.limits.contains_key(name)),
    };
    limits.retain(|name, _| is_limited(name));
    add(&mut requests, &overhead);
    let limited = overhead.into_iter().filter(|(name, _)| limits.contains_key(name)).collect();
    add(&mut limits, &limited);
    requests.retain(|_, amount| *amount > 0);
    limits.retain(|name, _| requests.contains_key(name));
    (requests, limits)
}

/// What each pod takes beside its containers.
pub(super) fn overhead(cx: &mut Context, spec: &Fields<'_>) -> Amounts {
    spec.get("overhead").map(|at| at.amounts(cx, Rounding::Up)).unwrap_or_default()
}

/// Whether an init container stays while the pod runs.
pub(super) fn stays(at: &At<'_>) -> bool {
    at.node.get("restartPolicy").and_then(crate::tree::Node::as_text) == Some("Always")
}

/// What the containers of a pod come to, init containers with whether they stay.
pub(super) fn together<'r>(
    init: impl Iterator<Item = (&'r Amounts, bool)>,
    rest: impl Iterator<Item = &'r Amounts>,
) -> Amounts {
    let (mut staying, mut initial) = (Amounts::new(), Amounts::new());
    for (amounts, stays) in init {
        if stays {
            add(&mut staying, amounts);
            raise(&mut initial, &staying);
        } else {
            let mut step = staying.clone();
            add(&mut step, amounts);
            raise(&mut initial, &step);
        }
    }
    let mut sum = staying;
    rest.for_each(|amounts| add(&mut sum, amounts));
    raise(&mut sum, &initial);
    sum
}

/// What a container, or a pod as a whole, says of resources.
#[derive(Default)]
pub(super) struct Resources {
    pub(super) requests: Amounts,
    limits: Amounts,
}

pub(super) fn container(cx: &mut Context, at: At<'_>) -> Option<Resources> {
    let fields = Fields::open(cx, at, &[])?;
    Some(fields.get("resources").and_then(|at| amounts(cx, at)).unwrap_or_default())
}

/// `requests` and `limits`; a resource that only has a limit is asked for up to it.
pub(super) fn amounts(cx: &mut Context, at: At<'_>) -> Option<Resources> {
    let fields = Fields::open(cx, at, &[])?;
    let limits = fields.get("limits").map(|at| at.amounts(cx, Rounding::Up)).unwrap_or_default();
    let mut requests = limits.clone();
    if let Some(asked) = fields.get("requests") {
        requests.extend(asked.amounts(cx, Rounding::Up));
    }
    Some(Resources { requests, limits })
}

pub(super) fn add(sum: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        let entry = sum.entry(name.clone()).or_insert(0);
        *entry = entry.saturating_add(*amount);
    }
}

fn raise(most: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        let entry = most.entry(name.clone()).or_insert(0);
        *entry = (*entry).max(*amount);
    }
}

/// The port that a task has of its node: it has no others, so that the port of the container is that of the host.
fn port_of_task(cx: &mut Context, fields: &Fields<'_>, host: Option<u16>) -> Option<u16> {
    let at = fields.require(cx, "containerPort", "the port on which the program listens")?;
    let port = at.whole(cx, 1..=i64::from(u16::MAX))?;
    if let Some(at) = fields.get("hostPort").filter(|_| host.is_some_and(|host| host != port)) {
        at.rule(cx, format!("tasks listen on their node itself; write {port}, or leave it out"));
    }
    Some(port)
}

/// The host ports that the containers of a pod ask for, init containers that stay among them.
pub(super) fn host_ports(cx: &mut Context, spec: &Fields<'_>) -> Vec<HostPort> {
    let mut ports: Vec<HostPort> = Vec::new();
    let of_container = |cx: &mut Context, at: At<'_>| {
        let fields = Fields::open(cx, at, &[])?;
        let ports = fields.list(cx, "ports", |cx, at| {
            let fields = Fields::open(cx, at, &[])?;
            let port = fields.whole(cx, "hostPort", 0..=i64::from(u16::MAX)).filter(|port| *port != 0);
            let port = if cx.runs() { port_of_task(cx, &fields, port) } else { port };
            on_node(cx, &fields, port?)
        });
        Some(ports)
    };
    let of_staying = |cx: &mut Context, at: At<'_>| if stays(&at) { of_container(cx, at) } else { Some(Vec::new()) };
    let mut found = spec.list(cx, "initContainers", of_staying);
    found.extend(spec.list(cx, "containers", of_container));
    found.into_iter().flatten().for_each(|port: HostPort| {
        // What is on all addresses is on each of them.
        if ports.iter().any(|known| known.meets(port) && (known.address.is_none() || *known == port)) {
            return;
        }
        ports.retain(|known| !known.meets(port));
        ports.push(port);
    });
    ports
}
