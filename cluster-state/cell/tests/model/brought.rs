//! Nodes that were brought, in the plain model: for whom each is kept and whether it is idle are worked out anew after
//! every command.

use crate::life::NOBODY;
use crate::state::{Alarm, Phase, Plain, PlainNode};
use crate::world::World;
use ohm_model::{Command, Epoch, Index, JobId, Lease, NodeHealth, NodeId, ProvisioningClass, Taint, TaintEffect};

const REQUEST: &str = "provisioning.ohm/request";
const CLASS: &str = "provisioning.ohm/class";

/// How far a node is on its way back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PlainRelease {
    #[default]
    InUse,
    Idle(u64),
    Releasing(Index),
    Released,
}

impl PlainNode {
    pub(crate) fn request(&self) -> Option<&String> {
        self.spec.labels.get(REQUEST)
    }

    /// The taints that come of its having been brought.
    pub(crate) fn brought_taints(&self) -> Vec<Taint> {
        let taint = |key: &str, value: String| Taint { key: key.into(), value, effect: TaintEffect::NoSchedule };
        let goes = matches!(self.release, PlainRelease::Releasing(_) | PlainRelease::Released);
        let releasing = goes.then(|| taint("provisioning.ohm/releasing", String::new()));
        let kept = self.request().filter(|_| self.kept).map(|request| taint(REQUEST, request.clone()));
        releasing.into_iter().chain(kept).collect()
    }
}

impl Plain {
    /// The open requests, with who asks and whom.
    fn requests(&self) -> Vec<(String, JobId, String)> {
        let rounds = self.jobs.iter().filter_map(|(id, job)| Some((id, &job.admission.round.as_ref()?.1)));
        let of_round = rounds
            .flat_map(|(id, checks)| checks.iter().map(|check| (check.request.clone(), *id, check.class.clone())));
        of_round.collect()
    }

    /// The names are short here: none has to be cut to be a label.
    pub(crate) fn request_label(&self, id: JobId, round: u32, class: &str) -> String {
        let job = &self.jobs[&id];
        format!("{}.{:x}.{round}.{class}", job.spec.name, job.submitted_ms)
    }

    fn class_of(&self, node: &PlainNode) -> Option<&ProvisioningClass> {
        node.request()?;
        self.provisioning_classes.get(node.spec.labels.get(CLASS)?)
    }

    fn is_kept(&self, node: &PlainNode, requests: &[(String, JobId, String)]) -> bool {
        let Some(label) = node.request() else { return false };
        let exclusive = |class: Option<&ProvisioningClass>| class.is_some_and(ProvisioningClass::is_exclusive);
        let asked = requests.iter().find(|(request, ..)| request == label);
        exclusive(self.class_of(node))
            || asked.is_some_and(|(_, id, class)| {
                self.waits_for_nodes(*id) || exclusive(self.provisioning_classes.get(class))
            })
    }

    fn waits_for_nodes(&self, id: JobId) -> bool {
        self.is_driven(id)
            || self.jobs[&id].tasks.values().any(|task| matches!(task.phase, Phase::Pending | Phase::BackingOff))
    }

    /// To be asked before anything is kept for claims.
    pub(crate) fn settle_brought(&mut self) {
        let requests = self.requests();
        let kept = self.nodes.iter().map(|(id, node)| (*id, self.is_kept(node, &requests)));
        for (id, kept) in kept.collect::<Vec<_>>() {
            if self.nodes[&id].kept != kept {
                self.nodes.get_mut(&id).expect("a node").kept = kept;
                self.touch(id, NOBODY);
            }
        }
    }

    /// To be asked when all else of a command is done.
    pub(crate) fn settle_idle(&mut self) {
        let requests = self.requests();
        for id in self.nodes.keys().copied().collect::<Vec<_>>() {
            let node = &self.nodes[&id];
            let is_watched = self.class_of(node).is_some_and(|class| class.watch_seconds > 0);
            let is_asked = |(request, id, _): &(String, JobId, String)| {
                Some(request) == node.request() && (is_watched || self.waits_for_nodes(*id))
            };
            let open = requests.iter().any(is_asked);
            let empty = !self.runs.iter().any(|run| run.node == id)
                && !self.kept.iter().any(|kept| kept.run.node == id)
                && !self.holds.iter().any(|hold| hold.node == id);
            let idle = self.class_of(node).is_some() && !open && empty;
            let release = match (node.release, idle) {
                (PlainRelease::InUse, true) => PlainRelease::Idle(self.now_ms),
                (PlainRelease::Idle(_), false) => PlainRelease::InUse,
                _ => continue,
            };
            self.nodes.get_mut(&id).expect("a node").release = release;
            self.watch_idle(id);
        }
    }

