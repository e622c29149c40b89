//! The probes of a group's tasks, written.

use super::amount::{Amount, seconds};
use super::expression::is_default;
use ohm_model::probe::{FAILURE_THRESHOLD, PERIOD_SECONDS, TIMEOUT_SECONDS};
use ohm_model::{GroupSpec, OnUnhealthy, Probe, ProbeAction, ProbeKind, TaskSpec};
use serde::Serialize;

/// One of the probes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProbeDocument<'j> {
    #[serde(skip_serializing_if = "Option::is_none")]
    exec: Option<Exec<'j>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http_get: Option<HttpGet<'j>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp_socket: Option<TcpSocket<'j>>,
    #[serde(skip_serializing_if = "is_default")]
    initial_delay_seconds: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    period_seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    success_threshold: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_threshold: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    termination_grace_period_seconds: Option<Amount>,
}

#[derive(Serialize)]
struct Exec<'j> {
    command: &'j [String],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HttpGet<'j> {
    path: &'j str,
    port: u16,
    #[serde(skip_serializing_if = "str::is_empty")]
    host: &'j str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheme: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    http_headers: Vec<Header<'j>>,
}

#[derive(Serialize)]
struct Header<'j> {
    name: &'j str,
    value: &'j str,
}

#[derive(Serialize)]
struct TcpSocket<'j> {
    port: u16,
    #[serde(skip_serializing_if = "str::is_empty")]
    host: &'j str,
}

/// How a simulated task behaves.
#[derive(Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sim {
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ready_after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unready_after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unready_for: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unhealthy_after: Option<String>,
}

/// The probe of this kind, if the group has it.
pub(super) fn probe(group: &GroupSpec, kind: ProbeKind) -> Option<ProbeDocument<'_>> {
    group.task.probes.as_ref()?.get(kind).map(written)
}

fn written(probe: &Probe) -> ProbeDocument<'_> {
    let other = |value: u32, default: u32| (value != default).then_some(value);
    let (mut exec, mut http_get, mut tcp_socket) = (None, None, None);
    match &probe.action {
        ProbeAction::Exec { command } => exec = Some(Exec { command }),
        ProbeAction::HttpGet { path, port, host, is_https, headers } => {
            let http_headers = headers.iter().map(|(name, value)| Header { name, value }).collect();
            let scheme = is_https.then_some("HTTPS");
            http_get = Some(HttpGet { path, port: *port, host, scheme, http_headers });
        }
        ProbeAction::TcpSocket { port, host } => tcp_socket = Some(TcpSocket { port: *port, host }),
    }
    ProbeDocument {
        exec,
        http_get,
        tcp_socket,
        initial_delay_seconds: probe.initial_delay_seconds,
        period_seconds: other(probe.period_seconds, PERIOD_SECONDS),
        timeout_seconds: other(probe.timeout_seconds, TIMEOUT_SECONDS),
        success_threshold: other(probe.success_threshold, 1),
        failure_threshold: other(probe.failure_threshold, FAILURE_THRESHOLD),
        termination_grace_period_seconds: probe.grace_ms.map(seconds),
    }
}

/// Whether the end of a task by a probe is charged, where that is another word than the usual one.
pub(super) fn on_unhealthy(group: &GroupSpec) -> Option<&'static str> {
    let said = group.task.probes.as_ref()?.on_unhealthy;
    let word = OnUnhealthy::WORDS.iter().find(|(_, known)| *known == said)?.0;
    (said != OnUnhealthy::default()).then_some(word)
}

/// How its tasks behave on `sim` nodes, where anything is said of that.
pub(super) fn sim(task: &TaskSpec) -> Option<Sim> {
    let time = |ms: u64| match ms % 1000 {
        _ if ms == 0 => None,
        0 => Some(format!("{}s", ms / 1000)),
        _ => Some(format!("{ms}ms")),
    };
    let health = task.probes.as_ref().map(|probes| probes.sim).unwrap_or_default();
    let sim = Sim {
        duration: time(task.sim_duration_ms),
        exit_code: (task.sim_exit_code != 0).then_some(task.sim_exit_code),
        ready_after: time(health.ready_after_ms),
        unready_after: time(health.unready_after_ms),
        unready_for: time(health.unready_for_ms),
        unhealthy_after: time(health.unhealthy_after_ms),
    };
    (sim != Sim::default()).then_some(sim)
}
