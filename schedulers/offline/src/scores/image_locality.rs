//! ImageLocality: how much of the pod's images is on the node already.

use super::ground::{Ground, Place};
use super::normal::SCORE_MAX;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Images of less than this together are soon there.
const LEAST_BYTES: i64 = 23 << 20;
/// More than this for each container makes no difference.
const MOST_BYTES: i64 = 1000 << 20;

pub(super) fn score(ground: &Ground<'_>) -> Option<Vec<i64>> {
    let outline = ground.own.outline?;
    let wanted: Vec<Cow<'_, str>> = outline.images.iter().map(|image| tagged(image)).collect();
    let looked_for: BTreeSet<&str> = wanted.iter().map(AsRef::as_ref).collect();
    // Of all nodes, those among them that do not fit: an image that is everywhere draws nobody to a single node.
    let found: Vec<BTreeMap<&str, i64>> = ground.nodes.iter().map(|place| sizes(place, &looked_for)).collect();
    let mut spread: BTreeMap<&str, i64> = BTreeMap::new();
    found.iter().flat_map(BTreeMap::keys).for_each(|name| *spread.entry(name).or_insert(0) += 1);
    let all = ground.nodes.len() as i128;
    let of_image = |sizes: &BTreeMap<&str, i64>, image: &str| {
        let Some((size, nodes)) = sizes.get(image).zip(spread.get(image)) else { return 0 };
        (i128::from(*size) * i128::from(*nodes) / all) as i64
    };
    let most = MOST_BYTES.saturating_mul(i64::from(outline.containers));
    let of_node = |sizes: &BTreeMap<&str, i64>| {
        let sum = wanted.iter().fold(0i64, |sum, image| sum.saturating_add(of_image(sizes, image)));
        // A pod without containers has no upper end: nothing is above the lower one.
        if most <= LEAST_BYTES {
            0
        } else {
            SCORE_MAX * (sum.clamp(LEAST_BYTES, most) - LEAST_BYTES) / (most - LEAST_BYTES)
        }
    };
    let fitting = ground.nodes.iter().zip(&found).filter(|(place, _)| place.fits);
    Some(fitting.map(|(_, sizes)| of_node(sizes)).collect())
}

/// The sizes of those images that are on a node, by the names that are looked for.
fn sizes<'w>(place: &Place<'w>, looked_for: &BTreeSet<&str>) -> BTreeMap<&'w str, i64> {
    let names = place.images.iter().flat_map(|image| image.names.iter().map(|name| (name.as_str(), image.size_bytes)));
    names.filter(|(name, _)| looked_for.contains(name)).collect()
}

/// An image without a tag is the latest one.
fn tagged(image: &str) -> Cow<'_, str> {
    let is_tagged = image.rfind(':') > image.rfind('/');
    if is_tagged { Cow::Borrowed(image) } else { Cow::Owned(format!("{image}:latest")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_a_registry_is_no_tag() {
        assert_eq!(tagged("a"), "a:latest");
        assert_eq!(tagged("a:1"), "a:1");
        assert_eq!(tagged("registry:5000/a"), "registry:5000/a:latest");
        assert_eq!(tagged("registry:5000/a:1"), "registry:5000/a:1");
    }
}
