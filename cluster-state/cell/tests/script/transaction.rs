//! `commit SESSION [grain=…] [guard=…] [breaks=N] [seen=N|-N] [epoch=…] [shard=…] / place … / evict … / nominate … / reserve … / claim … /
//! preempt JOB REASON [for-room] [runs=GROUP/TASK#INCARNATION,…] / job …`

use super::Script;
use super::parse::{self, Words};
use ohm_model::{
    Claim, ClassId, Epoch, Grain, GroupIndex, Guard, Index, JobGuard, JobId, Lease, NodeId, Nomination, Placement,
    PreemptionNeed, PreemptionReason, Purpose, RunRef, Shard, StopCause, TaskIndex, Transaction, Victim,
};

impl Script {
    /// Reads a transaction. Jobs are guarded by their version now unless a `job` part says otherwise; the shard is the
    /// first job's.
    pub(super) fn transaction(&mut self, session: &str, words: &mut Words) -> Transaction {
        let number = |text: &str| text.parse::<u64>().expect("a number");
        let mut transaction = Transaction {
            guard: words.option("guard").map_or(Guard::Fits, guard),
            breaks: words.option("breaks").map_or(0, |tasks| tasks.parse().expect("a number")),
            ..Transaction::empty(
                Shard { class: ohm_model::Class::BATCH, number: 0 },
                Epoch(0),
                Index(words.option("seen").map_or(self.cell.applied().0, |seen| self.seen(seen))),
                words.option("grain").map_or(Grain::PerTask, grain),
            )
        };
        let (epoch, shard) = (words.option("epoch").map(number), words.option("shard").map(parse::lease));
        while words.take("/") {
            match words.need("a part") {
                "place" => transaction.place.push(self.placement(words)),
                "evict" => transaction.evict.push((self.run_ref(words.need("run")), cause(words.next()))),
                "nominate" => transaction.nominate.push(self.nomination(words)),
                "reserve" => transaction.reserve.push(self.job_id(words.need("job"))),
                "claim" => {
                    let (job, group) = self.job_and_group(words.need("job/group"));
                    transaction.claim.push(Claim { job, group: GroupIndex(group) });
                }
                "flavor" => transaction.flavors.push(self.flavor_choice(words)),
                "for" => {
                    let job = self.job_id(words.need("job"));
                    transaction.jobs.push(self.job_guard(job, None, false));
                }
                "preempt" => {
                    let (name, reason) = (words.need("job"), preemption_reason(words.need("a reason")));
                    let runs = words.option("runs").into_iter().flat_map(|runs| runs.split(','));
                    let runs = runs.map(|run| self.run_ref(&format!("{name}/{run}"))).collect();
                    let need = if words.flag("for-room") { PreemptionNeed::Room } else { PreemptionNeed::Quota };
                    transaction.preempt.push(Victim { job: self.job_id(name), need, reason, runs });
                }
                "job" => {
                    let job = self.job_id(words.need("job"));
                    let version = words.option("version").map(number);
                    let reserved = words.take("reserved");
                    transaction.jobs.push(self.job_guard(job, version, reserved));
                }
                other => panic!("no part of a transaction is called `{other}`"),
            }
        }
        if !words.take("unguarded") {
            self.add_guards(&mut transaction);
        }
        let first = transaction.jobs.first().and_then(|guard| self.cell.jobs().get(guard.job));
        transaction.shard = match shard {
            Some(Lease::Shard(shard)) => shard,
            _ => first.map_or(self.shard_of(session), |job| job.shard),
        };
        let held = self.cell.sessions().lease(Lease::Shard(transaction.shard)).epoch;
        transaction.epoch = epoch.map_or(held, Epoch);
        transaction
    }

    /// An index, or `-N` for N entries ago.
    fn seen(&self, text: &str) -> u64 {
        match text.strip_prefix('-') {
            Some(ago) => self.cell.applied().0 - ago.parse::<u64>().expect("a number"),
            None => text.parse().expect("an index"),
        }
    }

    /// Any shard that the session holds; for transactions that name no job.
    fn shard_of(&self, session: &str) -> Shard {
        let id = self.sessions.get(session).map(|session| session.id);
        let held = self.cell.sessions().leases().find_map(|(lease, state)| match lease {
            Lease::Shard(shard) if state.holder == id => Some(shard),
            _ => None,
        });
        held.unwrap_or(Shard { class: ohm_model::Class::BATCH, number: 0 })
    }

    fn add_guards(&self, transaction: &mut Transaction) {
        let placed = transaction.place.iter().map(|placement| placement.job);
        let nominated = transaction.nominate.iter().map(|nomination| nomination.job);
        let claimed = transaction.claim.iter().map(|claim| claim.job);
        let others = transaction.reserve.iter().copied().chain(claimed);
        let jobs: Vec<JobId> = placed.chain(nominated).chain(others).collect();
        for job in jobs {
            if !transaction.jobs.iter().any(|guard| guard.job == job) {
                transaction.jobs.push(self.job_guard(job, None, false));
            }
        }
    }

