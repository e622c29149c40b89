//! What a cell said and how it stands, as text.

use super::Script;
use super::parse::{Words, lease};
use ohm_cell::{
    CORDONED, DRAINING, Group, Job, NOMINATED, READY, Readiness, SHRUNK, Scratch, TaskState, repair_request_id,
};
use ohm_model::transaction::Row;
use ohm_model::{
    Command, Entry, EventKind, HeadStart, JobId, JobOutcome, Move, NodeId, Outcome, PreemptionChange, PreemptionEvent,
    QueueStopEvent, ResourceId, StopCause, Verdict, resources,
};
use std::fmt::Write;

impl Script {
    /// Writes what one entry caused.
    pub(super) fn tell(&mut self, entry: &Entry, applied: &ohm_cell::Applied) {
        let mut text = String::new();
        let index = self.cell.applied();
        for (envelope, outcome) in entry.commands.iter().zip(&applied.outcomes) {
            writeln!(text, "{index} {}: {}", verb(&envelope.command), self.outcome(outcome)).unwrap();
        }
        for event in &applied.events {
            assert_eq!((event.index, event.at_ms), (index, self.cell.now_ms()));
            writeln!(text, "    {}", self.event(&event.kind)).unwrap();
        }
        self.output.push_str(&text);
    }

    fn outcome(&self, outcome: &Outcome) -> String {
        match outcome {
            Outcome::Done => "done".into(),
            Outcome::Session(session) => format!("session {session}"),
            Outcome::Lease(epoch) => format!("epoch {epoch}"),
            Outcome::Node { node, incarnation } => format!("node #{node} incarnation {incarnation}"),
            Outcome::Jobs(jobs) => jobs.iter().map(job_outcome).collect::<Vec<_>>().join("; "),
            Outcome::Verdict(verdict) => self.verdict(verdict),
            Outcome::Refused(refusal) => format!("refused: {refusal}"),
        }
    }

    fn verdict(&self, verdict: &Verdict) -> String {
        if verdict.conflicts.is_empty() {
            return "all accepted".into();
        }
        let mut text = format!("accepted {:?}, refresh {}", verdict.accepted, verdict.refresh);
        for conflict in &verdict.conflicts {
            let row = match conflict.row {
                Row::Whole => "whole".into(),
                Row::Place(row) => format!("place {row}"),
                Row::Evict(row) => format!("evict {row}"),
                Row::Nominate(row) => format!("nominate {row}"),
                Row::Reserve(row) => format!("reserve {row}"),
                Row::Claim(row) => format!("claim {row}"),
                Row::Flavor(row) => format!("flavor {row}"),
                Row::Preempt(row) => format!("preempt {row}"),
            };
            let node = conflict.node.map_or(String::new(), |node| format!(" on {}", self.node_name(node)));
            let reason = match conflict.reason {
                ohm_model::ConflictReason::NodeFull(resource) => format!("NodeFull({})", self.resource(resource)),
                reason => format!("{reason:?}"),
            };
            write!(text, "\n      {row}{node}: {reason}").unwrap();
        }
        text
    }

    /// `judge SESSION …`: what the log would say to the transaction, without saying it to the log.
    pub(super) fn judge(&mut self, words: &mut Words) {
        let session = words.need("session").to_string();
        let transaction = self.transaction(&session, words);
        let id = self.sessions.get(&session).map_or(ohm_model::SessionId(999), |session| session.id);
        let verdict = self.cell.judge(id, &transaction, &mut Scratch::default());
        let line = format!("- judge: {}\n", self.verdict(&verdict));
        self.output.push_str(&line);
    }

