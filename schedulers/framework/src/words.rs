//! Explanations in plain words. Every sentence repeats what was counted; none promises more.

use crate::explain::{Explanation, Miss, NearMiss, Obstacle};
use ohm_cell::{Cell, FlavorMiss, HeldUsage, Job, NoOffer, column_name, preemptions, usage_key, waiting_jobs};
use ohm_model::{FlavorResource, GroupIndex, JobId, ResourceId, resources};

impl Explanation {
    /// The explanation in sentences, one per line. `cell` gives names to numbers; it may be newer than the picture.
    pub fn to_text(&self, cell: &Cell) -> String {
        let job = cell.jobs().get(self.job).map(AsRef::as_ref);
        let mut lines = vec![self.obstacle_text(cell, job)];
        if matches!(self.obstacle, Obstacle::Room | Obstacle::Domain { .. } | Obstacle::Stopping { .. }) {
            lines.extend(job.and_then(|job| self.beside_text(job)));
            lines.extend(self.counts_text(cell));
            lines.extend(self.flavors_text());
            lines.extend(self.nearest.iter().map(|near| near_text(cell, near)));
            lines.extend(self.outlook_text());
        }
        lines.join("\n")
    }

    fn obstacle_text(&self, cell: &Cell, job: Option<&Job>) -> String {
        let mut text = self.lack_text(cell, job);
        if matches!(self.obstacle, Obstacle::Quota { .. } | Obstacle::Room | Obstacle::Domain { .. }) {
            text.extend(stopping_text(cell, self.job).map(|stopping| format!(" {stopping}")));
        }
        text
    }

    fn lack_text(&self, cell: &Cell, job: Option<&Job>) -> String {
        match &self.obstacle {
            Obstacle::Room => {
                let group = job.and_then(|job| job.spec.groups.get(usize::from(self.group.0)));
                let group = group.map_or_else(|| "the group".into(), |group| format!("group {}", group.name));
                format!(
                    "{} of the {} of {group} that must be placed together would find room.",
                    self.fit,
                    tasks(self.of)
                )
            }
            Obstacle::Domain { .. } => self.domain_text(job),
            Obstacle::Contradiction { problem } => {
                format!("Its topology request contradicts the topology: {problem}. No node that joins can change that.")
            }
            Obstacle::NoFlavor { queue, why, .. } => no_flavor_text(queue, why),
            Obstacle::Quota { queue, column, asked, available, ceded } => {
                let text = quota_text(cell, (queue, *column), (*asked, *available, *ceded));
                let first = waiting_jobs(cell, queue).next();
                let used = first.zip(job).and_then(|(first, job)| used_less(cell, first, job));
                used.map_or(text.clone(), |used| format!("{text} {used}"))
            }
            Obstacle::Turn { queue, first } => {
                let first = cell.jobs().get(*first);
                let name = first.map_or("another job", |first| first.spec.name.as_str());
                let used = first.zip(job).and_then(|(first, job)| used_less(cell, first, job));
                let used = used.map(|used| format!(" {used}")).unwrap_or_default();
                format!("It waits its turn: {name} comes first in queue {queue}, which is StrictFIFO.{used}")
            }
            Obstacle::Held { queue, policy } => {
                format!("Its {}: nothing that waits of it is placed until that is None.", policy.reason(queue))
            }
            Obstacle::Stopping { runs: 1 } => {
                "Room is kept for it; 1 run there was told to stop and has not ended yet.".to_string()
            }
            Obstacle::Stopping { runs } => {
                format!("Room is kept for it; {runs} runs there were told to stop and have not all ended yet.")
            }
            Obstacle::Waiting { what } => format!("It waits for {what}."),
            Obstacle::TooLarge { rows, limit } => format!(
                "Its plan has {rows} rows and does not fit one log entry ({limit} bytes). Fewer tasks or larger nodes \
                 would."
            ),
            Obstacle::Conflicts { attempts, reason } => format!(
                "{attempts} plans in a row collided with what others placed meanwhile (last: {}). It is looked at \
                 again soon.",
                reason.name()
            ),
            Obstacle::EmptyPlan => {
                "Its scheduler returned a plan without content, which is an error of ours.".to_string()
            }
        }
    }

    /// What a job lacks that has to stand in one domain, or in few.
    fn domain_text(&self, job: Option<&Job>) -> String {
        let Obstacle::Domain { level, best, fit, spreads, layers } = &self.obstacle else { return String::new() };
        let asked = self.asked(job, *spreads);
        let lacks = layers.iter().filter(|layer| layer.fit < layer.needed);
        let lacks =
            lacks.map(|layer| format!(" There it holds {} of {} slices of {}.", layer.fit, layer.needed, layer.level));
        let lacks: String = lacks.collect();
        match spreads {
            true if best.is_empty() => format!("{asked} domains of {level}; no domain takes any."),
            false if best.is_empty() => format!("{asked} one domain of {level}; no domain takes any."),
            true => format!("{asked} as few domains of {level} as can be; all together take {fit}.{lacks}"),
            false => format!("{asked} one domain of {level}; the best, {}, takes {fit}.{lacks}", best.join("/")),
        }
    }

