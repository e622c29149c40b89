//! The bounds of resource groups, and what only specs that no file gave can break.

use ohm_manifest::{WEIGHT_MILLI_MAX, validate};
use ohm_model::queue::{FLAVORS_MAX, RESOURCE_GROUPS_MAX};
use ohm_model::{
    FairSharing, FlavorQuota, PreemptionPolicy, QueuePreemption, QueueSpec, ResourceGroup, ResourceQuota, Scheduling,
    ShareRule,
};

fn group(resource: String, flavors: usize) -> ResourceGroup {
    let resources = [(resource.clone(), ResourceQuota::default())];
    let flavor = |number| FlavorQuota { name: format!("f{number}"), resources: resources.clone().into() };
    ResourceGroup { covered_resources: vec![resource], flavors: (0..flavors).map(flavor).collect() }
}

/// A queue with a group of so many flavors each.
fn queue(flavors: &[usize]) -> QueueSpec {
    let groups = flavors.iter().enumerate();
    let resource_groups = groups.map(|(number, &flavors)| group(format!("ohm.test/r{number}"), flavors)).collect();
    QueueSpec { name: "q".into(), resource_groups, ..QueueSpec::default() }
}

fn problems(queue: &QueueSpec) -> Vec<String> {
    validate::queue(queue).iter().map(|violation| format!("{}: {}", violation.field, violation.problem)).collect()
}

#[test]
fn groups_flavors_and_their_combinations_are_bounded() {
    for good in [&[FLAVORS_MAX][..], &[16, 16], &[1; RESOURCE_GROUPS_MAX], &[2; 8]] {
        assert_eq!(problems(&queue(good)), [] as [&str; 0], "{good:?}");
    }
    for (bad, problem) in [
        (&[1; RESOURCE_GROUPS_MAX + 1][..], "spec.resourceGroups: holds 17 groups; at most 16 may be"),
        (&[1, FLAVORS_MAX + 1], "spec.resourceGroups[1].flavors: must hold 1 to 64 flavors, holds 65"),
        (
            &[16, 17],
            "spec.resourceGroups: the flavors of the groups can be combined in 272 ways; at most 256 may be: name \
             fewer",
        ),
    ] {
        assert_eq!(problems(&queue(bad)), [problem], "{bad:?}");
    }
    // Their number goes beyond any integer.
    let mut many = queue(&[64; 16]);
    assert_eq!(problems(&many).len(), 1);
    many.is_cohort = true;
    assert_eq!(problems(&many), [] as [&str; 0], "a cohort chooses no flavors");
}

#[test]
fn amounts_and_weights_are_in_their_ranges() {
    let mut queue = queue(&[1]);
    queue.weight_milli = WEIGHT_MILLI_MAX;
    assert_eq!(problems(&queue), [] as [&str; 0]);
    queue.weight_milli += 1;
    let quota = ResourceQuota { nominal: -1, borrowing_limit: Some(-2), lending_limit: Some(-1) };
    queue.resource_groups[0].flavors[0].resources.insert("ohm.test/r0".into(), quota);
    let at = |field| format!("spec.resourceGroups[0].flavors[0].resources[ohm.test/r0].{field}");
    let negative = "is negative; an amount is 0 or more";
    assert_eq!(
        problems(&queue),
        [
            "spec.fairSharing.weight: must be at most 1000000000".to_string(),
            format!("{}: {negative}", at("nominalQuota")),
            format!("{}: {negative}", at("borrowingLimit")),
            format!("{}: {negative}", at("lendingLimit")),
        ]
    );
}

#[test]
fn preemption_is_of_queues_and_in_the_words_of_each_field() {
    let mut queue = queue(&[1]);
    queue.preemption.within_cluster_queue = PreemptionPolicy::Any;
    queue.preemption.reclaim_within_cohort = PreemptionPolicy::LowerOrNewerEqualPriority;
    assert_eq!(
        problems(&queue),
        [
            "spec.preemption.withinClusterQueue: must be `Never`, `LowerPriority` or `LowerOrNewerEqualPriority`",
            "spec.preemption.reclaimWithinCohort: must be `Never`, `LowerPriority` or `Any`",
        ]
    );
    queue.is_cohort = true;
    let within_cluster_queue = PreemptionPolicy::LowerPriority;
    queue.preemption = QueuePreemption { within_cluster_queue, ..QueuePreemption::default() };
    assert_eq!(problems(&queue), ["spec.preemption: a cohort preempts nobody; say it of its queues"]);
}

#[test]
fn fair_sharing_has_one_rule_or_both() {
    let problems = |rules: &[ShareRule]| {
        let fair_sharing = Some(FairSharing { preemption_strategies: rules.to_vec() });
        validate::scheduling(&Scheduling { fair_sharing }).len()
    };
    let (last, first) = (ShareRule::LessThanOrEqualToFinalShare, ShareRule::LessThanInitialShare);
    for (rules, expected) in
        [(&[][..], 1), (&[last], 0), (&[first, last], 0), (&[last, last], 1), (&[last, first, last], 1)]
    {
        assert_eq!(problems(rules), expected, "{rules:?}");
    }
    assert_eq!(validate::scheduling(&Scheduling::default()), []);
}
