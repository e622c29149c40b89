//! How many files and connections a process may have open at once.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// What is assumed where the system does not say.
const USUAL: u64 = 1024;

/// Raises what this process may open to what the system lets it have; gives that.
pub fn raise() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return USUAL };
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(error) => {
            tracing::warn!(%error, soft, hard, "the limit of open files stays as it is");
            soft
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_the_system_grants_is_taken() {
        let limit = raise();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (limit, limit));
    }
}
