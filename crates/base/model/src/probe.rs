//! Probes: how a node finds out whether a task has started, is ready, and is well.
//!
//! Words, fields and defaults are those of Kubernetes' container probes.

use crate::ids::{Incarnation, JobId, NodeId};
use crate::run::GRACE_MS_MAX;
use serde::{Deserialize, Serialize};

/// Between two probes unless the group says otherwise, in seconds.
pub const PERIOD_SECONDS: u32 = 10;
/// How long the answer may take unless the group says otherwise, in seconds.
pub const TIMEOUT_SECONDS: u32 = 1;
/// So many failures in a row decide unless the group says otherwise.
pub const FAILURE_THRESHOLD: u32 = 3;
/// No time of a probe is longer: a day.
pub const PROBE_SECONDS_MAX: u32 = 86_400;
/// No more results in a row are waited for.
pub const THRESHOLD_MAX: u32 = 10_000;
/// Most headers of one request.
pub const HEADERS_MAX: usize = 64;
/// How long the path of a request or the value of one of its headers may be, in bytes.
pub const PROBE_TEXT_BYTES_MAX: usize = 4_096;
/// How long the words in the command of a probe may be together, in bytes.
pub const PROBE_COMMAND_BYTES_MAX: usize = 16_384;

/// What a probe is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ProbeKind {
    /// Whether the task has started; the others wait for it.
    Startup,
    /// Whether the task is ready.
    Readiness,
    /// Whether the task is well.
    Liveness,
}

impl ProbeKind {
    /// All of them.
    pub const ALL: [ProbeKind; 3] = [ProbeKind::Startup, ProbeKind::Readiness, ProbeKind::Liveness];

    /// The field of a group that asks for it.
    pub fn name(self) -> &'static str {
        match self {
            ProbeKind::Startup => "startupProbe",
            ProbeKind::Readiness => "readinessProbe",
            ProbeKind::Liveness => "livenessProbe",
        }
    }
}

/// What a probe does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeAction {
    /// Runs a program beside the task, with its environment, folder and limits; exit code 0 is a success.
    Exec {
        /// Program and arguments.
        command: Vec<String>,
    },
    /// Sends a GET request; 200 to 399 is a success.
    HttpGet {
        /// What is asked for.
        path: String,
        /// The port.
        port: u16,
        /// The host; the address of the node when empty.
        host: String,
        /// Over TLS, whatever certificate is shown; plain otherwise.
        is_https: bool,
        /// Headers of the request, by name.
        headers: Vec<(String, String)>,
    },
    /// Opens a connection; that it opens is a success.
    TcpSocket {
        /// The port.
        port: u16,
        /// The host; the address of the node when empty.
        host: String,
    },
}

/// One probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// What it does.
    pub action: ProbeAction,
    /// From the start of the task to the first probe.
    pub initial_delay_seconds: u32,
    /// From one probe to the next.
    pub period_seconds: u32,
    /// An answer that takes longer is a failure.
    pub timeout_seconds: u32,
    /// So many successes in a row decide.
    pub success_threshold: u32,
    /// So many failures in a row decide.
    pub failure_threshold: u32,
    /// What the task has from the polite signal to the kill when this probe ends it; the task's own grace where nothing
    /// is said.
    pub grace_ms: Option<u64>,
}

impl Probe {
    /// A probe with the times and thresholds that are taken where nothing is said.
    pub fn of(action: ProbeAction) -> Self {
        Probe {
            action,
            initial_delay_seconds: 0,
            period_seconds: PERIOD_SECONDS,
            timeout_seconds: TIMEOUT_SECONDS,
            success_threshold: 1,
            failure_threshold: FAILURE_THRESHOLD,
            grace_ms: None,
        }
    }