    /// The beginning of a sentence about tasks or slices that stand together.
    fn asked(&self, job: Option<&Job>, spreads: bool) -> String {
        let what = match (self.slice, self.of) {
            (0 | 1, _) => tasks(self.of),
            (slice, 1) => format!("1 slice of {slice} tasks"),
            (slice, of) => format!("{of} slices of {slice} tasks"),
        };
        let spec = |group: GroupIndex| job.and_then(|job| job.spec.groups.get(usize::from(group.0)));
        let leader = self.partner.and_then(spec).map(|leader| {
            let whose = if self.of == 1 { "its" } else { "their" };
            format!(" and {whose} leader (group {})", leader.name)
        });
        let stand = if spreads { "would be placed in" } else { "must be placed in" };
        format!("{what}{} {stand}", leader.unwrap_or_default())
    }

    /// What the counts take for granted.
    fn beside_text(&self, job: &Job) -> Option<String> {
        let specs = self.beside.iter().filter_map(|group| job.spec.groups.get(usize::from(group.0)));
        let names: Vec<&str> = specs.map(|spec| spec.name.as_str()).collect();
        match names.split_last()? {
            (name, []) => Some(format!("Room for group {name} was found and is counted as taken.")),
            (last, names) => {
                Some(format!("Room for groups {} and {last} was found and is counted as taken.", names.join(", ")))
            }
        }
    }

    fn flavors_text(&self) -> Option<String> {
        let (first, others) = self.flavors.split_first()?;
        Some(match others {
            [] => format!("This is said of nodes of flavor {first}, the only one of which the quota has enough."),
            others => format!(
                "This is said of nodes of flavor {first}. Those of {} have no room for it either.",
                others.join(" and ")
            ),
        })
    }

    fn counts_text(&self, cell: &Cell) -> Option<String> {
        if self.total_nodes == 0 {
            return Some("The cell has no node.".to_string());
        }
        let mut parts = Vec::new();
        if self.open_nodes > 0 {
            parts.push(format!("{} can take at least one task", self.open_nodes));
        }
        let mut misses: Vec<(&Miss, u32)> = self.misses.iter().map(|(miss, nodes)| (miss, *nodes)).collect();
        misses.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        parts.extend(misses.into_iter().map(|(miss, nodes)| miss_text(cell, miss, nodes)));
        let nodes = if self.total_nodes == 1 { "1 node".to_string() } else { format!("{} nodes", self.total_nodes) };
        (!parts.is_empty()).then(|| format!("Of {nodes}, by the first reason found: {}.", parts.join("; ")))
    }

    /// What can be said about the future, which is little: whether these nodes could do it at all.
    fn outlook_text(&self) -> Option<String> {
        let fixed =
            |miss: &Miss| matches!(miss, Miss::Taint(_) | Miss::NodeSelector | Miss::Affinity | Miss::Capacity(_));
        let fixed_nodes: u32 = self.misses.iter().filter(|(miss, _)| fixed(miss)).map(|(_, nodes)| *nodes).sum();
        let never = self.total_nodes > 0 && fixed_nodes == self.total_nodes;
        never.then(|| {
            "None of these nodes would take a task even if it were empty: the job must ask for less or for something \
             else, or other nodes must join."
                .to_string()
        })
    }
}

fn tasks(count: u32) -> String {
    if count == 1 { "1 task".to_string() } else { format!("{count} tasks") }
}

fn near_text(cell: &Cell, near: &NearMiss) -> String {
    let name = cell.resources().name(near.resource);
    let (asked, free) = (resources::display(name, near.asked), resources::display(name, near.free.max(0)));
    format!(
        "Nearest in {name}: node {} has {free} free of the {asked} that one task asks for, and lacks nothing else.",
        near.node
    )
}

/// What keeps `nodes` nodes away, and their number.
fn miss_text(cell: &Cell, miss: &Miss, nodes: u32) -> String {
    format!("{nodes} {}", miss_words(cell, miss, nodes == 1))
}

