//! What each kind of node costs a shape, remembered for all shapes that say the same about nodes: most jobs of a cell
//! differ in what they ask for and agree in selectors, tolerations and preferences.

use crate::demand_key::{DemandKey, REFUSED, counted};
use crate::score::{ClassQuestion, Costs, Scoring};
use crate::table::class_of;
use ohm_cell::Shape;
use ohm_framework::View;
use ohm_model::selector::Labels;
use ohm_model::{SelectorTerm, Toleration};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Sets of verdicts remembered; beyond, all are forgotten and worked out again as they are asked for.
const REMEMBERED: usize = 1024;

/// Everything in a shape and its preferences that a verdict about a node's class depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Stance {
    node_selector: Labels,
    affinity: Vec<SelectorTerm>,
    tolerations: Vec<Toleration>,
    preferred: Arc<[(u32, SelectorTerm)]>,
    names_hosts: bool,
    asks_devices: bool,
    counted: usize,
}

/// The cost of each kind, or `REFUSED`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdicts {
    by_kind: Vec<i32>,
}

impl Verdicts {
    /// The verdict about one kind.
    pub(crate) fn of(&self, kind: u32) -> i32 {
        self.by_kind.get(kind as usize).copied().unwrap_or(REFUSED)
    }

    /// Whether every class that any node has or had is covered. Class numbers are never used again, so what is covered
    /// stays right.
    pub(crate) fn reach(&self, view: &View<'_>) -> bool {
        self.by_kind.len() > view.cell().classes().slots() * 2
    }

    fn extend(&mut self, view: &View<'_>, shape: &Shape, key: &DemandKey, costs: &Costs) {
        let kinds = 1 + view.cell().classes().slots() * 2;
        for kind in self.by_kind.len()..kinds {
            self.by_kind.push(verdict(view, shape, key, costs, kind as u32));
        }
    }
}

fn verdict(view: &View<'_>, shape: &Shape, key: &DemandKey, costs: &Costs, kind: u32) -> i32 {
    let Some((class, has_devices)) = class_of(kind) else { return REFUSED };
    let Some(content) = view.cell().classes().get(class) else { return REFUSED };
    if !shape.names_hosts && shape.admits_class(content).is_err() {
        return REFUSED;
    }
    costs.of_class(&ClassQuestion {
        tolerations: &shape.tolerations,
        preferred: &key.preferred,
        asks_devices: !shape.devices.is_empty(),
        class: content,
        has_devices,
    })
}

/// Verdicts by what they depend on.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    by_stance: BTreeMap<Stance, Arc<Verdicts>>,
}

impl Memory {
    /// The verdicts of `shape` over all classes there are, and how its costs are weighed.
    pub(crate) fn of(
        &mut self,
        view: &View<'_>,
        shape: &Shape,
        key: &DemandKey,
        scoring: &Arc<Scoring>,
    ) -> (Arc<Verdicts>, Costs) {
        let costs = Costs::new(scoring, counted(shape));
        let stance = Stance {
            node_selector: shape.node_selector.clone(),
            affinity: shape.affinity.clone(),
            tolerations: shape.tolerations.clone(),
            preferred: Arc::clone(&key.preferred),
            names_hosts: shape.names_hosts,
            asks_devices: !shape.devices.is_empty(),
            counted: counted(shape),
        };
        if self.by_stance.len() >= REMEMBERED && !self.by_stance.contains_key(&stance) {
            self.by_stance.clear();
        }
        let known = self.by_stance.entry(stance).or_insert_with(|| Arc::new(Verdicts { by_kind: Vec::new() }));
        if !known.reach(view) {
            Arc::make_mut(known).extend(view, shape, key, &costs);
        }
        (Arc::clone(known), costs)
    }
}