    fn event(&self, kind: &EventKind) -> String {
        match kind {
            EventKind::JobSubmitted { name, .. } => format!("submitted {name}"),
            EventKind::Preemption(preemption) => preemption_text(preemption),
            EventKind::QueueStop(stop) => stop_text(stop),
            EventKind::ReadyTimeout(late) => {
                let (limit, until_ms) = (late.limit.map_or("any".into(), |limit| limit.to_string()), late.until_ms);
                format!("{} not ready in {} s, {} of {limit}, until {until_ms}", late.name, late.seconds, late.attempt)
            }
            EventKind::Readiness(_) | EventKind::Unhealthy(_) => self.health_event(kind),
            EventKind::Rollout(told) => super::rollouts::rollout_event(told),
            EventKind::FlavorsAssigned { name, groups, .. } => format!("{name} has flavors {groups:?}"),
            EventKind::JobUpdated { name, owner, fields, .. } => {
                format!("{owner} updated {name}: {}", fields.join(", "))
            }
            EventKind::JobState { name, state, reason, .. } if reason.is_empty() => format!("{name} is {state}"),
            EventKind::JobState { name, state, reason, .. } => format!("{name} is {state}: {reason}"),
            EventKind::JobForgotten { name } => format!("forgot {name}"),
            EventKind::Placed { job, group, first, count, node } => {
                let end = first + count;
                format!("placed {}/{group} {first}..{end} on {}", self.job_name(*job), self.node_name(*node))
            }
            EventKind::Stopping { job, group, task, incarnation, node, cause } => {
                let run = format!("{}/{group}/{task}#{incarnation}", self.job_name(*job));
                format!("stopping {run} on {}: {}", self.node_name(*node), cause_name(*cause))
            }
            EventKind::Started { job, group, task, incarnation, node } => {
                format!("started {}/{group}/{task}#{incarnation} on {}", self.job_name(*job), self.node_name(*node))
            }
            EventKind::Ended { job, group, task, incarnation, node, exit, cause } => {
                let run = format!("{}/{group}/{task}#{incarnation}", self.job_name(*job));
                let cause = cause.map_or(String::new(), |cause| format!(", was stopped: {}", cause_name(cause)));
                format!("ended {run} on {}: {exit}{cause}", self.node_name(*node))
            }
            EventKind::NodeRegistered { name, incarnation, .. } => format!("registered {name} as {incarnation}"),
            EventKind::NodeHealth { name, health, .. } => format!("{name} is {health:?}"),
            EventKind::NodeCordoned { name, cordoned, .. } => format!("{name} is cordoned: {cordoned}"),
            EventKind::NodeTainted { name, taint, tainted, .. } => {
                format!("{name} {} {taint}", if *tainted { "has" } else { "no longer has" })
            }
            EventKind::NodeCondition { name, condition, action, message, .. } => match action {
                Some(action) => format!("{name} has {}, {}: {message}", condition.name(), action.name()),
                None => format!("{name} has no {} any more", condition.name()),
            },
            EventKind::NodeHeldDown { name, flaps, hold_down_ms, .. } => {
                format!("{name} came back {flaps} times and is held down for {hold_down_ms} ms")
            }
            EventKind::NodeReleased { name, by_hand, .. } => format!("{name} is held down no more, by hand: {by_hand}"),
            EventKind::NodeReleasing { name, class, idle_ms, .. } => {
                format!("{name} is idle for {idle_ms} ms and goes back to {class}")
            }
            EventKind::NodeRemoved { name } => format!("removed {name}"),
            EventKind::Conflicted { scheduler, reasons, .. } => {
                let counts = reasons.iter().map(|(reason, count)| format!("{} {count}", reason.name()));
                format!("{scheduler} conflicted: {}", counts.collect::<Vec<_>>().join(", "))
            }
            EventKind::ConclusionsHeld { silent, brake_ms } => {
                format!("conclusions held: {silent} silent, {brake_ms} ms at most")
            }
            EventKind::NodeLeaseBound { lease_ms } => format!("node leases of at most {lease_ms} ms"),
            EventKind::QuotaReserved { .. }
            | EventKind::CheckChanged { .. }
            | EventKind::ChecksReady { .. }
            | EventKind::RepairRequest { .. } => super::admission::event_text(kind),
            EventKind::LeaseTaken { lease, holder } => format!("lease {lease} taken by {holder}"),
            _ => self.repair_event(kind),
        }
    }

