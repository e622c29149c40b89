//! Figures of queues for Prometheus. They are read from the cell when somebody asks, so that a queue that is gone is in
//! no page.

use super::views;
use metrics_exporter_prometheus::PrometheusBuilder;
use ohm_cell::{Cell, NO_FLAVOR, QuotaNode};
use ohm_model::ResourceQuota;
use ohm_model::resources::UnitKind;

/// The lines of all queues and cohorts: jobs by state, quota and usage by flavor and resource in whole units (cores,
/// devices, bytes), and weighted shares.
pub(super) fn page(cell: &Cell) -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        cell.quota().iter().for_each(|node| note_quotas(cell, node));
        for queue in views::queues(cell).queues {
            let name = queue.name.clone();
            metrics::gauge!("ohm_queue_weighted_share", "queue" => name).set(queue.weighted_share as f64);
            if queue.kind == "Queue" {
                let counts = [("pending", queue.pending), ("running", queue.running), ("suspended", queue.suspended)];
                for (state, count) in counts {
                    let labels = [("queue", queue.name.clone()), ("state", state.to_string())];
                    metrics::gauge!("ohm_queue_jobs", &labels).set(count as f64);
                }
            }
        }
    });
    page.render()
}

fn note_quotas(cell: &Cell, node: &QuotaNode) {
    let spec = &node.spec;
    for (resource, &nominal) in &spec.nominal {
        note_quota(cell, node, (NO_FLAVOR, resource), &ResourceQuota { nominal, ..ResourceQuota::default() });
    }
    for flavor in spec.resource_groups.iter().flat_map(|group| &group.flavors) {
        for (resource, quota) in &flavor.resources {
            note_quota(cell, node, (&flavor.name, resource), quota);
        }
    }
}

fn note_quota(cell: &Cell, node: &QuotaNode, (flavor, resource): (&str, &str), quota: &ResourceQuota) {
    let column = cell.resources().find(resource).and_then(|named| cell.quota().columns().find(flavor, named));
    let labels = [("queue", &node.spec.name[..]), ("flavor", flavor), ("resource", resource)];
    let labels = labels.map(|(name, value)| (name, value.to_string()));
    let (used, borrowed) = match column {
        Some(column) => (node.used(column), cell.quota().borrowed(&node.spec.name, column)),
        None => (0, 0),
    };
    metrics::gauge!("ohm_queue_nominal", &labels).set(whole_units(resource, quota.nominal));
    metrics::gauge!("ohm_queue_used", &labels).set(whole_units(resource, used));
    metrics::gauge!("ohm_queue_borrowed", &labels).set(whole_units(resource, borrowed));
}

/// `amount` of `resource` in cores, devices, bytes or as a plain count.
fn whole_units(resource: &str, amount: i64) -> f64 {
    match UnitKind::of(resource) {
        UnitKind::Milli => amount as f64 / 1000.0,
        UnitKind::Whole => amount as f64,
    }
}
