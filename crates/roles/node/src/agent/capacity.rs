//! What this machine has, for nodes whose capacity nobody states.

use ohm_model::{Amounts, NodeSpec, resources};
use ohm_runtime::machine;

/// Tasks that a node takes unless told otherwise, as in Kubernetes.
pub const PODS_DEFAULT: i64 = 110;

/// The capacity of this machine: every core that this process may use, all of its memory, and [`PODS_DEFAULT`] tasks.
/// What can't be found out is left out, so that nothing is placed on it by mistake.
pub fn machine_capacity() -> Amounts {
    let mut capacity = Amounts::from([(resources::PODS.to_string(), PODS_DEFAULT)]);
    for (name, amount) in [(resources::CPU, machine::cpu_milli()), (resources::MEMORY, machine::memory_bytes())] {
        let amount = amount.and_then(|amount| i64::try_from(amount).ok());
        capacity.extend(amount.map(|amount| (name.to_string(), amount)));
    }
    capacity
}

/// This machine as a node: its name in lower case, its capacity, no labels, and an address that only itself can reach.
pub fn machine_node() -> NodeSpec {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let name = name.filter(|name| !name.is_empty()).map(|name| name.to_ascii_lowercase());
    NodeSpec {
        name: name.unwrap_or_else(|| "localhost".to_string()),
        labels: Default::default(),
        taints: Vec::new(),
        capacity: machine_capacity(),
        address: "127.0.0.1".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_something_to_offer() {
        let capacity = machine_capacity();
        assert!(capacity["cpu"] >= 1000 && capacity["memory"] > 64 << 20);
        assert_eq!(capacity["pods"], PODS_DEFAULT);
    }
}
