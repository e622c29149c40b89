//! How far the rollout of a job is, and its revisions.

use super::table::Grid;
use super::times::{age, length};
use super::wrap::wrapped;
use super::{Style, counted};
use ohm_wire::api::{GroupRolloutView, RolloutSummary, RolloutView};

/// Everything but the history.
pub(crate) fn rollout_text(view: &RolloutView, style: &Style) -> String {
    let RolloutSummary { revision, state, message } = &view.summary;
    let lines = [
        ("Job", view.job.clone()),
        ("Revision", revision.to_string()),
        ("State", state.clone()),
        ("Message", message.clone()),
        ("Began", began(view, style)),
    ];
    let lines = lines.into_iter().filter(|(_, value)| !value.is_empty());
    let line = |(name, value)| wrapped(&format!("{:<11}{value}", format!("{name}:")), style.width, 11) + "\n";
    let mut text: String = lines.map(line).collect();
    if view.groups.is_empty() {
        return text;
    }
    let header = ["GROUP", "REVISION", "TASKS", "UPDATED", "READY", "AVAILABLE", "OLD", "STOPPING", "WAITING"];
    let mut grid = Grid::new(style, &header);
    for group in &view.groups {
        let beyond = if group.surge > 0 { format!("+{}", group.surge) } else { String::new() };
        grid.row([
            group.name.clone(),
            group.revision.to_string(),
            format!("{}{beyond}", group.count),
            group.updated.to_string(),
            group.updated_ready.to_string(),
            group.updated_available.to_string(),
            group.old.to_string(),
            group.stopping.to_string(),
            group.waiting.to_string(),
        ]);
    }
    text.push('\n');
    text.push_str(&grid.text());
    text
}

/// When it began, and when it stalls.
fn began(view: &RolloutView, style: &Style) -> String {
    if view.since_ms == 0 {
        return String::new();
    }
    let back = if view.reverts { ", because the one before stalled" } else { "" };
    let stalls = match view.deadline_ms {
        0 => String::new(),
        at_ms => format!("; stalls in {} unless it comes further", length(at_ms.saturating_sub(style.now_ms))),
    };
    format!("{} ago{back}{stalls}", age(style.now_ms, view.since_ms))
}

/// How far it is, in one line.
pub(crate) fn rollout_line(view: &RolloutView) -> String {
    let RolloutSummary { revision, state, message } = &view.summary;
    let back = if view.reverts { ", back from one that stalled" } else { "" };
    let what = match state.as_str() {
        "rolling" => tasks(&view.groups),
        _ => message.clone(),
    };
    match revision {
        0 => format!("{}: {state}: {what}", view.job),
        _ => format!("{}: {state}, revision {revision}{back}: {what}", view.job),
    }
}

/// The tasks of all groups: `2 of 5+1 tasks updated, 1 available; 3 old, 1 stopping`.
fn tasks(groups: &[GroupRolloutView]) -> String {
    let sum = |of: fn(&GroupRolloutView) -> u32| groups.iter().map(of).map(u64::from).sum::<u64>();
    let (updated, available) = (sum(|group| group.updated), sum(|group| group.updated_available));
    let beside = [
        (sum(|group| group.old), "old"),
        (sum(|group| group.stopping), "stopping"),
        (sum(|group| group.waiting), "waiting"),
    ];
    let beside: Vec<String> =
        beside.iter().filter(|(count, _)| *count > 0).map(|(count, state)| format!("{count} {state}")).collect();
    let beside = if beside.is_empty() { String::new() } else { format!("; {}", beside.join(", ")) };
    let (count, surge) = (sum(|group| group.count), sum(|group| group.surge));
    let tasks = if surge > 0 { format!("{count}+{surge} tasks") } else { counted(count, "task") };
    format!("{updated} of {tasks} updated, {available} available{beside}")
}

