//! What reports are made from and no cell holds: what documents say beside what a cell is told.

use ohm_manifest::{Aside, Content, NodeDocument, NodeImage, Plugins, PodOutline};
use ohm_model::{Amounts, Class, JobSpec, Namespace, Neighbours};
use std::collections::BTreeMap;

/// What documents say beside their contents, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The pods of each group of a job.
    pub(crate) pods: BTreeMap<String, Vec<PodOutline>>,
    /// What a bound pod asks of the tasks around it, in full.
    pub(crate) bound: BTreeMap<String, Neighbours>,
    /// The images of a node.
    pub(crate) images: BTreeMap<String, Vec<NodeImage>>,
    /// The plugins of the profile of a class.
    pub(crate) plugins: BTreeMap<Class, Plugins>,
    /// What a node has: in the cell it has only what others leave, or as much as stands on it.
    pub(crate) allocatable: BTreeMap<String, Amounts>,
    /// What others take of a node.
    pub(crate) used: BTreeMap<String, Amounts>,
    /// The namespaces of all jobs.
    pub(crate) namespaces: BTreeMap<String, Namespace>,
}

impl Facts {
    /// The same with what these nodes have, and with what others take of them.
    pub(crate) fn of_nodes(mut self, nodes: &[NodeDocument]) -> Self {
        for NodeDocument { spec, used, .. } in nodes {
            self.allocatable.insert(spec.name.clone(), spec.capacity.clone());
            if !used.is_empty() {
                self.used.insert(spec.name.clone(), used.clone());
            }
        }
        self
    }

    /// Keeps what a bound pod asks of the tasks around it: in the cell only a part of it counts.
    pub(crate) fn note_bound(&mut self, pod: &JobSpec) {
        let asked = pod.groups.iter().find_map(|group| group.neighbours.as_deref());
        self.bound.extend(asked.map(|asked| (pod.name.clone(), asked.clone())));
    }

    /// Keeps what the document with this content says beside it. Of two documents of one name the job file's counts.
    pub(crate) fn take(&mut self, aside: Aside, content: &Content, asked: bool) {
        let Aside { pods, images, plugins } = aside;
        match content {
            Content::Job(job) => drop(self.pods.insert(job.name.clone(), pods)),
            Content::Pod(pod) if asked => drop(self.pods.insert(pod.job.name.clone(), pods)),
            Content::Pod(pod) if pod.stands() => drop(self.pods.entry(pod.job.name.clone()).or_insert(pods)),
            Content::Node(node) => drop(self.images.insert(node.spec.name.clone(), images)),
            Content::SchedulingProfile(profile) => {
                self.plugins.extend(plugins.map(|plugins| (profile.class, plugins)));
            }
            _ => {}
        }
    }
}
