//! `v1` Node.

use super::{metadata, outline};
use crate::decode::{self, Context, Fields};
use crate::document::Content;
use ohm_model::resources::PODS;

/// How many pods a node takes that does not say it: as many as a kubelet that is told nothing. Every kubelet says it,
/// so that such a node was written by hand.
const PODS_UNSAID: i64 = 110;

pub(super) fn node(cx: &mut Context, fields: &Fields<'_>) -> Option<Content> {
    let name = metadata::name(cx, fields)?;
    let at = fields.require(cx, "metadata", "at least `{name: NAME}`")?;
    let labels = Fields::open(cx, at, &[])?.labels(cx, "labels");
    if let Some(status) = fields.get("status").filter(|_| cx.reads_in_full()) {
        let images = outline::node_images(cx, status);
        cx.aside().images = images;
    }
    let mut node = decode::node(cx, name, labels, fields.get("spec"), fields.get("status"))?;
    node.spec.capacity.entry(PODS.to_string()).or_insert(PODS_UNSAID);
    Some(Content::Node(Box::new(node)))
}
