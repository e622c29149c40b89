//! What a node should run, worked out from the cell: the whole set, each time.

use ohm_agent::{Launch, PEERS_BYTES_MAX, PeersNotice, WantedRun, WantedSet};
use ohm_cell::{Cell, Job, Run, stop_delay_ms};
use ohm_model::{Index, JobId, NodeId, Probes, Survivors};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The tasks of a group that are made of the same: by job, place of the group, and revision of the group.
type Made = (JobId, u16, u32);

/// Launch descriptions by group and revision, made once and shared by all runs of it.
#[derive(Debug, Default)]
pub struct Launches {
    by_group: BTreeMap<Made, Arc<Launch>>,
    /// Where the tasks of groups stand, and since when.
    peers: BTreeMap<(JobId, u16), (Index, Arc<PeersNotice>)>,
    /// The probes of groups that have some.
    probes: BTreeMap<Made, Arc<Probes>>,
}

/// How long the descriptions of one set may be together; the others come with later sets, when these runs have started.
/// One description is never longer than a job, so that one always fits.
const SET_BYTES_MAX: usize = 4 << 20;

/// The descriptions of one set, as far as there is room for them.
#[derive(Default)]
struct Room {
    groups: BTreeSet<Made>,
    probed: BTreeSet<Made>,
    bytes: usize,
}

/// So many descriptions are kept; beyond that they are made anew when needed.
const KEPT_MAX: usize = 10_000;

impl Launches {
    /// Forgets the descriptions of `job`: its placements, and so its peers, changed.
    pub fn forget(&mut self, job: JobId) {
        let all = (job, 0, 0)..=(job, u16::MAX, u32::MAX);
        let made: Vec<Made> = self.by_group.range(all.clone()).map(|(key, _)| *key).collect();
        made.iter().for_each(|key| drop(self.by_group.remove(key)));
        let made: Vec<Made> = self.probes.range(all).map(|(key, _)| *key).collect();
        made.iter().for_each(|key| drop(self.probes.remove(key)));
        let groups: Vec<(JobId, u16)> = self.peers.range((job, 0)..=(job, u16::MAX)).map(|(key, _)| *key).collect();
        groups.iter().for_each(|key| drop(self.peers.remove(key)));
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.by_group.clear();
        self.peers.clear();
        self.probes.clear();
    }

    /// The set of runs that `cell` wants on `node`; nothing when the node is not there.
    pub fn wanted(&mut self, cell: &Cell, node: NodeId, cell_incarnation: u64) -> Option<WantedSet> {
        let record = cell.nodes().get(node)?;
        let mut standing: Vec<&Run> = cell.runs().on_node(cell.nodes(), node).map(|(_, run)| run).collect();
        standing.sort_by_key(|run| run.run);
        let mut room = Room::default();
        let mut runs: Vec<WantedRun> =
            standing.into_iter().filter_map(|run| self.wanted_run(cell, run, &mut room)).collect();
        // Runs that live on and don't count yet are left alone.
        let left_alone = |run| WantedRun {
            run,
            started: true,
            stop: false,
            stop_delay_ms: 0,
            grace_ms_max: None,
            devices: BTreeMap::new(),
            peers: None,
            probes: None,
            ready: false,
            launch: None,
        };
        runs.extend(cell.kept().back_on(node).map(left_alone));
        Some(WantedSet { cell_incarnation, node_incarnation: record.incarnation, index: cell.applied(), runs })
    }

    fn wanted_run(&mut self, cell: &Cell, run: &Run, room: &mut Room) -> Option<WantedRun> {
        let job = cell.jobs().get(run.run.task.job)?;
        let made = (job.id, run.run.task.group.0, run.revision);
        let shape = cell.shapes().get(run.shape)?;
        let masks = run.devices.iter().flat_map(|masks| masks.iter());
        let name = |resource| cell.resources().name(resource).to_string();
        let devices = shape.devices.iter().zip(masks).map(|((resource, _), mask)| (name(*resource), *mask)).collect();
        let (started, stop) = (run.started_ms != 0, run.stop.is_some() || run.restart);
        let peers = if started && !stop { self.notice(cell, job, run) } else { None };
        let probes = if started && !stop { self.probes(job, made) } else { None };
        let probes = probes.filter(|probes| fits(&mut room.probed, &mut room.bytes, made, probes.bytes()));
        // What waits in place for its back-off is described when that is over.
        let is_to_start = !started && !stop && run.starts_ms().is_none();
        let launch = is_to_start.then(|| self.launch(cell, job, made));
        let launch = launch.filter(|launch| fits(&mut room.groups, &mut room.bytes, made, launch.bytes()));
        let (ready, grace_ms_max) = (run.is_ready(), job.grace_ms_max);
        Some(WantedRun {
            run: run.run,
            started,
            stop,
            stop_delay_ms: if stop { stop_delay_ms(job, run) } else { 0 },
            grace_ms_max,
            devices,
            peers,
            probes,
            ready,
            launch,
        })
    }

