//! A shape made ready for scanning: which columns it is compared with, what it needs in each, and what a node's kind
//! costs it.

use crate::demand_key::{DemandKey, REFUSED, counted, counts};
use crate::score::keep_devices::cost_of;
use crate::score::{Costs, NodeQuestion, device_packing, keep_devices, node_resources_fit};
use crate::table::{BLOCK, Column, NodeTable, WHOLE};
use crate::verdicts::Verdicts;
use ohm_cell::Shape;
use ohm_framework::View;
use ohm_model::resources::DEVICE_MILLI;
use ohm_model::{NodeId, ResourceId};
use std::sync::Arc;

/// How a request is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    /// With what is free in sum.
    Sum,
    /// With what is free on whole devices.
    WholeDevices,
    /// With the largest share of one device.
    Share,
}

#[derive(Clone, Debug)]
struct Need {
    resource: ResourceId,
    request: i64,
    measure: Measure,
    /// The least exact amount, in the compared column, that takes one task.
    least: i64,
    /// `least` scaled.
    scaled: i32,
    /// Whether the left-over counts in the score.
    counted: bool,
}

/// A shape, compiled against one state of the table's scales.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    pub(crate) key: DemandKey,
    pub(crate) shape: Arc<Shape>,
    needs: Vec<Need>,
    costs: Costs,
    /// Whether much left over is good.
    wants_empty: bool,
    breaking: i32,
    /// What all free devices of the largest node cost; nothing for a shape that asks for devices.
    keeping: i32,
    offset: i32,
    /// By kind: what it costs, or `REFUSED`.
    verdicts: Arc<Verdicts>,
    /// Whether columns and class don't decide alone: ports, host names, odd device requests.
    careful: bool,
}

impl Demand {
    pub(crate) fn new(
        key: DemandKey,
        shape: &Arc<Shape>,
        costs: Costs,
        verdicts: Arc<Verdicts>,
        table: &NodeTable,
    ) -> Self {
        let odd = |(_, request): &(ResourceId, i64)| *request >= DEVICE_MILLI && request % DEVICE_MILLI != 0;
        let careful =
            shape.names_hosts || shape.tolerates_briefly() || !shape.ports.is_empty() || shape.devices.iter().any(odd);
        let fit = costs.scoring().fit();
        let wants_empty = fit.is_some_and(|fit| fit.wants_empty(key.spreads));
        let mut needs: Vec<Need> = Vec::with_capacity(shape.requests.len());
        for &(resource, request) in &shape.requests {
            let is_device = shape.devices.iter().any(|(device, _)| *device == resource);
            let (measure, least) = match is_device {
                false => (Measure::Sum, request),
                true if request < DEVICE_MILLI => (Measure::Share, request),
                true => (Measure::WholeDevices, request / DEVICE_MILLI * DEVICE_MILLI),
            };
            let counted = fit.is_some() && counts(shape, resource);
            let mut need = Need { resource, request, measure, least, scaled: 0, counted };
            need.scaled = need.column(table).map_or(WHOLE, |column| column.scale(least));
            needs.push(need);
        }
        let offset = if wants_empty { node_resources_fit::offset(counted(shape)) } else { 0 };
        let breaking = costs.of_breaking();
        let keeping = if shape.devices.is_empty() { costs.of_keeping() } else { 0 };
        Demand {
            key,
            shape: Arc::clone(shape),
            needs,
            costs,
            wants_empty,
            breaking,
            keeping,
            offset,
            verdicts,
            careful,
        }
    }

    /// How far above the best score a node still is as good: a 64th of a node in each resource.
    pub(crate) fn tolerance(&self) -> i32 {
        (self.needs.len() as i32).saturating_mul(WHOLE / 64)
    }

    /// Whether the verdicts reach all classes there are.
    pub(crate) fn knows(&self, view: &View<'_>) -> bool {
        self.verdicts.reach(view)
    }

    /// The same demand with verdicts that reach further.
    pub(crate) fn learn(&mut self, verdicts: Arc<Verdicts>) {
        self.verdicts = verdicts;
    }

