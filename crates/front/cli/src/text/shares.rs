//! The quota tree: what is used, borrowed and left, and the share of each queue and cohort.

use super::Style;
use super::amounts::short;
use super::table::Grid;
use ohm_offline::QueueAnswer;
use std::collections::{BTreeMap, BTreeSet};

/// A share of so much, in thousandths, fills the bar.
const WHOLE: i64 = 1000;
/// Terminals below this width get a short bar.
const WIDE: u16 = 100;

/// Queues and cohorts as a tree, one line per resource of each flavor.
pub(crate) fn shares_table(queues: &[QueueAnswer], style: &Style) -> String {
    if queues.is_empty() {
        return "no queues; a job without a queue is not limited\n".to_string();
    }
    let has_flavors = queues.iter().flat_map(|queue| &queue.flavors_usage).any(|flavor| !flavor.name.is_empty());
    let header = ["QUEUE", "FLAVOR", "RESOURCE", "USED", "BORROWED", "AVAILABLE", "POTENTIAL", "SHARE"];
    let header = header.into_iter().filter(|name| has_flavors || *name != "FLAVOR");
    let mut grid = Grid::new(style, &header.collect::<Vec<&str>>());
    for (at, depth) in tree(queues, |queue| (&queue.name, queue.parent.as_deref().unwrap_or_default())) {
        let queue = &queues[at];
        let share = share_cell(queue.weighted_share, style);
        let flavors = queue.flavors_usage.iter();
        let mut cells: Vec<(String, [String; 5])> = flavors
            .flat_map(|flavor| flavor.resources.iter().map(move |resource| (flavor, resource)))
            .map(|(flavor, resource)| {
                let amounts = [&resource.total, &resource.borrowed, &resource.available, &resource.potential];
                let [used, borrowed, available, potential] = amounts.map(|amount| short(&resource.name, amount));
                (flavor.name.clone(), [resource.name.clone(), used, borrowed, available, potential])
            })
            .collect();
        if cells.is_empty() {
            cells.push(Default::default());
        }
        for (flavor, resource) in cells {
            let name = [indented(&queue.name, depth)].into_iter();
            grid.row(name.chain(has_flavors.then_some(flavor)).chain(resource).chain([share.clone()]));
        }
    }
    grid.text()
}

/// The order in which things with names and parents make a tree, each with its depth: parents before what is below
/// them, else as they come. What has no parent in the list, or is its own, is a root.
pub(crate) fn tree<T>(items: &[T], names: impl Fn(&T) -> (&str, &str)) -> Vec<(usize, usize)> {
    let mut below: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let known: BTreeSet<&str> = items.iter().map(|item| names(item).0).collect();
    // From the last to the first: what is taken next is at the end of the list.
    for (at, item) in items.iter().enumerate().rev() {
        below.entry(names(item).1).or_default().push(at);
    }
    let roots = (0..items.len()).rev().filter(|at| !known.contains(names(&items[*at]).1));
    let mut open: Vec<(usize, usize)> = roots.map(|at| (at, 0)).collect();
    let (mut order, mut seen) = (Vec::with_capacity(items.len()), vec![false; items.len()]);
    while let Some((at, depth)) = open.pop() {
        order.push((at, depth));
        seen[at] = true;
        let children = below.get(names(&items[at]).0).into_iter().flatten();
        open.extend(children.map(|child| (*child, depth + 1)));
    }
    order.extend((0..items.len()).filter(|at| !seen[*at]).map(|at| (at, 0)));
    order
}

/// The name as far in as it is deep.
pub(crate) fn indented(name: &str, depth: usize) -> String {
    format!("{}{name}", "  ".repeat(depth))
}

/// The share as a bar, with the number; one without a bound is `∞`.
pub(crate) fn share_cell(share: i64, style: &Style) -> String {
    let width: usize = if style.width.is_some_and(|width| width < WIDE) { 5 } else { 10 };
    let cells = i64::try_from(width).unwrap_or(WHOLE);
    let filled = share.clamp(0, WHOLE).saturating_mul(cells).div_euclid(WHOLE);
    // Whoever borrows anything shows.
    let filled = usize::try_from(filled).unwrap_or(0).max(usize::from(share > 0));
    let number = if share == i64::MAX { "∞".to_string() } else { share.to_string() };
    format!("{}{} {number}", "█".repeat(filled), "░".repeat(width - filled))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::PLAIN;
    use ohm_offline::{FlavorUsage, ResourceUsage};

    fn queue(name: &str, parent: &str, weighted_share: i64) -> QueueAnswer {
        let resource = ResourceUsage {
            name: "memory".into(),
            total: "6442450944".into(),
            borrowed: "2Gi".into(),
            available: "0".into(),
            potential: "8Gi".into(),
        };
        QueueAnswer {
            name: name.into(),
            kind: "Queue",
            parent: Some(parent.to_string()).filter(|parent| !parent.is_empty()),
            weighted_share,
            dominant_resource: None,
            flavors_usage: vec![FlavorUsage { name: "spot".into(), resources: vec![resource] }],
        }
    }

    #[test]
    fn the_tree_shows_what_is_used_and_borrowed() {
        let all = QueueAnswer { flavors_usage: Vec::new(), kind: "Cohort", ..queue("all", "", 0) };
        let queues = [all, queue("a", "all", 250), queue("b", "all", i64::MAX)];
        assert_eq!(
            shares_table(&queues, &PLAIN),
            "\
QUEUE  FLAVOR  RESOURCE  USED  BORROWED  AVAILABLE  POTENTIAL  SHARE
all    -       -         -     -         -          -          ░░░░░░░░░░ 0
  a    spot    memory    6Gi   2Gi       0          8Gi        ██░░░░░░░░ 250
  b    spot    memory    6Gi   2Gi       0          8Gi        ██████████ ∞
"
        );
        assert_eq!(shares_table(&[], &PLAIN), "no queues; a job without a queue is not limited\n");
    }

    #[test]
    fn the_short_form_has_no_flavors() {
        let mut queue = queue("a", "", 1);
        queue.flavors_usage[0].name.clear();
        let text = shares_table(&[queue], &PLAIN);
        assert_eq!(
            text.lines().nth(1),
            Some("a      memory    6Gi   2Gi       0          8Gi        █░░░░░░░░░ 1"),
            "{text}"
        );
    }

    #[test]
    fn it_fits_the_terminal() {
        let name = "a-queue-with-a-name-that-is-rather-long-for-a-terminal";
        for width in [60, 80, 100] {
            let text = shares_table(&[queue(name, "", 999)], &Style { width: Some(width), ..PLAIN });
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            assert_eq!(text.lines().count(), 2, "{text}");
        }
    }

    #[test]
    fn parents_come_before_what_is_below_them() {
        let order = |pairs: &[(&str, &str)]| -> Vec<String> {
            let places = tree(pairs, |pair| *pair).into_iter();
            places.map(|(at, depth)| indented(pairs[at].0, depth)).collect()
        };
        assert_eq!(
            order(&[("a", "left"), ("b", "right"), ("left", "root"), ("q", ""), ("right", "root"), ("root", "")]),
            ["q", "root", "  left", "    a", "  right", "    b"]
        );
        assert_eq!(order(&[("a", "gone"), ("b", "a")]), ["a", "  b"]);
        assert_eq!(
            order(&[("a", "b"), ("b", "a"), ("c", "c")]),
            ["a", "b", "c"],
            "what never is, is shown all the same"
        );
    }
}
