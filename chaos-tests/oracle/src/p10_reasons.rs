//! P10, the other half: what waits says why, and what it says is true. The numbers of an explanation are counted again
//! here, node by node, from the oracle's own books. Where they are unsure, what is said is believed.

use crate::history::Broken;
use crate::p8_hard_constraints::{is_closed, misfit};
use crate::p10_ledger::Ledger;
use crate::rooms::ports_meet;
use ohm_model::resources::PODS;
use ohm_model::{GroupIndex, GroupSpec, HostPort, JobId, JobSpec, NodeId, StopPolicy};

/// Why a node does not take a task of a group, as far as it is counted again here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It takes no new work at all.
    Closed,
    /// Taints, labels or affinity keep the group away.
    Class,
    /// Even empty it would have too little of this.
    Capacity(String),
    /// Too little of this is free.
    Resource(String),
    /// This port is taken.
    Port(HostPort),
    /// Something that is not counted again.
    Other,
}

/// What a person is told of a quota.
#[derive(Clone, Debug)]
pub struct ShortQuota {
    /// Of what there is too little.
    pub resource: String,
    /// How much the job asks for.
    pub asked: i64,
    /// How much there is, beside what is `ceded`.
    pub available: i64,
    /// How much is left to jobs that come before it.
    pub ceded: i64,
}

/// What a person is told of a queue that keeps a job back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptBack {
    /// It is held, by this policy.
    Held(StopPolicy),
    /// It is StrictFIFO, and this job comes first.
    Behind(JobId),
}

/// What a person is told about a job that waits.
#[derive(Clone, Debug)]
pub struct Reason {
    /// The group that it is about.
    pub group: GroupIndex,
    /// Other groups of the job whose tasks are counted as placed.
    pub beside: Vec<GroupIndex>,
    /// In words.
    pub text: String,
    /// How many tasks (or slices) would find room, and how many must, where room is what is missing.
    pub short: Option<(u32, u32)>,
    /// All nodes, if they were counted at all.
    pub total_nodes: u32,
    /// Nodes that can take a task.
    pub open_nodes: u32,
    /// All others.
    pub misses: Vec<(Why, u32)>,
    /// Too little quota.
    pub quota: Option<ShortQuota>,
    /// Whether its queue keeps it back.
    pub kept_back: Option<KeptBack>,
}

/// Says what is not true about the reason that a job was given for waiting.
pub(crate) fn judge_reason(ledger: &Ledger<'_>, job: JobId, reason: &Reason) -> Option<Broken> {
    let spec = ledger.books.jobs.get(&job)?;
    let wrong = |what: String| {
        let name = &spec.name;
        Some(Broken::new("P10", format!("job {name} waits and is told \"{}\", but {what}", reason.text.trim())))
    };
    if reason.text.trim().is_empty() {
        return wrong("that is nothing".into());
    }
    if let Some((fit, of)) = reason.short.filter(|(fit, of)| fit >= of) {
        return wrong(format!("{fit} of {of} would fit"));
    }
    if let Some(ShortQuota { resource, asked, available, ceded }) = &reason.quota {
        let left = ledger.quota_left(&spec.queue, resource);
        let is_known = left.is_some_and(|(least, most)| (least..=most).contains(&(available + ceded)));
        if asked <= available || !is_known {
            let told = format!("{asked} of {resource} are asked for, {available} are left beside {ceded}");
            return wrong(format!("{told}: {left:?} (least, most) are left"));
        }
        if *ceded != 0 && !ledger.may_cede(job, spec) {
            return wrong(format!("no job comes before it that {ceded} of {resource} could be left to"));
        }
    }
    let is_kept_back = match reason.kept_back {
        None => true,
        Some(KeptBack::Held(policy)) => ledger.stop_policy(spec) == Some(policy),
        Some(KeptBack::Behind(first)) => ledger.may_come_before(first, (job, spec)) && ledger.waiting.is_active(first),
    };
    if !is_kept_back {
        return wrong("its queue does not keep it back so".into());
    }
    if reason.total_nodes == 0 {
        return None;
    }
    let nodes = ledger.books.nodes.len() as u32;
    let told: u32 = reason.open_nodes + reason.misses.iter().map(|(_, nodes)| nodes).sum::<u32>();
    if reason.total_nodes != nodes || told != nodes {
        return wrong(format!("of {nodes} nodes it accounts for {told}"));
    }
    let wish = spec.groups.get(usize::from(reason.group.0))?;
    let subject = Subject { ledger, job, spec, wish, reason };
    for kind in reason.misses.iter().map(|(why, _)| why).filter(|why| **why != Why::Other) {
        let told: u32 = reason.misses.iter().filter(|(why, _)| why == kind).map(|(_, nodes)| nodes).sum();
        let holds = ledger.books.nodes.keys().filter(|node| subject.is_true(**node, kind)).count();
        if told > holds as u32 {
            return wrong(format!("{kind:?} holds for {holds} nodes, not for {told}"));
        }
    }
    None
}

struct Subject<'a> {
    ledger: &'a Ledger<'a>,
    job: JobId,
    spec: &'a JobSpec,
    wish: &'a GroupSpec,
    reason: &'a Reason,
}

impl Subject<'_> {
    fn is_true(&self, node: NodeId, why: &Why) -> bool {
        let Some(book) = self.ledger.books.nodes.get(&node) else { return false };
        let room = || self.ledger.room(self.job, node);
        let is_unsettled = self.ledger.claims.is_unsettled(node);
        // Where the other groups' tasks were put is not told: at most all of them stand here.
        let beside = || self.reason.beside.iter().filter_map(|group| self.spec.groups.get(usize::from(group.0)));
        match why {
            Why::Closed => is_closed(book).is_some(),
            Why::Class => {
                let admissions = self.ledger.admissions;
                let wish = admissions.filtered(self.job, self.wish);
                misfit(&wish, book, self.ledger.waiting.now_ms).is_some()
                    || admissions.is_unsure(self.job)
                    // It is told of the flavor that it was planned with; which one that was is not told.
                    || admissions.flavors.has_queue(&self.spec.queue)
                    || self.ledger.brought.may_keep_away(book)
            }
            Why::Capacity(name) => book.spec.capacity.get(name).copied().unwrap_or(0) < requested(self.wish, name),
            Why::Resource(name) => {
                let put: i64 = beside().map(|group| requested(group, name) * i64::from(group.count)).sum();
                is_unsettled || room().free(name) - put < requested(self.wish, name)
            }
            Why::Port(port) => {
                is_unsettled
                    || room().has_port(*port)
                    || beside().any(|group| group.ports.iter().any(|other| ports_meet(*port, *other)))
            }
            Why::Other => true,
        }
    }
}

fn requested(group: &GroupSpec, resource: &str) -> i64 {
    group.requests.get(resource).copied().unwrap_or(0) + i64::from(resource == PODS)
}
