//! Laying a group over nodes without regard to topology: packed or spread, as many tasks as asked for or as many as
//! fit.

use crate::amount::{Amount, Spots};
use crate::beside::{beside, beside_among};
use crate::placer::{Pass, Placer};
use crate::search::Search;
use crate::subject::Subject;
use ohm_model::{NodeId, SpreadMode};
use ohm_stdx::Prng;
use std::collections::BTreeMap;

impl Placer {
    /// Places as many of `amount.most` tasks as fit, best nodes first. May return fewer than `amount.least`: the caller
    /// decides what that means.
    pub fn place_flat(&mut self, pass: &Pass<'_>, subject: &Subject<'_>, amount: &Amount, dice: &mut Prng) -> Spots {
        let choice = self.choice(&subject.view, amount.attempt);
        let (slot, scanned) = self.index(subject);
        let (table, index) = self.parts(slot);
        let mut search = Search::new(subject, table, index, choice);
        let spots = match subject.spec.spread {
            _ if search.goes_step_by_step() => beside(&mut search, subject, amount, dice),
            SpreadMode::Pack => pack(&mut search, amount, dice),
            SpreadMode::Spread => spread(&mut search, subject, amount, dice),
        };
        pass.look_at(scanned + search.examined);
        spots
    }

    /// As [`Placer::place_flat`] on these nodes alone: where room is nominated.
    pub fn place_among(&mut self, pass: &Pass<'_>, subject: &Subject<'_>, nodes: &[NodeId], amount: &Amount) -> Spots {
        let choice = self.choice(&subject.view, amount.attempt);
        let (slot, scanned) = self.index(subject);
        let (table, index) = self.parts(slot);
        let mut search = Search::new(subject, table, index, choice);
        if search.goes_step_by_step() {
            return beside_among(&mut search, subject, nodes, amount);
        }
        let mut open: Vec<(u32, i32, NodeId, u32)> = nodes
            .iter()
            .map(|&node| (subject.live_on(node), search.score(node), node, search.room(node)))
            .filter(|(_, _, _, room)| *room > 0)
            .collect();
        pass.look_at(scanned + nodes.len() as u64);
        let (mut spots, mut rest) = (BTreeMap::new(), amount.most);
        let spreads = subject.spec.spread == SpreadMode::Spread;
        while rest > 0 {
            let rank = |(standing, score, node, _): &&mut (u32, i32, NodeId, u32)| {
                (if spreads { *standing } else { 0 }, *score, *node)
            };
            let Some((standing, _, node, room)) = open.iter_mut().min_by_key(rank) else { break };
            let given = if spreads { 1 } else { rest.min(*room) };
            *spots.entry(*node).or_insert(0) += given;
            (*standing, *room, rest) = (*standing + given, *room - given, rest - given);
            if *room == 0 || !spreads {
                let full = *node;
                open.retain(|(_, _, node, _)| *node != full);
            }
        }
        spots.into_iter().collect()
    }

    /// The nodes with room for the subject, best first; nothing if they are more than `most`.
    pub(crate) fn open_nodes(
        &mut self,
        pass: &Pass<'_>,
        subject: &Subject<'_>,
        most: usize,
        dice: &mut Prng,
    ) -> Option<Vec<NodeId>> {
        let choice = self.choice(&subject.view, 0);
        let (slot, scanned) = self.index(subject);
        let (table, index) = self.parts(slot);
        let (mut search, mut nodes) = (Search::new(subject, table, index, choice), Vec::new());
        while let Some(node) = search.next(dice).filter(|_| nodes.len() <= most) {
            if search.room(node) > 0 {
                nodes.push(node);
            }
            search.close(node);
        }
        pass.look_at(scanned + search.examined);
        (nodes.len() <= most).then_some(nodes)
    }
}

/// Best fit: the best node takes what it can hold, then the next one. Filling a node is what best fit would do task by
/// task, for each task makes its node's left-over smaller still.
fn pack(search: &mut Search<'_>, amount: &Amount, dice: &mut Prng) -> Spots {
    let (mut spots, mut rest) = (Spots::new(), amount.most);
    while rest > 0 {
        let placed = amount.most - rest;
        if spots.len() >= amount.nodes && placed >= amount.least {
            break;
        }
        let Some(node) = search.next(dice) else { break };
        let given = search.room(node).min(rest);
        if given > 0 {
            spots.push((node, given));
            rest -= given;
            search.give(node, given);
        }
        if rest > 0 {
            search.close(node);
        }
    }
    spots
}

/// Fewest tasks of the group on the node first, then the node with the most left over. Nodes with more of the group are
/// set aside until every node with fewer is full or has as many.
fn spread(search: &mut Search<'_>, subject: &Subject<'_>, amount: &Amount, dice: &mut Prng) -> Spots {
    let (job, group) = (subject.job, subject.group);
    let live = job.groups.get(usize::from(group.0)).map_or(0, |group| group.live);
    let stands = live > 0 || subject.view.in_flight(job.id, group) > 0;
    // Per node: tasks that stood there before, tasks given now, tasks that fit.
    let mut known: BTreeMap<NodeId, (u32, u32, u32)> = BTreeMap::new();
    let mut aside: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
    let (mut level, mut rest) = (0, amount.most);
    while rest > 0 {
        let placed = amount.most - rest;
        let Some(node) = search.next(dice) else {
            let Some((next, nodes)) = aside.pop_first() else { break };
            level = next;
            nodes.into_iter().for_each(|node| search.reopen(node));
            continue;
        };
        let standing = || if stands { subject.live_on(node) } else { 0 };
        let is_new = !known.contains_key(&node);
        if is_new && known.len() >= amount.nodes && placed >= amount.least {
            break;
        }
        let (before, given, room) = known.entry(node).or_insert_with(|| (standing(), 0, search.room(node)));
        search.close(node);
        if given >= room {
            continue;
        }
        if *before + *given <= level {
            *given += 1;
            rest -= 1;
            search.give(node, 1);
        }
        if given < room {
            aside.entry(*before + *given).or_default().push(node);
        }
    }
    known.into_iter().filter(|(_, (_, given, _))| *given > 0).map(|(node, (_, given, _))| (node, given)).collect()
}
