//! What a planner remembers of topologies, lent for one placement: sites and counts.

use super::tally::{Loan, Tally};
use super::{Layers, Site, Tree, Wish};
use crate::placer::{Pass, Placer};
use crate::subject::Subject;
use ohm_cell::Cell;
use ohm_framework::Obstacle;
use ohm_model::NodeId;
use std::sync::Arc;

impl Placer {
    /// Sorts nodes by their place in the topology that the subject's group asks for; leaves them as they are when it
    /// asks for none. False when it asks for one that the cell lacks or the request contradicts.
    pub fn sort_by_path(&mut self, subject: &Subject<'_>, nodes: &mut [(NodeId, u32)]) -> bool {
        let site = self.site(subject, subject.view.cell());
        if let Ok(Some(site)) = &site {
            nodes.sort_by_key(|(node, _)| site.tree.position(*node));
        }
        site.is_ok()
    }

    /// Where the subject's group asks to stand; nothing when it asks for no topology. An error when the cell has no
    /// such topology, or one that the request contradicts.
    pub(crate) fn site<'c>(&mut self, subject: &Subject<'_>, cell: &'c Cell) -> Result<Option<Site<'c>>, Obstacle> {
        let request = &subject.spec.topology;
        if !request.is_asked() {
            return Ok(None);
        }
        let unknown = || format!("the cell has no topology called \"{}\"", request.topology);
        let contradiction = |problem: String| Obstacle::Contradiction { problem };
        let topology = cell.topologies().get(&request.topology).ok_or_else(|| contradiction(unknown()))?;
        topology.spec.check(subject.spec).map_err(|error| contradiction(error.to_string()))?;
        let wish = Wish::new(subject.spec, &topology.spec).ok_or_else(|| contradiction(unknown()))?;
        let name = &topology.spec.name;
        let known = self.trees.get(name).cloned();
        let tree = known.unwrap_or_else(|| {
            let tree = Arc::new(Tree::new(cell, topology));
            self.trees.insert(name.clone(), Arc::clone(&tree));
            tree
        });
        Ok(Some(Site { topology, tree, wish }))
    }

    /// What fits of the subject's group, domain by domain: as the log would judge it now, for this very group.
    pub(crate) fn borrow_counts(&mut self, pass: &Pass<'_>, subject: &Subject<'_>, site: &Site<'_>) -> Loan {
        let layers = Layers::new(&site.wish.slices, site.tree.lowest());
        let (slot, scanned) = self.index(subject);
        let known = self.tallies.take(subject, &site.tree, &layers);
        let (table, index) = self.parts(slot);
        let demand = &index.demand;
        let (mut tally, counted) = match known {
            None => (Tally::new(subject, site, layers, table, demand), site.tree.level(site.tree.node_level()).len()),
            Some(mut tally) => {
                let counted = tally.sync(subject, table, demand);
                (tally, counted)
            }
        };
        tally.key = demand.key.clone();
        let mut loan = Loan::of(tally);
        // What depends on who asks: nominated room, limits where the group stands.
        for node in table.singled() {
            if let Some(position) = site.tree.position(node) {
                loan.set(position, u64::from(subject.room(node)));
            }
        }
        if subject.shape.counts_own_tasks() {
            for (node, _) in subject.standing() {
                if let Some(position) = site.tree.position(node) {
                    loan.set(position, u64::from(subject.room(node)));
                }
            }
        }
        if let Some(around) = subject.surroundings() {
            let places = site.tree.level(site.tree.node_level());
            for node in places.iter().map(|place| NodeId(place.key)).filter(|node| around.room(*node, 1) == 0) {
                site.tree.position(node).into_iter().for_each(|position| loan.set(position, 0));
            }
        }
        pass.look_at(scanned + counted as u64);
        loan
    }

    /// Keeps borrowed counts for the next time.
    pub(crate) fn return_counts(&mut self, loan: Loan) {
        self.tallies.keep(loan.settle());
    }
}