    fn idle_until(&self, id: NodeId) -> Option<u64> {
        let node = self.nodes.get(&id)?;
        let PlainRelease::Idle(since_ms) = node.release else { return None };
        Some(since_ms + self.class_of(node)?.idle_seconds * 1000)
    }

    fn watch_idle(&mut self, id: NodeId) {
        if let Some(until_ms) = self.idle_until(id) {
            self.alarm(until_ms.max(self.now_ms + 1), Alarm::Idle(id));
        }
    }

    /// Nodes of a class that has other words.
    pub(crate) fn watch_class(&mut self, class: &str) {
        let of_class = |node: &PlainNode| node.spec.labels.get(CLASS).is_some_and(|named| named == class);
        let nodes: Vec<NodeId> = self.nodes.iter().filter(|(_, node)| of_class(node)).map(|(id, _)| *id).collect();
        nodes.into_iter().for_each(|id| self.watch_idle(id));
    }

    /// Whether a node is there that says it was brought by this class.
    pub(crate) fn has_brought(&self, class: &str) -> bool {
        self.nodes.values().any(|node| self.class_of(node).is_some_and(|found| found.name == class))
    }

    pub(crate) fn end_idle(&mut self, id: NodeId) {
        if self.idle_until(id).is_some_and(|until_ms| until_ms <= self.now_ms) {
            self.nodes.get_mut(&id).expect("a node").release = PlainRelease::Releasing(self.index);
            self.touch(id, NOBODY);
        }
    }

    pub(crate) fn report_released(&mut self, nodes: &[(NodeId, Index)]) {
        for (id, since) in nodes {
            let Some(node) = self.nodes.get_mut(id) else { continue };
            if node.release == PlainRelease::Releasing(*since) {
                node.release = PlainRelease::Released;
                self.taken_back += 1;
                self.touch(*id, NOBODY);
                self.remove_released(*id);
            }
        }
    }

    /// A node that was taken back is gone once it is lost and nothing may live on there.
    pub(crate) fn remove_released(&mut self, id: NodeId) {
        let gone = |node: &PlainNode| node.release == PlainRelease::Released && node.health == NodeHealth::Lost;
        let lives_on = self.kept.iter().any(|kept| kept.run.node == id);
        if self.nodes.get(&id).is_some_and(gone) && !lives_on {
            self.remove_node(id);
        }
    }
}

impl World {
    /// The label of a request, mostly one that is open, and now and then the class, too, for a node to be.
    pub(crate) fn brought_labels(&mut self) -> Vec<(String, String)> {
        let jobs = self.cell.jobs().iter().filter(|job| job.admission.rounds > 0);
        let jobs: Vec<(JobId, u32)> = jobs.map(|job| (job.id, job.admission.rounds)).collect();
        let class = crate::checks::name_of_check(self.dice.below(2));
        let Some((job, rounds)) = self.dice.pick(&jobs).copied() else { return Vec::new() };
        let round = rounds - u32::from(self.dice.chance(100));
        let request = (REQUEST.to_string(), self.plain.request_label(job, round, &class));
        let class = self.dice.chance(900).then_some((CLASS.to_string(), class));
        [request].into_iter().chain(class).collect()
    }

    /// Whether the duty said so.
    pub(crate) fn follow_released(&mut self, epoch: Epoch, nodes: &[(NodeId, Index)]) -> bool {
        let held = epoch == self.cell.sessions().lease(Lease::Provisioning).epoch;
        if held {
            self.plain.report_released(nodes);
        }
        held
    }

    /// Nodes that go back were taken back, or not.
    pub(crate) fn released(&mut self) -> Command {
        let held = self.cell.sessions().lease(Lease::Provisioning).epoch;
        let epoch = if self.dice.chance(980) { held } else { Epoch(held.0 + 1) };
        let releasing = self.plain.nodes.iter().filter_map(|(id, node)| match node.release {
            PlainRelease::Releasing(since) => Some((*id, since)),
            PlainRelease::Idle(_) => Some((*id, self.plain.index)),
            _ => None,
        });
        let nodes: Vec<(NodeId, Index)> = releasing.collect();
        let nodes = nodes.into_iter().filter(|_| self.dice.chance(700)).collect();
        Command::ReportReleased { epoch, nodes }
    }
}
