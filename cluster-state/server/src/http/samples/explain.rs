//! Why a job waits, with every field.

use super::filled::{ANY_KEY, text};
use ohm_wire::api::{
    BestDomainView, CountedView, ExcludedView, ExplainView, GroupExplainView, LayerFitView, NearestView,
    NodeRequestView, OwedView, ReasonView,
};

pub(super) fn explain() -> ExplainView {
    ExplainView {
        job: text(),
        state: text(),
        index: 1,
        summary: text(),
        details: vec![text()],
        hint: text(),
        obstacle: text(),
        group: text(),
        groups: vec![GroupExplainView { name: text(), explain: counted() }],
        fit: 1,
        needed: 1,
        nodes: 1,
        open_nodes: 1,
        reasons: vec![ReasonView { code: text(), reason: text(), nodes: 1 }],
        nearest: vec![NearestView { resource: text(), asked: text(), free: text(), node: text() }],
        profile: text(),
        strategies: vec![text()],
        jobs_ahead: Some(1),
        owed: vec![OwedView {
            group: text(),
            lost: 1,
            held: 1,
            missing: 1,
            nodes: [(ANY_KEY.to_string(), 1)].into(),
            until_ms: 1,
        }],
        node_requests: vec![node_request()],
        held_for: [(ANY_KEY.to_string(), vec![text()])].into(),
    }
}

pub(super) fn counted() -> CountedView {
    let nodes = || [(ANY_KEY.to_string(), 1)].into();
    let layer = LayerFitView { level: text(), fit: 1, needed: 1 };
    CountedView {
        fit: 1,
        of: 1,
        unit: text(),
        total_nodes: 1,
        excluded: ExcludedView {
            resource: nodes(),
            taint: nodes(),
            node_selector: 1,
            affinity: 1,
            topology_domain: 1,
            port: nodes(),
            limit_per_node: 1,
            pod_affinity: 1,
            pod_anti_affinity: 1,
            pod_topology_spread: 1,
            held: 1,
        },
        unavailable: nodes(),
        best: Some(BestDomainView { level: text(), values: vec![text()], per_level: vec![layer] }),
    }
}

pub(super) fn node_request() -> NodeRequestView {
    NodeRequestView {
        class: text(),
        state: text(),
        attempt: 1,
        request: text(),
        tasks: 1,
        message: text(),
        since_ms: 1,
    }
}