    fn repair_event(&self, kind: &EventKind) -> String {
        match kind {
            EventKind::TasksLost { name, tasks, standing, nodes, .. } => {
                format!("{name} lost {tasks} tasks on {}, {standing} are left", nodes.join(", "))
            }
            EventKind::RepairCommitted { name, moves, .. } => {
                let step = |step: &Move| {
                    let end = step.first + step.count;
                    format!("{}/{}..{end} {} -> {}", step.group, step.first, step.from, step.to)
                };
                format!("{name} repaired: {}", moves.iter().map(step).collect::<Vec<_>>().join(", "))
            }
            EventKind::Repaired { name, tasks, took_ms, .. } => {
                format!("{name} is whole again: {tasks} tasks in {took_ms} ms")
            }
            EventKind::SurvivorsRestart { name, tasks, .. } => format!("{name} restarts {tasks} tasks in place"),
            EventKind::RepairFailed { name, reason, .. } => format!("{name} could not be repaired: {reason}"),
            EventKind::Reconciled { name, group, task, incarnation, node, lives, reason, .. } => {
                let becomes = if *lives { "lives on" } else { "is stopped" };
                format!("{name}/{group}/{task}#{incarnation} on {} {becomes}: {reason}", self.node_name(*node))
            }
            EventKind::NodeDraining { name, runs, deadline_ms: 0, .. } => format!("{name} drains: {runs} runs"),
            EventKind::NodeDraining { name, runs, deadline_ms, .. } => {
                format!("{name} drains until {deadline_ms}: {runs} runs")
            }
            EventKind::NodeUndrained { name, .. } => format!("{name} drains no more"),
            EventKind::NodeDrained { name, took_ms, .. } => format!("{name} is drained after {took_ms} ms"),
            EventKind::DrainDeadline { name, runs, .. } => format!("{name} drained for too long: {runs} runs stop"),
            EventKind::HeldByBudget(held) => format!("{} is held by budget {}", held.name, held.budget),
            EventKind::MoveReserved { name, tasks, from, to, .. } => {
                format!("{name} moves {tasks} tasks: {} -> {}", from.join(", "), to.join(", "))
            }
            EventKind::SpareHeld { name, group, node, count, .. } => {
                format!("{name}/{group} holds {count} spare on {}", self.node_name(*node))
            }
            EventKind::SpareGone { name, group, node, count, reason, .. } => {
                format!("{name}/{group} has {count} spare less on {}: {reason}", self.node_name(*node))
            }
            EventKind::RoomClaimed { name, group, tasks, .. } => {
                format!("{name}/{group} claims room for {tasks} tasks")
            }
            EventKind::RoomEarmarked { name, group, node, count, .. } => {
                format!("{name}/{group} has room for {count} on {}", self.node_name(*node))
            }
            EventKind::EarmarkGone { name, group, node, count, reason, .. } => {
                format!("{name}/{group} has room for {count} less on {}: {reason}", self.node_name(*node))
            }
            EventKind::ClaimOver { name, group, reason, .. } => format!("{name}/{group} claims no more: {reason}"),
            EventKind::HeadWaits(HeadStart { name, tasks, nodes, start_ms, is_guess, until_ms, .. }) => {
                let about = if *is_guess { "about " } else { "" };
                format!(
                    "{name} is head of its line: {tasks} tasks on {nodes} nodes from {about}{start_ms} until {until_ms}"
                )
            }
            EventKind::HeadOver { name, reason, .. } => format!("{name} is head no more: {reason}"),
            _ => panic!("{kind:?} has no words"),
        }
    }

    /// `show job|node|queue|lease|session|shapes …`
    pub(super) fn show(&mut self, words: &mut Words) {
        let text = match words.need("kind") {
            "job" => self.job_text(words.need("name")),
            "node" => self.node_text(words.need("name")),
            "usage" => self.usage_text(words.need("queue")),
            "queue" => self.queue_text(words.need("name"), words.need("resource")),
            "lease" => {
                let state = self.cell.sessions().lease(lease(words.need("lease")));
                let holder = state.holder.map_or("nobody".into(), |holder| format!("session {holder}"));
                format!("lease held by {holder}, epoch {}, renewed at {}", state.epoch, state.renewed)
            }
            "quota" => self.tree_text(),
            "flavors" => self.flavors_text(words.need("name")),
            "profiles" => self.profiles_text(),
            "budgets" => self.budgets_text(),
            "counts" => {
                let cell = &self.cell;
                let (nodes, jobs, runs) = (cell.nodes().len(), cell.jobs().len(), cell.runs().len());
                format!("{nodes} nodes, {jobs} jobs, {runs} runs, {} shapes", cell.shapes().len())
            }
            other => panic!("{other} can't be shown"),
        };
        writeln!(self.output, "- {text}").unwrap();
    }

