//! Subqueues: each is below a queue that is there, and jobs are in the one that they name; exactly the queues with an
//! order have books, and those say what the jobs are charged.

use crate::cell::Cell;
use crate::state::requests::charged_by_resource;
use ohm_model::ResourceId;
use std::collections::BTreeMap;

pub(crate) fn check_subqueues(cell: &Cell, broken: &mut Vec<String>) {
    for subqueue in cell.subqueues.iter() {
        if cell.quota.get(&subqueue.queue).is_none_or(|queue| queue.spec.is_cohort) {
            broken.push(format!("subqueue {} is below queue {}, which is none", subqueue.name, subqueue.queue));
        }
        if cell.quota.get(&subqueue.name).is_some() {
            broken.push(format!("subqueue {} has the name of a queue or cohort", subqueue.name));
        }
    }
    for job in cell.jobs.iter().filter(|job| !job.spec.subqueue.is_empty()) {
        if cell.subqueues.get(&job.spec.subqueue).is_none_or(|subqueue| subqueue.queue != job.spec.queue) {
            let (name, queue, subqueue) = (&job.spec.name, &job.spec.queue, &job.spec.subqueue);
            broken.push(format!("job {name} is in queue {queue}, and not in the one of its subqueue {subqueue}"));
        }
    }
    for queue in cell.quota.iter() {
        if queue.spec.usage_based_order.is_some() != cell.subqueues.book(&queue.spec.name).is_some() {
            broken.push(format!("queue {} has an order by usage and no book, or a book and none", queue.spec.name));
        }
    }
    check_used(cell, broken);
}

fn check_used(cell: &Cell, broken: &mut Vec<String>) {
    if !cell.subqueues.keep_any() {
        return;
    }
    let jobs = charged_by_resource(cell);
    let mut used: BTreeMap<(&str, &str), BTreeMap<ResourceId, i64>> = BTreeMap::new();
    for (_, queue, part, amounts) in jobs.iter().filter(|(_, queue, ..)| cell.subqueues.book(queue).is_some()) {
        let sums = used.entry((queue, part)).or_default();
        amounts.iter().for_each(|(resource, amount)| *sums.entry(*resource).or_insert(0) += amount);
    }
    used.retain(|_, sums| !sums.is_empty());
    let known = cell.subqueues.used();
    if known != used {
        broken.push(format!("subqueues are charged {known:?}, and their jobs hold {used:?}"));
    }
}
