//! A cell driven by lines of text, and what it says as text. `# …` is a comment; each command is one log entry.

mod admission;
mod budgets;
mod flavors;
mod health;
mod neighbours;
mod parse;
mod profiles;
mod rollouts;
mod shares;
mod show;
mod transaction;

use ohm_cell::{Applied, Cell};
use ohm_model::lease::SHARDS_PER_CLASS;
use ohm_model::{
    Asked, Command, Entry, Envelope, Epoch, Incarnation, Index, JobId, Lease, NodeConclusion, NodeHealth, NodeId,
    Outcome, Role, RunReport, RunReportKind, Sequence, SessionId, Shard, TakeOver,
};
use parse::Words;
use std::collections::BTreeMap;

/// Who asks, unless the line says who.
const PERSON: &str = "ann";

/// A cell, its log, and what it has said so far.
pub(crate) struct Script {
    /// The cell.
    pub(crate) cell: Cell,
    /// What it said.
    pub(crate) output: String,
    /// Every entry with what it caused.
    pub(crate) log: Vec<(Index, Entry, Applied)>,
    now_ms: u64,
    sessions: BTreeMap<String, Conversation>,
    jobs: BTreeMap<String, JobId>,
    last: Option<Envelope>,
    quiet: bool,
    /// How many words about readiness were said.
    words: u64,
}

#[derive(Clone, Copy)]
struct Conversation {
    id: SessionId,
    next: u64,
    done_below: u64,
}

impl Script {
    /// An empty cell at 1,000,000 ms with the session `people`, which sends what no other session is named for.
    pub(crate) fn new() -> Self {
        let mut script = Script {
            cell: Cell::new(),
            output: String::new(),
            log: Vec::new(),
            now_ms: 1_000_000,
            sessions: BTreeMap::new(),
            jobs: BTreeMap::new(),
            last: None,
            quiet: true,
            words: 0,
        };
        script.open("people", Role::Server);
        script.quiet = false;
        script
    }

    /// Runs one line; `\\e` in it is the character that begins what terminals act on.
    pub(crate) fn run(&mut self, line: &str) {
        let line = line.replace("\\e", "\x1b");
        let mut words = Words::new(&line);
        let Some(verb) = words.next() else { return };
        match verb {
            "session" => self.session(&mut words),
            "scheduler" | "health" | "provisioner" => self.duty(verb, &mut words),
            "show" => self.show(&mut words),
            "time" => self.now_ms = parse::time(words.need("time"), self.now_ms),
            "tick" => {
                self.now_ms = words.next().map_or(self.now_ms, |time| parse::time(time, self.now_ms));
                self.apply(vec![bare(Command::Tick)]);
            }
            // Sends the last command of a session once more, word for word.
            "again" => {
                let last = self.last.clone().expect("something was sent before");
                self.apply(vec![last]);
            }
            "ack" => {
                let session = self.sessions.get_mut(words.need("session")).expect("an open session");
                session.done_below = session.next;
            }
            "judge" => self.judge(&mut words),
            "quietly" => {
                let times: u32 = words.need("how often").parse().expect("a number");
                let (session, command) = self.command(words.need("verb"), &mut words);
                self.quiet = true;
                (0..times).for_each(|_| self.send(&session, command.clone()));
                self.quiet = false;
            }
            _ => {
                let actor = words.option("owner").unwrap_or(PERSON).into();
                let (session, command) = self.command(verb, &mut words);
                self.send(&session, Asked { actor, command });
            }
        }
        words.done();
    }

