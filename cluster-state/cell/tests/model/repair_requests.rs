//! Nodes that repairs ask for, in the plain model: what lacks and was not asked for is worked out anew after every
//! command, for every job.

use crate::admission::wait_ms;
use crate::state::LEVELS;
use crate::state::{Alarm, Plain, PlainHold, PlainJob, State};
use crate::world::{BATCH, PEOPLE, World};
use ohm_cell::{Job, RequestState};
use ohm_model::{
    CheckReport, Class, Command, Epoch, Grain, GroupIndex, JobGuard, JobId, JobSpec, Lease, NodeConclusion, NodeHealth,
    NodeId, NodeSpec, Placement, RepairPolicy, RepairSpec, TaskIndex, Transaction,
};
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlainRequest {
    pub(crate) number: u32,
    pub(crate) class: String,
    pub(crate) attempt: u32,
    pub(crate) state: RequestState,
    pub(crate) since_ms: u64,
    pub(crate) tasks: BTreeSet<(u16, u32)>,
}

impl PlainJob {
    fn may_ask(&self) -> bool {
        let admitted = self.admission.round.as_ref().is_some_and(|round| round.0);
        self.state == State::Active && self.spec.repair.provision && admitted && !self.repair.lost.is_empty()
    }

    fn classes(&self) -> Vec<String> {
        self.admission.round.iter().flat_map(|round| &round.1).map(|check| check.class.clone()).collect()
    }
}

impl Plain {
    /// To be asked when all room that is owed was given.
    pub(crate) fn settle_repair_requests(&mut self) {
        self.lose_brought_rooms();
        for id in self.jobs.keys().copied().collect::<Vec<_>>() {
            if !self.jobs[&id].may_ask() {
                self.jobs.get_mut(&id).expect("a job").repair.requests.clear();
                continue;
            }
            let owed: BTreeSet<(u16, u32)> = self.owed_tasks(id);
            self.forget_asked(id, |task| !owed.contains(task));
            for class in self.jobs[&id].classes() {
                let mut of_class = self.jobs[&id].repair.requests.iter().filter(|request| request.class == class);
                if of_class.all(|request| request.state != RequestState::Failed) {
                    self.ask_for_repair(id, class, 1);
                }
            }
        }
    }

    /// What requests whose nodes are there are for no more.
    fn forget_asked(&mut self, id: JobId, is_over: impl Fn(&(u16, u32)) -> bool) {
        let requests = &mut self.jobs.get_mut(&id).expect("a job").repair.requests;
        for request in requests.iter_mut().filter(|request| request.state == RequestState::Ready) {
            request.tasks.retain(|task| !is_over(task));
        }
        requests.retain(|request| !request.tasks.is_empty());
    }

    /// Room that was earmarked on nodes that were brought for its job, is not any more, and was not used.
    fn lose_brought_rooms(&mut self) {
        let request_of = |hold: &PlainHold| self.nodes.get(&hold.node).map(|node| node.request().cloned());
        let now = self.holds.iter().filter(|hold| hold.is_earmark());
        let now: Vec<(PlainHold, Option<String>)> =
            now.map(|hold| (hold.clone(), request_of(hold).flatten())).collect();
        for (hold, label) in std::mem::replace(&mut self.earmarked_before, now) {
            let label = self.nodes.get(&hold.node).map_or(label, |node| node.request().cloned());
            let (id, group) = (hold.job, hold.group);
            if !self.claims.contains_key(&(id, group)) {
                continue;
            }
            let round = self.jobs[&id].admission.round.iter().flat_map(|round| &round.1);
            if !round.into_iter().any(|check| Some(&check.request) == label.as_ref()) {
                continue;
            }
            let same = |other: &&PlainHold| {
                other.is_earmark() && (other.job, other.group, other.node) == (id, group, hold.node)
            };
            let kept: BTreeSet<u32> = self.holds.iter().filter(same).flat_map(|hold| hold.tasks.clone()).collect();
            let owed = self.owed_tasks(id);
            let lost = |task: &(u16, u32)| {
                task.0 == group && hold.tasks.contains(&task.1) && !kept.contains(&task.1) && owed.contains(task)
            };
            self.forget_asked(id, lost);
        }
    }

    /// The lost tasks that don't move.
    fn owed_tasks(&self, id: JobId) -> BTreeSet<(u16, u32)> {
        let job = &self.jobs[&id];
        job.repair.lost.difference(&job.moving).copied().collect()
    }

    /// Those of groups without room that have none earmarked.
    fn lacking(&self, id: JobId) -> BTreeSet<(u16, u32)> {
        let mut lacking = self.owed_tasks(id);
        lacking.retain(|(group, _)| self.jobs[&id].repair.without_room.contains(group));
        for hold in self.holds.iter().filter(|hold| hold.job == id && hold.is_earmark()) {
            lacking.retain(|(group, task)| *group != hold.group || !hold.tasks.contains(task));
        }
        lacking
    }

