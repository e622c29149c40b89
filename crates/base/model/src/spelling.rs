//! Which texts of a spec are names, and by which rule of [`crate::names`]. One walk for everybody who judges: documents
//! at the edge, and commands in the cell.

use crate::budget::Budget;
use crate::job::{GROUPS_MAX, GroupSpec, JobSpec};
use crate::names::{self, NameError};
use crate::namespace::Namespace;
use crate::neighbours::{NeighbourTerm, Neighbours};
use crate::node::NodeSpec;
use crate::path::FieldPath;
use crate::priority::PriorityClass;
use crate::profile::{SchedulingProfile, Score};
use crate::provisioning::{Provisioner, ProvisioningClass};
use crate::queue::{QueueSpec, ResourceFlavor};
use crate::resources::Amounts;
use crate::selector::{Labels, Operator, Requirement, SelectorTerm, Toleration, TolerationOperator};
use crate::subqueue::Subqueue;
use crate::taint::Taint;
use crate::topology::{TopologyRequest, TopologySpec};

/// What takes the names that break a rule, and where they stand.
pub type Found<'f> = &'f mut dyn FnMut(FieldPath, NameError);

/// Makes the path of what is looked at; called only where something is wrong.
type Place<'p> = &'p dyn Fn() -> FieldPath;

