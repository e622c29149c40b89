//! What the cell wants to run on a node, and all that is needed to start it.

use ohm_model::{Amounts, Incarnation, Index, OnDisconnect, Probes, RunRef, TaskSpec};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The kernel takes 128 KiB in one variable (`MAX_ARG_STRLEN`); a longer list of peers would keep every task from
/// starting, so it is left out.
pub const PEERS_BYTES_MAX: usize = 120 << 10;

/// Where the tasks of a group stand now, for those that were started before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeersNotice {
    /// Addresses by rank, empty where a task has no place.
    pub addresses: Vec<String>,
    /// The signal that tells the task of it; 0 for none.
    pub signal: i32,
}

/// What equal tasks of one group share: made once per group, pointed to by every run of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The job's name.
    pub job_name: String,
    /// The group's name.
    pub group_name: String,
    /// How many tasks the group has; the rank of a run is its task number.
    pub count: u32,
    /// Addresses of the group's tasks by rank, as far as they are placed; empty where a task has none. No address at
    /// all where tasks start one by one, or where the list would be longer than [`PEERS_BYTES_MAX`].
    pub peers: Vec<String>,
    /// What each task asks for, in the units of [`ohm_model::UnitKind`].
    pub requests: Amounts,
    /// The most each task may take, as far as it has limits, in the same units.
    pub limits: Amounts,
    /// What happens to the run when the node lease ends.
    pub on_disconnect: OnDisconnect,
    /// When the job's active deadline passes, in milliseconds since 1970 by the cell's stamped clock; 0 is never. Shown
    /// to the task; the cell itself stops the run.
    pub deadline_ms: u64,
    /// What is run.
    pub task: TaskSpec,
}

impl Launch {
    /// About how many bytes it takes in a message.
    pub fn bytes(&self) -> usize {
        let texts = |texts: &[String]| texts.iter().map(|text| text.len() + 3).sum::<usize>();
        let pairs = self.task.env.iter().map(|(name, value)| name.len() + value.len() + 6).sum::<usize>();
        let amounts = self.requests.keys().chain(self.limits.keys());
        let names = amounts.map(|name| name.len() + 12).sum::<usize>();
        let probes = self.task.probes.as_ref().map_or(0, |probes| probes.bytes());
        128 + probes + texts(&self.peers) + texts(&self.task.command) + self.task.working_dir.len() + pairs + names
    }
}

/// One run that the cell has placed on the node and that has not ended there as far as the cell knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedRun {
    /// The run.
    pub run: RunRef,
    /// The cell was told that it started. A started run that the runner does not know is gone, not new.
    pub started: bool,
    /// It is to be stopped; it stays in the set until its end was reported.
    pub stop: bool,
    /// How long it runs on, once it is to be stopped, before the polite signal.
    pub stop_delay_ms: u64,
    /// It has no more than this from the polite signal on, whatever its task asks for.
    pub grace_ms_max: Option<u64>,
    /// Which devices it was given: a mask of the node's devices by resource name.
    pub devices: BTreeMap<String, u64>,
    /// The peers of a run that was started, if any of its group was placed, or got another address, after it was
    /// placed.
    pub peers: Option<Arc<PeersNotice>>,
    /// The probes of a run that was started, if it has any; those of one that is to be started are in its task.
    pub probes: Option<Arc<Probes>>,
    /// Whether the cell counts it as ready.
    pub ready: bool,
    /// How to start it. Left out where nothing is to be started any more, and where a set would grow too long: it comes
    /// with a later set, when others of the node have started.
    pub launch: Option<Arc<Launch>>,
}

impl WantedRun {
    /// How to start it, if it is to be started.
    pub fn order(&self) -> Option<StartOrder> {
        let launch = self.launch.clone().filter(|_| !self.started && !self.stop)?;
        Some(StartOrder { run: self.run, devices: self.devices.clone(), launch })
    }
}

/// One run that is to be started now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartOrder {
    /// The run.
    pub run: RunRef,
    /// Which devices it was given: a mask of the node's devices by resource name.
    pub devices: BTreeMap<String, u64>,
    /// How to start it.
    pub launch: Arc<Launch>,
}

impl StartOrder {
    /// What is looked at while the run runs.
    pub(crate) fn probes(&self) -> Option<Arc<Probes>> {
        self.launch.task.probes.as_deref().map(|probes| Arc::new(probes.clone()))
    }
}

