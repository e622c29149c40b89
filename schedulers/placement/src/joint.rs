//! All groups of a job at once, node by node: for groups that take each other's room. A group alone takes the nodes
//! that suit it best; here it leaves them to another one if that is the only way in which all find room.
//!
//! For each node it is found out which numbers of tasks of each group it takes side by side. From node to node it is
//! kept how many tasks of the first groups stand, and the most tasks of the last one that stand beside them: that finds
//! places if there are any. The work is bounded by nodes and by what is kept, and not by time.

use crate::asks::GroupAsk;
use crate::group_search::quota;
use crate::job_search::JobSearch;
use crate::rows::rows;
use crate::seek::Found;
use crate::topology::Site;
use ohm_model::{NodeId, TopologyMode};
use std::collections::{BTreeMap, BTreeSet};

/// More nodes with room are not looked at: some other order finds places among them.
const NODES_MAX: usize = 256;
/// Numbers of tasks side by side that are tried on all nodes together at most.
const TRIES_MAX: usize = 1 << 12;
/// So often a way to stand is put together with what a node takes at most.
const STEPS_MAX: usize = 1 << 17;

/// How many tasks of each group.
type Counts = Vec<u32>;

/// What a search for all groups at once came to.
#[derive(Debug)]
pub enum Joint {
    /// Rows for the least of each group.
    Found(Found),
    /// There are no such places.
    NoPlaces,
    /// It does not look at such jobs, or found none within its bounds.
    Unknown,
}

/// A node and the numbers of tasks that it takes side by side.
struct Spot {
    node: NodeId,
    takes: Vec<Counts>,
}

/// What each node is given.
enum Split {
    Found(Vec<(NodeId, Counts)>),
    Impossible,
    TooMany,
}

/// What was given on one node, and on those before it.
struct Given {
    node: NodeId,
    counts: Counts,
    before: Option<usize>,
}

impl JobSearch<'_, '_> {
    /// Places the least of each of `asks`, side by side. Only groups that may stand on any node, or on any of their
    /// topology, are looked at.
    pub fn place_jointly(&mut self, asks: &[GroupAsk]) -> Joint {
        let wanted: Counts = asks.iter().map(|ask| ask.least).collect();
        let Some(spots) = self.joint_spots(asks) else { return Joint::Unknown };
        match split(&spots, &wanted) {
            Split::Found(given) => self.take_jointly(asks, &given),
            Split::Impossible => Joint::NoPlaces,
            Split::TooMany => Joint::Unknown,
        }
    }

    /// The nodes with room for any of the groups, best of the first group first, with what they take. Nothing if they
    /// are too many or a group asks for domains.
    fn joint_spots(&mut self, asks: &[GroupAsk]) -> Option<Vec<Spot>> {
        let mut open = Vec::new();
        for ask in asks {
            open.push(self.joint_nodes(ask)?);
        }
        let (mut spots, mut seen, mut tries) = (Vec::new(), BTreeSet::new(), 0);
        for node in open.iter().flatten().copied().filter(|node| seen.insert(*node)) {
            let may: Vec<bool> = open.iter().map(|nodes| nodes.contains(&node)).collect();
            let mut spot = Spot { node, takes: Vec::new() };
            self.side_by_side(asks, &may, &mut Counts::new(), &mut spot);
            tries += spot.takes.len();
            if tries >= TRIES_MAX || spots.len() == NODES_MAX {
                return None;
            }
            spots.push(spot);
        }
        Some(spots)
    }

    /// The nodes with room for the group, best first. Nothing if where one of its tasks stands decides about others.
    fn joint_nodes(&mut self, ask: &GroupAsk) -> Option<Vec<NodeId>> {
        let subject = self.seek.subject(self.pass, self.job, ask.group)?;
        let site = self.placer.site(&subject, self.pass.cell()).ok()?;
        let binds = |site: &Site<'_>| site.wish.mode == TopologyMode::Required || !subject.spec.slices().is_empty();
        if site.as_ref().is_some_and(binds) {
            return None;
        }
        // What a task may stand beside hangs on where all others do.
        if subject.surroundings().is_some() {
            return None;
        }
        let mut nodes = self.placer.open_nodes(self.pass, &subject, NODES_MAX, self.dice)?;
        nodes.retain(|node| site.as_ref().is_none_or(|site| site.tree.position(*node).is_some()));
        Some(nodes)
    }

