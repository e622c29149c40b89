//! Versions of etcd that should not be used.

/// The first safe release of each line: those before it can answer a linearizable read with what was true before a
/// pause of the process (etcd issue 20418), and older ones lose watch events (3.4.31, 3.4.34, 3.4.36) or let revisions
/// fall after a crash (3.4.32).
const SAFE: [(u64, u64, u64); 3] = [(3, 4, 42), (3, 5, 28), (3, 6, 9)];

/// The oldest safe release of the line of `version`, if that one is older; or of any line, if it can't be read.
pub(super) fn wanted(version: &str) -> Option<&'static str> {
    let mut numbers = version.trim_start_matches('v').split(['.', '-', '+']).map_while(|part| part.parse().ok());
    let found: (u64, u64, u64) = match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(major), Some(minor), patch) => (major, minor, patch.unwrap_or(0)),
        _ => return Some("3.4.42, 3.5.28 or 3.6.9"),
    };
    let line = SAFE.iter().find(|(major, minor, _)| (found.0, found.1) == (*major, *minor));
    match line {
        Some(safe) if found >= *safe => None,
        Some((3, 4, _)) => Some("3.4.42"),
        Some((3, 5, _)) => Some("3.5.28"),
        Some(_) => Some("3.6.9"),
        None if found > (3, 6, 9) => None,
        None => Some("3.4.42, 3.5.28 or 3.6.9"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_the_safe_release_of_its_line_is_named() {
        for (version, wants) in [
            ("3.4.23", Some("3.4.42")),
            ("3.4.42", None),
            ("3.5.27", Some("3.5.28")),
            ("v3.5.30", None),
            ("3.6.0-rc.1", Some("3.6.9")),
            ("3.6.12", None),
            ("3.7.0", None),
            ("4.0.0", None),
            ("3.3.25", Some("3.4.42, 3.5.28 or 3.6.9")),
            ("main", Some("3.4.42, 3.5.28 or 3.6.9")),
        ] {
            assert_eq!(wanted(version), wants, "{version}");
        }
    }
}
