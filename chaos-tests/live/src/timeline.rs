//! What happens when: a scenario laid out in time, as often as it is to be repeated.

mod chance;

use crate::scenario::{Extent, Kind, Load, Pool, Scenario, Way};
use chance::Chance;
use ohm_model::Class;
use std::collections::BTreeSet;

/// The kind of fault that a cell of several servers is there for.
pub const KILL_LEADER: &str = "kill -9 leader";
/// Between two rounds, in milliseconds.
const PAUSE_MS: u64 = 2_000;
/// Between two signs of life of a real task, in milliseconds.
const SIGN_MS: u64 = 100;

/// Everything that will be done, in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Faults and their ends.
    pub steps: Vec<Step>,
    /// Jobs by the load they belong to.
    pub submissions: Vec<Vec<Submission>>,
}

/// Something done to the cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When, in milliseconds after everything runs.
    pub at_ms: u64,
    /// What.
    pub action: Action,
}

/// What can be done to a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// SIGKILL.
    Kill(Vec<String>),
    /// SIGKILL to the server that leads: whichever it is, until it was looked up.
    KillLeader(Option<String>),
    /// SIGSTOP.
    Pause(String),
    /// SIGCONT.
    Continue(String),
    /// The connections of a process behave like this from now on.
    Link(String, LinkState),
    /// The machines of these simulated nodes are gone.
    Down(Extent, Vec<String>),
    /// They boot again.
    Up(Vec<String>),
    /// Not a byte is left on the server's disk.
    FillDisk,
    /// There is room again.
    MakeRoom,
}

/// How connections between a process and the server behave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// As they should.
    #[default]
    Open,
    /// Nothing passes this way, nothing is closed.
    Cut(Way),
    /// Everything passes so many milliseconds later.
    Delayed(u64),
    /// Connections are closed, new ones at once.
    Refusing,
}

impl Action {
    /// The kind of fault, if it is one and not the end of one.
    pub fn fault(&self) -> Option<&'static str> {
        match self {
            Action::Kill(_) => Some("kill -9"),
            Action::KillLeader(_) => Some(KILL_LEADER),
            Action::Pause(_) => Some("pause"),
            Action::FillDisk => Some("full disk"),
            Action::Down(Extent::Node, _) => Some("node down"),
            Action::Down(Extent::TwoNodes, _) => Some("two nodes down"),
            Action::Down(Extent::Rack, _) => Some("rack down"),
            Action::Link(_, LinkState::Cut(_)) => Some("cut"),
            Action::Link(_, LinkState::Delayed(_)) => Some("delay"),
            Action::Link(_, LinkState::Refusing) => Some("reset"),
            Action::Link(_, LinkState::Open) | Action::Continue(_) | Action::MakeRoom | Action::Up(_) => None,
        }
    }
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Action::Kill(victims) if victims.len() > 4 => write!(f, "kill -9 {} processes at once", victims.len()),
            Action::Kill(victims) => write!(f, "kill -9 {}", victims.join(", ")),
            Action::KillLeader(None) => write!(f, "kill -9 the leader"),
            Action::KillLeader(Some(server)) => write!(f, "kill -9 {server}, which leads"),
            Action::Pause(process) => write!(f, "pause {process}"),
            Action::Continue(process) => write!(f, "continue {process}"),
            Action::Link(process, LinkState::Open) => write!(f, "heal {process}"),
            Action::Link(process, LinkState::Cut(Way::Towards)) => write!(f, "cut {process} towards the server"),
            Action::Link(process, LinkState::Cut(Way::From)) => write!(f, "cut {process} from the server"),
            Action::Link(process, LinkState::Cut(Way::Both)) => write!(f, "cut {process}"),
            Action::Link(process, LinkState::Delayed(by_ms)) => write!(f, "delay {process} by {by_ms} ms"),
            Action::Link(process, LinkState::Refusing) => write!(f, "reset {process}"),
            Action::Down(_, nodes) => write!(f, "{} down", range(nodes)),
            Action::Up(nodes) => write!(f, "{} up", range(nodes)),
            Action::FillDisk => write!(f, "fill the disk"),
            Action::MakeRoom => write!(f, "make room on the disk"),
        }
    }
}

/// Names in few words.
fn range(nodes: &[String]) -> String {
    match nodes {
        [first, _, .., last] => format!("{first} to {last}"),
        few => few.join(", "),
    }
}

/// One job and its moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// When it is sent, in milliseconds after everything runs.
    pub at_ms: u64,
    /// Its name.
    pub job: String,
    /// How many tasks it has.
    pub tasks: usize,
    /// What it is like.
    pub load: Load,
}

impl Submission {
    /// How many signs of life each of its tasks has written when all of its work is done; simulated ones write none.
    pub fn signs(&self) -> u64 {
        match self.load.pool {
            Pool::Real => self.load.task_ms.unwrap_or(0).div_ceil(SIGN_MS) + 1,
            Pool::Simulated => 0,
        }
    }
}

