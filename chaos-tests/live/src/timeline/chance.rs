//! What a scenario leaves to chance.

use crate::scenario::{Extent, Kind, Shape, Way};
use ohm_stdx::Prng;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Dice, and what they have done so far.
pub(super) struct Chance<'s> {
    cell: &'s Shape,
    dice: Prng,
    /// Until when simulated nodes are down, in milliseconds.
    down_until_ms: BTreeMap<usize, u64>,
}

impl<'s> Chance<'s> {
    pub(super) fn new(cell: &'s Shape, seed: u64) -> Self {
        Chance { cell, dice: Prng::new(seed), down_until_ms: BTreeMap::new() }
    }

    /// Time begins anew.
    pub(super) fn all_are_up(&mut self) {
        self.down_until_ms.clear();
    }

    /// The fault itself, or one that chance chooses, for this moment; moments never fall.
    pub(super) fn drawn(&mut self, at_ms: u64, kind: &Kind) -> Kind {
        match kind {
            Kind::Random => self.random(),
            Kind::Outage { extent, for_ms } => self.outage(at_ms, *extent, *for_ms),
            other => other.clone(),
        }
    }

    fn outage(&mut self, at_ms: u64, extent: Extent, (least_ms, most_ms): (u64, u64)) -> Kind {
        self.down_until_ms.retain(|_, until_ms| *until_ms > at_ms);
        let for_ms = self.dice.between(least_ms, most_ms);
        let racks = self.cell.racks();
        let numbers: BTreeSet<usize> = match extent {
            Extent::Node => self.one_up(0..self.cell.simulated_nodes).into_iter().collect(),
            Extent::TwoNodes => {
                let first = self.one_up(0..self.cell.simulated_nodes);
                let rack = first.and_then(|first| racks.iter().find(|rack| rack.contains(&first)).cloned());
                self.down_until_ms.extend(first.map(|first| (first, at_ms + for_ms)));
                let near = if self.dice.chance(500) { rack } else { None };
                let second = self.one_up(near.unwrap_or(0..self.cell.simulated_nodes));
                first.into_iter().chain(second).collect()
            }
            Extent::Rack => {
                let rack = racks[self.dice.below(racks.len() as u64) as usize].clone();
                rack.filter(|number| !self.down_until_ms.contains_key(number)).collect()
            }
        };
        self.down_until_ms.extend(numbers.iter().map(|&number| (number, at_ms + for_ms)));
        Kind::Down { extent, nodes: numbers.into_iter().map(Shape::simulated_name).collect(), for_ms }
    }

    /// One of these nodes that is up.
    fn one_up(&mut self, among: Range<usize>) -> Option<usize> {
        let up: Vec<usize> = among.filter(|number| !self.down_until_ms.contains_key(number)).collect();
        (!up.is_empty()).then(|| up[self.dice.below(up.len() as u64) as usize])
    }

    fn random(&mut self) -> Kind {
        let processes = self.cell.processes();
        let one_of = |names: &[&String], dice: &mut Prng| names[dice.below(names.len() as u64) as usize].clone();
        let all: Vec<&String> = processes.iter().collect();
        let pausable: Vec<&String> = processes.iter().filter(|name| !name.starts_with("shim-")).collect();
        let connected: Vec<&String> = pausable.iter().copied().filter(|name| !is_peer(name)).collect();
        let dice = &mut self.dice;
        let for_ms = dice.between(500, 2 * self.cell.node_lease_ms);
        match dice.below(6) {
            0 | 1 => {
                let victims: BTreeSet<String> = (0..dice.between(1, 4)).map(|_| one_of(&all, dice)).collect();
                Kind::Kill(victims.into_iter().collect())
            }
            2 => Kind::Pause { process: one_of(&pausable, dice), for_ms },
            3 => {
                let way = [Way::Towards, Way::From, Way::Both][dice.below(3) as usize];
                Kind::Cut { process: one_of(&connected, dice), way, for_ms }
            }
            4 => Kind::Delay { process: one_of(&connected, dice), by_ms: dice.between(10, 1_000), for_ms },
            _ => Kind::Reset { process: one_of(&connected, dice), for_ms: for_ms / 4 },
        }
    }
}

/// Whether it has no connection to the server that could be disturbed.
fn is_peer(name: &str) -> bool {
    name.starts_with("server") || name.starts_with("etcd-")
}
