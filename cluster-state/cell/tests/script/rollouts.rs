//! Strategies and rollouts as words, and what is shown of them.

use super::Script;
use super::parse::Words;
use ohm_cell::{Job, available_before_ms, rollout_counts};
use ohm_model::{Command, RolloutAction, RolloutEvent, RolloutKind, RolloutStep, RolloutStrategy, TaskAmount};
use std::fmt::Write;

impl Words<'_> {
    /// `[strategy=surge:AMOUNT,unavailable:AMOUNT,ready:SECONDS,deadline:SECONDS,canary:N,revert,pause,recreate]`
    pub(super) fn strategy(&mut self) -> Option<Box<RolloutStrategy>> {
        let mut strategy = RolloutStrategy::default();
        for word in self.option("strategy")?.split(',') {
            let (name, value) = word.split_once(':').unwrap_or((word, ""));
            let amount = || TaskAmount::parse(value).expect("an amount");
            let number = || value.parse::<u32>().expect("a number");
            match name {
                "surge" => strategy.max_surge = amount(),
                "unavailable" => strategy.max_unavailable = amount(),
                "ready" => strategy.min_ready_seconds = number().into(),
                "deadline" => strategy.progress_deadline_seconds = number().into(),
                "canary" => strategy.canary = number(),
                "revert" => strategy.auto_revert = true,
                "pause" => strategy.pause = true,
                "recreate" => strategy.kind = RolloutKind::Recreate,
                other => panic!("{other} is nothing of a strategy"),
            }
        }
        Some(Box::new(strategy))
    }

    /// `rollout pause|resume|promote|undo JOB [revision=N]`
    pub(super) fn rollout(&mut self) -> Command {
        let revision = self.option("revision").map(|number| number.parse().expect("a number"));
        let action = match self.need("what to do") {
            "pause" => RolloutAction::Pause,
            "resume" => RolloutAction::Resume,
            "promote" => RolloutAction::Promote,
            "undo" => RolloutAction::Undo { revision },
            other => panic!("{other} is nothing to do with a rollout"),
        };
        Command::Rollout { name: self.need("name").to_string(), action }
    }
}

pub(super) fn rollout_event(told: &RolloutEvent) -> String {
    let RolloutEvent { name, revision, step, .. } = told;
    match step {
        RolloutStep::Started => format!("{name} rolls out revision {revision}"),
        RolloutStep::Aimed { group, revision, count } => {
            format!("{name}/{group}: {count} tasks, revision {revision} is placed")
        }
        RolloutStep::Waits => format!("{name} waits to be promoted"),
        RolloutStep::Promoted => format!("{name} is promoted"),
        RolloutStep::Stalled { reason } => format!("{name} stalled: {reason}"),
        RolloutStep::Reverted { from } => format!("{name} goes back from revision {from} to {revision}"),
        RolloutStep::Finished => format!("{name} is at revision {revision}"),
    }
}

impl Script {
    pub(super) fn rollout_text(&self, job: &Job, text: &mut String) {
        let Some(rollouts) = &job.rollouts else { return };
        for revision in &rollouts.history {
            let (number, groups, state) = (revision.number, &revision.groups, revision.state);
            write!(text, "\n    revision {number} by {}: {state:?}, groups {groups:?}", revision.owner).unwrap();
        }
        let Some(open) = &rollouts.open else { return };
        let flags =
            [("waits", open.waits), ("stalled", open.stalled), ("reverts", open.reverts), ("unproven", !open.promoted)];
        let flags: String = flags.iter().filter(|(_, on)| *on).map(|(name, _)| format!(", {name}")).collect();
        write!(text, "\n    rolls out {}{flags}, further at {}, due {}", open.number, open.progress_ms, open.due_ms)
            .unwrap();
        let before_ms = available_before_ms(self.cell.now_ms(), &open.declared.strategy());
        for (at, group) in open.groups.iter().enumerate() {
            let counts = rollout_counts(&job.groups[at], group.target, before_ms, |slot| self.cell.runs().get(slot));
            let told = |(task, former): (&u32, &ohm_cell::Former)| {
                format!("{task}: {}{}", former.revision, if former.lost { " lost" } else { "" })
            };
            let restores = group.restore.iter().map(told).collect::<Vec<_>>().join(", ");
            write!(
                text,
                "\n      {at}: to {}, {} placed, restores [{}]",
                group.target, job.groups[at].revision, restores
            )
            .unwrap();
            write!(
                text,
                "\n        updated {}, ready {}, available {};",
                counts.updated, counts.updated_ready, counts.updated_available
            )
            .unwrap();
            write!(
                text,
                " old {}, available {}; {} stop, {} wait",
                counts.old, counts.old_available, counts.stopping, counts.waiting
            )
            .unwrap();
        }
    }
}
