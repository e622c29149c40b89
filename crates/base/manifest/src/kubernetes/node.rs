//! `v1` Node.

use super::metadata;
use crate::decode::{self, Context, Fields};
use crate::document::Content;

pub(super) fn node(cx: &mut Context, fields: &Fields<'_>) -> Option<Content> {
    let name = metadata::name(cx, fields)?;
    let at = fields.require(cx, "metadata", "at least `{name: NAME}`")?;
    let labels = Fields::open(cx, at, &[])?.labels(cx, "labels");
    let node = decode::node(cx, name, labels, fields.get("spec"), fields.get("status"))?;
    Some(Content::Node(Box::new(node)))
}