    fn command(&mut self, verb: &str, words: &mut Words) -> (String, Command) {
        let people = || "people".to_string();
        let name = |words: &mut Words| words.need("name").to_string();
        let command = match verb {
            "node" => return (people(), words.node(|run| self.run_ref(run))),
            "job" => Command::SubmitJobs { jobs: vec![words.job()] },
            "update" => {
                let version = words.option("version").map(|version| Index(version.parse().unwrap()));
                Command::UpdateJob { spec: Box::new(words.job()), version }
            }
            "rollout" => words.rollout(),
            "queue" => Command::PutQueue(words.queue(false)),
            "cohort" => Command::PutQueue(words.queue(true)),
            "subqueue" => Command::PutSubqueue(words.subqueue()),
            "remove-subqueue" => Command::RemoveSubqueue { name: name(words) },
            "scheduling" => Command::PutScheduling(words.scheduling()),
            "flavor" => Command::PutResourceFlavor(Box::new(words.flavor())),
            "remove-flavor" => Command::RemoveResourceFlavor { name: name(words) },
            "topology" => Command::PutTopology(words.topology()),
            "namespace" => Command::PutNamespace(words.namespace()),
            "remove-namespace" => Command::RemoveNamespace { name: name(words) },
            "budget" => Command::PutBudget(words.budget()),
            "remove-budget" => Command::RemoveBudget { name: name(words) },
            "priority-class" => Command::PutPriorityClass(words.priority_class()),
            "remove-priority-class" => Command::RemovePriorityClass { name: name(words) },
            "provisioning-class" => Command::PutProvisioningClass(words.provisioning_class()),
            "remove-provisioning-class" => Command::RemoveProvisioningClass { name: name(words) },
            "profile" => Command::PutSchedulingProfile(Box::new(words.profile())),
            "remove-profile" => Command::RemoveSchedulingProfile { name: name(words) },
            "check" => return self.check(words),
            "released" => return self.released(words),
            "remove-queue" => Command::RemoveQueue { name: name(words) },
            "remove-topology" => Command::RemoveTopology { name: name(words) },
            "remove-node" => Command::RemoveNode { name: name(words) },
            "cordon" | "uncordon" => Command::CordonNode { name: name(words), cordoned: verb == "cordon" },
            "taint" => Command::TaintNode { name: name(words), taint: words.need("taint").parse().expect("a taint") },
            "untaint" => {
                Command::UntaintNode { name: name(words), pattern: words.need("taint").parse().expect("a pattern") }
            }
            "drain" => {
                let number = |text: Option<&str>| text.map_or(0, |text| text.parse().expect("a number"));
                let (deadline_ms, at_once) = (number(words.option("deadline-ms")), number(words.option("at-once")));
                Command::DrainNode { name: name(words), deadline_ms, at_once: at_once as u32 }
            }
            "undrain" => Command::UndrainNode { name: name(words) },
            "cancel" => {
                let grace_ms = words.option("grace-ms").map(|text| text.parse().expect("a number"));
                Command::CancelJob { name: name(words), grace_ms }
            }
            "suspend" => Command::SuspendJob { name: name(words) },
            "forget" => Command::ForgetJob { name: name(words) },
            "resume" => Command::ResumeJob { name: name(words) },
            "report" => self.report(words),
            "raise" => Command::RaiseVersion { version: words.need("version").parse().expect("a version") },
            "commit" => {
                let session = name(words);
                return (session.clone(), Command::Commit(self.transaction(&session, words)));
            }
            "keep-alive" => return (name(words), Command::KeepAlive),
            "close" => return (name(words), Command::CloseSession),
            "take" | "release" => return self.lease(verb, words),
            "release-node" => Command::ReleaseNode { name: name(words) },
            "conditions" => self.conditions(words),
            "suspect" | "lose" | "ready" => return self.conclusion(verb, words),
            "bound" | "hold" => return self.health_command(verb, words),
            other => panic!("no command is called `{other}`"),
        };
        (people(), command)
    }

    fn session(&mut self, words: &mut Words) {
        let name = words.need("name").to_string();
        let role = match words.need("role") {
            "server" => Role::Server,
            "health" => Role::Health,
            "client" => Role::Client,
            "scheduler" => Role::Scheduler(parse::class(words.need("class"))),
            other => panic!("{other} is no role"),
        };
        self.open(&name, role);
    }

    fn open(&mut self, name: &str, role: Role) {
        let nonce = ohm_stdx::hash::bytes(name.as_bytes());
        let open = Command::OpenSession { nonce, role, name: name.to_string() };
        if let [Outcome::Session(id)] = self.apply(vec![bare(open)])[..] {
            self.sessions.insert(name.to_string(), Conversation { id, next: 1, done_below: 1 });
        }
    }

