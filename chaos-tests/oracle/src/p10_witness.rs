//! P10 for jobs of several groups, for leaders with their workers and for slices: a search for places for all that
//! must start together, task by task. What it finds is a witness that the job fits. It looks at every domain but does
//! not try every packing, so it may miss one; it never invents one.

use crate::amounts::{add, asks};
use crate::p10_ledger::Ledger;
use crate::rooms::Room;
use crate::waiting::Wait;
use ohm_model::{Amounts, GroupSpec, JobId, JobSpec, NodeId, TopologyMode, TopologySlice};
use std::collections::{BTreeMap, BTreeSet};

/// Above so many nodes the search would take longer than it is worth.
const NODES_MAX: usize = 200;

/// Where all groups of a job, none of which runs anywhere, find room for what must start together, in words.
pub(crate) fn witness(ledger: &Ledger<'_>, job: JobId, spec: &JobSpec, wait: &Wait) -> Option<String> {
    let is_new = |index: u16| {
        let group = &spec.groups[usize::from(index)];
        let none = ledger.books.live(job, index).next().is_none() && ledger.books.done(job, index) == 0;
        // What failed waits for its back-off, and all others with it.
        let all_wait = ledger.missing((job, index), spec, wait).pending >= needed(group);
        none && all_wait && wait.group(&group.name).is_none_or(|state| !state.has_started)
    };
    if ledger.books.nodes.len() > NODES_MAX || !(0..spec.groups.len() as u16).all(is_new) {
        return None;
    }
    let mut asked = Amounts::new();
    spec.groups.iter().for_each(|group| add(&mut asked, &asks(group, needed(group))));
    if !ledger.queue_takes(job, spec, &asked) {
        return None;
    }
    let wishes = spec.groups.iter().map(|group| ledger.admissions.filtered(job, group)).collect();
    let rooms = ledger.books.nodes.keys().map(|node| (*node, ledger.room(job, *node))).collect();
    let mut search = Search { ledger, job, wishes, rooms, undo: Vec::new() };
    let leaders: BTreeSet<usize> = (0..spec.groups.len()).map(|group| leader(spec, group)).collect();
    let fits = leaders.into_iter().all(|found| {
        let team: Vec<usize> = (0..spec.groups.len()).filter(|group| leader(spec, *group) == found).collect();
        search.place_team(&team)
    });
    fits.then(|| search.places())
}

/// The first of the groups that share one domain.
fn leader(spec: &JobSpec, group: usize) -> usize {
    match spec.groups[group].place_with.as_str() {
        "" => group,
        label => spec.groups.iter().position(|other| other.place_with == label).unwrap_or(group),
    }
}

fn needed(group: &GroupSpec) -> u32 {
    let slice = group.slices().first().map_or(1, |slice| slice.size.max(1));
    group.min_count.max(1).min(group.count).next_multiple_of(slice)
}

struct Search<'a> {
    ledger: &'a Ledger<'a>,
    job: JobId,
    wishes: Vec<GroupSpec>,
    rooms: Vec<(NodeId, Room)>,
    /// The group of each task that was placed, and what the room that it took was before.
    undo: Vec<(usize, usize, Room)>,
}

impl Search<'_> {
    /// Places groups that share a domain, in the first domain that takes them all.
    fn place_team(&mut self, team: &[usize]) -> bool {
        self.domains(team[0]).into_iter().any(|nodes| {
            let mark = self.undo.len();
            let placed = team.iter().all(|group| self.place_group(*group, &nodes));
            if !placed {
                self.take_back(mark);
            }
            placed
        })
    }

    /// The rooms of each domain that the group may stand in.
    fn domains(&self, group: usize) -> Vec<Vec<usize>> {
        let request = &self.wishes[group].topology;
        let all: Vec<usize> = (0..self.rooms.len()).collect();
        match request.mode {
            TopologyMode::None => vec![all],
            TopologyMode::Required => self.parts(group, &request.level, all),
            // Nodes outside the topology do not count.
            _ => {
                let books = self.ledger.books;
                let is_in = |at: &usize| books.lowest_domain(&request.topology, self.rooms[*at].0).is_some();
                vec![all.into_iter().filter(is_in).collect()]
            }
        }
    }

    /// `nodes` by their domain at `level`.
    fn parts(&self, group: usize, level: &str, nodes: Vec<usize>) -> Vec<Vec<usize>> {
        let topology = &self.wishes[group].topology.topology;
        let mut parts: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
        for at in nodes {
            if let Some(domain) = self.ledger.domain(topology, level, self.rooms[at].0) {
                parts.entry(domain).or_default().push(at);
            }
        }
        parts.into_values().collect()
    }

    fn place_group(&mut self, group: usize, nodes: &[usize]) -> bool {
        let layers = self.wishes[group].slices().to_vec();
        let size = layers.first().map_or(1, |slice| slice.size.max(1));
        (0..needed(&self.wishes[group]) / size).all(|_| self.place_slice(group, &layers, nodes))
    }

    /// One slice of the first of `layers`, inside one domain of its level; without layers, one task.
    fn place_slice(&mut self, group: usize, layers: &[TopologySlice], nodes: &[usize]) -> bool {
        let Some((slice, inner)) = layers.split_first() else {
            return nodes.iter().any(|at| self.place_task(group, *at));
        };
        let count = slice.size / inner.first().map_or(1, |inner| inner.size.max(1));
        self.parts(group, &slice.level, nodes.to_vec()).into_iter().any(|part| {
            let mark = self.undo.len();
            let placed = (0..count).all(|_| self.place_slice(group, inner, &part));
            if !placed {
                self.take_back(mark);
            }
            placed
        })
    }

    fn place_task(&mut self, group: usize, at: usize) -> bool {
        let wish = &self.wishes[group];
        let node = self.rooms[at].0;
        if !self.ledger.is_open(node, wish) || !self.ledger.may_stand(self.job, group as u16, wish, (node, u32::MAX)) {
            return false;
        }
        let mut room = self.rooms[at].1.clone();
        let fits = room.take(self.job, group as u16, wish);
        if fits {
            self.undo.push((group, at, std::mem::replace(&mut self.rooms[at].1, room)));
        }
        fits
    }

    /// Where how many tasks of each group were placed.
    fn places(&self) -> String {
        let mut counts: BTreeMap<(usize, usize), u32> = BTreeMap::new();
        self.undo.iter().for_each(|(group, at, _)| *counts.entry((*group, *at)).or_insert(0) += 1);
        let name = |at: usize| self.ledger.books.nodes.get(&self.rooms[at].0).map_or("?", |book| &book.spec.name);
        let place = |((group, at), count): ((usize, usize), u32)| {
            format!("{count} of {} on {}", self.wishes[group].name, name(at))
        };
        counts.into_iter().map(place).collect::<Vec<_>>().join(", ")
    }

    fn take_back(&mut self, mark: usize) {
        while self.undo.len() > mark
            && let Some((_, at, room)) = self.undo.pop()
        {
            self.rooms[at].1 = room;
        }
    }
}
