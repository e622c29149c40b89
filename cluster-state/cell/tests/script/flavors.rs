//! Words about resource flavors.

use super::Script;
use super::parse::{Words, limit, pair, taint};
use ohm_cell::{column_name, flavors_of, no_offer};
use ohm_model::{
    FlavorChoice, FlavorQuota, GroupIndex, ResourceFlavor, ResourceGroup, ResourceQuota, ShapeId, Toleration,
};

impl Words<'_> {
    /// `flavor NAME [label:KEY=VALUE…] [taint:KEY=VALUE:EFFECT…] [tolerates=KEY]`
    pub(super) fn flavor(&mut self) -> ResourceFlavor {
        let name = self.need("name").to_string();
        let node_labels = self.all("label:").into_iter().map(pair).collect();
        let node_taints = self.all("taint:").into_iter().map(taint).collect();
        let tolerations = self.option("tolerates").into_iter().map(|key| Toleration {
            operator: ohm_model::TolerationOperator::Exists,
            key: key.to_string(),
            value: String::new(),
            effect: None,
            toleration_seconds: None,
        });
        ResourceFlavor { name, node_labels, node_taints, tolerations: tolerations.collect() }
    }

    /// `/ covers RESOURCE,RESOURCE / flavor NAME [borrow:RESOURCE=…] [lend:RESOURCE=…] RESOURCE=QUANTITY… / …`
    pub(super) fn resource_groups(&mut self) -> Vec<ResourceGroup> {
        let mut groups: Vec<ResourceGroup> = Vec::new();
        while self.take("/") {
            match self.need("covers or flavor") {
                "covers" => groups.push(ResourceGroup {
                    covered_resources: self.need("resources").split(',').map(String::from).collect(),
                    flavors: Vec::new(),
                }),
                "flavor" => {
                    let name = self.need("name").to_string();
                    let limits = |words: Vec<&str>| words.into_iter().map(limit).collect::<Vec<_>>();
                    let (borrow, lend) = (limits(self.all("borrow:")), limits(self.all("lend:")));
                    let of = |limits: &[(String, i64)], name: &str| {
                        limits.iter().find(|(known, _)| known == name).map(|(_, amount)| *amount)
                    };
                    let quota = |(name, nominal): (String, i64)| {
                        let (borrowing_limit, lending_limit) = (of(&borrow, &name), of(&lend, &name));
                        (name, ResourceQuota { nominal, borrowing_limit, lending_limit })
                    };
                    let resources = self.amounts().into_iter().map(quota).collect();
                    groups.last_mut().expect("covers").flavors.push(FlavorQuota { name, resources });
                }
                other => panic!("no part of a queue is called `{other}`"),
            }
        }
        groups
    }
}

impl Script {
    /// `JOB/GROUP FLAVOR,FLAVOR`: the offer with these flavors, or `#N` for the shape with this number.
    pub(super) fn flavor_choice(&self, words: &mut Words) -> FlavorChoice {
        let (job, group) = self.job_and_group(words.need("job/group"));
        let wanted = words.need("flavors");
        let cell = &self.cell;
        let named = |shape: &ShapeId| {
            let charges = cell.shapes().get(*shape).into_iter().flat_map(|shape| &shape.charges);
            let mut names: Vec<&str> = charges.map(|(column, _)| cell.quota().columns().flavor(*column)).collect();
            names.retain(|name| !name.is_empty());
            names.dedup();
            names.join(",") == wanted
        };
        let offers = cell.jobs().get(job).map(|job| job.groups[usize::from(group)].offers.clone()).unwrap_or_default();
        let by_number = wanted.strip_prefix('#').map(|number| ShapeId(number.parse().expect("a number")));
        let shape = by_number.or_else(|| offers.iter().copied().find(named)).expect("an offer with these flavors");
        FlavorChoice { job, group: GroupIndex(group), shape }
    }

    /// What each group of a job has, and what it may have.
    pub(super) fn flavors_text(&self, name: &str) -> String {
        let Some(job) = self.cell.jobs().find(name) else { return format!("job {name} is not known") };
        let cell = &self.cell;
        let names = |shape: ShapeId| -> String {
            let charges = cell.shapes().get(shape).into_iter().flat_map(|shape| &shape.charges);
            charges.map(|(column, _)| column_name(cell, *column)).collect::<Vec<_>>().join(" ")
        };
        let group = |at: usize| {
            let (group, spec) = (&job.groups[at], &job.spec.groups[at]);
            let offers: Vec<String> = group.offers.iter().map(|shape| names(*shape)).collect();
            let has = flavors_of(cell, job, at);
            let why = no_offer(cell, job, at).map(|why| format!("; {why:?}")).unwrap_or_default();
            format!("{}: has {has:?}, is offered {offers:?}{why}", spec.name)
        };
        let groups: Vec<String> = (0..job.groups.len()).map(group).collect();
        format!("flavors of {name}: {}", groups.join("; "))
    }
}
