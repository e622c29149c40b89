//! Probes: programs are run by the shim, connections and requests are made here, few at a time.

use crate::shim::{ProbeEnd, Request};
use ohm_agent::{ProbeOrder, ProbeResult, RunnerEvent};
use ohm_model::{Probe, ProbeAction, ProbeKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;
use ureq::tls::TlsConfig;

/// Most connections and requests at a time; the others wait.
const AT_ONCE: usize = 64;
/// Results that wait to be heard.
pub(super) const RESULTS_MAX: usize = 256;
/// A request may ask for no more than that it fits here; the rest of an answer is not read.
const ANSWER_HEADER_BYTES_MAX: usize = 64 << 10;
/// The kinds of probes of one run share its numbers at the shim: the lower bits say which it is.
const KINDS: u64 = 4;

/// Makes the probes of one node.
pub(super) struct Prober {
    /// What tasks listen on unless a probe names a host.
    address: String,
    places: Arc<Semaphore>,
    results: mpsc::Sender<RunnerEvent>,
    /// Ends with this.
    tasks: JoinSet<()>,
}

impl Prober {
    pub(super) fn new(address: &str, results: mpsc::Sender<RunnerEvent>) -> Self {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        Prober { address: address.to_string(), places, results, tasks: JoinSet::new() }
    }

    /// Begins a probe; where the shim has to make it, that is what it is asked.
    pub(super) fn probe(&mut self, order: &ProbeOrder) -> Option<Request> {
        while self.tasks.try_join_next().is_some() {}
        let probe = order.probe()?;
        let (run, kind, number) = (order.run, order.kind, order.number);
        if let ProbeAction::Exec { command } = &probe.action {
            let (timeout_ms, number) = (u64::from(probe.timeout_seconds) * 1000, joined(number, kind));
            return Some(Request::Probe { run, number, command: command.clone(), timeout_ms });
        }
        let (probe, address) = (probe.clone(), self.address.clone());
        let (places, results) = (Arc::clone(&self.places), self.results.clone());
        self.tasks.spawn(async move {
            // Never closed.
            let Ok(_place) = places.acquire().await else { return };
            let result = look(&probe, &address).await;
            // Nobody hears it when the agent is ending.
            let _ = results.send(RunnerEvent::Probed { run, kind, number, result }).await;
        });
        None
    }
}

fn joined(number: u64, kind: ProbeKind) -> u64 {
    let place = ProbeKind::ALL.iter().position(|known| *known == kind).unwrap_or(0);
    number.saturating_mul(KINDS).saturating_add(place as u64)
}

/// The number of an order and the kind of its probe, of the number that the shim got.
pub(super) fn split(number: u64) -> (u64, ProbeKind) {
    let kind = ProbeKind::ALL.get((number % KINDS) as usize).copied().unwrap_or(ProbeKind::Liveness);
    (number / KINDS, kind)
}

/// What the end of a program beside a task says.
pub(super) fn result_of(end: ProbeEnd) -> ProbeResult {
    match end {
        ProbeEnd::Success => ProbeResult::Success,
        ProbeEnd::Failure(why) => ProbeResult::Failure(why),
        ProbeEnd::NotRun(why) => ProbeResult::Unknown(why),
    }
}

async fn look(probe: &Probe, address: &str) -> ProbeResult {
    let patience = Duration::from_secs(probe.timeout_seconds.into());
    let host_of = |host: &str| if host.is_empty() { address.to_string() } else { host.to_string() };
    match &probe.action {
        ProbeAction::Exec { .. } => ProbeResult::Unknown("a program is run by the shim".into()),
        ProbeAction::TcpSocket { port, host } => connect(&host_of(host), *port, patience).await,
        ProbeAction::HttpGet { path, port, host, is_https, headers } => {
            let scheme = if *is_https { "https" } else { "http" };
            let url = format!("{scheme}://{}:{port}{path}", bracketed(&host_of(host)));
            let headers = headers.clone();
            let asked = spawn_blocking(move || get(&url, &headers, patience)).await;
            asked.unwrap_or_else(|error| ProbeResult::Unknown(error.to_string()))
        }
    }
}

async fn connect(host: &str, port: u16, patience: Duration) -> ProbeResult {
    match timeout(patience, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => ProbeResult::Success,
        Ok(Err(error)) => ProbeResult::Failure(format!("{host} port {port}: {error}")),
        Err(_) => ProbeResult::Failure(format!("{host} port {port}: no connection within {} s", patience.as_secs())),
    }
}

/// An address as it stands in a URL.
fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_string() }
}

/// As in Kubernetes: whoever answers is not asked for a certificate that is known. A redirect is a success, and is not
/// followed.
fn get(url: &str, headers: &[(String, String)], patience: Duration) -> ProbeResult {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(patience))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_response_header_size(ANSWER_HEADER_BYTES_MAX)
        .max_idle_connections(0)
        .proxy(None)
        .tls_config(TlsConfig::builder().disable_verification(true).build())
        .user_agent(concat!("ohm-probe/", env!("CARGO_PKG_VERSION")));
    let agent = ureq::Agent::new_with_config(config.build());
    let request = headers.iter().fold(agent.get(url), |request, (name, value)| request.header(name, value));
    match request.call() {
        Ok(answer) if (200..400).contains(&answer.status().as_u16()) => ProbeResult::Success,
        Ok(answer) => ProbeResult::Failure(format!("{url} answers {}", answer.status().as_u16())),
        Err(error) => ProbeResult::Failure(format!("{url}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shim_gets_numbers_that_tell_the_kind() {
        for kind in ProbeKind::ALL {
            assert_eq!(split(joined(7, kind)), (7, kind));
        }
    }

    #[test]
    fn an_address_of_version_6_stands_in_brackets() {
        assert_eq!((bracketed("::1"), bracketed("10.0.0.1")), ("[::1]".to_string(), "10.0.0.1".to_string()));
    }
}
