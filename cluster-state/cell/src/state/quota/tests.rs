//! What is only held counts as what is charged.

use super::*;
use crate::state::resources::CPU;
use proptest::prelude::*;

const COLUMN: FlavorResource = FlavorResource(0);
const NAMES: [&str; 6] = ["root", "left", "right", "a", "b", "c"];
const PARENTS: [&str; 6] = ["", "root", "root", "left", "left", "right"];

fn tree(limits: &[(i64, Option<i64>, Option<i64>)]) -> Quota {
    let mut quota = Quota::default();
    let amounts = |amount: Option<i64>| amount.map(|amount| ("cpu".to_string(), amount)).into_iter().collect();
    for ((name, parent), &(nominal, borrowing, lending)) in NAMES.iter().zip(PARENTS).zip(limits) {
        quota.put(QueueSpec {
            name: name.to_string(),
            is_cohort: !matches!(*name, "a" | "b" | "c"),
            parent: parent.into(),
            nominal: amounts(Some(nominal)),
            borrowing_limit: amounts(borrowing),
            lending_limit: amounts(lending),
            ..QueueSpec::default()
        });
    }
    assert_eq!(quota.columns.intern(NO_FLAVOR, CPU), COLUMN);
    quota.rebuild(&ResourceNames::default(), &BTreeMap::new());
    quota
}

fn limit() -> impl Strategy<Value = Option<i64>> {
    proptest::option::of(0..20i64)
}

proptest! {
    /// What is left beside amounts that are only held is what is left once they are charged.
    #[test]
    fn held_amounts_count_as_charged_ones(
        limits in proptest::collection::vec((0..20i64, limit(), limit()), 6),
        charged in proptest::collection::vec((3..6usize, 0..12i64), 0..6),
        held in proptest::collection::vec((3..6usize, 0..12i64), 0..6),
    ) {
        let mut quota = tree(&limits);
        for (queue, amount) in charged {
            quota.charge(NAMES[queue], [(COLUMN, amount)].into_iter());
        }
        let mut over = Grid::default();
        for &(held, amount) in &held {
            quota.charge_over(quota.find(NAMES[held]).expect("a queue"), COLUMN, amount, &mut over);
        }
        let beside = |queue| quota.available_over(quota.find(queue).expect("a queue"), COLUMN, &over);
        let mut after = quota.clone();
        for &(queue, amount) in &held {
            after.charge(NAMES[queue], [(COLUMN, amount)].into_iter());
        }
        for queue in ["a", "b", "c"] {
            prop_assert_eq!(beside(queue), after.available(queue, COLUMN), "{}", queue);
        }
    }
}
