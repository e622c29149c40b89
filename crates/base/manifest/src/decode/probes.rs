//! The probes of a group's tasks, in the words of Kubernetes.
//!
//! A task here is one process on its node: only a container of Kubernetes names ports, and `grpc` is refused by name.

use super::{At, Context, Fields};
use ohm_model::{GRACE_MS_MAX, OnUnhealthy, Probe, ProbeAction, ProbeKind, Probes, SimHealth};

const PROBE_FIELDS: &[&str] = &[
    "exec",
    "httpGet",
    "tcpSocket",
    "grpc",
    "initialDelaySeconds",
    "periodSeconds",
    "timeoutSeconds",
    "successThreshold",
    "failureThreshold",
    "terminationGracePeriodSeconds",
];
const HTTP_FIELDS: &[&str] = &["path", "port", "host", "scheme", "httpHeaders"];
const ACTIONS: &str = "`exec`, `httpGet` or `tcpSocket`";

/// Fields of `sim` that say how a simulated task answers its probes.
pub(super) const SIM_FIELDS: &[&str] = &["readyAfter", "unreadyAfter", "unreadyFor", "unhealthyAfter"];

/// What the fields of a group say of probes; nothing where they name none.
pub(crate) fn probes(cx: &mut Context, fields: &Fields<'_>) -> Option<Box<Probes>> {
    let mut of_kind = |kind: ProbeKind| fields.get(kind.name()).map(|at| probe(cx, at));
    let all = ProbeKind::ALL.map(&mut of_kind);
    let asks = all.iter().any(Option::is_some);
    let [startup, readiness, liveness] = all.map(Option::flatten);
    let on_unhealthy = fields.get("onUnhealthy").and_then(|at| at.choice(cx, &OnUnhealthy::WORDS));
    let sim = fields.get("sim").map(|at| sim_health(cx, at)).unwrap_or_default();
    if !asks {
        if let Some(at) = fields.get("onUnhealthy") {
            at.rule(cx, "goes with `livenessProbe` or `startupProbe`, which the group does not have");
        }
        if let Some(at) = fields.get("sim").filter(|_| sim != SimHealth::default()) {
            at.rule(cx, "says how a task answers its probes, and the group has none; add one of them");
        }
        return None;
    }
    Some(Box::new(Probes { startup, readiness, liveness, on_unhealthy: on_unhealthy.unwrap_or_default(), sim }))
}

fn probe(cx: &mut Context, at: At<'_>) -> Option<Probe> {
    let fields = Fields::open(cx, at, &[PROBE_FIELDS])?;
    let problems = cx.problems.len() + cx.omitted;
    let mut actions = Vec::new();
    if let Some(at) = fields.get("grpc") {
        at.rule(cx, format!("is not spoken here; use {ACTIONS}"));
    }
    actions.extend(fields.get("exec").and_then(|at| exec(cx, at)));
    actions.extend(fields.get("httpGet").and_then(|at| http_get(cx, at)));
    actions.extend(fields.get("tcpSocket").and_then(|at| tcp_socket(cx, at)));
    let named = ["exec", "httpGet", "tcpSocket"].into_iter().filter(|name| fields.get(name).is_some()).count();
    if named != 1 && problems == cx.problems.len() + cx.omitted {
        at.rule(cx, format!("must say one of {ACTIONS}; {named} are said"));
    }
    let mut probe = Probe::of(actions.pop()?);
    let numbers = [
        ("initialDelaySeconds", &mut probe.initial_delay_seconds),
        ("periodSeconds", &mut probe.period_seconds),
        ("timeoutSeconds", &mut probe.timeout_seconds),
        ("successThreshold", &mut probe.success_threshold),
        ("failureThreshold", &mut probe.failure_threshold),
    ];
    for (name, number) in numbers {
        *number = fields.whole(cx, name, 0..=i64::from(i32::MAX)).unwrap_or(*number);
    }
    probe.grace_ms = fields.get("terminationGracePeriodSeconds").and_then(|at| {
        let grace_ms = at.thousandths(cx).and_then(|grace| u64::try_from(grace).ok())?;
        Some(grace_ms.min(GRACE_MS_MAX.saturating_add(1)))
    });
    Some(probe)
}

fn exec(cx: &mut Context, at: At<'_>) -> Option<ProbeAction> {
    let fields = Fields::open(cx, at, &[&["command"]])?;
    let at = fields.require(cx, "command", "a program and its arguments, as a list")?;
    Some(ProbeAction::Exec { command: at.list(cx, |cx, at| at.text(cx)) })
}

fn http_get(cx: &mut Context, at: At<'_>) -> Option<ProbeAction> {
    let fields = Fields::open(cx, at, &[HTTP_FIELDS])?;
    let port = port(cx, &fields);
    let is_https = fields.get("scheme").and_then(|at| at.choice(cx, &[("HTTP", false), ("HTTPS", true)]));
    let headers = fields.list(cx, "httpHeaders", |cx, at| {
        let fields = Fields::open(cx, at, &[&["name", "value"]])?;
        let name = fields.require(cx, "name", "the name of the header")?.text(cx)?;
        Some((name, fields.text(cx, "value").unwrap_or_default()))
    });
    let path = fields.text(cx, "path").filter(|path| !path.is_empty()).unwrap_or_else(|| "/".to_string());
    // Kubernetes takes a path without its first slash.
    let path = if path.starts_with('/') { path } else { format!("/{path}") };
    let (host, is_https) = (fields.text(cx, "host").unwrap_or_default(), is_https.unwrap_or(false));
    Some(ProbeAction::HttpGet { path, port: port?, host, is_https, headers })
}

fn tcp_socket(cx: &mut Context, at: At<'_>) -> Option<ProbeAction> {
    let fields = Fields::open(cx, at, &[&["port", "host"]])?;
    Some(ProbeAction::TcpSocket { port: port(cx, &fields)?, host: fields.text(cx, "host").unwrap_or_default() })
}

fn port(cx: &mut Context, fields: &Fields<'_>) -> Option<u16> {
    let at = fields.require(cx, "port", "the number of a port")?;
    let named = at.node.as_text().and_then(|name| cx.port_names.get(name)).copied();
    named.or_else(|| at.whole(cx, 1..=i64::from(u16::MAX)))
}

/// How a simulated task answers.
fn sim_health(cx: &mut Context, at: At<'_>) -> SimHealth {
    // What it may hold is said where the rest of it is read.
    let mut quiet = Context::default();
    let Some(fields) = Fields::open(&mut quiet, at, &[]) else { return SimHealth::default() };
    let mut after = |name| fields.get(name).and_then(|at| at.duration_ms(cx)).unwrap_or(0);
    SimHealth {
        ready_after_ms: after("readyAfter"),
        unready_after_ms: after("unreadyAfter"),
        unready_for_ms: after("unreadyFor"),
        unhealthy_after_ms: after("unhealthyAfter"),
    }
}
