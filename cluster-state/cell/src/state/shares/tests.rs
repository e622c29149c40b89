//! Shares compare as the fractions that they are.

use super::*;
use crate::state::flavors::NO_FLAVOR;
use crate::state::resources::{CPU, MEMORY};
use ohm_model::QueueSpec;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn share(borrowed: i64, lendable: i64, weight_milli: u64) -> Share {
    Share { borrowed, lendable, weight_milli, dominant: Some(CPU) }
}

#[test]
fn shares_are_rounded_up() {
    for (share, expected) in [
        (Share::default(), 0),
        (share(2, 10, 1000), 200),
        (share(1, 1500, 1000), 1),
        (share(300, 1500, 300_000), 1),
        (share(5, 10, 500), 1000),
        (share(0, 1, 1000), 0),
        (share(1000, i64::MAX, 1000), 1),
        (share(i64::MAX, i64::MAX, 1000), 1000),
        (share(i64::MAX, 1, 1), i64::MAX),
        (share(2, 15, 0), i64::MAX),
    ] {
        assert_eq!(share.weighted(), expected, "{share:?}");
    }
}

#[test]
fn who_borrows_without_a_weight_has_more_than_all_others() {
    let none = Share::default();
    let mut shares = [share(3, 10, 0), share(i64::MAX, 1, 1), share(1, 10, 0), share(0, 1, 1), none, share(1, 10, 1)];
    shares.sort();
    let order: Vec<(i64, u64)> = shares.iter().map(|share| (share.borrowed, share.weight_milli)).collect();
    assert_eq!(order, [(0, 1), (0, 1000), (1, 1), (i64::MAX, 1), (1, 0), (3, 0)]);
    assert!(share(1, 10, 1000) == share(2, 20, 1000) && share(1, 10, 1000) == share(2, 10, 2000));
    // No float tells these apart.
    assert!(share(i64::MAX - 1, i64::MAX, 1000) < share(i64::MAX, i64::MAX, 1000));
    assert!(share(1, i64::MAX, 1000) > share(1, i64::MAX, 1001));
}

proptest! {
    /// Small fractions, of which the products fit.
    #[test]
    fn fractions_compare_as_their_products(a in 0..2000u128, b in 1..2000u128, c in 0..2000u128, d in 1..2000u128) {
        prop_assert_eq!(compare_fractions((a, b), (c, d)), (a * d).cmp(&(c * b)));
    }
}

/// Two queues in one cohort; each has 10 of cpu and of memory.
fn quota() -> Quota {
    let mut quota = Quota::default();
    for name in ["a", "b"] {
        let nominal = [("cpu".to_string(), 10), ("memory".to_string(), 10)].into();
        quota.put(QueueSpec { name: name.into(), parent: "all".into(), nominal, ..QueueSpec::default() });
    }
    for resource in [CPU, MEMORY] {
        quota.columns.intern(NO_FLAVOR, resource);
    }
    quota.rebuild(&ResourceNames::default(), &BTreeMap::new());
    quota
}

#[test]
fn a_share_with_usage_laid_over_is_the_one_it_will_be() {
    let (mut quota, names) = (quota(), ResourceNames::default());
    let (cpu, memory) = (FlavorResource(0), FlavorResource(1));
    quota.charge("a", [(cpu, 12), (memory, 9)].into_iter());
    let a = quota.find("a").expect("a queue");
    assert_eq!((quota.share("a", &names), quota.share("b", &names)), (share(2, 20, 1000), Share::default()));
    let mut over = Grid::default();
    quota.charge_over(a, memory, 5, &mut over);
    let more = quota.share_over(a, &names, &over);
    assert_eq!((more, more.dominant(), more.weighted()), (share(4, 20, 1000), Some(MEMORY), 200));
    quota.charge_over(a, cpu, 2, &mut over);
    assert_eq!(quota.share_over(a, &names, &over).dominant(), Some(CPU), "the first by name of equal ones");
    quota.charge_over(a, cpu, -4, &mut over);
    quota.charge_over(a, memory, -5, &mut over);
    assert_eq!(quota.share_over(a, &names, &over), Share::default());
    let all = quota.find("all").expect("a cohort");
    assert_eq!(quota.share_over(all, &names, &over), Share::default(), "nobody lends to a root");
}

#[test]
fn who_is_lent_nothing_borrows_all_the_same() {
    let (mut quota, names) = (quota(), ResourceNames::default());
    let mut lone = quota.get("b").expect("a queue").spec.clone();
    (lone.nominal, lone.lending_limit) = ([("cpu".to_string(), 10)].into(), [("cpu".to_string(), 0)].into());
    quota.put(lone.clone());
    let nominal = [("memory".to_string(), 0), ("cpu".to_string(), 0)].into();
    quota.put(QueueSpec { name: "a".into(), nominal, ..lone });
    quota.rebuild(&names, &BTreeMap::new());
    quota.charge("a", [(FlavorResource(1), 3)].into_iter());
    let share = quota.share("a", &names);
    assert_eq!((share.weighted(), share.dominant(), share.is_infinite()), (0, Some(MEMORY), false));
}
