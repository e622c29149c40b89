//! Explanations.

use super::table::Grid;
use super::wrap::wrapped;
use super::{Style, counted};
use ohm_wire::api::ExplainView;

/// Why a job is in its state: the answer, the counts by reason, the nearest nodes, the place in the queue.
pub(crate) fn explanation(view: &ExplainView, style: &Style) -> String {
    let mut text = format!("{}: {}\n\n{}\n", view.job, view.state, wrapped(&view.summary, style.width, 0));
    for sentence in &view.details {
        text.push_str(&format!("{}\n", wrapped(sentence, style.width, 0)));
    }
    if !view.reasons.is_empty() {
        let mut grid = Grid::new(style, &["NODES", "REASON"]);
        if view.open_nodes > 0 {
            grid.row([view.open_nodes.to_string(), "can take at least one task".to_string()]);
        }
        for reason in &view.reasons {
            grid.row([reason.nodes.to_string(), reason.reason.clone()]);
        }
        text.push_str(&format!("\n{}", grid.text()));
    }
    if !view.nearest.is_empty() {
        let mut grid = Grid::new(style, &["NEAREST IN", "ASKED", "FREE", "NODE"]);
        for near in &view.nearest {
            // Exactly: a miss may be a matter of the last digit.
            grid.row([near.resource.clone(), near.asked.clone(), near.free.clone(), near.node.clone()]);
        }
        text.push_str(&format!("\n{}", grid.text()));
    }
    if !view.strategies.is_empty() {
        let tried = format!("Tried with profile {}: {}.", view.profile, view.strategies.join(", "));
        text.push_str(&format!("\n{}\n", wrapped(&tried, style.width, 0)));
    } else if !view.profile.is_empty() {
        text.push_str(&format!("\nIt is planned by the profile {}.\n", view.profile));
    }
    if let Some(ahead) = view.jobs_ahead {
        let line = match ahead {
            0 => "No waiting job goes before it.".to_string(),
            1 => "1 waiting job goes before it.".to_string(),
            _ => format!("{} go before it.", counted(ahead, "waiting job")),
        };
        text.push_str(&format!("\n{line}\n"));
    }
    if !view.hint.is_empty() {
        text.push_str(&format!("\n{}\n", wrapped(&format!("hint: {}", view.hint), style.width, 0)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::PLAIN;
    use ohm_wire::api::{NearestView, ReasonView};

    #[test]
    fn counts_and_nearest_misses_are_told() {
        let view = ExplainView {
            job: "too-big".into(),
            state: "pending".into(),
            summary: "0 of the 1 task would find room.".into(),
            details: vec!["Of 8 nodes, by the first reason found: …".into()],
            reasons: vec![
                ReasonView { code: "capacity".into(), reason: "too little cpu even when empty".into(), nodes: 7 },
                ReasonView { code: "notReady".into(), reason: "not ready".into(), nodes: 1 },
            ],
            nearest: vec![NearestView {
                resource: "cpu".into(),
                asked: "4096".into(),
                free: "1750m".into(),
                node: "n3".into(),
            }],
            profile: "batch".into(),
            strategies: vec!["Place".into(), "MinimumsFirst".into()],
            jobs_ahead: Some(0),
            ..ExplainView::default()
        };
        assert_eq!(
            explanation(&view, &PLAIN),
            "\
too-big: pending

0 of the 1 task would find room.
Of 8 nodes, by the first reason found: …

NODES  REASON
7      too little cpu even when empty
1      not ready

NEAREST IN  ASKED  FREE   NODE
cpu         4096   1750m  n3

Tried with profile batch: Place, MinimumsFirst.

No waiting job goes before it.
"
        );
    }
}
