//! What documents say that no cell is told: `ohm plan` reports by it, and nothing is placed by it.

use crate::plugins::Plugins;
use ohm_model::resources::Amounts;

/// What a document says beside its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aside {
    /// Of work of Kubernetes: the pods of each group, in the order of the groups. With
    /// [`crate::Dialect::KubernetesInFull`] only.
    pub pods: Vec<PodOutline>,
    /// Of a node of Kubernetes: the images that are there already. With [`crate::Dialect::KubernetesInFull`] only.
    pub images: Vec<NodeImage>,
    /// Of a SchedulingProfile: what it says in kube-scheduler's words. Not with [`crate::Dialect::Ohm`].
    pub plugins: Option<Plugins>,
}

/// An image that a node has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeImage {
    /// All names of it.
    pub names: Vec<String>,
    /// Its size.
    pub size_bytes: i64,
}

/// What scores count of the containers of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodOutline {
    /// How many there are, init containers among them.
    pub containers: u32,
    /// The images that they and the volumes of the pod are made from, each as often as it is named.
    pub images: Vec<String>,
    /// `cpu` and `memory` that the pod asks for, where a container that names none counts
    /// [`CPU_UNNAMED_MILLI`] and [`MEMORY_UNNAMED_BYTES`].
    pub counted: Amounts,
}

/// What a container that names no `cpu` counts where nodes are compared by what is requested.
pub const CPU_UNNAMED_MILLI: i64 = 100;
/// What a container that names no `memory` counts there: 200 MiB.
pub const MEMORY_UNNAMED_BYTES: i64 = 200 << 20;