    /// Adds to `spot` all numbers of tasks of the groups after `counts` that its node takes beside those, as long as
    /// they are not too many.
    fn side_by_side(&mut self, asks: &[GroupAsk], may: &[bool], counts: &mut Counts, spot: &mut Spot) {
        let Some(ask) = asks.get(counts.len()) else {
            spot.takes.push(counts.clone());
            return;
        };
        let room = match self.seek.subject(self.pass, self.job, ask.group) {
            Some(subject) if may[counts.len()] => subject.room(spot.node).min(ask.least),
            _ => 0,
        };
        let is_last = counts.len() + 1 == asks.len();
        // Fewer of the last group leave room to nobody.
        for count in (if is_last { room } else { 0 })..=room {
            if spot.takes.len() >= TRIES_MAX {
                return;
            }
            let before = self.pass.savepoint();
            if count > 0 && !is_last {
                let laid = self.seek.subject(self.pass, self.job, ask.group);
                let laid = laid.map_or(Vec::new(), |subject| rows(&subject, &[(spot.node, count)]));
                self.placer.take(self.pass, self.job, &laid);
            }
            counts.push(count);
            self.side_by_side(asks, may, counts, spot);
            counts.pop();
            self.placer.roll_back(self.pass, before);
        }
    }

    /// Takes what was given. Quota and rules that look beyond one node have the last word.
    fn take_jointly(&mut self, asks: &[GroupAsk], given: &[(NodeId, Counts)]) -> Joint {
        let (mut found, before) = (Found::default(), self.pass.savepoint());
        for (at, ask) in asks.iter().enumerate() {
            let placed = self.seek.subject(self.pass, self.job, ask.group).map_or(Vec::new(), |subject| {
                let mut spots: Vec<_> = given.iter().map(|(node, counts)| (*node, counts[at])).collect();
                spots.retain(|(_, count)| *count > 0);
                self.placer.sort_by_path(&subject, &mut spots);
                let fits = spots.iter().all(|(node, count)| subject.room(*node) >= *count);
                let has_quota = quota(&subject, None).is_none_or(|room| room.tasks >= ask.least);
                if fits && has_quota { rows(&subject, &spots) } else { Vec::new() }
            });
            if placed.iter().map(|row| row.count).sum::<u32>() < ask.least {
                self.placer.roll_back(self.pass, before);
                return Joint::Unknown;
            }
            self.placer.take(self.pass, self.job, &placed);
            found.rows.extend(placed);
        }
        Joint::Found(found)
    }
}

/// What each node is given so that all of `wanted` stand.
fn split(spots: &[Spot], wanted: &[u32]) -> Split {
    let Some((last, first)) = wanted.split_last() else { return Split::TooMany };
    let (mut given, mut steps) = (Vec::<Given>::new(), 0);
    // By tasks of the first groups: the most of the last one beside them, and how that came about.
    let mut ways: BTreeMap<Counts, (u32, Option<usize>)> = BTreeMap::from([(vec![0; first.len()], (0, None))]);
    for spot in spots {
        steps += ways.len() * spot.takes.len();
        if steps > STEPS_MAX {
            return Split::TooMany;
        }
        let mut next = ways.clone();
        for (stand, (beside, before)) in &ways {
            for counts in &spot.takes {
                let Some((more, firsts)) = counts.split_last() else { continue };
                let sum: Counts =
                    firsts.iter().zip(stand).zip(first).map(|((a, b), most)| (a + b).min(*most)).collect();
                let most = (beside + more).min(*last);
                if next.get(&sum).is_none_or(|(known, _)| *known < most) {
                    next.insert(sum, (most, Some(given.len())));
                    given.push(Given { node: spot.node, counts: counts.clone(), before: *before });
                }
            }
        }
        if let Some((_, at)) = next.get(first).filter(|(most, _)| most == last) {
            return Split::Found(story(&given, *at, wanted));
        }
        ways = next;
    }
    Split::Impossible
}

/// What was given on the way that ends at `at`, no more in sum than is wanted.
fn story(given: &[Given], mut at: Option<usize>, wanted: &[u32]) -> Vec<(NodeId, Counts)> {
    let (mut spots, mut rest) = (Vec::new(), wanted.to_vec());
    while let Some(Given { node, counts, before }) = at.and_then(|at| given.get(at)) {
        let counts: Counts = counts.iter().zip(&rest).map(|(count, rest)| (*count).min(*rest)).collect();
        rest.iter_mut().zip(&counts).for_each(|(rest, count)| *rest -= count);
        spots.push((*node, counts));
        at = *before;
    }
    spots.reverse();
    spots
}
