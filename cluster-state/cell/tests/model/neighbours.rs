//! Rules about other tasks the slow way: every run on every node is looked at.

use crate::state::{LEVELS, Plain, PlainRun};
use ohm_model::{
    ConflictReason, GroupSpec, JobId, NeighbourTerm, Neighbours, NodeHealth, NodeId, Operator, Requirement,
    SpreadConstraint, split_job_name,
};
use ohm_stdx::Prng;
use std::collections::BTreeMap;

impl Plain {
    /// Why no task of a group may begin on `node` for want of a task that it must be near.
    pub(crate) fn judge_near(&self, (id, group): (JobId, u16), node: NodeId) -> Result<(), ConflictReason> {
        let spec = &self.jobs[&id].spec.groups[usize::from(group)];
        let Some(asked) = spec.neighbours.as_ref().filter(|asked| !asked.affinity.is_empty()) else { return Ok(()) };
        let met = |job: JobId, labels: &GroupSpec| asked.affinity.iter().all(|term| self.means(term, id, job, labels));
        let all: Vec<&PlainRun> = self.all_occupants().filter(|run| met(run.job, self.group_of(run))).collect();
        let is_near = |term: &NeighbourTerm| {
            let domain = self.value(node, &term.topology_key);
            let there = |run: &&PlainRun| self.value(run.node, &term.topology_key) == domain;
            domain.is_some() && all.iter().any(there)
        };
        let has_labels = asked.affinity.iter().all(|term| self.value(node, &term.topology_key).is_some());
        // Tasks on nodes without a label are counted under none.
        let counted = |term: &NeighbourTerm| all.iter().any(|run| self.value(run.node, &term.topology_key).is_some());
        let is_first = !asked.affinity.iter().any(counted) && met(id, spec) && has_labels;
        let near = asked.affinity.iter().all(is_near) || is_first;
        if near { Ok(()) } else { Err(ConflictReason::PodAffinity) }
    }

    /// Why the next task of a group may not begin on `node` for those that it must not be near, or must stand even with.
    pub(crate) fn judge_apart(&self, (id, group): (JobId, u16), node: NodeId) -> Result<(), ConflictReason> {
        let spec = &self.jobs[&id].spec.groups[usize::from(group)];
        let together = |run: &PlainRun, key: &str| {
            let domain = self.value(node, key);
            domain.is_some() && self.value(run.node, key) == domain
        };
        let repels = |run: &&PlainRun| {
            let other = self.group_of(run);
            let theirs = other.neighbours.iter().flat_map(|asked| &asked.anti_affinity);
            let mut theirs = theirs.filter(|term| together(run, &term.topology_key));
            let own = spec.neighbours.iter().flat_map(|asked| &asked.anti_affinity);
            let mut own = own.filter(|term| together(run, &term.topology_key));
            theirs.any(|term| self.means(term, run.job, id, spec))
                || own.any(|term| self.means(term, id, run.job, other))
        };
        if self.all_occupants().any(|run| repels(&run)) {
            return Err(ConflictReason::PodAntiAffinity);
        }
        let even = |constraint: &SpreadConstraint| self.stays_even(id, spec, constraint, node);
        let mut hard = spec.neighbours.iter().flat_map(|asked| asked.hard_spread());
        if hard.all(even) { Ok(()) } else { Err(ConflictReason::PodTopologySpread) }
    }

    fn stays_even(&self, id: JobId, spec: &GroupSpec, constraint: &SpreadConstraint, node: NodeId) -> bool {
        let key = &constraint.topology_key;
        let Some(domain) = self.value(node, key) else { return false };
        let wish = self.jobs[&id].filtered(spec);
        let hard = || spec.neighbours.as_deref().into_iter().flat_map(Neighbours::hard_spread);
        let counts = |node: NodeId| {
            let labels = || hard().all(|other| self.value(node, &other.topology_key).is_some());
            let is_there = self.nodes.get(&node).is_some_and(|found| found.health != NodeHealth::Lost);
            let selected = || wish.node_selector.iter().all(|(key, value)| self.value(node, key) == Some(value));
            is_there && labels() && (!constraint.honours_affinity || selected())
        };
        let mut tasks: BTreeMap<&String, i64> = BTreeMap::new();
        for node in self.nodes.keys().filter(|node| counts(**node)) {
            tasks.extend(self.value(*node, key).map(|domain| (domain, 0)));
        }
        let namespace = split_job_name(&self.jobs[&id].spec.name).0;
        let meant = |job: JobId, group: &GroupSpec| {
            let same = split_job_name(&self.jobs[&job].spec.name).0 == namespace;
            same && constraint.selector.as_ref().is_some_and(|all| all.iter().all(|one| fits(one, group)))
        };
        let says_nothing = constraint.selector.as_ref().is_some_and(Vec::is_empty);
        let counted = |run: &&PlainRun| run.stop.is_none() && !says_nothing && counts(run.node);
        for run in self.all_occupants().filter(counted).filter(|run| meant(run.job, self.group_of(run))) {
            let there = self.value(run.node, key).and_then(|domain| tasks.get_mut(domain));
            there.into_iter().for_each(|tasks| *tasks += 1);
        }
        let is_narrow = (tasks.len() as u32) < constraint.min_domains;
        let fewest = if is_narrow { 0 } else { tasks.values().copied().min().unwrap_or(0) };
        let own = i64::from(meant(id, spec));
        tasks.get(domain).copied().unwrap_or(0) + own - fewest <= i64::from(constraint.max_skew)
    }