    fn job_text(&self, name: &str) -> String {
        let Some(job) = self.cell.jobs().find(name) else { return format!("job {name} is not known") };
        let mut text = format!("job {name} is {}, version {}", job.phase(), job.version);
        if !job.spec.priority_class.is_empty() {
            write!(text, ", priority {} of {}", job.spec.priority, job.spec.priority_class).unwrap();
        }
        if !job.reserved.is_empty() {
            text.push_str(", reserved");
        }
        if let Some(grace_ms) = job.grace_ms_max {
            write!(text, ", a grace of {grace_ms} ms at most").unwrap();
        }
        if self.cell.quota().get(&job.spec.queue).is_some_and(|queue| queue.spec.ready_timeout.is_some()) {
            let Readiness { unready_since_ms, was_ready, due_ms, timeouts, until_ms } = job.readiness;
            let is_ready = if unready_since_ms > 0 { "not ready" } else { "ready or idle" };
            write!(text, "\n    {is_ready}, was ready: {was_ready}, due {due_ms}").unwrap();
            write!(text, ", timed out {timeouts} times, until {until_ms}: {}", job.reason).unwrap();
        }
        self.admission_text(job, &mut text);
        self.repair_text(job, &mut text);
        self.rollout_text(job, &mut text);
        for (run, kept) in self.cell.kept().of_job(job.id) {
            let back = match kept.back {
                None => "is away".to_string(),
                Some(None) => "is back".to_string(),
                Some(Some(after)) => format!("is back, after #{after}"),
            };
            let node = self.node_name(kept.node);
            write!(text, "\n    kept {}/{}#{} on {node} {back}", run.task.group, run.task.task, run.incarnation)
                .unwrap();
        }
        for (group, spec) in job.groups.iter().zip(&job.spec.groups) {
            write!(text, "\n    {}: {}", spec.name, group_text(group)).unwrap();
            for (at, task) in group.tasks.iter().enumerate().take(16) {
                if task.state != TaskState::Pending || task.incarnation.0 > 0 {
                    write!(text, "\n      {at}: {}", self.task_text(job, task)).unwrap();
                }
            }
        }
        text
    }

    fn repair_text(&self, job: &Job, text: &mut String) {
        if let Some(open) = &job.repairs.open {
            let (state, nodes) = (job.repair_state(), open.nodes.join(", "));
            write!(text, "\n    repair {} is {state:?}: lost {nodes}", job.repairs.begun).unwrap();
            write!(text, " in {} losses, {} placed again", open.losses, open.placed).unwrap();
            if open.give_up_ms > 0 {
                write!(text, ", gives up at {}", open.give_up_ms).unwrap();
            }
            for request in &open.requests {
                let ohm_cell::RepairRequest { number, class, attempt, state, .. } = request;
                write!(text, "\n      asks {class} for {}: {state:?}, attempt {attempt}", request.count()).unwrap();
                write!(text, " as {}", repair_request_id(job, class, *number)).unwrap();
            }
        }
        for node in &job.repairs.unhealthy {
            write!(text, "\n    unhealthy {}: {:?} since {}", node.name, node.cause, node.since).unwrap();
        }
        for past in &job.repairs.past {
            write!(text, "\n    past repair of {}: {} tasks, {:?}", past.nodes.join(", "), past.placed, past.end)
                .unwrap();
        }
    }

    fn task_text(&self, job: &Job, task: &ohm_cell::Task) -> String {
        let mut text = format!("{:?}", task.state);
        if let Some(run) = self.cell.runs().get(task.run) {
            write!(text, " #{} on {}", run.run.incarnation, self.node_name(run.node)).unwrap();
            if run.restart {
                text.push_str(", restarts");
            }
            text.push_str(&super::health::of_run(run));
            if let Some(masks) = &run.devices {
                let masks: Vec<String> = masks.iter().map(|mask| format!("0b{mask:b}")).collect();
                write!(text, " devices {}", masks.join(",")).unwrap();
            }
        }
        if task.failures > 0 {
            write!(text, ", failed {} times of {}", task.failures, job.spec.retries).unwrap();
        }
        if let Some(exit) = task.exit {
            write!(text, ", last {exit}").unwrap();
        }
        text
    }

