//! Kueue's annotations: what a set of pods asks of the topology.

use crate::decode::{At, Context, Fields};
use crate::validate::COUNT_RANGE;
use ohm_model::{TopologyMode, TopologyRequest, TopologySlice};

const REQUIRED: &str = "kueue.x-k8s.io/podset-required-topology";
const PREFERRED: &str = "kueue.x-k8s.io/podset-preferred-topology";
const UNCONSTRAINED: &str = "kueue.x-k8s.io/podset-unconstrained-topology";
const SLICE_LEVEL: &str = "kueue.x-k8s.io/podset-slice-required-topology";
const SLICE_SIZE: &str = "kueue.x-k8s.io/podset-slice-size";
const GROUP_NAME: &str = "kueue.x-k8s.io/podset-group-name";

/// What the annotations at `at` ask for, and the label of the groups placed together. A slice without a size has
/// `slice_size_default` tasks, where there is one.
pub(super) fn read(cx: &mut Context, at: Option<At<'_>>, slice_size_default: Option<u32>) -> (TopologyRequest, String) {
    let mut request = TopologyRequest::default();
    let Some(at) = at else { return (request, String::new()) };
    let Some(fields) = Fields::open(cx, at, &[]) else { return (request, String::new()) };
    let mut given = 0;
    for (key, mode) in [(REQUIRED, TopologyMode::Required), (PREFERRED, TopologyMode::Preferred)] {
        if let Some(level) = fields.text(cx, key) {
            (request.mode, request.level) = (mode, level);
            given += 1;
        }
    }
    if fields.get(UNCONSTRAINED).is_some_and(|at| at.node.as_text() == Some("true")) {
        request.mode = TopologyMode::Unconstrained;
        given += 1;
    }
    if given > 1 {
        at.rule(cx, "asks for more than one of required, preferred and unconstrained topology; keep one");
    }
    if let Some(level) = fields.text(cx, SLICE_LEVEL) {
        let size = match fields.get(SLICE_SIZE) {
            Some(at) => whole(cx, at),
            None => slice_size_default.or_else(|| {
                at.rule(cx, format!("`{SLICE_SIZE}` is missing: how many pods are in a slice"));
                None
            }),
        };
        request.slices.extend(size.map(|size| TopologySlice { level, size }));
    }
    (request, fields.text(cx, GROUP_NAME).unwrap_or_default())
}

/// A whole number of tasks; annotations hold texts.
pub(super) fn whole(cx: &mut Context, at: At<'_>) -> Option<u32> {
    let number = at.text(cx)?.parse::<u32>().ok().filter(|number| COUNT_RANGE.contains(&i64::from(*number)));
    if number.is_none() {
        at.rule(cx, format!("must be a whole number of {} to {}", COUNT_RANGE.start(), COUNT_RANGE.end()));
    }
    number
}