    /// The cost of one kind.
    pub(crate) fn kind_cost(&self, kind: u32) -> i32 {
        self.verdicts.of(kind)
    }

    /// Scores one block. A score below `REFUSED` says that the node fits as far as scaled amounts and class show.
    ///
    pub(crate) fn score_block(&self, table: &NodeTable, block: usize, scores: &mut [i32; BLOCK]) {
        // Below zero where the node is out of question; the sign bit collects every shortage.
        let mut short = [0i32; BLOCK];
        if !self.start_scores(table, block, scores, &mut short) {
            return *scores = [REFUSED; BLOCK];
        }
        for need in &self.needs {
            let Some(column) = need.column(table) else { return *scores = [REFUSED; BLOCK] };
            let (column, least) = (column.block(block), need.scaled);
            match (need.counted, self.wants_empty) {
                (false, _) => compare(column, least, &mut short),
                (true, false) => {
                    node_resources_fit::compare_and_add(column, least, &mut short, scores, i32::wrapping_add)
                }
                (true, true) => {
                    node_resources_fit::compare_and_add(column, least, &mut short, scores, i32::wrapping_sub)
                }
            }
            if need.measure == Measure::Share {
                self.add_breaking(need, table, block, scores);
            }
        }
        for free in self.kept(table) {
            keep_devices::add(free.block(block), self.keeping, scores);
        }
        for (score, short) in scores.iter_mut().zip(&short) {
            let refused = short >> 31;
            *score = (*score & !refused) | (refused & REFUSED);
        }
    }

    /// Begins each node's score with the cost of its kind; false when all are refused.
    fn start_scores(
        &self,
        table: &NodeTable,
        block: usize,
        scores: &mut [i32; BLOCK],
        short: &mut [i32; BLOCK],
    ) -> bool {
        let runs = table.runs(block);
        let mut open = false;
        if runs.len() == 0 {
            for (slot, kind) in table.kinds(block).iter().enumerate() {
                let cost = self.kind_cost(*kind);
                let refused = cost == REFUSED;
                (scores[slot], short[slot]) = if refused { (0, -1) } else { (cost + self.offset, 0) };
                open |= !refused;
            }
        }
        let mut start = 0;
        for (end, kind) in runs {
            let cost = self.kind_cost(kind);
            let refused = cost == REFUSED;
            let (score, shortage) = if refused { (0, -1) } else { (cost + self.offset, 0) };
            scores[start..end].fill(score);
            short[start..end].fill(shortage);
            open |= !refused;
            start = end;
        }
        open
    }

    fn add_breaking(&self, need: &Need, table: &NodeTable, block: usize, scores: &mut [i32; BLOCK]) {
        let Some(devices) = table.device_columns(need.resource) else { return };
        device_packing::add(devices.broken.block(block), need.scaled, self.breaking, scores);
    }