    fn node_text(&self, name: &str) -> String {
        let (cell, Some(node)) = (&self.cell, self.cell.nodes().find(name)) else {
            return format!("node {name} is not known");
        };
        let (nodes, record) = (cell.nodes(), cell.nodes().get(node).expect("a named node has a record"));
        let mut text = format!("node {name} #{node} class {} {:?}", nodes.class(node), record.health);
        let marks = [(CORDONED, "cordoned"), (NOMINATED, "nominated"), (SHRUNK, "shrunk"), (DRAINING, "draining")];
        for (_, mark) in marks.iter().filter(|(flag, _)| nodes.flags(node) & flag != 0) {
            write!(text, " {mark}").unwrap();
        }
        assert_eq!(nodes.flags(node) & READY != 0, record.health == ohm_model::NodeHealth::Ready);
        write!(text, ", {} runs; free", cell.runs_on(node)).unwrap();
        for column in (0..cell.resources().len() as u16).map(ResourceId) {
            let (free, capacity) = (nodes.free(node, column), nodes.capacity(node, column));
            if free != 0 || capacity != 0 {
                let name = self.resource(column);
                let (free, capacity) = (resources::display(&name, free), resources::display(&name, capacity));
                write!(text, " {name} {free}/{capacity}").unwrap();
            }
        }
        let taints: Vec<String> = record.taints.iter().map(ToString::to_string).collect();
        if record.taints != record.spec.taints {
            write!(text, "; taints {}", taints.join(", ")).unwrap();
        }
        for condition in &record.conditions {
            let (kind, action) = (condition.kind.name(), condition.action.name());
            write!(text, "; {kind} ({action}) since {}: {:?}", condition.since, condition.message).unwrap();
        }
        if record.flaps.is_held {
            write!(text, "; held down until {}", record.flaps.held_until_ms).unwrap();
        }
        if !record.ports.is_empty() {
            let ports: Vec<String> = record.ports.iter().map(ToString::to_string).collect();
            write!(text, "; ports [{}]", ports.join(", ")).unwrap();
        }
        for bank in &record.devices {
            let (name, present) = (self.resource(bank.resource), bank.present);
            write!(text, "; {name} {present} present, free {:?}", bank.free_milli).unwrap();
        }
        for held in cell.nominations().on_node(node) {
            write!(text, "; held for {} × {}", held.count, self.job_name(held.job)).unwrap();
            text.push_str(if held.is_move() { " on the move" } else { "" });
            text.push_str(if held.is_spare() { " as spare" } else { "" });
            text.push_str(if held.is_earmark() { " to repair" } else { "" });
            text.push_str(if held.is_head() { " as head" } else { "" });
        }
        text
    }

    fn queue_text(&self, name: &str, resource: &str) -> String {
        let Some(node) = self.cell.quota().get(name) else { return format!("queue {name} is not known") };
        // Of a flavor: FLAVOR:RESOURCE.
        let (flavor, resource) = resource.split_once(':').unwrap_or(("", resource));
        let column = self.cell.resources().find(resource);
        let column = column.and_then(|resource| self.cell.quota().columns().find(flavor, resource));
        let used = column.map_or(0, |column| node.used(column));
        let available = column.and_then(|column| self.cell.quota().available(name, column));
        let available = available.map_or("no limit".into(), |amount| resources::display(resource, amount));
        let of = if flavor.is_empty() { String::new() } else { format!(" of {flavor}") };
        format!("queue {name}: {resource}{of} used {}, available {available}", resources::display(resource, used))
    }

    pub(super) fn node_name(&self, node: NodeId) -> String {
        self.cell.nodes().get(node).map_or_else(|| format!("#{node}"), |record| record.spec.name.clone())
    }

    pub(super) fn job_name(&self, job: JobId) -> String {
        let known = self.jobs.iter().find(|(_, id)| **id == job);
        known.map_or_else(|| format!("#{job}"), |(name, _)| name.clone())
    }

    fn resource(&self, resource: ResourceId) -> String {
        self.cell.resources().name(resource).to_string()
    }
}

fn group_text(group: &Group) -> String {
    let sums = [
        ("live", group.live),
        ("running", group.running),
        ("stopping", group.stopping),
        ("moving", group.moving.len()),
        ("leaving", group.leaving),
        ("pending", group.pending.len()),
        ("backing off", group.backing_off),
        ("succeeded", group.succeeded),
        ("failed", group.failed),
        ("skipped", group.skipped),
        ("spares", group.spares),
    ];
    let sums = sums.iter().filter(|(_, sum)| *sum > 0).map(|(name, sum)| format!("{sum} {name}"));
    let mut text = sums.collect::<Vec<_>>().join(", ");
    text.push_str(if group.started { "; started" } else { "; not started" });
    text.push_str(if group.domain.is_some() { "; in a domain" } else { "" });
    text
}