    /// What is wrong with it as a probe of this kind, as the field and words for people, if anything is.
    pub fn problem(&self, kind: ProbeKind) -> Option<(&'static str, String)> {
        let bounded = |field, value: u32, least: u32, most: u32| {
            let problem = || (field, format!("must be {least} to {most}, is {value}"));
            (!(least..=most).contains(&value)).then(problem)
        };
        let successes_max = if kind == ProbeKind::Readiness { THRESHOLD_MAX } else { 1 };
        bounded("initialDelaySeconds", self.initial_delay_seconds, 0, PROBE_SECONDS_MAX)
            .or_else(|| bounded("periodSeconds", self.period_seconds, 1, PROBE_SECONDS_MAX))
            .or_else(|| bounded("timeoutSeconds", self.timeout_seconds, 1, PROBE_SECONDS_MAX))
            .or_else(|| bounded("failureThreshold", self.failure_threshold, 1, THRESHOLD_MAX))
            .or_else(|| bounded("successThreshold", self.success_threshold, 1, successes_max))
            .or_else(|| self.grace_problem(kind).map(|problem| ("terminationGracePeriodSeconds", problem)))
            .or_else(|| self.action.problem())
    }

    fn grace_problem(&self, kind: ProbeKind) -> Option<String> {
        let grace_ms = self.grace_ms?;
        if kind == ProbeKind::Readiness {
            return Some("goes with probes that end the task: `livenessProbe` and `startupProbe`".into());
        }
        let fits = (1..=GRACE_MS_MAX).contains(&grace_ms);
        (!fits).then(|| format!("must be above 0 and at most {} (a day)", GRACE_MS_MAX / 1000))
    }
}

impl ProbeAction {
    fn problem(&self) -> Option<(&'static str, String)> {
        match self {
            ProbeAction::Exec { command } => {
                let problem = match command.first() {
                    None => "is empty; it must name a program".to_string(),
                    Some(program) if program.is_empty() => "must name a program, which is empty".to_string(),
                    _ if command.iter().any(|word| word.contains('\0')) => {
                        "holds a NUL character, which no program can be given".to_string()
                    }
                    _ if command.iter().map(|word| word.len() + 1).sum::<usize>() > PROBE_COMMAND_BYTES_MAX => {
                        format!("is longer than {PROBE_COMMAND_BYTES_MAX} bytes, which is the most")
                    }
                    _ => return None,
                };
                Some(("exec", problem))
            }
            ProbeAction::HttpGet { path, port, host, headers, .. } => {
                let problem = match http_problem(path, headers) {
                    Some(problem) => problem,
                    None => return address_problem(*port, host).map(|problem| ("httpGet", problem)),
                };
                Some(("httpGet", problem))
            }
            ProbeAction::TcpSocket { port, host } => address_problem(*port, host).map(|problem| ("tcpSocket", problem)),
        }
    }
}

fn address_problem(port: u16, host: &str) -> Option<String> {
    if port == 0 {
        return Some("needs a port of 1 to 65535, which is 0".into());
    }
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    let fits = host.bytes().all(is_host) && host.len() <= 255;
    (!fits).then(|| "must name a host, such as `localhost` or an IP address".into())
}

/// What would not be one request as it is meant.
fn http_problem(path: &str, headers: &[(String, String)]) -> Option<String> {
    if path.len() > PROBE_TEXT_BYTES_MAX {
        return Some(format!("must ask for a path of at most {PROBE_TEXT_BYTES_MAX} bytes"));
    }
    if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Some("must ask for a path that begins with `/`, in visible ASCII and without `#`".into());
    }
    if headers.len() > HEADERS_MAX {
        return Some(format!("holds {} headers; at most {HEADERS_MAX} may be", headers.len()));
    }
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    for (name, value) in headers {
        if name.is_empty() || !name.bytes().all(is_token) {
            return Some("must name headers in letters, digits and `-`".into());
        }
        if value.len() > PROBE_TEXT_BYTES_MAX || !value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) {
            let most = PROBE_TEXT_BYTES_MAX;
            return Some(format!("must give header {name} a value of at most {most} bytes of visible ASCII"));
        }
    }
    None
}

/// Whether a run that a probe ended counts against the retries of its job (`onUnhealthy`); the words are those of
/// Kubernetes' pod failure policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum OnUnhealthy {
    /// It does, as any other failure of the task itself.
    #[default]
    Count,
    /// It does not.
    Ignore,
}

impl OnUnhealthy {
    /// Its words in documents.
    pub const WORDS: [(&str, OnUnhealthy); 2] = [("Count", OnUnhealthy::Count), ("Ignore", OnUnhealthy::Ignore)];
}

