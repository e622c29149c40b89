//! Where the tasks of a job can be reached.

use ohm_cell::{Cell, Endpoint, Job, endpoints};
use ohm_wire::api::{EndpointList, EndpointView};

/// The endpoints of a job, or of one of its groups.
pub(crate) fn endpoint_list(cell: &Cell, job: &Job, group: Option<&str>) -> EndpointList {
    let name_of = |at: usize| job.spec.groups.get(at).map_or("", |spec| spec.name.as_str());
    let is_asked = |endpoint: &Endpoint<'_>| group.is_none_or(|group| name_of(endpoint.group) == group);
    let view = |endpoint: Endpoint<'_>| EndpointView {
        group: name_of(endpoint.group).to_string(),
        task: endpoint.task,
        node: endpoint.node.spec.name.clone(),
        address: endpoint.node.spec.address.clone(),
        ports: endpoint.ports.iter().map(ToString::to_string).collect(),
    };
    let endpoints = endpoints(cell, job).filter(is_asked).map(view).collect();
    EndpointList { job: job.spec.name.clone(), endpoints }
}