    fn ask_for_repair(&mut self, id: JobId, class: String, attempt: u32) {
        let mut tasks = self.lacking(id);
        let asked = self.jobs[&id].repair.requests.iter();
        for request in asked.filter(|request| request.class == class && request.state != RequestState::Failed) {
            tasks.retain(|task| !request.tasks.contains(task));
        }
        if tasks.is_empty() {
            return;
        }
        let (since_ms, seconds) = (self.now_ms, self.provisioning_classes[&class].timeout_seconds);
        self.alarm_repair_request(id, seconds);
        self.asked_for_repairs += 1;
        let repair = &mut self.jobs.get_mut(&id).expect("a job").repair;
        repair.requested += 1;
        let (number, state) = (repair.requested, RequestState::Pending);
        repair.requests.push(PlainRequest { number, class, attempt, state, since_ms, tasks });
    }

    fn alarm_repair_request(&mut self, id: JobId, seconds: u64) {
        if seconds > 0 {
            self.alarm(self.now_ms + seconds * 1000, Alarm::RepairRequest(id));
        }
    }

    /// Whether the report is about something that a repair asks.
    pub(crate) fn report_request(
        &mut self,
        id: JobId,
        (round, class, number): (u32, &str, u32),
        report: &CheckReport,
    ) -> bool {
        let now_ms = self.now_ms;
        let is_of_round = |job: &&mut PlainJob| job.admission.round.is_some() && job.admission.rounds == round;
        let Some(job) = self.jobs.get_mut(&id).filter(is_of_round) else { return false };
        let mut requests = job.repair.requests.iter_mut();
        let Some(request) = requests.find(|request| request.number == number && request.class == class) else {
            return false;
        };
        match (report, request.state) {
            (CheckReport::Ready { .. }, RequestState::Pending) => {
                (request.state, request.since_ms) = (RequestState::Ready, now_ms);
                let seconds = self.provisioning_classes[class].booking_seconds;
                self.alarm_repair_request(id, seconds);
            }
            (CheckReport::Ready { .. } | CheckReport::Pending { .. }, _) => {}
            (CheckReport::Failed { .. }, RequestState::Ready) => {}
            _ => self.fail_request(id, number),
        }
        true
    }

    fn fail_request(&mut self, id: JobId, number: u32) {
        let now_ms = self.now_ms;
        let requests = &mut self.jobs.get_mut(&id).expect("a job").repair.requests;
        let Some(request) = requests.iter_mut().find(|request| request.number == number) else { return };
        if request.state == RequestState::Failed {
            return;
        }
        (request.state, request.since_ms) = (RequestState::Failed, now_ms);
        let request = request.clone();
        if let Some(wait_ms) = self.retry_ms(&request) {
            self.alarm(now_ms + wait_ms, Alarm::RepairRequest(id));
        }
    }

    fn retry_ms(&self, request: &PlainRequest) -> Option<u64> {
        let policy = self.provisioning_classes[&request.class].retry;
        (request.attempt <= policy.limit).then(|| wait_ms(policy, request.attempt))
    }

    pub(crate) fn repair_request_due(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id).filter(|job| job.may_ask()) else { return };
        for request in job.repair.requests.clone() {
            let class = &self.provisioning_classes[&request.class];
            let (timeout, booking) = (class.timeout_seconds, class.booking_seconds);
            let is_over = |seconds: u64| seconds > 0 && request.since_ms + seconds * 1000 <= self.now_ms;
            match request.state {
                RequestState::Pending if is_over(timeout) => self.fail_request(id, request.number),
                RequestState::Ready if is_over(booking) => match self.lacking(id).is_disjoint(&request.tasks) {
                    false => self.fail_request(id, request.number),
                    true => self.alarm_repair_request(id, booking),
                },
                RequestState::Failed
                    if self.retry_ms(&request).is_some_and(|wait_ms| request.since_ms + wait_ms <= self.now_ms) =>
                {
                    let requests = &mut self.jobs.get_mut(&id).expect("a job").repair.requests;
                    requests.retain(|known| known.number != request.number);
                    self.ask_for_repair(id, request.class, request.attempt + 1);
                }
                _ => {}
            }
        }
    }
}

impl World {
    /// A node is lost under a job that was admitted, and something of it stays elsewhere.
    fn loss_under_admitted(&mut self) -> Option<NodeId> {
        let nodes_of = |job: &Arc<Job>| -> BTreeSet<NodeId> {
            let tasks = job.groups.iter().flat_map(|group| group.tasks.iter());
            tasks.filter_map(|task| self.cell.runs().get(task.run)).map(|run| run.node).collect()
        };
        let admitted = |job: &&Arc<Job>| job.admission.round.as_ref().is_some_and(|round| round.admitted);
        let of_jobs = self.cell.jobs().iter().filter(admitted).map(nodes_of);
        let apart: Vec<NodeId> = of_jobs.filter(|nodes| nodes.len() > 1).flatten().collect();
        self.dice.pick(&apart).copied()
    }