/// Something with names in it.
pub trait Spelled {
    /// Hands every name that breaks its rule to `found`.
    fn spell(&self, found: Found<'_>);

    /// The first name that breaks its rule.
    fn misspelled(&self) -> Option<(FieldPath, NameError)> {
        let mut first = None;
        self.spell(&mut |field, error| {
            first.get_or_insert((field, error));
        });
        first
    }
}

fn expect(result: Result<(), NameError>, at: impl FnOnce() -> FieldPath, found: Found<'_>) {
    if let Err(error) = result {
        found(at(), error);
    }
}

fn metadata() -> FieldPath {
    FieldPath::root().field("metadata")
}

fn spec() -> FieldPath {
    FieldPath::root().field("spec")
}

fn own_name(name: &str, found: Found<'_>) {
    expect(names::dns_name(name), || metadata().field("name"), found);
}

fn labels(labels: &Labels, at: Place<'_>, found: Found<'_>) {
    for (key, value) in labels {
        let field = || at().field(key);
        expect(names::label_key(key), field, found);
        expect(names::label_value(value), field, found);
    }
}

fn amounts(amounts: &Amounts, at: Place<'_>, found: Found<'_>) {
    for name in amounts.keys() {
        expect(names::resource(name), || at().field(name), found);
    }
}

/// A name that may be left out.
fn optional(name: &str, rule: fn(&str) -> Result<(), NameError>) -> Result<(), NameError> {
    if name.is_empty() { Ok(()) } else { rule(name) }
}

fn tolerations(tolerations: &[Toleration], at: Place<'_>, found: Found<'_>) {
    for (index, toleration) in tolerations.iter().enumerate() {
        expect(optional(&toleration.key, names::label_key), || at().item(index), found);
        let value = match toleration.operator {
            TolerationOperator::Equal | TolerationOperator::Exists => names::label_value(&toleration.value),
            TolerationOperator::Gt | TolerationOperator::Lt => names::compared(&toleration.value),
        };
        expect(value, || at().item(index), found);
    }
}

fn taints(taints: &[Taint], at: Place<'_>, found: Found<'_>) {
    for (index, taint) in taints.iter().enumerate() {
        expect(names::label_key(&taint.key), || at().item(index).field("key"), found);
        expect(names::label_value(&taint.value), || at().item(index).field("value"), found);
    }
}

impl Spelled for NodeSpec {
    fn spell(&self, found: Found<'_>) {
        own_name(&self.name, found);
        labels(&self.labels, &|| metadata().field("labels"), found);
        taints(&self.taints, &|| spec().field("taints"), found);
        amounts(&self.capacity, &|| FieldPath::root().field("status").field("allocatable"), found);
        expect(names::address(&self.address), || FieldPath::root().field("status").field("addresses"), found);
    }
}

impl Spelled for TopologySpec {
    fn spell(&self, found: Found<'_>) {
        own_name(&self.name, found);
        for (index, level) in self.levels.iter().enumerate() {
            expect(names::label_key(level), || spec().field("levels").item(index).field("nodeLabel"), found);
        }
    }
}

impl Spelled for QueueSpec {
    fn spell(&self, found: Found<'_>) {
        own_name(&self.name, found);
        let parent = if self.is_cohort { "parent" } else { "cohort" };
        expect(optional(&self.parent, names::dns_name), || spec().field(parent), found);
        let all = [
            ("nominalQuota", &self.nominal),
            ("borrowingLimit", &self.borrowing_limit),
            ("lendingLimit", &self.lending_limit),
        ];
        for (field, quota) in all {
            amounts(quota, &|| spec().field(field), found);
        }
        for resource in self.usage_based_order.iter().flat_map(|order| order.resource_weights.keys()) {
            let at = || spec().field("usageBasedOrder").field("resourceWeights").field(resource);
            expect(names::resource(resource), at, found);
        }
        for (index, group) in self.resource_groups.iter().enumerate() {
            let at = || spec().field("resourceGroups").item(index);
            for (index, resource) in group.covered_resources.iter().enumerate() {
                expect(names::resource(resource), || at().field("coveredResources").item(index), found);
            }
            for (index, flavor) in group.flavors.iter().enumerate() {
                let field = || at().field("flavors").item(index);
                expect(names::dns_name(&flavor.name), || field().field("name"), found);
                for resource in flavor.resources.keys() {
                    expect(names::resource(resource), || field().field("resources").field(resource), found);
                }
            }
        }
        for (index, namespace) in self.namespaces.iter().flat_map(|names| names.iter()).enumerate() {
            expect(names::namespace(namespace), || spec().field("namespaces").item(index), found);
        }
        for (index, check) in self.admission_checks.iter().enumerate() {
            let field = || spec().field("admissionChecks").item(index);
            expect(names::dns_name(&check.name), field, found);
            for (index, flavor) in check.on_flavors.iter().enumerate() {
                expect(names::dns_name(flavor), || field().field("onFlavors").item(index), found);
            }
        }
    }
}

impl Spelled for ResourceFlavor {
    fn spell(&self, found: Found<'_>) {
        own_name(&self.name, found);
        labels(&self.node_labels, &|| spec().field("nodeLabels"), found);
        taints(&self.node_taints, &|| spec().field("nodeTaints"), found);
        tolerations(&self.tolerations, &|| spec().field("tolerations"), found);
    }
}

impl Spelled for Subqueue {
    fn spell(&self, found: Found<'_>) {
        own_name(&self.name, found);
        expect(names::dns_name(&self.queue), || spec().field("queue"), found);
    }
}

impl Spelled for Namespace {
    fn spell(&self, found: Found<'_>) {
        expect(names::namespace(&self.name), || metadata().field("name"), found);
        labels(&self.labels, &|| metadata().field("labels"), found);
    }
}

impl Spelled for Budget {
    fn spell(&self, found: Found<'_>) {
        expect(names::job_name(&self.name), || metadata().field("name"), found);
        requirements(self.selector.as_deref(), &|| spec().field("selector"), found);
    }
}

impl Spelled for PriorityClass {
    fn spell(&self, found: Found<'_>) {
        own_name(&self.name, found);
    }
}

impl Spelled for ProvisioningClass {
    fn spell(&self, found: Found<'_>) {
        own_name(&self.name, found);
        if let Provisioner::Webhook { url } = &self.provisioner {
            expect(names::plain(url), || spec().field("url"), found);
        }
        for key in self.parameters.keys() {
            expect(names::plain(key), || spec().field("parameters").field(key), found);
        }
    }
}

impl Spelled for SchedulingProfile {
    fn spell(&self, found: Found<'_>) {
        own_name(&self.name, found);
        for weighted in &self.scores {
            if let Score::PodTopologySpread { topology_key: Some(topology_key) } = &weighted.score {
                expect(names::label_key(topology_key), || spec().field("pluginConfig"), found);
            }
        }
    }
}

/// What a provisioner says about the nodes that it brought.
impl Spelled for (&Labels, &[Toleration]) {
    fn spell(&self, found: Found<'_>) {
        labels(self.0, &|| FieldPath::root().field("nodeSelector"), found);
        tolerations(self.1, &|| FieldPath::root().field("tolerations"), found);
    }
}

impl Spelled for JobSpec {
    fn spell(&self, found: Found<'_>) {
        expect(names::job_name(&self.name), || metadata().field("name"), found);
        labels(&self.labels, &|| metadata().field("labels"), found);
        for queue in [&self.queue, &self.subqueue] {
            expect(optional(queue, names::dns_name), || spec().field("queue"), found);
        }
        expect(optional(&self.priority_class, names::dns_name), || spec().field("priorityClassName"), found);
        let widen_to = || spec().field("repair").field("widenTo");
        expect(optional(&self.repair.widen_to, names::label_key), widen_to, found);
        // More are refused by their number.
        for (index, spec_of) in self.groups.iter().take(GROUPS_MAX).enumerate() {
            group(spec_of, &|| spec().field("groups").item(index), found);
        }
    }
}

fn group(group: &GroupSpec, at: Place<'_>, found: Found<'_>) {
    expect(names::dns_label(&group.name), || at().field("name"), found);
    amounts(&group.requests, &|| at().field("requests"), found);
    amounts(&group.limits, &|| at().field("limits"), found);
    labels(&group.node_selector, &|| at().field("nodeSelector"), found);
    let affinity = || at().field("affinity").field("nodeAffinity");
    for (index, one) in group.affinity.iter().enumerate() {
        let required = || affinity().field("requiredDuringSchedulingIgnoredDuringExecution");
        term(one, &|| required().field("nodeSelectorTerms").item(index), found);
    }
    for (index, (_, one)) in group.preferred.iter().enumerate() {
        let preferred = || affinity().field("preferredDuringSchedulingIgnoredDuringExecution").item(index);
        term(one, &|| preferred().field("preference"), found);
    }
    labels(&group.labels, &|| at().field("labels"), found);
    group.neighbours.iter().for_each(|asked| neighbours(asked, at, found));
    tolerations(&group.tolerations, &|| at().field("tolerations"), found);
    topology(&group.topology, &|| at().field("topology"), found);
    expect(names::label_value(&group.place_with), || at().field("placeWith"), found);
    for (index, (name, _)) in group.task.env.iter().enumerate() {
        expect(names::environment(name), || at().field("env").item(index).field("name"), found);
    }
}

fn neighbours(asked: &Neighbours, at: Place<'_>, found: Found<'_>) {
    for (index, constraint) in asked.spread.iter().enumerate() {
        let item = || at().field("topologySpreadConstraints").item(index);
        expect(names::label_key(&constraint.topology_key), || item().field("topologyKey"), found);
        requirements(constraint.selector.as_deref(), &|| item().field("labelSelector"), found);
    }
    let affinity = |name: &'static str| at().field("affinity").field(name);
    let required = |name| affinity(name).field("requiredDuringSchedulingIgnoredDuringExecution");
    let preferred = |name| affinity(name).field("preferredDuringSchedulingIgnoredDuringExecution");
    for (name, terms, sign) in [("podAffinity", &asked.affinity, 1), ("podAntiAffinity", &asked.anti_affinity, -1)] {
        for (index, term) in terms.iter().enumerate() {
            neighbour_term(term, &|| required(name).item(index), found);
        }
        let liked = asked.preferred.iter().filter(|(weight, _)| weight.signum() == sign);
        for (index, (_, term)) in liked.enumerate() {
            neighbour_term(term, &|| preferred(name).item(index).field("podAffinityTerm"), found);
        }
    }
}

fn neighbour_term(term: &NeighbourTerm, at: Place<'_>, found: Found<'_>) {
    expect(names::label_key(&term.topology_key), || at().field("topologyKey"), found);
    requirements(term.selector.as_deref(), &|| at().field("labelSelector"), found);
    requirements(term.namespace_selector.as_deref(), &|| at().field("namespaceSelector"), found);
    let wrong = term.namespaces.iter().find_map(|name| names::namespace(name).err());
    expect(wrong.map_or(Ok(()), Err), || at().field("namespaces"), found);
}

fn term(term: &SelectorTerm, at: Place<'_>, found: Found<'_>) {
    requirements(Some(&term.requirements), at, found);
    for (index, of_name) in term.fields.iter().enumerate() {
        // A name that no node can have is on none.
        let wrong =
            of_name.values.iter().find_map(|value| names::dns_name(value).or_else(|_| names::label_value(value)).err());
        let field = || at().field("matchFields").item(index).field("values");
        expect(wrong.map_or(Ok(()), Err), field, found);
    }
}

fn requirements(of: Option<&[Requirement]>, at: Place<'_>, found: Found<'_>) {
    for (index, requirement) in of.unwrap_or_default().iter().enumerate() {
        let field = || at().field("matchExpressions").item(index);
        expect(names::label_key(&requirement.key), || field().field("key"), found);
        // What Gt and Lt compare with is a number, which may be negative.
        if matches!(requirement.operator, Operator::In | Operator::NotIn) {
            let wrong = requirement.values.iter().find_map(|value| names::label_value(value).err());
            expect(wrong.map_or(Ok(()), Err), || field().field("values"), found);
        }
    }
}

fn topology(request: &TopologyRequest, at: Place<'_>, found: Found<'_>) {
    expect(optional(&request.topology, names::dns_name), at, found);
    expect(optional(&request.level, names::label_key), at, found);
    for (layer, slice) in request.slices.iter().enumerate() {
        expect(names::label_key(&slice.level), || at().field("slices").item(layer).field("level"), found);
    }
}
