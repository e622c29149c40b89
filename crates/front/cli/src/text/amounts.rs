//! Amounts for people: cores and devices exactly, bytes cut to a digit or two where columns are skimmed. Programs get
//! all of them exactly, in JSON.

use ohm_manifest::{Rounding, parse_quantity};
use ohm_model::UnitKind;

/// `quantity` of the resource `name`; of bytes only what matters.
pub(crate) fn short(name: &str, quantity: &str) -> String {
    let (sign, digits) = quantity.strip_prefix('-').map_or(("", quantity), |digits| ("-", digits));
    let kind = UnitKind::of(name);
    let Ok(amount) = parse_quantity(digits, kind, Rounding::Down) else { return quantity.to_string() };
    let text = match kind {
        UnitKind::Milli => thousandths(amount),
        UnitKind::Whole => {
            const UNITS: [(&str, i64); 4] = [("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
            // Counts stay counts; only what looks like bytes is cut.
            let unit = UNITS.iter().find(|(_, unit)| name == "memory" && amount >= *unit);
            unit.map_or_else(|| amount.to_string(), |(suffix, unit)| tenths(amount, *unit, suffix))
        }
    };
    format!("{sign}{text}")
}

/// Thousandths, exactly: whole or with one digit where that says it, else as `3750m`.
fn thousandths(amount: i64) -> String {
    match (amount / 1000, amount % 1000) {
        (whole, 0) => whole.to_string(),
        (whole, rest) if rest % 100 == 0 => format!("{whole}.{}", rest / 100),
        _ => format!("{amount}m"),
    }
}

/// `amount` in `unit`, cut after one digit.
fn tenths(amount: i64, unit: i64, suffix: &str) -> String {
    match (amount / unit, amount % unit * 10 / unit) {
        (whole, 0) => format!("{whole}{suffix}"),
        (whole, tenth) => format!("{whole}.{tenth}{suffix}"),
    }
}

/// `free/capacity`, such as `3.5/4`. Where cutting would make different amounts look the same, more digits are shown.
pub(crate) fn of_total(name: &str, free: &str, capacity: &str) -> String {
    let shown = (short(name, free), short(name, capacity));
    if shown.0 != shown.1 || free == capacity {
        return format!("{}/{}", shown.0, shown.1);
    }
    let amounts = [free, capacity].map(|text| parse_quantity(text, UnitKind::of(name), Rounding::Down));
    let [Ok(free_bytes), Ok(capacity_bytes)] = amounts else { return format!("{free}/{capacity}") };
    let finer = [(1 << 20, "Mi"), (1 << 10, "Ki"), (1, "")].into_iter();
    let mut finer = finer.filter(|(unit, _)| free_bytes / unit != capacity_bytes / unit);
    finer.next().map_or_else(
        || format!("{free}/{capacity}"),
        |(unit, suffix)| format!("{}{suffix}/{}{suffix}", free_bytes / unit, capacity_bytes / unit),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_cut_to_what_matters() {
        for (name, quantity, expected) in [
            ("cpu", "4", "4"),
            ("cpu", "3750m", "3750m"),
            ("cpu", "250m", "250m"),
            ("cpu", "1050m", "1050m"),
            ("cpu", "1500m", "1.5"),
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
        for (name, free, capacity, expected) in [
            ("cpu", "3750m", "4", "3750m/4"),
            ("cpu", "230m", "250m", "230m/250m"),
            ("memory", "7Gi", "8Gi", "7Gi/8Gi"),
            ("memory", "8Gi", "8Gi", "8Gi/8Gi"),
            ("memory", "2470Mi", "2480Mi", "2470Mi/2480Mi"),
            ("memory", "8589934591", "8Gi", "7.9Gi/8Gi"),
            ("memory", "8589934592", "8589934593", "8589934592/8589934593"),
        ] {
            assert_eq!(of_total(name, free, capacity), expected, "{free}/{capacity}");
        }
    }
}