    fn job_guard(&self, job: JobId, version: Option<u64>, reserved: bool) -> JobGuard {
        let now = self.cell.jobs().get(job).map_or(Index(0), |job| job.version);
        JobGuard { job, version: version.map_or(now, Index), reserved }
    }

    /// `JOB/GROUP FIRST..END|FIRST+COUNT on NODE [class=N] [devices=MASK,MASK…]`
    fn placement(&self, words: &mut Words) -> Placement {
        let (job, group) = self.job_and_group(words.need("job/group"));
        let (first, count) = parse::range(words.need("a range of tasks"));
        let node = self.node(words);
        let known = self.cell.nodes().class(node);
        let mask = |text: &str| u64::from_str_radix(text.trim_start_matches("0b"), 2).expect("a mask in binary");
        Placement {
            job,
            group: GroupIndex(group),
            first: TaskIndex(first),
            count,
            node,
            class: words.option("class").map_or(known, |class| ClassId(class.parse().expect("a class number"))),
            devices: words.option("devices").map(|masks| masks.split(',').map(mask).collect()).unwrap_or_default(),
        }
    }

    /// `JOB/GROUP COUNT on NODE until TIME`, `… head TIME [start=TIME] [guessed]`, `… spare`, or `JOB/GROUP FIRST..END on NODE moving`
    fn nomination(&self, words: &mut Words) -> Nomination {
        let (job, group) = self.job_and_group(words.need("job/group"));
        let tasks = words.need("a count, or a range of tasks");
        let (first, count) = match tasks.contains("..") {
            true => parse::range(tasks),
            false => (0, tasks.parse().expect("a count")),
        };
        let node = self.node(words);
        let purpose = match words.need("until, head, moving or spare") {
            "head" => {
                let until_ms = parse::time(words.need("a time"), self.now_ms);
                let start_ms = words.option("start").map_or(self.now_ms, |start| parse::time(start, self.now_ms));
                Purpose::Head { start_ms, is_guess: words.take("guessed"), until_ms }
            }
            "moving" => Purpose::Move,
            "spare" => Purpose::Spare,
            "until" => Purpose::Preemptor { expires_ms: parse::time(words.need("a time"), self.now_ms) },
            other => panic!("room is kept until a time, for a head, moving or spare, not {other}"),
        };
        Nomination { job, group: GroupIndex(group), node, first: TaskIndex(first), count, purpose }
    }

    fn node(&self, words: &mut Words) -> NodeId {
        assert!(words.take("on"), "`on NODE` is missing");
        self.node_id(words.need("a node"))
    }

    pub(super) fn job_and_group(&self, text: &str) -> (JobId, u16) {
        let (job, group) = text.rsplit_once('/').expect("JOB/GROUP");
        let job = self.job_id(job);
        (job, self.group(job, group))
    }

    /// `JOB/GROUP/TASK#INCARNATION`
    pub(super) fn run_ref(&self, text: &str) -> RunRef {
        let (task, incarnation) = text.rsplit_once('#').expect("JOB/GROUP/TASK#INCARNATION");
        let (group, task) = task.rsplit_once('/').expect("JOB/GROUP/TASK#INCARNATION");
        let (job, group) = self.job_and_group(group);
        RunRef::new(job, group, task.parse().expect("a task"), incarnation.parse().expect("an incarnation"))
    }
}

fn grain(text: &str) -> Grain {
    match text {
        "task" => Grain::PerTask,
        "minimum" => Grain::Minimum,
        "all" => Grain::AllOrNothing,
        other => panic!("a grain is task, minimum or all, not {other}"),
    }
}

fn guard(text: &str) -> Guard {
    match text {
        "fits" => Guard::Fits,
        "unchanged" => Guard::Unchanged,
        other => panic!("a guard is fits or unchanged, not {other}"),
    }
}

fn preemption_reason(text: &str) -> PreemptionReason {
    match text {
        "in-queue" => PreemptionReason::InClusterQueue,
        "reclaim" => PreemptionReason::InCohortReclamation,
        "borrowing" => PreemptionReason::InCohortReclaimWhileBorrowing,
        "share" => PreemptionReason::InCohortFairSharing,
        "priority" => PreemptionReason::LowerPriority,
        other => panic!("jobs are stopped in-queue, to reclaim, while borrowing, by share or priority, not {other}"),
    }
}

fn cause(word: Option<&str>) -> StopCause {
    match word {
        Some("preempted") => StopCause::Preempted,
        Some("moved") => StopCause::Moved,
        Some("restart") => StopCause::GangRestart,
        Some("repair-failed") => StopCause::RepairFailed,
        Some("drained") => StopCause::Drained,
        other => panic!("an eviction is preempted, moved, restart or drained, not {other:?}"),
    }
}