/// On `sim` nodes: how a task answers its probes, in time since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimHealth {
    /// Startup and readiness fail before.
    pub ready_after_ms: u64,
    /// Readiness fails from then on; 0 is never.
    pub unready_after_ms: u64,
    /// For so long; 0 is for good.
    pub unready_for_ms: u64,
    /// Liveness fails from then on; 0 is never.
    pub unhealthy_after_ms: u64,
}

impl SimHealth {
    /// How a task that was started `age_ms` ago answers a probe of this kind.
    pub fn answers(&self, kind: ProbeKind, age_ms: u64) -> bool {
        let began = age_ms >= self.ready_after_ms;
        match kind {
            ProbeKind::Startup => began,
            ProbeKind::Readiness => began && !self.is_unready(age_ms),
            ProbeKind::Liveness => self.unhealthy_after_ms == 0 || age_ms < self.unhealthy_after_ms,
        }
    }

    fn is_unready(&self, age_ms: u64) -> bool {
        let lasts = self.unready_for_ms == 0 || age_ms < self.unready_after_ms.saturating_add(self.unready_for_ms);
        self.unready_after_ms > 0 && age_ms >= self.unready_after_ms && lasts
    }
}

/// The probes of a group's tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probes {
    /// Until it succeeds the others wait; its failure ends the task.
    pub startup: Option<Probe>,
    /// A task counts as ready while it succeeds, and not before.
    pub readiness: Option<Probe>,
    /// Its failure ends the task.
    pub liveness: Option<Probe>,
    /// Whether the end of a task by a probe is charged.
    pub on_unhealthy: OnUnhealthy,
    /// How a simulated task answers.
    pub sim: SimHealth,
}

impl Probes {
    /// The probe of this kind.
    pub fn get(&self, kind: ProbeKind) -> Option<&Probe> {
        match kind {
            ProbeKind::Startup => self.startup.as_ref(),
            ProbeKind::Readiness => self.readiness.as_ref(),
            ProbeKind::Liveness => self.liveness.as_ref(),
        }
    }

    /// Whether a task that has started is not ready before its node says so.
    pub fn gates_readiness(&self) -> bool {
        self.startup.is_some() || self.readiness.is_some()
    }

    /// Whether a probe may end the task.
    pub fn may_end(&self) -> bool {
        self.startup.is_some() || self.liveness.is_some()
    }

    /// What is wrong with them, as field, field of that, and words for people, if anything is.
    pub fn problem(&self) -> Option<(&'static str, &'static str, String)> {
        let all = ProbeKind::ALL.into_iter().filter_map(|kind| Some((kind, self.get(kind)?)));
        let mut wrong = all.filter_map(|(kind, probe)| {
            let (field, problem) = probe.problem(kind)?;
            Some((kind.name(), field, problem))
        });
        wrong.next().or_else(|| {
            let problem = "goes with `livenessProbe` or `startupProbe`, which the group does not have";
            let is_idle = self.on_unhealthy != OnUnhealthy::default() && !self.may_end();
            is_idle.then(|| ("onUnhealthy", "", problem.to_string()))
        })
    }

    /// About how many bytes they take in a message.
    pub fn bytes(&self) -> usize {
        let all = ProbeKind::ALL.into_iter().filter_map(|kind| self.get(kind));
        let of_action = |probe: &Probe| match &probe.action {
            ProbeAction::Exec { command } => command.iter().map(|word| word.len() + 3).sum(),
            ProbeAction::HttpGet { path, host, headers, .. } => {
                let headers: usize = headers.iter().map(|(name, value)| name.len() + value.len() + 6).sum();
                path.len() + host.len() + headers
            }
            ProbeAction::TcpSocket { host, .. } => host.len(),
        };
        all.map(|probe| 32 + of_action(probe)).sum()
    }
}

/// A run became ready, or is ready no more, or its node can say why it is not yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadinessEvent {
    /// The job.
    pub job: JobId,
    /// The group.
    pub group: u16,
    /// The task.
    pub task: u32,
    /// The attempt.
    pub incarnation: Incarnation,
    /// The node.
    pub node: NodeId,
    /// Which.
    pub ready: bool,
    /// Which probe failed, and how; empty when it is ready.
    pub message: String,
}

