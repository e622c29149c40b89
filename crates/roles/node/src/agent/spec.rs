//! From a wanted run to what the shim executes.
//!
//! A task finds in its environment, all starting with `OHM_`:
//!
//! | name | value |
//! |---|---|
//! | `JOB`, `GROUP` | `NAMESPACE/NAME` of the job, and the name of the group |
//! | `RANK`, `COUNT` | number of the task in its group, from 0; how many tasks the group has |
//! | `NODE`, `NODE_IP` | name and address of its node |
//! | `PEERS` | addresses of the group's tasks by rank, commas between; empty where a task has no place. Not where |
//! | | tasks start one by one (arrays, services), nor where it would be too long ([`PEERS_BYTES_MAX`]) |
//! | `PEERS_FILE` | a file with the same, one per line after a line `# generation N`; written anew when peers move |
//! | `DEADLINE_MS` | when the job's active deadline passes, in milliseconds since 1970; only with a deadline |
//! | `DEVICES_…` | per device resource, such as `OHM_DEVICES_NVIDIA_COM_GPU=0,3`: which devices are its own |
//! | `RUN`, `INCARNATION`, `SHIM` | added by the shim: the run, its attempt (a fencing token), its shim |
//!
//! For `nvidia.com/gpu` there is `CUDA_VISIBLE_DEVICES` too. The job's own variables come on top of these, and where
//! their values name one of these that is not the shim's, as in `$(OHM_RANK)`, its value is put in.

use super::peers::PeersFiles;
use crate::cgroup::{Limits, MEMORY_BYTES_MIN, Requests, Resources};
use crate::rotation::LogLimits;
use crate::shim::RunSpec;
use ohm_agent::{PEERS_BYTES_MAX, StartOrder};
use ohm_model::{Amounts, Incarnation, ProbeAction, ProbeKind, Probes, full_job_name, resources};

/// What a run is told of the node it stands on.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) node_name: String,
    pub(crate) node_address: String,
    pub(crate) logs: LogLimits,
    pub(crate) peers: PeersFiles,
}

impl Place {
    /// What the shim executes for `wanted`, as ordered under `registration`.
    pub(crate) fn run_spec(&self, wanted: &StartOrder, registration: Incarnation) -> RunSpec {
        let launch = &wanted.launch;
        RunSpec {
            command: launch.task.command.clone(),
            environment: self.environment(wanted),
            working_dir: launch.task.working_dir.clone(),
            resources: resources_of(&launch.requests, &launch.limits),
            logs: self.logs,
            grace_ms: launch.task.grace_ms,
            on_disconnect: launch.on_disconnect,
            // The cell itself stops a job that runs too long.
            active_deadline_ms: None,
            registration,
            is_probed: launch.task.probes.as_deref().is_some_and(runs_programs),
        }
    }

    fn environment(&self, wanted: &StartOrder) -> Vec<(String, String)> {
        let launch = &wanted.launch;
        let mut environment: Vec<(String, String)> = Vec::new();
        let mut put = |name: &str, value: String| environment.push((name.to_string(), value));
        put("OHM_JOB", full_job_name(&launch.job_name));
        put("OHM_GROUP", launch.group_name.clone());
        put("OHM_RANK", wanted.run.task.task.to_string());
        put("OHM_COUNT", launch.count.to_string());
        put("OHM_NODE", self.node_name.clone());
        put("OHM_NODE_IP", self.node_address.clone());
        let peers = launch.peers.join(",");
        if !launch.peers.is_empty() && peers.len() <= PEERS_BYTES_MAX {
            put("OHM_PEERS", peers);
            put("OHM_PEERS_FILE", self.peers.path(wanted.run).display().to_string());
        }
        if launch.deadline_ms > 0 {
            put("OHM_DEADLINE_MS", launch.deadline_ms.to_string());
        }
        for (resource, mask) in &wanted.devices {
            put(&device_variable(resource), device_list(*mask));
            if resource == "nvidia.com/gpu" {
                put("CUDA_VISIBLE_DEVICES", device_list(*mask));
            }
        }
        let own = launch.task.env.iter().map(|(name, value)| (name.clone(), with_values(value, &environment)));
        let own: Vec<(String, String)> = own.collect();
        environment.extend(own);
        environment
    }
}

