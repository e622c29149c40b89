//! What a group asks of the tasks around it, as words.

use super::parse::{Words, pair};
use ohm_model::{NeighbourTerm, Neighbours, Operator, Requirement, SpreadConstraint};

impl Words<'_> {
    /// `[near:KEY=VALUE@LABEL[@NAMESPACE,…|*]] [far:…] [spread:KEY=VALUE@LABEL[@SKEW[@DOMAINS]]]`, each as often as
    /// wanted. `*` is every namespace, `KEY=VALUE` in its place those with that label.
    pub(super) fn neighbours(&mut self) -> Option<Box<Neighbours>> {
        let asked = Neighbours {
            spread: self.all("spread:").into_iter().map(spread).collect(),
            affinity: self.all("near:").into_iter().map(term).collect(),
            anti_affinity: self.all("far:").into_iter().map(term).collect(),
            preferred: Vec::new(),
        };
        (!asked.is_empty()).then(|| Box::new(asked))
    }
}

/// `KEY=VALUE`, or nothing for all tasks.
fn selector(text: &str) -> Vec<Requirement> {
    let (key, value) = pair(text);
    if key.is_empty() {
        return Vec::new();
    }
    vec![Requirement { key, operator: Operator::In, values: vec![value] }]
}

fn term(text: &str) -> NeighbourTerm {
    let mut parts = text.split('@');
    let selector = selector(parts.next().unwrap_or_default());
    let topology_key = parts.next().expect("KEY=VALUE@LABEL").to_string();
    let mut term = NeighbourTerm { selector: Some(selector), topology_key, ..NeighbourTerm::default() };
    match parts.next() {
        None => {}
        Some("*") => term.namespace_selector = Some(Vec::new()),
        Some(labels) if labels.contains('=') => term.namespace_selector = Some(self::selector(labels)),
        Some(names) => term.namespaces = names.split(',').map(String::from).collect(),
    }
    term
}

fn spread(text: &str) -> SpreadConstraint {
    let mut parts = text.split('@');
    let selector = selector(parts.next().unwrap_or_default());
    let topology_key = parts.next().expect("KEY=VALUE@LABEL");
    let mut number = || parts.next().map_or(1, |part| part.parse().expect("a number"));
    let (max_skew, min_domains) = (number(), number());
    SpreadConstraint { min_domains, ..SpreadConstraint::hard(topology_key, max_skew, selector) }
}