/// A probe ended a run, and its task starts again where it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnhealthyEvent {
    /// The job.
    pub job: JobId,
    /// The group.
    pub group: u16,
    /// The task.
    pub task: u32,
    /// The attempt that is over.
    pub incarnation: Incarnation,
    /// The node.
    pub node: NodeId,
    /// Which probe failed, and how.
    pub message: String,
    /// How long the next attempt waits before it is started, in milliseconds.
    pub back_off_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec() -> Probe {
        Probe::of(ProbeAction::Exec { command: vec!["true".into()] })
    }

    #[test]
    fn what_is_wrong_is_named_by_field() {
        let field = |kind, change: &dyn Fn(&mut Probe)| {
            let mut probe = exec();
            change(&mut probe);
            probe.problem(kind).map(|(field, _)| field)
        };
        for kind in ProbeKind::ALL {
            assert_eq!(field(kind, &|_| {}), None);
            assert_eq!(field(kind, &|probe| probe.period_seconds = 0), Some("periodSeconds"));
            assert_eq!(field(kind, &|probe| probe.timeout_seconds = PROBE_SECONDS_MAX + 1), Some("timeoutSeconds"));
            assert_eq!(field(kind, &|probe| probe.failure_threshold = 0), Some("failureThreshold"));
            assert_eq!(field(kind, &|probe| probe.grace_ms = Some(0)), Some("terminationGracePeriodSeconds"));
            let twice = field(kind, &|probe| probe.success_threshold = 2);
            assert_eq!(twice, (kind != ProbeKind::Readiness).then_some("successThreshold"));
        }
        let action = |action| Probe::of(action).problem(ProbeKind::Readiness).map(|(field, _)| field);
        let http = |path: &str, port, name: &str| ProbeAction::HttpGet {
            path: path.into(),
            port,
            host: String::new(),
            is_https: false,
            headers: vec![(name.into(), "a b".into())],
        };
        assert_eq!(action(http("/healthz?full=1", 80, "X-Probe")), None);
        for wrong in [http("healthz", 80, "X"), http("/a b", 80, "X"), http("/", 0, "X"), http("/", 80, "X:")] {
            assert_eq!(action(wrong), Some("httpGet"));
        }
        assert_eq!(action(ProbeAction::TcpSocket { port: 80, host: "::1".into() }), None);
        assert_eq!(action(ProbeAction::TcpSocket { port: 80, host: "a/b".into() }), Some("tcpSocket"));
        assert_eq!(action(ProbeAction::Exec { command: vec![] }), Some("exec"));
        assert_eq!(action(ProbeAction::Exec { command: vec!["a\0".into()] }), Some("exec"));
        let idle = Probes { readiness: Some(exec()), on_unhealthy: OnUnhealthy::Ignore, ..Probes::default() };
        assert_eq!(idle.problem().map(|(field, ..)| field), Some("onUnhealthy"));
        assert_eq!(Probes { liveness: Some(exec()), ..idle }.problem(), None);
    }

    #[test]
    fn a_simulated_task_answers_by_its_age() {
        let sim = SimHealth { ready_after_ms: 10, unready_after_ms: 20, unready_for_ms: 5, unhealthy_after_ms: 40 };
        let answers = |kind| (0..50).step_by(5).map(|age_ms| sim.answers(kind, age_ms)).collect::<Vec<_>>();
        let (yes, no) = (true, false);
        assert_eq!(answers(ProbeKind::Startup), [no, no, yes, yes, yes, yes, yes, yes, yes, yes]);
        assert_eq!(answers(ProbeKind::Readiness), [no, no, yes, yes, no, yes, yes, yes, yes, yes]);
        assert_eq!(answers(ProbeKind::Liveness), [yes, yes, yes, yes, yes, yes, yes, yes, no, no]);
        assert!((0..1000).all(|age_ms| ProbeKind::ALL.iter().all(|kind| SimHealth::default().answers(*kind, age_ms))));
    }
}
