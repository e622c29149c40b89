//! Preemption: who was stopped for whom, and under which rule.

use ohm_model::{PreemptionChange, PreemptionEvent, PreemptionReason};
use ohm_wire::api::EventView;

/// So many victims are told in a line.
const VICTIMS_TOLD: usize = 8;

/// An event about a preemption.
pub(super) fn of_preemption(preemption: &PreemptionEvent, view: EventView) -> EventView {
    let name = &preemption.name;
    let (kind, message, reason) = match &preemption.change {
        PreemptionChange::Waits { need, victims, budgets, .. } => {
            let (stopped, need, broken) = (victims_text(victims), need.name(), broken_text(budgets));
            ("preempting", format!("job {name} lacks {need} that others have: {stopped} stopped for it{broken}"), "")
        }
        PreemptionChange::Stopped { by, need, runs, reason } => {
            let (rule, need) = (format!("{}: {}", reason.name(), rule_text(*reason)), need.name());
            let what = match runs {
                None => format!("job {name} is stopped: {by} needs its {need}"),
                Some(1) => format!("1 task of job {name} is stopped: {by} needs its {need}"),
                Some(runs) => format!("{runs} tasks of job {name} are stopped: {by} needs their {need}"),
            };
            ("preempted", format!("{what} ({rule})"), reason.name())
        }
        PreemptionChange::Over { reason } => {
            let message = format!("what was taken from others is not kept for job {name} any more: {reason}");
            ("preemptionOver", message, reason.as_str())
        }
    };
    EventView { kind: kind.into(), message, job: name.clone(), reason: reason.into(), ..view }
}

/// Which disruption budgets are broken for it.
fn broken_text(budgets: &[String]) -> String {
    match budgets {
        [] => String::new(),
        [budget] => format!("; nothing else was found than what breaks budget {budget}"),
        budgets => format!("; nothing else was found than what breaks budgets {}", budgets.join(", ")),
    }
}

fn victims_text(victims: &[(String, PreemptionReason)]) -> String {
    let names: Vec<&str> = victims.iter().take(VICTIMS_TOLD).map(|(name, _)| name.as_str()).collect();
    match victims.len() {
        1 => format!("{} is", names.join(", ")),
        many if many > VICTIMS_TOLD => format!("{} and {} more are", names.join(", "), many - VICTIMS_TOLD),
        _ => format!("{} are", names.join(", ")),
    }
}

/// What the rule says.
fn rule_text(reason: PreemptionReason) -> &'static str {
    match reason {
        PreemptionReason::InClusterQueue => "of one queue, it comes later",
        PreemptionReason::InCohortReclamation => "its queue uses more than its own, which is taken back",
        PreemptionReason::InCohortReclaimWhileBorrowing => "its queue uses more than its own, and it is less important",
        PreemptionReason::InCohortFairSharing => "its queue has more than its share",
        PreemptionReason::LowerPriority => "it is less important",
    }
}
