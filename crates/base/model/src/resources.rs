//! Resource amounts as integers. The unit follows from the name, so that sums never mix units.

use std::collections::BTreeMap;

/// Amounts by resource name, each in the unit of [`UnitKind::of`].
pub type Amounts = BTreeMap<String, i64>;

/// `cpu`, in thousandths of a core.
pub const CPU: &str = "cpu";
/// `memory`, in bytes.
pub const MEMORY: &str = "memory";
/// `pods`: how many tasks a node may hold; every task asks for one.
pub const PODS: &str = "pods";

/// Units of one device: a whole one is 1000, a fractional request asks for less of a single one.
pub const DEVICE_MILLI: i64 = 1000;
/// A node tracks the devices of an extended resource singly up to this many; above, it is a plain count that cannot be
/// asked for in fractions.
pub const DEVICES_PER_NODE_MAX: i64 = 64;

/// In which unit the amounts of a resource are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitKind {
    /// Thousandths: `cpu`, and extended resources (`domain/name`), whose devices may be shared.
    Milli,
    /// Bytes or plain counts: everything else.
    Whole,
}

impl UnitKind {
    /// The unit of the resource called `name`.
    pub fn of(name: &str) -> Self {
        if name == CPU || is_extended(name) { UnitKind::Milli } else { UnitKind::Whole }
    }
}

/// How many of its units are what people count of a resource as one: a core, a device, a GiB, or a piece.
pub fn whole_unit(name: &str) -> i64 {
    match UnitKind::of(name) {
        UnitKind::Milli => 1000,
        UnitKind::Whole if name == MEMORY || name.ends_with("storage") || name.starts_with("hugepages-") => 1 << 30,
        UnitKind::Whole => 1,
    }
}

/// Whether `name` is an extended resource: one with a domain, such as `nvidia.com/gpu`.
pub fn is_extended(name: &str) -> bool {
    name.contains('/')
}

/// How many devices a node with `capacity` milli-units of the extended resource `name` tracks singly: none for other
/// resources and for counts above [`DEVICES_PER_NODE_MAX`].
pub fn device_count(name: &str, capacity: i64) -> u32 {
    let count = capacity / DEVICE_MILLI;
    if is_extended(name) && (1..=DEVICES_PER_NODE_MAX).contains(&count) { count as u32 } else { 0 }
}

/// `amount` of `name` as people write it: `1500m`, `64Gi`, `8`.
pub fn display(name: &str, amount: i64) -> String {
    const BINARY: [(&str, i64); 4] = [("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    match UnitKind::of(name) {
        UnitKind::Milli if amount % 1000 == 0 => (amount / 1000).to_string(),
        UnitKind::Milli => format!("{amount}m"),
        UnitKind::Whole if name == PODS => amount.to_string(),
        UnitKind::Whole => match BINARY.iter().find(|(_, unit)| amount != 0 && amount % unit == 0) {
            Some((suffix, unit)) => format!("{}{suffix}", amount / unit),
            None => amount.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_in_the_units_people_write() {
        for (name, amount, expected) in [
            ("cpu", 1500, "1500m"),
            ("cpu", 4000, "4"),
            ("memory", 64 << 30, "64Gi"),
            ("memory", 1_000, "1000"),
            ("memory", 0, "0"),
            ("pods", 1024, "1024"),
            ("nvidia.com/gpu", 500, "500m"),
            ("nvidia.com/gpu", 8000, "8"),
        ] {
            assert_eq!(display(name, amount), expected);
        }
    }

    #[test]
    fn devices_are_tracked_singly_up_to_a_bound() {
        assert_eq!(device_count("nvidia.com/gpu", 8000), 8);
        assert_eq!(device_count("example.com/licence", 65_000), 0);
        assert_eq!(device_count("cpu", 8000), 0);
        assert_eq!(device_count("nvidia.com/gpu", 0), 0);
    }
}