/// Everything that is wanted on one node, as of one entry of the log. In a message each description stands once,
/// however many runs share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedSet {
    /// Raised when the cell itself was restored from a backup; indices of different ones cannot be compared.
    pub cell_incarnation: u64,
    /// The registration of the node that the set was made for.
    pub node_incarnation: Incarnation,
    /// The last entry that the set takes into account.
    pub index: Index,
    /// The runs, in any order.
    pub runs: Vec<WantedRun>,
}

impl WantedSet {
    /// What decides which of two sets is the newer one.
    pub(crate) fn age(&self) -> (u64, Incarnation, Index) {
        (self.cell_incarnation, self.node_incarnation, self.index)
    }
}

/// A set as it travels: runs point into the list of descriptions.
#[derive(Serialize, Deserialize)]
struct Message {
    cell_incarnation: u64,
    node_incarnation: Incarnation,
    index: Index,
    launches: Vec<Arc<Launch>>,
    notices: Vec<Arc<PeersNotice>>,
    probes: Vec<Arc<Probes>>,
    runs: Vec<MessageRun>,
}

#[derive(Serialize, Deserialize)]
struct MessageRun {
    run: RunRef,
    started: bool,
    stop: bool,
    stop_delay_ms: u64,
    grace_ms_max: Option<u64>,
    devices: BTreeMap<String, u64>,
    launch: Option<u32>,
    notice: Option<u32>,
    probes: Option<u32>,
    ready: bool,
}

/// What many runs share, each said once.
struct Shared<T> {
    said: Vec<Arc<T>>,
    numbers: BTreeMap<*const T, u32>,
}

impl<T> Shared<T> {
    fn new() -> Self {
        Shared { said: Vec::new(), numbers: BTreeMap::new() }
    }

    fn number(&mut self, one: &Arc<T>) -> u32 {
        *self.numbers.entry(Arc::as_ptr(one)).or_insert_with(|| {
            self.said.push(Arc::clone(one));
            self.said.len() as u32 - 1
        })
    }
}

/// What stands under `number` in the list of what is shared.
fn shared<T, E: Error>(said: &[Arc<T>], number: Option<u32>, what: &str) -> Result<Option<Arc<T>>, E> {
    let found = |number: u32| {
        let found = said.get(number as usize).cloned();
        found.ok_or_else(|| E::custom(format!("{what} {number} of {}", said.len())))
    };
    number.map(found).transpose()
}

impl Serialize for WantedSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (mut launches, mut notices, mut probes) = (Shared::new(), Shared::new(), Shared::new());
        let run = |run: &WantedRun| MessageRun {
            run: run.run,
            started: run.started,
            stop: run.stop,
            stop_delay_ms: run.stop_delay_ms,
            grace_ms_max: run.grace_ms_max,
            devices: run.devices.clone(),
            launch: run.launch.as_ref().map(|launch| launches.number(launch)),
            notice: run.peers.as_ref().map(|notice| notices.number(notice)),
            probes: run.probes.as_ref().map(|of_run| probes.number(of_run)),
            ready: run.ready,
        };
        let runs = self.runs.iter().map(run).collect();
        let (cell_incarnation, node_incarnation, index) = self.age();
        let (launches, notices, probes) = (launches.said, notices.said, probes.said);
        Message { cell_incarnation, node_incarnation, index, launches, notices, probes, runs }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for WantedSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Message { cell_incarnation, node_incarnation, index, launches, notices, probes, runs } =
            Message::deserialize(deserializer)?;
        let run = |run: MessageRun| {
            Ok(WantedRun {
                run: run.run,
                started: run.started,
                stop: run.stop,
                stop_delay_ms: run.stop_delay_ms,
                grace_ms_max: run.grace_ms_max,
                devices: run.devices,
                peers: shared::<_, D::Error>(&notices, run.notice, "peers")?,
                probes: shared::<_, D::Error>(&probes, run.probes, "probes")?,
                ready: run.ready,
                launch: shared::<_, D::Error>(&launches, run.launch, "description")?,
            })
        };
        let runs = runs.into_iter().map(run).collect::<Result<_, D::Error>>()?;
        Ok(WantedSet { cell_incarnation, node_incarnation, index, runs })
    }
}
