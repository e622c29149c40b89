//! What the arguments of plugins ask of all jobs of a class.

use crate::question::Scene;
use ohm_manifest::Plugins;
use ohm_model::{JobSpec, SelectorTerm};

/// Lets the arguments of plugins count for the jobs of their class: nodes must be such as `addedAffinity` says, or are
/// liked for it, and no node is looked at for resources that are ignored.
pub(crate) fn apply(scene: &mut Scene) {
    let Scene { facts, jobs, .. } = scene;
    for job in jobs.iter_mut().filter(|job| !job.is_bound_pod) {
        if let Some(plugins) = facts.plugins.get(&job.spec.class) {
            apply_to(plugins, &mut job.spec);
        }
    }
}

fn apply_to(plugins: &Plugins, job: &mut JobSpec) {
    for group in &mut job.groups {
        if !plugins.added_affinity.required.is_empty() {
            group.affinity = both(&group.affinity, &plugins.added_affinity.required);
        }
        group.preferred.extend(plugins.added_affinity.preferred.iter().cloned());
        group.requests.retain(|name, _| !plugins.fit.ignores(name));
        group.limits.retain(|name, _| !plugins.fit.ignores(name));
    }
}

/// The alternatives that meet one of each list; the first list asks for nothing where it is empty.
fn both(own: &[SelectorTerm], added: &[SelectorTerm]) -> Vec<SelectorTerm> {
    if own.is_empty() {
        return added.to_vec();
    }
    let pairs = own.iter().flat_map(|own| added.iter().map(move |added| (own, added)));
    // What says nothing is met by no node, and stays so.
    let pairs = pairs.filter(|(own, added)| !own.is_empty() && !added.is_empty());
    let merged = pairs.map(|(own, added)| SelectorTerm {
        requirements: own.requirements.iter().chain(&added.requirements).cloned().collect(),
        fields: own.fields.iter().chain(&added.fields).cloned().collect(),
    });
    let merged: Vec<SelectorTerm> = merged.collect();
    if merged.is_empty() { vec![SelectorTerm::default()] } else { merged }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn terms_are_met_together() {
        let named = |name: &str| SelectorTerm::named(name);
        let met = |terms: &[SelectorTerm], name: &str| terms.iter().any(|term| term.matches(name, &BTreeMap::new()));
        let terms = both(&[named("a"), named("b")], &[named("b"), named("c")]);
        assert_eq!((terms.len(), met(&terms, "b"), met(&terms, "a"), met(&terms, "c")), (4, true, false, false));
        assert!(met(&both(&[], &[named("a")]), "a"));
        assert!(!met(&both(&[SelectorTerm::default()], &[named("a")]), "a"));
    }
}
