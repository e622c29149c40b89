//! What this machine has, for nodes whose capacity nobody states.

use ohm_model::{Amounts, NodeSpec, resources};

/// Tasks that a node takes unless told otherwise, as in Kubernetes.
pub const PODS_DEFAULT: i64 = 110;

/// The capacity of this machine: every core that this process may use, all of its memory, and [`PODS_DEFAULT`] tasks.
/// What can't be found out is left out, so that nothing is placed on it by mistake.
pub fn machine_capacity() -> Amounts {
    let mut capacity = Amounts::from([(resources::PODS.to_string(), PODS_DEFAULT)]);
    if let Ok(cores) = std::thread::available_parallelism() {
        capacity.insert(resources::CPU.to_string(), i64::try_from(cores.get()).unwrap_or(0).saturating_mul(1000));
    }
    if let Some(bytes) = memory_bytes() {
        capacity.insert(resources::MEMORY.to_string(), bytes);
    }
    capacity
}

/// This machine as a node: its name, its capacity, no labels, and an address that only itself can reach.
pub fn machine_node() -> NodeSpec {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    NodeSpec {
        name: name.filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".to_string()),
        labels: Default::default(),
        taints: Vec::new(),
        capacity: machine_capacity(),
        address: "127.0.0.1".to_string(),
    }
}

/// The memory of the machine, or what the group of this process may use of it.
fn memory_bytes() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = total_of(&text)?;
    let bounds = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let bounds = bounds.iter().filter_map(|path| std::fs::read_to_string(path).ok()?.trim().parse::<i64>().ok());
    bounds.chain([total]).filter(|bytes| *bytes > 0).min()
}

fn total_of(text: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_something_to_offer() {
        let capacity = machine_capacity();
        assert!(capacity["cpu"] >= 1000 && capacity["memory"] > 64 << 20);
        assert_eq!(capacity["pods"], PODS_DEFAULT);
        assert_eq!(total_of("MemFree: 3 kB\nMemTotal:    24 kB\n"), Some(24 << 10));
        assert_eq!(total_of("MemTotal: what kB"), None);
    }
}
