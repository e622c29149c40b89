//! The arguments of `ohm agent` that say what is looked at on a node, and what follows.

use ohm_manifest::{Rounding, parse_quantity};
use ohm_model::resources::UnitKind;
use ohm_model::{ConditionAction, ConditionKind};
use ohm_node::agent::CheckOptions;
use std::path::PathBuf;
use std::time::Duration;

/// What is looked at on a node.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Checks of the node")]
pub(crate) struct CheckArguments {
    /// A command that says whether the node is well: exit code 0, or else why in its last line of output
    #[arg(long, value_name = "COMMAND")]
    health_check: Option<String>,
    /// The same for the devices of the node
    #[arg(long, value_name = "COMMAND")]
    device_check: Option<String>,
    /// A file that exists as long as a device is there
    #[arg(long, value_name = "PATH")]
    device_file: Vec<PathBuf>,
    /// How long to wait from one run of a command to the next, such as 30s or 500ms
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = time)]
    health_check_interval: Duration,
    /// A command that runs longer is killed and has failed
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = time)]
    health_check_timeout: Duration,
    /// So many failures in a row make the node ill, and so many successes well again
    #[arg(long, default_value_t = 3, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    health_check_threshold: u32,
    /// Disk pressure below this share of free disk, in percent; 0 does not look
    #[arg(long, default_value_t = 3, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(0..=90))]
    disk_pressure: u64,
    /// Memory pressure below this much available memory; 0 does not look
    #[arg(long, default_value = "100Mi", value_name = "QUANTITY", value_parser = bytes)]
    memory_pressure: u64,
    /// What follows from a condition (disk-pressure, memory-pressure, device-error, health-check): drain, no-new-work
    /// or note [default: no-new-work for disk and memory, drain for the others]
    #[arg(long, value_name = "CONDITION=ACTION", value_parser = action)]
    on_condition: Vec<(ConditionKind, ConditionAction)>,
}

impl CheckArguments {
    pub(crate) fn options(&self) -> CheckOptions {
        CheckOptions {
            disk_percent: self.disk_pressure,
            memory_bytes: self.memory_pressure,
            device_check: self.device_check.clone(),
            device_files: self.device_file.clone(),
            health_check: self.health_check.clone(),
            interval: self.health_check_interval,
            timeout: self.health_check_timeout,
            threshold: self.health_check_threshold,
            actions: self.on_condition.iter().copied().collect(),
        }
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| "wants a time such as 30s, 500ms or 2m".to_string())?;
    let unit_ms = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("wants a time with its unit, such as 30s, 500ms or 2m".into()),
    };
    match number.checked_mul(unit_ms) {
        Some(ms @ 50..) => Ok(Duration::from_millis(ms)),
        _ => Err("must be at least 50ms".into()),
    }
}

fn bytes(text: &str) -> Result<u64, String> {
    let amount = parse_quantity(text, UnitKind::of("memory"), Rounding::Up).map_err(|error| error.to_string())?;
    u64::try_from(amount).map_err(|_| "must not be negative".to_string())
}

fn action(text: &str) -> Result<(ConditionKind, ConditionAction), String> {
    let wanted = "wants CONDITION=ACTION with disk-pressure, memory-pressure, device-error or health-check, and drain, \
                  no-new-work or note";
    let (kind, action) = text.split_once('=').ok_or(wanted)?;
    let kind = match kind {
        "health-check" => Some(ConditionKind::HealthCheckFailed),
        name => ConditionKind::ALL.into_iter().find(|kind| kind.name() == name),
    };
    Ok((kind.ok_or(wanted)?, ConditionAction::named(action).ok_or(wanted)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        checks: CheckArguments,
    }

    fn options(line: &str) -> Result<CheckOptions, String> {
        let line = Line::try_parse_from(line.split(' ')).map_err(|error| error.to_string())?;
        Ok(line.checks.options())
    }

    #[test]
    fn checks_are_named_in_peoples_words() {
        let plain = options("agent").unwrap();
        assert_eq!((plain.disk_percent, plain.memory_bytes, plain.threshold), (3, 100 << 20, 3));
        assert_eq!((plain.interval, plain.timeout), (Duration::from_secs(30), Duration::from_secs(10)));
        let line = "agent --health-check true --health-check-interval 500ms --memory-pressure 2Gi --disk-pressure 0 \
                    --on-condition health-check=note --on-condition disk-pressure=drain";
        let named = options(line).unwrap();
        assert_eq!((named.disk_percent, named.memory_bytes), (0, 2 << 30));
        assert_eq!(named.interval, Duration::from_millis(500));
        assert_eq!(named.actions[&ConditionKind::HealthCheckFailed], ConditionAction::Note);
        assert_eq!(named.actions[&ConditionKind::DiskPressure], ConditionAction::Drain);
        for wrong in ["--on-condition health-check", "--health-check-interval 30", "--health-check-threshold 0"] {
            assert!(options(&format!("agent {wrong}")).is_err(), "{wrong}");
        }
    }
}
