//! Provisioning classes, and where the admission of a job stands.

use super::table::Grid;
use super::times::{age, length};
use super::{Style, counted};
use ohm_wire::api::{AdmissionView, ProvisioningClassList};

/// Provisioning classes, one line each.
pub(crate) fn provisioning_classes_table(list: &ProvisioningClassList, style: &Style) -> String {
    if list.provisioning_classes.is_empty() {
        return "no provisioning classes; jobs are placed on the nodes that are there\n".to_string();
    }
    let mut grid = Grid::new(style, &["NAME", "PROVISIONER", "ASKS", "QUEUES", "OPEN"]);
    for class in &list.provisioning_classes {
        let queues = class.queues.join(", ");
        grid.row([class.name.clone(), class.provisioner.clone(), class.target.clone(), queues, class.open.to_string()]);
    }
    grid.text()
}

/// Where an admission stands, in one line; empty where there is none.
pub(super) fn admission_line(admission: &AdmissionView, style: &Style) -> String {
    let checks: Vec<String> = admission
        .checks
        .iter()
        .map(|check| {
            let message = if check.message.is_empty() { String::new() } else { format!(": {}", check.message) };
            let since = age(style.now_ms, check.since_ms);
            let flavors = match check.on_flavors.join(", ").as_str() {
                "" => String::new(),
                flavors => format!(" (on {flavors})"),
            };
            let (class, state) = (&check.class, &check.state);
            format!("check {class}{flavors} is {state} for {since} (attempt {}){message}", check.attempt)
        })
        .collect();
    let checks = checks.join(", ");
    let failed = match admission.failed_check.as_str() {
        "" => String::new(),
        class => {
            let message = &admission.failed_message;
            let separator = if message.is_empty() { "" } else { ": " };
            format!("check {class} failed (attempt {}){separator}{message}", admission.failed_attempt)
        }
    };
    match admission.state.as_str() {
        // The line on readiness says it.
        "notReady" => String::new(),
        "invalid" | "held" => format!("waits: {}", admission.problem),
        "backOff" => {
            let wait = length(admission.next_attempt_ms.saturating_sub(style.now_ms));
            format!("next attempt in {wait}; {failed}")
        }
        "unreserved" if failed.is_empty() => "waits for its quota, then its checks are asked".to_string(),
        "unreserved" => format!("waits for its quota; {failed}"),
        "checking" => format!("quota reserved; {checks}"),
        "ready" => format!("quota reserved, {} ready; waits for room", counted(admission.checks.len() as u64, "check")),
        "admitted" => checks,
        _ => failed,
    }
}