/// The revisions, oldest first; the last one is the present one.
pub(crate) fn history_table(view: &RolloutView, style: &Style) -> String {
    let mut grid = Grid::new(style, &["REVISION", "STATE", "AGE", "OWNER", "CHANGED"]);
    for known in &view.history {
        grid.row([
            known.revision.to_string(),
            known.state.clone(),
            age(style.now_ms, known.since_ms),
            known.owner.clone(),
            known.changed.join(", "),
        ]);
    }
    let next = match view.history.len() {
        0 | 1 => format!("nothing of {} was rolled out yet; `ohm submit --update FILE` changes it", view.job),
        _ => format!("`ohm rollout undo {} --to REVISION` goes back to one of them", view.job),
    };
    format!("{}{}\n", grid.text(), wrapped(&next, style.width, 0))
}

#[cfg(test)]
mod tests {
    use super::super::PLAIN;
    use super::*;
    use ohm_wire::api::RevisionView;

    fn view(state: &str, message: &str) -> RolloutView {
        let revision = |revision, state: &str, owner: &str, changed: &[&str]| RevisionView {
            revision,
            since_ms: PLAIN.now_ms - 60_000 / u64::from(revision),
            owner: owner.into(),
            state: state.into(),
            changed: changed.iter().map(ToString::to_string).collect(),
        };
        RolloutView {
            job: "web".into(),
            summary: RolloutSummary { revision: 2, state: state.into(), message: message.into() },
            reverts: false,
            since_ms: PLAIN.now_ms - 30_000,
            deadline_ms: PLAIN.now_ms + 570_000,
            groups: vec![GroupRolloutView {
                name: "main".into(),
                revision: 2,
                count: 5,
                updated: 3,
                updated_ready: 2,
                updated_available: 1,
                old: 3,
                old_available: 3,
                stopping: 1,
                waiting: 1,
                surge: 2,
            }],
            history: vec![
                revision(1, "complete", "ada", &[]),
                revision(2, "rolling", "bob", &["spec.strategy", "spec.groups[0].command"]),
            ],
        }
    }

    #[test]
    fn a_rollout_is_told_by_group() {
        let view = view("rolling", "1 of 5 tasks of group main are of revision 2 and available");
        assert_eq!(
            rollout_text(&view, &PLAIN),
            "\
Job:       web
Revision:  2
State:     rolling
Message:   1 of 5 tasks of group main are of revision 2 and available
Began:     30s ago; stalls in 9m unless it comes further

GROUP  REVISION  TASKS  UPDATED  READY  AVAILABLE  OLD  STOPPING  WAITING
main   2         5+2    3        2      1          3    1         1
"
        );
        let narrow = rollout_text(&view, &Style { width: Some(60), ..PLAIN });
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    }

    #[test]
    fn a_line_tells_numbers_while_it_rolls_and_what_to_do_else() {
        let rolling = "web: rolling, revision 2: 3 of 5+2 tasks updated, 1 available; 3 old, 1 stopping, 1 waiting";
        assert_eq!(rollout_line(&view("rolling", "…")), rolling);
        assert_eq!(rollout_line(&view("paused", "resume it")), "web: paused, revision 2: resume it");
        let back = RolloutView { reverts: true, groups: Vec::new(), ..view("complete", "all is well") };
        assert_eq!(rollout_line(&back), "web: complete, revision 2, back from one that stalled: all is well");
    }

    #[test]
    fn a_history_says_what_changed_and_how_to_go_back() {
        let mut view = view("rolling", "");
        assert_eq!(
            history_table(&view, &PLAIN),
            "\
REVISION  STATE     AGE  OWNER  CHANGED
1         complete  60s  ada    -
2         rolling   30s  bob    spec.strategy, spec.groups[0].command
`ohm rollout undo web --to REVISION` goes back to one of them
"
        );
        view.history.truncate(1);
        assert!(history_table(&view, &PLAIN).ends_with("`ohm submit --update FILE` changes it\n"));
    }
}
