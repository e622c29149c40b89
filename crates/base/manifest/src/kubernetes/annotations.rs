//! Kueue's annotations: what a set of pods asks of the topology.

use crate::decode::{At, Context, Fields};
use crate::limits::COUNT_RANGE;
use ohm_model::topology::SLICE_LAYERS_MAX;
use ohm_model::{TopologyMode, TopologyRequest, TopologySlice};
use serde::Deserialize;

/// The label that names the queue of a job.
pub const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";
const REQUIRED: &str = "kueue.x-k8s.io/podset-required-topology";
const PREFERRED: &str = "kueue.x-k8s.io/podset-preferred-topology";
const UNCONSTRAINED: &str = "kueue.x-k8s.io/podset-unconstrained-topology";
const SLICE_LEVEL: &str = "kueue.x-k8s.io/podset-slice-required-topology";
const SLICE_SIZE: &str = "kueue.x-k8s.io/podset-slice-size";
/// Several layers of slices, as JSON in a text.
const SLICE_LAYERS: &str = "kueue.x-k8s.io/podset-slice-required-topology-constraints";
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
    if let Some(at) = fields.get(SLICE_LAYERS) {
        if request.slices.is_empty() {
            request.slices = layers(cx, at).unwrap_or_default();
        } else {
            at.rule(cx, format!("is given beside `{SLICE_LEVEL}`; keep one"));
        }
    }
    (request, fields.text(cx, GROUP_NAME).unwrap_or_default())
}

/// One layer of slices, as the annotation has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Layer {
    topology: String,
    size: Size,
}

/// Kueue's own examples write the size as a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Size {
    Number(u32),
    Text(String),
}

/// The layers of slices in the text at `at`, outermost first.
fn layers(cx: &mut Context, at: At<'_>) -> Option<Vec<TopologySlice>> {
    let read = |layer: Layer| {
        let size = match layer.size {
            Size::Number(size) => Some(size),
            Size::Text(text) => text.parse().ok(),
        };
        let size = size.filter(|size| COUNT_RANGE.contains(&i64::from(*size)))?;
        Some(TopologySlice { level: layer.topology, size })
    };
    let found: Vec<Layer> = serde_json::from_str(&at.text(cx)?).unwrap_or_default();
    let layers: Option<Vec<TopologySlice>> = found.into_iter().map(read).collect();
    let layers = layers.filter(|layers| (1..=SLICE_LAYERS_MAX).contains(&layers.len()));
    if layers.is_none() {
        let what = format!("must be a JSON list of 1 to {SLICE_LAYERS_MAX} layers, the outermost first");
        at.rule(cx, format!("{what}, such as `[{{\"topology\": \"LEVEL\", \"size\": 4}}]`"));
    }
    layers
}

/// A whole number of tasks; annotations hold texts.
pub(super) fn whole(cx: &mut Context, at: At<'_>) -> Option<u32> {
    let number = at.text(cx)?.parse::<u32>().ok().filter(|number| COUNT_RANGE.contains(&i64::from(*number)));
    if number.is_none() {
        at.rule(cx, format!("must be a whole number of {} to {}", COUNT_RANGE.start(), COUNT_RANGE.end()));
    }
    number
}
