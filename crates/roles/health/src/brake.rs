//! The brake on mass loss: when very many nodes vanish at once, the fault is more likely here or in between than in all
//! of them, so conclusions wait a while.

use crate::config::HealthConfig;

/// ```text
///  Off ──many missing──▶ On ──brake_ms passed──▶ Spent
///   ▲                     │                        │
///   └──few missing────────┴────────────────────────┘
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Brake {
    #[default]
    Off,
    On {
        until_ms: u64,
    },
    Spent,
}

impl Brake {
    /// Comes off when the nodes are back, also when nobody is overdue any more.
    pub(crate) fn relax(&mut self, missing: usize, watched: usize, config: &HealthConfig) {
        if !is_many(missing, watched, config) {
            *self = Brake::Off;
        }
    }

    /// The one transition, made whenever a node would be concluded lost and `missing` of `watched` nodes are silent.
    /// Says until when to wait, and whether the brake was engaged just now.
    pub(crate) fn check(
        &mut self,
        now_ms: u64,
        missing: usize,
        watched: usize,
        config: &HealthConfig,
    ) -> (Option<u64>, bool) {
        let many = is_many(missing, watched, config);
        let before = *self;
        *self = match before {
            _ if !many => Brake::Off,
            Brake::Off => Brake::On { until_ms: now_ms.saturating_add(config.brake_ms) },
            Brake::On { until_ms } if until_ms <= now_ms => Brake::Spent,
            Brake::On { .. } | Brake::Spent => before,
        };
        match *self {
            Brake::On { until_ms } => (Some(until_ms), before == Brake::Off),
            Brake::Off | Brake::Spent => (None, false),
        }
    }
}

fn is_many(missing: usize, watched: usize, config: &HealthConfig) -> bool {
    watched >= config.brake_nodes_min
        && missing as u64 * 1000 > watched as u64 * config.brake_permille
        && config.brake_ms > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_once_and_is_ready_again_when_the_nodes_are_back() {
        let (config, mut brake) = (HealthConfig::default(), Brake::default());
        assert_eq!(brake.check(0, 6, 20, &config), (None, false), "30 percent is not more than 30 percent");
        assert_eq!(brake.check(0, 7, 20, &config), (Some(30_000), true));
        assert_eq!(brake.check(9, 9, 20, &config), (Some(30_000), false));
        assert_eq!(brake.check(30_000, 9, 20, &config), (None, false), "it has waited long enough");
        assert_eq!(brake.check(30_001, 9, 20, &config), (None, false));
        assert_eq!(brake.check(30_002, 1, 20, &config), (None, false));
        assert_eq!(brake.check(40_000, 20, 20, &config), (Some(70_000), true));
        assert_eq!(brake.check(50_000, 1, 20, &config), (None, false), "they came back in time");
        assert_eq!(Brake::Off.check(0, 19, 19, &config), (None, false), "too small a cell");
    }
}