    /// The columns of devices of which each that is free costs something.
    fn kept<'t>(&self, table: &'t NodeTable) -> impl Iterator<Item = &'t Column> {
        let count = if self.keeping == 0 { 0 } else { keep_devices::RESOURCES_MAX };
        table.all_devices().take(count)
    }

    /// Whether single nodes cost something beyond what columns and class say.
    pub(crate) fn asks_nodes(&self) -> bool {
        self.costs.ask_nodes()
    }

    /// What one node costs beyond what columns and class say.
    pub(crate) fn node_cost(&self, view: &View<'_>, node: NodeId) -> i32 {
        self.costs.of_node(&NodeQuestion { view, shape: &self.shape, node, typical: self.costs.scoring().typical() })
    }

    /// The scores of the profile, weighed for this shape.
    pub(crate) fn costs(&self) -> &Costs {
        &self.costs
    }

    /// The score of one node whose kind would be `kind`, by columns and class, whether it fits or not.
    pub(crate) fn score_one(&self, table: &NodeTable, node: NodeId, kind: u32) -> i32 {
        let (block, at) = (node.0 as usize / BLOCK, node.0 as usize % BLOCK);
        let cost = self.kind_cost(kind);
        if cost == REFUSED || block >= table.blocks() {
            return REFUSED;
        }
        let mut score = i64::from(cost) + i64::from(self.offset);
        for need in self.needs.iter().filter(|need| need.counted || need.measure == Measure::Share) {
            let Some(column) = need.column(table) else { return REFUSED };
            let left = i64::from(column.block(block)[at]) - i64::from(need.scaled);
            if need.counted {
                score += if self.wants_empty { -left } else { left };
            }
            let broken = table.device_columns(need.resource).map_or(0, |devices| devices.broken.block(block)[at]);
            if need.measure == Measure::Share && broken < need.scaled {
                score += i64::from(self.breaking);
            }
        }
        score += self.kept(table).map(|free| i64::from(cost_of(free.block(block)[at], self.keeping))).sum::<i64>();
        score.clamp(0, i64::from(REFUSED) - 1) as i32
    }

    /// Whether one task really fits on an open node, by everything that does not depend on whose task it is.
    pub(crate) fn fits(&self, table: &NodeTable, view: &View<'_>, node: NodeId) -> bool {
        self.room(table, node) > 0 && (!self.careful || self.fits_carefully(view, node))
    }

    fn fits_carefully(&self, view: &View<'_>, node: NodeId) -> bool {
        let named = !self.shape.names_hosts || view.admits(self.key.shape, node);
        let stays = !self.shape.tolerates_briefly() || view.cell().leave_cause(self.key.shape, node).is_none();
        named
            && stays
            && !self.shape.ports.iter().any(|port| view.port_taken(node, *port))
            && self.odd_devices_fit(view, node)
    }

    /// A plain count of devices can't be asked for a whole and a part.
    fn odd_devices_fit(&self, view: &View<'_>, node: NodeId) -> bool {
        let record = view.cell().nodes().get(node);
        self.shape.devices.iter().all(|&(resource, request)| {
            request % DEVICE_MILLI == 0 || record.is_some_and(|record| record.bank(resource).is_some())
        })
    }

    /// How many tasks fit by the columns. More than one task on devices needs a look at each device: see
    /// [`crate::devices::room`].
    pub(crate) fn room(&self, table: &NodeTable, node: NodeId) -> u32 {
        let slot = node.0 as usize;
        let mut room = i64::from(u32::MAX);
        for need in &self.needs {
            let Some(column) = need.column(table) else { return 0 };
            let free = table.free(node, need.resource);
            // Most nodes that can't take one task are told apart without a division.
            if column.exact(slot) < need.least || free < need.request {
                return 0;
            }
            room = room.min(free / need.request.max(1));
        }
        room.max(0) as u32
    }

    /// `room`, but no more than whole devices leave; nothing where shares of devices are asked for.
    pub(crate) fn whole_devices_room(&self, table: &NodeTable, node: NodeId, room: u32) -> Option<u32> {
        let mut least = room;
        for need in &self.needs {
            match need.measure {
                Measure::Sum => {}
                Measure::Share => return None,
                Measure::WholeDevices => {
                    let free = need.column(table)?.exact(node.0 as usize);
                    least = least.min((free / need.least.max(1)).clamp(0, i64::from(u32::MAX)) as u32);
                }
            }
        }
        Some(least)
    }

    /// Whether class and columns decide alone, the limit per node and what depends on the job apart.
    pub(crate) fn is_plain(&self) -> bool {
        !self.careful && self.shape.devices.is_empty()
    }

    /// Whether this still describes `shape`: slots of shapes are used again.
    pub(crate) fn describes(&self, shape: &Arc<Shape>) -> bool {
        Arc::ptr_eq(&self.shape, shape) || self.shape == *shape
    }
}

impl Need {
    fn column<'t>(&self, table: &'t NodeTable) -> Option<&'t Column> {
        match self.measure {
            Measure::Sum => table.column(self.resource),
            Measure::WholeDevices => table.device_columns(self.resource).map(|devices| &devices.whole),
            Measure::Share => table.device_columns(self.resource).map(|devices| &devices.share),
        }
    }
}

fn compare(column: &[i32; BLOCK], least: i32, short: &mut [i32; BLOCK]) {
    for slot in 0..BLOCK {
        short[slot] |= column[slot] - least;
    }
}