    /// A job that asked for nodes as it was admitted, and stands on two of them.
    pub(crate) fn begin_with_admitted(&mut self) -> Result<(), String> {
        let labels = LEVELS.map(|level| (level.to_string(), "a".to_string()));
        for number in 0..3 {
            let capacity =
                [("cpu", 6_000), ("memory", 4), ("pods", 8)].map(|(name, amount)| (name.to_string(), amount));
            let (name, address, taints) = (format!("n{number}"), String::new(), Vec::new());
            let spec = NodeSpec { name, labels: labels.clone().into(), taints, capacity: capacity.into(), address };
            let (key, instance, boot, alive) = (1, 7, 1, Vec::new());
            self.step_with(PEOPLE, Command::RegisterNode { spec, key, instance, boot, alive })?;
        }
        let class = Class::BATCH;
        let mut group = self.group(0, class, false, LEVELS[0]);
        group.requests = [("cpu".to_string(), 1_000)].into();
        (group.count, group.min_count, group.spares, group.max_per_node) = (4, 2, 0, 3);
        (group.ports, group.node_selector, group.topology) = Default::default();
        let repair = RepairSpec { policy: RepairPolicy::Wait, provision: true, ..RepairSpec::default() };
        let spec = JobSpec {
            name: "j0".into(),
            class,
            queue: format!("q{}", 1 + self.dice.below(2)),
            priority_class: String::new(),
            groups: vec![group],
            active_deadline_seconds: 0,
            repair,
            suspended: false,
            ..self.job()
        };
        self.step_with(PEOPLE, Command::SubmitJobs { jobs: vec![spec] })?;
        let Some(job) = self.cell.jobs().iter().next().cloned() else { return Err("no job".into()) };
        self.commit_of(job.id, |transaction| transaction.reserve.push(job.id))?;
        let checks = self.plain.jobs[&job.id].classes();
        for class in checks {
            let epoch = self.cell.sessions().lease(Lease::Provisioning).epoch;
            let (node_selector, tolerations, message) = Default::default();
            let report = CheckReport::Ready { node_selector, tolerations, message };
            self.step_with(PEOPLE, Command::ReportCheck { epoch, job: job.id, round: 1, class, repair: 0, report })?;
        }
        let nodes = [NodeId(0), NodeId(1)].map(|node| (node, self.cell.nodes().class(node)));
        self.commit_of(job.id, |transaction| {
            transaction.jobs[0].reserved = true;
            for (first, (node, class)) in [0, 2].into_iter().zip(nodes) {
                let (group, first, count, devices) = (GroupIndex(0), TaskIndex(first), 2, Vec::new());
                transaction.place.push(Placement { job: job.id, group, first, count, node, class, devices });
            }
        })
    }

    fn commit_of(&mut self, id: JobId, fill: impl FnOnce(&mut Transaction)) -> Result<(), String> {
        let Some(job) = self.cell.jobs().get(id) else { return Err("the job is gone".into()) };
        let epoch = self.cell.sessions().lease(Lease::Shard(job.shard)).epoch;
        let mut transaction = Transaction::empty(job.shard, epoch, self.cell.applied(), Grain::PerTask);
        transaction.jobs.push(JobGuard { job: id, version: job.version, reserved: false });
        fill(&mut transaction);
        self.step_with(BATCH, Command::Commit(transaction))
    }

    pub(crate) fn loss_of_admitted(&mut self) -> Option<Command> {
        let node = self.loss_under_admitted()?;
        let incarnation = self.cell.nodes().get(node)?.incarnation;
        let epoch = self.cell.sessions().lease(Lease::Health).epoch;
        let conclusions = vec![NodeConclusion { node, incarnation, health: NodeHealth::Lost }];
        Some(Command::ConcludeNodes { epoch, conclusions })
    }

    /// Mostly about a request that a repair has made.
    pub(crate) fn request_report(&mut self) -> Option<Command> {
        let asks = |job: &&Arc<Job>| job.repairs.open.as_ref().is_some_and(|open| !open.requests.is_empty());
        let jobs: Vec<Arc<Job>> = self.cell.jobs().iter().filter(asks).cloned().collect();
        let job = self.dice.pick(&jobs).cloned()?;
        let requests = &job.repairs.open.as_ref()?.requests;
        let request = self.dice.pick(requests)?.clone();
        let message = ["", "so"][self.dice.below(2) as usize].to_string();
        let report = match self.dice.below(10) {
            0..5 => CheckReport::Ready { node_selector: Default::default(), tolerations: Vec::new(), message },
            5 => CheckReport::Pending { message },
            6..8 => CheckReport::Failed { message },
            8 => CheckReport::BookingExpired { message },
            _ => CheckReport::CapacityRevoked { message },
        };
        let held = self.cell.sessions().lease(Lease::Provisioning).epoch;
        let epoch = if self.dice.chance(980) { held } else { Epoch(held.0 + 1) };
        let repair = request.number + u32::from(self.dice.chance(50));
        let round = job.admission.rounds - u32::from(self.dice.chance(30));
        Some(Command::ReportCheck { epoch, job: job.id, round, class: request.class, repair, report })
    }
}
