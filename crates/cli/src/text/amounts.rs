//! Amounts rounded for people. Programs get them exactly, in JSON.

use ohm_manifest::{Rounding, parse_quantity};
use ohm_model::UnitKind;

/// `quantity` of the resource `name` with at most three digits of interest.
pub(crate) fn short(name: &str, quantity: &str) -> String {
    let (sign, digits) = quantity.strip_prefix('-').map_or(("", quantity), |digits| ("-", digits));
    let kind = UnitKind::of(name);
    let Ok(amount) = parse_quantity(digits, kind, Rounding::Down) else { return quantity.to_string() };
    let text = match kind {
        UnitKind::Milli => tenths(amount, 1000, ""),
        UnitKind::Whole => {
            const UNITS: [(&str, i64); 4] = [("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
            // Counts stay counts; only what looks like bytes is cut.
            let unit = UNITS.iter().find(|(_, unit)| name == "memory" && amount >= *unit);
            unit.map_or_else(|| amount.to_string(), |(suffix, unit)| tenths(amount, *unit, suffix))
        }
    };
    format!("{sign}{text}")
}

/// `amount` in `unit`, cut after one digit; less than a tenth keeps its thousandths.
fn tenths(amount: i64, unit: i64, suffix: &str) -> String {
    let (whole, tenth) = (amount / unit, amount % unit * 10 / unit);
    match (whole, tenth) {
        (0, 0) if amount > 0 => format!("{amount}m"),
        (_, 0) => format!("{whole}{suffix}"),
        _ => format!("{whole}.{tenth}{suffix}"),
    }
}

/// `free/capacity`, such as `3.5/4`.
pub(crate) fn of_total(name: &str, free: &str, capacity: &str) -> String {
    format!("{}/{}", short(name, free), short(name, capacity))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_cut_to_what_matters() {
        for (name, quantity, expected) in [
            ("cpu", "4", "4"),
            ("cpu", "3750m", "3.7"),
            ("cpu", "20m", "20m"),
            ("cpu", "-500m", "-0.5"),
            ("memory", "8Gi", "8Gi"),
            ("memory", "8555331584", "7.9Gi"),
            ("memory", "-512Mi", "-512Mi"),
            ("memory", "0", "0"),
            ("pods", "110", "110"),
            ("nvidia.com/gpu", "7500m", "7.5"),
            ("cpu", "nonsense", "nonsense"),
        ] {
            assert_eq!(short(name, quantity), expected, "{name} {quantity}");
        }
        assert_eq!(of_total("cpu", "3750m", "4"), "3.7/4");
    }
}