    /// Opens a session and takes every lease its duty needs, without a word.
    fn duty(&mut self, verb: &str, words: &mut Words) {
        let name = words.need("name").to_string();
        let class = (verb == "scheduler").then(|| parse::class(words.need("class")));
        let (role, lease) = match verb {
            "provisioner" => (Role::Provisioner, Lease::Provisioning),
            _ => (Role::Health, Lease::Health),
        };
        self.quiet = true;
        self.open(&name, class.map_or(role, Role::Scheduler));
        let leases: Vec<Lease> = match class {
            Some(class) => (0..SHARDS_PER_CLASS).map(|number| Lease::Shard(Shard { class, number })).collect(),
            None => vec![lease],
        };
        for lease in leases {
            let state = self.cell.sessions().lease(lease);
            self.send(&name, Command::TakeLease { lease, epoch: state.epoch, renewed: state.renewed });
        }
        self.quiet = false;
    }

    /// `take SESSION LEASE [epoch=N] [renewed=N]`, `release SESSION LEASE [epoch=N]`; a lease is `health` or `CLASS/N`.
    fn lease(&mut self, verb: &str, words: &mut Words) -> (String, Command) {
        let session = words.need("session").to_string();
        let lease = parse::lease(words.need("lease"));
        let state = self.cell.sessions().lease(lease);
        let number = |text: &str| text.parse().expect("a number");
        let epoch = Epoch(words.option("epoch").map_or(state.epoch.0, number));
        if verb == "release" {
            return (session, Command::ReleaseLease { lease, epoch });
        }
        let renewed = Index(words.option("renewed").map_or(state.renewed.0, number));
        (session, Command::TakeLease { lease, epoch, renewed })
    }

    /// `lose all NODE…`; `lose NODE [by SESSION] [incarnation=N] [epoch=N]`, and the same with `suspect` and `ready`.
    fn conclusion(&mut self, verb: &str, words: &mut Words) -> (String, Command) {
        let epoch = self.cell.sessions().lease(Lease::Health).epoch;
        if words.take("all") {
            let mut conclusions = Vec::new();
            while let Some(name) = words.next() {
                let node = self.node_id(name);
                let incarnation = self.cell.nodes().get(node).map_or(Incarnation(0), |record| record.incarnation);
                conclusions.push(NodeConclusion { node, incarnation, health: NodeHealth::Lost });
            }
            return ("health".to_string(), Command::ConcludeNodes { epoch, conclusions });
        }
        let node = self.node_id(words.need("node"));
        let session = if words.take("by") { words.need("session").to_string() } else { "health".to_string() };
        let known = self.cell.nodes().get(node).map_or(Incarnation(0), |record| record.incarnation);
        let number = |text: &str| text.parse().expect("a number");
        let incarnation =
            words.option("incarnation").map_or(known, |text| Incarnation(text.parse().expect("a number")));
        let epoch = Epoch(words.option("epoch").map_or(self.cell.sessions().lease(Lease::Health).epoch.0, number));
        let health = match verb {
            "suspect" => NodeHealth::Suspect,
            "lose" => NodeHealth::Lost,
            _ => NodeHealth::Ready,
        };
        (session, Command::ConcludeNodes { epoch, conclusions: vec![NodeConclusion { node, incarnation, health }] })
    }

    /// `bound LEASE_MS [epoch=N] [seen=MS] [duty=MS]`, `hold SILENT BRAKE_MS`.
    fn health_command(&mut self, verb: &str, words: &mut Words) -> (String, Command) {
        let number = |text: &str| -> u64 { text.parse().expect("a number") };
        let known = self.cell.sessions().lease(Lease::Health).epoch.0;
        let epoch = Epoch(words.option("epoch").map_or(known, number));
        let first = number(words.need("number"));
        let command = match verb {
            "bound" => {
                let seen_ms = words.option("seen").map_or(self.cell.health().lease_bound_ms, number);
                let duty_lease_ms = words.option("duty").map_or(4_000, number);
                let take_over = TakeOver { duty_lease_ms, resend_ms: 500, beat_interval_ms: 1_000 };
                Command::BoundNodeLease { epoch, seen_ms, lease_ms: first, take_over }
            }
            _ => Command::HoldConclusions { epoch, silent: first as u32, brake_ms: number(words.need("brake")) },
        };
        ("health".to_string(), command)
    }