impl Timeline {
    /// Lays the scenario out: once, or in rounds until `for_ms`, when nothing new begins any more. What it leaves to
    /// chance follows from the seed, in each round anew.
    pub fn new(scenario: &Scenario, for_ms: Option<u64>, seed: u64) -> Timeline {
        let mut chance = Chance::new(&scenario.cell, seed);
        let mut once = Timeline { submissions: vec![Vec::new(); scenario.loads.len()], ..Timeline::default() };
        for fault in &scenario.faults {
            once.steps.extend(steps(fault.at_ms, &chance.drawn(fault.at_ms, &fault.kind)));
        }
        for (number, load) in scenario.loads.iter().enumerate() {
            once.submissions[number] = submissions(load, &format!("load{}", number + 1));
        }
        let Some(for_ms) = for_ms else { return once.in_order() };
        chance.all_are_up();
        let period_ms = once.length_ms() + PAUSE_MS;
        let mut whole = Timeline { submissions: vec![Vec::new(); scenario.loads.len()], ..Timeline::default() };
        for (round, start_ms) in (0..for_ms).step_by(period_ms as usize).enumerate() {
            for fault in scenario.faults.iter().filter(|fault| start_ms + fault.at_ms < for_ms) {
                let at_ms = start_ms + fault.at_ms;
                whole.steps.extend(steps(at_ms, &chance.drawn(at_ms, &fault.kind)));
            }
            for (all, load) in whole.submissions.iter_mut().zip(&once.submissions) {
                let late = load.iter().map(|submission| Submission {
                    at_ms: start_ms + submission.at_ms,
                    job: format!("round{}-{}", round + 1, submission.job),
                    ..submission.clone()
                });
                all.extend(late.filter(|submission| submission.at_ms < for_ms));
            }
        }
        whole.in_order()
    }

    /// When the last thing of it happens, in milliseconds.
    pub fn length_ms(&self) -> u64 {
        let steps = self.steps.iter().map(|step| step.at_ms);
        steps.chain(self.submissions.iter().flatten().map(|submission| submission.at_ms)).max().unwrap_or(0)
    }

    /// How many jobs it has.
    pub fn jobs(&self) -> usize {
        self.submissions.iter().map(Vec::len).sum()
    }

    /// Whether this job is a service, which runs until somebody ends it.
    pub fn is_service(&self, job: &str) -> bool {
        self.is_of(job, |load| load.class == Class::SERVICE)
    }

    /// Whether this job runs until all such jobs are whole after everything was healed.
    pub fn is_until_the_end(&self, job: &str) -> bool {
        self.is_of(job, |load| load.task_ms.is_none() && load.class != Class::SERVICE)
    }

    fn is_of(&self, job: &str, is_meant: impl Fn(&Load) -> bool) -> bool {
        self.submissions.iter().flatten().any(|submission| submission.job == job && is_meant(&submission.load))
    }

    /// Whether nothing goes wrong but nodes: then everybody who decides is there all the time.
    pub fn strikes_nodes_only(&self) -> bool {
        self.steps.iter().all(|step| matches!(step.action, Action::Down(..) | Action::Up(_)))
    }

    /// Whose connections it disturbs.
    pub fn disturbed<'p>(&'p self) -> BTreeSet<&'p str> {
        let process = |step: &'p Step| match &step.action {
            Action::Link(process, _) => Some(process.as_str()),
            _ => None,
        };
        self.steps.iter().filter_map(process).collect()
    }

    fn in_order(mut self) -> Self {
        // What comes back in the same moment is up before others go down.
        self.steps.sort_by_key(|step| (step.at_ms, !matches!(step.action, Action::Up(_))));
        self
    }
}

/// The fault, and its end if it has one.
fn steps(at_ms: u64, kind: &Kind) -> Vec<Step> {
    let both = |begin: Action, end: Action, for_ms: u64| {
        vec![Step { at_ms, action: begin }, Step { at_ms: at_ms + for_ms, action: end }]
    };
    let link = |process: &String, state, for_ms| {
        both(Action::Link(process.clone(), state), Action::Link(process.clone(), LinkState::Open), for_ms)
    };
    match kind {
        Kind::Kill(victims) => vec![Step { at_ms, action: Action::Kill(victims.clone()) }],
        Kind::KillLeader => vec![Step { at_ms, action: Action::KillLeader(None) }],
        Kind::Pause { process, for_ms } => {
            both(Action::Pause(process.clone()), Action::Continue(process.clone()), *for_ms)
        }
        Kind::Cut { process, way, for_ms } => link(process, LinkState::Cut(*way), *for_ms),
        Kind::Delay { process, by_ms, for_ms } => link(process, LinkState::Delayed(*by_ms), *for_ms),
        Kind::Reset { process, for_ms } => link(process, LinkState::Refusing, *for_ms),
        // Chance found nobody who was up.
        Kind::Down { nodes, .. } if nodes.is_empty() => Vec::new(),
        Kind::Down { extent, nodes, for_ms } => {
            both(Action::Down(*extent, nodes.clone()), Action::Up(nodes.clone()), *for_ms)
        }
        Kind::Random | Kind::Outage { .. } => Vec::new(),
        Kind::FillDisk { for_ms } => both(Action::FillDisk, Action::MakeRoom, *for_ms),
    }
}