    /// What a run that was started is told of its peers, if they are other ones than it was started with.
    fn notice(&mut self, cell: &Cell, job: &Job, run: &Run) -> Option<Arc<PeersNotice>> {
        let group = run.run.task.group.0;
        if !tells_peers(job, usize::from(group)) {
            return None;
        }
        if self.peers.len() > KEPT_MAX {
            self.peers.clear();
        }
        let make = || {
            let (addresses, signal) = (peers(cell, job, usize::from(group)), job.spec.repair.signal);
            (peers_since(cell, job, usize::from(group)), Arc::new(PeersNotice { addresses, signal }))
        };
        let (since, notice) = self.peers.entry((job.id, group)).or_insert_with(make);
        (*since > run.placed && !notice.addresses.is_empty()).then(|| Arc::clone(notice))
    }

    /// What is looked at while a run that is made like this runs.
    fn probes(&mut self, job: &Job, made: Made) -> Option<Arc<Probes>> {
        let probes = job.content(usize::from(made.1), made.2).task.probes.as_ref()?;
        if self.probes.len() > KEPT_MAX {
            self.probes.clear();
        }
        Some(Arc::clone(self.probes.entry(made).or_insert_with(|| Arc::new((**probes).clone()))))
    }

    fn launch(&mut self, cell: &Cell, job: &Job, made: Made) -> Arc<Launch> {
        if self.by_group.len() > KEPT_MAX {
            self.by_group.clear();
        }
        let make = || Arc::new(describe(cell, job, (usize::from(made.1), made.2)));
        Arc::clone(self.by_group.entry(made).or_insert_with(make))
    }
}

/// Whether what is said once finds room in a set that has said it of those `known`.
fn fits(known: &mut BTreeSet<Made>, said: &mut usize, made: Made, bytes: usize) -> bool {
    let fits = known.contains(&made) || known.is_empty() || *said + bytes <= SET_BYTES_MAX;
    if fits && known.insert(made) {
        *said += bytes;
    }
    fits
}

fn describe(cell: &Cell, job: &Job, (group, revision): (usize, u32)) -> Launch {
    let spec = job.content(group, revision);
    let deadline_ms = match job.spec.active_deadline_seconds {
        0 => 0,
        seconds => job.started_ms.saturating_add(seconds.saturating_mul(1000)),
    };
    Launch {
        job_name: job.spec.name.clone(),
        group_name: spec.name.clone(),
        count: job.declared_count(group),
        peers: peers(cell, job, group),
        requests: spec.requests.clone(),
        limits: spec.limits.clone(),
        on_disconnect: job.spec.on_disconnect,
        deadline_ms,
        task: spec.task.clone(),
    }
}

/// Whether the tasks of a group know each other.
fn has_peers(job: &Job, group: usize) -> bool {
    let spec = &job.spec.groups[group];
    !(spec.elastic && spec.min_count <= 1) && job.groups[group].tasks.len() <= PEERS_BYTES_MAX
}

/// Whether tasks of a group that run are told when their peers change.
pub(crate) fn tells_peers(job: &Job, group: usize) -> bool {
    job.spec.repair.survivors == Survivors::Notify && has_peers(job, group)
}

/// The last entry that placed a task of the group, or gave the node of one another address.
fn peers_since(cell: &Cell, job: &Job, group: usize) -> Index {
    let runs = job.groups[group].tasks.iter().filter_map(|task| cell.runs().get(task.run));
    let since = runs.map(|run| {
        let addressed = cell.nodes().get(run.node).map_or(Index(0), |record| record.addressed);
        run.placed.max(addressed)
    });
    since.max().unwrap_or_default()
}

/// Where the tasks of a group stand, by rank. Tasks that start one by one don't wait for each other, and a list that no
/// task can be given is not made.
fn peers(cell: &Cell, job: &Job, group: usize) -> Vec<String> {
    if !has_peers(job, group) {
        return Vec::new();
    }
    let (spec, tasks) = (&job.spec.groups[group], &job.groups[group].tasks);
    let (mut peers, mut bytes) = (Vec::with_capacity(tasks.len()), 0);
    for task in tasks.iter().take(spec.count as usize) {
        let record = cell.runs().get(task.run).and_then(|run| cell.nodes().get(run.node));
        let address = record.map_or_else(String::new, |record| record.spec.address.clone());
        bytes += address.len() + 1;
        if bytes > PEERS_BYTES_MAX {
            return Vec::new();
        }
        peers.push(address);
    }
    peers
}