/// `text` with the values of the variables of Ohm that it names as `$(NAME)`; any other name stays as it is, and
/// `$$(OHM_` is the text `$(OHM_`.
fn with_values(text: &str, environment: &[(String, String)]) -> String {
    const OWN: &str = "$(OHM_";
    let (mut whole, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(OWN) {
        if let Some(before) = before.strip_suffix('$') {
            whole.extend([before, OWN]);
            rest = after;
            continue;
        }
        whole.push_str(before);
        let is_of_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        let end = after.bytes().position(|byte| !is_of_name(byte)).filter(|end| after[*end..].starts_with(')'));
        let value = end.and_then(|end| {
            let (_, value) = environment.iter().find(|(known, _)| known.strip_prefix("OHM_") == Some(&after[..end]))?;
            Some((value, &after[end + 1..]))
        });
        rest = match value {
            Some((value, behind)) => {
                whole.push_str(value);
                behind
            }
            None => {
                whole.push_str(OWN);
                after
            }
        };
    }
    whole.push_str(rest);
    whole
}

/// Whether one of these probes runs a program beside the task.
fn runs_programs(probes: &Probes) -> bool {
    let mut all = ProbeKind::ALL.into_iter().filter_map(|kind| probes.get(kind));
    all.any(|probe| matches!(probe.action, ProbeAction::Exec { .. }))
}

/// What a run is to get, and what it may use at most: memory ends at its request unless a limit says more, CPU only
/// where a limit says so. `cpu` is counted in thousandths already.
fn resources_of(requests: &Amounts, limits: &Amounts) -> Resources {
    let amount = |of: &Amounts, name: &str| of.get(name).copied().unwrap_or(0).max(0).unsigned_abs();
    let millicores = |of: &Amounts| u32::try_from(amount(of, resources::CPU)).unwrap_or(u32::MAX);
    let bytes = |of: &Amounts| match amount(of, resources::MEMORY) {
        0 => 0,
        bytes => bytes.max(MEMORY_BYTES_MIN),
    };
    let requests = Requests { cpu_millicores: millicores(requests), memory_bytes: bytes(requests) };
    let memory_bytes = bytes(limits).max(requests.memory_bytes);
    Resources { requests, limits: Limits { cpu_millicores: millicores(limits), memory_bytes, pids: 0 } }
}

fn device_variable(resource: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' };
    format!("OHM_DEVICES_{}", resource.chars().map(letter).collect::<String>())
}

fn device_list(mask: u64) -> String {
    let devices = (0..u64::BITS).filter(|device| mask >> device & 1 == 1);
    devices.map(|device| device.to_string()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_agent::Launch;
    use ohm_model::{JobId, OnDisconnect, RunRef, TaskSpec};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn wanted(peers: usize) -> StartOrder {
        let task = TaskSpec {
            command: vec!["train".into()],
            env: vec![("OHM_JOB".into(), "mine".into()), ("MODE".into(), "fast".into())],
            grace_ms: 700,
            ..TaskSpec::default()
        };
        let requests =
            Amounts::from([("cpu".into(), 1500), ("memory".into(), 1 << 20), ("nvidia.com/gpu".into(), 2000)]);
        let launch = Launch {
            job_name: "train".into(),
            group_name: "workers".into(),
            count: 3,
            peers: vec!["10.0.0.1".into(); peers],
            requests,
            limits: Amounts::new(),
            on_disconnect: OnDisconnect::Keep,
            deadline_ms: 0,
            task,
        };
        let devices = BTreeMap::from([("nvidia.com/gpu".to_string(), 0b1001)]);
        let run = RunRef::new(JobId(4), 0, 2, 1);
        StartOrder { run, devices, launch: Arc::new(launch) }
    }

    fn place() -> Place {
        Place {
            node_name: "rack-1-a".into(),
            node_address: "127.1.0.1".into(),
            logs: LogLimits::default(),
            peers: PeersFiles::new("/run/peers".into()),
        }
    }

    #[test]
    fn a_task_learns_its_place_and_the_job_has_the_last_word() {
        let spec = place().run_spec(&wanted(2), Incarnation(6));
        let all: BTreeMap<&str, &str> =
            spec.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let expected = [
            ("OHM_RANK", "2"),
            ("OHM_COUNT", "3"),
            ("OHM_GROUP", "workers"),
            ("OHM_NODE", "rack-1-a"),
            ("OHM_NODE_IP", "127.1.0.1"),
            ("OHM_PEERS", "10.0.0.1,10.0.0.1"),
            ("OHM_PEERS_FILE", "/run/peers/4.0.2.1"),
            ("OHM_DEVICES_NVIDIA_COM_GPU", "0,3"),
            ("CUDA_VISIBLE_DEVICES", "0,3"),
            ("OHM_JOB", "mine"),
            ("MODE", "fast"),
        ];
        for (name, value) in expected {
            assert_eq!(all.get(name), Some(&value), "{name}");
        }
        assert!(!all.contains_key("OHM_DEADLINE_MS"));
        let requests = Requests { cpu_millicores: 1500, memory_bytes: MEMORY_BYTES_MIN };
        let limits = Limits { cpu_millicores: 0, memory_bytes: MEMORY_BYTES_MIN, pids: 0 };
        assert_eq!(spec.resources, Resources { requests, limits });
        assert_eq!((spec.grace_ms, spec.on_disconnect), (700, OnDisconnect::Keep));
        assert_eq!(spec.registration, Incarnation(6));
    }

    #[test]
    fn variables_of_a_job_may_name_those_of_its_tasks() {
        let environment = [("OHM_RANK".to_string(), "2".to_string()), ("HOME".to_string(), "/".to_string())];
        for (text, value) in [
            ("", ""),
            ("$(OHM_RANK)", "2"),
            ("a-$(OHM_RANK)-$(OHM_RANK).b", "a-2-2.b"),
            ("$(OHM_RUN) $(HOME) $OHM_RANK $(OHM_RANK", "$(OHM_RUN) $(HOME) $OHM_RANK $(OHM_RANK"),
            ("$($(OHM_RANK))", "$(2)"),
            ("$$(OHM_RANK) $$(HOME) $(OHM_$(OHM_RANK))", "$(OHM_RANK) $$(HOME) $(OHM_2)"),
        ] {
            assert_eq!(with_values(text, &environment), value, "{text}");
        }
    }

    #[test]
    fn memory_ends_at_the_request_or_the_limit_and_cpu_only_at_the_limit() {
        let of = |cpu: i64, memory: i64| Amounts::from([("cpu".to_string(), cpu), ("memory".to_string(), memory)]);
        let told = |requests: &Amounts, limits: &Amounts| {
            let Resources { requests, limits } = resources_of(requests, limits);
            let request = (requests.cpu_millicores, requests.memory_bytes >> 20);
            (request, (limits.cpu_millicores, limits.memory_bytes >> 20))
        };
        let none = Amounts::new();
        assert_eq!(told(&of(10, 64 << 20), &none), ((10, 64), (0, 64)));
        assert_eq!(told(&of(10, 64 << 20), &of(2_000, 512 << 20)), ((10, 64), (2_000, 512)));
        assert_eq!(told(&none, &none), ((0, 0), (0, 0)));
    }

    #[test]
    fn a_list_of_peers_that_no_kernel_takes_is_left_out() {
        let spec = place().run_spec(&wanted(20_000), Incarnation(6));
        assert!(spec.environment.iter().all(|(name, value)| name != "OHM_PEERS" && value.len() < PEERS_BYTES_MAX));
    }
}