fn submissions(load: &Load, prefix: &str) -> Vec<Submission> {
    let one = |number| Submission {
        at_ms: load.at_ms(number),
        job: format!("{prefix}-{number}"),
        tasks: load.tasks_of(number),
        load: load.clone(),
    };
    (0..load.jobs).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        Scenario::parse(
            "cell: 1 real node\nload: 4 batch jobs on real nodes, 1 per second, 1 task of 1s\n\
             fault: at 2s pause server for 3s\nfault: at 1s cut node-1 for 1s\nfault: at 3s kill everything\n",
        )
        .unwrap()
    }

    fn shown(timeline: &Timeline) -> Vec<(u64, String)> {
        timeline.steps.iter().map(|step| (step.at_ms, step.action.to_string())).collect()
    }

    #[test]
    fn faults_end_and_come_in_order() {
        let timeline = Timeline::new(&scenario(), None, 1);
        let words = ["cut node-1", "heal node-1", "pause server", "kill -9 7 processes at once", "continue server"];
        assert_eq!(shown(&timeline).iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), words);
        assert_eq!((timeline.length_ms(), timeline.jobs()), (5_000, 4));
        assert_eq!(timeline.disturbed().into_iter().collect::<Vec<_>>(), ["node-1"]);
        assert_eq!(timeline.steps.iter().filter_map(|step| step.action.fault()).count(), 3);
    }

    #[test]
    fn rounds_repeat_everything_under_new_names_until_the_time_is_over() {
        // A round takes 5 s and a pause of 2 s: the second begins at 7 s, and its last fault would be at 10 s.
        let timeline = Timeline::new(&scenario(), Some(9_500), 1);
        let second: Vec<(u64, String)> = shown(&timeline).into_iter().filter(|(at_ms, _)| *at_ms >= 7_000).collect();
        let words =
            [(8_000, "cut node-1"), (9_000, "heal node-1"), (9_000, "pause server"), (12_000, "continue server")];
        assert_eq!(second, words.map(|(at_ms, text)| (at_ms, text.to_string())), "what began also ends");
        let names: Vec<&str> = timeline.submissions[0].iter().map(|submission| submission.job.as_str()).collect();
        assert_eq!(names.len(), 7);
        assert_eq!((names[0], names[6]), ("round1-load1-0", "round2-load1-2"));
        assert_eq!(Timeline::new(&scenario(), Some(1_500), 1).jobs(), 2, "a short time cuts it off");
    }

    #[test]
    fn chance_follows_from_the_seed_and_leaves_shims_awake() {
        let text = "cell: 2 real nodes\nload: 4 batch jobs on real nodes, 1 per second, 1 task of 1s\n\
                    fault: from 1s every 1s strike at random 300 times\n";
        let scenario = Scenario::parse(text).unwrap();
        let timeline = Timeline::new(&scenario, None, 7);
        assert_eq!(timeline, Timeline::new(&scenario, None, 7));
        assert_ne!(timeline, Timeline::new(&scenario, None, 8));
        let kinds: BTreeSet<&str> = timeline.steps.iter().filter_map(|step| step.action.fault()).collect();
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["cut", "delay", "kill -9", "pause", "reset"]);
        let is_shim_asleep = |step: &Step| matches!(&step.action, Action::Pause(name) if name.starts_with("shim"));
        assert!(!timeline.steps.iter().any(is_shim_asleep));
    }

    #[test]
    fn nodes_that_are_down_are_not_taken_down_again_and_all_come_back() {
        let text = "cell: 40 simulated nodes in racks of 10\nload: 1 tas jobs on simulated nodes, 1 per second, 4 tasks \
                    until the end, in one rack, repair widens\nfault: from 0s every 1s take a node down for 2s to 9s \
                    50 times\nfault: from 0s every 2s take two nodes down for 4s 20 times\nfault: from 0s every 9s \
                    take a rack down for 9s 5 times\n";
        let timeline = Timeline::new(&Scenario::parse(text).unwrap(), None, 3);
        let mut down = BTreeSet::new();
        for step in &timeline.steps {
            match &step.action {
                Action::Down(_, nodes) => assert!(nodes.iter().all(|node| down.insert(node)), "{}", step.action),
                Action::Up(nodes) => assert!(nodes.iter().all(|node| down.remove(node)), "{}", step.action),
                other => panic!("{other}"),
            }
        }
        assert!(down.is_empty() && timeline.strikes_nodes_only() && timeline.is_until_the_end("load1-0"));
        let kinds: BTreeSet<&str> = timeline.steps.iter().filter_map(|step| step.action.fault()).collect();
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["node down", "rack down", "two nodes down"]);
    }
}