    /// `report NODE RUN started|ready|unready|ended EXIT [message=…] [number=N] / RUN …`
    fn report(&mut self, words: &mut Words) -> Command {
        let node = self.node_id(words.need("node"));
        let mut reports = Vec::new();
        loop {
            let run = self.run_ref(words.need("run"));
            let kind = match words.need("started or ended") {
                "started" => RunReportKind::Started { pid: words.option("pid").map_or(0, |pid| pid.parse().unwrap()) },
                "ended" => {
                    let exit = parse::exit(words.need("exit"));
                    let message = words.option("message").unwrap_or_default().to_string();
                    RunReportKind::Ended { exit, message }
                }
                said @ ("ready" | "unready") => {
                    // Each word comes later than the last, unless the line says otherwise.
                    self.words += 1;
                    let number = words.option("number").map_or(self.words, |number| number.parse().unwrap());
                    let message = words.option("message").unwrap_or_default().to_string();
                    RunReportKind::Ready { ready: said == "ready", number, message }
                }
                other => panic!("a run is `started`, `ready`, `unready` or `ended`, not `{other}`"),
            };
            reports.push(RunReport { run, kind });
            if !words.take("/") {
                return Command::Report { node, reports };
            }
        }
    }

    /// `conditions NODE [incarnation=N] [number=N] [KIND:ACTION[:MESSAGE]…]`, the whole set.
    fn conditions(&self, words: &mut Words) -> Command {
        let node = self.node_id(words.need("node"));
        let known = self.cell.nodes().get(node).map_or(0, |record| record.incarnation.0);
        let incarnation =
            Incarnation(words.option("incarnation").map_or(known, |text| text.parse().expect("a number")));
        let said = self.cell.nodes().get(node).map_or(0, |record| record.conditions_number);
        let number = words.option("number").map_or(said + 1, |text| text.parse().expect("a number"));
        let conditions = std::iter::from_fn(|| words.next()).map(parse::condition).collect();
        Command::ReportConditions { node, incarnation, number, conditions }
    }

    fn send(&mut self, session: &str, asked: impl Into<Asked>) {
        let conversation = self.sessions.get_mut(session).unwrap_or_else(|| panic!("no session is called {session}"));
        let envelope =
            Envelope::new(conversation.id, Sequence(conversation.next), Sequence(conversation.done_below), asked);
        conversation.next += 1;
        // People acknowledge at once; other sessions by `ack`, so that retries and Busy can be shown.
        if session == "people" {
            conversation.done_below = conversation.next;
        }
        self.last = Some(envelope.clone());
        self.apply(vec![envelope]);
    }

    fn apply(&mut self, commands: Vec<Envelope>) -> Vec<Outcome> {
        let index = Index(self.cell.applied().0 + 1);
        let entry = Entry { stamp_ms: self.now_ms, commands };
        let bytes = ohm_stdx::codec::encode(&entry);
        assert_eq!(ohm_stdx::codec::decode::<Entry>(&bytes).unwrap(), entry, "an entry survives its encoding");
        let mut applied = Applied::default();
        self.cell.apply(index, &entry, &mut applied);
        for job in self.cell.jobs().iter() {
            self.jobs.insert(job.spec.name.clone(), job.id);
        }
        if !self.quiet {
            self.tell(&entry, &applied);
        }
        let outcomes = applied.outcomes.clone();
        self.log.push((index, entry, applied));
        outcomes
    }

    fn node_id(&self, text: &str) -> NodeId {
        match text.strip_prefix('#') {
            Some(number) => NodeId(number.parse().expect("a slot")),
            None => self.cell.nodes().find(text).unwrap_or_else(|| panic!("no node is called {text}")),
        }
    }

    fn job_id(&self, text: &str) -> JobId {
        match text.strip_prefix('#') {
            Some(number) => JobId(number.parse().expect("a job key")),
            None => *self.jobs.get(text).unwrap_or_else(|| panic!("no job is called {text}")),
        }
    }

    fn group(&self, job: JobId, text: &str) -> u16 {
        if let Some(number) = text.strip_prefix('#') {
            return number.parse().expect("a group number");
        }
        let job = self.cell.jobs().get(job).expect("a job that is known");
        job.spec.groups.iter().position(|group| group.name == text).expect("a group of the job") as u16
    }
}

fn bare(command: Command) -> Envelope {
    Envelope::new(SessionId(0), Sequence(0), Sequence(0), command)
}