/// What keeps one node or several away, to follow what they are called.
pub fn miss_words(cell: &Cell, miss: &Miss, one: bool) -> String {
    let (are, have, lack) = if one { ("is", "has", "lacks") } else { ("are", "have", "lack") };
    let name = |resource: &ResourceId| cell.resources().name(*resource).to_string();
    match miss {
        Miss::NotReady => format!("{are} not ready"),
        Miss::Cordoned => format!("{are} cordoned"),
        Miss::Draining => format!("{are} being drained"),
        Miss::Taint(taint) => format!("{have} the taint {taint}, which it does not tolerate"),
        Miss::NodeSelector => format!("{lack} a label of its nodeSelector"),
        Miss::Affinity => format!("{} no term of its node affinity", if one { "matches" } else { "match" }),
        Miss::OutsideTopology => format!("{lack} a label of the topology it asks for"),
        Miss::TopologyDomain => format!("{are} outside the topology domain it must be placed in"),
        Miss::Capacity(resource) => format!("{have} too little {} for one task even when empty", name(resource)),
        Miss::Resource(resource) => format!("{have} too little {} free", name(resource)),
        Miss::Devices(resource) => {
            format!("{have} enough {} free in sum, but not on the devices that are left", name(resource))
        }
        Miss::Port(port) => format!("{have} port {port} taken"),
        Miss::LimitPerNode => format!("{} as many of its tasks as one node may", if one { "holds" } else { "hold" }),
        Miss::PodAffinity(label) => format!("{have} no task in their {label} that it must be near"),
        Miss::PodAntiAffinity(label) => format!("{have} a task in their {label} that it must not be near"),
        Miss::PodTopologySpread(label) => {
            format!("{have} more of the tasks it is spread with in their {label} than it allows")
        }
        Miss::SpreadLabel(label) => format!("{lack} the label {label}, over which it is spread"),
        Miss::Held => format!("{have} the room kept for other jobs"),
    }
}

/// What a queue may still use of a column, and what is asked for.
fn quota_text(
    cell: &Cell,
    (queue, column): (&str, FlavorResource),
    (asked, available, ceded): (i64, i64, i64),
) -> String {
    let (name, what) = (cell.resources().name(cell.quota().columns().resource(column)), column_name(cell, column));
    let asked = resources::display(name, asked);
    let left = resources::display(name, available.saturating_add(ceded).max(0));
    let before = match ceded {
        0 => String::new(),
        ceded => format!(", {} of it left to jobs before this one", resources::display(name, ceded)),
    };
    format!(
        "Queue {queue} may use {left} more of {what}{before}, what it may borrow included; the job needs {asked} at \
         once. It waits until enough is given back or the quota is raised."
    )
}

/// Who was told to stop for the job.
fn stopping_text(cell: &Cell, job: JobId) -> Option<String> {
    let preemption = preemptions(cell).get(job)?;
    let jobs = preemption.victims.keys().filter_map(|victim| cell.jobs().get(*victim));
    let stopping: Vec<&str> = jobs.filter(|job| job.live() > 0).map(|job| job.spec.name.as_str()).collect();
    Some(match &stopping[..] {
        [] => "Others have stopped for it: what they had is kept for it.".to_string(),
        names => format!("What {} had is kept for it and comes free once they have stopped.", names.join(" and ")),
    })
}

/// Why no flavor of `queue` suits.
fn no_flavor_text(queue: &str, why: &NoOffer) -> String {
    match why {
        NoOffer::NotCovered(resource) => {
            format!("No resource group of queue {queue} covers {resource}, which the job asks for.")
        }
        NoOffer::NoFlavor(misses) => {
            let miss = |(flavor, miss): &(String, FlavorMiss)| match miss {
                FlavorMiss::Unknown => format!("{flavor} is not known"),
                FlavorMiss::Taint(taint) => format!("{flavor} has the taint {taint}, which the job does not tolerate"),
                FlavorMiss::NodeSelector => {
                    format!("{flavor} has other labels than the nodeSelector of the job asks for")
                }
                FlavorMiss::Affinity => format!("{flavor} has labels that fit no affinity term of the job"),
            };
            let misses: Vec<String> = misses.iter().map(miss).collect();
            format!("No flavor of queue {queue} suits the job: {}.", misses.join("; "))
        }
        NoOffer::Apart => {
            format!("Flavors of queue {queue} suit the job, but no node can have the labels of all that it needs.")
        }
    }
}

/// Why `first` comes before `job` in their queue, if that is because its part of it has used less.
fn used_less(cell: &Cell, first: &Job, job: &Job) -> Option<String> {
    let (queue, parts) = (&job.spec.queue, [&first.spec.subqueue, &job.spec.subqueue]);
    let [key, own] = parts.map(|part| usage_key(cell, queue, part, &HeldUsage::new()));
    let own_name = match parts[1].is_empty() {
        true => "those that name the queue itself".to_string(),
        false => format!("subqueue {}", parts[1]),
    };
    let text = match parts[0].is_empty() {
        true => format!(
            "Jobs that name the queue itself come before it: they have used less for their weight than {own_name}."
        ),
        false => {
            format!("Jobs of subqueue {} come before it: it has used less for its weight than {own_name}.", parts[0])
        }
    };
    (key < own).then_some(text)
}
