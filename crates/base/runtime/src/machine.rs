//! What this machine has to offer: the one rule by which an agent and `ohm up` count it.

/// Every core that this process may use, in thousandths; nothing when that can't be found out.
pub fn cpu_milli() -> Option<u64> {
    let cores = std::thread::available_parallelism().ok()?;
    Some((cores.get() as u64).saturating_mul(1000))
}

/// The memory of the machine in bytes, or what the group of this process may use of it, if that is less; nothing when
/// that can't be found out.
pub fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let bounds = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    least(total_of(&text, "MemTotal:")?, bounds.iter().filter_map(|path| std::fs::read_to_string(path).ok()))
}

/// What the machine can swap, in bytes.
pub fn swap_bytes() -> Option<u64> {
    total_of(&std::fs::read_to_string("/proc/meminfo").ok()?, "SwapTotal:")
}

/// `total`, or the least of the `bounds` that are numbers.
fn least(total: u64, bounds: impl Iterator<Item = String>) -> Option<u64> {
    let bounds = bounds.filter_map(|bound| bound.trim().parse().ok());
    bounds.chain([total]).filter(|bytes| *bytes > 0).min()
}

fn total_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_by_the_group_of_the_process() {
        assert_eq!(total_of("MemFree: 3 kB\nMemTotal:    24 kB\n", "MemTotal:"), Some(24 << 10));
        assert_eq!(total_of("MemTotal: what kB", "MemTotal:"), None);
        for (bounds, expected) in
            [(&["max\n"][..], 64), (&["4\n"], 4), (&["9223372036854771712"], 64), (&["32", "16"], 16), (&[], 64)]
        {
            assert_eq!(least(64, bounds.iter().map(ToString::to_string)), Some(expected), "{bounds:?}");
        }
        assert!(cpu_milli() >= Some(1000) && memory_bytes() > Some(64 << 20));
    }
}
