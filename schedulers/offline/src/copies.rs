//! How many more copies of a job would fit, and what limits them.
//!
//! Copies are submitted to a copy of the cell and planned like any job until one finds no room.

use crate::answer::{ClassRoom, Copies, GroupRoom};
use crate::settle::{Ending, settle};
use crate::world::World;
use ohm_cell::{Job, Overlay};
use ohm_framework::{Excluded, Need, View, count_miss, need_of};
use ohm_model::node::HOSTNAME_LABEL;
use ohm_model::{Amounts, GroupIndex, JobSpec, SessionId, Taint};
use ohm_placement::Subject;
use std::collections::BTreeMap;

/// Counting stops here.
const COPIES_MAX: u32 = 10_000;
/// Counting stops with the copy that brings the number of tasks to this.
const TASKS_MAX: u64 = 1_000_000;

/// Counts the copies of `spec` that fit beside what stands in `world`.
pub(crate) fn count(world: &World, spec: &JobSpec) -> Copies {
    let mut world = world.fork();
    let mut copies = Copies { job: spec.name.clone(), copies: 0, at_least: false, reason: None, groups: Vec::new() };
    let tasks: u64 = spec.groups.iter().map(|group| u64::from(group.count)).sum();
    let (mut last, mut number) = (None, 0);
    loop {
        if copies.copies >= COPIES_MAX || u64::from(copies.copies) * tasks >= TASKS_MAX {
            copies.at_least = true;
            break;
        }
        let name = free_name(&world, &mut number);
        let job = match world.submit(JobSpec { name, suspended: false, ..spec.clone() }) {
            Ok(job) => job,
            Err(refusal) => {
                copies.reason = Some(refusal.to_string());
                break;
            }
        };
        last = Some(job);
        let settled = settle(&mut world, job, Ending::AtOnce);
        let stands =
            world.job(job).is_some_and(|job| !matches!(need_of(&world.cell, job), Some(Need::Start | Need::Repair)));
        if !stands || !settled.victims.is_empty() {
            let text = settled.explanation.map(|explanation| explanation.to_text(&world.cell));
            copies.reason = text.and_then(|text| text.lines().next().map(str::to_string));
            break;
        }
        copies.copies += 1;
    }
    if let Some(job) = last.and_then(|job| world.job(job)) {
        let groups = spec.groups.iter().enumerate();
        let room = |(at, group): (usize, &ohm_model::GroupSpec)| GroupRoom {
            name: group.name.clone(),
            classes: classes(&world, job, at),
        };
        copies.groups = groups.map(room).collect();
    }
    copies
}

/// The next name after `copy-NUMBER` that no job has.
fn free_name(world: &World, number: &mut u32) -> String {
    loop {
        *number += 1;
        let name = format!("copy-{number}");
        if world.cell.jobs().find(&name).is_none() {
            return name;
        }
    }
}

/// What makes two nodes of one kind.
type Kind<'w> = (&'w Amounts, &'w [Taint], Vec<(&'w String, &'w String)>);

fn classes(world: &World, job: &Job, group: usize) -> Vec<ClassRoom> {
    let topologies: Vec<&String> = world.cell.topologies().iter().flat_map(|topology| &topology.spec.levels).collect();
    let over = Overlay::default();
    let view = View::new(&world.cell, &over, SessionId(0));
    let Some(subject) = Subject::new(view, job, GroupIndex(group as u16)) else { return Vec::new() };
    let mut order: BTreeMap<Kind<'_>, usize> = BTreeMap::new();
    let mut classes: Vec<ClassRoom> = Vec::new();
    for (node, record) in world.cell.nodes().iter() {
        let apart = |key: &&String| *key != HOSTNAME_LABEL && !topologies.contains(key);
        let labels = record.spec.labels.iter().filter(|(key, _)| apart(key)).collect();
        let at = *order.entry((&record.spec.capacity, &record.taints, labels)).or_insert_with(|| {
            classes.push(ClassRoom {
                like: record.spec.name.clone(),
                nodes: 0,
                tasks: 0,
                excluded: Excluded::default(),
                unavailable: BTreeMap::new(),
            });
            classes.len() - 1
        });
        let class = &mut classes[at];
        class.nodes += 1;
        match subject.first_miss(node) {
            None => class.tasks += u64::from(subject.room(node)),
            Some(miss) => count_miss(&world.cell, &miss, 1, &mut class.excluded, &mut class.unavailable),
        }
    }
    classes
}