fn job_outcome(outcome: &JobOutcome) -> String {
    match outcome {
        JobOutcome::Accepted(_) => "accepted".into(),
        JobOutcome::Unchanged(_) => "unchanged".into(),
        JobOutcome::Refused(refusal) => format!("refused: {refusal}"),
        JobOutcome::Updated(_) => "updated".into(),
    }
}

fn stop_text(stop: &QueueStopEvent) -> String {
    let what = if stop.stopped { "is stopped" } else { "gives its quota back" };
    format!("{} {what}: {}", stop.name, stop.policy.reason(&stop.queue))
}

fn cause_name(cause: StopCause) -> String {
    format!("{cause:?}")
}

fn verb(command: &Command) -> &'static str {
    match command {
        Command::OpenSession { .. } => "open session",
        Command::CloseSession => "close session",
        Command::KeepAlive => "keep alive",
        Command::TakeLease { .. } => "take lease",
        Command::ReleaseLease { .. } => "release lease",
        Command::RegisterNode { .. } => "register node",
        Command::ConcludeNodes { .. } => "conclude",
        Command::BoundNodeLease { .. } => "bound node lease",
        Command::HoldConclusions { .. } => "hold conclusions",
        Command::CordonNode { .. } => "cordon",
        Command::TaintNode { .. } => "taint",
        Command::UntaintNode { .. } => "untaint",
        Command::RemoveNode { .. } => "remove node",
        Command::Report { .. } => "report",
        Command::SubmitJobs { .. } => "submit",
        Command::UpdateJob { .. } => "update",
        Command::CancelJob { .. } => "cancel",
        Command::Rollout { .. } => "rollout",
        Command::SuspendJob { .. } => "suspend",
        Command::ResumeJob { .. } => "resume",
        Command::ForgetJob { .. } => "forget",
        Command::Commit(_) => "commit",
        Command::PutQueue(_) => "put queue",
        Command::RemoveQueue { .. } => "remove queue",
        Command::PutSubqueue(_) => "put subqueue",
        Command::RemoveSubqueue { .. } => "remove subqueue",
        Command::PutBudget(_) => "put budget",
        Command::RemoveBudget { .. } => "remove budget",
        Command::PutNamespace(_) => "put namespace",
        Command::RemoveNamespace { .. } => "remove namespace",
        Command::PutPriorityClass(_) => "put priority class",
        Command::RemovePriorityClass { .. } => "remove priority class",
        Command::PutResourceFlavor(_) => "put flavor",
        Command::RemoveResourceFlavor { .. } => "remove flavor",
        Command::PutScheduling(_) => "put scheduling",
        Command::PutTopology(_) => "put topology",
        Command::RemoveTopology { .. } => "remove topology",
        Command::PutProvisioningClass(_) => "put provisioning class",
        Command::RemoveProvisioningClass { .. } => "remove provisioning class",
        Command::PutSchedulingProfile(_) => "put profile",
        Command::RemoveSchedulingProfile { .. } => "remove profile",
        Command::ReportCheck { .. } => "report check",
        Command::ReportReleased { .. } => "report released",
        Command::RaiseVersion { .. } => "raise version",
        Command::ReportConditions { .. } => "report conditions",
        Command::ReleaseNode { .. } => "release node",
        Command::DrainNode { .. } => "drain",
        Command::UndrainNode { .. } => "undrain",
        Command::Tick => "tick",
    }
}

fn preemption_text(PreemptionEvent { name, change, .. }: &PreemptionEvent) -> String {
    match change {
        PreemptionChange::Waits { need, victims, budgets, .. } => {
            let broken = if budgets.is_empty() { String::new() } else { format!(", breaking {}", budgets.join(", ")) };
            format!("{name} waits for the {} of {victims:?}{broken}", need.name())
        }
        PreemptionChange::Stopped { by, need, runs, reason } => {
            let part = runs.map(|runs| format!(" ({runs} of its runs)")).unwrap_or_default();
            format!("{name} is stopped for the {} of {by}{part}: {}", need.name(), reason.name())
        }
        PreemptionChange::Over { reason } => format!("nobody stops for {name} any more: {reason}"),
    }
}
