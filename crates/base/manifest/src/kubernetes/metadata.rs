//! The `metadata` that every object has.

use crate::decode::{Context, Fields};

/// `metadata.name`.
pub(super) fn name(cx: &mut Context, fields: &Fields<'_>) -> Option<String> {
    let metadata = fields.require(cx, "metadata", "at least `{name: NAME}`")?;
    let metadata = Fields::open(cx, metadata, &[])?;
    metadata.require(cx, "name", "the object's name")?.text(cx)
}
