//! What only reports are made from: the images of nodes, and of pods what scores count of their containers.

use super::template::{self, Resources};
use crate::aside::{CPU_UNNAMED_MILLI, MEMORY_UNNAMED_BYTES, NodeImage, PodOutline};
use crate::decode::{At, Context, Fields};
use ohm_model::resources::{Amounts, CPU, MEMORY};

/// The images that the `status` of a node names.
pub(super) fn node_images(cx: &mut Context, status: At<'_>) -> Vec<NodeImage> {
    let Some(fields) = Fields::open(cx, status, &[]) else { return Vec::new() };
    fields.list(cx, "images", |cx, at| {
        let fields = Fields::open(cx, at, &[])?;
        let size_bytes = fields.whole(cx, "sizeBytes", 0..=i64::MAX).unwrap_or(0);
        Some(NodeImage { names: fields.list(cx, "names", |cx, at| at.text(cx)), size_bytes })
    })
}

/// What scores count of the pods with this `spec`.
pub(super) fn of_pods(cx: &mut Context, spec: &Fields<'_>) -> PodOutline {
    let mut images = Vec::new();
    let image = |cx: &mut Context, at: At<'_>| {
        let fields = Fields::open(cx, at, &[])?;
        Some((counted(template::container(cx, at)?), template::stays(&at), fields.text(cx, "image")))
    };
    let init = spec.list(cx, "initContainers", image);
    let rest = spec.list(cx, "containers", image);
    images.extend(init.iter().chain(&rest).filter_map(|(_, _, image)| image.clone()));
    images.extend(spec.list(cx, "volumes", volume_image));
    let of_init = init.iter().map(|(amounts, stays, _)| (amounts, *stays));
    let mut sum = template::together(of_init, rest.iter().map(|(amounts, _, _)| amounts));
    let whole = spec.get("resources").and_then(|at| template::amounts(cx, at)).unwrap_or_default();
    sum.extend(whole.requests);
    template::add(&mut sum, &template::overhead(cx, spec));
    sum.retain(|name, _| name == CPU || name == MEMORY);
    PodOutline { containers: (init.len() + rest.len()) as u32, images, counted: sum }
}

/// What a container asks for, with what is taken for it where it does not say.
fn counted(container: Resources) -> Amounts {
    let mut amounts = container.requests;
    amounts.entry(CPU.to_string()).or_insert(CPU_UNNAMED_MILLI);
    amounts.entry(MEMORY.to_string()).or_insert(MEMORY_UNNAMED_BYTES);
    amounts
}

fn volume_image(cx: &mut Context, at: At<'_>) -> Option<String> {
    let fields = Fields::open(cx, at, &[])?;
    let image = fields.get("image")?;
    Fields::open(cx, image, &[])?.text(cx, "reference")
}