    fn all_occupants(&self) -> impl Iterator<Item = &PlainRun> {
        self.nodes.keys().flat_map(|node| self.occupants(*node))
    }

    /// The value of a label of a node that is there.
    fn value(&self, node: NodeId, key: &str) -> Option<&String> {
        let found = self.nodes.get(&node).filter(|found| found.health != NodeHealth::Lost)?;
        found.spec.labels.get(key)
    }

    /// Whether a term of a group of the job `who` means tasks of such a group of `whom`.
    fn means(&self, term: &NeighbourTerm, who: JobId, whom: JobId, group: &GroupSpec) -> bool {
        let of = |job: JobId| split_job_name(&self.jobs[&job].spec.name).0;
        let everywhere = term.namespace_selector.as_ref().is_some_and(Vec::is_empty);
        let near = match (term.namespaces.is_empty(), &term.namespace_selector) {
            (true, None) => of(who) == of(whom),
            _ => term.namespaces.contains(of(whom)) || everywhere,
        };
        near && term.selector.as_ref().is_some_and(|all| all.iter().all(|one| fits(one, group)))
    }
}

/// Whether it is a reason of these rules.
pub(crate) fn is_of_neighbours(reason: ConflictReason) -> bool {
    use ConflictReason::{PodAffinity, PodAntiAffinity, PodTopologySpread};
    matches!(reason, PodAffinity | PodAntiAffinity | PodTopologySpread)
}

/// Whether the labels of a group are as one requirement says: that a key has a value.
fn fits(requirement: &Requirement, group: &GroupSpec) -> bool {
    group.labels.get(&requirement.key).is_some_and(|value| requirement.values.contains(value))
}

/// Labels, and for some groups rules about other tasks.
pub(crate) fn draw(dice: &mut Prng, group: &mut GroupSpec) {
    relabel(dice, group);
    let own = group.labels["app"].clone();
    let mut asked = Neighbours::default();
    let term = |dice: &mut Prng| {
        let app = if dice.chance(500) { own.clone() } else { app(dice) };
        let namespace_selector = dice.chance(200).then(Vec::new);
        let topology_key = key(dice);
        NeighbourTerm { selector: Some(is(app)), topology_key, namespace_selector, ..NeighbourTerm::default() }
    };
    if dice.chance(120) {
        asked.affinity.push(term(dice));
    }
    if dice.chance(150) {
        asked.anti_affinity.push(term(dice));
    }
    if dice.chance(150) {
        let (min_domains, honours_affinity) = (dice.between(1, 3) as u32, dice.chance(500));
        let constraint = SpreadConstraint::hard(key(dice), dice.between(1, 2) as u32, is(own));
        asked.spread.push(SpreadConstraint { min_domains, honours_affinity, ..constraint });
    }
    if !asked.is_empty() && !group.topology.is_asked() {
        group.neighbours = Some(Box::new(asked));
    }
}

/// Another label for the tasks of a group.
pub(crate) fn relabel(dice: &mut Prng, group: &mut GroupSpec) {
    group.labels.insert("app".into(), app(dice));
}

fn app(dice: &mut Prng) -> String {
    ["web", "db"][dice.below(2) as usize].into()
}

fn key(dice: &mut Prng) -> String {
    let keys = [LEVELS[0], LEVELS[1], ohm_model::node::HOSTNAME_LABEL];
    keys[dice.below(3) as usize].into()
}

fn is(app: String) -> Vec<Requirement> {
    vec![Requirement { key: "app".into(), operator: Operator::In, values: vec![app] }]
}
